// The checker: TypeScript and ESLint on several sources at once, over the frames of frames.mjs.
//
// Request: {sources: [text]}. Reply: {status: "ok", results: [{status, findings}]}, one for each source:
// `checked`, or `too_large` with a reason and no findings. A finding is {tool, rule, severity, message,
// line, column, length}; line from 1, column from 0 and length in UTF-16 units. TypeScript's fatal ones
// are syntax errors, of which its parser finds all; with the argument `types` its checker follows.

import { readFileSync } from "node:fs";
import { tooDeep } from "./depth.mjs";
import { serve } from "./frames.mjs";
import { lint } from "./lint.mjs";
import { Places, withoutOrders } from "./source.mjs";
import { allow, check, parse, reaches, worded } from "./typescript.mjs";

const TYPES = process.argv[2] === "types";
const MAX_FINDINGS = 50;
const MAX_MESSAGE_CHARS = 300;

const vendored = JSON.parse(readFileSync(new URL("./vendor/names.json", import.meta.url), "utf8"));
allow(Object.keys(vendored.modules));

/** What parsers do with a tree that is too deep for them. */
function shallow(work, otherwise) {
  try {
    return work();
  } catch (failure) {
    if (failure instanceof RangeError) return otherwise;
    throw failure;
  }
}

/** One source on its way: its text as the tools see it, its tree, what was found. */
class Candidate {
  findings = [];

  constructor(source, index) {
    this.text = withoutOrders(source);
    this.path = `/candidate${index}.tsx`;
    this.reason = tooDeep(source);
    if (!this.reason) this.guarded(() => this.read());
  }

  /** Do it, unless the tree turns out to be nested too deeply for that. */
  guarded(work) {
    if (shallow(() => (work(), true), false)) return;
    this.reason = "nested too deeply";
    this.findings = [];
  }

  read() {
    this.places = new Places(this.text);
    this.file = parse(this.path, this.text);
    this.reaches = reaches(this.file);
    for (const { rule, severity, message, start, end } of lint(this.file, this.text, this.places))
      this.add("eslint", rule, severity, message, start, end);
    for (const each of this.file.parseDiagnostics) this.typescript("fatal", each);
  }

  errors(found) {
    for (const each of found.get(this.path)) this.typescript("error", each);
  }

  typescript(severity, diagnostic) {
    const { code, message } = worded(diagnostic);
    const { start = 0, length = 0 } = diagnostic;
    this.add("typescript", `TS${code}`, severity, message, start, start + length);
  }

  add(tool, rule, severity, message, start, end) {
    if (this.findings.length >= MAX_FINDINGS) return;
    const place = this.places.at(start, end);
    this.findings.push({ tool, rule, severity, message: message.slice(0, MAX_MESSAGE_CHARS), ...place });
  }

  result() {
    if (this.reason) return { status: "too_large", reason: this.reason, findings: [] };
    return { status: "checked", findings: this.findings };
  }
}

/** Types of those that cannot touch each other in one program, of every other in its own. */
function checkTypes(candidates) {
  const legible = candidates.filter((each) => !each.reason);
  const together = legible.filter((each) => !each.reaches);
  const found = shallow(() => typesOf(together), null);
  if (found) for (const each of together) each.errors(found);
  const alone = legible.filter((each) => each.reaches || !found);
  for (const each of alone) each.guarded(() => each.errors(typesOf([each])));
}

const typesOf = (candidates) => check(new Map(candidates.map((each) => [each.path, each.file])));

function answer({ sources }) {
  const candidates = sources.map((source, i) => new Candidate(source, i));
  if (TYPES) checkTypes(candidates);
  return { status: "ok", results: candidates.map((each) => each.result()) };
}

function greet() {
  answer({ sources: ["export default () => null;"] }); // what is slow at first is done before the first comes
  return { node: process.version, ...vendored.versions };
}

await serve(greet, answer);
