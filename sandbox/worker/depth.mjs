// A cheap look at nesting before any parser sees the source: recursion is what kills parsers.

const MAX_DEPTH = 1000;
const MAX_LOOSE_TAGS = 8000;

/** Says what is nested too deeply, or returns null. Linear, no parsing: strings count like code. */
export function tooDeep(source) {
  let brackets = 0;
  let tags = 0;
  let loose = 0; // also counts `a<b`, which is a tag only in the middle of text
  for (let i = 0; i < source.length; i++) {
    const c = source.charCodeAt(i);
    if (c === 40 || c === 91 || c === 123) {
      if (++brackets > MAX_DEPTH) return `brackets nest deeper than ${MAX_DEPTH}`;
    } else if (c === 41 || c === 93 || c === 125) {
      if (brackets > 0) brackets--;
    } else if (c === 60) {
      const next = source.charCodeAt(i + 1);
      if (next === 47) {
        if (tags > 0) tags--;
        if (loose > 0) loose--;
      } else if (next === 62 || isWord(next)) {
        loose++;
        if (!isWord(source.charCodeAt(i - 1))) tags++;
        if (tags > MAX_DEPTH || loose > MAX_LOOSE_TAGS) return `tags nest deeper than ${MAX_DEPTH}`;
      }
    } else if (c === 47 && source.charCodeAt(i + 1) === 62) {
      if (tags > 0) tags--;
      if (loose > 0) loose--;
    }
  }
  return null;
}

const isWord = (c) => (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || (c >= 48 && c <= 57) || c === 95 || c === 36;
