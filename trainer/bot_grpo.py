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

import functools
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from botgrpo.trainer import segments
from botgrpo.trainer.masked import RELATIVE_TOLERANCE, check_batch, group_index
from botgrpo.trainer.segments import Array, Runs

UniformGroup = Literal["keep", "zero", "damp"]
Weight = Literal["inv_length", "pooled"]


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
    """(r - mu) / (sigma + eps) with statistics over a group's tokens (arXiv 2610.09804, eq. 2-3).

    One group, or several when `groups_K` says to which each row belongs.

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
        Advantages, with the shape, array type and dtype of `rewards_K_T`; exactly 0 outside the
        mask, in groups with fewer than two rollouts that have a token, and where
        sigma <= 1e-6 * max(1, max |r|).

    Raises:
        ValueError: shapes or array types differ, the mask is not bool, the rewards are not float,
            or a reward inside the mask is not finite.
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
    groups = group_index(groups_K, rewards_K_T)
    length_K = mask_K_T.sum(1)
    advantages_N, stats = bot_grpo_ragged(rewards_K_T[mask_K_T], length_K, groups, **options)
    if segments.is_torch(rewards_K_T):
        out_K_T = torch.zeros_like(rewards_K_T)
        out_K_T[mask_K_T] = advantages_N.to(out_K_T.dtype)
    else:
        out_K_T = np.zeros_like(rewards_K_T)
        out_K_T[mask_K_T] = advantages_N
    return out_K_T, stats


@dataclass(frozen=True, slots=True)
class RowStats:
    """What a group's statistics need of each rollout, [R] float64 each.

    Four numbers a rollout: where a group's rollouts lie on several processes, these are gathered
    and no tokens are.
    """

    length: Array
    mean: Array
    variance: Array
    largest: Array


@dataclass(frozen=True, slots=True)
class Scale:
    """A_kt = (r_kt - centre_k) / divisor_k; `live` is False for rollouts whose every A is 0."""

    centre: Array
    divisor: Array
    live: Array


def bot_grpo_ragged(
    rewards_N: Array,
    length_R: Array,
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
        length_R: tokens of each rollout; they add up to N.
        group_R: group of each rollout, 0..P-1.

    Returns:
        Advantages [N] float64 and the statistics of each group.
    """
    # one fast pass over the input as it came, instead of an exact maximum for each rollout
    largest = segments.largest_absolute(rewards_N)
    if not largest < float("inf"):  # False for NaN as well
        raise ValueError(
            "a reward inside the mask is NaN or infinite; mask what nobody could score"
        )
    rows = row_stats(rewards_N, length_R, largest)
    scale_of = functools.partial(
        group_scale,
        group_R=group_R,
        eps=eps,
        ddof=ddof,
        uniform_group=uniform_group,
        weight=weight,
        leave_one_out=leave_one_out,
        outcomes_R=outcomes_K,
        outcome_gap=outcome_gap,
    )
    scale, stats = scale_of(rows)
    if bool((~stats.live & (stats.sigma > RELATIVE_TOLERANCE)).any()):
        # the batch's largest reward may be too high a bar: take each rollout's own
        row_N = Runs.of(length_R).row_N
        exact_R = segments.segment_max(abs(segments.float64(rewards_N)), row_N, len(length_R))
        scale, stats = scale_of(replace(rows, largest=exact_R))
    all_live = bool(scale.live.all())
    advantages_N = segments.empty(rewards_N.shape[0], rewards_N)
    for row, token in segments.blocks(length_R, rewards_N.shape[0]):
        runs = Runs.of(length_R[row])
        piece = segments.float64(rewards_N[token]) - runs.expand(scale.centre[row])
        piece /= runs.expand(scale.divisor[row])
        if not all_live:
            piece[~runs.expand(scale.live[row])] = 0.0
        advantages_N[token] = piece
    return advantages_N, stats


def row_stats(rewards_N: Array, length_R: Array, largest: float) -> RowStats:
    """Mean and variance of each rollout, in two passes over pieces that stay in the cache."""
    mean_R, variance_R = (segments.empty(length_R.shape[0], rewards_N) for _ in range(2))
    length_f_R = segments.float64(length_R)
    safe_R = length_f_R + segments.float64(length_R == 0)  # an empty row divides by 1
    for row, token in segments.blocks(length_R, rewards_N.shape[0]):
        runs = Runs.of(length_R[row])
        r_N = segments.float64(rewards_N[token])
        mean_R[row] = runs.sum(r_N) / safe_R[row]
        deviation_N = r_N - runs.expand(mean_R[row])
        deviation_N *= deviation_N
        variance_R[row] = runs.sum(deviation_N) / safe_R[row]
    return RowStats(length_f_R, mean_R, variance_R, mean_R * 0 + largest)


def group_scale(
    rows: RowStats,
    group_R: Array,
    *,
    eps: float,
    ddof: Literal[0, 1],
    uniform_group: UniformGroup,
    weight: Weight,
    leave_one_out: bool,
    outcomes_R: Array | None,
    outcome_gap: float,
) -> tuple[Scale, BotStats]:
    """Centre and divisor of each rollout from its group's statistics; O(R), no tokens."""
    _check_options(ddof, uniform_group, weight, outcomes_R, rows.length)
    n_groups = int(group_R.max()) + 1 if group_R.shape[0] else 0
    valid_R = segments.float64(rows.length > 0)
    raw_R = valid_R if weight == "inv_length" else rows.length
    total_P = segments.segment_sum(raw_R, group_R, n_groups)
    share_R = raw_R / segments.where(total_P > 0, total_P, 1.0)[group_R]
    mu_P = segments.segment_sum(share_R * rows.mean, group_R, n_groups)
    offset_R = rows.mean - mu_P[group_R]
    between_P = segments.segment_sum(share_R * offset_R * offset_R, group_R, n_groups)
    within_P = segments.segment_sum(share_R * rows.variance, group_R, n_groups)
    rollouts_P = segments.segment_sum(valid_R, group_R, n_groups)

    cluster_P = rollouts_P / segments.where(rollouts_P > 1, rollouts_P - 1, 1.0) if ddof else 1.0
    sigma_P = (cluster_P * between_P + within_P) ** 0.5
    largest_P = segments.segment_max(rows.largest, group_R, n_groups)
    floor_P = RELATIVE_TOLERANCE * segments.where(largest_P > 1, largest_P, 1.0)
    live_P = (rollouts_P >= 2) & (sigma_P > floor_P)
    divisor_P = sigma_P
    if uniform_group != "keep":
        uniform_P = _uniform(segments.float64(outcomes_R), valid_R, group_R, n_groups)
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
        centre_R = (centre_R - share_R * rows.mean) / rest_R
    # a dead group may have sigma 0, and eps may be 0: divide by 1, the result is dropped
    divisor_P = segments.where(live_P, divisor_P + eps, 1.0)
    scale = Scale(centre_R, divisor_P[group_R], live_P[group_R])
    return scale, BotStats(mu_P, between_P**0.5, within_P**0.5, sigma_P, rollouts_P, live_P)


def _check_options(
    ddof: int, uniform_group: str, weight: str, outcomes_R: Array | None, length_R: Array
) -> None:
    if uniform_group not in ("keep", "zero", "damp"):
        raise ValueError(f"uniform_group is {uniform_group!r}; allowed: 'keep', 'zero', 'damp'")
    if weight not in ("inv_length", "pooled"):
        raise ValueError(f"weight is {weight!r}; allowed: 'inv_length', 'pooled'")
    if ddof not in (0, 1):
        raise ValueError(f"ddof is {ddof!r}; allowed: 0, 1")
    if uniform_group == "keep":
        return
    if outcomes_R is None:
        raise ValueError(f"uniform_group={uniform_group!r} needs outcomes_K, the G of each rollout")
    if tuple(outcomes_R.shape) != tuple(length_R.shape):
        raise ValueError(
            f"outcomes_K has shape {tuple(outcomes_R.shape)}; expected {tuple(length_R.shape)}, "
            "one outcome a rollout"
        )
    if bool(((outcomes_R != outcomes_R) & (length_R > 0)).any()):  # NaN differs from itself
        raise ValueError("an outcome is NaN though its rollout has tokens; mask unscored rollouts")


def _uniform(outcomes_R: Array, valid_R: Array, group_R: Array, n_groups: int) -> Array:
    """True for groups in which all rollouts that have a token got the same outcome, [P] bool."""
    filled_R = segments.where(valid_R > 0, outcomes_R, 0.0)
    count_P = segments.segment_sum(valid_R, group_R, n_groups)
    mean_P = segments.segment_sum(filled_R, group_R, n_groups) / segments.where(
        count_P > 0, count_P, 1.0
    )
    spread_R = segments.where(valid_R > 0, abs(outcomes_R - mean_P[group_R]), 0.0)
    return segments.segment_max(spread_R, group_R, n_groups) <= RELATIVE_TOLERANCE
