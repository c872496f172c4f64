"""What a backend must offer, the limits it enforces, and how far the promise goes.

Covered, on the backends `docker` and `bubblewrap`:
  - a candidate is parsed, resolved, linked and looked at; no line of it is ever run
  - an import opens no file: a closed list of packages resolves, everything else is a diagnostic
  - the worker has no network, an empty environment, no capability, a read-only root, and sees only
    node, its libraries and the compiler: no home, no project, no token, no neighbour's process
  - memory, processes, scratch space, wall time and the size of a reply are bounded; a worker that
    breaks a bound is killed and replaced, and the next candidate does not notice
  - results come over a framed channel with the nonce of the worker and the id of the request

Not covered:
  - a hole in the kernel, in node or in esbuild; choose the runtime `runsc` where that matters
  - where no cgroup can be made (`describe()` says so), limits hold for each process by itself
  - CPU time beyond the wall limit, side channels, and the truth of what a candidate claims to do
  - the backend `unsafe`: a plain process with your rights, taken only when it is named
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Loss = Literal["oom", "crash"]
"""How a worker was lost: the kernel took it for its memory, or it ended by itself."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one worker; `wall_s` is for one candidate, from the moment its work starts."""

    wall_s: float = 10.0
    start_s: float = 30.0
    memory_mib: int = 512
    cpus: int = 1
    pids: int = 64
    disk_mib: int = 16
    open_files: int = 256
    source_kib: int = 256
    reply_kib: int = 1024
    candidates: int = 1000  # after so many a worker is replaced


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Program:
    """What runs inside the walls: one script of the worker's folder, and what it needs beside node.

    Attributes:
        name: also the stage of `worker/Dockerfile` and part of the image's name.
        script: the file in `worker/`.
        files: (where it lies inside, where it lies here) beyond node and the worker's folder; may
            look around, and raises SandboxUnavailable where something is missing.
        arguments: words after the script; a path among `files` is its place inside.
        proc: whether it needs a `/proc` of its own namespace.
    """

    name: str
    script: str
    files: Callable[[], tuple[tuple[Path, Path], ...]] = tuple
    arguments: tuple[str, ...] = ()
    proc: bool = False

    def command(self, limits: Limits) -> list[str]:
        """Seen from inside; node's heap ends below the memory limit, so that it can say so."""
        heap = f"--max-old-space-size={limits.memory_mib // 2}"
        flags = [heap, "--disallow-code-generation-from-strings"]
        return ["node", *flags, self.script, *self.arguments]


COMPILE = Program("worker", "worker.mjs")


class Link(Protocol):
    """A running worker's two pipes and its life. Blocking; deadlines are in `time.monotonic()`."""

    def write(self, data: bytes, deadline: float) -> None:
        """Write it all. Raises TimeoutError at the deadline, EOFError when the worker is gone."""
        ...

    def read(self, deadline: float) -> bytes:
        """Some bytes, at least one. Raises TimeoutError or EOFError as `write` does."""
        ...

    def alive(self) -> bool:
        """Whether the worker still runs, without asking it."""
        ...

    def last_words(self) -> str:
        """The end of what the worker wrote to stderr: for error messages, never for verdicts."""
        ...

    def close(self) -> Loss:
        """Kill it and all its children, free what it held, say how it was lost. May be repeated."""
        ...


class Backend(Protocol):
    """One way to isolate; made with the program and the limits that all its workers get."""

    name: str

    def check(self) -> None:
        """Raise SandboxUnavailable, with what to do next, unless workers can be started here."""
        ...

    def start(self) -> Link:
        """A new isolated worker process. Raises SandboxUnavailable."""
        ...

    def launch(self, command: Sequence[str]) -> Link:
        """Any command inside the same walls: the attack tests look around with it."""
        ...

    def close(self) -> None:
        """Free what the backend itself holds; its workers are closed one by one before."""
        ...

    def describe(self) -> dict[str, Any]:
        """For the manifest: backend, runtime, isolation in words, which limits hold."""
        ...
