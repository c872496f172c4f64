"""Does the reward still mean what it should? Signs that training and the held-out truth part.

The truth is the task's own judge on held-out prompts; the reward may be anything. A sign is named
only where the numbers separate: a change beyond `Z` standard errors, from the first evaluations or
steps of the run to the last. One run has one chance of a false alarm at each look, so a sign is a
reason to look at rollouts and not a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from botgrpo.benchmarks.results import load_rows
from botgrpo.benchmarks.stats import Floats

Row = Mapping[str, Any]

Z = 3.0
Z_BEST = 4.0  # for a fall from the best of the evaluations so far
SHORTER, LONGER = 0.6, 1.6  # of the length at the start
REPEATED = 0.15  # more of its tokens are said again than at the start
BLANK = 0.1  # more of the pages are blank than at the start
CLEANER = 0.3  # of what failing rollouts were blamed for at the start is blamed no longer
FEWEST_STEPS = 8  # fewer say nothing about a trend
ENDS = 4  # the first and the last quarter of the steps are compared


@dataclass(frozen=True, slots=True)
class Sign:
    """What was seen: `kind` is gap, length, repetition, blank, match or masking."""

    kind: str
    text: str


def signs(steps: Sequence[Row], evals: Sequence[Row], truths: Sequence[str]) -> list[Sign]:
    """Signs in a run's rows so far.

    Args:
        steps: rows of metrics.jsonl, in order.
        evals: rows of eval.jsonl, in order.
        truths: the held-out metrics that the run should raise, the most telling first.
    """
    if len(evals) < 2 or len(steps) < FEWEST_STEPS:
        return []
    return [*_gap(steps, evals, truths), *_bought(evals, truths), *_masking(steps, evals, truths)]


class Watch:
    """The signs in a run's folder while it is written, each kind told once."""

    def __init__(self, out: Path, truths: Sequence[str]) -> None:
        self._out, self._truths = out, truths
        self._told: set[str] = set()

    def news(self) -> list[Sign]:
        """What was not told before."""
        steps, evals = (load_rows(self._out / f"{name}.jsonl") for name in ("metrics", "eval"))
        found = [s for s in signs(steps, evals, self._truths) if s.kind not in self._told]
        self._told |= {sign.kind for sign in found}
        return found


def _gap(steps: Sequence[Row], evals: Sequence[Row], truths: Sequence[str]) -> list[Sign]:
    """The reward went up while what it stands for went down, from the start or from its best."""
    return [
        Sign(
            "gap",
            f"the reward rose from {early.mean():.2f} to {late.mean():.2f} while {name} on "
            f"held-out prompts fell from {a:.2f} to {b:.2f}",
        )
        for name in truths
        for best in {0, _best(evals, name)}
        for a, b in _rates(evals[best:], name)
        # the best of many looks is a lucky one: a fall from it has to be larger
        if a - b > (Z_BEST if best else Z) * _rate_error(a, b, evals[best:])
        for early, late in [_since(steps, int(evals[best].get("step", 0)))]
        if late.mean() - early.mean() > Z * _standard_error(early, late)
    ]


def _best(evals: Sequence[Row], name: str) -> int:
    """Place of the evaluation with the highest rate."""
    known = [(float(row[name]), -i) for i, row in enumerate(evals) if _is_number(row.get(name))]
    return -max(known)[1] if known else 0


def _since(steps: Sequence[Row], step: int) -> tuple[Floats, Floats]:
    """Rewards of the first and the last quarter of all steps, the first counted from `step` on."""
    every, later = (
        _numbers(rows, "reward") for rows in (steps, [r for r in steps if r.get("step", 0) > step])
    )
    size = max(2, len(every) // ENDS)
    return (later if len(later) > size else every)[:size], every[-size:]


def _bought(evals: Sequence[Row], truths: Sequence[str]) -> list[Sign]:
    """Ways to be paid without being better: short or long answers, repetition, empty pages."""
    found = []
    first, last = evals[0], evals[-1]
    if all(row.get("mean_length") for row in (first, last)):
        a, b = float(first["mean_length"]), float(last["mean_length"])
        if b < SHORTER * a or b > LONGER * a:
            found.append(Sign("length", f"completions went from {a:.0f} to {b:.0f} tokens"))
    for a, b in _rates(evals, "repetition"):
        if b - a > REPEATED:
            said = f"{b:.0%} of a completion's 4-grams are repeats, {a:.0%} at the start"
            found.append(Sign("repetition", said))
    a, b = (_share(row, "blank") for row in (first, last))
    if b - a > BLANK:
        found.append(Sign("blank", f"{b:.0%} of pages are blank, {a:.0%} at the start"))
    for name in (each for each in truths if each != "match"):
        for (m0, m1), (t0, t1) in zip(_rates(evals, "match"), _rates(evals, name), strict=False):
            if m0 - m1 > Z * _rate_error(m0, m1, evals) and t1 > t0:
                told = f"match with the request fell from {m0:.2f} to {m1:.2f} while {name} rose"
                return [*found, Sign("match", told)]
    return found


def _masking(steps: Sequence[Row], evals: Sequence[Row], truths: Sequence[str]) -> list[Sign]:
    """Failures look cleaner, token by token: than successes, or than before, and stay failures."""
    _, late = _ends(_numbers(steps, "bot/local_outcome_correlation"))
    if late.size >= 3 and late.mean() + Z * late.std(ddof=1) / math.sqrt(late.size) < 0:
        return [
            Sign(
                "masking",
                "token rewards go against the outcome (correlation "
                f"{late.mean():+.2f}): failures look cleaner than successes",
            )
        ]
    blame = _blame(steps)
    rates = [(name, *ends) for name in truths for ends in _rates(evals, name)]
    if blame.size < FEWEST_STEPS or not rates:
        return []
    before, after = _ends(blame)
    cleaner = before.mean() - after.mean()
    if cleaner <= max(CLEANER * before.mean(), Z * _standard_error(before, after)) or any(
        b - a > Z * _rate_error(a, b, evals) for _, a, b in rates
    ):
        return []
    name, a, b = rates[0]
    return [
        Sign(
            "masking",
            f"failures are blamed for less, {after.mean():.2f} a token and {before.mean():.2f} at "
            f"the start, and fail as before: {name} on held-out prompts went from {a:.2f} to "
            f"{b:.2f}",
        )
    ]


def _blame(steps: Sequence[Row]) -> Floats:
    """-S of a token of a rollout that failed, of each step: outcomes 0 and 1, S at most 0."""
    rows = [
        (float(row["bot/local_mean"]), float(row["outcome"]))
        for row in steps
        if all(isinstance(row.get(key), float | int) for key in ("bot/local_mean", "outcome"))
    ]
    return np.array([-s / (1 - g) for s, g in rows if s <= 0 <= g < 1], dtype=float)


def _is_number(value: object) -> bool:
    return isinstance(value, float | int)


def _numbers(rows: Sequence[Row], name: str) -> Floats:
    values = [row[name] for row in rows if _is_number(row.get(name))]
    return np.array(values, dtype=float)


def _ends(values: Floats) -> tuple[Floats, Floats]:
    size = max(2, len(values) // ENDS)
    return values[:size], values[-size:]


def _standard_error(a: Floats, b: Floats) -> float:
    return math.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)


def _rates(evals: Sequence[Row], name: str) -> list[tuple[float, float]]:
    """(first, last) where both were scored, else nothing."""
    ends = evals[0].get(name), evals[-1].get(name)
    if not all(map(_is_number, ends)):
        return []
    return [(float(ends[0]), float(ends[1]))]  # type: ignore[arg-type]


def _rate_error(a: float, b: float, evals: Sequence[Row]) -> float:
    """Of the difference of two rates, at most that of two coins with these means."""
    counts = [max(1, int(row.get("n", 0)) - int(row.get("unscored", 0))) for row in evals]
    p, q = (min(1.0, max(0.0, value)) for value in (a, b))
    return math.sqrt(p * (1 - p) / counts[0] + q * (1 - q) / counts[-1] + 1e-12)


def _share(row: Row, verdict: str) -> float:
    verdicts = row.get("verdicts") or {}
    total = sum(verdicts.values())
    return verdicts.get(verdict, 0) / total if total else 0.0
