"""Statistics for a handful of paired seeds: numbers with intervals, words that do not overclaim.

Pure functions on numpy arrays, deterministic by `seed`. Axes are named: N seeds (runs), M tasks.
Missing values are refused, not dropped: the caller decides what a missing cell means.

Sources: IQM, stratified bootstrap, probability of improvement: Agarwal et al. 2021 (2108.13264),
sections 4.2-4.3. Sign-flip test: Fisher 1935; Good 2005, chapter 3. Holm 1979. What is measured
on one learning curve, and steps to a threshold: `curves.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from botgrpo.sandbox.errors import ConfigError

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
Word = Literal["better", "worse", "leads", "trails", "not separated"]

LEVEL = 0.95
ALPHA = 0.05
REPS = 10_000
EXACT_MAX_PAIRS = 12  # 4,096 sign patterns; beyond that they are sampled
LEAD_MIN_PAIRS = 3  # two of two agree half of the time by chance: not worth a word


class Interval(NamedTuple):
    """Bounds of an interval, low <= high."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether `value` lies inside, bounds included."""
        return self.low <= value <= self.high


def checked(values: ArrayLike, name: str, ndim: tuple[int, ...] = (1,)) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in ndim or array.size == 0:
        shape = " or ".join({1: "[seeds]", 2: "[seeds, tasks]"}[n] for n in ndim)
        raise ConfigError(f"{name}: shape {array.shape}, expected a non-empty {shape}")
    if not np.isfinite(array).all():
        raise ConfigError(
            f"{name}: {int((~np.isfinite(array)).sum())} values are missing or infinite; "
            "leave such seeds out of both arms first and say so"
        )
    return array


def mean(values: Floats) -> Floats:
    """Mean over the last two axes (seeds, tasks)."""
    return np.asarray(values.mean(axis=(-2, -1)))


def iqm(values: Floats) -> Floats:
    """Interquartile mean over the last two axes: floor(n/4) values cut at each end.

    The convention of rliable (2108.13264, section 4.3). With fewer than 4 values it is the mean.
    """
    flat = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1))


def resample(n_seeds: int, n_tasks: int, *, reps: int, seed: int) -> NDArray[np.int64]:
    """Seed indices [reps, n_seeds, n_tasks], drawn with replacement within each task (strata)."""
    return np.random.default_rng(seed).integers(0, n_seeds, size=(reps, n_seeds, n_tasks))


def bootstrap_interval(
    values: ArrayLike,
    statistic: Statistic = mean,
    *,
    level: float = LEVEL,
    reps: int = REPS,
    seed: int = 0,
) -> Interval | None:
    """Percentile bootstrap over seeds; stratified by task where `values` is [seeds, tasks].

    None for a single seed: it has no spread to resample. With 3 seeds the 95% interval is nearly
    the range of the data and covers less than 95%; read it as a spread, not as proof.
    """
    array = checked(values, "values", (1, 2))
    table = array[:, None] if array.ndim == 1 else array
    if table.shape[0] < 2:
        return None
    index = resample(*table.shape, reps=reps, seed=seed)
    drawn = np.take_along_axis(table[None], index, axis=1)
    return percentile_interval(statistic(drawn), level)


def percentile_interval(draws: ArrayLike, level: float = LEVEL) -> Interval:
    """The middle `level` of a statistic's draws."""
    tail = (1 - level) / 2
    low, high = np.quantile(np.asarray(draws, dtype=np.float64), [tail, 1 - tail])
    return Interval(float(low), float(high))


def band(values_N_S: Floats, *, level: float = LEVEL, reps: int = 2000, seed: int = 0) -> Floats:
    """Mean and its bootstrap bounds at each of S steps: [3, S], rows mean, low, high.

    Whole seeds are resampled, so the bounds are pointwise. One seed: all three rows are equal.
    """
    n_seeds = values_N_S.shape[0]
    middle = values_N_S.mean(axis=0)
    if n_seeds < 2:
        return np.stack([middle, middle, middle])
    draws = resample(n_seeds, 1, reps=reps, seed=seed)[..., 0]
    # how often each seed was drawn: one small matrix product instead of a [reps, N, S] array
    counts = (draws[..., None] == np.arange(n_seeds)).sum(axis=1) / n_seeds
    tail = (1 - level) / 2
    low, high = np.quantile(counts @ values_N_S, [tail, 1 - tail], axis=0)
    return np.stack([middle, low, high])


def sign_flip_p(differences: ArrayLike, *, draws: int = 100_000, seed: int = 0) -> float:
    """Two-sided sign-flip permutation p of paired differences: is their mean 0?

    Exact for at most 12 pairs, where the smallest possible p is 2 / 2**n; sampled beyond
    (the observed pattern is counted, so p is never 0).
    """
    values = checked(differences, "differences")
    n = values.size
    if n <= EXACT_MAX_PAIRS:
        signs = np.array(list(product((1.0, -1.0), repeat=n)))
        extra = 0
    else:
        signs = np.random.default_rng(seed).choice((1.0, -1.0), size=(draws, n))
        extra = 1
    observed = abs(values.sum())
    # rounding must not decide whether a pattern equals the observed one
    slack = 1e-12 * max(1.0, float(np.abs(values).sum()))
    hits = int((np.abs(signs @ values) >= observed - slack).sum())
    return (hits + extra) / (len(signs) + extra)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment; the order of the input is kept."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, running = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


def seeds_needed(comparisons: int = 1, alpha: float = ALPHA) -> int:
    """Fewest pairs whose smallest sign-flip p, times the comparisons, is below alpha: 6 for one."""
    return next(n for n in range(1, 64) if 2.0 ** (1 - n) * max(1, comparisons) < alpha)


def probability_of_improvement(a: ArrayLike, b: ArrayLike) -> float:
    """P(a > b) + P(a = b) / 2 over all pairs of runs, averaged over tasks (2108.13264, 4.3)."""
    left, right = checked(a, "a", (1, 2)), checked(b, "b", (1, 2))
    left, right = (x[:, None] if x.ndim == 1 else x for x in (left, right))
    if left.shape[1] != right.shape[1]:
        raise ConfigError(f"a has {left.shape[1]} tasks, b has {right.shape[1]}; they must match")
    wins = np.sign(left[:, None, :] - right[None, :, :])
    return float((wins + 1).mean() / 2)


def performance_profile(values: ArrayLike, thresholds: ArrayLike) -> Floats:
    """Share of runs above each threshold, averaged over tasks: [thresholds] (2108.13264, 4.3)."""
    table = checked(values, "values", (1, 2))
    table = table[:, None] if table.ndim == 1 else table
    levels = checked(thresholds, "thresholds")
    return np.asarray((table[None] > levels[:, None, None]).mean(axis=(1, 2)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """An arm against the baseline over paired seeds; `difference` is arm minus baseline.

    Attributes:
        difference: mean of the paired differences.
        interval: its bootstrap interval; None with one seed.
        p: exact two-sided sign-flip p; `p_adjusted` after Holm over `comparisons`.
        wins, losses: pairs in which the arm was above, below.
        word: "better"/"worse" need the interval clear of 0 and p_adjusted < .05. With too few
            seeds for that, "leads"/"trails" say that all pairs (3 or more) agree.
    """

    difference: float
    interval: Interval | None
    p: float
    p_adjusted: float
    n_seeds: int
    wins: int
    losses: int
    comparisons: int
    word: Word

    @property
    def sentence(self) -> str:
        """The verdict in words, without numbers of the metric."""
        needed = seeds_needed(self.comparisons)
        many = f" over {self.comparisons} comparisons" if self.comparisons > 1 else ""
        if self.word in ("leads", "trails"):
            return (
                f"{self.word} in {self.n_seeds} of {self.n_seeds} paired seeds; a lead, not "
                f"proof: at least {needed} paired seeds are needed for p < .05{many}"
            )
        wins = f"ahead in {self.wins} of {self.n_seeds} paired seeds"
        if self.n_seeds < needed:
            return (
                f"not separated: {wins}, and at least {needed} paired seeds are needed for "
                f"p < .05{many}"
            )
        return (
            f"{self.word}: {wins}, p = {self.p_adjusted:.3f}{' (Holm' + many + ')' if many else ''}"
        )


def _word(difference: float, interval: Interval | None, p: float, signs: Floats, m: int) -> Word:
    n = signs.size
    if n < seeds_needed(m):
        if n < LEAD_MIN_PAIRS or abs(int(signs.sum())) < n:
            return "not separated"
        return "leads" if difference > 0 else "trails"
    if interval is None or interval.holds(0.0) or p >= ALPHA:
        return "not separated"
    return "better" if difference > 0 else "worse"


def judge(
    pairs: Mapping[str, tuple[ArrayLike, ArrayLike]], *, seed: int = 0, reps: int = REPS
) -> dict[str, Verdict]:
    """Verdicts on several arms against one baseline: name -> (arm's values, baseline's), paired.

    Each pair lists the same seeds in the same order; p-values are adjusted by Holm over the arms.
    """
    differences: dict[str, Floats] = {}
    for name, (arm, base) in pairs.items():
        a, b = checked(arm, name), checked(base, f"baseline of {name}")
        if a.shape != b.shape:
            raise ConfigError(f"{name}: {a.size} values against {b.size}; pairs need equal seeds")
        differences[name] = a - b
    p_values = [sign_flip_p(d, seed=seed) for d in differences.values()]
    verdicts = {}
    for (name, d), p, p_adjusted in zip(differences.items(), p_values, holm(p_values), strict=True):
        interval = bootstrap_interval(d, seed=seed, reps=reps)
        signs = np.sign(d)
        verdicts[name] = Verdict(
            difference=float(d.mean()),
            interval=interval,
            p=p,
            p_adjusted=p_adjusted,
            n_seeds=d.size,
            wins=int((signs > 0).sum()),
            losses=int((signs < 0).sum()),
            comparisons=len(differences),
            word=_word(float(d.mean()), interval, p_adjusted, signs, len(differences)),
        )
    return verdicts


def share_by_chance(n_seeds: int) -> float:
    """How often all of n fair coins agree: 2 / 2**n, what a lead is worth."""
    return math.ldexp(2.0, -n_seeds)
