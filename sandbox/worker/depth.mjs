// A cheap look at nesting before any parser sees the source: recursion is what kills parsers.

const MAX_DEPTH = 1000;
const MAX_LOOSE_TAGS = 2000;
const MAX_CHAIN = 10000;
const ARROW = 20;

const set = (text) => new Set([...text].map((c) => c.charCodeAt(0)));
const OPEN = set("([{");
const CLOSE = set(")]}");
const ENDS_CHAIN = set(";{}");
const LINKS = set("+-*/%&|^!~=?.,(");
const [LESS, SLASH, GREATER, COMMA, SQUARE] = [..."</>,["].map((c) => c.charCodeAt(0));

/**
 * Says what is nested too deeply, or returns null.
 *
 * Linear and without parsing, so strings count like code. Chains (`a.b.b`, `1+1+1`, `!!!!x`) nest in
 * the tree though no bracket shows it; the commas of an array do not.
 */
export function tooDeep(source) {
  const open = [];
  let tags = 0;
  let loose = 0; // also counts `a<b`, which is a tag only in the middle of text
  let chain = 0;
  for (let i = 0; i < source.length; i++) {
    const c = source.charCodeAt(i);
    if (LINKS.has(c) && !(c === COMMA && open.at(-1) === SQUARE)) {
      chain += source.startsWith("=>", i) ? ARROW : 1; // arrows cost the parser more than all others
      if (chain > MAX_CHAIN) return `more than ${MAX_CHAIN} operators in one expression`;
    } else if (ENDS_CHAIN.has(c)) chain = 0;
    if (OPEN.has(c)) {
      if (open.push(c) > MAX_DEPTH) return `brackets nest deeper than ${MAX_DEPTH}`;
    } else if (CLOSE.has(c)) open.pop();
    else if (c === LESS) {
      const next = source.charCodeAt(i + 1);
      if (next === GREATER || isWord(next)) {
        loose++;
        if (!isWord(source.charCodeAt(i - 1))) tags++;
        if (tags > MAX_DEPTH || loose > MAX_LOOSE_TAGS) return `tags nest deeper than ${MAX_DEPTH}`;
      } else if (next === SLASH) [tags, loose] = [Math.max(0, tags - 1), Math.max(0, loose - 1)];
    } else if (c === SLASH && source.charCodeAt(i + 1) === GREATER)
      [tags, loose] = [Math.max(0, tags - 1), Math.max(0, loose - 1)];
  }
  return null;
}

const isWord = (c) => (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || (c >= 48 && c <= 57) || c === 95 || c === 36;
