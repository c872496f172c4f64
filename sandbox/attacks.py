"""The attack suite, for this machine: hostile sources, then hostile code inside the walls.

Candidates are never run, so the second part assumes the worst: that one broke into the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.base import Limits
from botgrpo.sandbox.react import CompileResult, ReactCompiler

_WALL_S = 20.0
_IMPORTS = (
    "import s from '{path}';",
    "import s from '{path}' with {{ type: 'text' }};",
    "import s from '{path}' with {{ type: 'bytes' }};",
    "import s from '{path}' with {{ type: 'json' }};",
    "const s = require('{path}');",
    "const s = await import('{path}');",
    "export * from '{path}'; const s = 1;",
)
_PATHS = (
    *("/etc/passwd", "/proc/self/environ", "/proc/1/environ", "{canary}", "file://{canary}"),
    *("../../../../../../{canary}", "./package.json", "/opt/sandbox/package.json", "~/.ssh/id_rsa"),
    *("node:fs", "fs", "data:text/plain,x", "https://example.com/x.js", "http://169.254.169.254/"),
    *("react/../../esbuild/package.json", "react/package.json", "react\\0/x", "REACT"),
    *("__proto__", "constructor"),
)
_HEAVY = {
    "brackets": "[" * 50_000,
    "parentheses": "export default () => " + "(" * 50_000 + ")" * 50_000,
    "tags": "export default () => " + "<a>" * 50_000,
    "tags in text": "export default () => <p>" + "x<a>" * 50_000,
    "a sum": "export default () => <p>{" + "1+" * 100_000 + "1}</p>",
    "members": "export default () => <p>{a" + ".b" * 100_000 + "}</p>",
    "calls": "export default () => <p>{a" + "()" * 100_000 + "}</p>",
    "arrows": "export default " + "a=>" * 60_000 + "1",
    "negations": "export default " + "!" * 200_000 + "1",
    "commas": "export default (" + "1," * 60_000 + "1)",
    "one long line": "export default () => <p>" + "x" * 250_000 + "</p>",
    "many lines": "\n" * 200_000 + "export default () => <p/>",
    "one attribute over and over": "export default () => <p " + "a={1} " * 40_000 + "/>",
    "ten megabytes": "// " + "x" * 10_000_000,
    "prototype names": "const __proto__ = 1; export default function toString() { return <a/>; }",
    "globals": "Object.prototype.x = 1; globalThis.JSON = null; export default () => <p/>;",
    "an exit": "process.exit(0); export default () => <p/>;",
    "an endless loop": "while (true) {}\nexport default () => <p/>;",
    "a forged reply": 'console.log(\'{"nonce": "", "status": "ok"}\'); export default 1;',
}
_CALM = frozenset(("ok", "syntax", "too_large", "no_default_export", "not_a_component"))
_GOLDEN = (
    "import { useState, Fire } from 'react';\nimport c from 'charts';\n"
    "export default function App({ a }) { return <p c={c} d={Fire}>{useState}</p>; }\n//"
)

_OR = """
const fs = require("fs"); const or = (f) => { try { return f() } catch (e) { return e.code } };
"""
_LOOK = """
const files = %s.map((p) => or(() => fs.readFileSync(p, "utf8")));
const folders = %s.map((p) => or(() => fs.readdirSync(p).join()));
console.log(JSON.stringify({ files, folders, env: process.env, uid: process.getuid() }));
"""
_WRITE = """
const places = ["/x", "/opt/sandbox/x.mjs", "/usr/bin/x", "/dev/x"];
places.push("/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/etc/passwd");
console.log(JSON.stringify(places.map((p) => or(() => fs.writeFileSync(p, "x") ?? "written"))));
"""
_FILL = """
const mib = Buffer.alloc(1 << 20);
const fill = (p) => { for (let i = 0; i < 64; i++) fs.appendFileSync(p, mib); return "written"; };
console.log(JSON.stringify(["/tmp/big", "/dev/shm/big"].map((p) => or(() => fill(p)))));
"""
_CONNECT = """
const net = require("net"), dns = require("dns"), out = [];
const done = (what) => {
  if (out.push(what) < 3) return;
  console.log(JSON.stringify(out));
  process.exit(0);
};
for (const host of ["1.1.1.1", "169.254.169.254"]) {
  const s = net.connect({ host, port: 80, timeout: 3000 });
  s.on("connect", () => done("open")).on("error", (e) => done(e.code));
  s.on("timeout", () => { s.destroy(); done("timeout"); });
}
dns.lookup("example.com", (e) => done(e ? e.code : "open"));
"""
_BOMB = "const hold = []; for (;;) hold.push(Buffer.alloc(1 << 24, 1));"
_FORK = """
const { spawn } = require("child_process"); let refused = 0, left = 100;
const end = () => { if (--left === 0) { console.log(JSON.stringify(refused)); process.exit(0); } };
for (let i = 0; i < 100; i++) {
  const child = spawn("node", ["-e", "setTimeout(() => {}, 5000)"], { stdio: "ignore" });
  child.on("error", () => { refused++; end(); }).on("spawn", end);
}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attack: whether the walls held, and what was seen where they did not."""

    name: str
    held: bool
    seen: str = ""


def run(backend: str = "auto") -> Iterator[Outcome]:
    """Attack `backend`, sparing `unsafe` what would do harm here. Raises SandboxUnavailable."""
    with tempfile.TemporaryDirectory() as folder:
        secret = f"canary-{secrets.token_hex(8)}"
        canary = Path(folder) / "canary.txt"
        canary.write_text(secret)
        os.environ["BOTGRPO_CANARY"] = secret  # a worker must not see it
        try:
            yield from _compile(backend, canary, secret)
            yield from _inside(backend, canary, secret)
        finally:
            del os.environ["BOTGRPO_CANARY"]


def main(backend: str = "auto") -> int:
    """Print what held; returns 0 if all did, else 1."""
    outcomes = []
    for outcome in run(backend):
        print(f"{'held' if outcome.held else 'FAIL'}  {outcome.name}  {outcome.seen}", flush=True)
        outcomes.append(outcome)
    return 0 if all(outcome.held for outcome in outcomes) else 1


def _compile(backend: str, canary: Path, secret: str) -> Iterator[Outcome]:
    compiler = ReactCompiler(backend)

    def judge(source: str) -> CompileResult:
        return asyncio.run(compiler.compile(source))

    def golden(mark: str) -> tuple[Any, ...]:
        result = judge(_GOLDEN + mark)  # the mark gets past our own cache
        return result.status, result.diagnostics, result.facts

    try:
        want = golden("before")
        for form in _IMPORTS:
            seen = ""
            for path in _PATHS:
                line = form.format(path=path.format(canary=canary))
                result = judge(f"{line}\nexport default () => <p>{{s}}</p>;")
                leak = any(word in repr(result) for word in (secret, "root:"))
                if result.status != "resolve" or result.diagnostics[0].line != 1 or leak:
                    seen += f"{path}: {result.status} "
            yield Outcome(f"opening a file by `{form.format(path='...')}`", not seen, seen)
        for name, source in _HEAVY.items():
            result = judge(source)
            seen = "" if golden(name) == want else "the next candidate was judged otherwise"
            if result.status not in _CALM:
                seen = f"{result.status}: {result.reason}"
            yield Outcome(f"a source with {name}", not seen, seen)
    finally:
        compiler.close()


def _inside(backend: str, canary: Path, secret: str) -> Iterator[Outcome]:
    files = json.dumps([str(canary), "/etc/shadow", "/proc/1/environ", "/var/run/docker.sock"])
    folders = json.dumps([str(Path.home()), str(Path(__file__).parent), str(canary.parent)])

    def looks_fine(said: Any) -> bool:
        text = json.dumps(said)
        closed = set(said["folders"]) <= {"ENOENT", "EACCES"}
        return secret not in text and "root:" not in text and closed and said["uid"] == 65534

    small = Limits(memory_mib=200, pids=40)
    probes: list[tuple[str, str, Limits, Callable[[Any], bool]]] = [
        ("reading secrets", _OR + _LOOK % (files, folders), Limits(), looks_fine),
    ]
    if backend != "unsafe":
        probes += [
            ("writing outside scratch", _OR + _WRITE, Limits(), lambda s: "written" not in s),
            ("filling scratch", _OR + _FILL, Limits(), lambda s: "written" not in s),
            ("reaching the network", _CONNECT, Limits(), lambda s: "open" not in s),
            ("a memory bomb", _BOMB, small, lambda s: s is None),
            ("a fork bomb", _FORK, small, lambda s: s is None or s > 0),
        ]
    for name, code, limits, fine in probes:
        said, ended = _launch(backend, code, limits)
        held = ended and fine(said)
        yield Outcome(f"{name} from inside", held, "" if held else json.dumps(said)[:300])


def _launch(backend: str, code: str, limits: Limits) -> tuple[Any, bool]:
    """What the code said as JSON, None if nothing, and whether it ended before the deadline."""
    walls = chooser(backend, limits)()
    link = walls.launch(["node", "-e", code])
    out, deadline, ended = b"", time.monotonic() + _WALL_S, False
    try:
        while True:
            out += link.read(deadline)
    except EOFError:
        ended = True
    except TimeoutError:
        pass
    finally:
        link.close()
        walls.close()
    return (json.loads(out) if out else None), ended
