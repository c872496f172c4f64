// What tools share about a source: comments that are orders are taken out, offsets become places.

/** JSX pragmas would change the runtime or name a package; the byte is replaced, so no position moves. */
export const withoutPragmas = (source) => source.replace(/@(?=jsx(?:Runtime|ImportSource|Frag)?(?![\w$]))/g, " ");

/** Nor may a source tell TypeScript what to overlook. A byte-order mark becomes a blank: tools count it in two ways. */
export const withoutOrders = (source) =>
  withoutPragmas(source).replace(/@(?=ts-(?:ignore|nocheck|check|expect-error))|^\ufeff/g, " ");

const LINE_END = /\r\n|[\n\r\u2028\u2029]/g;

/** Offsets and lengths of a source, in UTF-16 units, as {line from 1, column from 0, length}. */
export class Places {
  constructor(source) {
    this.size = source.length;
    this.starts = [0];
    for (const end of source.matchAll(LINE_END)) this.starts.push(end.index + end[0].length);
  }

  /** The place of [start, end); both are brought into the source. */
  at(start, end) {
    const from = Math.min(Math.max(start, 0), this.size);
    let [low, high] = [0, this.starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= from) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: from - this.starts[low], length: Math.max(0, Math.min(end, this.size) - from) };
  }

  /** The offset of a place that a tool gave with line and column from 1. */
  offset(line, column) {
    const index = Math.min(Math.max(line, 1), this.starts.length) - 1;
    return this.starts[index] + Math.max(column, 1) - 1;
  }
}
