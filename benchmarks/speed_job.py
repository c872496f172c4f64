"""The work that all sides of `speed_trl` do, and the clock that they share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.rewards.base import RewardSpec, Rollout, Score

GROUP = 8  # rollouts of a prompt
MICRO_ROWS = 8  # rollouts in one forward pass of TRL; about what ours takes in MICRO_TOKENS
MICRO_TOKENS = 1024
WARM = 4


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one measurement; `dtype` is float32 or bfloat16 (products, not weights)."""

    model: str
    rollouts: int
    tokens: int
    dtype: str

    @property
    def items(self) -> list[Any]:
        from botgrpo.benchmarks import assemble

        return list(assemble.task("react").train_items(0)[: self.rollouts // GROUP])

    def policy(self) -> Any:
        from botgrpo.trainer.config import PolicyConfig
        from botgrpo.trainer.policy import load_policy

        return load_policy(Path(self.model), PolicyConfig(model=self.model, device="cpu"))


def now() -> tuple[float, float]:
    """Seconds by the wall and by this process's own clock."""
    return time.perf_counter(), time.process_time()


def since(name: str, began: tuple[float, float]) -> dict[str, float]:
    return {
        f"{name}{unit}": b - a for unit, a, b in zip(("_s", "_cpu_s"), began, now(), strict=True)
    }


def step(found: dict[str, float]) -> dict[str, float]:
    """A step's parts: what is not generation is the update."""
    update = {f"update{u}": found[f"step{u}"] - found[f"generate{u}"] for u in ("_s", "_cpu_s")}
    return {**found, **update}


def letters(text: str) -> float:
    """A reward that costs nothing and differs between rollouts: the share of one letter."""
    return text.count("e") / max(len(text), 1)


class Letters:
    """`letters` as ours."""

    spec = RewardSpec("speed.letters", "1", (0.0, 1.0), (0.0, 0.0))

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        return [Score(r.id, letters(r.completion), "ok") for r in rollouts]


@dataclass
class Prompts:
    """The job's prompts as a task."""

    job: Job
    name: str = "speed"
    judge: str = "speed.letters"
    metrics: tuple[str, ...] = ()

    def train_items(self, seed: int) -> list[Any]:
        return self.job.items

    def eval_items(self, n: int) -> list[Any]:
        return self.job.items[:n]

    def corpus(self, n: int, seed: int, corruption_rate: float) -> list[Any]:
        return []
