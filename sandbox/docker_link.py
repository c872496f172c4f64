"""One container, spoken to over its attach socket, and removed for certain."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any

from botgrpo.sandbox.base import Loss
from botgrpo.sandbox.errors import SandboxUnavailable

PROBE_S = 1
_LOCAL = "unix:///var/run/docker.sock"


class ContainerLink:
    """See `base.Link`: one container, over its attach socket."""

    def __init__(self, container: Any, left: list[Any]) -> None:
        self._container = container
        self._left = left  # where it goes if it cannot be removed
        self._lock = threading.Lock()
        self._loss: Loss | None = None
        self._ended = False
        self._buffer = bytearray()
        self._words = b""
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._stream = container.attach_socket(params=params)
        self._raw: socket.socket = getattr(self._stream, "_sock", self._stream)
        try:
            container.start()
        except BaseException:
            self._detach()
            raise

    def write(self, data: bytes, deadline: float) -> None:
        try:
            self._raw.settimeout(_left(deadline))
            self._raw.sendall(data)
        except TimeoutError:
            raise
        except OSError:
            self._ended = True
            raise EOFError from None

    def read(self, deadline: float) -> bytes:
        while True:
            head = self._exactly(8, deadline)
            body = self._exactly(int.from_bytes(head[4:8], "big"), deadline)
            if head[0] == 1 and body:
                return body
            self._words = (self._words + body)[-2000:]

    def alive(self) -> bool:
        if self._loss is not None or self._ended:
            return False
        # An attach that has ended is readable at once; asking the engine would cost milliseconds.
        try:
            self._raw.settimeout(0)
            return bool(self._raw.recv(1, socket.MSG_PEEK)) or False
        except (BlockingIOError, TimeoutError):
            return True
        except OSError:
            return False

    def last_words(self) -> str:
        return self._words.decode("utf-8", "replace").strip()

    def close(self) -> Loss:
        with self._lock:
            if self._loss is None:
                # First: with an attach that nobody reads, the engine's kill never returns.
                self._detach()
                self._loss = "oom" if self._ended and self._out_of_memory() else "crash"
                remove(self._container, self._left)
            return self._loss

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            try:
                self._raw.settimeout(_left(deadline))
                data = self._raw.recv(65536)
            except TimeoutError:
                raise
            except OSError:
                data = b""
            if not data:
                self._ended = True
                raise EOFError
            self._buffer += data
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def _out_of_memory(self) -> bool:
        state: dict[str, Any] = {}
        for _ in range(40):  # the attach ends a little before the engine has noted why
            with contextlib.suppress(Exception):
                knock()
                self._container.reload()
                state = self._container.attrs["State"]
            if not state.get("Running", False):
                break
            time.sleep(0.05)
        return bool(state.get("OOMKilled")) or state.get("ExitCode") == 137

    def _detach(self) -> None:
        with contextlib.suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)
        response = getattr(self._stream, "_response", None)
        for each in (self._stream, self._raw, response):
            if each is not None:
                with contextlib.suppress(Exception):
                    each.close()


def remove(container: Any, left: list[Any]) -> None:
    """Kill and remove it; into `left` where the engine does not do so now."""
    import docker.errors

    try:
        knock()
        container.remove(force=True)
    except docker.errors.NotFound:
        pass
    except Exception:
        left.append(container)


def knock() -> None:
    """Ask a local socket without the SDK, which takes long to import and leaks a failed attempt."""
    scheme, _, path = os.environ.get("DOCKER_HOST", _LOCAL).partition("://")
    if scheme != "unix":
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.settimeout(PROBE_S)
        try:
            knock.connect(path)
        except OSError as error:
            raise absent(error) from None


def absent(error: Exception) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"no Docker engine answers ({str(error)[:160]})\n"
        "Start one (`systemctl start docker`) or set DOCKER_HOST; you need access to its socket."
    )


def _left(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
