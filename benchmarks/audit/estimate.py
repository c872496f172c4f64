"""Statistics that are functions of sums over prompts, and so cheap to resample by prompt.

Rollouts of a prompt belong together, and resampling them one by one would make intervals too
narrow. A statistic is therefore given as one row of numbers a prompt and a function of the rows'
sum; a resample is a vector of how often each prompt was drawn. Axes: P prompts, M numbers of a
row, B resamples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from botgrpo.benchmarks.stats import Floats, Interval, percentile_interval

REPS = 2000
FEWEST = 6  # prompts for an interval; with fewer it would be a guess
MOST_LOST = 0.1  # share of resamples in which a statistic may be undefined


@dataclass(frozen=True, slots=True)
class Statistic:
    """A row of sums for each prompt, and what they come to.

    Attributes:
        rows_P_M: sums over the rollouts of each prompt.
        of: [..., M] -> [...]; NaN where it is undefined.
    """

    rows_P_M: Floats
    of: Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; `draws_B` are its resamples, in an order shared by all rewards.

    `why` says why there is no value, or of one without an interval why there is none.
    """

    value: float | None
    interval: Interval | None = None
    why: str = ""
    draws_B: Floats | None = None

    @property
    def clearly_above(self) -> float:
        """What the value is above of, given its interval; minus infinity where nobody can tell."""
        if self.value is None or self.interval is None:
            return -math.inf
        return self.interval.low

    @property
    def clearly_below(self) -> float:
        """What the value is below of; infinity where nobody can tell."""
        if self.value is None or self.interval is None:
            return math.inf
        return self.interval.high


def unknown(why: str) -> Estimate:
    """Nobody can tell, and why."""
    return Estimate(None, why=why)


def point(value: float, why: str = "exact, for this file") -> Estimate:
    """A value without an interval."""
    return Estimate(value, why=why)


def ratio(above_P: Floats, below_P: Floats) -> Statistic:
    """Sum over sum: means and shares."""
    return Statistic(np.stack([above_P, below_P], axis=1), lambda s: divide(s[..., 0], s[..., 1]))


def estimate(statistic: Statistic, undefined: str, *, seed: int = 0) -> Estimate:
    """The statistic over all prompts, with a 95% percentile bootstrap over prompts.

    `undefined` says why it has no value where its function gives NaN.
    """
    rows = statistic.rows_P_M
    value = float(statistic.of(rows.sum(axis=0)))
    if not math.isfinite(value):
        return unknown(undefined)
    used = int(np.any(rows != 0, axis=1).sum())
    if used < FEWEST:
        return Estimate(value, why=f"no interval: {used} prompts, {FEWEST} are needed")
    counts_B_P = _counts(len(rows), seed)
    draws = statistic.of(counts_B_P @ rows)
    told = draws[np.isfinite(draws)]
    if len(told) < (1 - MOST_LOST) * len(draws):
        return Estimate(value, why="no interval: undefined in many resamples", draws_B=draws)
    return Estimate(value, percentile_interval(told), draws_B=draws)


def difference(a: Estimate, b: Estimate) -> Interval | None:
    """Interval of a - b over the same resampled prompts; None where it cannot be told."""
    if a.draws_B is None or b.draws_B is None:
        return None
    draws = a.draws_B - b.draws_B
    told = draws[np.isfinite(draws)]
    return percentile_interval(told) if len(told) >= (1 - MOST_LOST) * len(draws) else None


def divide(above: Floats, below: Floats) -> Floats:
    """Elementwise; NaN where nothing stands below."""
    safe = np.abs(below) > 1e-12
    return np.where(safe, above / np.where(safe, below, 1.0), np.nan)


@lru_cache(maxsize=4)
def _counts(n: int, seed: int) -> Floats:
    """How often each of n prompts is drawn, in each resample: [B, n]; the same for every call."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=REPS)
    return drawn.astype(np.float64)
