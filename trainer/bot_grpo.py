"""BoT-GRPO, GRPO with the group's statistics taken over tokens instead of over rollouts.

Source: arXiv 2610.09804, equations 2 and 3. A group's K rollouts form one bag of tokens in which
each token of rollout k weighs 1/L_k, so that a rollout counts once whatever its length:

    mu      = 1/K sum_k 1/L_k sum_t r_kt
    sigma^2 = 1/K sum_k 1/L_k sum_t (r_kt - mu)^2
    A_kt    = (r_kt - mu) / (sigma + eps)

No return-to-go, no critic: a token's advantage uses its own reward only. With one reward for a
whole rollout it is GRPO exactly. The variance is computed in two parts, between and within
rollouts, which is stable and needs only (mean, variance) of each rollout across processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from botgrpo.trainer import segments
from botgrpo.trainer.segments import Array

UniformGroup = Literal["keep", "zero", "damp"]
Weight = Literal["inv_length", "pooled"]

# sigma at or below this share of the largest reward is rounding, not signal
RELATIVE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class BotStats:
    """Statistics of each group, [P] float64 each (P groups in the batch).

    Attributes:
        mean: mu.
        between: spread of the rollouts' means, a standard deviation.
        within: spread inside rollouts, a standard deviation.
        sigma: what the advantages were divided by, before eps.
        rollouts: how many rollouts have a token.
        live: False where every advantage is 0.
    """

    mean: Array
    between: Array
    within: Array
    sigma: Array
    rollouts: Array
    live: Array


def bot_grpo(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    eps: float = 1e-6,
    ddof: Literal[0, 1] = 0,
    uniform_group: UniformGroup = "keep",
    weight: Weight = "inv_length",
    leave_one_out: bool = False,
    outcomes_K: Array | None = None,
    groups_K: Any | None = None,
    outcome_gap: float = 1.0,
) -> Array:
    """Advantages of one group, or of several when `groups_K` says to which each row belongs.

    Args:
        rewards_K_T: token rewards r, float; whatever it holds outside the mask is ignored.
        mask_K_T: bool; True where the policy chose the token (the end token counts).
        eps: added to sigma, outside the root.
        ddof: 1 is the cluster correction K/(K-1) * between + within (rollouts are the sampling
            unit), which equals the sample deviation of GRPO on constant rewards.
        uniform_group: what happens where all outcomes of a group are alike. "keep" is the paper's;
            "zero" drops the group; "damp" divides by sqrt(sigma^2 + s0^2), s0 being the spread that
            one different outcome among K would have made. "zero" and "damp" need `outcomes_K`.
        weight: "inv_length" as in the paper, or "pooled" where every token weighs alike.
        leave_one_out: centre each rollout on the mean of the others.
        outcomes_K: G of each rollout; only read for `uniform_group`.
        groups_K: integer group of each row; one group when absent.
        outcome_gap: w_g times the gap between success and failure, for "damp".

    Returns:
        Advantages, shape and array type of `rewards_K_T` (float64 kept, else the input's dtype);
        exactly 0 outside the mask, in groups with fewer than two rollouts that have a token, and
        where sigma <= 1e-6 * max(1, max |r|).

    Raises:
        ValueError: shapes differ, the mask is not bool, or a reward inside the mask is not finite.
    """
    advantages_K_T, _ = bot_grpo_with_stats(
        rewards_K_T,
        mask_K_T,
        eps=eps,
        ddof=ddof,
        uniform_group=uniform_group,
        weight=weight,
        leave_one_out=leave_one_out,
        outcomes_K=outcomes_K,
        groups_K=groups_K,
        outcome_gap=outcome_gap,
    )
    return advantages_K_T


def bot_grpo_with_stats(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    groups_K: Any | None = None,
    **options: Any,
) -> tuple[Array, BotStats]:
    """As `bot_grpo`, with the statistics of each group for the logs."""
    check_batch(rewards_K_T, mask_K_T)
    n_rows = rewards_K_T.shape[0]
    if segments.is_torch(rewards_K_T):
        row_N = mask_K_T.nonzero(as_tuple=True)[0]
        out_K_T = torch.zeros_like(rewards_K_T)
    else:
        row_N = np.nonzero(mask_K_T)[0]
        out_K_T = np.zeros_like(rewards_K_T, dtype=_float_dtype(rewards_K_T))
    groups = segments.index_like(np.zeros(n_rows) if groups_K is None else groups_K, rewards_K_T)
    advantages_N, stats = bot_grpo_ragged(rewards_K_T[mask_K_T], row_N, groups, **options)
    out_K_T[mask_K_T] = (
        advantages_N.to(out_K_T.dtype) if segments.is_torch(out_K_T) else advantages_N
    )
    return out_K_T, stats


def bot_grpo_ragged(
    rewards_N: Array,
    row_N: Array,
    group_R: Array,
    *,
    eps: float = 1e-6,
    ddof: Literal[0, 1] = 0,
    uniform_group: UniformGroup = "keep",
    weight: Weight = "inv_length",
    leave_one_out: bool = False,
    outcomes_K: Array | None = None,
    outcome_gap: float = 1.0,
) -> tuple[Array, BotStats]:
    """The estimator on flat tokens: O(N), whatever the lengths.

    Args:
        rewards_N: token rewards of all rollouts, one after another.
        row_N: rollout of each token, 0..R-1.
        group_R: group of each rollout, 0..P-1.

    Returns:
        Advantages [N] float64 and the statistics of each group.
    """
    if uniform_group not in ("keep", "zero", "damp"):
        raise ValueError(f"uniform_group is {uniform_group!r}; allowed: 'keep', 'zero', 'damp'")
    if weight not in ("inv_length", "pooled"):
        raise ValueError(f"weight is {weight!r}; allowed: 'inv_length', 'pooled'")
    if uniform_group != "keep" and outcomes_K is None:
        raise ValueError(f"uniform_group={uniform_group!r} needs outcomes_K, the G of each rollout")
    r_N = segments.float64(rewards_N)
    n_rows = int(group_R.shape[0])
    n_groups = int(group_R.max()) + 1 if n_rows else 0
    if not bool((abs(r_N) < float("inf")).all()):  # False for NaN as well
        raise ValueError(
            "a reward inside the mask is NaN or infinite; mask what nobody could score"
        )
    ones_N = r_N * 0 + 1

    length_R = segments.segment_sum(ones_N, row_N, n_rows)
    valid_R = segments.float64(length_R > 0)
    safe_length_R = length_R + (1 - valid_R)  # an empty row divides by 1 and weighs 0
    mean_R = segments.segment_sum(r_N, row_N, n_rows) / safe_length_R
    deviation_N = r_N - mean_R[row_N]
    variance_R = segments.segment_sum(deviation_N * deviation_N, row_N, n_rows) / safe_length_R

    raw_R = valid_R if weight == "inv_length" else length_R
    total_P = segments.segment_sum(raw_R, group_R, n_groups)
    share_R = raw_R / segments.where(total_P > 0, total_P, 1.0)[group_R]
    mu_P = segments.segment_sum(share_R * mean_R, group_R, n_groups)
    offset_R = mean_R - mu_P[group_R]
    between_P = segments.segment_sum(share_R * offset_R * offset_R, group_R, n_groups)
    within_P = segments.segment_sum(share_R * variance_R, group_R, n_groups)
    rollouts_P = segments.segment_sum(valid_R, group_R, n_groups)

    cluster_P = rollouts_P / segments.where(rollouts_P > 1, rollouts_P - 1, 1.0) if ddof else 1.0
    sigma_P = (cluster_P * between_P + within_P) ** 0.5
    largest_P = segments.segment_max(abs(r_N), group_R[row_N], n_groups)
    floor_P = RELATIVE_TOLERANCE * segments.where(largest_P > 1, largest_P, 1.0)
    live_P = (rollouts_P >= 2) & (sigma_P > floor_P)
    divisor_P = sigma_P
    if uniform_group != "keep":
        uniform_P = _uniform(segments.float64(outcomes_K), valid_R, group_R, n_groups)
        if uniform_group == "zero":
            live_P = live_P & ~uniform_P
        else:
            # spread of w_g * G when exactly one of K outcomes differs, p = 1/K
            k_P = segments.where(rollouts_P > 1, rollouts_P, 1.0)
            s0_P = outcome_gap * (k_P - 1) ** 0.5 / k_P
            divisor_P = segments.where(uniform_P, (sigma_P**2 + s0_P**2) ** 0.5, sigma_P)

    centre_R = mu_P[group_R]
    if leave_one_out:
        rest_R = segments.where(share_R < 1, 1 - share_R, 1.0)
        centre_R = (centre_R - share_R * mean_R) / rest_R
    group_N = group_R[row_N]
    advantages_N = (r_N - centre_R[row_N]) / (divisor_P + eps)[group_N]
    advantages_N = segments.where(live_P[group_N], advantages_N, 0.0)
    return advantages_N, BotStats(mu_P, between_P**0.5, within_P**0.5, sigma_P, rollouts_P, live_P)


def check_batch(rewards_K_T: Array, mask_K_T: Array) -> None:
    """Shapes and types that every advantage expects; raises ValueError with got and expected."""
    if rewards_K_T.ndim != 2 or tuple(rewards_K_T.shape) != tuple(mask_K_T.shape):
        raise ValueError(
            f"rewards have shape {tuple(rewards_K_T.shape)} and the mask {tuple(mask_K_T.shape)}; "
            "expected two equal shapes (K rollouts, T tokens)"
        )
    if mask_K_T.dtype not in (torch.bool, np.dtype(bool)):
        raise ValueError(f"the mask has dtype {mask_K_T.dtype}; expected bool")
    if segments.is_torch(rewards_K_T) != segments.is_torch(mask_K_T):
        raise ValueError("rewards and mask must both be numpy arrays or both torch tensors")


def _float_dtype(x: np.ndarray) -> Any:
    return x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64


def _uniform(outcomes_R: Array, valid_R: Array, group_R: Array, n_groups: int) -> Array:
    """True for groups in which all rollouts that have a token got the same outcome, [P] bool."""
    filled_R = segments.where(valid_R > 0, outcomes_R, 0.0)
    count_P = segments.segment_sum(valid_R, group_R, n_groups)
    mean_P = segments.segment_sum(filled_R, group_R, n_groups) / segments.where(
        count_P > 0, count_P, 1.0
    )
    spread_R = segments.where(valid_R > 0, abs(outcomes_R - mean_P[group_R]), 0.0)
    return segments.segment_max(spread_R, group_R, n_groups) <= RELATIVE_TOLERANCE
