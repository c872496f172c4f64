"""A worker that is a child process of ours, over three pipes. Serves bubblewrap and unsafe."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from botgrpo.sandbox.base import Loss

_CHUNK = 65536


class ProcessLink:
    """See `base.Link`. `release` runs once after the process is gone and tells how it was lost."""

    def __init__(
        self, command: Sequence[str], cwd: Path | None, release: Callable[[], Loss | None]
    ) -> None:
        self._release = release
        self._lock = threading.Lock()
        self._loss: Loss | None = None
        # env={}: what a sandbox's own process inherits, its children can read in /proc/1/environ.
        self._process = subprocess.Popen(
            command,
            env={},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        """The child's process id (its process group too)."""
        return self._process.pid

    def write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            _wait(self._in, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise EOFError from None

    def read(self, deadline: float) -> bytes:
        while True:
            _wait(self._out, select.POLLIN, deadline)
            try:
                data = os.read(self._out, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                raise EOFError from None
            if not data:
                raise EOFError
            return data

    def alive(self) -> bool:
        return self._loss is None and self._process.poll() is None

    def last_words(self) -> str:
        # stderr is a pipe that nobody drains: a flood blocks its writer and costs us no memory.
        with contextlib.suppress(OSError):
            if words := os.read(self._err, _CHUNK):
                return words[-2000:].decode("utf-8", "replace").strip()
        return ""

    def close(self) -> Loss:
        with self._lock:
            if self._loss is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                    if pipe is not None:
                        pipe.close()
                self._loss = self._release() or "crash"
            return self._loss


def _wait(fd: int, events: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(fd, events)
    left_ms = (deadline - time.monotonic()) * 1000
    if left_ms <= 0 or not poll.poll(left_ms):
        raise TimeoutError
