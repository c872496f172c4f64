"""Hostile programs inside the walls: as if a candidate had taken over a worker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.sandbox.attacks import Canary, Outcome
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.base import DEFAULT_LIMITS, Limits, Loss
from botgrpo.sandbox.channel import Conversation, Lost

_WALL_S = 20.0
_SMALL = Limits(memory_mib=200, pids=40)

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
_FILES = """
const touch = (i) => fs.closeSync(fs.openSync("/tmp/f" + i, "w"));
const make = () => { for (let i = 0; i < 20000; i++) touch(i); return "written"; };
console.log(JSON.stringify(or(make)));
"""
_LEAVE = """
console.log(JSON.stringify(or(() => fs.readFileSync("/tmp/left", "utf8"))));
or(() => fs.writeFileSync("/tmp/left", "poison"));
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
_BURN = """
const { Worker } = require("worker_threads"); const begin = process.hrtime.bigint();
const code = "const end = Date.now() + 2000; while (Date.now() < end);";
const all = Array.from({ length: 4 }, () => new Worker(code, { eval: true }));
Promise.all(all.map((w) => new Promise((done) => w.on("exit", done)))).then(() => {
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify((user + system) * 1000 / Number(process.hrtime.bigint() - begin)));
});
"""
_FLOOD = "for (;;) require('fs').writeSync(1, Buffer.alloc(1 << 20, %s));"
_FORGE = """
const body = JSON.stringify({ nonce: "0".repeat(32), id: "0", versions: {}, status: "ok" });
const head = Buffer.alloc(4); head.writeUInt32BE(body.length);
process.stdout.write(Buffer.concat([head, Buffer.from(body)])); setTimeout(() => {}, 5000);
"""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a program said as JSON, None if nothing; whether it ended by itself; how it was lost."""

    value: Any
    ended: bool
    loss: Loss


def run(backend: str, canary: Canary) -> Iterator[Outcome]:
    """Each program in a worker's place. Raises SandboxUnavailable."""
    inside = _Inside(backend)
    yield _secrets(inside, canary)
    if backend == "unsafe":
        yield Outcome("A1", "what would harm this machine", "none", None, "nothing isolates here")
        return
    yield inside.attack("A1", "a fork bomb", "a limit of processes", _FORK, _SMALL, _refused)
    yield inside.attack("A2", "a memory bomb", "a limit of memory", _BOMB, _SMALL, _died)
    yield inside.attack("A3", "filling scratch", "its size", _OR + _FILL, None, _not_written)
    yield _many_files(inside)
    yield inside.attack(
        "A3", "writing elsewhere", "a read-only root", _OR + _WRITE, None, _not_written
    )
    yield inside.endless()
    for byte, what in ((120, "text"), (255, "bytes that are no text")):
        yield inside.talks("A5", f"a flood of {what}", "a limit of a reply", _FLOOD % byte)
    yield inside.attack(
        "A7", "reaching the network", "no network", _CONNECT, None, lambda s: "open" not in s.value
    )
    yield _poison(inside)
    yield _burn(inside)
    yield inside.talks("A16", "forging a reply", "a nonce for each worker", _FORGE)


class _Inside:
    def __init__(self, backend: str) -> None:
        self.backend = backend

    def say(self, code: str, limits: Limits | None = None) -> _Said:
        """Run a program where a worker would stand, until it ends or `_WALL_S` is over."""
        walls = chooser(self.backend, limits or DEFAULT_LIMITS)()
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
            loss = link.close()
            walls.close()
        return _Said(json.loads(out) if out else None, ended, loss)

    def attack(
        self,
        id: str,
        name: str,
        defence: str,
        code: str,
        limits: Limits | None,
        fine: Callable[[_Said], bool],
    ) -> Outcome:
        said = self.say(code, limits)
        held = said.ended and fine(said)
        return Outcome(id, f"{name}, from inside", defence, held, "" if held else str(said)[:300])

    def talks(self, id: str, name: str, defence: str, code: str) -> Outcome:
        """A worker that says what it should not is lost, at once and without a result."""
        walls = chooser(self.backend, DEFAULT_LIMITS)()
        link = walls.launch(["node", "-e", code])
        started, seen = time.monotonic(), "its words were taken for a result"
        try:
            Conversation(link, DEFAULT_LIMITS).greet()
        except Lost as lost:
            seen = "" if lost.kind == "crash" else f"{lost.kind}: {lost}"
        finally:
            link.close()
            walls.close()
        if time.monotonic() - started > _WALL_S:
            seen = "its end was waited for too long"
        return Outcome(id, f"{name}, from inside", defence, not seen, seen)

    def endless(self) -> Outcome:
        """A worker that answers nothing is killed when its time is over."""
        limits = Limits(start_s=2.0)
        walls = chooser(self.backend, limits)()
        link = walls.launch(["node", "-e", "for (;;);"])
        try:
            Conversation(link, limits).greet()
            seen = "it answered"
        except Lost as lost:
            seen = "" if lost.kind == "timeout" and not link.alive() else f"{lost.kind}: {lost}"
        finally:
            link.close()
            walls.close()
        return Outcome("A4", "an endless loop, from inside", "a wall limit", not seen, seen)


def _refused(said: _Said) -> bool:
    return said.value is None or said.value > 0


def _died(said: _Said) -> bool:
    return said.value is None


def _not_written(said: _Said) -> bool:
    return "written" not in said.value


def _secrets(inside: _Inside, canary: Canary) -> Outcome:
    paths = [str(canary.file), "/etc/shadow", "/proc/1/environ", "/var/run/docker.sock"]
    folders = [str(Path.home()), str(Path(__file__).parent), str(canary.file.parent)]
    look = _OR + _LOOK % (json.dumps(paths), json.dumps(folders))

    def fine(said: _Said) -> bool:
        closed = set(said.value["folders"]) <= {"ENOENT", "EACCES"}
        return closed and not canary.leaked(said.value) and said.value["uid"] == 65534

    defence = "an empty environment, no files of ours"
    return inside.attack("A7", "reading secrets", defence, look, None, fine)


def _many_files(inside: _Inside) -> Outcome:
    said = inside.say(_OR + _FILES)
    held = said.ended and said.value != "written"
    seen = "" if held else "files without content have no limit but the worker's memory"
    covered = held or inside.backend == "docker"
    name = "20,000 empty files, from inside"
    return Outcome("A3", name, "a limit of inodes", held if covered else None, seen)


def _poison(inside: _Inside) -> Outcome:
    first, second = inside.say(_OR + _LEAVE), inside.say(_OR + _LEAVE)
    held = first.value == second.value == "ENOENT"
    seen = "" if held else f"{first.value}, then {second.value}"
    return Outcome(
        "A11", "leaving a file for the next worker, from inside", "scratch of its own", held, seen
    )


def _burn(inside: _Inside) -> Outcome:
    cores = inside.say(_BURN).value
    name, defence = "burning four cores, from inside", "a share of the processor"
    if inside.backend != "docker":  # whatever it took: on a busy machine that says nothing
        return Outcome("A15", name, defence, None, "here only the wall limit ends it")
    held = isinstance(cores, float | int) and cores < 1.3
    return Outcome("A15", name, defence, held, "" if held else f"took {cores} cores")
