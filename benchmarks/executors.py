"""Where the cells of a suite run: as processes of this machine, or spread over a Ray cluster.

A cell is `botgrpo train` on its own folder, one thread wide, wherever it runs: so the numbers are
the same. Ray is an extra (`pip install 'botgrpo[ray]'`) and imported only here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from botgrpo.sandbox.errors import ConfigError

_PATIENCE_S = 10.0
_CELL = "BOTGRPO_CELL"
_PROBE_TIMEOUT_S = 120.0


class Job(Protocol):
    """A cell that was started."""

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def stop(self) -> None:
        """End it; returns when it has ended."""


class Executor(Protocol):
    """Starts cells; `slots` is how many fit side by side."""

    slots: int

    def check(self, out: Path) -> None:
        """Raise ConfigError if cells below `out` could not run here."""

    def start(self, folder: Path) -> Job:
        """Run or go on with the cell in this folder, its words going to `log.txt` there."""

    def close(self) -> None:
        """Give back what was held."""


class Local:
    """One process a cell, a slot for each core that this process may use."""

    def __init__(self) -> None:
        self.slots = len(os.sched_getaffinity(0))

    def check(self, out: Path) -> None:
        """Nothing to be known before."""

    def start(self, folder: Path) -> Job:
        return _Process(folder)

    def close(self) -> None:
        """Nothing is held."""


class Ray:
    """One task a cell, on any node of the cluster that `RAY_ADDRESS` names, else on one made here.

    Each node needs botgrpo in the same version, and sees the suite's folder under the same path:
    cells leave their checkpoints and records there, and go on from them after a node was lost.
    """

    def __init__(self) -> None:
        ray = connected()
        self._cell = ray.remote(num_cpus=1, max_retries=0)(_run_cell)
        self.slots = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def check(self, out: Path) -> None:
        """Raises ConfigError for a node without the folder, or with another version of botgrpo."""
        ray = _ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe, token = out / ".seen-by-all", secrets.token_hex(8)
        probe.write_text(token)
        try:
            for node in (each for each in ray.nodes() if each["Alive"]):
                name = f"node {node['NodeManagerAddress']}"
                place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                look = ray.remote(num_cpus=0, max_retries=0)(_look)
                asked = look.options(scheduling_strategy=place).remote(str(probe.resolve()))
                try:
                    seen, its_version = ray.get(asked, timeout=_PROBE_TIMEOUT_S)
                except ray.exceptions.RayError as error:
                    raise ConfigError(
                        f"{name} cannot run botgrpo: {last_line(error)}\n"
                        "Install the same version there as here."
                    ) from None
                if seen != token:
                    raise ConfigError(
                        f"{name} does not see {out.resolve()}: a suite's folder must lie on "
                        "storage that all nodes share; give one with --out"
                    )
                if its_version != version("botgrpo"):
                    raise ConfigError(
                        f"{name} has botgrpo {its_version}, this one {version('botgrpo')}: install "
                        "the same on all"
                    )
        finally:
            probe.unlink(missing_ok=True)

    def start(self, folder: Path) -> Job:
        return _Task(self._cell.remote(str(folder.resolve())), folder)

    def close(self) -> None:
        _ray().shutdown()


EXECUTORS: dict[str, type[Local] | type[Ray]] = {"local": Local, "ray": Ray}


def command(folder: Path) -> list[str]:
    """What runs a cell, or goes on with it."""
    words = [sys.executable, "-m", "botgrpo.benchmarks.cli", "train"]
    return [*words, str(folder / "config.toml"), "--out", str(folder), "--resume"]


def environment() -> dict[str, str]:
    """One thread a cell: two spinning thread pools on the same cores starve each other."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **threads, **quiet}


def end_with_starter() -> None:
    """In a cell: end at once when whoever started it is gone; what is lost is done again later."""
    if os.environ.get(_CELL):
        threading.Thread(target=_until_starter_ends, daemon=True).start()


def _until_starter_ends() -> None:
    while os.read(0, 1):  # nobody writes: it returns when the other end is closed
        pass
    os._exit(1)


class _Process:
    def __init__(self, folder: Path) -> None:
        with (folder / "log.txt").open("a") as log:
            self._process = subprocess.Popen(
                command(folder),
                stdin=subprocess.PIPE,  # see `end_with_starter`
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment() | {_CELL: "1"},
                start_new_session=True,
            )

    def poll(self) -> int | None:
        status = self._process.poll()
        return status if status is None else self.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.wait()

    def wait(self) -> int:
        status = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return status


class _Task:
    def __init__(self, reference: Any, folder: Path) -> None:
        self._reference, self._folder = reference, folder

    def poll(self) -> int | None:
        ray = _ray()
        if not ray.wait([self._reference], timeout=0)[0]:
            return None
        try:
            return int(ray.get(self._reference))
        except ray.exceptions.RayError as error:
            with (self._folder / "log.txt").open("a") as log:
                log.write(f"lost by the cluster: {last_line(error)}\n")
            return 1

    def stop(self) -> None:
        ray = _ray()
        ray.cancel(self._reference)
        ray.wait([self._reference], timeout=2 * _PATIENCE_S)


def _run_cell(folder: str) -> int:
    """In a worker of the cluster: the cell's own process, ended with the task."""
    process = _Process(Path(folder))
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.stop()


def _look(probe: str) -> tuple[str, str]:
    """In a worker: what lies at this path, and the version of botgrpo there."""
    with contextlib.suppress(OSError):
        return Path(probe).read_text(), version("botgrpo")
    return "", version("botgrpo")


def connected() -> Any:
    """The module `ray`, on the cluster of `RAY_ADDRESS` or one made here. Raises ConfigError."""
    ray = _ray()
    if not ray.is_initialized():
        try:
            ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"no Ray cluster answers: {last_line(error)}\nSet RAY_ADDRESS to a running one, or "
                "unset it for one on this machine"
            ) from None
    return ray


def last_line(error: BaseException) -> str:
    """What an error of Ray says, without the trace that it carries."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "this needs Ray, which is not installed here: pip install 'botgrpo[ray]', or leave the "
            "option out to use this machine's cores"
        ) from None
    return ray
