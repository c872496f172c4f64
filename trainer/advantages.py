"""From token rewards to advantages: plain functions in a plain dictionary.

Each takes `(rewards_K_T, mask_K_T, *, groups_K=None, ...)` and returns advantages of the same
shape, 0 outside the mask. A method that knows only one number a rollout reads the row's mean, so
what a dense reward becomes is decided by which rewards it is given (see `algorithms.PORTS`), and
never is the token sum, which would pay for length.

Rules shared by all: statistics in float64; equal rewards, rows without a token and groups with
fewer than two rows that have one give exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botgrpo.trainer import segments
from botgrpo.trainer.bot_grpo import bot_grpo, bot_grpo_with_stats
from botgrpo.trainer.critic import vapo
from botgrpo.trainer.entropy_shaping import eapo, grpo_s, gtpo
from botgrpo.trainer.length_weights import lambda_grpo_weights
from botgrpo.trainer.masked import Masked
from botgrpo.trainer.process_rewards import (
    grpo_process,
    prime,
    pure,
    pure_openrlhf_step,
    pure_verl,
    return_to_go,
)
from botgrpo.trainer.segments import Array

__all__ = ["ADVANTAGES", "bot_grpo", "grpo"]


def grpo(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    eps: float = 1e-6,
    ddof: int = 0,
    groups_K: Any | None = None,
) -> Array:
    """GRPO with outcome supervision: (R_k - mean R) / (std R + eps), the same for every token.

    R_k is the row's mean. Source: arXiv 2402.03300, section 4.1.2; population deviation by
    default, as BoT-GRPO's paper writes its baseline (equation 1); TRL and verl take ddof=1.
    Rules for empty rows, single rollouts and equal rewards are those of `bot_grpo`, of which this
    is the special case of constant rows.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    rows_K_T = segments.where(mask_K_T, batch.mean_K()[:, None], 0.0)
    rows_K_T, _ = bot_grpo_with_stats(rows_K_T, mask_K_T, eps=eps, ddof=ddof, groups_K=groups_K)
    return batch.result(rows_K_T)


def dr_grpo(rewards_K_T: Array, mask_K_T: Array, *, groups_K: Any | None = None) -> Array:
    """GRPO without the division by the deviation: R_k - mean R.

    Source: arXiv 2503.20783. Its other half, a constant in place of 1/L_k, is the aggregation
    "constant".
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    return _broadcast(batch, batch.centred_K(batch.mean_K()))


def rloo(rewards_K_T: Array, mask_K_T: Array, *, groups_K: Any | None = None) -> Array:
    """R_k minus the mean of the others: K/(K-1) times Dr.GRPO's.

    Source: arXiv 2402.14740. K counts the rollouts of the group that have a token.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    size_K = batch.size_K()
    factor_K = size_K / segments.where(size_K > 1, size_K - 1, 1.0)
    return _broadcast(batch, batch.centred_K(batch.mean_K()) * factor_K)


def reinforce_pp(
    rewards_K_T: Array, mask_K_T: Array, *, gamma: float = 1.0, groups_K: Any | None = None
) -> Array:
    """Return-to-go of the token rewards, whitened over all tokens of the batch, no group.

    G_t = r_t + gamma G_{t+1}; masked tokens are passed over and do not discount, as in verl 0.9.1,
    so that what stands before a tool's output keeps its credit.
    Source: arXiv 2501.03262; verl `compute_reinforce_plus_plus_outcome_advantage`. The reward of
    the paper is an outcome on the last token: give it that (port "outcome_last"), since the
    return of w_g G on every token is a token sum.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    return batch.result(batch.whitened(return_to_go(batch.r_K_T, mask_K_T, gamma), mask_K_T))


def reinforce_pp_baseline(
    rewards_K_T: Array, mask_K_T: Array, *, groups_K: Any | None = None
) -> Array:
    """R_k - mean R of its group on every token, whitened over all tokens of the batch.

    Source: arXiv 2501.03262, the variant with a group baseline; verl
    `compute_reinforce_plus_plus_baseline_outcome_advantage`, except that a rollout without peers
    leaves the statistics (verl keeps its raw reward).
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    peers_K_T = mask_K_T & (batch.size_K() >= 2)[:, None]
    centred_K_T = segments.where(mask_K_T, batch.centred_K(batch.mean_K())[:, None], 0.0)
    return batch.result(batch.whitened(centred_K_T, peers_K_T))


def hapo(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    eps: float = 1e-6,
    fall_back_at: float = 5.0,
    groups_K: Any | None = None,
) -> Array:
    """BoT-GRPO with every token weighing alike; a group with an |A| of 5 or more falls to GRPO.

    "Token Level Group Average" of Heterogeneous Adaptive Policy Optimization, arXiv 2509.16591,
    as its code has it: mean and population deviation over all valid tokens of the group, and GRPO
    with the sample deviation as the way out. The source gives it an outcome on every token. Its
    entropy-driven temperature, redistribution and clipping are not here.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    pooled_K_T, _ = bot_grpo_with_stats(
        batch.r_K_T, mask_K_T, eps=eps, weight="pooled", groups_K=groups_K
    )
    grpo_K_T = grpo(batch.r_K_T, mask_K_T, eps=eps, ddof=1, groups_K=groups_K)
    peak_K = segments.row_max(abs(pooled_K_T))
    peak_P = segments.segment_max(peak_K, batch.group_K, batch.n_groups)
    large_K = peak_P[batch.group_K] >= fall_back_at
    return batch.result(segments.where(large_K[:, None], grpo_K_T, pooled_K_T))


def grpo_lambda(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    eps: float = 1e-6,
    floor: float = -0.1,
    groups_K: Any | None = None,
) -> Array:
    """GRPO's advantage, with negative ones no lower than -0.1.

    GRPO-lambda, arXiv 2510.00194 (second-hand); the traces are in the loss "grpo_lambda".
    """
    advantages_K_T = grpo(rewards_K_T, mask_K_T, eps=eps, groups_K=groups_K)
    return segments.where(advantages_K_T < floor, advantages_K_T * 0 + floor, advantages_K_T)


def lambda_grpo(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    lam: float,
    eps: float = 1e-6,
    groups_K: Any | None = None,
) -> Array:
    """GRPO's advantage times f_k, a weight by the rollout's length relative to its group's.

    lambda-GRPO, arXiv 2510.06870, at a given lambda (`lambda_grpo_weights`). f_k > 0 commutes with
    min and clip, so weighing the advantage is weighing the loss. lam = 0 is GRPO's advantage.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    weights_K = lambda_grpo_weights(batch.length_K, lam, groups_K=batch.group_K)
    return batch.result(
        grpo(batch.r_K_T, mask_K_T, eps=eps, groups_K=groups_K) * weights_K[:, None]
    )


def _broadcast(batch: Masked, x_K: Array) -> Array:
    return batch.result(segments.where(batch.mask_K_T, x_K[:, None], 0.0))


ADVANTAGES: dict[str, Callable[..., Array]] = {
    "bot_grpo": bot_grpo,
    "grpo": grpo,
    "grpo_process": grpo_process,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "pure": pure,
    "pure_openrlhf_step": pure_openrlhf_step,
    "pure_verl": pure_verl,
    "prime": prime,
    "hapo": hapo,
    "grpo_lambda": grpo_lambda,
    "lambda_grpo": lambda_grpo,
    "gtpo": gtpo,
    "grpo_s": grpo_s,
    "eapo": eapo,
    "vapo": vapo,
}
