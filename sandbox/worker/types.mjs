// Declarations for the packages that may be imported: React's own, and for the others every name as `any`.
//
// The real declarations of the others are megabytes and would cost every program that checks a
// candidate. What matters here is which names exist, as values (names.json) and as types.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);

const REAL = {
  "react": "@types/react/index.d.ts",
  "react/jsx-runtime": "@types/react/jsx-runtime.d.ts",
  "react/jsx-dev-runtime": "@types/react/jsx-dev-runtime.d.ts",
  "react-dom": "@types/react-dom/index.d.ts",
  "react-dom/client": "@types/react-dom/client.d.ts",
  "csstype": "csstype/index.d.ts",
};
const PARAMETERS = "A = any, B = any, C = any, D = any, E = any";

/** The names that a package exports as types, by its real declarations. */
function typeNames(specifiers, home) {
  const ts = require("typescript");
  const entry = join(home, "entry.mts");
  const { ModuleResolutionKind, ModuleKind } = ts;
  const options = { moduleResolution: ModuleResolutionKind.Bundler, module: ModuleKind.ESNext, types: [] };
  const host = ts.createCompilerHost(options);
  const text = specifiers.map((each, i) => `import * as m${i} from ${JSON.stringify(each)};`).join("\n");
  const { getSourceFile, fileExists } = host;
  host.fileExists = (name) => name === entry || fileExists(name);
  host.getSourceFile = (name, version) =>
    name === entry ? ts.createSourceFile(name, text, version) : getSourceFile(name, version);
  const program = ts.createProgram([entry], options, host);
  const checker = program.getTypeChecker();
  const found = program.getSourceFile(entry).statements.map(({ moduleSpecifier }) => {
    const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(moduleSpecifier));
    const target = (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
    return exported.filter((symbol) => target(symbol).flags & ts.SymbolFlags.Type).map((symbol) => symbol.name);
  });
  return new Map(specifiers.map((each, i) => [each, found[i]]));
}

/** Fill the folder with one file for each module; `modules` names the exported values of each. */
export function writeTypes(folder, modules, home) {
  mkdirSync(folder, { recursive: true });
  const file = (specifier) => join(folder, `${specifier.replace(/\W/g, "_")}.d.ts`);
  const real = (path) => readFileSync(join(home, "node_modules", path), "utf8").replaceAll('from "./"', 'from "react"');
  for (const [specifier, path] of Object.entries(REAL)) writeFileSync(file(specifier), real(path));
  writeFileSync(join(folder, "global.d.ts"), real("@types/react/global.d.ts"));
  const others = Object.keys(modules).filter((specifier) => !(specifier in REAL));
  for (const [specifier, types] of typeNames(others, home)) {
    const values = modules[specifier].filter((name) => name !== "default");
    const text = [
      ...values.map((name) => `export declare const ${name}: any;`),
      ...types.filter((name) => name !== "default").map((name) => `export type ${name}<${PARAMETERS}> = any;`),
      modules[specifier].includes("default") ? "declare const whole: any;\nexport default whole;" : "",
    ];
    writeFileSync(file(specifier), text.join("\n"));
  }
}
