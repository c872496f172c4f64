"""Rollouts to look at: where a reward contradicts a label, itself, or says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.report.runs import shortened

MOST = 4
LONGEST = 1500


@dataclass(frozen=True, slots=True)
class Evidence:
    """A rollout, why it is worth a look, and the reward's own word for it."""

    id: str
    why: str
    verdict: str
    prompt: str
    completion: str


def evidence(seen: Observed) -> list[Evidence]:
    """Up to four rollouts: furthest from their label first, then those that changed most."""
    table = seen.outcome_N_R
    told = ~np.isnan(table).all(axis=0)
    spread = np.zeros(table.shape[1])
    spread[told] = np.nanmax(table[:, told], axis=0) - np.nanmin(table[:, told], axis=0)
    wrong = np.nan_to_num(np.abs(_scaled(seen) - seen.truth_R))
    order = np.lexsort((np.arange(len(wrong)), -spread, -np.round(wrong, 6)))
    found = []
    for i in order.tolist()[:MOST]:
        if why := _why(seen, i, float(wrong[i]), float(spread[i])):
            rollout, score = seen.items[i].rollout, seen.passes[0][i]
            asked = rollout.prompt
            prompt = (
                asked if isinstance(asked, str) else "\n".join(m.get("content", "") for m in asked)
            )
            found.append(
                Evidence(
                    shortened(rollout.id, 120),
                    why,
                    shortened(f"{score.verdict} {score.reason}".strip(), 300),
                    shortened(prompt, 600),
                    shortened(rollout.completion, LONGEST),
                )
            )
    return found


def _scaled(seen: Observed) -> np.ndarray:
    """First outcomes from 0 to 1 of the declared range; NaN where that is not finite."""
    low, high = seen.spec.outcome_range
    if not np.isfinite([low, high]).all() or high <= low:
        return np.full(len(seen.items), np.nan)
    return np.asarray((seen.outcome_N_R[0] - low) / (high - low))


def _why(seen: Observed, i: int, wrong: float, spread: float) -> str:
    column = seen.outcome_N_R[:, i]
    outcomes = _listed(column[:8])
    if wrong > 0.5:
        return f"outcome {outcomes.partition(',')[0]}, labelled {seen.truth_R[i]:g}"
    if spread > 1e-9:
        return f"outcomes {outcomes} in {len(column)} passes"
    return ""


def _listed(values: Sequence[float] | np.ndarray) -> str:
    return ", ".join("unscored" if np.isnan(v) else f"{v:.3g}" for v in values)
