"""Score stored rollouts: the same path as in training, from a file to a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from botgrpo.rewards import Reward, Rollout, Score, TokenBytes, local_of
from botgrpo.rewards.local import checked_scores
from botgrpo.rewards.records import score_to_json
from botgrpo.rewards.training_step import at_step
from botgrpo.sandbox.attempt import attempting
from botgrpo.sandbox.errors import ConfigError


def score(
    reward: Reward,
    rollouts: Sequence[Rollout],
    passes: int = 1,
    progress: Callable[[int], None] = lambda number: None,
) -> list[list[Score]]:
    """For each pass one checked score a rollout, projected on its tokens where it has any.

    Each pass is an attempt of its own, so that no cache answers for the reward, and stands for a
    later step of training, so that what drifts shows. `progress` gets the number of each pass that
    begins, from 1.
    """

    async def run() -> list[list[Score]]:
        try:
            return await score_passes(reward, rollouts, passes, progress)
        finally:
            await close(reward)

    return asyncio.run(run())


async def score_passes(
    reward: Reward,
    rollouts: Sequence[Rollout],
    passes: int = 1,
    progress: Callable[[int], None] = lambda number: None,
) -> list[list[Score]]:
    """The same, for callers that go on with the reward and close it themselves."""
    if passes < 1:
        raise ConfigError(f"got {passes} passes; allowed: 1 or more")
    found = []
    for number in range(passes):
        progress(number + 1)
        with attempting(number), at_step(number):
            scores = await checked_scores(reward.spec.name, reward, rollouts)
            found.append([_projected(reward, r, s) for r, s in zip(rollouts, scores, strict=True)])
    return found


def records(passes: Sequence[Sequence[Score]]) -> list[dict[str, Any]]:
    """The first pass as records; with more passes `repeats` holds the outcomes of all of them."""
    if len(passes) == 1:
        return [score_to_json(score) for score in passes[0]]
    return [
        score_to_json(row[0]) | {"repeats": [score.outcome for score in row]}
        for row in zip(*passes, strict=True)
    ]


def _projected(reward: Reward, rollout: Rollout, score: Score) -> Score:
    if reward.spec.local_range is None:
        return score
    return replace(score, local=local_of(reward, rollout, score))


async def close(reward: Reward) -> None:
    """Let a reward go, where it holds something."""
    if aclose := getattr(reward, "aclose", None):
        await aclose()


def with_tokens(rollouts: Sequence[Rollout], tokenizer: Any) -> list[Rollout]:
    """Rollouts without tokens get those of `tokenizer`; sampled ones are left as they are.

    A tokenizer that does not give the text back (it normalises, say, or takes no lone surrogate)
    cannot say where its tokens lie; such a rollout stays without tokens and is scored with spans
    only.
    """
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    result = []
    for rollout in rollouts:
        if rollout.token_spans is None:
            try:
                ids = tokenizer.encode(rollout.completion, add_special_tokens=False)
            except (TypeError, UnicodeEncodeError):  # a lone surrogate is no text to most of them
                result.append(rollout)
                continue
            text, spans = token_bytes.decode(ids)
            if text == rollout.completion:
                rollout = replace(rollout, token_ids=tuple(ids), token_spans=tuple(spans))
        result.append(rollout)
    return result
