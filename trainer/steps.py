"""Where a rollout's steps end, for methods that credit steps: lines that are not blank."""

from __future__ import annotations

import numpy as np

from botgrpo.rewards.base import Rollout


def step_ends(rollout: Rollout) -> np.ndarray:
    """True at the last token of each step, [T] bool.

    A step is a line that is not blank, with its line break and blank lines before it; what trails
    after the last one, such as the end token, belongs to it. Without token spans the whole rollout
    is one step.
    """
    ends: np.ndarray = np.zeros(len(rollout.token_ids or ()), dtype=bool)
    if not len(ends):
        return ends
    if rollout.token_spans is not None:
        starts = [start for start, _ in rollout.token_spans]
        breaks, position = [], 0
        for line in rollout.completion.splitlines(keepends=True):
            position += len(line)
            if line.strip():
                breaks.append(position - 1)
        at = np.searchsorted(starts, breaks[:-1], side="right") - 1
        ends[np.maximum(at, 0)] = True
    ends[-1] = True
    return ends


def step_means(x_N: np.ndarray, step_end_N: np.ndarray) -> np.ndarray:
    """Mean of `x_N` over each step, at the step's last token; 0 elsewhere. [N]"""
    step_N = np.cumsum(step_end_N) - step_end_N
    total = np.bincount(step_N, weights=x_N)
    mean = total / np.maximum(np.bincount(step_N), 1)
    return np.where(step_end_N, mean[step_N], 0.0)
