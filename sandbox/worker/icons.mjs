// lucide-react for a page: two thousand icons as text, each made when it is first asked for.
//
// To make all of them at each page costs a tenth of a second, and a page uses a few.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

/** Runs in the page. `rows[i]` is the JSON of an icon; several names may share one. */
const lazyIcons = (rows, create) => {
  const made = [];
  const icon = (row) => (made[row] ??= create(JSON.parse(rows[row])));
  return (names, others) => {
    const has = (_, name) => Object.hasOwn(names, name) || Object.hasOwn(others, name);
    const get = (_, name) => (Object.hasOwn(names, name) ? icon(names[name]) : others[name]);
    return new Proxy(Object.create(null), {
      has,
      get,
      ownKeys: () => [...Object.keys(names), ...Object.keys(others)],
      getOwnPropertyDescriptor: (_, name) =>
        has(_, name) ? { value: get(_, name), enumerable: true, configurable: true } : undefined,
      set: () => false,
      deleteProperty: () => false,
      defineProperty: () => false,
    });
  };
};

/** The text of a module whose default export has what the package exports. */
export function lazyIconsText() {
  const all = require("lucide-react");
  const components = [...new Set(Object.values(all.icons))];
  const rows = components.map((component) => JSON.stringify(component.render({}, null).props.icon));
  const rowOf = new Map(components.map((component, row) => [component, row]));
  const named = (exported) =>
    Object.fromEntries(Object.keys(exported).filter((name) => rowOf.has(exported[name])).map((name) => [name, rowOf.get(exported[name])]));
  const others = Object.keys(all).filter((name) => !rowOf.has(all[name]) && name !== "icons");
  const json = (value) => `JSON.parse(${JSON.stringify(JSON.stringify(value))})`;
  return (
    `import { ${others.join(", ")} } from "lucide-react";\n` +
    `const lazy = (${lazyIcons})(${JSON.stringify(rows)}, createLucideIcon);\n` +
    `const icons = lazy(${json(named(all.icons))}, {});\n` +
    `export default lazy(${json(named(all))}, { icons, ${others.join(", ")} });\n`
  );
}
