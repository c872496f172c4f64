"""BoT-GRPO where a group's rollouts lie on several processes: a few numbers a rollout are gathered.

T differs from process to process, so tokens stay where they are. Letters: B rollouts of this
process, R of all processes in their order, T tokens padded to this process's longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from botgrpo.trainer import segments
from botgrpo.trainer.algorithms import algorithm
from botgrpo.trainer.bot_grpo import BotStats, RowStats, Scale, group_scale, row_stats
from botgrpo.trainer.method import advantage_options

Gather = Callable[[Tensor], Tensor]  # [B, n] of each process -> [R, n] on every process


@dataclass(frozen=True, slots=True)
class Scored:
    """One process's rollouts with what a reward said of them.

    Attributes:
        local_B_T: S, NaN where nobody could tell.
        outcome_B: G, NaN where unscored.
        mask_B_T: True where the policy chose the token.
        group_size: K; rollout i of all processes belongs to group i // K.
        first: index of this process's first rollout among all.
    """

    local_B_T: Tensor
    outcome_B: Tensor
    mask_B_T: Tensor
    group_size: int
    first: int = 0


def token_advantages(
    scored: Scored, gather: Gather, *, w_g: float, w_s: float, **options: Any
) -> tuple[Tensor, dict[str, float]]:
    """Advantages [B, T] float32 and metrics that are the same on every process.

    As `bot_grpo` over the gathered batch: unscored rollouts leave the statistics and get 0, unknown
    S becomes its group's mean. `options` are those of `bot_grpo`.
    """
    known_B = ~torch.isnan(scored.outcome_B)
    mask_B_T = scored.mask_B_T & known_B[:, None]
    local_B_T, unknown_B = _filled(scored, mask_B_T, gather)
    goal_B = torch.where(known_B, scored.outcome_B, 0.0)
    reward_B_T = w_g * goal_B[:, None] + w_s * local_B_T

    rows = _rows(reward_B_T, mask_B_T)
    columns = [rows.length, rows.mean, rows.variance, rows.largest, scored.outcome_B, unknown_B]
    length_R, mean_R, variance_R, largest_R, outcome_R, unknown_R = gather(
        torch.stack(columns, 1)
    ).unbind(1)
    all_rows = RowStats(length_R, mean_R, variance_R, largest_R)
    scale, stats = group_scale(
        all_rows,
        torch.arange(len(length_R), device=length_R.device) // scored.group_size,
        outcomes_R=outcome_R,
        **{**advantage_options(algorithm("bot_grpo")), "outcome_gap": w_g, **options},
    )
    here = slice(scored.first, scored.first + len(mask_B_T))
    advantages_B_T = (reward_B_T - scale.centre[here, None]) / scale.divisor[here, None]
    inside_B_T = mask_B_T & scale.live[here, None]
    advantages_B_T = torch.where(inside_B_T, advantages_B_T, 0.0)
    metrics = _metrics(all_rows, scale, stats)
    metrics["bot/unscored"] = float(torch.isnan(outcome_R).sum())
    metrics["bot/local_unscored_tokens"] = float(unknown_R.sum())
    peak_B = segments.row_max(abs(advantages_B_T))[:, None]
    metrics["bot/advantage_max"] = float(gather(peak_B).max())
    return advantages_B_T.to(torch.float32), metrics


def _filled(scored: Scored, mask_B_T: Tensor, gather: Gather) -> tuple[Tensor, Tensor]:
    """S with its group's mean where it is unknown, 0 outside the mask; unknown tokens a row."""
    known_B_T = mask_B_T & ~torch.isnan(scored.local_B_T)
    value_B_T = torch.where(known_B_T, scored.local_B_T.to(torch.float64), 0.0)
    length_B = mask_B_T.sum(1).clamp(min=1)
    parts = torch.stack([known_B_T.sum(1) / length_B, value_B_T.sum(1) / length_B], 1)
    weight_P, sum_P = gather(parts).view(-1, scored.group_size, 2).sum(1).unbind(1)
    mean_P = sum_P / torch.where(weight_P > 0, weight_P, 1.0)
    mean_R = mean_P.repeat_interleave(scored.group_size)
    mean_B = mean_R[scored.first : scored.first + len(mask_B_T)]
    filled_B_T = torch.where(known_B_T, value_B_T, mean_B[:, None])
    unknown_B = (mask_B_T & ~known_B_T).sum(1).to(torch.float64)
    return torch.where(mask_B_T, filled_B_T, 0.0), unknown_B


def _rows(reward_B_T: Tensor, mask_B_T: Tensor) -> RowStats:
    rows = row_stats(reward_B_T[mask_B_T], mask_B_T.sum(1), 0.0)
    return replace(rows, largest=segments.row_max(abs(reward_B_T) * mask_B_T))


def _metrics(rows: RowStats, scale: Scale, stats: BotStats) -> dict[str, float]:
    grouped = stats.rollouts >= 2
    between_P, within_P = stats.between[grouped], stats.within[grouped]
    sigma_P = torch.hypot(between_P, within_P)
    spread = sigma_P > 0
    mean_R = torch.where(scale.live, (rows.mean - scale.centre) / scale.divisor, 0.0)
    valid_R = rows.length > 0
    return {
        "bot/sigma_between": _mean(between_P),
        "bot/sigma_within": _mean(within_P),
        "bot/attenuation": _mean(between_P[spread] / sigma_P[spread]),
        "bot/length_advantage_correlation": _correlation(rows.length[valid_R], mean_R[valid_R]),
    }


def _mean(x: Tensor) -> float:
    return float(x.mean()) if len(x) else 0.0


def _correlation(x: Tensor, y: Tensor) -> float:
    if len(x) < 2 or float(x.std()) == 0 or float(y.std()) == 0:
        return 0.0
    return float(torch.corrcoef(torch.stack([x, y]))[0, 1])
