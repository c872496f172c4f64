"""Score stored rollouts: the same path as in training, from a file to a file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from botgrpo.rewards import Reward, Rollout, Score, TokenBytes, local_of
from botgrpo.rewards.local import checked_scores


def score(reward: Reward, rollouts: Sequence[Rollout]) -> list[Score]:
    """One checked score a rollout, local values projected on its tokens where it has any."""

    async def run() -> list[Score]:
        try:
            return await checked_scores(reward.spec.name, reward, rollouts)
        finally:
            await close(reward)

    scores = asyncio.run(run())
    if reward.spec.local_range is None:
        return scores
    return [replace(s, local=local_of(reward, r, s)) for r, s in zip(rollouts, scores, strict=True)]


async def close(reward: Reward) -> None:
    """Let a reward go, where it holds something."""
    if aclose := getattr(reward, "aclose", None):
        await aclose()


def with_tokens(rollouts: Sequence[Rollout], tokenizer: Any) -> list[Rollout]:
    """Rollouts without tokens get those of `tokenizer`; sampled ones are left as they are.

    A tokenizer that does not give the text back (it normalises, say) cannot say where its tokens
    lie; such a rollout stays without tokens and is scored with spans only.
    """
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    result = []
    for rollout in rollouts:
        if rollout.token_spans is None:
            ids = tokenizer.encode(rollout.completion, add_special_tokens=False)
            text, spans = token_bytes.decode(ids)
            if text == rollout.completion:
                rollout = replace(rollout, token_ids=tuple(ids), token_spans=tuple(spans))
        result.append(rollout)
    return result
