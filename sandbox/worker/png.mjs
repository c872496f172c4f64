// Just enough of PNG to ask whether two screenshots of ours show the same.

import { inflateSync } from "node:zlib";

const CHANNELS = { 2: 3, 6: 4 };
const TOLERANCE = 12; // of 255 in one channel: below, no reader tells text from its background

/** Whether two pictures of one size differ anywhere by more than a reader overlooks. */
export function differ(one, other) {
  const [a, b] = [lines(one), lines(other)];
  for (const line of a) {
    const { value } = b.next();
    if (value?.length !== line.length) return true;
    for (let i = 0; i < line.length; i++) {
      const gap = line[i] - value[i];
      if (gap > TOLERANCE || gap < -TOLERANCE) return true;
    }
  }
  return false;
}

/** The lines of an 8-bit RGB or RGBA image without interlacing, from the top: few are read as a rule. */
export function* lines(png) {
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const step = CHANNELS[png[25]];
  if (png[24] !== 8 || !step || png[28] !== 0) throw new Error("not a PNG that Chromium writes");
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const size = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + size));
  }
  const stride = width * step;
  const raw = inflateSync(Buffer.concat(parts), { maxOutputLength: (stride + 1) * height });
  let up = new Uint8Array(stride);
  for (let from = 0; from < raw.length; from += stride + 1) {
    const line = new Uint8Array(raw.subarray(from + 1, from + 1 + stride));
    unfilter(line, up, raw[from], step);
    yield (up = line);
  }
}

// A loop for each filter: one that asks for the filter at every byte takes ten times as long.
function unfilter(line, up, filter, step) {
  const end = line.length;
  if (filter === 1) for (let x = step; x < end; x++) line[x] += line[x - step];
  else if (filter === 2) for (let x = 0; x < end; x++) line[x] += up[x];
  else if (filter === 3) for (let x = 0; x < end; x++) line[x] += ((x < step ? 0 : line[x - step]) + up[x]) >> 1;
  else if (filter === 4) for (let x = 0; x < end; x++) line[x] += paeth(line, up, x, step);
}

function paeth(line, up, x, step) {
  const [left, corner] = x < step ? [0, 0] : [line[x - step], up[x - step]];
  const guess = left + up[x] - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up[x]), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? up[x] : corner;
}

/** A function that says whether anything within `[x, y, w, h]` is another in the second picture. */
export function changes(one, other) {
  const width = one.readUInt32BE(16);
  const height = one.readUInt32BE(20);
  const step = CHANNELS[one[25]];
  const before = lines(other);
  const row = width + 1;
  const sums = new Uint32Array(row * (height + 1)); // of changed pixels above and to the left
  let y = 0;
  for (const line of lines(one)) {
    const { value } = before.next();
    if (value?.length !== line.length) throw new Error("pictures of two sizes");
    let count = 0;
    for (let x = 0, i = 0; x < width; x++, i += step) {
      let gap = 0;
      for (let c = i; c < i + 3; c++) gap = Math.max(gap, Math.abs(line[c] - value[c]));
      if (gap > TOLERANCE) count++;
      sums[row * (y + 1) + x + 1] = sums[row * y + x + 1] + count;
    }
    y++;
  }
  const bound = (value, most) => Math.min(Math.max(value, 0), most);
  return ([x, y, w, h]) => {
    const [left, right] = [bound(Math.floor(x), width), bound(Math.ceil(x + w), width)];
    const [top, bottom] = [bound(Math.floor(y), height), bound(Math.ceil(y + h), height)];
    return sums[row * bottom + right] - sums[row * top + right] - sums[row * bottom + left] + sums[row * top + left] > 0;
  };
}
