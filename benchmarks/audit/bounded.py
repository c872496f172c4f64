"""How large a reward's values get, and whether its sums grow with length.

What is unbounded lets a few rollouts rule an update (arXiv 2410.15115), and a sum that grows with
length pays for length in every method that sums over tokens.
"""

from __future__ import annotations

import numpy as np

from botgrpo.benchmarks.audit.estimate import Estimate, point, unknown
from botgrpo.benchmarks.audit.figure import NO_TOKENS, Figure, Good
from botgrpo.benchmarks.audit.observe import Observed


def bounded_figures(seen: Observed) -> list[Figure]:
    """Largest values and how sums grow; properties of a file, so without intervals."""
    outcome = np.abs(seen.outcome_N_R[~np.isnan(seen.outcome_N_R)])
    top = point(float(outcome.max())) if outcome.size else unknown("nothing was scored")
    figures = [_figure("largest_outcome", "largest |outcome|", top, "", "over all passes")]
    known = [local[:, ~np.isnan(local).any(axis=0)] for local in seen.local_R if local is not None]
    known = [k for k in known if k.size]
    if not known:
        none = unknown(NO_TOKENS)
        return [
            *figures,
            _figure("largest_sum", "largest |sum of token values|", none, "", ""),
            _figure("tail", "largest token value over the 99th percentile", none, "low", ""),
            _figure("sum_growth", "growth of sums with length", none, "", ""),
        ]
    sums, lengths = (np.concatenate(each) for each in zip(
        *((k.sum(axis=1), np.full(len(k), k.shape[1])) for k in known), strict=True
    ))  # fmt: skip
    size = np.abs(np.concatenate([k.ravel() for k in known]))
    size = size[size > 1e-12]
    tail = (
        point(float(size.max() / np.quantile(size, 0.99)))
        if size.size
        else unknown("every token value is 0")
    )
    moving = np.abs(sums) > 1e-12
    x, y = np.log(lengths[moving]), np.log(np.abs(sums[moving]))
    slope = (
        point(float(np.cov(x, y)[0, 1] / x.var(ddof=1)))
        if moving.sum() > 9 and x.std() > 0.05
        else unknown("lengths hardly differ, or sums are 0")
    )
    return [
        *figures,
        _figure("largest_sum", "largest |sum of token values|", point(float(np.abs(sums).max())),
                "", "what a method that sums over tokens would see"),
        _figure("tail", "largest token value over the 99th percentile", tail, "low",
                "of the values that are not 0; far above 1 says that rare ones rule"),
        _figure("sum_growth", "growth of sums with length", slope, "",
                "slope of log |sum| on log tokens; 1 where every token adds its part"),
    ]  # fmt: skip


def _figure(key: str, title: str, value: Estimate, good: Good, note: str) -> Figure:
    return Figure(key, title, "stability", value, good, note)
