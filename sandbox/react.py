"""Does this React source compile? Isolated esbuild, answered with places in the source and facts.

Status, the first that applies: `syntax` (parse or bundle time), `resolve` (a name that may not be
imported), `link` (an export that is not there), `no_default_export`, `not_a_component` (as far as
it can be told without running it), `too_large`, `timeout`, `oom`, `crash`, then `ok`. `infra_error`
means that nobody could tell. Lines end as in JavaScript: \\n, \\r\\n, \\r, U+2028, U+2029.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from botgrpo.sandbox.answers import Answers
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.base import DEFAULT_LIMITS, Limits
from botgrpo.sandbox.pool import Attempted, Pool
from botgrpo.sandbox.pooled import Pooled, once_a_process
from botgrpo.sandbox.replies import plain, whole

_CACHED_RESULTS = 4096
_JUDGED = frozenset(
    ("ok", "syntax", "resolve", "link", "no_default_export", "not_a_component", "too_large")
)


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of the source: line from 1; column from 0 and length in the diagnostic's unit."""

    line: int
    column: int
    length: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One complaint: line from 1; column from 0 in that line and length, both in `unit`s.

    What it points at may go on in the following lines: `length` counts their ends too.
    """

    kind: str  # syntax | resolve | link
    message: str
    line: int
    column: int
    length: int
    unit: Literal["utf8", "utf16"] = "utf8"
    tool: str = "esbuild"
    notes: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundle:
    """An ES module with the component as its default export, and what a page needs beside it.

    `packages` are scripts of the worker's `vendor/`, in their order; `classes` the words of the
    source that may be Tailwind's.
    """

    code: str
    packages: list[str]
    classes: list[str]


@dataclass(frozen=True, slots=True)
class CompileResult:
    """What one source came to. `facts` (see `ReactCompiler.compile`) is empty unless it built.

    `bundle` is None unless it was asked for and the status is `ok`.
    """

    status: str
    diagnostics: tuple[Diagnostic, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    bundle: Bundle | None = None


class ReactCompiler(Pooled):
    """Compiles untrusted React sources in isolated warm workers.

    Nothing starts before the first `compile`. Serves any number of event loops and tasks; more
    calls than workers wait in a queue. Raises ConfigError for a backend that does not exist.
    """

    def __init__(
        self, backend: str = "auto", workers: int = 1, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._limits = limits
        super().__init__(Pool(chooser(backend, limits), workers, limits))
        self._answers = Answers(_result, lambda result: result.status in _JUDGED, _CACHED_RESULTS)

    async def compile(
        self, source: str, *, bundle: bool = False, places: bool = False
    ) -> CompileResult:
        """The result for one source; with `bundle`, what a page needs to mount it.

        With `places` the bundle's elements know where in the source they were written.

        `facts` of a built source, read from its syntax tree: `component` (name or None),
        `returns_jsx`, `tags` (name to count), `props` (names), `text` (literal children).
        Raises SandboxUnavailable when nothing can be isolated here.
        """
        started = time.perf_counter()
        body = source.encode("utf-8", "surrogatepass")
        if len(body) > self._limits.source_kib * 1024:
            return CompileResult(
                "too_large", reason=f"over {self._limits.source_kib} KiB of source"
            )
        request: dict[str, Any] = {"source": source, **({"bundle": True} if bundle else {})}
        if places:
            request["places"] = True
        key = hashlib.sha256(b"%d%d" % (bundle, places) + body).digest()
        result = await self._answers.get(key, lambda: self._pool.submit(request))
        return replace(result, seconds=time.perf_counter() - started)


def _result(attempted: Attempted) -> CompileResult:
    try:
        return _read(attempted)
    except (AttributeError, KeyError, TypeError, ValueError):
        return CompileResult("infra_error", reason="the worker's reply has another form")


def _read(attempted: Attempted) -> CompileResult:
    reply = attempted.reply
    if reply is None:
        return CompileResult(attempted.loss, reason=attempted.detail)
    facts = dict(reply.get("facts") or {})
    if facts:
        facts["tags"] = {name: count for name, count in facts["tags"]}
    diagnostics = tuple(map(_diagnostic, reply.get("diagnostics", ())))
    reason = reply.get("reason") or (diagnostics[0].message if diagnostics else "")
    if reply["status"] not in _JUDGED:
        raise ValueError("no such status")
    bundle = None
    if "code" in reply:
        lists = (list(map(plain, reply[name])) for name in ("packages", "classes"))
        bundle = Bundle(plain(reply["code"]), *lists)
    return CompileResult(reply["status"], diagnostics, facts, plain(reason), bundle=bundle)


def _diagnostic(entry: Mapping[str, Any]) -> Diagnostic:
    line, column, length = _place(entry["place"] or {"line": 1, "column": 0, "length": 0})
    notes = tuple(Place(*_place(note)) for note in entry["notes"])
    return Diagnostic(
        plain(entry["kind"]), plain(entry["message"]), line, column, length, notes=notes
    )


def _place(place: Mapping[str, Any]) -> tuple[int, int, int]:
    return whole(place["line"]), whole(place["column"]), whole(place["length"])


@once_a_process
def shared_compiler(backend: str = "auto", workers: int = 1) -> ReactCompiler:
    """The process's one compiler for this backend and number of workers; lives as long as it."""
    return ReactCompiler(backend, workers)
