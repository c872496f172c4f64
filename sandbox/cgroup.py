"""Memory and process limits for a worker and all its children together, by cgroup v1 or v2.

A group is named `botgrpo-<pid>-<start time>-<n>` after the process that made it, so that whoever
comes later can tell that its maker is dead and sweep it.

Under v2 a group has the limits that its parent hands down (`cgroup.subtree_control`), and a parent
that holds processes itself hands down none, unless it is the kernel's root. So where only the group
that we live in is ours (`Delegate=yes` of systemd, a container with a writable hierarchy), all of
its processes first move one level down, into `botgrpo-rest`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")
_NAME = re.compile(r"botgrpo-(\d+)-(\w+)-\d+")
_REST = "botgrpo-rest"
_CONTROLLERS = ("memory", "pids")
_MIB = 1024 * 1024
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A group that exists: one folder (v2), or one for each controller (v1)."""

    folders: tuple[Path, ...]

    def oom_kills(self) -> int:
        """How many processes of the group the kernel has killed for memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def remove(self) -> None:
        """Remove the folders; their processes must be dead or dying."""
        for folder in self.folders:
            for _ in range(50):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)  # a killed process leaves its group a moment later
                else:
                    break


def make(memory_mib: int, pids: int) -> Cgroup | None:
    """A new empty group with both limits, or None where this process may not make one."""
    name = f"botgrpo-{os.getpid()}-{start_time(os.getpid())}-{next(_numbers)}"
    for parents in _places():
        folders = tuple(parent / name for parent in parents)
        try:
            if _is_v2():
                _hand_down(parents[0], _CONTROLLERS)
            for folder in folders:
                folder.mkdir()
            _limit(folders, memory_mib, pids)
        except OSError:
            Cgroup(tuple(folder for folder in folders if folder.is_dir())).remove()
            continue
        return Cgroup(folders)
    return None


def sweep() -> int:
    """Remove groups whose maker is dead; returns how many. Their workers died with the maker."""
    swept = 0
    for parent in {parent for parents in _places() for parent in parents}:
        for folder in parent.glob("botgrpo-*"):
            named = _NAME.fullmatch(folder.name)
            if named and start_time(int(named[1])) != named[2]:
                Cgroup((folder,)).remove()
                swept += 1
    return swept


def _hand_down(parent: Path, controllers: tuple[str, ...]) -> None:
    """Let groups below `parent` have these controllers. Raises OSError where that may not be."""
    if not os.access(parent / "cgroup.procs", os.W_OK):
        raise PermissionError("a process of ours may not move to a group below")
    control = parent / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in control.read_text().split()]
    for attempt in itertools.count() if missing else ():
        try:
            control.write_text(" ".join(f"+{name}" for name in missing))
            return
        except OSError as error:
            # As long as others fork into it while we empty it; not for ever.
            if error.errno != errno.EBUSY or parent != _own_v2() or attempt == 5:
                raise
        _empty(parent)


def _empty(parent: Path) -> None:
    rest = parent / _REST
    rest.mkdir(exist_ok=True)
    for pid in (parent / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (rest / "cgroup.procs").write_text(pid)


def _limit(folders: tuple[Path, ...], memory_mib: int, pids: int) -> None:
    memory = str(memory_mib * _MIB)
    group = {name: folder for folder in folders for name in _limit_files(folder)}
    if "memory.max" in group:
        (group["memory.max"] / "memory.max").write_text(memory)
        with contextlib.suppress(OSError):  # absent where there is no swap
            (group["memory.max"] / "memory.swap.max").write_text("0")
    else:
        folder = group.get("memory.limit_in_bytes")
        if folder is None:
            raise OSError("no memory controller here")
        (folder / "memory.limit_in_bytes").write_text(memory)
        with contextlib.suppress(OSError):
            (folder / "memory.memsw.limit_in_bytes").write_text(memory)
    if "pids.max" not in group:
        raise OSError("no pids controller here")
    (group["pids.max"] / "pids.max").write_text(str(pids))


def _limit_files(folder: Path) -> list[str]:
    names = ("memory.max", "memory.limit_in_bytes", "pids.max")
    return [name for name in names if (folder / name).exists()]


@functools.cache
def _places() -> tuple[tuple[Path, ...], ...]:
    """Where a group may be made, best first: below the root of the hierarchy, then near ourselves.

    The root comes first because a group that outlives us there can be found and swept; beside our
    own group comes before below it, since that asks for no move of processes.
    """
    if _is_v2():
        here = _own_v2()
        near = [place for place in (here.parent, here) if place.is_relative_to(_ROOT)]
        return tuple((place,) for place in dict.fromkeys((_ROOT, *near)))
    v1 = (_ROOT / "memory", _ROOT / "pids")
    if not all(folder.is_dir() for folder in v1):
        return ()
    own = _own()
    below = (_ROOT / "memory" / own.get("memory", ""), _ROOT / "pids" / own.get("pids", ""))
    return tuple(dict.fromkeys((v1, below)))


def _is_v2() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


@functools.cache
def _own_v2() -> Path:
    """The group that we were started in: once emptied, it is no longer the one that we are in."""
    return Path(os.path.normpath(_ROOT / _own().get("", "")))


def _own() -> dict[str, str]:
    """The path of our group below the root of each controller's hierarchy; "" names that of v2."""
    own: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in _SELF.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    return own


def start_time(pid: int) -> str:
    """The process's start in clock ticks since boot: with the pid it names one process for good."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "gone"
    return stat.rpartition(")")[2].split()[19]
