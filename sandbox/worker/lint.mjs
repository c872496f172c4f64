// ESLint on one source: the rules whose breach makes a page fail or misbehave.

import { createRequire } from "node:module";
import { worded } from "./typescript.mjs";

const { FlatConfigArray, Linter, parser, hooks, globals, rules } = createRequire(import.meta.url)("./vendor/eslint.cjs");

const ERRORS = [
  "constructor-super", "getter-return", "no-class-assign", "no-const-assign", "no-dupe-args", "no-dupe-class-members",
  "no-dupe-keys", "no-func-assign", "no-import-assign", "no-invalid-regexp", "no-new-native-nonconstructor", "no-obj-calls",
  "no-setter-return", "no-this-before-super", "no-undef", "no-unsafe-optional-chaining", "use-isnan", "valid-typeof",
];
const WARNINGS = [
  "no-compare-neg-zero", "no-cond-assign", "no-constant-binary-expression", "no-constant-condition", "no-debugger",
  "no-dupe-else-if", "no-duplicate-case", "no-empty-pattern", "no-ex-assign", "no-fallthrough", "no-loss-of-precision",
  "no-self-assign", "no-self-compare", "no-sparse-arrays", "no-unreachable", "no-unreachable-loop", "no-unsafe-finally",
  "no-unsafe-negation", "no-unused-labels", "no-unused-vars",
];
const SETTINGS = {
  // A parameter has a place to keep, and React was needed for JSX once.
  "no-unused-vars": [{ args: "none", caughtErrors: "none", ignoreRestSiblings: true, varsIgnorePattern: "^(React|_)" }],
  "no-constant-condition": [{ checkLoops: false }],
};

// ESLint checks a rule's options with code that it generates, which this process may not: ours are fixed.
const plain = (rule) => ({ ...rule, meta: { ...rule.meta, schema: false } });
const severities = [...ERRORS.map((name) => [name, 2]), ...WARNINGS.map((name) => [name, 1])];
const core = Object.fromEntries(severities.map(([name]) => [name, plain(rules.get(name))]));
const react = Object.fromEntries(Object.entries(hooks.rules).map(([name, rule]) => [name, plain(rule)]));

let parsed; // of the source at work: one parse serves TypeScript and ESLint
const config = new FlatConfigArray([
  {
    files: ["**"],
    languageOptions: {
      globals: { ...globals.es2025, ...globals.browser },
      parser: { meta: { name: "parsed", version: "1" }, parseForESLint: () => parsed },
      sourceType: "module",
    },
    linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: "off" },
    plugins: { core: { rules: core }, "react-hooks": { rules: react } },
    rules: {
      ...Object.fromEntries(severities.map(([name, level]) => [`core/${name}`, [level, ...(SETTINGS[name] ?? [])]])),
      "react-hooks/rules-of-hooks": 2,
      "react-hooks/exhaustive-deps": 1,
    },
  },
]);
config.normalizeSync();
const linter = new Linter({ configType: "flat" });
const PARSING = {
  range: true, loc: true, tokens: true, comment: true, sourceType: "module", jsx: true, ecmaFeatures: { jsx: true },
  lib: ["esnext", "dom", "dom.iterable"], filePath: "candidate.tsx",
};

/** Where names stand only for types: not there, they harm nothing at run time. */
function typeOnly({ scopeManager }) {
  const types = scopeManager.globalScope.through.filter((ref) => ref.isTypeReference && !ref.isValueReference);
  return new Set(types.map((ref) => ref.identifier.range[0]));
}

/** Where members of enums stand: used by way of the enum. */
function enumMembers({ scopeManager }) {
  const enums = scopeManager.scopes.filter(({ type }) => type === "tsEnum");
  return new Set(enums.flatMap(({ block }) => block.body.members.map(({ id }) => id.range[0])));
}

/**
 * [{rule, severity: "fatal" | "error" | "warning", message, start, end}], in UTF-16 offsets of `text`.
 *
 * `file` is the tree of the text; `places` its lines. Throws RangeError where it is nested too deeply.
 */
export function lint(file, text, places) {
  const [broken] = file.parseDiagnostics;
  if (broken) return [fatal(worded(broken).message, broken.start, broken.start + broken.length)];
  try {
    parsed = parser.parseForESLint(file, PARSING);
  } catch (failure) {
    if (!failure.location) throw failure;
    return [fatal(failure.message, failure.location.start.offset, failure.location.end.offset)];
  }
  const innocent = { "no-undef": typeOnly(parsed), "no-unused-vars": enumMembers(parsed) };
  return linter
    .verify(text, config, "candidate.tsx")
    .filter(({ ruleId }) => ruleId) // the others only say that a comment gave an order in vain
    .map((found) => {
      const start = places.offset(found.line, found.column);
      const end = found.endLine ? places.offset(found.endLine, found.endColumn) : start + 1;
      const rule = found.ruleId.replace(/^core\//, "");
      const message = found.message.replace(/ Allowed unused vars must match.*$/s, "");
      return { rule, severity: found.severity === 2 ? "error" : "warning", message, start, end };
    })
    .filter(({ rule, start }) => !innocent[rule]?.has(start));
}

const fatal = (message, start, end) => ({ rule: "parse", severity: "fatal", message, start, end });
