"""Scoring on every node of a Ray cluster: workers of the sandbox and clients of judges as actors.

One actor for each core builds the run's own reward design, so that a score is the same wherever it
is made; groups go to the actor that has least to do. An actor that dies is started again and its
group scored once more; what is lost twice is unscored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from botgrpo.benchmarks import assemble
from botgrpo.benchmarks.executors import connected, last_line
from botgrpo.rewards.base import Rollout, Score
from botgrpo.rewards.training_step import at_step, training_step
from botgrpo.sandbox.attempt import attempt, attempting
from botgrpo.trainer.config import Config

GROUP = 8  # rollouts an actor gets at a time
TRIES = 2


class Spread:
    """The reward design of `config`, scored by actors; a Reward as any other.

    Raises ConfigError where Ray is not installed or no cluster answers.
    """

    def __init__(self, config: Config, actors: int | None = None) -> None:
        self.spec = assemble.reward(config).spec
        self._ray = connected()
        count = actors or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        # a fraction: actors mostly wait for compilers and judges, and cells need the cores
        made = self._ray.remote(num_cpus=0.01, max_restarts=-1)(_Scorer)
        spread = made.options(scheduling_strategy="SPREAD", max_concurrency=4)
        self._actors = [spread.remote(config.model_dump()) for _ in range(count)]
        self._busy = [0] * count

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """In the order of `rollouts`; see the class for what is lost."""
        groups = [rollouts[i : i + GROUP] for i in range(0, len(rollouts), GROUP)]
        parts = await asyncio.gather(*map(self._group, groups))
        return [score for part in parts for score in part]

    async def _group(self, rollouts: Sequence[Rollout]) -> list[Score]:
        for tries_left in reversed(range(TRIES)):
            place = self._busy.index(min(self._busy))
            self._busy[place] += 1
            try:
                asked = self._actors[place].score.remote(rollouts, training_step(), attempt())
                found: list[Score] = await asked
                return found
            except self._ray.exceptions.RayTaskError:
                raise  # the reward's own fault: another node would say the same
            except self._ray.exceptions.RayError as error:
                if not tries_left:
                    lost = f"lost by the cluster: {last_line(error)}"
                    return [Score.unscored(each.id, lost) for each in rollouts]
            finally:
                self._busy[place] -= 1
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Let each actor put away what it holds, and end it."""
        for actor in self._actors:
            try:
                await actor.aclose.remote()
            except self._ray.exceptions.RayError:
                continue
            self._ray.kill(actor)


class _Scorer:
    """In a worker of the cluster: the design, built once."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._reward = assemble.reward(Config.model_validate(config))

    async def score(self, rollouts: Sequence[Rollout], step: int, number: int) -> list[Score]:
        with at_step(step), attempting(number):
            return list(await self._reward.score(rollouts))

    async def aclose(self) -> None:
        await self._reward.aclose()
