"""A plain function as an outcome, with the calling convention of TRL's reward functions."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from botgrpo.rewards.base import RewardError, RewardSpec, Rollout, Score


class FunctionReward:
    """`f(prompts, completions, **columns) -> list[float | None]` as an outcome.

    The function gets `completion_ids` and every key of the rollouts' references as columns (None
    where a reference lacks it), of these only what its signature takes. Chat prompts come with
    chat completions, as in TRL. None or NaN leaves that rollout unscored; an exception or a list
    of another length is a bug and raises `RewardError`. Plain functions run in a thread, `async`
    ones in the loop. Pass `low` and `high` where its values are bounded: the dominance report
    needs a range.
    """

    def __init__(
        self, function: Callable[..., Any], low: float = -math.inf, high: float = math.inf
    ) -> None:
        self.function = function
        self.spec = RewardSpec(
            name=getattr(function, "__name__", type(function).__name__),
            version="1",
            outcome_range=(low, high),
            summary=(inspect.getdoc(function) or "").partition("\n")[0],
        )
        parameters = inspect.signature(function).parameters.values()
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._takes = None if takes_all else {p.name for p in parameters}

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One call for the whole batch."""
        if not rollouts:
            return []
        columns = _columns(rollouts)
        if self._takes is not None:
            columns = {name: v for name, v in columns.items() if name in self._takes}
        started = time.perf_counter()
        try:
            if inspect.iscoroutinefunction(self.function):
                values = await self.function(**columns)
            else:
                values = await asyncio.to_thread(self.function, **columns)
        except (Exception, SystemExit) as error:
            raise RewardError(
                f"{self.spec.name} raised {type(error).__name__}: {error}; return None for a "
                "rollout that it cannot judge"
            ) from error
        each_s = (time.perf_counter() - started) / len(rollouts)
        if not isinstance(values, Iterable):
            raise RewardError(
                f"{self.spec.name} returned {values!r}; expected a list with a number or None for "
                "each completion"
            )
        values = list(values)
        if len(values) != len(rollouts):
            raise RewardError(
                f"{self.spec.name} returned {len(values)} values for {len(rollouts)} completions"
            )
        return [
            self._score(rollout, value, each_s)
            for rollout, value in zip(rollouts, values, strict=True)
        ]

    def _score(self, rollout: Rollout, value: Any, seconds: float) -> Score:
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise RewardError(
                f"{self.spec.name} returned {str(value)[:80]!r} for {rollout.id!r}; allowed: a "
                "number or None"
            ) from error
        if math.isinf(number):
            raise RewardError(
                f"{self.spec.name} returned {number} for {rollout.id!r}; allowed: a finite number, "
                "or None for what it cannot judge"
            )
        if math.isnan(number):
            reason = f"{self.spec.name} returned {value}"
            return Score.unscored(rollout.id, reason, verdict="skipped", seconds=seconds)
        return Score(rollout.id, number, verdict="scored", seconds=seconds)


def _columns(rollouts: Sequence[Rollout]) -> dict[str, list[Any]]:
    keys = dict.fromkeys(key for rollout in rollouts for key in rollout.reference)
    columns: dict[str, list[Any]] = {k: [r.reference.get(k) for r in rollouts] for k in keys}
    columns["prompts"] = [rollout.prompt for rollout in rollouts]
    columns["completions"] = [
        rollout.completion
        if isinstance(rollout.prompt, str)
        else [{"role": "assistant", "content": rollout.completion}]
        for rollout in rollouts
    ]
    columns["completion_ids"] = [
        None if rollout.token_ids is None else list(rollout.token_ids) for rollout in rollouts
    ]
    return columns
