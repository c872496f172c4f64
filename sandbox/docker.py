"""Workers in Docker containers: no network, read-only root, no capabilities, hard limits.

The engine is spoken to through its SDK and never through the command line: killing a `docker run`
leaves its container behind.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

from botgrpo.sandbox import docker_image
from botgrpo.sandbox.base import COMPILE, Limits, Link, Program
from botgrpo.sandbox.cgroup import start_time
from botgrpo.sandbox.docker_link import PROBE_S, ContainerLink, absent, knock, remove
from botgrpo.sandbox.errors import SandboxUnavailable

_CALL_S = 120
_LABEL = "botgrpo.worker"
_NOBODY = "65534:65534"


class Docker:
    """See `base.Backend`. Takes the runtime `runsc` where the engine offers a working one."""

    name = "docker"

    def __init__(self, limits: Limits, program: Program = COMPILE) -> None:
        self._limits = limits
        self._program = program
        self._client: Any = None
        self._image = ""
        self._runtimes = ["runc"]
        self._base = ""
        self._left: list[Any] = []  # containers that could not be removed when they had to go

    def check(self) -> None:
        """Asks the engine, clears away what dead processes left, builds the image if needed."""
        self._client = connect()
        self._sweep()
        self._image, self._base = docker_image.ensure(self._client, self._program)
        info = self._client.info()
        offered = ["runsc"] if "runsc" in info.get("Runtimes", {}) else []
        self._runtimes = [*offered, info.get("DefaultRuntime") or "runc"]

    def start(self) -> Link:
        """A worker in a new container; a runtime that cannot start one is not tried again."""
        while True:
            try:
                return self.launch(self._program.command(self._limits))
            except SandboxUnavailable:
                if len(self._runtimes) == 1 or not self._answers():
                    raise  # an engine that is gone says nothing about its runtimes
                del self._runtimes[0]

    def launch(self, command: Sequence[str]) -> Link:
        import docker.errors
        import requests.exceptions

        container = None
        knock()
        try:
            self._remove_left()
            container = self._create(command)
            return ContainerLink(container, self._left)
        except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
            if container is not None:
                remove(container, self._left)
            raise SandboxUnavailable(
                f"docker could not start a worker with the runtime {self._runtimes[0]!r}: {error}\n"
                "`docker info` shows the engine's state; the backend `bubblewrap` needs none."
            ) from None

    def describe(self) -> dict[str, Any]:
        return {
            "backend": self.name,
            "runtime": self._runtimes[0],
            "isolation": "container: no network, read-only root, no capabilities, no new "
            "privileges, user nobody, the engine's seccomp profile",
            "limits": "container: memory without swap, processes, CPUs, scratch space, open files",
            "image": self._image,
            "base": self._base,
        }

    def close(self) -> None:
        if self._client is not None:
            self._remove_left()
            self._client.close()

    def _create(self, command: Sequence[str]) -> Any:
        import docker.errors

        try:
            return self._client.containers.create(self._image, command, **self._options())
        except docker.errors.ImageNotFound:  # pruned, or another engine came up at this address
            self._image, self._base = docker_image.ensure(self._client, self._program)
            return self._client.containers.create(self._image, command, **self._options())

    def _answers(self) -> bool:
        with contextlib.suppress(Exception):
            knock()
            return bool(self._client.ping())
        return False

    def _remove_left(self) -> None:
        """Again, what an engine that went away kept; most often there is nothing."""
        for _ in range(len(self._left)):
            with contextlib.suppress(IndexError):  # another thread was faster
                remove(self._left.pop(0), self._left)

    def _options(self) -> dict[str, Any]:
        from docker.types import LogConfig, Ulimit

        limits = self._limits
        files = limits.open_files
        return {
            "entrypoint": [],
            "runtime": self._runtimes[0],
            "network_mode": "none",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "user": _NOBODY,
            "mem_limit": f"{limits.memory_mib}m",
            "memswap_limit": f"{limits.memory_mib}m",  # equal, else as much swap comes on top
            "nano_cpus": limits.cpus * 1_000_000_000,
            "pids_limit": limits.pids,
            "tmpfs": {
                "/tmp": f"rw,noexec,nosuid,nodev,size={limits.disk_mib}m,nr_inodes=1024,mode=1777"
            },
            "shm_size": "1m",  # writable whatever the root is
            "ulimits": [
                Ulimit(name="nofile", soft=files, hard=files),
                Ulimit(name="core", soft=0, hard=0),
            ],
            "ipc_mode": "private",
            "init": True,
            "stdin_open": True,
            "tty": False,
            "log_config": LogConfig(type="none"),  # the default log grows on the host without bound
            "environment": {},
            "labels": {_LABEL: _owner(os.getpid())},
        }

    def _sweep(self) -> None:
        """Remove containers of this machine whose maker is dead."""
        for container in self._client.containers.list(
            all=True, filters={"label": _LABEL}, ignore_removed=True
        ):
            host, _, process = container.labels.get(_LABEL, "").partition("/")
            pid = process.partition("-")[0]
            if host == _host() and pid.isdigit() and _owner(int(pid)) != f"{host}/{process}":
                with contextlib.suppress(Exception):
                    container.remove(force=True)


def own_containers(client: Any) -> list[Any]:
    """Those that this process made and that are not removed yet, running or not."""
    mine = {"label": f"{_LABEL}={_owner(os.getpid())}"}
    found: list[Any] = client.containers.list(all=True, filters=mine, ignore_removed=True)
    return found


def connect() -> Any:
    """A client of the engine that DOCKER_HOST names, or the local one. Raises SandboxUnavailable.

    An engine that does not answer within a second counts as absent.
    """
    knock()
    try:
        import docker
        import docker.errors
        import requests.exceptions
    except ImportError:
        raise SandboxUnavailable("no Docker SDK\nInstall it: `pip install docker`.") from None
    client = None
    try:
        client = docker.from_env(timeout=PROBE_S)
        client.ping()
        client.close()
        client = docker.from_env(timeout=_CALL_S)
        # Else the SDK keeps a connection open for each of the last 25 paths that it asked, most of
        # which name a container that is gone.
        client.api.headers["Connection"] = "close"
        return client
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        if client is not None:
            client.close()
        raise absent(error) from None


def _host() -> str:
    return socket.gethostname()


def _owner(pid: int) -> str:
    return f"{_host()}/{pid}-{start_time(pid)}"
