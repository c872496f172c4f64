// What a page looks like, from Chromium's own snapshot of its boxes and from its pixels.
//
// Pure functions on data that no code of the page can touch. All lengths are CSS pixels of the document.

const WIDTH = 1280;
const SHARE = 0.25; // of the smaller of two boxes: less is how lines of text are set
const INK = 0.15; // of a line's height, above and below: the room between lines
const MIN_FONT_PX = 9;
const FAINT = 0.05;
const OPAQUE = 0.9;
const MAX_COMPARISONS = 200_000;
const MAX_TEXT_CHARS = 20_000;
const MAX_FINDINGS = 30; // of each check

export const STYLES = [
  "visibility", "opacity", "overflow-x", "overflow-y", "position", "display", "font-size",
  "background-color", "background-image", "text-overflow", "-webkit-line-clamp",
];
const CONTROLS = new Set(["BUTTON", "INPUT", "SELECT", "TEXTAREA", "SUMMARY"]);
const ROLES = /^(button|link|checkbox|radio|switch|tab|menuitem|option|textbox|combobox|slider)$/;

const ROOM = [-1e9, -1e9, 2e9, 2e9]; // no bounds

const area = ([, , w, h]) => Math.max(0, w) * Math.max(0, h);

function intersection([ax, ay, aw, ah], [bx, by, bw, bh]) {
  const [x, y] = [Math.max(ax, bx), Math.max(ay, by)];
  return [x, y, Math.max(0, Math.min(ax + aw, bx + bw) - x), Math.max(0, Math.min(ay + ah, by + bh) - y)];
}

const holds = ([ax, ay, aw, ah], [bx, by, bw, bh]) =>
  bx >= ax - 1 && by >= ay - 1 && bx + bw <= ax + aw + 1 && by + bh <= ay + ah + 1;

/** The boxes of a document: `captureSnapshot` with STYLES and paint orders. */
export class Layout {
  constructor({ documents, strings }) {
    const { nodes, layout, textBoxes, contentWidth } = documents[0];
    this.contentWidth = contentWidth;
    this.strings = strings;
    this.parents = nodes.parentIndex;
    this.names = nodes.nodeName.map((index) => strings[index]);
    this.backend = nodes.backendNodeId;
    this.attributes = nodes.attributes;
    this.layout = layout;
    this.boxOf = new Map(layout.nodeIndex.map((node, box) => [node, box])); // a node's last box
    this.lines = new Map(); // of a text's box: [[bounds, text], ...]
    textBoxes.layoutIndex.forEach((box, i) => {
      const from = textBoxes.start[i];
      const text = (strings[layout.text[box]] ?? "").slice(from, from + textBoxes.length[i]);
      if (text.trim()) (this.lines.get(box) ?? this.lines.set(box, []).get(box)).push([textBoxes.bounds[i], text]);
    });
    this.shown = new Map();
  }

  style(box, name) {
    return this.strings[this.layout.styles[box][STYLES.indexOf(name)]] ?? "";
  }

  attribute(node, name) {
    const pairs = this.attributes[node] ?? [];
    for (let i = 0; i < pairs.length; i += 2) if (this.strings[pairs[i]] === name) return this.strings[pairs[i + 1]];
    return null;
  }

  /** A node and those around it, from the inside. */
  *around(node) {
    for (let at = node; at >= 0; at = this.parents[at]) yield at;
  }

  within(node, ancestor) {
    for (const at of this.around(node)) if (at === ancestor) return true;
    return false;
  }

  /** What elements around a node do to it: the room they leave, and how faint they make it. */
  frame(node) {
    const known = this.shown.get(node);
    if (known) return known;
    const parent = this.parents[node];
    const outer = parent >= 0 ? this.frame(parent) : { room: ROOM, anchor: ROOM, opacity: 1, scrolls: false, ellipsis: false };
    const box = this.boxOf.get(node);
    const found = { ...outer };
    const clips = (axis) => !["visible", ""].includes(this.style(box, `overflow-${axis}`));
    if (box !== undefined && this.layout.styles[box]?.length) {
      const position = this.style(box, "position");
      found.opacity *= Number(this.style(box, "opacity") || 1);
      // What is placed by itself is cut by those that it is placed in, not by all around it.
      if (position === "fixed") found.room = ROOM;
      else if (position === "absolute") found.room = outer.anchor;
      if (!["HTML", "BODY"].includes(this.names[node]) && (clips("x") || clips("y"))) {
        const [x, y, w, h] = this.layout.bounds[box];
        const own = [clips("x") ? x : ROOM[0], clips("y") ? y : ROOM[1], clips("x") ? w : ROOM[2], clips("y") ? h : ROOM[3]];
        found.room = intersection(found.room, own);
        found.scrolls ||= /auto|scroll/.test(this.style(box, "overflow-x") + this.style(box, "overflow-y"));
        found.ellipsis ||= this.style(box, "text-overflow") === "ellipsis" || this.style(box, "-webkit-line-clamp") !== "none";
      }
      if (position !== "static") found.anchor = found.room;
    }
    this.shown.set(node, found);
    return found;
  }

  /** `line:column` in the source of the element at or around a node, or null. */
  place(node, mark) {
    for (const at of this.around(node)) {
      const found = this.attributes[at] && this.attribute(at, mark);
      if (found) return found;
    }
    return null;
  }
}

/** Every stretch of text that takes part in the page, with what of it shows. */
function texts(page, changed, height) {
  const found = [];
  for (const [box, lines] of page.lines) {
    const node = page.layout.nodeIndex[box];
    const element = page.names[node] === "#text" ? page.parents[node] : node;
    const frame = page.frame(element);
    const styled = page.boxOf.get(element) ?? box;
    if (page.style(styled, "visibility") !== "visible" || frame.opacity <= FAINT) continue;
    const fontPx = parseFloat(page.style(styled, "font-size")) || 16;
    for (const [bounds, text] of lines) {
      const rect = intersection(bounds, frame.room);
      const inPicture = intersection(rect, [0, 0, WIDTH, height]);
      const cut = area(bounds) ? 1 - area(rect) / area(bounds) : 1;
      const inside = area(inPicture) > 0;
      // For screen readers alone, or where scrolling leads: neither shown nor at fault.
      const beyond = !inside && rect[1] >= height && area(rect) > 0;
      const hasInk = inside && changed(inPicture);
      found.push({
        node, element, box, bounds, text, fontPx, frame, cut, inside, rect: inPicture, order: page.layout.paintOrders[box] ?? 0,
        seen: hasInk || beyond || (frame.scrolls && !inside),
        hidden: inside && area(rect) > 4 && !hasInk,
      });
    }
  }
  return found.sort((a, b) => a.node - b.node);
}

function controls(page, height) {
  const found = [];
  for (const [node, box] of page.boxOf) {
    const name = page.names[node];
    const isControl = CONTROLS.has(name) || (name === "A" && page.attribute(node, "href") !== null);
    if (!isControl && !ROLES.test((page.attributes[node] && page.attribute(node, "role")) || "")) continue;
    const frame = page.frame(node);
    if (page.style(box, "visibility") !== "visible" || frame.opacity <= FAINT) continue;
    const rect = intersection(intersection(page.layout.bounds[box], frame.room), [0, 0, WIDTH, height]);
    if (rect[2] > 2 && rect[3] > 2) found.push({ element: node, box, rect, order: page.layout.paintOrders[box] ?? 0 });
  }
  return found;
}

/** The text that can be seen, as it is read: what stands in one block has no blank put into it. */
function reading(page, shown) {
  const block = (node) => {
    for (const at of page.around(node)) {
      const box = page.boxOf.get(at);
      if (box !== undefined && page.layout.styles[box]?.length && !page.style(box, "display").startsWith("inline")) return at;
    }
    return -1;
  };
  let [said, last] = ["", null];
  for (const each of shown) {
    const here = { block: block(each.element), node: each.node, y: each.bounds[1] };
    const joined = last && last.block === here.block && (last.node !== here.node || last.y === here.y);
    said += (last && !joined ? " " : "") + each.text;
    last = here;
    if (said.length > MAX_TEXT_CHARS) break;
  }
  return said.replace(/\s+/g, " ").trim().slice(0, MAX_TEXT_CHARS);
}

function alpha(colour) {
  const [, , , a = "1"] = colour.match(/[\d.]+/g) ?? ["0", "0", "0", "0"];
  return colour.includes("a(") || colour.includes("/") ? Number(a) : 1;
}

/** Boxes that hide what is under them. */
function sheets(page) {
  const found = [];
  for (const [node, box] of page.boxOf) {
    if (!page.layout.styles[box]?.length || page.frame(node).opacity < OPAQUE) continue;
    const image = page.style(box, "background-image");
    if (alpha(page.style(box, "background-color")) >= OPAQUE || (image !== "none" && image !== ""))
      found.push({ rect: page.layout.bounds[box], order: page.layout.paintOrders[box] ?? 0 });
  }
  return found;
}

/** Pairs of boxes that stand on each other, neither being part of or drawn on the other. */
function* overlaps(page, boxes, covers, isCover) {
  const sorted = boxes.filter(({ rect }) => area(rect) > 4).sort((a, b) => a.rect[1] - b.rect[1]);
  const active = [];
  let compared = 0;
  for (const one of sorted) {
    for (let i = active.length - 1; i >= 0; i--) if (active[i].rect[1] + active[i].rect[3] <= one.rect[1]) active.splice(i, 1);
    for (const other of active) {
      if (++compared > MAX_COMPARISONS) return;
      const shared = intersection(one.rect, other.rect);
      if (shared[2] < 2 || shared[3] < 2 || area(shared) < SHARE * Math.min(area(one.rect), area(other.rect))) continue;
      if (page.within(one.element, other.element) || page.within(other.element, one.element)) continue;
      const [low, high] = one.order < other.order ? [one, other] : [other, one];
      const between = ({ order, rect }) => order > low.order && isCover(order, high.order) && holds(rect, shared);
      if (!covers.some(between)) yield [low, high];
    }
    active.push(one);
  }
}

const inked = (each) => {
  const [x, y, w, h] = each.rect;
  return { ...each, rect: [x, y + h * INK, w, h * (1 - 2 * INK)] };
};

/** `{bad, total, findings}` of one check; each finding has the node that is at fault. */
const check = (bad, total, findings) => ({ bad, total, findings: findings.slice(0, MAX_FINDINGS) });

/** What is wrong with how the page is laid out, and the text that it shows. */
export function judge(page, changed, height) {
  const all = texts(page, changed, height);
  const shown = all.filter((each) => each.seen);
  const knobs = controls(page, height);

  const pale = all.filter((each) => each.hidden);
  const tiny = shown.filter((each) => each.fontPx < MIN_FONT_PX);
  const read = [
    ...pale.map(({ element, text }) => ({ node: element, message: `text that cannot be seen: ${text.slice(0, 40)}` })),
    ...tiny.map(({ element, fontPx }) => ({ node: element, message: `text of ${fontPx} px` })),
  ];
  // A page that says nothing has one fault, and no place for it.
  const text = shown.length ? check(read.length, shown.length + pale.length, read) : check(1, 1, []);

  const sideways = page.contentWidth > WIDTH + 1;
  const wide = [];
  if (sideways)
    for (const [node, box] of page.boxOf) {
      const [x, , w] = page.layout.bounds[box];
      const parent = page.boxOf.get(page.parents[node]);
      const outer = parent === undefined ? null : page.layout.bounds[parent];
      const { room } = page.frame(node);
      if (x + w > WIDTH + 1 && room[0] + room[2] > WIDTH + 1 && (!outer || outer[0] + outer[2] <= WIDTH + 1))
        wide.push({ node, message: `reaches ${Math.round(x + w - WIDTH)} px beyond the page's right edge` });
    }

  const cut = shown.filter((each) => each.inside && !each.frame.scrolls && !each.frame.ellipsis && each.cut > SHARE && each.cut < 1);
  const clipped = cut.map(({ element, text: said }) => ({ node: element, message: `text cut off: ${said.slice(0, 40)}` }));

  const covers = sheets(page);
  const lines = shown.filter((each) => each.inside).map(inked);
  const pairs = [];
  // Text on a sheet of its own leaves nothing to read through it. A control covers another by its sheet.
  for (const [low, high] of overlaps(page, lines, covers, (order, top) => order <= top))
    if (low.node !== high.node) pairs.push([low.element, high.element]);
  for (const [low, high] of overlaps(page, knobs, covers, (order, top) => order < top))
    if (!holds(low.rect, high.rect) && !holds(high.rect, low.rect)) pairs.push([low.element, high.element]);
  const involved = [...new Set(pairs.flat())];
  const drawn = new Set([...lines, ...knobs].map(({ element }) => element));
  const overlap = involved.map((node) => ({ node, message: "overlaps with another element" }));

  return {
    text: reading(page, shown),
    checks: {
      text,
      overflow: check(Number(sideways), 1, wide),
      clipping: check(cut.length, shown.length, clipped),
      overlap: check(involved.length, drawn.size, overlap),
    },
  };
}

/** How many elements of each tag take part in the page. */
export function tags(page) {
  const found = new Map();
  for (const [node, box] of page.boxOf) {
    const name = page.names[node].toLowerCase();
    if (/^(?!html$|body$)[a-z][a-z0-9-]*$/.test(name) && page.layout.styles[box]?.length && page.style(box, "visibility") === "visible")
      found.set(name, (found.get(name) ?? 0) + 1);
  }
  return [...found].slice(0, 200);
}

/** Whether a box of these bounds stands where it can be seen, or scrolled to. */
export function stands(page, node) {
  const box = page.boxOf.get(node);
  if (box === undefined || page.style(box, "visibility") !== "visible") return false;
  const { room, opacity, scrolls } = page.frame(node);
  const rect = intersection(page.layout.bounds[box], scrolls ? ROOM : room);
  return opacity > FAINT && rect[2] > 1 && rect[3] > 1 && rect[0] < WIDTH && rect[0] + rect[2] > 0 && rect[1] + rect[3] > 0;
}
