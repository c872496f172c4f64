"""What all injectors share: what they leave alone, whom a draw is shared by, and where it acts.

A draw is a hash of (seed, kind, unit), never the next number of a stream, so that order, batching,
workers and resuming change nothing. *Granularity* says which unit shares a draw, *persistence* how
long it keeps it, *region* which of the values are disturbed at all.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from botgrpo.rewards.base import Example, Range, Reward, RewardSpec, Rollout, Score
from botgrpo.rewards.local import Local, checked_scores, local_of
from botgrpo.rewards.registry import build
from botgrpo.rewards.spans import line_starts
from botgrpo.rewards.training_step import training_step
from botgrpo.sandbox.attempt import attempt
from botgrpo.sandbox.errors import ConfigError

Floats = NDArray[np.float64]
Granularity = Literal["token", "step", "rollout", "group", "prompt"]
Persistence = Literal["resample", "checkpoint", "fixed"]
Region = Literal["all", "response", "wrong", "right"]
Target = Literal["local", "outcome", "both"]
Draw = Callable[[np.random.Generator, int], Floats]  # n independent draws

W = TypeVar("W", bound=str)

CUT = 4.0  # standard deviations; symmetric, so that the mean stays where it was


@dataclass(frozen=True, slots=True)
class Oracle:
    """What an injector leaves alone, exactly or in the mean over draws: what a test holds it to.

    Attributes:
        outcome_preserving, local_preserving: the outcome, the local signal is untouched.
        mean_preserving: the expectation of each value is untouched.
        median_preserving: the median of each value is.
        sum_preserving: the sum over a rollout's tokens (for `permute_lines` over its spans) is.
        sign_preserving: no value changes its sign.
        bounded: every value stays within a finite declared range.
        null: BoT-GRPO's advantages are untouched.
        expected_j: true-positive minus false-positive rate of a 0/1 outcome (Youden's J) against
            the inner reward.
    """

    outcome_preserving: bool = False
    local_preserving: bool = False
    mean_preserving: bool = False
    median_preserving: bool = False
    sum_preserving: bool = False
    sign_preserving: bool = False
    bounded: bool = True
    null: bool = False
    expected_j: float | None = 1.0


class Injector:
    """An inner reward, a seed, and whom, how long and where its noise is shared.

    Args:
        inner: any reward, or its reference.
        seed: of all draws.
        granularity: what shares one draw: a token; a step (a line of the completion); a rollout;
            the K rollouts of a group; all rollouts of the same prompt text.
        persistence: how long a draw lasts. "resample": each scoring of each rollout has its own,
            also a second pass over the same rollouts. "checkpoint": the same completion keeps it
            within a step of training. "fixed": it keeps it for ever, a judge that is wrong and
            consistent.
        region: "all"; "response", what comes after a closed thinking part; "wrong" or "right":
            tokens whose inner value is below 0 or not, for outcomes rollouts whose inner outcome
            lies below the middle of its range or not.
    """

    kind: ClassVar[str]
    granularities: ClassVar[tuple[Granularity, ...]] = get_args(Granularity)
    oracle: Oracle

    def __init__(
        self,
        inner: Reward | str,
        seed: int = 0,
        *,
        granularity: Granularity,
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        self.inner = build(inner) if isinstance(inner, str) else inner
        self.seed = seed
        self.granularity: Granularity = one_of("granularity", granularity, self.granularities)
        self.persistence: Persistence = one_of("persistence", persistence, get_args(Persistence))
        self.region: Region = one_of("region", region, get_args(Region))

    @property
    def severity(self) -> float:
        """0 (clean) to 1, so that kinds can be put beside each other."""
        raise NotImplementedError

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """The inner reward's scores, disturbed one by one; unscored ones stay unscored."""
        scores = await checked_scores(self.inner.spec.name, self.inner, rollouts)
        return [
            score if score.outcome is None else self.disturb(rollout, score)
            for rollout, score in zip(rollouts, scores, strict=True)
        ]

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """One scored rollout made wrong."""
        return score

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local:
        """The inner projection: its own noise, if any, stays in place."""
        return local_of(self.inner, rollout, score, decay_lines=decay_lines) or ()

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

    def outcome_bounds(self) -> Range:
        """The inner outcome range, or `ConfigError` where it is not finite."""
        if not all(map(math.isfinite, self.inner.spec.outcome_range)):
            raise ConfigError(f"{self.inner.spec.name} declares no finite outcome_range to use")
        return self.inner.spec.outcome_range

    def declare(
        self, options: str, *, outcome: Range | None = None, local: Range | None = None
    ) -> RewardSpec:
        """The inner spec under this injector's name; ranges that it does not name stay."""
        inner = self.inner.spec
        shared = [
            f"{name}={value}"
            for name, value in (("persistence", self.persistence), ("region", self.region))
            if value not in ("resample", "all")
        ]
        options = ", ".join(([options] if options else []) + shared)
        name = f"{self.kind}({inner.name}{', ' * bool(options)}{options})"
        return replace(
            inner,
            name=name,
            version=f"2+{inner.version}",
            outcome_range=outcome or inner.outcome_range,
            local_range=local or inner.local_range,
            deterministic=inner.deterministic and self.persistence == "fixed",
            summary=f"{inner.name} with noise: {self.kind}({options})",
        )

    def rng(self, rollout: Rollout, purpose: str = "") -> np.random.Generator:
        """The generator of this rollout's unit, the same in every process."""
        return generator(self.seed, self.kind, purpose, self._unit(rollout))

    def per_token(self, rollout: Rollout, n: int, draw: Draw) -> Floats:
        """One draw for each of n tokens, equal within a step or beyond where so asked: [n, ...]."""
        rng = self.rng(rollout)
        if self.granularity == "token":
            return draw(rng, n)
        if self.granularity == "step":
            lines_T = token_lines(rollout, n)
            return draw(rng, int(lines_T.max(initial=0)) + 1)[lines_T]
        return np.repeat(draw(rng, 1), n, axis=0)

    def in_region_T(self, rollout: Rollout, values_T: Floats) -> NDArray[np.bool_]:
        """Which tokens the noise may touch; unknown ones never."""
        known_T = ~np.isnan(values_T)
        if self.region == "wrong":
            return known_T & (values_T < 0)
        if self.region == "right":
            return known_T & (values_T >= 0)
        if self.region == "response":
            start = rollout.completion.rfind("</think>")
            starts_T = np.array([s for s, _ in rollout.token_spans or ()], dtype=np.int64)
            return known_T & (starts_T >= max(start, 0))
        return known_T

    def outcome_in_region(self, score: Score) -> bool:
        """Whether the noise may touch this outcome."""
        if self.region not in ("wrong", "right"):
            return True
        low, high = self.outcome_bounds()
        assert score.outcome is not None
        return (score.outcome < (low + high) / 2) is (self.region == "wrong")

    def _unit(self, rollout: Rollout) -> str:
        """What shares a draw, for as long as it lasts."""
        prompt = rollout.prompt
        text = prompt if isinstance(prompt, str) else json.dumps([dict(m) for m in prompt])
        wide = self.granularity in ("group", "prompt")
        if self.persistence == "resample":
            unit = {"group": rollout.group, "prompt": text}.get(self.granularity, rollout.id)
            return f"{unit}\0{training_step()}\0{attempt()}"
        unit = text if wide else f"{text}\0{rollout.completion}"
        return unit if self.persistence == "fixed" else f"{unit}\0{training_step()}"


def generator(*key: object) -> np.random.Generator:
    """A generator seeded by a hash of its key, the same in every process."""
    text = "\0".join(map(str, key)).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def token_lines(rollout: Rollout, n: int) -> NDArray[np.int64]:
    """0-based line of the completion in which each of n tokens begins: the steps of a draw."""
    starts_T = np.array([s for s, _ in rollout.token_spans or ()], dtype=np.int64)
    if len(starts_T) != n:
        return np.zeros(n, dtype=np.int64)
    return np.searchsorted(line_starts(rollout.completion), starts_T, "right") - 1


def one_of(name: str, value: W, allowed: Sequence[W]) -> W:
    if value not in allowed:
        raise ConfigError(f"got {name} = {value!r}; allowed: {', '.join(allowed)}")
    return value


def probability(p: float, name: str = "p") -> float:
    if not 0 <= p <= 1:
        raise ConfigError(f"got {name} = {p}; allowed: 0 to 1")
    return p


def size(value: float, name: str) -> float:
    if not 0 <= value < math.inf:
        raise ConfigError(f"got {name} = {value}; allowed: 0 or larger, in units of the reward")
    return value


def widened(bounds: Range, by: float) -> Range:
    return bounds[0] - by, bounds[1] + by


def relative(amount: float, bounds: Range) -> float:
    """An amount in widths of a range, at most 1: a severity."""
    width = bounds[1] - bounds[0]
    return min(1.0, amount / width) if width > 0 and math.isfinite(width) else min(1.0, amount)
