"""From log-probabilities and advantages to a loss: plain functions in a plain dictionary.

A loss gives one number a token; an aggregation gives each token its weight in the sum that is
minimised, so that micro-batches add up to the whole batch exactly. Tokens are flat, [N]; `row_N`
says to which of R rollouts each belongs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def clipped(
    logp_N: Tensor, logp_old_N: Tensor, advantages_N: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A) for each token, rho = exp(lp - lp_old).

    Source: arXiv 2402.03300, equation 3 (clip_low = clip_high); arXiv 2503.14476 separates the two.
    """
    ratio_N = torch.exp(logp_N - logp_old_N)
    clipped_N = ratio_N.clamp(1.0 - clip_low, 1.0 + clip_high)
    return -torch.minimum(ratio_N * advantages_N, clipped_N * advantages_N)


def sequence_mean(row_N: Tensor, n_rows: int) -> Tensor:
    """Weights 1 / (L_k R): each rollout counts once, R being the rollouts that have a token.

    The measure in which BoT-GRPO's advantages sum to zero (arXiv 2610.09804, equation 3).
    """
    length_R = torch.bincount(row_N, minlength=n_rows).to(torch.float32)
    present = (length_R > 0).sum().clamp(min=1)
    return 1.0 / (length_R[row_N] * present)


def token_mean(row_N: Tensor, n_rows: int) -> Tensor:
    """Weights 1 / N: each token of the batch counts alike (arXiv 2503.14476)."""
    return torch.full(row_N.shape, 1.0 / max(row_N.numel(), 1), device=row_N.device)


LOSSES: dict[str, Callable[..., Tensor]] = {"clipped": clipped}
AGGREGATIONS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "sequence_mean": sequence_mean,
    "token_mean": token_mean,
}
