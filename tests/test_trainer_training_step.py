"""A reward hears which step it is scored for, wherever the work is done."""

from __future__ import annotations

import asyncio

from botgrpo.rewards import RewardSpec, Rollout, Score
from botgrpo.rewards.training_step import at_step, training_step
from botgrpo.trainer.adapters.scoring import as_trl_reward
from botgrpo.trainer.scoring import Scorer


class Asks:
    spec = RewardSpec("test.asks", "1", (0.0, 1000.0))

    async def score(self, rollouts):
        steps = await asyncio.gather(*(asyncio.to_thread(training_step) for _ in rollouts))
        return [Score(r.id, float(s)) for r, s in zip(rollouts, steps, strict=True)]


def test_the_step_reaches_a_reward_on_the_scorers_thread_and_its_own_threads():
    with Scorer() as scorer:
        with at_step(7):
            early = scorer.submit(Asks(), [Rollout("a", "g", "p", "")])
        with at_step(8):
            late = scorer.submit(Asks(), [Rollout("a", "g", "p", "")])
        assert [f.result()[0].outcome for f in (early, late)] == [7.0, 8.0]
    assert training_step() == 0


def test_trls_step_reaches_a_reward():
    class State:
        global_step = 12

    assert as_trl_reward(Asks())(["p"], ["c"], trainer_state=State()) == [12.0]
    assert as_trl_reward(Asks())(["p"], ["c"]) == [0.0]
