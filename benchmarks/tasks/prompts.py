"""The task `prompts`: anyone's own prompts, judged on held-out ones by a reward that they name."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from botgrpo.rewards.base import Reward, RewardError, Rollout, Score
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.task import Item

OUTCOME = "outcome"  # the one metric: the judge's mean outcome
Reference = Mapping[str, Any]


class PromptsTask:
    """Prompts of a file; a fifth is held out, by a hash of the prompt.

    Args:
        source: path of a .jsonl file with `prompt`, and perhaps `id` and `reference`, in each line.
            A reference's keys are the columns of a plain function.
        judge: reference of the reward that says what is truly right on held-out prompts, 0 to 1.
            Where it is the reward that is trained on, nothing shows how that one is fooled.

    Raises:
        ConfigError: a file that is not there, a line without a prompt, named by its number, or
            fewer than five prompts.
    """

    name = "prompts"
    metrics = (OUTCOME,)

    def __init__(self, source: str, judge: str) -> None:
        self.judge = judge
        self._train, self._held_out = split(list(read(Path(source), "prompt-", _any)), source)

    def train_items(self, seed: int) -> Sequence[Item]:
        """All training prompts in the order of this seed."""
        return random.Random(f"prompts/order/{seed}").sample(self._train, len(self._train))

    def eval_items(self, n: int) -> Sequence[Item]:
        """The first n held-out prompts, or all where there are fewer."""
        return self._held_out[:n]

    def corpus(self, n: int, seed: int, corruption_rate: float) -> Sequence[tuple[Item, str]]:
        """Refused: a file of prompts holds no answers."""
        raise ConfigError(
            "the task prompts has no answers to warm-start on; leave out [policy.warm_start] and "
            "begin with a model that follows instructions"
        )


class Judged:
    """A reward whose outcome is a metric as well, so that held-out prompts have a learning curve.

    Raises ConfigError for a reward whose declared outcomes leave 0..1.
    """

    def __init__(self, reward: Reward) -> None:
        low, high = reward.spec.outcome_range
        if math.isfinite(low) and math.isfinite(high) and not 0 <= low <= high <= 1:
            raise ConfigError(
                f"the judge {reward.spec.name} gives outcomes from {low:g} to {high:g}; allowed: "
                "0 to 1, since a learning curve is a rate"
            )
        self.reward, self.spec = reward, reward.spec

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """The reward's scores. Raises RewardError for an outcome outside 0..1."""
        return [self._with_metric(score) for score in await self.reward.score(rollouts)]

    async def aclose(self) -> None:
        """Close the reward where it holds something open."""
        if close := getattr(self.reward, "aclose", None):
            await close()

    def _with_metric(self, score: Score) -> Score:
        if score.outcome is None:
            return score
        if not 0 <= score.outcome <= 1:
            raise RewardError(
                f"the judge {self.spec.name} gave {score.id} the outcome {score.outcome:g}; "
                "allowed: 0 to 1, since a learning curve is a rate"
            )
        return replace(score, metrics={**score.metrics, OUTCOME: score.outcome})


def read(path: Path, prefix: str, check: Callable[[str, Reference], None]) -> Iterator[Item]:
    """Items of a .jsonl file in its order, each prompt once.

    Args:
        prefix: of the id of a line that has none.
        check: raises ConfigError for a prompt's reference of a wrong form.

    Raises:
        ConfigError: names the file, and the line that is wrong.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}; give a .jsonl file of prompts") from None
    prompts: set[str] = set()
    ids: dict[str, int] = {}
    # not splitlines: a prompt may hold U+2028, which ends no line of JSON
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = _item(json.loads(line), prefix)
            check(item.prompt, item.reference)
            if item.prompt in prompts:
                continue
            if item.id in ids:
                raise ConfigError(f"the id {item.id!r} is that of line {ids[item.id]} already")
        except (ValueError, RecursionError, ConfigError) as error:
            raise ConfigError(f"{path}:{number}: {error}") from None
        prompts.add(item.prompt)
        ids[item.id] = number
        yield item


def split(items: Sequence[Item], source: str) -> tuple[list[Item], list[Item]]:
    """Training and held-out items; a fifth of them is held out, whatever their order.

    Raises ConfigError where a fifth is none.
    """
    held_out = len(items) // 5
    if not held_out:
        raise ConfigError(f"{source}: {len(items)} prompts; a fifth is held out: give 5 or more")
    ranked = sorted(items, key=lambda item: digest(item.prompt))
    return ranked[held_out:], ranked[:held_out]


def digest(prompt: str) -> str:
    """What orders prompts, and names them."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def _item(row: Any, prefix: str) -> Item:
    if not isinstance(row, dict) or not isinstance(row.get("prompt"), str) or not row["prompt"]:
        raise ConfigError('an object with a text under "prompt" is needed')
    reference = row.get("reference", {})
    if not isinstance(reference, dict):
        raise ConfigError(f'"reference" is {type(reference).__name__}, an object is needed')
    prompt = row["prompt"]
    return Item(str(row.get("id") or f"{prefix}{digest(prompt)[:12]}"), prompt, reference)


def _any(prompt: str, reference: Reference) -> None:
    """What a reference must hold, only the user's own reward knows."""
