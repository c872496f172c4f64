"""Which groups are worth a step, and what an overlong rollout pays: DAPO's two rules.

Both act on the outcome G. A length penalty in the local reward S would sit on tokens that did
nothing wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from botgrpo.trainer.masked import RELATIVE_TOLERANCE


def keep_group(outcomes_R: np.ndarray, groups_R: Any) -> np.ndarray:
    """True for rollouts whose group has outcomes that differ, [R] bool; NaN (unscored) is not read.

    Dynamic sampling, arXiv 2503.14476 (equation 11: 0 < number correct < K). It looks at G alone:
    local rewards nearly always differ.
    """
    groups_R = np.asarray(groups_R, dtype=np.int64)
    kept_R: np.ndarray = np.zeros(len(outcomes_R), dtype=bool)
    for group in np.unique(groups_R):
        inside_R = groups_R == group
        scored = outcomes_R[inside_R & ~np.isnan(outcomes_R)]
        tolerance = RELATIVE_TOLERANCE * max(1.0, np.abs(scored).max(initial=0.0))
        kept_R[inside_R] = len(scored) >= 2 and np.ptp(scored) > tolerance
    return kept_R


def soft_overlong(length_R: np.ndarray, max_tokens: int, cache_tokens: int) -> np.ndarray:
    """Penalty by length, [R] in [-1, 0]: 0 up to max - cache, then linear to -1 at max and beyond.

    Source: arXiv 2503.14476, equation 13, where outcomes are +1 and -1.
    """
    if not 0 < cache_tokens <= max_tokens:
        raise ValueError(f"cache_tokens is {cache_tokens}; allowed: 1 to max_tokens ({max_tokens})")
    start = max_tokens - cache_tokens
    return np.clip((start - np.asarray(length_R, dtype=float)) / cache_tokens, -1.0, 0.0)
