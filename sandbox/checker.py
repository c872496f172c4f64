"""What TypeScript and ESLint say of a React source, isolated as compiling is, and in batches.

A program over many sources costs little more than one over a single source. So what waits while
the workers are busy goes out together; a batch whose worker is lost goes out again one by one, and
only the source that did it is blamed. Orders in comments (`eslint-disable`, `@ts-ignore`) are not
heard.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from botgrpo.sandbox.answers import Answers
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.base import Limits, Program
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.pool import Attempted, Pool
from botgrpo.sandbox.pooled import Pooled, once_a_process

CHECKER = Program("worker", "checker.mjs")
TYPE_CHECKER = Program("worker", "checker.mjs", arguments=("types",))
# A batch takes longer than one candidate; TypeScript's libraries alone take 200 MiB and seconds.
CHECK_LIMITS = Limits(wall_s=20.0, start_s=90.0, memory_mib=768, reply_kib=2048)

_CACHED_RESULTS = 4096
_BATCH = 16
_BATCH_BYTES = 1024 * 1024
_CHECKED = frozenset(("checked", "too_large"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One complaint: line from 1; column from 0 in that line and length, both in UTF-16 units.

    `rule` is an ESLint rule (`parse` where ESLint cannot read the source) or TypeScript's `TS2304`.
    TypeScript's `fatal` ones are syntax errors, its `error`s those of types.
    """

    tool: Literal["typescript", "eslint"]
    rule: str
    severity: Literal["fatal", "error", "warning"]
    message: str
    line: int
    column: int
    length: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one source came to: `checked`, `too_large`, `timeout`, `oom`, `crash` or `infra_error`.

    The last means that nobody could tell; `timeout`, `oom` and `crash` that two fresh workers in
    turn were lost over this source. Findings are at most fifty.
    """

    status: str
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0


class ReactChecker(Pooled):
    """Checks untrusted React sources in isolated warm workers; with `types`, their types as well.

    Nothing starts before the first `check`. Serves any number of event loops and tasks. Raises
    ConfigError for a backend that does not exist.
    """

    def __init__(
        self,
        backend: str = "auto",
        workers: int = 1,
        limits: Limits = CHECK_LIMITS,
        *,
        types: bool = False,
    ) -> None:
        self._limits = limits
        program = TYPE_CHECKER if types else CHECKER
        super().__init__(Pool(chooser(backend, limits, program), workers, limits))
        self._batches = _Batches(self._pool, workers)
        self._answers = Answers(_result, lambda result: result.status in _CHECKED, _CACHED_RESULTS)

    async def check(self, source: str) -> CheckResult:
        """The findings of one source. Raises SandboxUnavailable when nothing can isolate here."""
        started = time.perf_counter()
        body = source.encode("utf-8", "surrogatepass")
        if len(body) > self._limits.source_kib * 1024:
            return CheckResult("too_large", reason=f"over {self._limits.source_kib} KiB of source")
        key = hashlib.sha256(body).digest()
        result = await self._answers.get(key, lambda: self._batches.submit(source))
        return replace(result, seconds=time.perf_counter() - started)


_Waiting = tuple[str, "Future[Attempted]"]


class _Batches:
    """Sources in front of a pool: one goes out at once, what comes while it works goes together."""

    def __init__(self, pool: Pool, workers: int) -> None:
        self._pool = pool
        self._workers = workers
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._suspects: deque[_Waiting] = deque()  # of a batch that was lost: one by one
        self._out = 0

    def submit(self, source: str) -> Future[Attempted]:
        future: Future[Attempted] = Future()
        with self._lock:
            self._waiting.append((source, future))
        self._send()
        return future

    def _send(self) -> None:
        while batch := self._next():
            try:
                sent = self._pool.submit({"sources": [source for source, _ in batch]})
            except SandboxUnavailable as error:
                self._settle(batch, error)
            else:
                sent.add_done_callback(partial(self._back, batch))

    def _next(self) -> list[_Waiting]:
        """What goes out now, or nothing while all workers are busy."""
        with self._lock:
            if self._out >= self._workers:
                return []
            batch = [self._suspects.popleft()] if self._suspects else self._gather()
            self._out += bool(batch)
            return batch

    def _gather(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < _BATCH:
            source, future = self._waiting[0]
            size += 4 * len(source)
            if batch and size > _BATCH_BYTES:
                break
            self._waiting.popleft()
            if future.set_running_or_notify_cancel():  # else its caller gave up
                batch.append((source, future))
        return batch

    def _back(self, batch: list[_Waiting], done: Future[Attempted]) -> None:
        try:
            self._settle(batch, _parts(done, len(batch)))
        except Exception as error:  # whatever it is: nobody may wait for ever
            self._settle(batch, error)
        self._send()

    def _settle(self, batch: list[_Waiting], result: list[Attempted] | Exception) -> None:
        with self._lock:
            self._out -= 1
            lost = not isinstance(result, Exception) and result[0].reply is None
            if lost and len(batch) > 1:
                self._suspects.extend(batch)
                return
        for i, (_, future) in enumerate(batch):
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result[i])


def _parts(done: Future[Attempted], size: int) -> list[Attempted]:
    """The reply to a batch as one reply for each of its sources. Raises SandboxUnavailable."""
    if done.cancelled():
        raise SandboxUnavailable("this checker was closed.")
    attempted = done.result()
    if attempted.reply is None:
        return [attempted] * size
    results = attempted.reply.get("results")
    if not isinstance(results, list) or len(results) != size:
        return [Attempted({})] * size  # no form that `_result` knows
    return [Attempted(result) for result in results]


def _result(attempted: Attempted) -> CheckResult:
    if attempted.reply is None:
        return CheckResult(attempted.loss, reason=attempted.detail)
    try:
        status = attempted.reply["status"]
        if status not in _CHECKED:
            raise ValueError("no such status")
        findings = tuple(Finding(**entry) for entry in attempted.reply["findings"])
        return CheckResult(status, findings, str(attempted.reply.get("reason", "")))
    except (AttributeError, KeyError, TypeError, ValueError):
        return CheckResult("infra_error", reason="the worker's reply has another form")


@once_a_process
def shared_checker(backend: str = "auto", *, types: bool = False) -> ReactChecker:
    """The process's one checker for this backend; lives as long as it."""
    return ReactChecker(backend, types=types)
