"""From token rewards to advantages: plain functions in a plain dictionary.

Each takes `(rewards_K_T, mask_K_T, *, groups_K=None, ...)` and returns advantages of the same
shape, 0 outside the mask. A method that knows only one number a rollout reads the row's mean, so
what a dense reward becomes is decided by which rewards it is given (see `algorithms.Port`), and
never is the token sum, which would pay for length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botgrpo.trainer.bot_grpo import bot_grpo, bot_grpo_with_stats, check_batch
from botgrpo.trainer.segments import Array, float64, where

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
    check_batch(rewards_K_T, mask_K_T)
    zeroed_K_T = where(mask_K_T, float64(rewards_K_T), 0.0)
    length_K = mask_K_T.sum(1)
    mean_K = zeroed_K_T.sum(1) / (length_K + (length_K == 0))
    rows_K_T = where(mask_K_T, mean_K[:, None], 0.0)
    return bot_grpo_with_stats(rows_K_T, mask_K_T, eps=eps, ddof=ddof, groups_K=groups_K)[0]


ADVANTAGES: dict[str, Callable[..., Array]] = {"bot_grpo": bot_grpo, "grpo": grpo}
