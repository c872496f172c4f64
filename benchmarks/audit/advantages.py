"""What of a reward reaches the policy: cosines between BoT-GRPO's advantages, token by token.

r = G + S with weights of 1; an unknown token counts with the mean S of its group, as in training.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from botgrpo.benchmarks.audit.estimate import Estimate, Statistic, divide, estimate, unknown
from botgrpo.benchmarks.audit.figure import ONE_PASS, Figure
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.stats import Floats
from botgrpo.trainer.bot_grpo import bot_grpo

NOTHING = "all advantages are 0"


def advantage_figures(seen: Observed, reference: Observed | None) -> list[Figure]:
    """How well two passes agree on the advantages, and how well it agrees with the reference."""
    again = (
        _cosine(seen, _advantages(seen, 0), _advantages(seen, 1))
        if len(seen.passes) > 1
        else unknown(ONE_PASS)
    )
    figures = [
        Figure("advantage_repeat", "advantages: cosine of two passes", "stability", again, "high",
               "how much of an update is the same when it is scored again")
    ]  # fmt: skip
    if reference is not None:
        same = _cosine(seen, _advantages(seen, 0), _advantages(reference, 0))
        title = "advantages: cosine to the first reward's"
        figures.append(Figure("advantage_reference", title, "stability", same, "",
                              "1 says that both make the same update"))  # fmt: skip
    return figures


def _advantages(seen: Observed, number: int) -> list[Floats]:
    """[K, T] of each prompt, 0 where a rollout is unscored."""
    found = []
    for places in seen.members_P:
        lengths = [len(seen.items[i].rollout.token_spans or ()) or 1 for i in places]
        rewards = np.zeros((len(places), max(lengths)))
        mask = np.zeros(rewards.shape, dtype=bool)
        for k, (i, length) in enumerate(zip(places, lengths, strict=True)):
            outcome = seen.outcome_N_R[number, i]
            if np.isnan(outcome):
                continue
            mask[k, :length] = True
            local = seen.local_R[i]
            rewards[k, :length] = outcome + (0.0 if local is None else local[number])
        lost = np.isnan(rewards) & mask
        if lost.any():
            local_mean = _mean_local(seen, number, places)
            outcomes = np.nan_to_num(seen.outcome_N_R[number, places])[:, None] + local_mean
            rewards = np.where(lost, np.broadcast_to(outcomes, rewards.shape), rewards)
        found.append(np.asarray(bot_grpo(np.where(mask, rewards, 0.0), mask)))
    return found


def _mean_local(seen: Observed, number: int, places: Sequence[int]) -> float:
    """Mean over rollouts of the mean over their known tokens."""
    means = [
        float(known.mean())
        for i in places
        if (local := seen.local_R[i]) is not None
        and (known := local[number][~np.isnan(local[number])]).size
    ]
    return float(np.mean(means)) if means else 0.0


def _cosine(seen: Observed, left: list[Floats], right: list[Floats]) -> Estimate:
    """Over the tokens of all groups; both have the same shapes, being of the same rollouts."""
    rows = np.array(
        [[(a * b).sum(), (a * a).sum(), (b * b).sum()] for a, b in zip(left, right, strict=True)]
    )
    return estimate(
        Statistic(rows, lambda s: divide(s[..., 0], np.sqrt(s[..., 1] * s[..., 2]))), NOTHING
    )
