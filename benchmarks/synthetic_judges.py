"""SYNTHETIC judges for figures F7, F9 and F10: what a model would be asked for, without a model.

`synthetic.page_judge` stands in for `react.vlm_judge`. No page is looked at: the share of what the
request asks for, as the compiler's facts tell it, stands for what a picture would show. What it
has in common with the real judge are scale (0..10 in tenths, -0.3 without a page), variants, the
forms of the answers, and how blamed lines become spans. Its faults are put in, one a parameter:

    noise   every protocol: the score of a page is off by so many points (deviation), new each time
    leak    one_turn alone, since no other question shows the code before the score: up to so many
            points more for longer code, and fewer for shorter code
    lines   one_turn: three every time, since who reads code finds something; two_turn: one for
            every three points that the settled score lacks. Nothing here knows where a page goes
            wrong, so each is a random line with text.

A judge that drifts is `noise.drift(synthetic.page_judge(...))`.

`synthetic.steps` takes a checker of steps, such as `math.steps_sympy`, through the paper's
propagations and windows. Exact arithmetic looks at one step and remembers nothing, so two readings
are ours: the steps of a window share its worst verdict, and a judge that knows its own verdicts
(`context_aware`) trusts each step after a wrong one a notch less.

How the faults of real judges compare with these is not known: a figure made with them shows what
such faults would do, and says nothing about any model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from botgrpo.rewards.base import Example, Reward, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.local import Local, checked_scores, local_of
from botgrpo.rewards.math.steps_protocols import Propagation
from botgrpo.rewards.noise.base import generator
from botgrpo.rewards.react.complete import ReactComplete
from botgrpo.rewards.react.examples import vlm_examples
from botgrpo.rewards.react.extract import Extraction, extract
from botgrpo.rewards.react.judged_lines import LOCAL_RANGE, Blame, blamed
from botgrpo.rewards.react.vlm_judge import Variant
from botgrpo.rewards.react.vlm_prompts import LookAndLines
from botgrpo.rewards.registry import build, register
from botgrpo.rewards.training_step import training_step
from botgrpo.sandbox.attempt import attempt
from botgrpo.sandbox.errors import ConfigError

NO_PAGE = -0.3  # as react.vlm_judge
TYPICAL = 320  # code points of a component of the task `react`
MOST_LINES = 3
POINTS_A_LINE = 3  # that a page lacks for each line that two_turn blames


@register("synthetic.page_judge")
class PageJudge:
    """SYNTHETIC: a screenshot judge's score and lines from the compiler's facts, with its faults.

    The reference is that of `react.complete`. Verdicts: judged; those of react.compile where
    nothing compiles (-0.3); infra_error is unscored.

    Raises:
        ConfigError: an unknown variant, a negative fault, or a leak where no code is shown.
    """

    def __init__(
        self,
        variant: Variant = "global",
        *,
        noise: float = 0.0,
        leak: float = 0.0,
        seed: int = 0,
        backend: str = "auto",
    ) -> None:
        if variant not in get_args(Variant):
            raise ConfigError(f"got variant = {variant!r}; allowed: {', '.join(get_args(Variant))}")
        if min(noise, leak) < 0:
            raise ConfigError(f"got noise = {noise}, leak = {leak}; allowed: 0 or more points")
        if leak and variant != "one_turn":
            raise ConfigError(
                f"got leak = {leak} with variant = {variant!r}: its score is settled before the "
                'code is shown; leave it out, or take variant = "one_turn"'
            )
        self.variant, self.noise, self.leak, self.seed = variant, noise, leak, seed
        self.spec = RewardSpec(
            name="synthetic.page_judge",
            version="1",
            outcome_range=(NO_PAGE, 1.0),
            local_range=None if variant == "global" else LOCAL_RANGE,
            deterministic=not noise and variant == "global",
            needs=("sandbox",),
            summary=f"SYNTHETIC {variant} screenshot judge: noise {noise:g}, leak {leak:g} points",
        )
        self._page = ReactComplete(backend)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """Compiled all at once; one answer a rollout, drawn from its id and the training step."""
        pages = await checked_scores("react.complete", self._page, rollouts)
        return [self._score(r, page) for r, page in zip(rollouts, pages, strict=True)]

    def examples(self) -> Sequence[Example]:
        """Those of the real judge that compiling alone can tell."""
        return [e for e in vlm_examples() if e.verdict in ("judged", "no_code", "syntax")]

    def _score(self, rollout: Rollout, page: Score) -> Score:
        if page.outcome is None:
            return page
        code = extract(rollout.completion)
        if not page.metrics["compile"] or code is None:
            return Score(rollout.id, NO_PAGE, verdict=page.verdict, reason=page.reason)
        said = self._answer(rollout, code, page.metrics["match"])
        spans = blamed(code, said.lines)
        return Score(rollout.id, said.score / 10, "judged", said.remark, spans=spans)

    def _answer(self, rollout: Rollout, code: Extraction, match: float) -> LookAndLines:
        """What a model of this kind would answer; the score is drawn before any line."""
        key = (self.seed, training_step(), attempt(), rollout.id)
        rng = generator("synthetic.page_judge", *key)
        excess = min(max((len(code.code) - TYPICAL) / TYPICAL, -1.0), 1.0)
        points = 10 * match + self.noise * rng.standard_normal() + self.leak * excess
        score = int(min(max(round(points), 0), 10))
        count = {
            "global": 0,
            "one_turn": MOST_LINES,
            "two_turn": min(-(-(10 - score) // POINTS_A_LINE), MOST_LINES),
        }[self.variant]
        remark = f"synthetic: shows {match:.0%} of what was asked"
        return LookAndLines(remark=remark, lines=_any_lines(code, count, rng), score=score)


def _any_lines(code: Extraction, count: int, rng: np.random.Generator) -> list[Blame]:
    """Different lines with text, each with an impact of -1 to -3."""
    written = [n for n, line in enumerate(code.code.split("\n"), 1) if line.strip()]
    chosen = rng.permutation(written)[:count].tolist()
    impacts = rng.integers(1, 4, len(chosen)).tolist()
    return [
        Blame.model_validate({"line": line, "why": "synthetic", "impact": -impact})
        for line, impact in zip(chosen, impacts, strict=True)
    ]


@register("synthetic.steps")
class Steps:
    """A checker's verdicts on steps as another propagation and window would give them.

    error_propagation: after the first wrong step all are worth 0. independent: each as it was
    found. context_aware: after the first wrong step each is worth one less, -1 at the lowest. With
    a `window` of n each n steps in a row share the lowest value among them, before that. The
    outcome, and what tokens are paid for a verdict, are the checker's.
    """

    def __init__(
        self,
        inner: Reward | str,
        propagation: Propagation = "error_propagation",
        window: int = 1,
    ) -> None:
        if propagation not in get_args(Propagation):
            allowed = ", ".join(get_args(Propagation))
            raise ConfigError(f"got propagation = {propagation!r}; allowed: {allowed}")
        if window < 1:
            raise ConfigError(f"got window = {window}; allowed: 1 or more steps")
        self.inner = build(inner) if isinstance(inner, str) else inner
        self.propagation, self.window = propagation, window
        told: dict[str, Any] = {"propagation": propagation, "window": window}
        self.spec = replace(
            self.inner.spec,
            name=f"synthetic.steps({self.inner.spec.name})",
            version=f"1+{self.inner.spec.version}",
            summary=f"{self.inner.spec.name}, {', '.join(f'{k} {v}' for k, v in told.items())}",
        )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """The checker's scores with other values on their spans."""
        scores = await checked_scores(self.inner.spec.name, self.inner, rollouts)
        return [replace(score, spans=self._ruled(score.spans)) for score in scores]

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local:
        """As the checker pays for such verdicts."""
        return local_of(self.inner, rollout, score, decay_lines=decay_lines) or ()

    def examples(self) -> Sequence[Example]:
        """The checker's own: what it refutes is refuted still, though perhaps not there alone."""
        give = getattr(self.inner, "examples", None)
        return [replace(e, blames=None) for e in give()] if give is not None else []

    def _ruled(self, spans: Sequence[Span]) -> tuple[Span, ...]:
        values = ruled([span.value for span in spans], self.propagation, self.window)
        return tuple(replace(s, value=v) for s, v in zip(spans, values, strict=True))


def ruled(values: Sequence[float], propagation: Propagation, window: int) -> list[float]:
    """Verdicts on n steps in order, each -1, 0 or +1, under a propagation and a window."""
    found = list(values)
    for start in range(0, len(found), window):
        block = found[start : start + window]
        found[start : start + window] = [min(block)] * len(block)
    wrong = next((n for n, value in enumerate(found) if value < 0), None)
    if wrong is None or propagation == "independent":
        return found
    # the window that holds the first wrong step was judged at once
    after = (wrong // window + 1) * window
    if propagation == "error_propagation":
        return found[:after] + [0.0] * len(found[after:])
    return found[:after] + [max(value - 1.0, -1.0) for value in found[after:]]
