"""What the trainer knows of a task: prompts to learn on, prompts to be tested on, a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt and what the task knows of a right answer."""

    id: str
    prompt: str
    reference: Mapping[str, Any] = field(default_factory=dict)


class Task(Protocol):
    """A source of prompts; deterministic in its arguments.

    Attributes:
        name: as in a configuration.
        judge: reference of the reward that scores held-out completions.
        metrics: what that reward measures, each in 0..1; a suite's primary metric is one of them.
    """

    @property
    def name(self) -> str: ...

    @property
    def judge(self) -> str: ...

    @property
    def metrics(self) -> tuple[str, ...]: ...

    def train_items(self, seed: int) -> Sequence[Item]:
        """Prompts in the order in which a run with this seed sees them; walked cyclically."""
        ...

    def eval_items(self, n: int) -> Sequence[Item]:
        """The first n held-out prompts, disjoint from training by construction."""
        ...

    def corpus(self, n: int, seed: int, corruption_rate: float) -> Sequence[tuple[Item, str]]:
        """n warm-start pairs of a training prompt and a completion."""
        ...
