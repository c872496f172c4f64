"""What is measured on a learning curve: area, drop, and steps to a threshold with censoring.

A run that never reaches the threshold is right-censored: it is neither dropped nor counted as if
it had arrived at the last step. Sources: product-limit estimator: Kaplan and Meier 1958, eq. 2a;
restricted mean: Royston and Parmar 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from botgrpo.benchmarks.stats import Floats, checked
from botgrpo.sandbox.errors import ConfigError


def area_under_curve(steps: ArrayLike, values: ArrayLike) -> float:
    """Area under a learning curve by trapezoids, divided by the steps it spans: a mean height."""
    x, y = _curve(steps, values)
    if x.size == 1:
        return float(y[0])
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def peak_to_final_drop(values: ArrayLike) -> float:
    """Highest value minus the last, >= 0. A maximum over noisy evals: a small drop is normal."""
    y = checked(values, "values")
    return float(y.max() - y[-1])


def _curve(steps: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats]:
    x, y = checked(steps, "steps"), checked(values, "values")
    if x.shape != y.shape or (np.diff(x) <= 0).any():
        raise ConfigError(
            f"steps {x.tolist()} must increase and match the {y.size} values of the curve"
        )
    return x, y


class Crossing(NamedTuple):
    """When a curve first reached a threshold; `reached` False: not by `step`, the last eval."""

    step: float
    reached: bool


def first_crossing(steps: ArrayLike, values: ArrayLike, threshold: float) -> Crossing:
    """First step at which the curve, drawn straight between evals, is at or above `threshold`.

    Straight lines are a choice: the true crossing lies somewhere between two evals, and taking the
    later eval would round every run up by as much as the eval interval. A later fall below the
    threshold does not undo the crossing. A run that never gets there is right-censored.
    """
    x, y = _curve(steps, values)
    above = np.flatnonzero(y >= threshold)
    if above.size == 0:
        return Crossing(float(x[-1]), False)
    i = int(above[0])
    if i == 0:
        return Crossing(float(x[0]), True)
    share = (threshold - y[i - 1]) / (y[i] - y[i - 1])
    return Crossing(float(x[i - 1] + share * (x[i] - x[i - 1])), True)


@dataclass(frozen=True, slots=True)
class KaplanMeier:
    """Share of runs still below the threshold: `survival[i]` holds from `times[i]` on."""

    times: tuple[float, ...]
    survival: tuple[float, ...]
    last_time: float

    @property
    def median(self) -> float | None:
        """First time at which half of the runs are through; None if that was not seen."""
        return next(
            (t for t, s in zip(self.times, self.survival, strict=True) if s <= 0.5 + 1e-12), None
        )

    def restricted_mean(self, budget: float) -> float:
        """Mean time to the threshold, a run counting for at most `budget`: area under the curve."""
        if self.last_time < budget and self.survival and self.survival[-1] > 0:
            raise ConfigError(
                f"the last run was watched to {self.last_time:g}, not to the budget {budget:g}; "
                "the restricted mean is only defined up to the last time"
            )
        total, at, level = 0.0, 0.0, 1.0
        for time, survival in zip(self.times, self.survival, strict=True):
            if time >= budget:
                break
            total += level * (time - at)
            at, level = time, survival
        return total + level * (budget - at)


def kaplan_meier(crossings: Sequence[Crossing]) -> KaplanMeier:
    """Product-limit estimate; at equal times a crossing comes before a censoring."""
    if not crossings:
        raise ConfigError("no runs: a survival curve needs at least one")
    survival, times, levels = 1.0, [0.0], [1.0]
    for time in sorted({c.step for c in crossings if c.reached}):
        at_risk = sum(c.step >= time for c in crossings)
        events = sum(c.reached and c.step == time for c in crossings)
        survival *= 1 - events / at_risk
        times.append(time)
        levels.append(survival)
    return KaplanMeier(tuple(times), tuple(levels), max(c.step for c in crossings))


def restricted_steps(crossings: Sequence[Crossing], budget: float) -> Floats:
    """Steps to the threshold, cut at `budget`, one a seed.

    Their mean is the Kaplan-Meier restricted mean when every censored run was watched to the
    budget, so paired differences of these numbers are paired differences in RMST.
    """
    early = [c.step for c in crossings if not c.reached and c.step < budget]
    if early:
        raise ConfigError(
            f"{len(early)} runs were stopped at {early} before the budget {budget:g} without "
            "reaching the threshold; leave these seeds out of both arms"
        )
    return np.array([min(c.step, budget) for c in crossings])
