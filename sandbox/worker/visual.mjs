// What a mounted page looks like and how it answers, for a caller who asks for it.
//
// The page is frozen while it is looked at: none of its code runs. What is drawn we take from
// Chromium's snapshot and from two pictures, with and without text; roles and names from its
// accessibility tree; contrast and further rules from axe-core in our isolated world.

import { readFileSync } from "node:fs";
import { BREATHE } from "./page.mjs";
import { Layout, STYLES, judge, stands, tags } from "./layout.mjs";
import { changes } from "./png.mjs";

export const MAX_ELEMENTS = 3000; // axe-core's work grows faster than the page
const MAX_DEPTH = 500; // axe-core calls itself for each element in another, and its stack ends below 2,900
const MAX_HEIGHT_PX = 4000;
const MAX_ROLES = 300;
const MAX_NAME_CHARS = 100;
const MAX_FINDINGS = 30;
const STEP_MS = [50, 50, 100, 300, 500]; // what a page is given after an action
const PLACE = "data-botgrpo-at";

/** After the packages: elements that the candidate's own JSX makes carry their place in the source. */
export const MARK = `{
  const runtime = __botgrpo["react/jsx-dev-runtime"];
  const jsxDEV = (type, props, key, many, source, self) => {
    const at = typeof type === "string" && source && { "${PLACE}": source.lineNumber + ":" + source.columnNumber };
    return runtime.jsxDEV(type, at ? { ...props, ...at } : props, key, many, source, self);
  };
  __botgrpo["react/jsx-dev-runtime"] = { ...runtime, jsxDEV };
}`;

const CONTRAST = ["color-contrast"];
const NAMES = [
  "aria-allowed-attr", "aria-command-name", "aria-hidden-focus", "aria-input-field-name", "aria-progressbar-name",
  "aria-required-attr", "aria-required-children", "aria-required-parent", "aria-roles", "aria-toggle-field-name",
  "aria-valid-attr", "aria-valid-attr-value", "button-name", "image-alt", "input-button-name", "input-image-alt",
  "label", "link-name", "list", "listitem", "nested-interactive", "role-img-alt", "select-name", "svg-img-alt",
];

const AXE = readFileSync(new URL("./vendor/axe.js", import.meta.url), "utf8");

/**
 * Run in the isolated world of a frozen page. A timer would never fire there; as microtasks they end
 * axe-core's run before anything else happens. A form's field called `childNodes` stands for that
 * property in every world: such names are taken away for as long as axe-core looks.
 */
const AUDIT = `(async () => {
  const later = globalThis.setTimeout;
  globalThis.setTimeout = (callback, _, ...rest) => (Promise.resolve().then(() => callback(...rest)), 0);
  ${AXE};
  const attribute = (element, name) => Element.prototype.getAttribute.call(element, name);
  const parent = Object.getOwnPropertyDescriptor(Node.prototype, "parentNode").get;
  const all = Document.prototype.querySelectorAll.call(document, "[name], [id]");
  const OF_DOCUMENT = [HTMLImageElement, HTMLFormElement, HTMLEmbedElement, HTMLObjectElement, HTMLIFrameElement];
  const taken = [];
  for (const element of all)
    for (const name of ["name", "id"]) {
      const value = attribute(element, name);
      const ofDocument = value in Document.prototype && OF_DOCUMENT.some((type) => element instanceof type);
      if (value && (value in Element.prototype || value === "style" || ofDocument)) {
        taken.push([element, name, value]);
        Element.prototype.removeAttribute.call(element, name);
      }
    }
  const place = (element) => {
    for (let at = element; at instanceof Element; at = parent.call(at)) {
      const found = attribute(at, "${PLACE}");
      if (found) return found.slice(0, 20);
    }
    return null;
  };
  const CONTRAST = ${JSON.stringify(CONTRAST)};
  try {
    axe.addReporter("plain", (raw, _, done) => done(raw));
    const body = Document.prototype.querySelector.call(document, "body");
    const values = [...CONTRAST, ...${JSON.stringify(NAMES)}];
    const options = { reporter: "plain", iframes: false, preload: false, elementRef: true, selectors: false, runOnly: { type: "rule", values } };
    const found = { contrast: { bad: 0, total: 0, findings: [] }, names: { bad: 0, total: 0, findings: [] } };
    for (const { id, help, violations, passes } of body ? await axe.run(body, options) : []) {
      const check = CONTRAST.includes(id) ? found.contrast : found.names;
      check.bad += violations.length;
      check.total += violations.length + passes.length;
      for (const { node, any } of violations.slice(0, ${MAX_FINDINGS} - check.findings.length)) {
        const data = any?.[0]?.data;
        const message = data?.contrastRatio ? "contrast " + data.contrastRatio + ":1, asked " + data.expectedContrastRatio : help ?? id;
        check.findings.push({ place: place(node.element), message: String(message) });
      }
    }
    return found;
  } finally {
    globalThis.setTimeout = later;
    for (const [element, name, value] of taken) Element.prototype.setAttribute.call(element, name, value);
  }
})()`;

/** Without text: what changes when this comes is text that can be seen. */
const TEXTLESS = `(() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(\`
    *, *::before, *::after, ::marker, ::placeholder {
      -webkit-text-fill-color: transparent !important; -webkit-text-stroke-color: transparent !important;
      text-shadow: none !important; text-decoration-color: transparent !important; transition: none !important;
    }
    svg text, svg tspan { fill: transparent !important; stroke: transparent !important; transition: none !important; }
  \`);
  const sheets = Object.getOwnPropertyDescriptor(Document.prototype, "adoptedStyleSheets");
  const before = [...sheets.get.call(document)];
  sheets.set.call(document, [...before, sheet]);
  globalThis.withText = () => (sheets.set.call(document, before), 0);
})()`;

/** Looks at one page and acts on it. `cdp`, `ask`, `seen`: see browser.mjs. */
export class Inspector {
  found = null; // the answer, once the page was looked at

  constructor({ page, cdp, ask, seen }, wish) {
    Object.assign(this, { page, cdp, ask, seen, wish });
  }

  freeze(value) {
    return this.cdp.send("Emulation.setScriptExecutionDisabled", { value });
  }

  /** A whole look, unless the page has failed already; says whether text was seen in the picture. */
  async look({ nodes, depth, height, not_a_component }) {
    if (this.seen.errors.length || not_a_component) return false;
    this.found = { complete: false, text: "", roles: [], tags: [], checks: {}, states: [] };
    if (nodes > MAX_ELEMENTS || depth > MAX_DEPTH) return false;
    await this.freeze(true);
    const { layout, said, checks, roles, isDrawn } = await this.state(height, this.wish.roles);
    const audit = await this.ask(AUDIT);
    await this.freeze(false);
    if (!audit?.contrast) throw new Error("axe-core gave no answer");
    const placed = ({ node, message }) => ({ message, place: layout.place(node, PLACE) });
    for (const each of Object.values(checks)) each.findings = each.findings.map(placed);
    Object.assign(this.found, { complete: true, text: said, roles, tags: tags(layout), checks: { ...checks, ...audit } });
    return isDrawn;
  }

  /** Text and roles at this moment. */
  async state(height, withRoles) {
    const clip = { x: 0, y: 0, width: 1280, height: Math.min(Math.max(height, 800), MAX_HEIGHT_PX), scale: 1 };
    const options = { format: "png", optimizeForSpeed: true, ...(clip.height > 800 && { clip, captureBeyondViewport: true }) };
    const shoot = async () => Buffer.from((await this.cdp.send("Page.captureScreenshot", options)).data, "base64");
    const full = await shoot();
    await this.ask(TEXTLESS);
    const bare = await shoot();
    await this.ask("withText()");
    const snapshot = await this.cdp.send("DOMSnapshot.captureSnapshot", { computedStyles: STYLES, includePaintOrder: true });
    const layout = new Layout(snapshot);
    const changed = changes(full, bare);
    const { text, checks } = judge(layout, changed, clip.height);
    const isDrawn = changed([0, 0, clip.width, clip.height]);
    return { layout, said: text, checks, isDrawn, roles: withRoles ? await this.roles(layout) : [] };
  }

  async tree() {
    const { nodes } = await this.cdp.send("Accessibility.getFullAXTree");
    return nodes.filter((node) => !node.ignored && node.backendDOMNodeId && node.role?.type === "role");
  }

  /** [{role, name}] of what stands on the page, as a screen reader hears it. */
  async roles(layout) {
    const nodeOf = new Map(layout.backend.map((id, node) => [id, node]));
    const found = [];
    for (const { role, name, backendDOMNodeId } of await this.tree()) {
      if (found.length === MAX_ROLES) break;
      const node = nodeOf.get(backendDOMNodeId);
      const says = named(name) || !/^(generic|paragraph|none)$/.test(role.value);
      if (says && node !== undefined && stands(layout, node)) found.push({ role: role.value, name: named(name) });
    }
    return found;
  }

  /** Does what the wish asks for, step by step; after each one the text and roles that are there. */
  async act() {
    if (!this.found?.complete) return;
    const { states } = this.found;
    for (const actions of this.wish.steps) {
      const before = this.seen.errors.length;
      let problem = "";
      for (const action of actions) problem ||= (await this.perform(action)) ?? "";
      // An error after the page was judged is that of the step.
      const [error] = this.seen.errors.splice(before);
      const { nodes, height } = await this.ask(SIZE);
      if (nodes > MAX_ELEMENTS) problem ||= `more than ${MAX_ELEMENTS} elements`;
      await this.freeze(true);
      const state = problem ? null : await this.state(height, true);
      await this.freeze(false);
      states.push({ problem: problem || (error ?? ""), text: state?.said ?? "", roles: state?.roles ?? [] });
    }
  }

  /** What stood in the way, or nothing. */
  async perform({ kind, role, name, text }) {
    if (kind === "press") await this.page.keyboard.press(text);
    else {
      const target = (await this.tree()).find((node) => node.role.value === role && named(node.name).toLowerCase().includes(name.toLowerCase()));
      if (!target) return `no ${role} named "${name}"`;
      const { backendDOMNodeId: backendNodeId } = target;
      await this.cdp.send("DOM.scrollIntoViewIfNeeded", { backendNodeId }).catch(() => {});
      const { quads } = await this.cdp.send("DOM.getContentQuads", { backendNodeId }).catch(() => ({ quads: [] }));
      if (!quads.length) return `the ${role} "${name}" cannot be seen`;
      const [x, y] = [0, 1].map((axis) => (quads[0][axis] + quads[0][axis + 4]) / 2);
      await this.page.mouse.click(x, y);
      if (kind === "fill") {
        await this.page.keyboard.press("Control+A");
        await this.cdp.send("Input.insertText", { text });
      }
    }
    for (const ms of STEP_MS) {
      await this.ask(BREATHE);
      if (this.seen.waits) await this.page.clock.runFor(ms).catch((failure) => this.seen.late(failure));
    }
    await this.ask(BREATHE);
    return null;
  }
}

const named = (name) => String(name?.value ?? "").replace(/\s+/g, " ").trim().slice(0, MAX_NAME_CHARS);

const SIZE = `(() => {
  const nodes = Document.prototype.getElementsByTagName.call(document, "*").length;
  const root = Object.getOwnPropertyDescriptor(Document.prototype, "documentElement").get.call(document);
  return { nodes, height: Math.ceil(root?.scrollHeight ?? 0) };
})()`;
