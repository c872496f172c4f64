"""From prompts to rollouts with their scores on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from botgrpo.rewards.base import Reward, Rollout, Score
from botgrpo.rewards.records import rollout_to_json, score_to_json
from botgrpo.sandbox.errors import BotgrpoError, RunFailed
from botgrpo.trainer.batch import Batch
from botgrpo.trainer.engines.base import Engine, Sample, Sampling
from botgrpo.trainer.logps import Row
from botgrpo.trainer.policy import Policy
from botgrpo.trainer.scoring import Pending, Scorer
from botgrpo.trainer.task import Item


@dataclass(frozen=True, slots=True)
class Drawn:
    """P prompts x K rollouts, prompt by prompt, and their scores as they come in."""

    prompt_ids: list[list[int]]
    samples: list[Sample]
    rollouts: list[Rollout]
    pending: Pending
    seconds: float


def draw(
    engine: Engine,
    policy: Policy,
    scorer: Scorer,
    reward: Reward,
    items: Sequence[Item],
    *,
    k: int,
    keys: Sequence[int],
    sampling: Sampling,
    prefix: str,
) -> Drawn:
    """K rollouts of each item; a group goes to `reward` when its last rollout has ended.

    Raises RunFailed where the engine fails.
    """
    began = time.perf_counter()
    prompt_ids = [policy.prompt_ids(item.prompt) for item in items]
    pending = Pending(reward, scorer)
    rollouts: dict[int, Rollout] = {}
    left = [k] * len(items)

    def ended(places: Sequence[int], samples: Sequence[Sample]) -> None:
        whole: list[int] = []
        for i, sample in zip(places, samples, strict=True):
            rollouts[i] = _rollout(policy, items[i // k], sample, prefix, i // k, i % k)
            left[i // k] -= 1
            if left[i // k] == 0:
                whole += range(i // k * k, i // k * k + k)
        if whole:
            pending.add(whole, [rollouts[i] for i in whole])

    try:
        samples = engine.generate(prompt_ids, k, keys, sampling, ended)
    except BotgrpoError:
        raise
    except Exception as error:
        raise RunFailed(
            f"the engine {engine.name} failed: {type(error).__name__}: {error}. No step was made "
            "of it and the last checkpoint is intact: go on with --resume"
        ) from error
    ordered = [rollouts[i] for i in range(len(samples))]
    return Drawn(prompt_ids, samples, ordered, pending, time.perf_counter() - began)


def _rollout(
    policy: Policy, item: Item, sample: Sample, prefix: str, group: int, number: int
) -> Rollout:
    text, spans = policy.token_bytes.decode(sample.token_ids)
    return Rollout(
        id=f"{prefix}/{item.id}/{number}",
        group=f"{prefix}/{group}",
        prompt=item.prompt,
        completion=text,
        reference=item.reference,
        token_ids=sample.token_ids,
        token_spans=tuple(spans),
        finish_reason=sample.finish_reason,
    )


def with_tokens(drawn: Drawn, keep_R: Sequence[bool] | np.ndarray) -> list[int]:
    """Places of the rollouts to keep that have a token to learn from."""
    return [i for i, sample in enumerate(drawn.samples) if keep_R[i] and sample.token_ids]


def rows_of(
    drawn: Drawn, places: Sequence[int], advantages: Sequence[np.ndarray] | None = None
) -> list[Row]:
    """The rollouts at these places as an update reads them; without advantages, 0."""
    k = len(drawn.samples) // len(drawn.prompt_ids)
    rows = []
    for i in places:
        sample = drawn.samples[i]
        given = np.zeros(len(sample.token_ids)) if advantages is None else advantages[i]
        rows.append(Row(drawn.prompt_ids[i // k], sample.token_ids, given, sample.logps))
    return rows


def evaluation(scores: Sequence[Score], samples: Sequence[Sample]) -> dict[str, Any]:
    """Rates over scored rollouts, in 0..1; the unscored are counted beside them."""
    scored = [s for s in scores if s.outcome is not None]
    names = sorted({name for s in scored for name in s.metrics})
    verdicts: dict[str, int] = {}
    for s in scores:
        verdicts[s.verdict] = verdicts.get(s.verdict, 0) + 1
    rates = {
        name: float(np.mean([s.metrics[name] for s in scored if name in s.metrics]))
        for name in names
    }
    return {
        "n": len(scores),
        "unscored": len(scores) - len(scored),
        **rates,
        "mean_length": float(np.mean([len(s.token_ids) for s in samples])),
        "repetition": float(np.mean([_repetition(s.token_ids) for s in samples])),
        "verdicts": verdicts,
    }


def _repetition(token_ids: Sequence[int], length: int = 4) -> float:
    """Share of a completion's n-grams of tokens that it has said before."""
    grams = list(zip(*(token_ids[i:] for i in range(length)), strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def records(
    drawn: Drawn,
    scores: Sequence[Score],
    batch: Batch,
    advantages: Sequence[np.ndarray],
    count: int,
) -> Iterator[dict[str, Any]]:
    """The first `count` rollouts as lines of rollouts.jsonl; null where nobody could tell."""
    rewards = batch.split(batch.reward_N)
    for i in range(min(count, len(drawn.rollouts))):
        scored = bool(batch.scored_R[i])
        yield {
            **rollout_to_json(drawn.rollouts[i]),
            **score_to_json(scores[i]),
            "token_rewards": _rounded(rewards[i]) if scored else None,
            "advantages": _rounded(advantages[i]) if scored else None,
        }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 5) for v in values]
