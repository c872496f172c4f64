"""What an engine gives the trainer: sampled ids and the log-probabilities they were drawn with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from botgrpo.sandbox.errors import ConfigError, RunFailed


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are drawn.

    Attributes:
        max_new_tokens: cut after this many tokens.
        temperature: divides the logits; both the sampler and the update use it.
        seed: with the keys of the rollouts it fixes every draw, whatever the batch holds besides.
    """

    max_new_tokens: int
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion: T sampled ids (the end token included) and their log-probabilities."""

    token_ids: tuple[int, ...]
    logps: np.ndarray  # [T] float32, at the sampling temperature
    finish_reason: Literal["stop", "length"]


# told places in the batch and samples of rollouts that have ended, each once
Ended = Callable[[Sequence[int], Sequence[Sample]], None]


class Engine(Protocol):
    """Generates; `sync` is called after each update with the policy that changed."""

    name: str

    def sync(self) -> None: ...

    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        k: int,
        keys: Sequence[int],
        sampling: Sampling,
        ended: Ended = lambda places, samples: None,
    ) -> list[Sample]:
        """K samples of each prompt, prompt by prompt; `keys` holds one integer a rollout.

        `ended` hears of rollouts as they end, so that their rewards can begin.
        """
        ...


def uniforms(keys: Sequence[int], n: int, seed: int) -> np.ndarray:
    """[len(keys), n] numbers in [0, 1) that depend on (seed, key) alone, never on the batch."""
    return np.stack(
        [np.random.Generator(np.random.Philox(key=[seed, key])).random(n) for key in keys]
    )


def require_room(prompt_ids: Sequence[Sequence[int]], new_tokens: int, limit: int | None) -> int:
    """Tokens of the longest prompt; ConfigError where it and a completion exceed `limit`."""
    width = max(len(ids) for ids in prompt_ids)
    if limit is not None and width + new_tokens > limit:
        raise ConfigError(
            f"prompt of {width} tokens and {new_tokens} new ones exceed the model's {limit} "
            "positions; lower sampling.max_new_tokens"
        )
    return width


def request_seed(seed: int, key: int) -> int:
    """One number of 63 bits from (seed, key), for engines that draw by themselves."""
    return int(np.random.Philox(key=[seed, key]).random_raw()) >> 1


def checked(logps: np.ndarray) -> np.ndarray:
    """Log-probabilities as they are; RunFailed where one is not finite."""
    if not np.isfinite(logps).all():
        raise RunFailed(
            "the policy's probabilities are not finite: its weights have overflowed. The last "
            "checkpoint is intact: lower optim.learning_rate and go on with --resume"
        )
    return logps
