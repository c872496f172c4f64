"""`math.steps_judge`: a language model says of each step whether it is right, wrong or uncertain.

Steps are those of `split_steps`: `<step i>` blocks, else paragraphs. A step's span is worth -1, 0
or +1; what a composite makes of it (the paper's w_s / |S|) is the composite's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.judges.budget import NoVerdict, Usage
from botgrpo.rewards.judges.client import JudgeClient, Session
from botgrpo.rewards.judges.prompts import Prompt, prompt_hash, request_text
from botgrpo.rewards.judges.settings import settings
from botgrpo.rewards.math.steps import Step, split_steps
from botgrpo.rewards.math.steps_prompts import PROCESSBENCH, STEPWISER, SUMMARISE, VERIFY, WINDOW
from botgrpo.rewards.math.steps_protocols import (
    Case,
    Opinion,
    Propagation,
    opv,
    processbench,
    stepwiser,
    windowed,
)
from botgrpo.sandbox.errors import ConfigError

PROTOCOLS: Mapping[str, tuple[Prompt, ...]] = {
    "windowed": (WINDOW,),
    "processbench": (PROCESSBENCH,),
    "stepwiser": (STEPWISER,),
    "opv": (SUMMARISE, VERIFY),
}
_OWN = ("protocol", "propagation", "window")
WINDOWS = (1, 3, 5)
_MOST_STEPS = 200  # a trace of more would cost more calls than it is worth
_WORDS = {-1: "wrong", 0: "uncertain", 1: "right"}


class StepsJudge:
    """A language model's -1, 0 or +1 on each step of a solution; the outcome is their mean.

    Needs an OpenAI-compatible endpoint: `url` and `model`, or BOTGRPO_JUDGE_URL and
    BOTGRPO_JUDGE_MODEL, and where the endpoint asks for a key BOTGRPO_JUDGE_KEY; without them
    `ConfigError`. `options` are those of `botgrpo.rewards.judges.settings.Settings`.

    Protocols: `windowed`, the paper's, judges `window` (1, 3 or 5; 3 by default) steps a call;
    `processbench` asks for the first wrong step; `stepwiser` reasons about one step a call; `opv`
    summarises first. Propagation of the first wrong step, for `windowed` and `stepwiser`:
    `error_propagation` (default; steps after it are worth 0, as under the other protocols),
    `independent`, `context_aware` (the judge is told its own earlier verdicts).

    Verdicts: no_error, error, no_steps (outcome 0, nobody is asked); infra_error, unreadable,
    budget and too_long (more than 200 steps) are unscored. Metrics: `steps`, `steps_right`
    and `steps_wrong`, and what the judging took.
    """

    def __init__(
        self,
        url: str | None = None,
        model: str | None = None,
        *,
        protocol: str = "windowed",
        propagation: Propagation | None = None,
        window: int | None = None,
        **options: Any,
    ) -> None:
        _check(protocol, propagation, window)
        self.spec = RewardSpec(
            name="math.steps_judge",
            version="1",
            outcome_range=(-1.0, 1.0),
            local_range=(-1.0, 1.0),
            deterministic=False,
            needs=("judge",),
            summary="a language model's -1, 0 or +1 on each step of a solution",
        )
        self.client = JudgeClient(settings(self.spec.name, url, model, options, _OWN))
        self.protocol = protocol
        self.propagation: Propagation = propagation or "error_propagation"
        self.window = window or 3

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of all that the judge is told, for the manifest."""
        return prompt_hash(PROTOCOLS[self.protocol])

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once, as many calls as `concurrency` allows."""
        async with self.client.session() as session, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._score(session, rollout)) for rollout in rollouts]
        return [task.result() for task in tasks]

    def examples(self) -> Sequence[Example]:
        """A right solution, and it with one wrong step."""
        return _examples()

    async def _score(self, session: Session, rollout: Rollout) -> Score:
        steps = split_steps(rollout.completion)
        if not steps:
            return Score(rollout.id, 0.0, verdict="no_steps", metrics=_metrics(()))
        if len(steps) > _MOST_STEPS:
            reason = f"{len(steps)} steps; at most {_MOST_STEPS} are judged"
            return Score.unscored(rollout.id, reason, verdict="too_long")
        usage, began = Usage(), time.perf_counter()
        texts = [rollout.completion[step.start : step.end] for step in steps]
        try:
            opinions = await self._judge(Case(session, usage, request_text(rollout.prompt), texts))
        except NoVerdict as error:
            seconds = time.perf_counter() - began
            score = Score.unscored(rollout.id, str(error), verdict=error.verdict, seconds=seconds)
            return replace(score, metrics=usage.metrics())
        values = [opinion.value for opinion in opinions]
        return Score(
            rollout.id,
            sum(values) / len(values),
            verdict="error" if -1 in values else "no_error",
            spans=tuple(map(_span, steps, opinions)),
            metrics={**_metrics(values), **usage.metrics()},
            seconds=time.perf_counter() - began,
        )

    async def _judge(self, case: Case) -> list[Opinion]:
        if self.protocol == "windowed":
            return await windowed(case, self.propagation, self.window)
        if self.protocol == "stepwiser":
            return await stepwiser(case, self.propagation)
        return await (processbench if self.protocol == "processbench" else opv)(case)


def _check(protocol: str, propagation: str | None, window: int | None) -> None:
    name = "math.steps_judge"
    if protocol not in PROTOCOLS:
        raise ConfigError(f"{name}: got protocol = {protocol!r}; allowed: {', '.join(PROTOCOLS)}")
    allowed = get_args(Propagation)
    if propagation not in (None, *allowed):
        raise ConfigError(f"{name}: got propagation = {propagation!r}; allowed: {allowed}")
    if window not in (None, *WINDOWS):
        raise ConfigError(f"{name}: got window = {window!r}; allowed: {WINDOWS}")
    if window is not None and protocol != "windowed":
        raise ConfigError(f"{name}: window is for the protocol windowed, and got {protocol}")
    if protocol in ("processbench", "opv") and propagation not in (None, "error_propagation"):
        raise ConfigError(
            f"{name}: {protocol} knows the first wrong step alone, so propagation = "
            f"{propagation!r} has no meaning; leave it out"
        )


def _span(step: Step, opinion: Opinion) -> Span:
    return Span(step.start, step.end, opinion.value, f"{_WORDS[opinion.value]}: {opinion.why}")


def _metrics(values: Sequence[int]) -> dict[str, float]:
    return {
        "steps": float(len(values)),
        "steps_right": float(values.count(1)),
        "steps_wrong": float(values.count(-1)),
    }


def _examples() -> Sequence[Example]:
    right = (
        "<step 1>The sum of the first n odd numbers is n^2.</step 1>\n"
        "<step 2>The first 12 odd numbers add up to 12^2 = 144.</step 2>\n"
        "<step 3>Half of 144 is 72.</step 3>\n<final>72</final>"
    )
    asked = "What is half of the sum of the first 12 odd numbers?"
    wrong = right.replace("12^2 = 144", "12^2 = 124")
    return (
        Example(Rollout("gold", "examples", asked, right), (1.0, 1.0), "no_error"),
        Example(
            Rollout("wrong-square", "examples", asked, wrong),
            (-1.0, 0.34),
            "error",
            "12^2 = 124",
            gold=False,
        ),
    )
