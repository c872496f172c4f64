// Just enough of PNG to ask whether two screenshots of ours show the same.

import { inflateSync } from "node:zlib";

const CHANNELS = { 2: 3, 6: 4 };
const TOLERANCE = 12; // of 255 in one channel: below, no reader tells text from its background

/** `{width, height, channels, pixels}` of an 8-bit RGB or RGBA image without interlacing. */
export function decode(png) {
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const channels = CHANNELS[png[25]];
  if (png[24] !== 8 || !channels || png[28] !== 0) throw new Error("not a PNG that Chromium writes");
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const size = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + size));
  }
  const raw = inflateSync(Buffer.concat(parts), { maxOutputLength: (width * channels + 1) * height });
  return { width, height, channels, pixels: unfilter(raw, width * channels, height, channels) };
}

// A loop for each filter: one that asks for the filter at every byte takes ten times as long.
function unfilter(raw, stride, height, step) {
  const out = new Uint8Array(stride * height);
  const above = new Uint8Array(stride);
  for (let y = 0, from = 0, row = 0; y < height; y++, from += stride + 1, row += stride) {
    const source = raw.subarray(from + 1, from + 1 + stride);
    const line = out.subarray(row, row + stride);
    const up = y === 0 ? above : out.subarray(row - stride, row);
    const filter = raw[from];
    line.set(source);
    if (filter === 1) for (let x = step; x < stride; x++) line[x] += line[x - step];
    else if (filter === 2) for (let x = 0; x < stride; x++) line[x] += up[x];
    else if (filter === 3) for (let x = 0; x < stride; x++) line[x] += ((x < step ? 0 : line[x - step]) + up[x]) >> 1;
    else if (filter === 4) for (let x = 0; x < stride; x++) line[x] += paeth(line, up, x, step);
  }
  return out;
}

function paeth(line, up, x, step) {
  const [left, corner] = x < step ? [0, 0] : [line[x - step], up[x - step]];
  const guess = left + up[x] - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up[x]), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? up[x] : corner;
}

/** Whether two pictures of one size differ anywhere by more than a reader overlooks. */
export function differ(one, other) {
  if (one.pixels.length !== other.pixels.length) return true;
  for (let i = 0; i < one.pixels.length; i++) {
    const gap = one.pixels[i] - other.pixels[i];
    if (gap > TOLERANCE || gap < -TOLERANCE) return true;
  }
  return false;
}
