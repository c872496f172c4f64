// Tailwind without a network: the style sheet for a candidate's classes.
//
// Only class names come from the candidate, and of those only what can neither load anything nor
// leave its rule. Every call starts from the same empty state: Tailwind's own object remembers.

import { readFileSync } from "node:fs";
import { compile } from "./vendor/tailwindcss.mjs";

const INPUT = readFileSync(new URL("./vendor/tailwind.css", import.meta.url), "utf8");
const MAX_CLASSES = 2000;
const MAX_CLASS_CHARS = 200;
const CHUNK = 100;
const MAX_SHEET_CHARS = 512 * 1024;
const CLASS = /^[-@!*\w[][-\w[\]():/.,%#!*&>+~='|^$@\u00a1-\uffff]*$/;
// What loads (no escapes are left that could spell it otherwise), at-rules beyond the three harmless ones.
const LOADS = /(?:url|src|image|image-set|cross-fade|element|paint)\(|\/\/|\/\*|\[@(?!media|supports|container)/i;
// Each of these may repeat the whole rule so far: a dozen in a row make a sheet of gigabytes.
const MAX_VARIANTS = 5;
const REPEATS = /&|marker|selection/g;
const MAX_REPEATS = 3;

function harmless(token) {
  if (typeof token !== "string" || token.length > MAX_CLASS_CHARS) return false;
  const times = (pattern) => token.match(pattern)?.length ?? 0;
  return CLASS.test(token) && !LOADS.test(token) && times(/:/g) <= MAX_VARIANTS && times(REPEATS) <= MAX_REPEATS;
}

/** The style sheet: Tailwind's reset and theme, and a rule for each class that it knows. */
export async function css(classes) {
  const { build } = await compile(INPUT);
  let sheet = build([]);
  const tokens = [...new Set(classes)].filter(harmless).slice(0, MAX_CLASSES);
  for (let i = 0; i < tokens.length; i += CHUNK) {
    const longer = build(tokens.slice(i, i + CHUNK)); // with all rules that came before
    if (longer.length > MAX_SHEET_CHARS) break;
    sheet = longer;
  }
  return sheet;
}
