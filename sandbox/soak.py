"""Does anything grow? Thousands of candidates, some hostile, while workers are killed at random.

Of the hostile share four in five are sources (see `corpus.py`) and one in five is a worker killed
from outside. With a browser every fiftieth page is mounted as well, and every fifth of those is a
page that hangs, swells or leaves. Counts are taken between batches, when nothing is under way.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import gc
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from botgrpo.sandbox import corpus, docker, machine, usage
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.corpus import CALM, Candidate
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler
from botgrpo.sandbox.usage import Held

_WORKERS = 2
_BATCHES = 50
_LINES = 10
_KILLS = 0.2  # of the hostile share
_MOUNT_EVERY = 50
_SLACK = {"descriptors": 2, "memory_mib": 8}  # else 1: a worker may be away for a moment
_LOST = frozenset(("timeout", "oom", "crash", "infra_error"))


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """After so many candidates: what we hold, and what one cost since the sample before."""

    candidates: int
    ms: float
    held: Held


def main(
    backend: str = "auto", candidates: int = 5000, hostile: float = 0.05, *, browser: bool = False
) -> int:
    """Print what is held at intervals and the verdict; returns 0 if nothing grew, else 1.

    A wrong verdict counts as growth does. Raises ConfigError and SandboxUnavailable.
    """
    if candidates < _BATCHES or not 0 <= hostile <= 1:
        raise ConfigError(
            f"candidates={candidates}, hostile={hostile}: at least {_BATCHES}, and 0 to 1."
        )
    print(machine.facts(backend), flush=True)
    soak = Soak(backend, hostile, browser=browser)
    samples = asyncio.run(soak.run(candidates))
    print(f"\n{backend}: {'; '.join(f'{n} {what}' for what, n in sorted(soak.counts.items()))}")
    grown = growth([each.held for each in samples])
    for line in [*soak.wrong[:10], *grown]:
        print(line)
    print("GROWTH" if grown else "no growth", "and no wrong verdict" * (not soak.wrong))
    return 1 if grown or soak.wrong else 0


def growth(helds: Sequence[Held]) -> list[str]:
    """What the last fifth holds more of than the second fifth, medians, one line each."""
    fifth = len(helds) // 5
    lines = []
    for name in (each.name for each in dataclasses.fields(Held)):
        before = statistics.median(getattr(each, name) for each in helds[fifth : 2 * fifth])
        after = statistics.median(getattr(each, name) for each in helds[-fifth:])
        if after > before + _SLACK.get(name, 1):
            lines.append(f"{name} grew from {before:g} to {after:g}")
    return lines


class Soak:
    """One run; `counts` of what candidates came to, `wrong` names verdicts they should not get."""

    def __init__(self, backend: str, hostile: float, *, browser: bool) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self._hostile = hostile
        self._rng = random.Random(0)
        self._room = asyncio.Semaphore(2 * _WORKERS)
        self._compiler = ReactCompiler(backend, _WORKERS)
        self._browser = ReactBrowser(backend, 1, compiler=self._compiler) if browser else None
        # Remembered answers are memory that grows on purpose, up to a bound.
        for answers in (self._compiler._answers, self._browser and self._browser._answers):
            if answers:
                answers._size = 16
        self._sources = corpus.candidates(6, hostile * (1 - _KILLS))
        self._pages = corpus.hostile_pages(7)
        self._engine: Any = None
        # Workers of others in this process: one killed there lies unnoticed until it is asked for.
        self._spare: frozenset[Any] = frozenset()

    async def run(self, candidates: int) -> list[Sample]:
        """All of them, in batches; a sample after each."""
        samples: list[Sample] = []
        size = candidates // _BATCHES
        backend = await asyncio.to_thread(self._compiler._pool.backend)
        if backend.name == "docker":
            self._engine = docker.connect()
        self._spare = frozenset(await asyncio.to_thread(usage.running, self._engine))
        await asyncio.to_thread(self._compiler.describe)
        fields = [each.name for each in dataclasses.fields(Held)]
        print("".join(f"{name:>12}" for name in ("candidates", "ms each", *fields)), flush=True)
        try:
            for batch in range(_BATCHES):
                started = time.perf_counter()
                await asyncio.gather(*(self._one(batch * size + i) for i in range(size)))
                ms = (time.perf_counter() - started) * 1000 / size
                await self._mount(batch, size)
                gc.collect()
                held = await asyncio.to_thread(usage.held, self._engine)
                samples.append(Sample((batch + 1) * size, ms, held))
                if (batch + 1) % (_BATCHES // _LINES) == 0:
                    _print(samples[-(_BATCHES // _LINES) :])
        finally:
            if self._browser:
                await self._browser.aclose()
            await self._compiler.aclose()
            if self._engine:
                self._engine.close()
        return samples

    async def _one(self, number: int) -> None:
        async with self._room:
            if self._rng.random() < self._hostile * _KILLS:
                self.counts["workers killed"] += 1
                await asyncio.to_thread(usage.kill_a_worker, self._rng, self._spare, self._engine)
            candidate = next(self._sources)
            with self._unscored():
                result = await self._compiler.compile(candidate.source)
                self._judge(candidate, result.status, candidate.status)

    async def _mount(self, batch: int, size: int) -> None:
        if self._browser is None:
            return
        good = (each for each in self._sources if each.page)
        for _ in range(max(1, size // _MOUNT_EVERY)):
            candidate = next(self._pages if batch % 5 == 0 else good)
            with self._unscored():
                _, page = await self._browser.render(candidate.source)
                status = page.status if page else "not mounted"
                self._judge(candidate, status, candidate.page or status)

    def _judge(self, candidate: Candidate, status: str, want: str) -> None:
        if status in _LOST:
            self.counts[f"lost twice ({status})"] += 1
        elif status == want or (not want and status in CALM):
            self.counts["judged"] += 1
        else:
            self.counts["judged wrong"] += 1
            self.wrong.append(f"{candidate.kind}: {status}, not {want or 'calm'}")

    @contextlib.contextmanager
    def _unscored(self) -> Any:
        try:
            yield
        except SandboxUnavailable as error:
            self.counts[f"unscored: {str(error)[:60]}"] += 1


def _print(samples: Sequence[Sample]) -> None:
    """One line: the mean cost, and of each count the last."""
    last = samples[-1]
    values = [getattr(last.held, each.name) for each in dataclasses.fields(Held)]
    cells = [statistics.fmean(each.ms for each in samples), *values]
    shown = (f"{cell:12.1f}" if isinstance(cell, float) else f"{cell:12}" for cell in cells)
    print(f"{last.candidates:12}" + "".join(shown), flush=True)
