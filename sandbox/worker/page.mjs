// What runs inside a candidate's page: the mount, the clock, and what we ask of the result.

/** What every page needs, and runs while it waits for its candidate. */
export const BASE = ["react.js", "react-dom.js"];

/**
 * The document: vendored packages as classic scripts, then the candidate as a module. What depends on
 * the candidate is in files of their own, which the page is kept waiting for.
 */
export const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>candidate</title><link rel="icon" href="data:,">
${BASE.map((name) => `<script src="/vendor/${name}"></script>`).join("\n")}
<style>* { caret-color: transparent !important }</style><link rel="stylesheet" href="/style.css">
<link rel="modulepreload" href="/mount.js"><link rel="modulepreload" href="/candidate.js">
</head><body><div id="root"></div>
<script src="/packages.js"></script>
<script type="module">
import { mount } from "/mount.js";
import Candidate from "/candidate.js";
mount(Candidate);
</script></body></html>`;

/** A module that takes what it needs before the candidate's own module runs. */
export const MOUNT = `
const { createElement } = globalThis.__botgrpo["react"];
const { createRoot } = globalThis.__botgrpo["react-dom/client"];
const { flushSync } = globalThis.__botgrpo["react-dom"];
const root = document.getElementById("root");
export function mount(Candidate) {
  const kind = typeof Candidate;
  const special = kind === "object" && Candidate !== null && "$$typeof" in Candidate && !("props" in Candidate);
  if (kind === "function" || special) flushSync(() => createRoot(root).render(createElement(Candidate)));
  else root.setAttribute("data-not-a-component", kind);
}`;

/** Called once by a page that asks for time to pass. */
export const WAITS = "__botgrpo_waits";

/**
 * Runs before the page's own code, on top of a paused clock: between its moves time passes only as it
 * is looked at, 0.02 ms a look, so that two visits see the same times and a loop that waits for a
 * second still ends. There is nothing to go back to, and chance has a seed.
 */
export const FREEZE = `(() => {
  const NativeDate = Date;
  const dateNow = NativeDate.now.bind(NativeDate);
  const sinceStart = performance.now.bind(performance);
  const creeping = (read) => {
    let [moment, looked, latest] = [read(), 0, 0];
    return () => {
      const now = read();
      if (now !== moment) [moment, looked] = [now, 0];
      return (latest = Math.max(latest, now + ++looked * 0.02));
    };
  };
  const date = creeping(dateNow);
  const now = () => Math.floor(date());
  globalThis.Date = new Proxy(NativeDate, {
    construct: (target, given, newTarget) => Reflect.construct(target, given.length ? given : [now()], newTarget),
    apply: () => new NativeDate(now()).toString(),
    get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
  });
  Object.defineProperty(performance, "now", { value: creeping(sinceStart) });
  const waits = globalThis.${WAITS};
  delete globalThis.${WAITS};
  let told = false;
  for (const name of ["setTimeout", "setInterval", "requestAnimationFrame", "requestIdleCallback"]) {
    const native = globalThis[name];
    globalThis[name] = (callback, delay, ...rest) => {
      if (!told) waits("");
      told = true;
      if (name[0] === "r") return native(callback, delay);
      // With no delay a timer that renews itself would be due for ever at one moment of such a clock.
      return native(callback, Math.max(4, Number(delay) || 0), ...rest);
    };
  }
  for (const name of ["back", "forward", "go"]) history[name] = () => {};
  let state = 20250115;
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  crypto.getRandomValues = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.random() * 256;
    return array;
  };
  crypto.randomUUID = () => {
    const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.slice(0, 8) + "-" + hex.slice(8, 12) + "-4" + hex.slice(13, 16) + "-8" + hex.slice(17, 20) + "-" + hex.slice(20);
  };
})()`;

// All that follows is asked in an isolated world: the page's own globals are not there.

/**
 * Has the first commit come? A page that is complete and still empty gets a little longer; one that
 * tried to leave while it loaded may never be complete.
 */
export const PREPARE = `(async () => {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  for (let i = 0, idle = 0; i < 2500 && idle < 150; i++) {
    const root = document.getElementById("root");
    if (root?.childElementCount || root?.dataset.notAComponent) break;
    if (document.readyState === "complete") idle++;
    await pause(2);
  }
})()`;

/** Lets what is due at this moment happen, React's work above all. */
export const BREATHE = "new Promise((resolve) => setTimeout(resolve, 0))";

/** Comes to rest, then says what the document is. */
export const PROBE = `(async () => {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const settled = [document.fonts.ready];
  for (const image of document.querySelectorAll("img")) {
    if (settled.length > 50) break;
    settled.push(HTMLImageElement.prototype.decode.call(image).catch(() => {}));
  }
  await Promise.race([Promise.all(settled), pause(300)]);
  for (const animation of Document.prototype.getAnimations.call(document)) {
    try {
      const { endTime } = animation.effect.getComputedTiming();
      if (Number.isFinite(endTime)) animation.finish();
      else animation.cancel();
    } catch {}
  }
  await Promise.race([frame().then(frame), pause(300)]);
  const moving = "img, canvas, video, iframe, object, embed, marquee, animate, animateTransform, animateMotion, set";
  const all = document.getElementsByTagName("*");
  const nodes = all.length;
  // a field called parentNode stands for that property of its form, in every world
  const parent = Object.getOwnPropertyDescriptor(Node.prototype, "parentNode").get;
  const depths = new Map();
  let depth = 0;
  for (const element of nodes <= 50000 ? all : []) {
    const here = (depths.get(parent.call(element)) ?? 0) + 1; // parents come first
    depths.set(element, here);
    depth = Math.max(depth, here);
  }
  return {
    nodes,
    depth,
    height: Math.ceil(document.documentElement?.scrollHeight ?? 0),
    text: nodes <= 50000 ? String(document.documentElement?.innerText ?? "").slice(0, 20000) : "",
    moves: Boolean(document.querySelector(moving) || Document.prototype.getAnimations.call(document).length),
    not_a_component: Boolean(document.getElementById("root")?.dataset.notAComponent),
  };
})()`;

/** Takes text, images and controls out of sight and leaves all else, backgrounds and borders too. */
export const HIDE = `(async () => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(\`
    *, *::before, *::after, ::marker, ::placeholder {
      -webkit-text-fill-color: transparent !important; /* and not its color, which borders take over */
      -webkit-text-stroke-color: transparent !important; text-shadow: none !important;
      text-decoration-color: transparent !important; transition: none !important;
    }
    img, canvas, video { object-fit: none !important; object-position: 99999px 99999px !important; }
    svg, button, input, select, textarea, progress, meter, audio, [role=button], [contenteditable=true] {
      visibility: hidden !important;
    }
    svg *, button * { visibility: hidden !important; }
  \`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  let looked = 0;
  for (const element of document.getElementsByTagName("*")) {
    if (++looked > 2000) break;
    if (getComputedStyle(element).backgroundImage.includes("url("))
      element.style.setProperty("background-image", "none", "important");
  }
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
})()`;

/** Puts back what HIDE took away. */
export const SHOW = "document.adoptedStyleSheets = document.adoptedStyleSheets.slice(0, -1); 0";
