"""Metrics of sampled answers: pass@k, avg@n, maj@k with intervals over problems, and efficiency.

Each problem has n samples; a sample is right or wrong, and a truncated one is wrong and counted
apart. Unscored samples are left out and counted. Intervals resample *problems*, since that is what
30 problems leave open however often each is sampled; they say how the rates would move with other
problems of the kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from botgrpo.benchmarks.stats import Interval, bootstrap_interval
from botgrpo.sandbox.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Samples:
    """What became of one problem's samples.

    Attributes:
        problem: its id.
        answers: the answer of each scored sample in canonical form; None where none was read.
        correct: whether each is right; as long as `answers`.
        truncated: how many of them were cut off at the token limit.
        unscored: how many more nobody could tell of.
    """

    problem: str
    answers: tuple[Hashable | None, ...]
    correct: tuple[bool, ...]
    truncated: int = 0
    unscored: int = 0

    def __post_init__(self) -> None:
        if len(self.answers) != len(self.correct):
            raise ConfigError(
                f"{self.problem}: {len(self.answers)} answers but {len(self.correct)} verdicts"
            )

    @property
    def n(self) -> int:
        return len(self.correct)

    @property
    def c(self) -> int:
        return sum(self.correct)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, drawn without replacement, hold one of the c right ones.

    1 - C(n-c, k) / C(n, k), which estimates pass@k without bias; 1 - (1 - c/n)^k does not (Chen et
    al. 2021, arXiv 2107.03374, section 2.1). Raises ConfigError for k > n: nothing estimates that.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ConfigError(
            f"pass@{k} of {n} samples, {c} right: needs 0 <= right <= n and 1 <= k <= n"
        )
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def maj_at_k(samples: Samples, k: int) -> float:
    """Expected share of right majority answers over all k-subsets of the samples, exactly.

    Samples without an answer take one of the k places and do not vote. Where several answers have
    the most votes, each of them counts as chosen with the same chance (so the order of samples does
    not matter); without a vote the result is 0.
    """
    if not 1 <= k <= samples.n:
        raise ConfigError(f"maj@{k} of {samples.n} samples: needs 1 <= k <= n")
    votes = Counter(answer for answer in samples.answers if answer is not None)
    right = {a for a, ok in zip(samples.answers, samples.correct, strict=True) if ok} - {None}
    silent = samples.n - votes.total()
    won = 0.0
    for answer in right:
        others = [count for other, count in votes.items() if other != answer]
        for most in range(1, min(k, votes[answer]) + 1):
            ways = _ways(others, silent, k - most, most)
            won += math.comb(votes[answer], most) * sum(
                number / (1 + ties) for ties, number in enumerate(ways)
            )
    return won / math.comb(samples.n, k)


def _ways(others: Sequence[int], silent: int, room: int, most: int) -> list[int]:
    """In how many ways `room` samples come from the others with at most `most` votes each.

    By number of ties: entry t counts those in which t of the others have exactly `most`.
    """
    ways = {(0, 0): 1}  # (places taken, ties) -> number
    for count in others:
        grown: dict[tuple[int, int], int] = {}
        for (taken, ties), number in ways.items():
            for v in range(min(count, most, room - taken) + 1):
                key = taken + v, ties + (v == most)
                grown[key] = grown.get(key, 0) + number * math.comb(count, v)
        ways = grown
    found = [0] * (len(others) + 1)
    for (taken, ties), number in ways.items():
        found[ties] += number * math.comb(silent, room - taken)
    return found


@dataclass(frozen=True, slots=True)
class Rate:
    """A mean over problems in 0..1 and its interval; None for one problem."""

    value: float
    interval: Interval | None


def clustered(values: Sequence[float], *, seed: int = 0) -> Rate:
    """Mean of one value a problem, with a 95% percentile bootstrap over problems."""
    return Rate(float(np.mean(values)), bootstrap_interval(values, seed=seed))


def summary(problems: Sequence[Samples], ks: Iterable[int]) -> dict[str, Rate]:
    """avg@n, then pass@k and maj@k for each k, over the problems that have k scored samples.

    n is the fewest samples of a problem. A problem without any scored sample has no rate; it is
    for the caller to count such. Raises ConfigError where no problem has k samples.
    """
    scored = [p for p in problems if p.n]
    if not scored:
        raise ConfigError("no sample was scored: there is nothing to take a mean of")
    fewest = min(p.n for p in scored)
    rates = {f"avg@{fewest}": clustered([p.c / p.n for p in scored])}
    for k in ks:
        enough = [p for p in scored if p.n >= k]
        if not enough:
            raise ConfigError(
                f"no problem has {k} scored samples; take more samples or a smaller k"
            )
        rates[f"pass@{k}"] = clustered([pass_at_k(p.n, p.c, k) for p in enough])
        rates[f"maj@{k}"] = clustered([maj_at_k(p, k) for p in enough])
    return rates


def paired(one: Sequence[Samples], other: Sequence[Samples], k: int = 1) -> Rate:
    """pass@k of `one` minus that of `other` on the problems of both, interval over problems."""
    left, right = ({p.problem: pass_at_k(p.n, p.c, k) for p in ps} for ps in (one, other))
    both = sorted(left.keys() & right.keys())
    if not both:
        raise ConfigError("the two share no problem; sample both on the same ones")
    return clustered([left[name] - right[name] for name in both])


def outcome_efficiency(first_right: Sequence[int | None], lengths: Sequence[int]) -> float:
    """How much of the responses led to the right answer (arXiv 2412.21187, outcome efficiency).

    xi_O = 1/N sum_i sigma_i F_i / T_i, where T_i > 0 is the length of response i in tokens, F_i the
    tokens up to and with its first right answer, and sigma_i 1 if it holds a right answer, else 0.
    All that comes after the first right answer is overthinking; a response without one is 0.

    Args:
        first_right: F_i, None where sigma_i is 0.
        lengths: T_i.
    """
    if len(first_right) != len(lengths) or not lengths:
        raise ConfigError(f"{len(first_right)} first answers for {len(lengths)} responses")
    for first, length in zip(first_right, lengths, strict=True):
        if length < 1 or (first is not None and not 0 < first <= length):
            raise ConfigError(f"first right answer after {first} of {length} tokens")
    shares = [0.0 if f is None else f / t for f, t in zip(first_right, lengths, strict=True)]
    return sum(shares) / len(shares)


def counts(problems: Sequence[Samples]) -> Mapping[str, int]:
    """Problems, samples, and of the samples those truncated, without an answer, and unscored."""
    return {
        "problems": len(problems),
        "samples": sum(p.n for p in problems),
        "truncated": sum(p.truncated for p in problems),
        "no_answer": sum(answer is None for p in problems for answer in p.answers),
        "unscored": sum(p.unscored for p in problems),
    }
