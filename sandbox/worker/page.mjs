// What runs inside a candidate's page: the mount, the clock, and what we ask of the result.

/** The document: vendored packages as classic scripts, then the candidate as a module. */
export const PAGE = (packages, css) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>candidate</title><link rel="icon" href="data:,">
<style>${css}</style></head><body><div id="root"></div>
${packages.map((name) => `<script src="/vendor/${name}"></script>`).join("\n")}
<script type="module">
const packages = globalThis.__botgrpo;
const { createElement } = packages["react"];
const { createRoot } = packages["react-dom/client"];
const { flushSync } = packages["react-dom"];
const root = document.getElementById("root");
const { default: Candidate } = await import("/candidate.js");
const kind = typeof Candidate;
if (kind === "function" || (kind === "object" && Candidate !== null && "$$typeof" in Candidate && !("props" in Candidate)))
  flushSync(() => createRoot(root).render(createElement(Candidate)));
else root.setAttribute("data-not-a-component", kind);
</script></body></html>`;

/**
 * Runs before the page's own code, on top of a paused clock: time passes only as it is looked at,
 * 0.02 ms a look, so that two visits see the same times and a loop that waits for a second still ends.
 */
export const FREEZE = `(() => {
  const NativeDate = Date;
  const dateNow = NativeDate.now.bind(NativeDate);
  const sinceStart = performance.now.bind(performance);
  let looked = 0;
  const now = () => Math.floor(dateNow() + ++looked * 0.02);
  globalThis.Date = new Proxy(NativeDate, {
    construct: (target, given, newTarget) => Reflect.construct(target, given.length ? given : [now()], newTarget),
    apply: () => new NativeDate(now()).toString(),
    get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
  });
  Object.defineProperty(performance, "now", { value: () => sinceStart() + ++looked * 0.02 });
  // With no delay a timer that renews itself would be due for ever at one moment of a clock moved by hand.
  for (const name of ["setTimeout", "setInterval"]) {
    const native = globalThis[name];
    globalThis[name] = (callback, delay, ...rest) => native(callback, Math.max(4, Number(delay) || 0), ...rest);
  }
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

/** Asked in an isolated world: has the first commit come? Waits a little for a page that is still empty. */
export const PREPARE = `(async () => {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const root = document.getElementById("root");
  for (let i = 0; i < 30 && root && !root.childElementCount && !root.dataset.notAComponent; i++) await pause(10);
})()`;

/** Asked in an isolated world: comes to rest, then what can be seen and where. */
export const PROBE = `(async () => {
  const MAX_BOXES = 400, MAX_TEXT = 20000;
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const images = [...document.images].slice(0, 50);
  const settled = [document.fonts.ready, ...images.map((image) => image.decode().catch(() => {}))];
  await Promise.race([Promise.all(settled), pause(300)]);
  for (const animation of document.getAnimations()) {
    try {
      const { endTime } = animation.effect.getComputedTiming();
      if (Number.isFinite(endTime)) animation.finish();
      else animation.cancel();
    } catch {}
  }
  await Promise.race([frame().then(frame), pause(300)]);
  const nodes = document.getElementsByTagName("*").length;
  const height = Math.ceil(document.documentElement.scrollHeight);
  const boxes = [], below = [];
  const keep = ({ x, y, width, height }) => {
    if (width <= 0 || height <= 0 || x >= innerWidth || x + width <= 0 || y + height + scrollY <= 0) return;
    const into = y < innerHeight && y + height > 0 ? boxes : below;
    if (into.length < MAX_BOXES) into.push([x, into === below ? y + scrollY : y, width, height]);
  };
  if (nodes <= 50000) {
    const walker = document.createTreeWalker(document.body ?? document.documentElement, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    const range = document.createRange();
    const shown = "img,svg,canvas,video,picture,input,button,select,textarea,progress,meter,iframe,hr,[role=img],[role=button]";
    for (let node = walker.currentNode; node && boxes.length < MAX_BOXES; node = walker.nextNode()) {
      if (node.nodeType === 1) {
        if (node.matches(shown) || getComputedStyle(node).backgroundImage.includes("url(")) keep(node.getBoundingClientRect());
      } else if (node.data.trim() && !node.parentElement?.closest("script,style,noscript,template")) {
        range.selectNodeContents(node);
        for (const box of [...range.getClientRects()].slice(0, 5)) keep(box);
      }
    }
  }
  return {
    nodes,
    height,
    boxes,
    below,
    text: nodes <= 50000 ? (document.body?.innerText ?? "").slice(0, MAX_TEXT) : "",
    not_a_component: Boolean(document.getElementById("root")?.dataset.notAComponent),
  };
})()`;
