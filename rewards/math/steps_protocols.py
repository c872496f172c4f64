"""How a judge is taken through a solution's steps, and what its answers say of each of them.

Every protocol maps the texts of n steps to n opinions. A step's text reaches the judge in a fence
of its own, so that none can pass for two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from botgrpo.rewards.judges.budget import Usage
from botgrpo.rewards.judges.client import Session
from botgrpo.rewards.judges.fence import fence, remark
from botgrpo.rewards.judges.prompts import Prompt
from botgrpo.rewards.judges.question import Unreadable
from botgrpo.rewards.math.steps_prompts import (
    PROCESSBENCH,
    STEPWISER,
    SUMMARISE,
    VERIFY,
    WINDOW,
    ChunkVerdict,
    FirstError,
    Summary,
    WindowVerdict,
)

Propagation = Literal["error_propagation", "independent", "context_aware"]
_VALUES = {"right": 1, "unsure": 0, "wrong": -1}


@dataclass(frozen=True, slots=True)
class Opinion:
    """-1 wrong, 0 uncertain or not judged, +1 right, and why."""

    value: int
    why: str


AFTER_ERROR = Opinion(0, "after the first wrong step")


@dataclass(frozen=True, slots=True)
class Case:
    """One solution before a judge."""

    session: Session
    usage: Usage
    problem: str
    steps: Sequence[str]

    @property
    def fenced_problem(self) -> str:
        return fence(self.problem, "PROBLEM")

    def fenced_steps(self, stop: int) -> str:
        """The first `stop` steps, numbered from 1."""
        return "\n\n".join(fence(s, f"STEP {n}") for n, s in enumerate(self.steps[:stop], 1))


Ask = Callable[[int, int, Sequence[Opinion]], Coroutine[Any, Any, list[Opinion]]]


async def windowed(case: Case, propagation: Propagation, window: int) -> list[Opinion]:
    """The paper's judge: a call judges `window` steps and sees all before them.

    `error_propagation`: once a step is wrong, those after it are worth 0 and nobody is asked about
    them. `independent`: every step on its own account. `context_aware`: as that, and each call is
    told what was said of the steps before.
    """

    async def ask(start: int, stop: int, earlier: Sequence[Opinion]) -> list[Opinion]:
        numbers = list(range(start + 1, stop + 1))

        def those_asked(found: WindowVerdict) -> None:
            if [step.step for step in found.steps] != numbers:
                raise Unreadable("the answer judges other steps than those asked about")

        question = WINDOW.fill(
            problem=case.fenced_problem,
            steps=case.fenced_steps(stop),
            earlier=_told(earlier),
            first=str(start + 1),
            last=str(stop),
        )
        found = await case.session.ask(question, WindowVerdict, case.usage, check=those_asked)
        return [Opinion(_VALUES[step.verdict], remark(step.why)) for step in found.steps]

    return await _walk(len(case.steps), window, propagation, ask)


async def stepwiser(case: Case, propagation: Propagation) -> list[Opinion]:
    """One step a call: the judge reasons, then says Positive (+1) or Negative (-1)."""

    async def ask(start: int, stop: int, earlier: Sequence[Opinion]) -> list[Opinion]:
        question = STEPWISER.fill(
            problem=case.fenced_problem, steps=case.fenced_steps(stop), earlier=_told(earlier)
        )
        found = await case.session.ask(question, ChunkVerdict, case.usage)
        return [Opinion(1 if found.verdict == "Positive" else -1, remark(found.reasoning))]

    return await _walk(len(case.steps), 1, propagation, ask)


async def processbench(case: Case) -> list[Opinion]:
    """One call for all: the index of the first wrong step or -1; later ones are worth 0."""
    found = await _first_error(case, PROCESSBENCH, "PARAGRAPH", case.steps)
    return [_opinion(n, found, "before any wrong step") for n in range(len(case.steps))]


async def opv(case: Case) -> list[Opinion]:
    """Two calls: a summary, and its first wrong item; the steps it sums up are then the wrong ones.

    Steps that no item sums up are worth 0.
    """

    def in_order(found: Summary) -> None:
        ranges = [(item.first, item.last) for item in found.items]
        rising = all(a <= b for a, b in ranges) and all(a[1] < b[0] for a, b in pairwise(ranges))
        if not rising or ranges[-1][1] > len(case.steps):
            raise Unreadable("the summary's items name no ranges of steps in order")

    every = case.fenced_steps(len(case.steps))
    question = SUMMARISE.fill(problem=case.fenced_problem, steps=every)
    summary = await case.session.ask(question, Summary, case.usage, check=in_order)
    found = await _first_error(case, VERIFY, "ITEM", [item.text for item in summary.items])
    opinions = [Opinion(0, "in no item of the summary")] * len(case.steps)
    for number, item in enumerate(summary.items):
        count = item.last - item.first + 1
        opinion = _opinion(number, found, f"summed up as: {remark(item.text)}")
        opinions[item.first - 1 : item.last] = [opinion] * count
    return opinions


async def _first_error(case: Case, prompt: Prompt, name: str, texts: Sequence[str]) -> FirstError:
    """The judge's index of the first wrong one of `texts`, or -1."""

    def exists(found: FirstError) -> None:
        if found.first_wrong >= len(texts):
            raise Unreadable(f"the answer names a {name.lower()} that does not exist")

    steps = "\n\n".join(fence(text, f"{name} {n}") for n, text in enumerate(texts))
    question = prompt.fill(problem=case.fenced_problem, steps=steps)
    return await case.session.ask(question, FirstError, case.usage, check=exists)


def _opinion(number: int, found: FirstError, right: str) -> Opinion:
    if found.first_wrong < 0 or number < found.first_wrong:
        return Opinion(1, right)
    return Opinion(-1, remark(found.why)) if number == found.first_wrong else AFTER_ERROR


def _told(earlier: Sequence[Opinion]) -> str:
    """The verdicts alone: a reason may quote the candidate."""
    if not earlier:
        return ""
    words = {value: word for word, value in _VALUES.items()}
    said = ", ".join(f"step {n} {words[o.value]}" for n, o in enumerate(earlier, 1))
    return f"Your verdicts so far: {said}.\n\n"


async def _walk(count: int, window: int, propagation: Propagation, ask: Ask) -> list[Opinion]:
    """Ask about `count` steps, `window` at a time, in the way that `propagation` says."""
    ranges = [(start, min(start + window, count)) for start in range(0, count, window)]
    if propagation == "independent":
        parts = await _together([ask(start, stop, ()) for start, stop in ranges])
        return [opinion for part in parts for opinion in part]
    opinions: list[Opinion] = []
    for start, stop in ranges:
        told = opinions if propagation == "context_aware" else ()
        opinions += await ask(start, stop, told)
        wrong = [n for n, opinion in enumerate(opinions) if opinion.value < 0]
        if wrong and propagation == "error_propagation":
            kept = opinions[: wrong[0] + 1]
            return kept + [AFTER_ERROR] * (count - len(kept))
    return opinions


async def _together(work: Sequence[Coroutine[Any, Any, list[Opinion]]]) -> list[list[Opinion]]:
    """All results in order; where one fails the others are stopped before its error goes on."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
