"""Composition as data: which outcomes and which local signals, with what weights and bounds.

r_kt = w_g G_k + w_s S_kt (BoT-GRPO, eq. 4). G is a weighted sum of outcomes, S a weighted sum of
local signals on the tokens; both are clipped to a declared range, since the bounds that let the
outcome dominate hold only for a bounded S.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from botgrpo.rewards.base import Range, Reward, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.local import Local, checked_scores, local_of
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Design:
    """A reward design.

    Attributes:
        outcomes: reference -> weight; their weighted sum is G. At least one.
        locals: reference -> weight; their weighted sum is S. Empty for outcome-only designs.
        w_g: weight of G in the token reward.
        w_s: weight of S in the token reward.
        clip_outcome: bounds of G; None for the sum of the declared ranges.
        clip_local: bounds of S on each token; None for the sum of the declared ranges.
        decay_lines: w of the paper's phi(d) = max(0, 1 - d/(w+1)) over lines; 0 blames only the
            tokens that a span touches.
        renormalise: divide each reward's spans by their number in that rollout (the paper's
            1/|E|), so that a long list of errors weighs as much as one.
    """

    outcomes: Mapping[str, float]
    locals: Mapping[str, float] = field(default_factory=dict)
    w_g: float = 1.0
    w_s: float = 1.0
    clip_outcome: Range | None = None
    clip_local: Range | None = None
    decay_lines: int = 0
    renormalise: bool = False

    def __post_init__(self) -> None:
        if not self.outcomes:
            raise ConfigError("got a design without outcomes; name at least one, with its weight")
        numbers = {"w_g": self.w_g, "w_s": self.w_s, **self.outcomes, **self.locals}
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise ConfigError(f"got {name} = {value}; a weight is a finite number")
        for name, bounds in (("clip_outcome", self.clip_outcome), ("clip_local", self.clip_local)):
            if bounds is not None and not bounds[0] <= bounds[1]:
                raise ConfigError(f"got {name} = {bounds}; the lower bound comes first")
        if self.decay_lines < 0:
            raise ConfigError(f"got decay_lines = {self.decay_lines}; allowed: 0 or more lines")

    @property
    def references(self) -> tuple[str, ...]:
        """Every reward named, once, outcomes first."""
        return tuple(dict.fromkeys((*self.outcomes, *self.locals)))


class Composite:
    """The reward that a design describes; scores its parts concurrently, each once.

    `rewards` maps every reference of the design to a reward; without it they are built by name,
    those that use a sandbox on `backend`. G is None as soon as one outcome with
    a weight is unscored, and a token's S is None as soon as one local signal is; neither is
    replaced by 0. A part that breaks its promises raises `RewardError`.

    Metrics: `rewards/{reference}` is that part's own outcome, `rewards/{reference}/{metric}` its
    own metrics.
    """

    def __init__(
        self,
        design: Design,
        rewards: Mapping[str, Reward] | None = None,
        *,
        backend: str | None = None,
    ) -> None:
        if rewards is None:
            defaults = {} if backend is None else {"backend": backend}
            rewards = {r: build(r, defaults=defaults) for r in design.references}
        missing = [r for r in design.references if r not in rewards]
        if missing:
            raise ConfigError(f"got no reward for {', '.join(missing)} of the design")
        for reference in design.locals:
            if rewards[reference].spec.local_range is None:
                raise ConfigError(
                    f"{reference} has no local signal (its spec declares no local_range); "
                    "name it under outcomes only"
                )
        self.design = design
        self.parts = {r: rewards[r] for r in design.references}
        self.spec = _spec(design, self.parts)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One score for each rollout, in order."""
        started = time.perf_counter()
        columns = await asyncio.gather(
            *(checked_scores(name, reward, rollouts) for name, reward in self.parts.items())
        )
        each_s = (time.perf_counter() - started) / max(len(rollouts), 1)
        return [
            self._mix(rollout, dict(zip(self.parts, row, strict=True)), each_s)
            for rollout, *row in zip(rollouts, *columns, strict=True)
        ]

    async def aclose(self) -> None:
        """Close every part that can be closed."""
        for reward in self.parts.values():
            if (aclose := getattr(reward, "aclose", None)) is not None:
                await aclose()

    def _mix(self, rollout: Rollout, scores: Mapping[str, Score], seconds: float) -> Score:
        design = self.design
        first = scores[next(iter(design.outcomes))]
        outcome, reason = self._outcome(scores)
        weighted = {
            r: _weighted(scores[r], weight, design.renormalise)
            for r, weight in design.locals.items()
        }
        local_scored = all(score.local_scored for score in weighted.values())
        return Score(
            rollout.id,
            outcome,
            verdict=first.verdict,
            reason=reason or first.reason,
            spans=tuple(span for score in weighted.values() for span in score.spans),
            local=self._local(rollout, scores),
            local_scored=local_scored,
            metrics=_metrics(scores),
            seconds=seconds,
        )

    def _outcome(self, scores: Mapping[str, Score]) -> tuple[float | None, str]:
        total, missing = 0.0, []
        for reference, weight in self.design.outcomes.items():
            score = scores[reference]
            if score.outcome is not None:
                total += weight * score.outcome
            elif weight:
                missing.append(f"{reference}: {score.reason}")
        if missing:
            return None, "; ".join(missing)
        return float(np.clip(total, *self.spec.outcome_range)), ""

    def _local(self, rollout: Rollout, scores: Mapping[str, Score]) -> Local | None:
        if rollout.token_spans is None or self.spec.local_range is None:
            return None
        total_T = np.zeros(len(rollout.token_spans))
        for reference, weight in self.design.locals.items():
            score = scores[reference]
            if self.design.renormalise:
                score = _weighted(score, 1.0, True)
            local = local_of(
                self.parts[reference], rollout, score, decay_lines=self.design.decay_lines
            )
            total_T += weight * np.array(local, dtype=np.float64)  # None becomes NaN
        total_T = np.clip(total_T, *self.spec.local_range)
        return tuple(None if math.isnan(s) else s for s in total_T.tolist())


def token_rewards(score: Score, design: Design, n_tokens: int | None = None) -> NDArray[np.float64]:
    """r = w_g G + w_s S for each token: float64 [T], NaN where nobody could tell.

    `n_tokens` is T for a score without token values; whoever reads a NaN token decides what stands
    in for it (the trainer takes the group's mean S), an unscored rollout is NaN throughout.
    """
    size = n_tokens if score.local is None else len(score.local)
    if size is None:
        raise ConfigError(
            f"score {score.id!r} has no local values: score rollouts with token_spans, or pass "
            "n_tokens"
        )
    outcome = math.nan if score.outcome is None else score.outcome
    if not design.locals or design.w_s == 0:  # 0 * NaN would spread an unknown that nobody asks for
        return np.full(size, design.w_g * outcome)
    if score.local is None:
        return np.full(size, math.nan)
    return design.w_g * outcome + design.w_s * np.array(score.local, dtype=np.float64)


def _weighted(score: Score, weight: float, renormalise: bool) -> Score:
    if renormalise and score.spans:
        weight /= len(score.spans)
    spans = tuple(Span(s.start, s.end, weight * s.value, s.label) for s in score.spans)
    return replace(score, spans=spans)


def _metrics(scores: Mapping[str, Score]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for reference, score in scores.items():
        if score.outcome is not None:
            metrics[f"rewards/{reference}"] = score.outcome
        for name, value in score.metrics.items():
            metrics[f"rewards/{reference}/{name}"] = value
    return metrics


def _spec(design: Design, parts: Mapping[str, Reward]) -> RewardSpec:
    specs = {reference: reward.spec for reference, reward in parts.items()}
    outcome = _sum_range((w, specs[r].outcome_range) for r, w in design.outcomes.items())
    local = _sum_range((w, specs[r].local_range or (0.0, 0.0)) for r, w in design.locals.items())
    return RewardSpec(
        name="design",
        version=", ".join(f"{r}@{s.version}" for r, s in specs.items()),
        outcome_range=design.clip_outcome or outcome,
        local_range=(design.clip_local or local) if design.locals else None,
        deterministic=all(s.deterministic for s in specs.values()),
        needs=tuple(sorted({need for s in specs.values() for need in s.needs})),
        summary="a weighted sum of " + ", ".join(specs),
    )


def _sum_range(terms: Iterable[tuple[float, Range]]) -> Range:
    low = high = 0.0
    for weight, bounds in terms:
        if weight:  # 0 * inf would be NaN
            edges = (weight * bounds[0], weight * bounds[1])
            low, high = low + min(edges), high + max(edges)
    return low, high
