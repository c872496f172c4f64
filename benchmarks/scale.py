"""What a large step needs:  python -m botgrpo.benchmarks.scale [--rollouts N] [--step-s S]

Measures on this machine how long one core is busy with a verdict, a page and a step check, takes
the judge as it is described, and says how many cores, nodes, calls and how much money it takes to
score N rollouts while the next N are drawn. What grows first is the next bottleneck.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from botgrpo.benchmarks.tasks.aime_micro import AimeMicroTask
from botgrpo.rewards.base import Rollout
from botgrpo.rewards.math.steps_sympy import StepsSympy
from botgrpo.sandbox import corpus, machine
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.react import ReactCompiler

VERDICTS, PAGES, SOLUTIONS = 300, 24, 300
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that is asked once a rollout: figures of the user's endpoint, not of this machine."""

    latency_s: float
    concurrency: int
    tokens_in: int
    tokens_out: int
    usd_per_million_in: float
    usd_per_million_out: float

    def seconds(self, calls: int) -> float:
        return calls * self.latency_s / self.concurrency

    def usd(self, calls: int) -> float:
        per_call = self.tokens_in * self.usd_per_million_in
        per_call += self.tokens_out * self.usd_per_million_out
        return calls * per_call / 1e6


@dataclass(frozen=True, slots=True)
class Stage:
    """Work that every rollout needs: core seconds of each, as measured."""

    name: str
    core_s: float

    def cores(self, rollouts: int, step_s: float) -> int:
        """Cores that keep up with a step of so many seconds."""
        return math.ceil(rollouts * self.core_s / step_s)


def table(
    stages: Sequence[Stage], judge: Judge, rollouts: int, step_s: float, cores_a_node: int
) -> str:
    """The answer, as Markdown."""
    lines = [
        f"| for {rollouts:,} rollouts in {step_s:g} s | a core, ms each | cores | "
        f"nodes of {cores_a_node} |",
        "| --- | --- | --- | --- |",
    ]
    needs = {each.name: each.cores(rollouts, step_s) for each in stages}
    for each in stages:
        nodes = math.ceil(needs[each.name] / cores_a_node)
        lines.append(f"| {each.name} | {1000 * each.core_s:.1f} | {needs[each.name]} | {nodes} |")
    total = sum(needs.values())
    lines.append(f"| all of them | | {total} | {math.ceil(total / cores_a_node)} |")
    judging_s = judge.seconds(rollouts)
    enough = math.ceil(rollouts * judge.latency_s / step_s)
    lines += [
        "",
        f"A judge that answers in {judge.latency_s:g} s, {judge.concurrency} calls at a time: "
        f"{judging_s:.0f} s for {rollouts:,} calls, so {enough} calls at a time keep up; "
        f"{rollouts * (judge.tokens_in + judge.tokens_out):,} tokens and "
        f"{judge.usd(rollouts):.2f} USD a step at {judge.usd_per_million_in:g} and "
        f"{judge.usd_per_million_out:g} USD a million.",
        f"Next bottleneck: {bottleneck(needs, judging_s, step_s)}.",
    ]
    return "\n".join(lines)


def bottleneck(needs: dict[str, int], judging_s: float, step_s: float) -> str:
    """What grows first: the judge where it is over the step's time, else what takes most cores."""
    if judging_s > step_s:
        return f"the judge, {judging_s / step_s:.1f} times a step's time at this concurrency"
    name = max(needs, key=lambda each: needs[each])
    return f"{name}, {needs[name]} of {sum(needs.values())} cores"


async def verdict_s(backend: str) -> float:
    """Seconds a verdict with one worker, which keeps about one core busy."""
    compiler = ReactCompiler(backend)
    try:
        sources = [each.source for each in itertools.islice(corpus.candidates(11), VERDICTS)]
        return await _mean_s(lambda i: compiler.compile(sources[i]), VERDICTS)
    finally:
        await compiler.aclose()


async def page_s(backend: str) -> float:
    """Core seconds a page with its picture: two workers on two cores, so twice the time of each."""
    compiler = ReactCompiler(backend)
    browser = ReactBrowser(backend, workers=2, compiler=compiler)
    pages = (each.source for each in corpus.candidates(12) if each.page)
    try:
        await asyncio.gather(*(browser.render(next(pages)) for _ in range(4)))
        began = time.perf_counter()
        await asyncio.gather(*(browser.render(next(pages)) for _ in range(PAGES)))
        return 2 * (time.perf_counter() - began) / PAGES
    finally:
        await browser.aclose()
        await compiler.aclose()


async def check_s() -> float:
    """Seconds to check the steps of a solution by exact arithmetic."""
    pairs = AimeMicroTask().corpus(SOLUTIONS, seed=5, corruption_rate=0.1)
    reward = StepsSympy()

    def one(i: int) -> Awaitable[object]:
        return reward.score([Rollout(f"r{i}", "g", pairs[i][0].prompt, pairs[i][1])])

    return await _mean_s(one, SOLUTIONS)


async def _mean_s(work: Callable[[int], Awaitable[object]], count: int) -> float:
    for i in range(min(WARM_UP, count)):
        await work(i)
    began = time.perf_counter()
    for i in range(WARM_UP, count):
        await work(i)
    return (time.perf_counter() - began) / (count - WARM_UP)


async def measure(backend: str) -> list[Stage]:
    return [
        Stage("verdict with spans (react.compile)", await verdict_s(backend)),
        Stage("page and picture (react.visual, react.vlm_judge)", await page_s(backend)),
        Stage("step check (math.steps_sympy)", await check_s()),
    ]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m botgrpo.benchmarks.scale",
        description="cores, nodes, calls and money to score a step of many rollouts",
    )
    parser.add_argument("--rollouts", type=int, default=8192, metavar="N")
    parser.add_argument("--step-s", type=float, default=60.0, metavar="S", help="a step's time")
    parser.add_argument("--cores-a-node", type=int, default=64, metavar="C")
    parser.add_argument("--backend", default="auto", help="sandbox that is measured")
    parser.add_argument("--judge-latency-s", type=float, default=4.0)
    parser.add_argument("--judge-concurrency", type=int, default=128)
    parser.add_argument("--judge-tokens", type=int, nargs=2, default=(2500, 300))
    parser.add_argument("--judge-usd", type=float, nargs=2, default=(0.15, 0.60))
    given = parser.parse_args()
    walls = chooser(given.backend)()
    walls.close()
    judge = Judge(
        given.judge_latency_s, given.judge_concurrency, *given.judge_tokens, *given.judge_usd
    )
    print(machine.facts(walls.name))
    stages = asyncio.run(measure(walls.name))
    print(f"measured under {walls.name}\n")
    print(table(stages, judge, given.rollouts, given.step_s, given.cores_a_node))


if __name__ == "__main__":
    main()
