// Run once after `npm ci`: turns the packages that may be imported into what the workers need.
//
//   vendor/<script>.js   classic scripts for a page, each with its modules on the global registry
//   vendor/names.json    what may be imported, with every export name, its script, all versions
//   vendor/eslint.cjs, vendor/tailwindcss.mjs, vendor/tailwind.css, vendor/axe.js, vendor/types/
//
// Then it removes from node_modules all that no worker loads.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { lazyIconsText } from "./icons.mjs";
import { shimText } from "./shims.mjs";
import { writeTypes } from "./types.mjs";

const require = createRequire(import.meta.url);
const HERE = fileURLToPath(new URL(".", import.meta.url));

// Script to the modules in it, in the order of loading: each may use those before it.
const SCRIPTS = {
  react: ["react", "react/jsx-runtime", "react/jsx-dev-runtime"],
  "react-dom": ["react-dom", "react-dom/client"],
  clsx: ["clsx"],
  "tailwind-merge": ["tailwind-merge"],
  "lucide-react": ["lucide-react"],
  "framer-motion": ["framer-motion", "motion/react"],
  recharts: ["recharts"],
};
// One copy of these serves all others: two would be two worlds of hooks.
const SHARED = ["react", "react-dom"];
// What a page would take long to evaluate as its authors wrote it.
const STAND_INS = { "lucide-react": lazyIconsText };
const KEPT = ["acorn", "esbuild", "@esbuild", "typescript"];
const PUBLISHED = ["esbuild", "typescript", "eslint", "tailwindcss", "react", "react-dom", "lucide-react", "recharts"];
PUBLISHED.push("framer-motion", "motion", "clsx", "tailwind-merge", "axe-core");

const REGISTRY = "const take = (specifier, name) => take[specifier][name];\nglobalThis.__botgrpo ??= take;\n";

const modules = {};

/** Bundles of one script see the modules of earlier shared scripts as shims. */
const shared = (own, needs) => ({
  name: "shared",
  setup(setup) {
    setup.onResolve({ filter: /^react(-dom)?(\/[\w-]+)?$/ }, ({ path }) => {
      const script = path.split("/")[0];
      if (script === own || !SHARED.includes(script)) return null;
      if (!modules[path]) return { errors: [{ text: `${path} is used by ${own} and not vendored` }] };
      needs.add(script);
      return { path, namespace: "shim" };
    });
    setup.onLoad({ filter: /.*/, namespace: "shim" }, ({ path }) => ({ contents: shimText(path, modules[path]) }));
  },
});

// The development build of React: slower, but its errors are sentences instead of numbers.
const options = (script) => ({
  bundle: true,
  platform: "browser",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "eof",
  logLevel: "warning",
  define: { "process.env.NODE_ENV": SHARED.includes(script) ? '"development"' : '"production"' },
});

/** The names that `import { ... }` finds: of an ES module from the bundler, of CommonJS by loading it. */
async function exportNames(specifier, script, plugins) {
  const from = JSON.stringify(specifier);
  const exported = async (contents) => {
    const stdin = { contents, resolveDir: HERE };
    const quiet = { ...options(script), logLevel: "silent", plugins, format: "esm", write: false, metafile: true };
    const { metafile } = await build({ ...quiet, stdin });
    return Object.values(metafile.outputs)[0].exports;
  };
  const names = await exported(`export * from ${from};`);
  if (!names.length) return ["default", ...Object.keys(require(specifier))];
  return exported(`export * from ${from};\nexport { default } from ${from};`).catch(() => names);
}

const standIns = {
  name: "stand-ins",
  setup(setup) {
    setup.onResolve({ filter: /^stand-in:/ }, ({ path }) => ({ path: path.slice(9), namespace: "stand-in" }));
    setup.onLoad({ filter: /.*/, namespace: "stand-in" }, ({ path }) => ({ contents: STAND_INS[path](), resolveDir: HERE }));
  },
};

async function writeScript(script) {
  const needs = new Set();
  const plugins = [shared(script, needs), standIns];
  const specifiers = SCRIPTS[script];
  for (const specifier of specifiers) modules[specifier] = (await exportNames(specifier, script, plugins)).sort();
  const imported = (each, i) => (STAND_INS[each] ? `m${i} from "stand-in:${each}";` : `* as m${i} from "${each}";`);
  const text = specifiers.map((each, i) => `import ${imported(each, i)}`).join("\n");
  const puts = specifiers.map((each, i) => `__botgrpo[${JSON.stringify(each)}] = m${i};`).join("\n");
  const stdin = { contents: text + REGISTRY + puts, resolveDir: HERE };
  await build({ ...options(script), stdin, plugins, format: "iife", outfile: join(HERE, "vendor", `${script}.js`) });
  return [...needs];
}

/** What runs in Node and not in a page. */
async function writeTools() {
  const tools = { ...options("tools"), platform: "node", target: "node18" };
  await build({
    ...tools,
    stdin: {
      contents:
        'export { Linter } from "eslint/universal";\nexport * as parser from "@typescript-eslint/parser";\n' +
        'export { default as hooks } from "eslint-plugin-react-hooks";\nexport { default as globals } from "globals";\n' +
        'import rules from "./node_modules/eslint/lib/rules/index.js";\nexport { rules };\n' +
        'export { FlatConfigArray } from "./node_modules/eslint/lib/config/flat-config-array.js";\n',
      resolveDir: HERE,
    },
    format: "cjs",
    external: ["typescript"],
    outfile: join(HERE, "vendor", "eslint.cjs"),
  });
  const stdin = { contents: 'export { compile } from "tailwindcss";', resolveDir: HERE };
  await build({ ...tools, stdin, format: "esm", outfile: join(HERE, "vendor", "tailwindcss.mjs") });
  const css = readFileSync(require.resolve("tailwindcss/index.css"), "utf8");
  writeFileSync(join(HERE, "vendor", "tailwind.css"), css);
  writeFileSync(join(HERE, "vendor", "axe.js"), readFileSync(require.resolve("axe-core/axe.min.js")));
}

function prune() {
  const root = join(HERE, "node_modules");
  for (const name of readdirSync(root)) if (!KEPT.includes(name)) rmSync(join(root, name), { recursive: true });
  const library = join(root, "typescript", "lib");
  for (const name of readdirSync(library))
    if (!/^(typescript\.js|lib(\.[\w.]+)?\.d\.ts)$/.test(name)) rmSync(join(library, name), { recursive: true });
}

process.env.NODE_ENV = "development";
mkdirSync(join(HERE, "vendor"), { recursive: true });
const scripts = {};
for (const script of Object.keys(SCRIPTS)) scripts[script] = { modules: SCRIPTS[script], needs: await writeScript(script) };
await writeTools();
writeTypes(join(HERE, "vendor", "types"), modules, HERE);
const version = (name) => JSON.parse(readFileSync(join(HERE, "node_modules", name, "package.json"), "utf8")).version;
const versions = Object.fromEntries(PUBLISHED.map((name) => [name, version(name)]));
writeFileSync(join(HERE, "vendor", "names.json"), JSON.stringify({ versions, scripts, modules }));
if (process.argv[2] !== "--keep") prune();
