// The packages that may be imported: their export names, and modules that stand for them.
//
// A classic script puts the namespaces of its packages on a global registry: `__botgrpo[specifier]`
// (see vendor.mjs). A bundle takes from it only what it uses, by `__botgrpo(specifier, name)`: a pure
// call, so that the bundler drops the rest, and a name that is not there is a link error.

const PLAIN = /^[A-Za-z_$][\w$]*$/;
const FEW = 20;
const THOUSANDS = 200;
const UNSPELT = ["default", "createElement"]; // imported without being named: the latter by some JSX
const WORDS = /[A-Za-z_$][\w$]*/g;
// Where names may be used that the text does not spell out: all of them are then offered.
const OPEN_ENDED = /\*\s*as\b|\bexport\s*\*|\bimport\s*\(|\brequire\b|\\u/;

/** The text of a module that exports these names of a package, as `__bg_<package>$<name>`. */
export function shimText(specifier, names) {
  const stem = `__bg_${specifier.replace(/\W/g, "_")}$`;
  const plain = names.filter((name) => PLAIN.test(name));
  const from = JSON.stringify(specifier);
  return (
    plain.map((name) => `var ${stem}${name} = /* @__PURE__ */ __botgrpo(${from}, "${name}");\n`).join("") +
    `export { ${plain.map((name) => `${stem}${name} as ${name}`).join(", ")} };\n`
  );
}

/** Shim texts by specifier; `catalogue` is the `modules` of vendor/names.json. */
export class Shims {
  constructor(catalogue) {
    this.whole = new Map();
    this.names = new Map();
    for (const [specifier, names] of Object.entries(catalogue)) {
      this.whole.set(specifier, shimText(specifier, names));
      if (names.length > FEW) this.names.set(specifier, new Set(names));
    }
    this.specifiers = [...this.whole.keys()];
    this.large = this.specifiers.filter((specifier) => catalogue[specifier].length > THOUSANDS);
  }

  has(specifier) {
    return this.whole.has(specifier);
  }

  /** Whether the source might use names of a large package that it does not spell out. */
  openEnded(source) {
    return OPEN_ENDED.test(source) && this.large.some((specifier) => source.includes(specifier));
  }

  /** Of a package with many names only those that occur in the source, unless all might be used. */
  text(specifier, source) {
    const names = this.names.get(specifier);
    if (!names || OPEN_ENDED.test(source)) return this.whole.get(specifier);
    const used = new Set(UNSPELT.filter((name) => names.has(name)));
    for (const [word] of source.matchAll(WORDS)) if (names.has(word)) used.add(word);
    return shimText(specifier, [...used]);
  }

  /** A large package as one object: short in a bundle, but no missing name is noticed. */
  object(specifier) {
    if (!this.large.includes(specifier)) return this.whole.get(specifier);
    return `module.exports = { __esModule: true, ...__botgrpo[${JSON.stringify(specifier)}] };`;
  }
}
