// The wire of every worker: length-framed JSON on stdin and stdout, one request at a time.
//
// A reply carries the nonce of this worker and the id of its request, so that nothing a candidate
// makes can pass for one.

const MAX_REQUEST_BYTES = 8 * 1024 * 1024;

// Whatever a library prints would stand between two frames.
for (const name of ["log", "info", "warn", "error", "debug"]) console[name] = () => {};

/** ASCII only: lone surrogates and line separators survive any reader. */
const ascii = (value) =>
  JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

function send(message) {
  const body = Buffer.from(ascii(message), "latin1");
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  process.stdout.write(Buffer.concat([head, body]));
}

async function* frames() {
  let pending = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 4) {
      const size = pending.readUInt32BE(0);
      if (size > MAX_REQUEST_BYTES) process.exit(71);
      if (pending.length < 4 + size) break;
      yield JSON.parse(pending.subarray(4, 4 + size).toString("utf8"));
      pending = pending.subarray(4 + size);
    }
  }
}

/**
 * Greets with `await greet()`, the versions, then answers each request with `await answer(request)`.
 *
 * A request without anything but its id asks whether we are there. An answer that throws ends the
 * process: whoever holds the other end decides whether to try again.
 */
export async function serve(greet, answer) {
  let nonce = null;
  for await (const { id, ...request } of frames()) {
    try {
      if (nonce === null) {
        const versions = await greet();
        nonce = request.nonce;
        send({ nonce, id, versions });
      } else if (Object.keys(request).length === 0) send({ nonce, id, status: "pong" });
      else send({ nonce, id, ...(await answer(request)), peak_mib: process.resourceUsage().maxRSS / 1024 });
    } catch (failure) {
      process.stderr.write(String(failure?.stack ?? failure).slice(0, 1000));
      process.exit(70);
    }
  }
  process.exit(0);
}
