"""Rewards at work beside the sampler: scoring runs on a thread of its own.

Rewards are asynchronous and mostly wait (for a compiler, a judge), so a group is handed over as
soon as its last rollout has ended, and its scores arrive while other groups are still being drawn.
"""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from botgrpo.rewards.base import Reward, RewardError, Rollout, Score
from botgrpo.sandbox.errors import BotgrpoError, RunFailed


class Scorer:
    """An event loop on a thread; use as a context. Closes the rewards that it has used."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="scorer")

    def __enter__(self) -> Scorer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(_abandon(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, reward: Reward, rollouts: Sequence[Rollout]) -> Future[Sequence[Score]]:
        """Begin to score; the future holds the scores or the reward's exception."""

        async def score() -> Sequence[Score]:
            return await reward.score(rollouts)

        return asyncio.run_coroutine_threadsafe(score(), self._loop)

    def close(self, reward: Any) -> None:
        """Let a reward put away what it holds."""
        if aclose := getattr(reward, "aclose", None):
            asyncio.run_coroutine_threadsafe(aclose(), self._loop).result()


async def _abandon() -> None:
    """Cancel what is still being scored and wait until it has gone."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()


@dataclass(slots=True)
class Pending:
    """Scores of R rollouts that are on their way, handed over group by group."""

    reward: Reward
    scorer: Scorer
    parts: list[tuple[Sequence[int], Future[Sequence[Score]]]] = field(default_factory=list)
    rollouts: dict[int, Rollout] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0

    def add(self, places: Sequence[int], rollouts: Sequence[Rollout]) -> None:
        """Begin to score the rollouts at these places of the batch."""
        if not self.parts:
            self.began = time.perf_counter()
        self.rollouts.update(zip(places, rollouts, strict=True))
        future = self.scorer.submit(self.reward, rollouts)
        future.add_done_callback(self._note)
        self.parts.append((places, future))

    def scores(self) -> list[Score]:
        """All scores in the order of their places; waits.

        Raises RunFailed for a reward that raised: nobody could tell, so nothing is learned from it.
        """
        found: dict[int, Score] = {}
        for places, future in self.parts:
            try:
                scores = future.result()
            except BotgrpoError:
                raise
            except Exception as error:
                raise RunFailed(_told(self.reward, error)) from error
            if [s.id for s in scores] != [self.rollouts[i].id for i in places]:
                raise RewardError(
                    f"reward {self.reward.spec.name} must answer each rollout, in its order"
                )
            found.update(zip(places, scores, strict=True))
        return [found[i] for i in range(len(found))]

    def busy_s(self) -> float:
        """Seconds from the first group handed over to the last score."""
        return max(0.0, self.ended - self.began)

    def _note(self, _: object) -> None:
        self.ended = max(self.ended, time.perf_counter())


def _told(reward: Reward, error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return (
        f"reward {reward.spec.name} raised {type(error).__name__}: {error}{place}. No step was "
        "made of it and the last checkpoint is intact: mend the reward and go on with --resume"
    )
