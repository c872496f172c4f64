"""Advantages from a critic's values: VAPO's length-adaptive GAE. The critic is the trainer's."""

from __future__ import annotations

from typing import Any

from botgrpo.trainer import segments
from botgrpo.trainer.masked import Masked, check_like
from botgrpo.trainer.segments import Array


def vapo(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    values_K_T: Array,
    alpha: float = 0.05,
    gamma: float = 1.0,
    groups_K: Any | None = None,
) -> Array:
    """GAE whose lambda grows with the rollout: lambda = 1 - 1 / (alpha L), at least 0.

    delta_t = r_t + gamma V_{t+1} - V_t, A_t = delta_t + gamma lambda A_{t+1}; masked tokens are
    passed over. Source: arXiv 2504.05118 (second-hand); below L = 1/alpha = 20 its lambda would be
    negative, and 0 is our reading. No whitening, which the source does not mention.

    Args:
        rewards_K_T: the outcome on the last token (port "outcome_last").
        values_K_T: V of each token's state, before the token.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    check_like("values_K_T", values_K_T, tuple(batch.r_K_T.shape))
    values_K_T = batch.inside(values_K_T)
    safe_K = segments.where(batch.length_K > 0, batch.length_K, 1.0)
    lam_K = 1 - 1 / (alpha * safe_K)
    lam_K = segments.where(lam_K > 0, lam_K, 0.0)
    advantages_K_T = batch.r_K_T * 0
    next_advantage_K, next_value_K = batch.length_K * 0, batch.length_K * 0
    for t in reversed(range(batch.r_K_T.shape[1])):
        here_K = mask_K_T[:, t]
        delta_K = batch.r_K_T[:, t] + gamma * next_value_K - values_K_T[:, t]
        now_K = delta_K + gamma * lam_K * next_advantage_K
        next_advantage_K = segments.where(here_K, now_K, next_advantage_K)
        next_value_K = segments.where(here_K, values_K_T[:, t], next_value_K)
        advantages_K_T[:, t] = next_advantage_K
    return batch.result(advantages_K_T)
