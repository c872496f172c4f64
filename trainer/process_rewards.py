"""Methods that read rewards of steps or tokens and add up what is still to come.

A step ends at a token that `step_ends_K_T` marks; its reward lies there. Everything is the
return-to-go of something: of standardised step rewards (GRPO with process supervision), of
min-form process rewards (PURE), of centred token rewards (PRIME).
"""

from __future__ import annotations

from typing import Any

from botgrpo.trainer import segments
from botgrpo.trainer.masked import RELATIVE_TOLERANCE, Masked, check_like
from botgrpo.trainer.segments import Array


def return_to_go(r_K_T: Array, mask_K_T: Array, gamma: float = 1.0) -> Array:
    """G_t = r_t + gamma G_{t+1}, [K, T]; masked tokens pass on what comes and do not discount.

    Args:
        r_K_T: float64, 0 outside the mask.
    """
    if gamma == 1.0:
        return segments.reverse_cumsum(r_K_T)
    returns_K_T = r_K_T * 0
    running_K = returns_K_T.sum(1)
    for t in reversed(range(r_K_T.shape[1])):
        running_K = r_K_T[:, t] + segments.where(mask_K_T[:, t], gamma * running_K, running_K)
        returns_K_T[:, t] = running_K
    return returns_K_T


def grpo_process(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    step_ends_K_T: Array,
    eps: float = 1e-6,
    groups_K: Any | None = None,
) -> Array:
    """GRPO with process supervision: standardise the group's step rewards, sum those to come.

    rtilde = (r - mean) / (std + eps) over all steps of the group, each step alike; A_kt = the sum
    of rtilde over steps that end at t or later. Source: arXiv 2402.03300, section 4.1.3; the
    deviation is the population's, which the paper leaves open. More steps count more, and the
    number of steps is itself rewarded or punished.

    Args:
        step_ends_K_T: bool, the tokens whose reward is that of a step; other rewards are not read.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    steps_K_T = _steps(batch, step_ends_K_T)
    count_K = steps_K_T.sum(1)
    r_K_T = batch.r_K_T * steps_K_T
    size_K = batch.group_sum_K(count_K)
    safe_K = segments.where(size_K > 0, size_K, 1.0)
    mean_K = batch.group_sum_K(r_K_T.sum(1)) / safe_K
    offset_K_T = (r_K_T - mean_K[:, None]) * steps_K_T
    sigma_K = (batch.group_sum_K((offset_K_T**2).sum(1)) / safe_K) ** 0.5
    largest = segments.largest_absolute(r_K_T.reshape(-1))
    peers_K = batch.group_sum_K(segments.float64(count_K > 0))
    live_K = (peers_K >= 2) & (sigma_K > RELATIVE_TOLERANCE * max(1.0, largest))
    divisor_K = segments.where(live_K, sigma_K + eps, 1.0)
    live_K_T = segments.float64(live_K)[:, None]
    return batch.result(return_to_go(offset_K_T / divisor_K[:, None] * live_K_T, mask_K_T))


def pure_softmin(process_K_T: Array, step_ends_K_T: Array, *, temperature: float = 0.1) -> Array:
    """Min-form process rewards: PR*_j = w_j PR_j, w = softmax over the row's steps of -PR / T.

    As T falls, the sum of a row's PR* goes to its worst step, and so does the return-to-go up to
    that step; after it little is left. Source: arXiv 2504.15275 as implemented in CJReinforce/PURE
    (equations second-hand).

    Args:
        process_K_T: PR in [-1, 1] at step ends; other values are not read.
        step_ends_K_T: bool.

    Returns:
        PR* in float64 at step ends, 0 elsewhere.
    """
    check_like("step_ends_K_T", step_ends_K_T, tuple(process_K_T.shape))
    ends_K_T = segments.float64(step_ends_K_T)
    pr_K_T = segments.where(step_ends_K_T, segments.float64(process_K_T), 0.0)
    if not pr_K_T.shape[1]:
        return pr_K_T
    # the worst step has exponent 0, so nothing overflows
    worst_K_T = segments.where(step_ends_K_T, pr_K_T, float("inf"))
    worst_K_T = -segments.cummax(-worst_K_T)[:, -1:]
    exponent_K_T = segments.where(step_ends_K_T, (worst_K_T - pr_K_T) / temperature, 0.0)
    weight_K_T = segments.exp(exponent_K_T) * ends_K_T
    total_K = weight_K_T.sum(1)
    return weight_K_T / segments.where(total_K > 0, total_K, 1.0)[:, None] * pr_K_T


def pure(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    step_ends_K_T: Array,
    outcomes_K: Array | None = None,
    temperature: float = 0.1,
    groups_K: Any | None = None,
) -> Array:
    """PURE with the token baseline, as its OpenRLHF branch trains (`train_pure.sh`).

    r_kj = PR*_kj - b_k n_kj at the end of step j of n_kj tokens, b_k = sum of the others' PR* over
    the sum of the others' tokens; at the last token the outcome minus the others' mean is added;
    A_kt is the return-to-go. Source: arXiv 2504.15275; CJReinforce/PURE `main`,
    `NaiveExperienceMaker.process_experiences`. Without its KL penalty and without its zero on
    separator tokens; both need what we do not have here.

    Args:
        rewards_K_T: process rewards PR at step ends.
        step_ends_K_T: bool.
        outcomes_K: verifiable rewards, 1 for solved, with the weight that they shall have.
        temperature: of the softmin.
    """
    batch, steps_K_T, star_K_T = _pure_inputs(
        rewards_K_T, mask_K_T, step_ends_K_T, temperature, groups_K
    )
    others_tokens_K = batch.group_sum_K(batch.length_K) - batch.length_K
    total_K = star_K_T.sum(1)
    others_K = batch.group_sum_K(total_K) - total_K * batch.valid_K
    baseline_K = others_K / segments.where(others_tokens_K > 0, others_tokens_K, 1.0)
    step_tokens_K_T = _step_tokens(batch, steps_K_T)
    r_K_T = star_K_T - baseline_K[:, None] * step_tokens_K_T
    return _pure_result(batch, r_K_T, outcomes_K)


def pure_openrlhf_step(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    step_ends_K_T: Array,
    outcomes_K: Array | None = None,
    temperature: float = 0.1,
    groups_K: Any | None = None,
) -> Array:
    """PURE with the step baseline: b_k = the others' mean of (sum of PR* / number of steps).

    As `pure` otherwise (arXiv 2504.15275, CJReinforce/PURE `main`), each step minus b_k. Its
    authors report that it teaches to write no steps.
    """
    batch, steps_K_T, star_K_T = _pure_inputs(
        rewards_K_T, mask_K_T, step_ends_K_T, temperature, groups_K
    )
    count_K = steps_K_T.sum(1)
    per_step_K = star_K_T.sum(1) / segments.where(count_K > 0, count_K, 1.0)
    r_K_T = star_K_T - batch.others_mean_K(per_step_K)[:, None] * steps_K_T
    return _pure_result(batch, r_K_T, outcomes_K)


def pure_verl(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    step_ends_K_T: Array,
    max_tokens: int,
    outcomes_K: Array | None = None,
    temperature: float = 0.1,
    whiten: bool = True,
    groups_K: Any | None = None,
) -> Array:
    """PURE as its verl branch has it: another estimator, a baseline of mean returns over a fixed N.

    R_kt = return-to-go of PR* with the outcome on the last token; b_k = sum over the others' tokens
    of R / ((K-1) N), N the generation cap; A = R - b, whitened over the batch. Source:
    arXiv 2504.15275, CJReinforce/PURE branch `verl`, `compute_rloo_outcome_advantage`.

    Args:
        max_tokens: N, the generation cap of the run.
        whiten: `algorithm.adv_norm` of the source, on by default there.
    """
    batch, _, star_K_T = _pure_inputs(rewards_K_T, mask_K_T, step_ends_K_T, temperature, groups_K)
    outcome_K = _outcomes(batch, outcomes_K)
    r_K_T = star_K_T + segments.float64(batch.last_K_T()) * outcome_K[:, None]
    returns_K_T = batch.inside(segments.reverse_cumsum(r_K_T))
    baseline_K = batch.others_mean_K(returns_K_T.sum(1) / max_tokens)
    peers_K_T = mask_K_T & (batch.size_K() >= 2)[:, None]
    advantages_K_T = (returns_K_T - baseline_K[:, None]) * segments.float64(peers_K_T)
    return batch.result(batch.whitened(advantages_K_T, peers_K_T) if whiten else advantages_K_T)


def prime_centre(rewards_K_T: Array, mask_K_T: Array, *, groups_K: Any | None = None) -> Array:
    """PRIME's leave-one-out of token rewards: K/(K-1) r_kt - 1/(K-1) sum_k mean_t r_kt.

    It equals K/(K-1) (r_kt - mu) with BoT-GRPO's mu. Source: arXiv 2502.01456 as implemented in
    verl-recipe/prime.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    return batch.result(_prime_centre(batch, batch.r_K_T, batch.mean_K()))


def prime(
    rewards_K_T: Array,
    mask_K_T: Array,
    *,
    outcomes_K: Array,
    process_weight: float = 5.0,
    outcome_weight: float = 5.0,
    groups_K: Any | None = None,
) -> Array:
    """PRIME: return-to-go of centred process rewards plus that of centred outcomes, whitened.

    Process rewards are first divided by the batch's largest |return-to-go| ("batch_norm"), both
    are centred by `prime_centre`, the outcome on the last token. Source: arXiv 2502.01456 as
    implemented in verl-recipe/prime, weights 5 and 5. The implicit reward model that gives
    r_t = 0.05 (lp_phi - lp_ref) and learns along is the caller's.

    Args:
        rewards_K_T: process reward of each token.
        outcomes_K: outcome of each rollout.
    """
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    peak = segments.largest_absolute(segments.reverse_cumsum(batch.r_K_T).reshape(-1))
    r_K_T = batch.r_K_T / peak if peak > RELATIVE_TOLERANCE else batch.r_K_T * 0
    mean_K = r_K_T.sum(1) / (batch.length_K + (1 - batch.valid_K))
    process_K_T = _prime_centre(batch, r_K_T, mean_K)
    size_K = batch.size_K()
    factor_K = size_K / segments.where(size_K > 1, size_K - 1, 1.0)
    outcome_K = batch.centred_K(_outcomes(batch, outcomes_K)) * factor_K
    placed_K_T = segments.float64(batch.last_K_T()) * outcome_K[:, None]
    total_K_T = segments.reverse_cumsum(process_weight * process_K_T + outcome_weight * placed_K_T)
    peers_K_T = mask_K_T & (size_K >= 2)[:, None]
    return batch.result(batch.whitened(total_K_T, peers_K_T))


def _prime_centre(batch: Masked, r_K_T: Array, mean_K: Array) -> Array:
    size_K = batch.size_K()
    others_K = segments.where(size_K > 1, size_K - 1, 1.0)
    total_K = batch.group_sum_K(mean_K)
    centred_K_T = (r_K_T * size_K[:, None] - total_K[:, None]) / others_K[:, None]
    return batch.inside(centred_K_T) * segments.float64(size_K >= 2)[:, None]


def _steps(batch: Masked, step_ends_K_T: Array) -> Array:
    check_like("step_ends_K_T", step_ends_K_T, tuple(batch.r_K_T.shape))
    return segments.float64(batch.mask_K_T & step_ends_K_T)


def _pure_inputs(
    rewards_K_T: Array,
    mask_K_T: Array,
    step_ends_K_T: Array,
    temperature: float,
    groups_K: Any | None,
) -> tuple[Masked, Array, Array]:
    batch = Masked.of(rewards_K_T, mask_K_T, groups_K)
    steps_K_T = _steps(batch, step_ends_K_T)
    star_K_T = pure_softmin(batch.r_K_T, steps_K_T > 0, temperature=temperature)
    return batch, steps_K_T, star_K_T


def _pure_result(batch: Masked, r_K_T: Array, outcomes_K: Array | None) -> Array:
    """Outcome minus the others' on the last token, return-to-go, 0 for rollouts without peers."""
    outcome_K = _outcomes(batch, outcomes_K)
    outcome_K = outcome_K - batch.others_mean_K(outcome_K)
    r_K_T = r_K_T + segments.float64(batch.last_K_T()) * outcome_K[:, None]
    peers_K_T = segments.float64(batch.size_K() >= 2)[:, None]
    return batch.result(segments.reverse_cumsum(r_K_T) * peers_K_T)


def _outcomes(batch: Masked, outcomes_K: Array | None) -> Array:
    if outcomes_K is None:
        return batch.length_K * 0
    check_like("outcomes_K", outcomes_K, tuple(batch.length_K.shape))
    outcome_K = segments.where(batch.valid_K > 0, segments.float64(outcomes_K), 0.0)
    if not segments.largest_absolute(outcome_K) < float("inf"):
        raise ValueError(
            "an outcome is not finite though its rollout has tokens; mask unscored ones"
        )
    return outcome_K


def _step_tokens(batch: Masked, steps_K_T: Array) -> Array:
    """At each step's end the number of its tokens, 0 elsewhere."""
    seen_K_T = -segments.reverse_cumsum(batch.inside(batch.mask_K_T)) + batch.length_K[:, None]
    seen_K_T = seen_K_T + batch.inside(batch.mask_K_T)  # tokens up to and including this one
    ended_K_T = segments.cummax(seen_K_T * steps_K_T)
    before_K_T = ended_K_T * 0
    before_K_T[:, 1:] = ended_K_T[:, :-1]
    return (seen_K_T - before_K_T) * steps_K_T
