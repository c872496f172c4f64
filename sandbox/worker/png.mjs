// Just enough of PNG to ask a screenshot of ours whether anything can be seen on it.

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

function unfilter(raw, stride, height, step) {
  const out = new Uint8Array(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    const from = y * (stride + 1) + 1;
    const row = y * stride;
    if (filter === 0) out.set(raw.subarray(from, from + stride), row);
    else
      for (let x = 0; x < stride; x++) {
        const left = x < step ? 0 : out[row + x - step];
        const up = y === 0 ? 0 : out[row + x - stride];
        const corner = x < step || y === 0 ? 0 : out[row + x - stride - step];
        out[row + x] = raw[from + x] + predicted(filter, left, up, corner);
      }
  }
  return out;
}

function predicted(filter, left, up, corner) {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** Whether some pixel of the box [x, y, width, height], widened by `margin`, stands out from another. */
export function varies({ width, height, channels, pixels }, [x, y, w, h], margin = 2) {
  const left = Math.max(0, Math.floor(x - margin));
  const right = Math.min(width, Math.ceil(x + w + margin));
  const top = Math.max(0, Math.floor(y - margin));
  const bottom = Math.min(height, Math.ceil(y + h + margin));
  if (left >= right || top >= bottom) return false;
  const low = [255, 255, 255];
  const high = [0, 0, 0];
  for (let row = top; row < bottom; row++)
    for (let at = (row * width + left) * channels, end = (row * width + right) * channels; at < end; at += channels)
      for (let c = 0; c < 3; c++) {
        const value = pixels[at + c];
        if (value < low[c]) low[c] = value;
        if (value > high[c]) high[c] = value;
        if (high[c] - low[c] > TOLERANCE) return true;
      }
  return false;
}
