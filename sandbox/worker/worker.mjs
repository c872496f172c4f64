// The compile worker: one candidate at a time, over the frames of frames.mjs.
//
// A candidate is text that is parsed, resolved, linked and looked at; it is never run, and nothing
// that it names is ever opened.
//
// Request: {source, bundle?, places?}. Reply: {status, reason?, diagnostics?, facts?}, and with
// `bundle: true` where the status is ok: `code`, the bundle as an ES module with the component as its
// default export; `packages`, the scripts of vendor/ that must be loaded before it, in their order;
// `classes`, the words of the source that may be Tailwind's. With `places: true` each element of the
// bundle is made with its line and column in the source (see visual.mjs).

import { readFileSync } from "node:fs";
import { analyse } from "./analyse.mjs";
import { tooDeep } from "./depth.mjs";
import { serve } from "./frames.mjs";
import { Shims } from "./shims.mjs";
import { withoutPragmas } from "./source.mjs";

// esbuild's service is a child of ours: it inherits these and nothing else.
process.env.GOMAXPROCS = "2";
process.env.GOMEMLIMIT = "256MiB";
process.env.GOGC = "400"; // a build leaves megabytes and never needs them again

const esbuild = await import("esbuild");

const MAX_DIAGNOSTICS = 20;
const MAX_MESSAGE_CHARS = 300;
const MAX_BUNDLE_BYTES = 768 * 1024; // as it is sent; a reply may have 1 MiB
const MAX_CLASSES = 2000;
const MAX_CLASS_CHARS = 200;

const vendored = JSON.parse(readFileSync(new URL("./vendor/names.json", import.meta.url), "utf8"));
const shims = new Shims(vendored.modules);
const PACKAGES = shims.specifiers.filter((each) => !/jsx/.test(each)).join(", ");
const SCRIPT_OF = new Map();
for (const [script, { modules }] of Object.entries(vendored.scripts))
  for (const specifier of modules) SCRIPT_OF.set(specifier, script);

/** Resolves the packages and denies all else; `shim` gives a package's stand-in. */
const closedWorld = (shim) => ({
  name: "botgrpo",
  setup(build) {
    build.onResolve({ filter: /.*/ }, (args) => {
      const plain = Object.keys(args.with ?? {}).length === 0 && args.kind !== "require-resolve";
      if (args.path === "") return { path: "(empty)", namespace: "denied", warnings: [{ text: "an empty specifier" }] };
      if (shims.has(args.path) && plain) return { path: args.path, namespace: "shim", sideEffects: false };
      // A warning rather than an error: esbuild puts the specifier's place on it and goes on to link.
      const text = `cannot resolve "${args.path}": only ${PACKAGES} can be imported`;
      return { path: args.path, namespace: "denied", warnings: [{ text }] };
    });
    build.onLoad({ filter: /.*/, namespace: "shim" }, ({ path }) => ({ contents: shim(path), loader: "js" }));
    // CommonJS, so that no name imported from it can be missing.
    build.onLoad({ filter: /.*/ }, () => ({ contents: "module.exports = {}", loader: "js" }));
  },
});

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
  // As the toolchains of such apps have it.
  define: { "process.env.NODE_ENV": '"production"', "process.env": "{}" },
};

function build(source, jsxDev, shim) {
  const stdin = { contents: withoutPragmas(source), loader: "tsx", sourcefile: "candidate.tsx" };
  return esbuild.build({ ...OPTIONS, jsxDev, stdin, plugins: [closedWorld(shim)] });
}

async function compile(source, wanted, places) {
  const depth = tooDeep(source);
  if (depth) return { status: "too_large", reason: depth };
  let built;
  try {
    built = await build(source, places, (path) => shims.text(path, source));
  } catch (failure) {
    if (!failure.errors) throw failure; // esbuild itself is gone: not the candidate's doing
    return classify(failure.errors, failure.warnings);
  }
  const { status, diagnostics } = classify([], built.warnings);
  const output = Object.values(built.metafile.outputs)[0];
  // `module.exports = App` gets a default export from the bundler; the candidate wrote none.
  const commonjs = built.metafile.inputs["candidate.tsx"]?.format === "cjs";
  const hasDefault = output.exports.includes("default") && !commonjs;
  const code = built.outputFiles[0].text;
  const { component, facts } = analyse(code);
  if (status) return { status, diagnostics, facts };
  if (!hasDefault) return { status: "no_default_export", reason: "the module has no default export", facts };
  if (!component.possible) return { status: "not_a_component", reason: component.reason, facts };
  if (!wanted) return { status: "ok", facts };
  // Known to link: now a package's thousands of names may stay out of the bundle.
  if (shims.openEnded(source)) built = await build(source, places, (path) => shims.object(path));
  return { ...mountable(built, source), facts };
}

/** The bundle as a page gets it, the vendor scripts that it needs in their order, its class tokens. */
function mountable(built, source) {
  const code = built.outputFiles[0].text;
  const bytes = JSON.stringify(code).replace(/[\u007f-\uffff]/g, "\\uxxxx").length;
  if (bytes > MAX_BUNDLE_BYTES) return { status: "too_large", reason: `a bundle of ${bytes} bytes` };
  const needed = new Set(["react", "react-dom"]); // whatever mounts it needs these
  for (const [path, { bytesInOutput }] of Object.entries(Object.values(built.metafile.outputs)[0].inputs))
    if (bytesInOutput && path.startsWith("shim:")) needed.add(SCRIPT_OF.get(path.slice(5)));
  const packages = Object.keys(vendored.scripts).filter((script) => needed.has(script)).map((script) => `${script}.js`);
  return { status: "ok", code, packages, classes: classTokens(source) };
}

// A value in brackets may hold quotes; all else ends at one, at a blank, and where a template goes on.
const WORD = /[^\s"'`{}$[\]]*[-:]\[[^\s\]]*\][^\s"'`{}$]*|[^\s"'`{}$]+/g;
const NEAR_CHARS = 600;

/** Whatever could be a class, as Tailwind itself looks for them; what follows `className` comes first. */
function classTokens(source) {
  const found = new Set();
  const take = (text) => {
    for (const [token] of text.matchAll(WORD)) {
      if (found.size === MAX_CLASSES) return;
      if (token.length <= MAX_CLASS_CHARS && /^[a-z@*!\-[][^;<\\]*$/.test(token)) found.add(token);
    }
  };
  // Tailwind resets what browsers draw by themselves: not for a component that has no classes.
  const places = [...source.matchAll(/\bclassName\b/g)].map(({ index }) => index + "className".length);
  for (const at of places) take(source.slice(at, at + NEAR_CHARS));
  if (places.length) take(source);
  return [...found];
}

async function greet() {
  await esbuild.transform(""); // the service is up before the first candidate comes
  return { node: process.version, ...vendored.versions };
}

await serve(greet, ({ source, bundle, places }) => compile(source, bundle === true, places === true));
