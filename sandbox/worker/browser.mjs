// The browser worker: mounts one bundled candidate at a time in Chromium and says what came of it.
//
// Arguments: the folder of playwright-core, and Chromium. The candidate's code runs here, in a
// renderer without network, in a context and at an origin of its own. What we want to know we ask
// from an isolated world or from the browser itself, since the page may replace its own globals.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { serve } from "./frames.mjs";
import { differ } from "./png.mjs";
import { css as tailwind } from "./tailwind.mjs";
import { Inspector, MARK } from "./visual.mjs";
import { BASE, BREATHE, FREEZE, HIDE, MOUNT, PAGE, PREPARE, PROBE, SHOW, WAITS } from "./page.mjs";

const [PLAYWRIGHT, CHROMIUM] = process.argv.slice(2);
Object.assign(process.env, { HOME: "/tmp", XDG_CACHE_HOME: "/tmp", XDG_CONFIG_HOME: "/tmp", TMPDIR: "/tmp" });
const require = createRequire(import.meta.url);
const { chromium } = require(PLAYWRIGHT);

const VIEWPORT = { width: 1280, height: 800 };
const NOW_MS = Date.UTC(2025, 0, 15, 12);
// How long a page lives, on its own clock, before it is looked at: 3 s, in steps that leave room for
// what one timer's work asks of the next.
const LIFE_MS = [...Array(20).fill(50), ...Array(10).fill(200)];
const ORIGIN = "https://app.test"; // secure, as most pages are when they are served
const CPU_S = 3; // a page that has burnt this much hangs, however busy the machine is
const INSPECT_CPU_S = 4; // more for one that is looked at and clicked
const WALL_S = 15;
const CLOSE_MS = 1000;
const MAX_NODES = 50_000;
const MAX_HEIGHT_PX = 4000;
const MAX_ERRORS = 10;
const MAX_CONSOLE = 50;
const MAX_CHARS = 500;
const FLAGS = [
  // Walls stand around the whole process instead: see sandbox/browser.py.
  "--no-sandbox",
  "--disable-dev-shm-usage",
  "--disable-gpu",
  "--force-color-profile=srgb",
  "--font-render-hinting=none",
  "--disable-lcd-text",
  "--disable-font-subpixel-positioning",
  "--hide-scrollbars",
  "--disable-background-networking",
  "--no-first-run",
  "--disable-extensions",
  "--disable-features=Translate,MediaRouter,WebRtcHideLocalIpsWithMdns",
  "--js-flags=--max-old-space-size=256",
];

// A page that is given up leaves promises behind which nobody waits for any more.
process.on("unhandledRejection", () => {});

let browser = null;

async function launch() {
  browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS, chromiumSandbox: false });
}

/** Playwright starts Chromium at the head of a process group of its own. */
const groups = () => readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").split(" ").filter(Boolean);

/** Chromium and all its children, at once: `close` would wait for a renderer that never answers. */
function kill() {
  browser = next = null;
  for (const pid of groups())
    try {
      process.kill(-pid, "SIGKILL");
    } catch {}
}

class Late extends Error {}

function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Late()), Math.max(0, ms))));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Seconds of processor time that Chromium and its children have used. */
function burntS() {
  let ticks = 0;
  const ours = groups();
  for (const pid of readdirSync("/proc"))
    if (/^\d+$/.test(pid))
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\)/s, "").trim().split(" ");
        if (ours.includes(fields[2])) ticks += Number(fields[11]) + Number(fields[12]);
      } catch {}
  return ticks / 100;
}

/** Rejects with Late once the page has had its share of the processor, or the wall time is over. */
async function patience(promise, shareS) {
  const started = performance.now();
  const before = burntS();
  for (;;)
    try {
      return await within(500, promise);
    } catch (failure) {
      const over = (performance.now() - started) / 1000 > WALL_S || burntS() - before > shareS();
      if (!(failure instanceof Late) || over) throw failure;
    }
}

const cut = (text) => String(text).slice(0, MAX_CHARS);

/** What the page gets at this address, when its candidate is there; null: nothing. */
async function served(path, arrival) {
  const script = (body) => ({ contentType: "text/javascript; charset=utf-8", body });
  if (path === "/") return { contentType: "text/html; charset=utf-8", body: PAGE };
  if (path === "/mount.js") return script(MOUNT);
  if (path === "/candidate.js") return script((await arrival).code);
  if (path === "/style.css") return { contentType: "text/css; charset=utf-8", body: (await arrival).css };
  if (path === "/packages.js") return script(Buffer.concat([...(await arrival).packages.map(vendor), (await arrival).mark]));
  const name = BASE.find((each) => path === `/vendor/${each}`);
  return name ? script(vendor(name)) : null;
}

const CONTEXT = {
  viewport: VIEWPORT,
  deviceScaleFactor: 1,
  locale: "en-US",
  timezoneId: "UTC",
  colorScheme: "light",
  reducedMotion: "reduce",
  serviceWorkers: "block",
  acceptDownloads: false,
};

/**
 * A page in a context of its own that has all but its candidate, for which it waits: `arrive` takes it.
 * `seen` is filled while the page lives. Made while the page before it waits for its frames.
 */
async function prepare() {
  const seen = new Seen();
  const context = await browser.newContext(CONTEXT);
  let arrive;
  const arrival = new Promise((resolve) => (arrive = resolve));
  let arrived = false;
  await context.route("**/*", async (route) => {
    const asked = route.request();
    const url = new URL(asked.url());
    if (asked.isNavigationRequest() && asked.frame() === page.mainFrame()) {
      if (arrived) {
        seen.note("navigation blocked");
        return route.fulfill({ status: 204 }); // the page stays as it is
      }
      arrived = true;
    }
    const file = url.origin === ORIGIN ? await served(url.pathname, arrival) : null;
    if (file) return route.fulfill(file);
    seen.note("request blocked");
    return route.abort();
  });
  const page = await context.newPage();
  page.on("dialog", (dialog) => {
    seen.note("dialog dismissed");
    dialog.dismiss().catch(() => {});
  });
  page.on("popup", (popup) => {
    seen.note("popup closed");
    popup.close().catch(() => {});
  });
  page.on("download", () => seen.note("download refused"));
  page.on("crash", () => seen.crash());
  const cdp = await context.newCDPSession(page);
  const frameId = (await cdp.send("Page.getFrameTree")).frameTree.frame.id;
  cdp.on("Runtime.executionContextCreated", ({ context: { id, auxData } }) => seen.frames.set(id, auxData?.frameId));
  cdp.on("Runtime.exceptionThrown", ({ exceptionDetails }) => seen.exception(exceptionDetails, frameId));
  cdp.on("Runtime.consoleAPICalled", (call) => seen.log(call));
  cdp.on("Runtime.bindingCalled", () => (seen.waits = true));
  await cdp.send("Runtime.enable");
  await cdp.send("Runtime.addBinding", { name: WAITS });
  await page.clock.install({ time: NOW_MS });
  await page.clock.pauseAt(NOW_MS + 1000);
  await page.addInitScript(FREEZE);
  await page.goto(`${ORIGIN}/`, { waitUntil: "commit", timeout: 0 });
  const { executionContextId: contextId } = await cdp.send("Page.createIsolatedWorld", { frameId });
  const ask = async (expression) => {
    const evaluated = { expression, contextId, awaitPromise: true, returnByValue: true };
    return (await cdp.send("Runtime.evaluate", evaluated)).result.value;
  };
  return { context, page, cdp, ask, seen, arrive };
}

/** One page, from its candidate to its picture. */
async function visit({ page, cdp, ask, seen, arrive }, request) {
  const css = request.classes.length ? await tailwind(request.classes) : "";
  const inspector = request.inspect && new Inspector({ page, cdp, ask, seen }, request.inspect);
  const mark = Buffer.from(inspector ? MARK : "");
  arrive({ code: request.code, css, packages: request.packages.filter((name) => !BASE.includes(name)), mark });
  try {
    return await look(page, cdp, ask, seen, inspector);
  } catch (failure) {
    await new Promise((resolve) => setTimeout(resolve, 200)); // until the news of a new address is in
    if (seen.gone || page.url().startsWith(`${ORIGIN}/`)) throw failure;
    seen.note("navigated away"); // from under our questions
    return null;
  }
}

async function look(page, cdp, ask, seen, inspector) {
  await Promise.race([ask(PREPARE), seen.failed]);
  for (const ms of seen.waits ? LIFE_MS : []) {
    await page.clock.runFor(ms).catch((failure) => seen.late(failure));
    await ask(BREATHE);
  }
  const facts = (await ask(PROBE)) ?? { nodes: 0, depth: 0, height: 0, text: "", not_a_component: false, moves: true };
  if (!page.url().startsWith(`${ORIGIN}/`)) seen.note("navigated away");
  const shoot = async (clip) => {
    const options = { format: "png", optimizeForSpeed: true, ...(clip && { clip, captureBeyondViewport: true }) };
    return Buffer.from((await cdp.send("Page.captureScreenshot", options)).data, "base64");
  };
  const png = await shoot();
  if ((seen.waits || facts.moves) && !png.equals(await shoot())) seen.note("nondeterministic");
  seen.looking = Boolean(inspector);
  if (inspector && (await inspector.look(facts))) {
    await inspector.act();
    return { facts, png, isBlank: false, inspection: inspector.found };
  }
  // What is gone once they are hidden was a text, an image or a control that could be seen.
  await ask(HIDE);
  let isSeen = differ(png, await shoot());
  if (!isSeen && facts.height > VIEWPORT.height) {
    const clip = { x: 0, y: 0, width: VIEWPORT.width, height: Math.min(facts.height, MAX_HEIGHT_PX), scale: 1 };
    const hidden = await shoot(clip);
    await ask(SHOW);
    isSeen = differ(await shoot(clip), hidden);
  }
  else if (inspector) await ask(SHOW);
  if (isSeen) await inspector?.act();
  return { facts, png, isBlank: !isSeen, inspection: inspector?.found };
}

const files = new Map();

function vendor(name) {
  if (!files.has(name)) files.set(name, readFileSync(new URL(`./vendor/${name}`, import.meta.url)));
  return files.get(name);
}

/** What a page did while we watched; bounded, whatever it does. */
class Seen {
  errors = [];
  failed = new Promise((resolve) => (this.fail = resolve)); // at the first error
  console = [];
  notes = new Set();
  frames = new Map(); // of the execution contexts
  waits = false;
  looking = false;
  gone = null;
  crashed = new Promise((_, reject) => (this.crash = () => reject((this.gone = new Error("crash")))));

  constructor() {
    this.crashed.catch(() => {});
  }

  note(what) {
    if (this.notes.size < 20) this.notes.add(what);
  }

  exception({ text, exception, executionContextId }, mainFrame) {
    const message = cut(exception?.description ?? exception?.value ?? text).split("\n    at ")[0];
    // A promise that nobody caught leaves the page as it is; often it is a request that we refused.
    if (/in promise/.test(text)) this.note(`rejected: ${message.slice(0, 100)}`);
    else if ((this.frames.get(executionContextId) ?? mainFrame) !== mainFrame) this.note("an error in a frame");
    else this.error(message);
  }

  /** What a timer threw: the clock hands it to whoever moves it. */
  late(failure) {
    if (!this.gone) this.error(cut(failure.message.replace(/^[\w.]+: /, "")).split("\n")[0]);
  }

  error(message) {
    if (this.errors.length < MAX_ERRORS) this.errors.push(message);
    this.fail();
  }

  log({ type, args }) {
    if (this.console.length >= MAX_CONSOLE) return;
    this.console.push(cut(`${type}: ${args.map((each) => each.value ?? each.description ?? "").join(" ")}`));
  }
}

function verdict(seen, page) {
  if (!page) return ["runtime_error", "the page navigated away"];
  const { facts, isBlank } = page;
  if (facts.nodes > MAX_NODES) return ["too_large", `more than ${MAX_NODES} elements`];
  if (facts.not_a_component) return ["not_a_component", "the default export is not a component"];
  if (seen.errors.length) return ["runtime_error", seen.errors[0]];
  if (seen.notes.has("navigated away")) return ["runtime_error", "the page navigated away"];
  return isBlank ? ["blank", "no text, image or control that can be seen"] : ["ok", ""];
}

let next = null; // the page for the candidate after this one
let leaving = Promise.resolve();

/** The page that was prepared, if the browser that it is in still lives. */
async function prepared() {
  await leaving;
  if (!browser) await launch();
  const found = await (next ?? prepare()).catch(() => null);
  next = null;
  const ready = found && !found.seen.gone ? found : await prepare();
  next = prepare();
  next.catch(() => {}); // told when it is asked for
  return ready;
}

async function mount(request) {
  const ready = await prepared();
  const { context, seen } = ready;
  let status = ["hang", "the page does not come to rest"];
  let page = null;
  try {
    // What has a page hang does not depend on whether somebody wants to look at it as well.
    const shareS = () => CPU_S + (seen.looking ? INSPECT_CPU_S : 0);
    page = await patience(Promise.race([visit(ready, request), seen.crashed]), shareS);
    status = verdict(seen, page);
  } catch (failure) {
    if (seen.gone) status = ["crash", "the page's process died: out of memory, or a fault of the engine"];
    else if (!(failure instanceof Late)) status = ["infra_error", `${failure?.stack ?? failure}`];
  }
  const clean = !["hang", "crash", "infra_error"].includes(status[0]);
  if (clean) leaving = within(CLOSE_MS, context.close()).catch(kill);
  else kill();
  return {
    status: status[0],
    reason: cut(status[1]),
    png: page?.png.toString("base64") ?? null,
    text: page?.facts.text ?? "",
    nodes: page?.facts.nodes ?? 0,
    height: page?.facts.height ?? 0,
    errors: seen.errors,
    console: seen.console,
    notes: [...seen.notes].sort(),
    ...(request.inspect && { inspection: page?.inspection ?? null }),
  };
}

async function greet() {
  await launch();
  const { version } = JSON.parse(readFileSync(`${PLAYWRIGHT}/package.json`, "utf8"));
  return { node: process.version, playwright: version, chromium: browser.version() };
}

await serve(greet, mount);
