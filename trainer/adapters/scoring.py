"""One of our rewards, asked by another trainer's code: from synchronous code, with its columns."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from botgrpo.rewards.base import Prompt, Reward, Rollout, Score
from botgrpo.rewards.mix import Composite, Design
from botgrpo.rewards.registry import build
from botgrpo.rewards.training_step import at_step

T = TypeVar("T")
OutcomeFunction = Callable[..., list[float | None]]

# what TRL hands to a reward function beside the columns of the data
NOT_COLUMNS = {"completion_ids", "trainer_state", "log_extra", "log_metric", "environments"}


class BackgroundLoop:
    """An event loop in a thread of its own, so that callers may or may not have one themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="botgrpo-rewards", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; its exception is raised here."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def composite(reward: str | Reward | Design) -> Composite:
    """A design as it is; a single reward as the design that takes its outcome and its local signal.

    Raises ConfigError for a reference that does not resolve.
    """
    if isinstance(reward, Composite):
        return reward
    if isinstance(reward, Design):
        return Composite(reward)
    built = build(reward) if isinstance(reward, str) else reward
    name = reward if isinstance(reward, str) else built.spec.name
    locals_ = {name: 1.0} if built.spec.local_range is not None else {}
    return Composite(Design({name: 1.0}, locals_), {name: built})


def reference_of(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the task knows of one prompt, from the other columns of its row.

    A column `reference` is the whole of it, as a mapping or as JSON: tables that give every row the
    same fields would otherwise fill in keys that a row does not have.
    """
    if "reference" not in columns:
        return columns
    reference = columns["reference"]
    loaded: Mapping[str, Any] = json.loads(reference) if isinstance(reference, str) else reference
    return loaded


def rows_of(columns: Mapping[str, Any], n_rows: int) -> list[dict[str, Any]]:
    """The data's columns, row by row, without what the trainer adds."""
    names = [name for name in columns if name not in NOT_COLUMNS]
    return [{name: columns[name][i] for name in names} for i in range(n_rows)]


def as_trl_reward(reward: str | Reward | Design) -> OutcomeFunction:
    """`f(prompts, completions, **columns) -> list[float | None]`: the outcome G alone.

    For trainers that know one number a rollout: TRL's own, and those with the same convention,
    such as the rubric functions of verifiers or, behind three lines, OpenRLHF's `reward_func`.
    Local rewards are lost there: use `BoTGRPOTrainer` or the verl adapter to keep them. None
    (unscored) is TRL's word as well: the rollout leaves the group's statistics.
    """
    design = composite(reward)
    loop = BackgroundLoop()

    def outcomes(
        prompts: Sequence[Prompt], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        rows = rows_of(columns, len(completions))
        rollouts = [
            Rollout(str(i), str(i), prompt, text_of(completion), reference_of(row))
            for i, (prompt, completion, row) in enumerate(
                zip(prompts, completions, rows, strict=True)
            )
        ]
        with at_step(getattr(columns.get("trainer_state"), "global_step", 0)):
            scores: list[Score] = loop.run(design.score(rollouts))
        return [score.outcome for score in scores]

    outcomes.__name__ = "_".join(design.design.outcomes)
    return outcomes


def text_of(completion: Any) -> str:
    """The text of a completion, which is plain or a list of chat messages."""
    if isinstance(completion, str):
        return completion
    return "".join(str(message["content"] or "") for message in completion)
