"""One step's rollouts with their scores, flat: from `Score`s to token rewards and advantages.

Letters: R rollouts, N tokens of all of them one after another, P groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from botgrpo.rewards.base import Rollout, Score
from botgrpo.trainer.advantages import ADVANTAGES
from botgrpo.trainer.algorithms import Algorithm
from botgrpo.trainer.bot_grpo import BotStats, bot_grpo_ragged
from botgrpo.trainer.sampling_rules import keep_group, soft_overlong
from botgrpo.trainer.steps import step_ends, step_means

# soft_overlong is made for outcomes +1 and -1; a design's outcome lies in [0, 1]
OVERLONG_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """Rewards of one step.

    Attributes:
        row_N: rollout of each token.
        group_R: group of each rollout.
        length_R: tokens of each rollout.
        outcome_R: G, NaN where unscored.
        local_N: S with unknown tokens filled by the group's mean, so that they move nothing.
        unknown_N: True where S was unknown.
        reward_N: r = w_g G + w_s S; 0 for rollouts that are unscored.
        scored_R: False for rollouts that are unscored.
        kept_R: False for rollouts that leave the statistics and the loss: the unscored, and those
            that a sampling rule drops.
        penalty_R: what a sampling rule adds to G.
        step_end_N: True at the last token of each step.
    """

    row_N: np.ndarray
    group_R: np.ndarray
    length_R: np.ndarray
    outcome_R: np.ndarray
    local_N: np.ndarray
    unknown_N: np.ndarray
    reward_N: np.ndarray
    scored_R: np.ndarray
    kept_R: np.ndarray
    penalty_R: np.ndarray
    step_end_N: np.ndarray

    def split(self, x_N: np.ndarray) -> list[np.ndarray]:
        """Per-rollout pieces of a flat vector."""
        return np.split(x_N, np.cumsum(self.length_R)[:-1])


def make_batch(
    rollouts: Sequence[Rollout], scores: Sequence[Score], *, w_g: float, w_s: float
) -> Batch:
    """Flatten scored rollouts; raises ValueError where a local signal does not fit its tokens."""
    groups: dict[str, int] = {}
    group_R = np.array([groups.setdefault(r.group, len(groups)) for r in rollouts], dtype=np.int64)
    length_R = np.array([len(r.token_ids or ()) for r in rollouts], dtype=np.int64)
    row_N = np.repeat(np.arange(len(rollouts)), length_R)
    outcome_R = np.array([np.nan if s.outcome is None else s.outcome for s in scores], dtype=float)
    pieces = []
    for score, length in zip(scores, length_R, strict=True):
        if not score.local_scored:
            pieces.append(np.full(length, np.nan))
        elif score.local is None:
            pieces.append(np.zeros(length))
        else:
            local = np.array([np.nan if v is None else v for v in score.local], dtype=float)
            if len(local) != length:
                raise ValueError(
                    f"rollout {score.id!r}: {len(local)} local values for {length} tokens"
                )
            pieces.append(local)
    local_N = np.concatenate(pieces) if pieces else np.zeros(0)
    scored_R = ~np.isnan(outcome_R)
    unknown_N = np.isnan(local_N) & scored_R[row_N]
    local_N = fill_unknown(local_N, row_N, group_R, length_R, scored_R)
    reward_N = np.where(scored_R[row_N], w_g * outcome_R[row_N] + w_s * local_N, 0.0)
    return Batch(
        row_N=row_N,
        group_R=group_R,
        length_R=length_R,
        outcome_R=outcome_R,
        local_N=local_N,
        unknown_N=unknown_N,
        reward_N=reward_N,
        scored_R=scored_R,
        kept_R=scored_R,
        penalty_R=np.zeros(len(rollouts)),
        step_end_N=np.concatenate([np.zeros(0, dtype=bool), *map(step_ends, rollouts)]),
    )


def apply_rules(batch: Batch, algorithm: Algorithm, *, w_g: float, max_tokens: int) -> Batch:
    """The batch after the algorithm's sampling rules, which act on G alone."""
    if algorithm.dynamic_sampling:
        kept_R = batch.scored_R & keep_group(batch.outcome_R, batch.group_R)
        batch = replace(batch, kept_R=kept_R)
    if algorithm.overlong_share:
        cache = max(1, round(algorithm.overlong_share * max_tokens))
        penalty_R = OVERLONG_WEIGHT * soft_overlong(batch.length_R, max_tokens, cache)
        penalty_R = np.where(batch.scored_R, penalty_R, 0.0)
        reward_N = batch.reward_N + w_g * penalty_R[batch.row_N]
        batch = replace(batch, penalty_R=penalty_R, reward_N=reward_N)
    return batch


def fill_unknown(
    local_N: np.ndarray,
    row_N: np.ndarray,
    group_R: np.ndarray,
    length_R: np.ndarray,
    scored_R: np.ndarray,
) -> np.ndarray:
    """Unknown S becomes the group's mean over known tokens, each weighing 1/L_k.

    With exactly this mean the filled tokens have no local advantage and leave the group's mean
    where it was. A group that knows nothing gets 0.
    """
    n_groups = int(group_R.max()) + 1 if len(group_R) else 0
    known_N = ~np.isnan(local_N) & scored_R[row_N]
    weight_N = np.where(known_N, 1.0 / np.maximum(length_R, 1)[row_N], 0.0)
    value_N = np.where(known_N, local_N, 0.0)
    group_N = group_R[row_N]
    total_P = np.bincount(group_N, weights=weight_N, minlength=n_groups)
    sum_P = np.bincount(group_N, weights=weight_N * value_N, minlength=n_groups)
    mean_P = sum_P / np.where(total_P > 0, total_P, 1.0)
    return np.where(known_N, value_N, mean_P[group_N])


def advantages(
    batch: Batch,
    algorithm: Algorithm,
    options: Mapping[str, Any],
    *,
    w_g: float,
    values_N: np.ndarray | None = None,
) -> tuple[np.ndarray, BotStats]:
    """Advantages [N] by `algorithm`, and BoT statistics of the same rewards for the logs.

    `values_N` are a critic's, for an algorithm that has one.
    """
    keep_N = batch.kept_R[batch.row_N]
    outcome_R = np.where(batch.scored_R, batch.outcome_R, 0.0)
    rewards_N, extra = port(batch, algorithm.port, w_g)
    if "uniform_group" in options:
        extra |= {"outcomes_K": outcome_R, "outcome_gap": w_g}
    if values_N is not None:
        extra["values_K_T"], _ = _pad(values_N, keep_N, batch)
    rewards_R_T, mask_R_T = _pad(rewards_N, keep_N, batch)
    padded = ADVANTAGES[algorithm.advantage](
        rewards_R_T, mask_R_T, groups_K=batch.group_R, **(extra | dict(options))
    )
    inside_R_T = np.arange(rewards_R_T.shape[1])[None] < batch.length_R[:, None]
    scored_N = batch.scored_R[batch.row_N]
    scored_length_R = np.where(batch.scored_R, batch.length_R, 0)
    _, stats = bot_grpo_ragged(batch.reward_N[scored_N], scored_length_R, batch.group_R)
    return padded[inside_R_T], stats


def port(batch: Batch, name: str, w_g: float) -> tuple[np.ndarray, dict[str, Any]]:
    """What an advantage reads: rewards [N], and further inputs (see `algorithms.PORTS`)."""
    goal_R = w_g * (np.where(batch.scored_R, batch.outcome_R, 0.0) + batch.penalty_R)
    goal_N = goal_R[batch.row_N]
    local_N = np.where(batch.scored_R[batch.row_N], batch.reward_N - goal_N, 0.0)
    ends_N = batch.step_end_N
    if name in ("token", "mean"):
        return batch.reward_N, {}
    if name == "outcome":
        return goal_N, {}
    if name == "outcome_last":
        last_N = np.append(batch.row_N[1:] != batch.row_N[:-1], True)[: len(batch.row_N)]
        return np.where(last_N, goal_N, 0.0), {}
    if name == "step":
        _, steps_R_T = _pad(local_N, ends_N, batch)
        return step_means(batch.reward_N, ends_N), {"step_ends_K_T": steps_R_T}
    if name == "token_and_outcome":
        return local_N, {"outcomes_K": goal_R}
    if name == "step_and_outcome":
        _, steps_R_T = _pad(local_N, ends_N, batch)
        return step_means(local_N, ends_N), {"outcomes_K": goal_R, "step_ends_K_T": steps_R_T}
    raise ValueError(f"no port {name!r}")


def _pad(x_N: np.ndarray, keep_N: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    width = int(batch.length_R.max()) if len(batch.length_R) else 0
    inside = np.arange(width)[None] < batch.length_R[:, None]
    padded: np.ndarray = np.zeros(inside.shape)
    mask: np.ndarray = np.zeros(inside.shape, dtype=bool)
    padded[inside] = x_N
    mask[inside] = keep_N
    return padded, mask


def reward_metrics(
    batch: Batch, stats: BotStats, advantages_N: np.ndarray, scores: Sequence[Score]
) -> dict[str, float]:
    """Numbers of one step under the names of the contract; what nobody could score is left out."""
    scored = batch.scored_R
    outcomes = batch.outcome_R[scored]
    sums_R = np.bincount(batch.row_N, weights=batch.reward_N, minlength=len(scored))
    mean_R = sums_R / np.maximum(batch.length_R, 1)
    live = np.asarray(stats.rollouts) >= 2
    spread_P = [outcomes_of(batch, int(p)).std() for p in np.flatnonzero(live)]
    between, within = np.asarray(stats.between)[live], np.asarray(stats.within)[live]
    sigma = np.hypot(between, within)
    mean_a_R = np.bincount(batch.row_N, weights=advantages_N, minlength=len(scored))
    mean_a_R = mean_a_R / np.maximum(batch.length_R, 1)
    mean_s_R = np.bincount(batch.row_N, weights=batch.local_N, minlength=len(scored))
    mean_s_R = mean_s_R / np.maximum(batch.length_R, 1)
    known = {
        "reward": mean_R[scored],
        "outcome": outcomes,
        "frac_reward_zero_std": np.array(spread_P) <= 1e-6,
        "bot/local_mean": batch.local_N[scored[batch.row_N]],
        "bot/sigma_between": between,
        "bot/sigma_within": within,
        "bot/attenuation": between[sigma > 0] / sigma[sigma > 0],
    }
    metrics = {name: _mean(values) for name, values in known.items() if len(values)}
    if scored.any():
        metrics["reward_std"] = float(mean_R[scored].std())
    if len(outcomes) and outcomes.std() and mean_s_R[scored].std():
        metrics["bot/local_outcome_correlation"] = _correlation(mean_s_R[scored], outcomes)
    metrics |= {
        "completions/mean_length": _mean(batch.length_R),
        "bot/advantage_max": float(np.abs(advantages_N).max(initial=0.0)),
        "bot/length_advantage_correlation": _correlation(batch.length_R[scored], mean_a_R[scored]),
        "bot/unscored": float((~scored).sum()),
        "bot/dropped": float((scored & ~batch.kept_R).sum()),
        "bot/local_unscored_tokens": float(batch.unknown_N.sum()),
    }
    for name in sorted({key for score in scores for key in score.metrics}):
        values = [s.metrics[name] for s in scores if name in s.metrics and s.outcome is not None]
        if values:
            prefix = "" if name.startswith("rewards/") else "rewards/"
            metrics[f"{prefix}{name}/mean"] = _mean(values)
    for verdict in sorted({s.verdict for s in scores if s.verdict}):
        share = sum(s.verdict == verdict for s in scores) / len(scores)
        metrics[f"sandbox/verdict/{verdict}"] = share
    return metrics


def outcomes_of(batch: Batch, group: int) -> np.ndarray:
    """Scored outcomes of one group."""
    outcomes: np.ndarray = batch.outcome_R[(batch.group_R == group) & batch.scored_R]
    return outcomes


def _mean(values: Any) -> float:
    return float(np.asarray(values, dtype=float).mean())


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < 2 or x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
