// TypeScript over many sources at once: one program a batch, its libraries parsed once.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export const ts = createRequire(import.meta.url)("typescript");

const LIBRARY = fileURLToPath(new URL("./node_modules/typescript/lib/", import.meta.url));
const TYPES = fileURLToPath(new URL("./vendor/types/", import.meta.url));

// Lenient where generated code is careless and still runs; what fails at run time is reported all the same.
const OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  moduleDetection: ts.ModuleDetectionKind.Force,
  jsx: ts.JsxEmit.ReactJSX,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  types: [],
  strict: false,
  esModuleInterop: true,
  allowUmdGlobalAccess: false,
  experimentalDecorators: true,
  noEmit: true,
  skipLibCheck: true,
  skipDefaultLibCheck: true,
  stableTypeOrdering: true, // or messages depend on what was checked before
};

const parsed = new Map(); // libraries and declarations by path

function library(path) {
  if (!parsed.has(path)) {
    if (!existsSync(path)) return undefined; // a candidate may name what is not there
    parsed.set(path, ts.createSourceFile(path, readFileSync(path, "utf8"), OPTIONS.target));
  }
  return parsed.get(path);
}

const modules = new Map();
const declarations = (name) => `${TYPES}${name.replace(/\W/g, "_")}.d.ts`;

/** `names` are the modules that may be imported. */
export function allow(names) {
  for (const name of [...names, "csstype"])
    modules.set(name, { resolvedFileName: declarations(name), extension: ".d.ts", isExternalLibraryImport: true });
}

/** Parse only; throws RangeError where a source is nested too deeply for it. */
export const parse = (path, source) => ts.createSourceFile(path, source, PARSING, true, ts.ScriptKind.TSX);

// Every source is a module: a script's names would be seen by its neighbours.
const PARSING = {
  languageVersion: OPTIONS.target,
  setExternalModuleIndicator: (file) => (file.externalModuleIndicator ??= true),
};

/** Whether it could change what others see: augmentations, and orders to load something. */
export function reaches(file) {
  const orders = [file.referencedFiles, file.typeReferenceDirectives, file.libReferenceDirectives, file.amdDependencies];
  if (file.hasNoDefaultLib || orders.some((each) => each.length)) return true;
  const found = (node) => ts.isNamespaceExportDeclaration(node) || ambient(node) || ts.forEachChild(node, found);
  return Boolean(found(file));
}

/** `declare module "x"` and `declare global`. */
const ambient = (node) =>
  ts.isModuleDeclaration(node) && (ts.isStringLiteral(node.name) || Boolean(node.flags & ts.NodeFlags.GlobalAugmentation));

const ours = (path) => path.startsWith(LIBRARY) || path.startsWith(TYPES);

const host = (files) => ({
  getSourceFile: (path) => files.get(path) ?? (ours(path) ? library(path) : undefined),
  fileExists: (path) => files.has(path) || parsed.has(path),
  readFile: () => undefined,
  getDefaultLibFileName: () => `${LIBRARY}lib.d.ts`,
  getDefaultLibLocation: () => LIBRARY,
  writeFile: () => {},
  getCurrentDirectory: () => "/",
  getCanonicalFileName: (path) => path,
  useCaseSensitiveFileNames: () => true,
  getNewLine: () => "\n",
  resolveModuleNameLiterals: (literals) => literals.map(({ text }) => ({ resolvedModule: modules.get(text) })),
});

let previous;

/** The semantic diagnostics of each file (a map from path to parsed source), by path. */
export function check(files) {
  const program = ts.createProgram([...files.keys()], OPTIONS, host(files), previous);
  previous = program;
  return new Map([...files].map(([path, file]) => [path, program.getSemanticDiagnostics(file)]));
}

/**
 * {code, message}: the first sentence of what is wrong.
 *
 * Ten times a program TypeScript guesses which name was meant, then no more; `canonicalHead` is the
 * sentence without the guess, so that a neighbour's misspellings change nothing.
 */
export function worded(diagnostic) {
  const { code, messageText } = diagnostic.canonicalHead ?? diagnostic;
  return { code, message: typeof messageText === "string" ? messageText : messageText.messageText };
}
