"""lambda-GRPO's weights: how much a rollout counts by its length relative to its group's."""

from __future__ import annotations

from typing import Any

from botgrpo.trainer import segments
from botgrpo.trainer.segments import Array

SMALLEST_LIFT = 1e-6


def lambda_grpo_weights(
    length_K: Array, lam: Any, *, groups_K: Array, ratio: float = 1 / 9
) -> Array:
    """f_k = K softmax(h_k^lam) with h_k = 1 + r z_k, z_k the group's standardised length.

    The mean of f over a group is 1; lam = 0 gives 1 for every rollout. Source: arXiv 2510.06870
    (second-hand; not 2509.21154, which has the same name): r = 1/9. Our reading: population
    deviation, rollouts without a token leave the group, h is kept above 0 (it would fall to 0
    nine deviations below the mean).

    Args:
        length_K: tokens of each rollout, float64.
        lam: a number, or a torch scalar that learns: the weights carry its gradient.
        groups_K: group of each rollout, integers from 0.

    Returns:
        Weights [K] float64; 0 for rollouts without a token.
    """
    length_K = segments.float64(length_K)
    n_groups = int(groups_K.max()) + 1 if len(groups_K) else 0
    valid_K = segments.float64(length_K > 0)

    def total_K(x_K: Array) -> Array:
        return segments.segment_sum(x_K * valid_K, groups_K, n_groups)[groups_K]

    size_K = total_K(valid_K)
    safe_K = segments.where(size_K > 0, size_K, 1.0)
    offset_K = length_K - total_K(length_K) / safe_K
    sigma_K = (total_K(offset_K**2) / safe_K) ** 0.5
    z_K = offset_K / segments.where(sigma_K > 0, sigma_K, 1.0)
    lift_K = 1 + ratio * z_K
    lift_K = segments.where(lift_K > SMALLEST_LIFT, lift_K, SMALLEST_LIFT)
    weight_K = segments.exp(lift_K**lam)
    return weight_K / segments.where(size_K > 0, total_K(weight_K), 1.0) * size_K * valid_K
