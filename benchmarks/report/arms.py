"""Each design by itself and against the baseline: areas, steps, ends, paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from botgrpo.benchmarks.curves import (
    Crossing,
    KaplanMeier,
    area_under_curve,
    first_crossing,
    kaplan_meier,
    peak_to_final_drop,
    restricted_steps,
)
from botgrpo.benchmarks.question import number
from botgrpo.benchmarks.results import STEP_TIMES, Cell, SuiteResult
from botgrpo.benchmarks.stats import (
    Floats,
    Interval,
    Verdict,
    bootstrap_interval,
    iqm,
    judge,
    probability_of_improvement,
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One design over its finished seeds; mappings are by seed, None where nothing finished."""

    name: str
    summary: str
    index: int
    is_baseline: bool
    planned: int
    auc: Mapping[int, float]
    auc_interval: Interval | None
    crossings: Mapping[int, Crossing]
    survival: KaplanMeier | None
    restricted_mean: float | None
    finals: Mapping[str, float]
    drop: float | None
    unscored: int
    local_unscored_tokens: int
    step_s: float | None

    @property
    def auc_mean(self) -> float | None:
        return float(np.mean(list(self.auc.values()))) if self.auc else None

    @property
    def auc_iqm(self) -> float | None:
        values = np.array(list(self.auc.values()))
        return float(iqm(values[:, None])) if values.size else None

    @property
    def reached(self) -> int:
        return sum(c.reached for c in self.crossings.values())

    @property
    def median_steps(self) -> float | None:
        return self.survival.median if self.survival else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against the baseline on the seeds that both finished.

    `auc` is arm minus baseline; `saved` is baseline minus arm in steps to the threshold, each
    run counting for at most the budget (paired difference in restricted means).
    """

    arm: str
    seeds: tuple[int, ...]
    auc: Verdict
    auc_by_seed: tuple[float, ...]
    saved: Verdict
    win_probability: float


def colour_index(suite: SuiteResult, name: str) -> int:
    """Place of an arm's colour: 0 (grey) is always the baseline."""
    return [suite.baseline, *(a for a in suite.arms if a != suite.baseline)].index(name)


def arm_of(suite: SuiteResult, name: str) -> Arm:
    """One design over its finished seeds."""
    cells = suite.finished(name)
    curves = {cell.seed: cell.curve(suite.metric) for cell in cells}
    auc = {seed: area_under_curve(*curve) for seed, curve in curves.items()}
    crossings = {s: first_crossing(*curve, suite.threshold) for s, curve in curves.items()}
    survival = kaplan_meier(list(crossings.values())) if cells else None
    everything = [suite.cells[name, seed] for seed in suite.seeds]
    return Arm(
        name=name,
        summary=suite.summary_of(name),
        index=colour_index(suite, name),
        is_baseline=name == suite.baseline,
        planned=len(suite.seeds),
        auc=auc,
        auc_interval=bootstrap_interval(list(auc.values())) if auc else None,
        crossings=crossings,
        survival=survival,
        restricted_mean=survival.restricted_mean(suite.last_step) if survival else None,
        finals=_finals(cells),
        drop=float(np.mean([peak_to_final_drop(y) for _, y in curves.values()])) if cells else None,
        unscored=_total(everything, "bot/unscored")
        + sum(e.unscored for cell in everything for e in cell.evals),
        local_unscored_tokens=_total(everything, "bot/local_unscored_tokens"),
        step_s=_step_s(everything),
    )


def _finals(cells: Sequence[Cell]) -> dict[str, float]:
    """Mean over seeds of each metric at the last eval, for metrics that every seed scored there."""
    last = [cell.evals[-1].values for cell in cells]
    names = sorted({name for values in last for name in values})
    return {
        name: float(np.mean([v for values in last if (v := values.get(name)) is not None]))
        for name in names
        if all(values.get(name) is not None for values in last)
    }


def _total(cells: Sequence[Cell], name: str) -> int:
    return int(sum(sum(cell.training_curve(name)[1]) for cell in cells))


def _step_s(cells: Sequence[Cell]) -> float | None:
    """Mean wall time of a training step, without evaluation."""
    rows = (
        [number(row.get(name)) for name in STEP_TIMES] for cell in cells for row in cell.metrics
    )
    seconds = [sum(part for part in row if part) for row in rows if None not in row]
    return float(np.mean(seconds)) if seconds else None


def compare(suite: SuiteResult, arms: Sequence[Arm]) -> Iterator[Comparison]:
    """Every other design against the baseline, where both finished a seed."""
    base = next(arm for arm in arms if arm.is_baseline)
    seeds = {
        arm.name: suite.paired_seeds(arm.name, base.name) for arm in arms if not arm.is_baseline
    }
    seeds = {name: common for name, common in seeds.items() if common}
    by_name = {arm.name: arm for arm in arms}

    def auc(arm: Arm, common: list[int]) -> Floats:
        return np.array([arm.auc[s] for s in common])

    def steps(arm: Arm, common: list[int]) -> Floats:
        return restricted_steps([arm.crossings[s] for s in common], suite.last_step)

    areas = judge({n: (auc(by_name[n], c), auc(base, c)) for n, c in seeds.items()})
    saved = judge({n: (steps(base, c), steps(by_name[n], c)) for n, c in seeds.items()})
    for name, common in seeds.items():
        mine, theirs = auc(by_name[name], common), auc(base, common)
        yield Comparison(
            arm=name,
            seeds=tuple(common),
            auc=areas[name],
            auc_by_seed=tuple(float(d) for d in mine - theirs),
            saved=saved[name],
            win_probability=probability_of_improvement(mine, theirs),
        )
