"""From a suite's cells to the numbers of the report: arms, comparisons, curves, warnings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from botgrpo.benchmarks.report.arms import Arm, Comparison, arm_of, colour_index, compare
from botgrpo.benchmarks.report.warnings import TRUTHS, warnings
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Floats, band

EVAL_METRICS = (*TRUTHS, "mean_length")


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean and bounds over the finished seeds at the steps they share; `lines` is every seed."""

    arm: str
    index: int
    steps: tuple[int, ...]
    rows: Floats  # [3, S]: mean, low, high
    n_seeds: int
    lines: tuple[tuple[int, bool, tuple[int, ...], tuple[float, ...]], ...]  # seed, finished, x, y


@dataclass(frozen=True, slots=True)
class Analysis:
    suite: SuiteResult
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]

    @property
    def baseline(self) -> Arm:
        return next(arm for arm in self.arms if arm.is_baseline)

    @property
    def best(self) -> Arm | None:
        """The arm with the largest mean area, None where nothing finished."""
        scored = [arm for arm in self.arms if arm.auc_mean is not None]
        return max(scored, key=lambda a: a.auc_mean or 0.0, default=None)

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def comparison(self, name: str) -> Comparison | None:
        return next((c for c in self.comparisons if c.arm == name), None)


def analyse(suite: SuiteResult) -> Analysis:
    """Everything that the report and the terminal say about a suite."""
    arms = tuple(arm_of(suite, name) for name in suite.arms)
    comparisons = tuple(compare(suite, arms))
    return Analysis(suite, arms, comparisons, tuple(warnings(suite, arms, comparisons)))


def curve_of(suite: SuiteResult, arm: str, metric: str, *, training: bool = False) -> Curve | None:
    """One arm's curve of an eval metric, or of a training metric; None where there is no value."""
    cells = [suite.cells[arm, seed] for seed in suite.seeds]
    lines = []
    for cell in cells:
        steps, values = cell.training_curve(metric) if training else cell.curve(metric)
        if steps:
            lines.append((cell.seed, cell.status == "finished", tuple(steps), tuple(values)))
    if not lines:
        return None
    whole = [dict(zip(x, y, strict=True)) for _, finished, x, y in lines if finished]
    shared = sorted(set.intersection(*(set(line) for line in whole))) if whole else []
    table = np.array([[line[s] for s in shared] for line in whole])
    rows = band(table) if shared else np.zeros((3, 0))
    return Curve(arm, colour_index(suite, arm), tuple(shared), rows, len(whole), tuple(lines))


def eval_metrics(suite: SuiteResult) -> list[str]:
    """Held-out metrics that some cell has: the primary first, then the usual ones, then others."""
    found = {k for cell in suite.cells.values() for e in cell.evals for k in e.values}
    order = [suite.metric, *EVAL_METRICS, *sorted(found)]
    return [name for name in dict.fromkeys(order) if name in found]
