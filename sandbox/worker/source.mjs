// What every tool does to a source before it parses it.

/** JSX pragmas would change the runtime or name a package; the byte is replaced, so no position moves. */
export const withoutPragmas = (source) => source.replace(/@(?=jsx(?:Runtime|ImportSource|Frag)?(?![\w$]))/g, " ");
