"""One reward's local signal on the tokens, checked against what the reward promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from botgrpo.rewards.base import Range, Reward, RewardError, RewardSpec, Rollout, Score
from botgrpo.rewards.spans import project

Local = tuple[float | None, ...]

_SLACK = 1e-9  # sums of exactly declared bounds may miss them by rounding


@runtime_checkable
class Projects(Protocol):
    """A reward that projects its own scores, for example to disturb token values afterwards."""

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local: ...


def local_of(
    reward: Reward, rollout: Rollout, score: Score, *, decay_lines: int = 0
) -> Local | None:
    """S of each token (None where nobody could tell), or None for a rollout without tokens.

    The reward's own projection comes first, then token values that it gave itself, then its spans
    projected with `decay_lines`.
    """
    if rollout.token_spans is None:
        return score.local
    if not score.local_scored:
        return (None,) * len(rollout.token_spans)
    if isinstance(reward, Projects):
        return reward.project_local(rollout, score, decay_lines)
    if score.local is not None:
        return score.local
    values_T = project(
        score.spans, rollout.token_spans, rollout.completion, decay_lines=decay_lines
    )
    return tuple(values_T.tolist())


async def checked_scores(name: str, reward: Reward, rollouts: Sequence[Rollout]) -> list[Score]:
    """The reward's scores, or `RewardError` naming the first promise that it broke."""
    scores = list(await reward.score(rollouts))
    if len(scores) != len(rollouts):
        raise RewardError(f"{name} gave {len(scores)} scores for {len(rollouts)} rollouts")
    for rollout, score in zip(rollouts, scores, strict=True):
        check_score(name, reward.spec, rollout, score)
    return scores


def check_score(name: str, spec: RewardSpec, rollout: Rollout, score: Score) -> None:
    """Raise `RewardError` where a score contradicts the reward's spec or its rollout."""
    where = f"{name} on rollout {rollout.id!r}"
    if score.id != rollout.id:
        raise RewardError(f"{where}: the score has the id {score.id!r}; keep order and ids")
    if score.outcome is not None:
        _check(f"{where}: outcome", score.outcome, spec.outcome_range, "outcome_range")
    elif not score.reason:
        raise RewardError(f"{where}: unscored without a reason; use Score.unscored(id, reason)")
    if (score.spans or score.local is not None) and spec.local_range is None:
        raise RewardError(f"{where}: local values, but its spec declares no local_range")
    length = len(rollout.completion)
    for span in score.spans:
        if not 0 <= span.start <= span.end <= length:
            raise RewardError(
                f"{where}: span [{span.start}, {span.end}) lies outside the completion's "
                f"{length} code points"
            )
        _check(f"{where}: span value", span.value, spec.local_range, "local_range")
    if score.local is None:
        return
    if rollout.token_spans is not None and len(score.local) != len(rollout.token_spans):
        raise RewardError(
            f"{where}: {len(score.local)} local values for {len(rollout.token_spans)} tokens"
        )
    for value in score.local:
        if value is not None:
            _check(f"{where}: local value", value, spec.local_range, "local_range")


def _check(what: str, value: float, bounds: Range | None, field: str) -> None:
    low, high = bounds or (-math.inf, math.inf)
    if not low - _SLACK <= value <= high + _SLACK:  # false for NaN as well
        raise RewardError(
            f"{what} is {value}, outside the declared {field} [{low}, {high}]; "
            "declare the true range, or bring the value inside it"
        )
