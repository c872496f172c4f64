"""pass@k of a suite's last checkpoints, all k from the same samples of one checkpoint.

    <cell>/pass_at_k.json    {"step": 40, "prompts": 128, "samples": 8, "rates": {"1": .2, "4": .4}}

A published table whose pass@1, 2 and 4 are best-of over checkpoints cannot be compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from botgrpo.benchmarks import math_eval, training
from botgrpo.benchmarks.math_metrics import summary
from botgrpo.benchmarks.results import Cell, SuiteResult

FILE = "pass_at_k.json"
PROMPTS, SAMPLES = 128, 8


def measure(
    result: SuiteResult, ks: Sequence[int], *, prompts: int = PROMPTS, samples: int = SAMPLES
) -> None:
    """Sample each finished cell's last checkpoint, unless that was done before."""
    for arm in result.arms:
        for cell in result.finished(arm):
            if set(ks) <= set(read(cell)):
                continue
            run, step = training.run_for_eval(cell.folder, prompts)
            items = run.task.eval_items(prompts)
            problems = math_eval.by_problem(*math_eval.sampled(run, items, samples))
            rates = {k: summary(problems, [k])[f"pass@{k}"].value for k in ks}
            record = {"step": step, "prompts": prompts, "samples": samples, "rates": rates}
            (cell.folder / FILE).write_text(json.dumps(record) + "\n")
            print(f"{arm}, seed {cell.seed}: " + ", ".join(f"pass@{k} {rates[k]:.3f}" for k in ks))


def read(cell: Cell) -> Mapping[int, float]:
    """k -> rate; empty where nothing was measured."""
    path = cell.folder / FILE
    rates = json.loads(path.read_text())["rates"] if path.is_file() else {}
    return {int(k): float(rate) for k, rate in rates.items()}
