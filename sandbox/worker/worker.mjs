// The compile worker: one candidate at a time, over the frames of frames.mjs.
//
// A candidate is text that is parsed, resolved, linked and looked at; it is never run, and nothing
// that it names is ever opened.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { analyse } from "./analyse.mjs";
import { tooDeep } from "./depth.mjs";
import { serve } from "./frames.mjs";

// esbuild's service is a child of ours: it inherits these and nothing else.
process.env.GOMAXPROCS = "2";
process.env.GOMEMLIMIT = "256MiB";

const require = createRequire(import.meta.url);
const esbuild = await import("esbuild");

const MAX_DIAGNOSTICS = 20;
const MAX_MESSAGE_CHARS = 300;
const ALLOWED = ["react", "react-dom", "react-dom/client", "react/jsx-runtime", "react/jsx-dev-runtime"];

/** An ES module with the real export names of a package: a name that is not there is a link error. */
function shim(specifier) {
  const stem = `__bg_${specifier.replace(/\W/g, "_")}_`;
  const names = Object.keys(require(specifier)).filter((name) => /^[A-Za-z_$][\w$]*$/.test(name));
  const exports = [...new Set(["default", ...names])];
  return (
    `var ${exports.map((name) => `${stem}${name} = 0`).join(", ")};\n` +
    `export { ${exports.map((name) => `${stem}${name} as ${name}`).join(", ")} };\n`
  );
}

const SHIMS = new Map(ALLOWED.map((specifier) => [specifier, shim(specifier)]));

const closedWorld = {
  name: "botgrpo",
  setup(build) {
    build.onResolve({ filter: /.*/ }, (args) => {
      const plain = Object.keys(args.with ?? {}).length === 0 && args.kind !== "require-resolve";
      if (args.path === "") return { path: "(empty)", namespace: "denied", warnings: [{ text: "an empty specifier" }] };
      if (SHIMS.has(args.path) && plain) return { path: args.path, namespace: "shim", sideEffects: false };
      // A warning rather than an error: esbuild puts the specifier's place on it and goes on to link.
      const text = `cannot resolve "${args.path}": only ${ALLOWED.join(", ")} can be imported`;
      return { path: args.path, namespace: "denied", warnings: [{ text }] };
    });
    build.onLoad({ filter: /.*/, namespace: "shim" }, (args) => ({ contents: SHIMS.get(args.path), loader: "js" }));
    // CommonJS, so that no name imported from it can be missing.
    build.onLoad({ filter: /.*/ }, () => ({ contents: "module.exports = {}", loader: "js" }));
  },
};

/** JSX pragmas would change the runtime or name a package; the byte is replaced, so no position moves. */
const withoutPragmas = (source) => source.replace(/@(?=jsx(?:Runtime|ImportSource|Frag)?(?![\w$]))/g, " ");

const place = (location) =>
  location && { line: location.line, column: location.column, length: location.length };

function diagnostic(message, kind, text) {
  const notes = message.notes.filter((note) => note.location?.file === "candidate.tsx");
  return {
    kind,
    message: text.slice(0, MAX_MESSAGE_CHARS),
    place: message.location?.file === "candidate.tsx" ? place(message.location) : null,
    notes: notes.slice(0, 4).map((note) => place(note.location)),
  };
}

function classify(errors, warnings) {
  const found = [];
  for (const error of errors) {
    const missing = /^No matching export in "shim:([^"]*)" for import "([^"]*)"/.exec(error.text);
    if (missing) found.push(diagnostic(error, "link", `"${missing[1]}" has no export named "${missing[2]}"`));
    else if (/^Could not resolve /.test(error.text)) found.push(diagnostic(error, "resolve", error.text));
    else found.push(diagnostic(error, "syntax", error.text));
  }
  for (const warning of warnings)
    if (warning.pluginName === "botgrpo") found.push(diagnostic(warning, "resolve", warning.text));
  const order = ["syntax", "resolve", "link"];
  const status = order.find((kind) => found.some((each) => each.kind === kind));
  found.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  return { status, diagnostics: found.slice(0, MAX_DIAGNOSTICS) };
}

// Warnings about legal code: unread, and 40,000 of them with their source lines are a memory bomb.
const SILENT = [
  "call-import-namespace", "class-name-will-throw", "commonjs-variable-in-esm", "delete-super-property",
  "direct-eval", "duplicate-case", "duplicate-class-member", "duplicate-object-key", "empty-import-meta",
  "equals-nan", "equals-negative-zero", "equals-new-object", "html-comment-in-js", "impossible-typeof",
  "import-is-undefined", "indirect-require", "private-name-will-throw", "semicolon-after-return",
  "suspicious-boolean-not", "suspicious-logical-operator", "suspicious-nullish-coalescing",
  "this-is-undefined-in-esm", "unsupported-dynamic-import", "unsupported-jsx-comment",
  "unsupported-regexp", "unsupported-require-call",
];

const OPTIONS = {
  bundle: true,
  write: false,
  metafile: true,
  format: "esm",
  target: "es2022", // lowers what the analysis below cannot read, such as decorators
  charset: "utf8",
  platform: "neutral",
  mainFields: [],
  jsx: "automatic",
  tsconfigRaw: "{}",
  logLevel: "silent",
  logOverride: Object.fromEntries(SILENT.map((id) => [id, "silent"])),
  legalComments: "none",
  plugins: [closedWorld],
};

async function compile(source) {
  const depth = tooDeep(source);
  if (depth) return { status: "too_large", reason: depth };
  const stdin = { contents: withoutPragmas(source), loader: "tsx", sourcefile: "candidate.tsx" };
  let built;
  try {
    built = await esbuild.build({ ...OPTIONS, stdin });
  } catch (failure) {
    if (!failure.errors) throw failure; // esbuild itself is gone: not the candidate's doing
    return classify(failure.errors, failure.warnings);
  }
  const { status, diagnostics } = classify([], built.warnings);
  const output = Object.values(built.metafile.outputs)[0];
  // `module.exports = App` gets a default export from the bundler; the candidate wrote none.
  const commonjs = built.metafile.inputs["candidate.tsx"]?.format === "cjs";
  const hasDefault = output.exports.includes("default") && !commonjs;
  const { component, facts } = analyse(built.outputFiles[0].text);
  if (status) return { status, diagnostics, facts };
  if (!hasDefault) return { status: "no_default_export", reason: "the module has no default export", facts };
  if (!component.possible) return { status: "not_a_component", reason: component.reason, facts };
  return { status: "ok", facts };
}

async function greet() {
  const react = JSON.parse(readFileSync(new URL("./node_modules/react/package.json", import.meta.url), "utf8"));
  await esbuild.transform(""); // the service is up before the first candidate comes
  return { node: process.version, esbuild: esbuild.version, react: react.version };
}

await serve(greet, ({ source }) => compile(source));
