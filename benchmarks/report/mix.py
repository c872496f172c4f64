"""How the verdicts on training rollouts shift over the steps of an arm."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from botgrpo.benchmarks.question import number
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Floats

PREFIX = "sandbox/verdict/"
# as the contract lists them, success first; other rewards' words follow by name
ORDER = (
    *("ok", "no_code", "syntax", "resolve", "link", "no_default_export", "not_a_component"),
    *("too_large", "timeout", "oom", "crash", "runtime_error", "hang", "blank", "infra_error"),
)


def verdict_mix(suite: SuiteResult, arm: str) -> tuple[list[int], dict[str, Floats]] | None:
    """Steps and the share of each verdict, averaged over seeds; from evals where training has none.

    Shares are of all rollouts, the unscored (`infra_error`) included, and sum to 1.
    """
    counts: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    cells = [suite.cells[arm, seed] for seed in suite.seeds]
    for cell in cells:
        for row in cell.metrics:
            for key, value in row.items():
                if key.startswith(PREFIX):
                    counts[row["step"]][key.removeprefix(PREFIX)] += max(0.0, number(value) or 0.0)
    if not counts:
        for cell in cells:
            for evaluation in cell.evals:
                for verdict, count in evaluation.verdicts.items():
                    counts[evaluation.step][verdict] += count
    steps = [step for step in sorted(counts) if sum(counts[step].values()) > 0]
    if not steps:
        return None
    names = {name for step in steps for name, value in counts[step].items() if value}
    order = [v for v in ORDER if v in names] + sorted(names - set(ORDER))
    table = np.array([[counts[step][name] for step in steps] for name in order])
    return steps, dict(zip(order, table / table.sum(axis=0), strict=True))


def verdict_classes(names: set[str]) -> dict[str, str]:
    """CSS class of each verdict: the known ones keep theirs from report to report."""
    known = {name: f"v{i}" for i, name in enumerate(ORDER)} | {"correct": "v0"}
    others = sorted(names - set(known))
    return known | {name: f"v{1 + i % (len(ORDER) - 2)}" for i, name in enumerate(others)}
