"""What this process holds for its workers: counted by the endurance run, weighed by the bench."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.sandbox.docker import own_containers

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Held:
    """`processes` are ours below this one, the dead among them `zombies`; memory: our own heap."""

    descriptors: int
    containers: int
    processes: int
    zombies: int
    threads: int
    groups: int
    memory_mib: float


def held(engine: Any = None) -> Held:
    """Now; `engine` is a client of the Docker engine where it holds the workers."""
    pids = descendants(os.getpid())
    return Held(
        descriptors=len(os.listdir("/proc/self/fd")),
        containers=len(own_containers(engine)) if engine else 0,
        processes=len(pids),
        zombies=sum(_state(pid) == "Z" for pid in pids),
        threads=threading.active_count(),
        groups=_groups(),
        memory_mib=_memory_mib(os.getpid(), "Anonymous"),  # the rest is files, and comes and goes
    )


def workers_mib(engine: Any = None) -> float:
    """All workers of this process together: as the engine counts them, else as their share (PSS).

    The engine counts page cache that it could drop at once; that is taken off.
    """
    if engine is None:
        return sum(_memory_mib(pid, "Pss") for pid in descendants(os.getpid()))
    total = 0
    for container in own_containers(engine):
        memory = container.stats(stream=False)["memory_stats"]
        droppable = memory["stats"].get("total_inactive_file", memory["stats"].get("inactive_file"))
        total += memory["usage"] - (droppable or 0)
    return total / 2**20


def workers_cpu_s(engine: Any = None) -> float:
    """Seconds of processor time that the workers alive now have used, however busy the machine."""
    if engine is not None:
        stats = [each.stats(stream=False) for each in own_containers(engine)]
        return float(sum(each["cpu_stats"]["cpu_usage"]["total_usage"] for each in stats)) / 1e9
    ticks = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def running(engine: Any = None) -> dict[Any, Callable[[], None]]:
    """The workers of this process that run now, by pid or container id, and how to kill each."""
    if engine is not None:
        containers = [each for each in own_containers(engine) if each.status == "running"]
        return {each.id: each.kill for each in containers}
    pids = [pid for pid in _children(os.getpid()) if _state(pid) != "Z"]
    return {pid: functools.partial(os.kill, pid, signal.SIGKILL) for pid in pids}


def kill_a_worker(rng: random.Random, spare: Collection[Any], engine: Any = None) -> None:
    """One at random, from outside and without warning; nothing where only the spared run."""
    found = [kill for name, kill in running(engine).items() if name not in spare]
    if found:
        with contextlib.suppress(Exception):  # it may be gone by now
            rng.choice(found)()


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, itself left out."""
    found, queue = [], [pid]
    while queue:
        children = _children(queue.pop())
        found += children
        queue += children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listing in (_PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, listing.read_text().split())
    return found


def _state(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def _memory_mib(pid: int, kind: str) -> float:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _groups() -> int:
    roots = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory"))
    return sum(1 for root in roots for _ in root.glob(f"botgrpo-{os.getpid()}-*"))
