"""From log-probabilities and advantages to a loss: plain functions in a plain dictionary.

A loss gives one number a token; an aggregation gives each token its weight in the sum that is
minimised, so that micro-batches add up to the whole batch exactly. Tokens are flat, [N], row after
row, masked ones left out; `row_N` says to which of R rollouts each belongs. A loss must see whole
rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 10.0  # of a sequence, before exp; as verl and SkyRL have it


def clipped(
    logp_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A) for each token, rho = exp(lp - lp_old).

    Source: arXiv 2402.03300, equation 3 (clip_low = clip_high); arXiv 2503.14476 separates the two.
    """
    return _surrogate(torch.exp(logp_N - logp_old_N), advantages_N, clip_low, clip_high)


def dual_clipped(
    logp_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float = 3.0,
) -> Tensor:
    """`clipped`, but where A < 0 no more than dual_clip |A|, whatever the ratio.

    Source: arXiv 1912.09729; verl's "vanilla" loss (3 by default, 10 in its DAPO script).
    """
    loss_N = clipped(
        logp_N, logp_old_N, advantages_N, row_N, clip_low=clip_low, clip_high=clip_high
    )
    return torch.where(advantages_N < 0, torch.minimum(loss_N, -dual_clip * advantages_N), loss_N)


def gspo(
    logp_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """`clipped` with one ratio a rollout: the geometric mean of its tokens' ratios.

    Source: arXiv 2507.18071, equations 5 and 7 (second-hand). The gradient goes through the mean,
    so each token gets its rollout's mean advantage: for advantages that differ by token use
    `gspo_token`.
    """
    ratio_N = torch.exp(_row_mean(logp_N - logp_old_N, row_N).clamp(max=LARGEST_LOG_RATIO))
    return _surrogate(ratio_N, advantages_N, clip_low, clip_high)


def gspo_token(
    logp_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """GSPO's ratio in value, sg[s_k] exp(lp - sg[lp]) in gradient: each token keeps its advantage.

    Source: arXiv 2507.18071, equations 14 and 15 (second-hand). Equal to `gspo` in value and
    gradient where a rollout's tokens share one advantage.
    """
    mean_N = _row_mean(logp_N - logp_old_N, row_N).detach()
    ratio_N = torch.exp((logp_N - logp_N.detach() + mean_N).clamp(max=LARGEST_LOG_RATIO))
    return _surrogate(ratio_N, advantages_N, clip_low, clip_high)


def grpo_lambda(
    logp_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    decay: float = 0.99,
) -> Tensor:
    """`clipped` with a ratio that remembers: exp(sum_l decay^l (lp - lp_old) at t - l).

    The "recent" trace of GRPO-lambda, arXiv 2510.00194 (second-hand), decay = gamma lambda.
    """
    return _traced(logp_N - logp_old_N, advantages_N, row_N, clip_low, clip_high, decay, both=False)


def grpo_lambda_both(
    logp_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    decay: float = 0.99,
) -> Tensor:
    """`grpo_lambda` with the trace max(decay^l, decay^(t-l)): recent tokens and the first ones."""
    return _traced(logp_N - logp_old_N, advantages_N, row_N, clip_low, clip_high, decay, both=True)


def k3(logp_N: Tensor, logp_ref_N: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = lp_ref - lp: an estimate >= 0 of KL(policy || reference), nats.

    Unbiased for tokens that the policy sampled. Source: arXiv 2402.03300, equation 4; added to a
    loss with weight beta, not to a reward.
    """
    difference_N = logp_ref_N - logp_N
    return torch.exp(difference_N) - difference_N - 1


def token_truncated(
    logp_old_N: Tensor, logp_sampler_N: Tensor, row_N: Tensor, *, high: float = 2.0
) -> Tensor:
    """Weights min(w, high), w = exp(lp_old - lp_sampler): truncated importance sampling by token.

    Corrects for a sampler whose probabilities differ from the trainer's; multiplies the loss and
    carries no gradient. The bound 2 is verl's default.
    """
    return torch.exp(logp_old_N - logp_sampler_N).clamp(max=high).detach()


def sequence_truncated(
    logp_old_N: Tensor, logp_sampler_N: Tensor, row_N: Tensor, *, high: float = 2.0
) -> Tensor:
    """`token_truncated` with one weight a rollout, the product over its tokens.

    The product grows with length: on long rollouts nearly all weights end at the bound or near 0.
    """
    total_N = _row_sum(logp_old_N - logp_sampler_N, row_N)[row_N]
    return torch.exp(total_N.clamp(max=2 * LARGEST_LOG_RATIO)).clamp(max=high).detach()


def icepop(
    logp_old_N: Tensor,
    logp_sampler_N: Tensor,
    row_N: Tensor,
    *,
    low: float = 0.5,
    high: float = 5.0,
) -> Tensor:
    """Token weights w inside [low, high], 0 outside: tokens on which the two disagree are dropped.

    IcePop; the bounds are OpenRLHF's defaults.
    """
    weight_N = torch.exp(logp_old_N - logp_sampler_N).detach()
    return torch.where((weight_N >= low) & (weight_N <= high), weight_N, 0.0)


def sequence_mean(row_N: Tensor, n_rows: int, max_tokens: int) -> Tensor:
    """Weights 1 / (L_k R): each rollout counts once, R being the rollouts that have a token.

    The measure in which BoT-GRPO's advantages sum to zero (arXiv 2610.09804, equation 3).
    """
    length_R = torch.bincount(row_N, minlength=n_rows).to(torch.float32)
    present = (length_R > 0).sum().clamp(min=1)
    return 1.0 / (length_R[row_N] * present)


def token_mean(row_N: Tensor, n_rows: int, max_tokens: int) -> Tensor:
    """Weights 1 / N: each token of the batch counts alike (arXiv 2503.14476)."""
    return torch.full(row_N.shape, 1.0 / max(row_N.numel(), 1), device=row_N.device)


def constant(row_N: Tensor, n_rows: int, max_tokens: int) -> Tensor:
    """Weights 1 / (R max_tokens): no length anywhere (arXiv 2503.20783; TRL's "dr_grpo").

    R counts the rollouts that have a token, max_tokens is the generation cap.
    """
    present = (torch.bincount(row_N, minlength=n_rows) > 0).sum().clamp(min=1)
    return torch.ones(row_N.shape, device=row_N.device) / (present * max_tokens)


def _surrogate(ratio_N: Tensor, advantages_N: Tensor, low: float, high: float) -> Tensor:
    clipped_N = ratio_N.clamp(1.0 - low, 1.0 + high)
    return -torch.minimum(ratio_N * advantages_N, clipped_N * advantages_N)


def _row_sum(x_N: Tensor, row_N: Tensor) -> Tensor:
    n_rows = int(row_N.max()) + 1 if row_N.numel() else 0
    return torch.zeros(n_rows, dtype=x_N.dtype, device=x_N.device).index_add(0, row_N, x_N)


def _row_mean(x_N: Tensor, row_N: Tensor) -> Tensor:
    """Mean of each token's row, [N], with its gradient."""
    sum_R = _row_sum(x_N, row_N)
    length_R = torch.bincount(row_N, minlength=len(sum_R)).clamp(min=1)
    return (sum_R / length_R)[row_N]


def _traced(
    difference_N: Tensor,
    advantages_N: Tensor,
    row_N: Tensor,
    clip_low: float,
    clip_high: float,
    decay: float,
    *,
    both: bool,
) -> Tensor:
    """Surrogate of exp(traces @ differences), a [T, T] product for each row at once."""
    if not row_N.numel():
        return difference_N
    length_R = torch.bincount(row_N)
    starts_R = length_R.cumsum(0) - length_R
    at_N = torch.arange(len(row_N), device=row_N.device) - starts_R[row_N]
    width = int(length_R.max())
    padded_R_T = difference_N.new_zeros(len(length_R), width).index_put((row_N, at_N), difference_N)
    step = torch.arange(width, device=row_N.device)
    age_T_T = (step[:, None] - step[None, :]).to(difference_N)  # l = t - s, for token s seen at t
    trace_T_T = decay ** age_T_T.clamp(min=0)
    if both:
        trace_T_T = torch.maximum(trace_T_T, decay ** step[None, :].to(difference_N))
    log_ratio_N = (padded_R_T @ trace_T_T.tril().T)[row_N, at_N]
    ratio_N = torch.exp(log_ratio_N.clamp(max=LARGEST_LOG_RATIO))
    return _surrogate(ratio_N, advantages_N, clip_low, clip_high)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "clipped": clipped,
    "dual_clipped": dual_clipped,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "grpo_lambda": grpo_lambda,
    "grpo_lambda_both": grpo_lambda_both,
}
CORRECTIONS: dict[str, Callable[..., Tensor]] = {
    "token": token_truncated,
    "sequence": sequence_truncated,
    "icepop": icepop,
}
AGGREGATIONS: dict[str, Callable[[Tensor, int, int], Tensor]] = {
    "sequence_mean": sequence_mean,
    "token_mean": token_mean,
    "constant": constant,
}
