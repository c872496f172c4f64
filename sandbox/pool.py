"""Warm workers, one candidate at a time each, behind a queue.

Threads and not an event loop, so that one pool serves every loop of a process, and a caller that is
cancelled leaves its worker in a known state: the work ends in its thread, by the deadline at most.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from botgrpo.sandbox.base import Backend, Limits
from botgrpo.sandbox.channel import Conversation, Lost
from botgrpo.sandbox.errors import SandboxUnavailable

_START_ATTEMPTS = 3
_COOL_DOWN_S = 5.0
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Attempted:
    """A worker's reply, or the way in which two workers in turn were lost over this request."""

    reply: dict[str, Any] | None
    loss: str = ""  # timeout | oom | crash | infra_error
    detail: str = ""


class Pool:
    """At most `workers` isolated workers, started when first needed and replaced when lost.

    `choose` gives the backend and is called once, in the thread that needs it first: it may probe.
    """

    def __init__(self, choose: Callable[[], Backend], workers: int, limits: Limits) -> None:
        self.limits = limits
        self.owner = os.getpid()
        self._choose = choose
        self._backend: Backend | None = None
        self._lock = threading.Lock()
        self._open: set[Conversation] = set()
        self._slot = threading.local()
        self._closed = False
        self._failure: tuple[float, str] | None = None
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="botgrpo-sandbox")
        self.started = 0
        self.versions: dict[str, str] = {}
        _pools.add(self)

    def submit(self, request: Mapping[str, Any]) -> Future[Attempted]:
        """Queue one request; its deadline starts when a worker takes it up."""
        if self._closed:
            raise SandboxUnavailable("this pool of workers was closed; make a new one.")
        if self.owner != os.getpid():  # a fork took along no thread that could answer
            raise SandboxUnavailable("this pool of workers is another process's; make a new one.")
        return self._threads.submit(self._judge, request)

    def warm(self) -> Future[None]:
        """Start one worker, so that its versions are known."""

        def start() -> None:
            self._borrow()

        return self._threads.submit(start)

    def backend(self) -> Backend:
        """The backend in use. Raises SandboxUnavailable when none works here."""
        with self._lock:
            if self._backend is None:
                self._backend = self._choose()
            return self._backend

    def close(self) -> None:
        """Kill all workers and end the threads; what is still queued is cancelled."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.kill_workers()
        self._threads.shutdown(wait=True)
        self.kill_workers()
        if self._backend is not None:
            self._backend.close()

    def kill_workers(self) -> None:
        """Kill what runs. The pool goes on with new workers unless it is closed."""
        with self._lock:
            doomed, self._open = self._open, set()
        for worker in doomed:
            worker.close()

    def _judge(self, request: Mapping[str, Any]) -> Attempted:
        try:
            return Attempted(self._attempt(request))
        except Lost as lost:
            first = lost
        try:
            return Attempted(self._attempt(request))
        except Lost as second:
            if second.kind == first.kind:
                return Attempted(None, first.kind, str(second))
            detail = f"first {first.kind} ({first}), then {second.kind} ({second})"
            return Attempted(None, "infra_error", detail)

    def _attempt(self, request: Mapping[str, Any]) -> dict[str, Any]:
        worker = self._borrow()
        try:
            return worker.ask(request)
        except Lost:
            self._drop(worker)
            if self._closed:
                raise SandboxUnavailable(
                    "this pool of workers was closed while it worked."
                ) from None
            raise

    def _borrow(self) -> Conversation:
        worker: Conversation | None = getattr(self._slot, "worker", None)
        if worker is not None:
            if not worker.worn() and worker.healthy():
                return worker
            self._drop(worker)
        return self._start()

    def _drop(self, worker: Conversation) -> None:
        self._slot.worker = None
        with self._lock:
            self._open.discard(worker)
        worker.close()

    def _start(self) -> Conversation:
        failure = self._failure
        if failure is not None and time.monotonic() - failure[0] < _COOL_DOWN_S:
            raise SandboxUnavailable(failure[1])
        try:
            backend = self.backend()
            message = ""
            for _ in range(_START_ATTEMPTS):
                if self._closed:
                    raise SandboxUnavailable("this pool of workers was closed.")
                worker = Conversation(backend.start(), self.limits)
                with self._lock:
                    self._open.add(worker)
                try:
                    worker.greet()
                except Lost as lost:
                    message = f"{lost.kind}: {lost}"
                    self._drop(worker)
                    continue
                self._slot.worker, self.versions, self._failure = worker, worker.versions, None
                self.started += 1
                return worker
            raise SandboxUnavailable(
                f"{backend.name}: {_START_ATTEMPTS} workers in turn did not come up ({message}). "
                "`botgrpo sandbox doctor` says what this machine can isolate."
            )
        except SandboxUnavailable as error:
            # So that a long queue does not wait out the same failure once for each candidate.
            self._failure = (time.monotonic(), str(error))
            raise


@atexit.register
def _kill_all() -> None:
    for pool in list(_pools):
        if pool.owner == os.getpid():  # a forked child must not kill its parent's workers
            pool.kill_workers()
