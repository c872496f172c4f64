"""Methods that credit tokens by how undecided the policy was: GTPO, GRPO-S, EAPO.

All second-hand. `entropies_K_T` is the entropy over the whole vocabulary under the policy that
sampled, a constant to the gradient.
"""

from __future__ import annotations

from typing import Any

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import segments
from botgrpo.trainer.masked import RELATIVE_TOLERANCE, Masked, check_like
from botgrpo.trainer.segments import Array

EPS = 1e-8  # in denominators, as GTPO's paper has it


def gtpo(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    entropies_K_T: Array,
    correct_K: Array,
    outcome_weight: float,
    entropy_weight: float,
    groups_K: Any | None = None,
) -> Array:
    """GTPO: tokens of correct rollouts earn by their share of the entropy at their position.

    With n_t correct rollouts that reach position t, r~ = a1 + a2 n_t H_t / sum_k H_kt; wrong ones
    -a1 - a2 m_t (1/H_t) / sum_k (1/H_kt). Correct and wrong tokens are standardised apart, so each
    side's mean is 0.

    Source: arXiv 2508.04349 (ByteDance; not 2508.03772, also called GTPO), second-hand. Our
    reading: population deviation within the group; a1 and a2 have no default since their values
    are unavailable (replications disagree). Groups whose rollouts are all correct or all wrong get
    0: otherwise a group that failed trains on shaping noise.

    Args:
        rewards_K_T: only shape and mask count; correctness is in `correct_K`.
        entropies_K_T: nats, >= 0.
        correct_K: bool.
        outcome_weight, entropy_weight: a1 and a2.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    entropy_K_T = _entropies(batch, entropies_K_T)
    shaped_K_T = batch.r_K_T * 0
    for sign, side_K in _sides(batch, correct_K):
        inside_K_T = segments.float64(mask_K_T) * side_K[:, None]
        weight_K_T = (entropy_K_T if sign > 0 else 1 / (entropy_K_T + EPS)) * inside_K_T
        total_K_T = segments.column_sum(weight_K_T, batch.group_K, batch.n_groups)[batch.group_K]
        reach_K_T = segments.column_sum(inside_K_T, batch.group_K, batch.n_groups)[batch.group_K]
        bonus_K_T = weight_K_T / (total_K_T + EPS) * reach_K_T
        raw_K_T = sign * (outcome_weight + entropy_weight * bonus_K_T)
        shaped_K_T = shaped_K_T + _standardised(batch, raw_K_T, inside_K_T)
    return batch.result(shaped_K_T * _mixed(batch, correct_K)[:, None])


def grpo_s(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    entropies_K_T: Array,
    correct_K: Array,
    outcome_weight: float,
    entropy_weight: float,
    groups_K: Any | None = None,
) -> Array:
    """GRPO-S: GTPO with a rollout's mean entropy in place of each token's.

    Correct: b1 + b2 n Hbar / sum Hbar; wrong: -b1 - b2 m (1/Hbar) / sum (1/Hbar). Source:
    arXiv 2508.04349, second-hand; standardised apart as in `gtpo`, each rollout once (our reading).
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    entropy_K_T = _entropies(batch, entropies_K_T)
    mean_K = entropy_K_T.sum(1) / (batch.length_K + (1 - batch.valid_K))
    shaped_K = mean_K * 0
    for sign, side_K in _sides(batch, correct_K):
        weight_K = (mean_K if sign > 0 else 1 / (mean_K + EPS)) * side_K
        bonus_K = weight_K / (batch.group_sum_K(weight_K) + EPS) * batch.group_sum_K(side_K)
        raw_K = sign * (outcome_weight + entropy_weight * bonus_K)
        shaped_K = shaped_K + _standardised(batch, raw_K[:, None], side_K[:, None])[:, 0]
    shaped_K = shaped_K * _mixed(batch, correct_K)
    return batch.result(segments.where(mask_K_T, shaped_K[:, None], 0.0))


def eapo(rewards_K_T: Array, mask_K_T: Array, **inputs: Any) -> Array:
    """Formula unavailable: A + alpha sign(A) A^H with an A^H that no source at hand defines.

    arXiv 2604.11056, EAPO in its first version, HAPO in its second; alpha = 0.2, phi = 2.
    """
    raise ConfigError(
        "eapo: formula unavailable. arXiv 2604.11056 adds alpha sign(A) A^H to the advantage, and "
        "no source at hand defines A^H; nothing was invented. Use gtpo or hapo, or add the formula"
    )


def _entropies(batch: Masked, entropies_K_T: Array) -> Array:
    check_like("entropies_K_T", entropies_K_T, tuple(batch.r_K_T.shape))
    entropy_K_T = batch.inside(entropies_K_T)
    if not segments.largest_absolute(entropy_K_T.reshape(-1)) < float("inf"):
        raise ValueError("an entropy inside the mask is NaN or infinite")
    return entropy_K_T


def _sides(batch: Masked, correct_K: Array) -> tuple[tuple[float, Array], tuple[float, Array]]:
    check_like("correct_K", correct_K, tuple(batch.length_K.shape))
    correct_K = segments.float64(correct_K) * batch.valid_K
    return (1.0, correct_K), (-1.0, batch.valid_K - correct_K)


def _mixed(batch: Masked, correct_K: Array) -> Array:
    """1.0 for rows whose group holds both a correct and a wrong rollout."""
    (_, right_K), (_, wrong_K) = _sides(batch, correct_K)
    both_K = (batch.group_sum_K(right_K) > 0) & (batch.group_sum_K(wrong_K) > 0)
    return segments.float64(both_K)


def _standardised(batch: Masked, x_K_T: Array, inside_K_T: Array) -> Array:
    """(x - mean) / (std + eps) over the marked values of each group; 0 elsewhere."""
    count_K = batch.group_sum_K(inside_K_T.sum(1))
    safe_K = segments.where(count_K > 0, count_K, 1.0)
    mean_K = batch.group_sum_K((x_K_T * inside_K_T).sum(1)) / safe_K
    offset_K_T = (x_K_T - mean_K[:, None]) * inside_K_T
    sigma_K = (batch.group_sum_K((offset_K_T**2).sum(1)) / safe_K) ** 0.5
    live_K = segments.float64(sigma_K > RELATIVE_TOLERANCE)
    divisor_K = segments.where(sigma_K > RELATIVE_TOLERANCE, sigma_K + EPS, 1.0)
    return offset_K_T / divisor_K[:, None] * live_K[:, None]
