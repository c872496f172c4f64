"""Noise injectors: rewards made wrong in a known way, to see what that does to learning.

Every injector takes any reward and declares an oracle, the properties that a test can hold it to.
Draws come from (seed, kind, rollout id) and never from a shared stream, so that order, batching
and resuming change nothing; a rollout scored again gets the same noise, and ids that repeat from
step to step repeat their noise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from botgrpo.rewards.base import (
    Example,
    Range,
    Reward,
    RewardError,
    RewardSpec,
    Rollout,
    Score,
    Span,
)
from botgrpo.rewards.local import Local, Projects, checked_scores, local_of
from botgrpo.rewards.registry import build
from botgrpo.rewards.spans import line_starts
from botgrpo.sandbox.errors import ConfigError

Line = tuple[int, int, int]  # start of the line, then [first, end) of its text

_CUT = 4.0  # standard deviations; symmetric, so that the mean stays where it was


@dataclass(frozen=True, slots=True)
class Oracle:
    """What an injector leaves alone, exactly or in the mean over draws.

    Attributes:
        outcome_preserving: the outcome is untouched.
        mean_preserving: the expected local value of each token is untouched.
        sum_preserving: the sum of span values is untouched.
        sign_preserving: no value changes its sign.
        bounded: every value stays within the declared range.
        expected_j: true-positive minus false-positive rate of a 0/1 outcome (Youden's J).
    """

    outcome_preserving: bool
    mean_preserving: bool
    sum_preserving: bool
    sign_preserving: bool
    bounded: bool = True
    expected_j: float = 1.0


class Injector:
    """What all injectors share: an inner reward, a seed, and one generator a rollout."""

    kind: ClassVar[str]
    oracle: Oracle

    def __init__(self, inner: Reward | str, seed: int) -> None:
        self.inner = build(inner) if isinstance(inner, str) else inner
        self.seed = seed

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """The inner reward's scores, disturbed one by one."""
        scores = await checked_scores(self.inner.spec.name, self.inner, rollouts)
        return [self.disturb(r, s) for r, s in zip(rollouts, scores, strict=True)]

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """One score made wrong."""
        raise NotImplementedError

    def examples(self) -> Sequence[Example]:
        """The inner reward's examples as far as they still hold."""
        give = getattr(self.inner, "examples", None)
        return [self.still_true(e) for e in give()] if give is not None else []

    def still_true(self, example: Example) -> Example:
        """What is left of an example under the noise."""
        return example

    async def aclose(self) -> None:
        """Close the inner reward."""
        if (aclose := getattr(self.inner, "aclose", None)) is not None:
            await aclose()

    def local_bounds(self) -> Range:
        """The inner local range, or `ConfigError` where there is no local signal to disturb."""
        if self.inner.spec.local_range is None:
            raise ConfigError(f"{self.inner.spec.name} has no local signal to disturb")
        return self.inner.spec.local_range

    def rng(self, rollout: Rollout) -> np.random.Generator:
        """The generator of this rollout, the same in every process."""
        key = f"{self.seed}\0{self.kind}\0{rollout.id}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(key, digest_size=16).digest()
        return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))

    def declare(self, options: str, local_range: Range | None) -> RewardSpec:
        """The inner spec under this injector's name and ranges."""
        inner = self.inner.spec
        return replace(
            inner,
            name=f"{self.kind}({inner.name}, {options})",
            version=f"1+{inner.version}",
            local_range=local_range,
            summary=f"{inner.name} with noise: {self.kind}({options})",
        )


class Gaussian(Injector):
    """Adds N(0, sigma) to each token's local value; the outcome stays.

    The noise belongs to the projection (`local_of`): the inner signal is projected with the
    design's decay and clipped to the range that it declares, then every token gets its draw. So it
    acts on rollouts with tokens only, and the score itself, spans included, is the inner one. A
    draw is cut at 4 sigma, which lets the declared range be the inner one widened by 4 sigma on
    each side; a design that clips more tightly moves the mean.
    """

    kind = "noise.gaussian"
    oracle = Oracle(True, True, False, False)

    def __init__(self, inner: Reward | str, sigma: float, seed: int = 0) -> None:
        super().__init__(inner, seed)
        if not 0 <= sigma < math.inf:
            raise ConfigError(f"got sigma = {sigma}; allowed: 0 or larger, in units of the reward")
        self.sigma = sigma
        self.bounds = self.local_bounds()
        low, high = self.bounds
        self.spec = self.declare(f"sigma={sigma}", (low - _CUT * sigma, high + _CUT * sigma))

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """The score as it is: the noise comes with `project_local`."""
        return score

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local:
        """The inner projection, clipped to its range, with this rollout's noise."""
        inner = local_of(self.inner, rollout, score, decay_lines=decay_lines) or ()
        values_T = np.clip(np.array(inner, dtype=np.float64), *self.bounds)  # None becomes NaN
        draws_T = np.clip(self.rng(rollout).standard_normal(len(values_T)), -_CUT, _CUT)
        noisy_T = values_T + self.sigma * draws_T
        return tuple(None if math.isnan(v) else v for v in noisy_T.tolist())


class PermuteLines(Injector):
    """Moves each span, with probability p, to a random other line with text; the outcome stays.

    Number, values and labels of the spans stay; a span keeps its length as far as the new line
    goes. Completions of one line keep their spans. This is a reward that knows how much is wrong
    and not where. It takes rewards that give spans, not token values.
    """

    kind = "noise.permute_lines"
    oracle = Oracle(True, False, True, True)

    def __init__(self, inner: Reward | str, p: float = 1.0, seed: int = 0) -> None:
        super().__init__(inner, seed)
        self.p = _probability(p)
        self.spec = self.declare(f"p={p}", self.local_bounds())
        if isinstance(self.inner, Projects):
            raise ConfigError(
                f"{self.inner.spec.name} disturbs token values; permute first and put it outside"
            )

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """The score with its spans moved."""
        if score.local is not None:
            raise RewardError(
                f"{self.spec.name} moves spans, but {self.inner.spec.name} gave token values"
            )
        if not score.spans:
            return score
        rng, lines = self.rng(rollout), _lines(rollout.completion)
        return replace(score, spans=tuple(self._move(span, lines, rng) for span in score.spans))

    def still_true(self, example: Example) -> Example:
        """Where the blame falls is what the noise destroys."""
        return replace(example, blames=None)

    def _move(self, span: Span, lines: Sequence[Line], rng: np.random.Generator) -> Span:
        draw, choice = rng.random(), rng.random()  # both always: one span's fate moves no other
        others = [line[1:] for line in lines if not line[0] <= span.start <= line[2]]
        if draw >= self.p or not others:
            return span
        start, end = others[int(choice * len(others))]
        length = min(max(span.end - span.start, 1), end - start)
        return replace(span, start=start, end=start + length)


class Flip(Injector):
    """Mirrors the outcome within its range with probability p; local signal and spans stay.

    Independent for each rollout, not for each group. For a 0/1 outcome J = 1 - 2p. The inner
    verdict stays, and the metric `flipped` says what happened.
    """

    kind = "noise.flip"

    def __init__(self, inner: Reward | str, p: float, seed: int = 0) -> None:
        super().__init__(inner, seed)
        self.p = _probability(p)
        if not all(map(math.isfinite, self.inner.spec.outcome_range)):
            raise ConfigError(f"{self.inner.spec.name} declares no finite outcome_range to flip in")
        self.spec = self.declare(f"p={p}", self.inner.spec.local_range)
        self.oracle = Oracle(p == 0, True, True, p == 0, expected_j=1 - 2 * p)

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """The score with its outcome mirrored, or as it is."""
        if score.outcome is None:
            return score
        flipped = bool(self.rng(rollout).random() < self.p)
        low, high = self.inner.spec.outcome_range
        outcome = low + high - score.outcome if flipped else score.outcome
        return replace(score, outcome=outcome, metrics={**score.metrics, "flipped": float(flipped)})

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local:
        """The inner projection: its own noise, if any, stays in place."""
        return local_of(self.inner, rollout, score, decay_lines=decay_lines) or ()

    def still_true(self, example: Example) -> Example:
        """Any outcome may come out of a flip."""
        return replace(example, outcome=self.inner.spec.outcome_range)


def _probability(p: float) -> float:
    if not 0 <= p <= 1:
        raise ConfigError(f"got p = {p}; allowed: 0 to 1")
    return p


def _lines(text: str) -> list[Line]:
    """Each line with text; the text is without indentation and line end."""
    starts = [*line_starts(text).tolist(), len(text)]
    lines = []
    for start, after in pairwise(starts):
        line = text[start:after]
        body = line.strip()
        if body:
            first = start + len(line) - len(line.lstrip())
            lines.append((start, first, first + len(body)))
    return lines
