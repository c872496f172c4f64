"""How fast this machine judges: cold, warm, and with a picture, on every backend that works here.

The candidates are generated (see `corpus.py`), none twice, so that no cache answers. A candidate's
milliseconds are its own: waiting for a worker is left out.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from botgrpo.sandbox import chromium, corpus, docker, machine, usage
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.channel import Conversation, Lost
from botgrpo.sandbox.corpus import Candidate
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.inspection import Wish
from botgrpo.sandbox.react import ReactCompiler

_COLD = 10
_PAGES = 24  # for each worker
_WARM_UP = 40
_WEIGHED = 300
_SCALES = (100, 500, 1000, 5000)
_POOL_MIB = 1024
_NAME, _WIDE = 34, 34  # columns of the table


@dataclass(frozen=True, slots=True)
class Row:
    """One path on one backend: candidates a second, and the times of single ones."""

    name: str
    times_ms: Sequence[float] = ()
    per_s: float = 0.0
    note: str = ""

    def quantile_ms(self, share: float) -> float:
        """Nearest rank: a time that was measured."""
        return sorted(self.times_ms)[max(0, math.ceil(share * len(self.times_ms)) - 1)]


@dataclass(slots=True)
class Measured:
    """All of one backend; `wrong` names verdicts that a candidate should not have got."""

    backend: str
    rows: list[Row] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def main(
    backend: str | None = None, workers: int = 1, candidates: int = 1000, *, scaling: bool = False
) -> int:
    """Measure and print; every backend that isolates here unless one is named.

    Returns 1 if a verdict was wrong. Raises ConfigError for a wrong call, SandboxUnavailable where
    nothing works.
    """
    if workers < 1 or candidates < 1:
        raise ConfigError(f"workers={workers}, candidates={candidates}: both must be 1 or more.")
    names = _working(backend)
    print(machine.facts(names[0]), flush=True)
    found = []
    for name in names:
        print(f"measuring {name}: a minute or two", file=sys.stderr, flush=True)
        found.append(asyncio.run(measure(name, workers, candidates, scaling=scaling)))
        if found[-1].wrong:
            print(f"{name}: WRONG VERDICTS: {'; '.join(found[-1].wrong[:5])}")
    print("\n" + table(found), flush=True)
    return 1 if any(each.wrong for each in found) else 0


async def measure(backend: str, workers: int, candidates: int, *, scaling: bool) -> Measured:
    """Every row of one backend. Raises SandboxUnavailable."""
    found = Measured(backend)
    cold = await asyncio.to_thread(_cold, found)
    warm = await _warm(found, workers, candidates, bundle=False)
    found.rows += [cold, warm, await _warm(found, workers, candidates, bundle=True)]
    found.notes["warm : cold, a worker"] = f"{warm.per_s / workers / cold.per_s:.0f} : 1"
    await _weigh(found)
    try:
        chromium.find_chromium()
    except SandboxUnavailable as error:
        found.rows.append(Row("page and picture", note=str(error)))
    else:
        plain = await _pages(found, 1)
        seen = await _pages(found, 1, Wish(roles=True))
        found.rows += [plain, await _pages(found, 2), seen]
        with_ms, without_ms = (row.quantile_ms(0.5) for row in (seen, plain))
        times = f"{with_ms / without_ms:.1f} times ({with_ms - without_ms:.0f} ms more)"
        found.notes["a page with facts, to one without"] = times
    for scale in _SCALES if scaling else ():
        row = await _warm(found, workers, scale, bundle=False)
        found.notes[f"ms a candidate, of {scale}"] = f"{1000 / row.per_s:.2f}"
    return found


def table(found: Sequence[Measured]) -> str:
    """Backends side by side; milliseconds but for the first column of each, a second."""
    lines = [f"{'':{_NAME}}" + "".join(f"{each.backend:>{_WIDE}}" for each in found)]
    lines.append(f"{'':{_NAME}}" + f"{'per s':>10}{'p50 ms':>8}{'p95':>8}{'p99':>8}" * len(found))
    for number, row in enumerate(found[0].rows):
        cells = [_cells(each.rows[number]) for each in found]
        lines.append(f"{row.name:{_NAME}}" + "".join(cells))
    for name in found[0].notes:
        cells = [f"{each.notes[name]:>{_WIDE}}" for each in found]
        lines.append(f"{name:{_NAME}}" + "".join(cells))
    return "\n".join([*lines, *sorted({row.note for row in found[0].rows if row.note})])


def _cells(row: Row) -> str:
    if row.note:
        return f"{'no browser: see below':>{_WIDE}}"
    shares = "".join(f"{row.quantile_ms(share):8.1f}" for share in (0.5, 0.95, 0.99))
    return f"{row.per_s:10.1f}{shares}"


def _working(backend: str | None) -> list[str]:
    names = [backend] if backend else ["bubblewrap", "docker"]
    found, refusals = [], []
    for name in names:
        try:
            walls = chooser(name)()
            walls.close()
            found.append(walls.name)
        except SandboxUnavailable as error:
            refusals.append(str(error))
            print(f"{name}: left out, {error}")
    if not found:
        raise SandboxUnavailable("nothing to measure.\n" + "\n".join(refusals))
    return found


def _cold(found: Measured) -> Row:
    """A fresh worker for each candidate: start, greet, one verdict, remove."""
    walls = chooser(found.backend)()
    times_ms = []
    started = time.perf_counter()
    for each in itertools.islice(corpus.candidates(1), _COLD):
        began = time.perf_counter()
        worker = Conversation(walls.start(), DEFAULT_LIMITS)
        try:
            worker.greet()
            _compare(found, each, worker.ask({"source": each.source})["status"])
        except Lost as lost:
            raise SandboxUnavailable(f"{found.backend}: a worker was lost ({lost})") from None
        finally:
            worker.close()
        times_ms.append((time.perf_counter() - began) * 1000)
    wall_s = time.perf_counter() - started
    walls.close()
    return Row(f"cold: a worker each, {_COLD}", times_ms, _COLD / wall_s)


async def _warm(found: Measured, workers: int, candidates: int, *, bundle: bool) -> Row:
    compiler = ReactCompiler(found.backend, workers)

    async def judge(each: Candidate) -> float:
        result = await compiler.compile(each.source, bundle=bundle)
        _compare(found, each, result.status)
        return result.seconds

    try:
        await _timed(
            judge, list(itertools.islice(corpus.candidates(2), _WARM_UP * workers)), workers
        )
        sources = list(itertools.islice(corpus.candidates(3), candidates))
        times_ms, per_s = await _timed(judge, sources, workers)
    finally:
        await compiler.aclose()
    what = "with bundle" if bundle else "verdict, spans"
    return Row(f"warm: {what}, {workers} worker{'s' * (workers > 1)}", times_ms, per_s)


async def _pages(found: Measured, workers: int, wish: Wish | None = None) -> Row:
    compiler = ReactCompiler(found.backend)
    browser = ReactBrowser(found.backend, workers, compiler=compiler)

    async def render(each: Candidate) -> float:
        began = time.perf_counter()
        _, page = await browser.render(each.source, wish)
        if page is None or page.png is None or (each.page and page.status != each.page):
            found.wrong.append(f"{each.kind}: {page.status if page else 'no page'}")
        return time.perf_counter() - began

    mountable = (each for each in corpus.candidates(4) if each.page)
    try:
        await _timed(render, list(itertools.islice(mountable, 2 * workers)), workers)
        sources = list(itertools.islice(mountable, _PAGES * workers))
        times_ms, per_s = await _timed(render, sources, workers)
    finally:
        await browser.aclose()
        await compiler.aclose()
    what = "page, picture, facts" if wish else "page and picture"
    return Row(f"{what}, {workers} worker{'s' * (workers > 1)}", times_ms, per_s)


async def _timed(
    work: Callable[[Candidate], Awaitable[float]], candidates: Sequence[Candidate], workers: int
) -> tuple[list[float], float]:
    """Milliseconds of each, and how many a second; at most `workers` at a time."""
    room = asyncio.Semaphore(workers)

    async def one(candidate: Candidate) -> float:
        async with room:
            return 1000 * await work(candidate)

    started = time.perf_counter()
    times_ms = await asyncio.gather(*map(one, candidates))
    return times_ms, len(candidates) / (time.perf_counter() - started)


async def _weigh(found: Measured) -> None:
    """Two compile workers: their memory after bundles, and their processor time for verdicts."""
    compiler = ReactCompiler(found.backend, workers=2)
    engine = docker.connect() if found.backend == "docker" else None
    made = corpus.candidates(5)

    async def judge(count: int, *, bundle: bool) -> None:
        sources = [each.source for each in itertools.islice(made, count)]
        await asyncio.gather(*(compiler.compile(source, bundle=bundle) for source in sources))

    try:
        await judge(2 * _WARM_UP, bundle=False)
        before_s = await asyncio.to_thread(usage.workers_cpu_s, engine)
        await judge(_WEIGHED, bundle=False)
        used_s = await asyncio.to_thread(usage.workers_cpu_s, engine) - before_s
        await judge(_WEIGHED, bundle=True)
        used_mib = await asyncio.to_thread(usage.workers_mib, engine)
    finally:
        await compiler.aclose()
        if engine:
            engine.close()
    found.notes["memory of 2 compile workers"] = f"{used_mib:.0f} of {_POOL_MIB} MiB"
    found.notes["processor time of a warm verdict"] = f"{1000 * used_s / _WEIGHED:.1f} ms"


def _compare(found: Measured, candidate: Candidate, status: str) -> None:
    if status != candidate.status:
        found.wrong.append(f"{candidate.kind}: {status}, not {candidate.status}")
