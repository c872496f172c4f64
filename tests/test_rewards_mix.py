from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import numpy as np
import pytest

from botgrpo.rewards import Composite, Design, RewardError, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.local import checked_scores
from botgrpo.rewards.mix import token_rewards
from botgrpo.sandbox.errors import ConfigError

TEXT = "ab\ncd\nef"
TOKENS = ((0, 3), (3, 6), (6, 8), (8, 8))


def rollout(id: str = "r1", tokens: tuple[tuple[int, int], ...] | None = TOKENS) -> Rollout:
    return Rollout(id, "p1", "say", TEXT, token_spans=tokens)


class Fixed:
    """Gives every rollout the same score."""

    def __init__(self, outcome=1.0, spans=(), outcome_range=(0.0, 1.0), local_range=(-1.0, 0.0)):
        self.spec = RewardSpec("test.fixed", "1", outcome_range, local_range)
        self.outcome, self.spans, self.calls = outcome, tuple(spans), 0
        self.local_scored, self.ids, self.local = True, None, None

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        self.calls += 1
        return [
            Score(
                self.ids or r.id,
                self.outcome,
                verdict="ok",
                reason="" if self.outcome is not None else "judge down",
                spans=self.spans,
                local=self.local,
                local_scored=self.local_scored,
                metrics={"compile": 1.0},
            )
            for r in rollouts
        ]


def mix(design: Design, **parts: Fixed) -> Score:
    return asyncio.run(Composite(design, parts).score([rollout()]))[0]


def test_the_outcome_is_the_weighted_sum_and_parts_stay_apart_in_the_metrics():
    score = mix(Design({"a": 2.0, "b": -1.0}), a=Fixed(1.0), b=Fixed(0.5))
    assert score.outcome == 1.5
    assert score.metrics["rewards/a"] == 1.0 and score.metrics["rewards/b"] == 0.5
    assert score.metrics["rewards/a/compile"] == 1.0


def test_one_unscored_outcome_makes_the_sum_unscored_and_says_whose():
    score = mix(Design({"a": 1.0, "b": 1.0}), a=Fixed(1.0), b=Fixed(None))
    assert score.outcome is None and score.reason == "b: judge down"


def test_a_reward_named_as_outcome_and_local_is_scored_once():
    part = Fixed()
    mix(Design({"a": 1.0}, {"a": 1.0}), a=part)
    assert part.calls == 1


def test_parts_are_scored_at_the_same_time():
    class Waits(Fixed):
        barrier = asyncio.Barrier(2)

        async def score(self, rollouts):
            await asyncio.wait_for(self.barrier.wait(), 5)
            return await super().score(rollouts)

    mix(Design({"a": 1.0, "b": 1.0}), a=Waits(), b=Waits())


def test_locals_are_weighted_projected_and_clipped_to_the_declared_mix():
    spans = [Span(3, 5, -1.0, "x"), Span(4, 5, -1.0)]
    score = mix(Design({"a": 1.0}, {"a": 0.5}), a=Fixed(spans=spans))
    assert [s.value for s in score.spans] == [-0.5, -0.5]
    assert score.local == (0.0, -0.5, 0.0, 0.0)  # two half errors, clipped to 0.5 * [-1, 0]
    wide = mix(Design({"a": 1.0}, {"a": 0.5}, clip_local=(-4, 0)), a=Fixed(spans=spans))
    assert wide.local == (0.0, -1.0, 0.0, 0.0)


def test_decay_reaches_the_neighbouring_lines():
    score = mix(Design({"a": 1.0}, {"a": 1.0}, decay_lines=3), a=Fixed(spans=[Span(0, 1, -1.0)]))
    assert score.local == (-1.0, -0.75, -0.5, 0.0)


def test_renormalising_bounds_the_total_of_a_long_list_of_errors():
    spans = [Span(0, 1, -1.0), Span(3, 4, -1.0), Span(6, 7, -1.0), Span(6, 8, -1.0)]
    score = mix(Design({"a": 1.0}, {"a": 1.0}, renormalise=True), a=Fixed(spans=spans))
    assert score.local == (-0.25, -0.25, -0.5, 0.0)
    assert sum(s.value for s in score.spans) == -1.0


def test_an_unknown_local_signal_leaves_the_outcome_standing():
    part = Fixed()
    part.local_scored = False
    design = Design({"a": 1.0}, {"a": 1.0}, w_g=3.0)
    score = mix(design, a=part)
    assert score.outcome == 1.0 and not score.local_scored and score.local == (None,) * 4
    assert np.isnan(token_rewards(score, design)).all()
    assert token_rewards(score, Design({"a": 1.0}, {"a": 1.0}, w_s=0.0)).tolist() == [1.0] * 4


def test_single_unknown_tokens_stay_unknown_in_the_sum():
    part = Fixed()
    part.local = (None, -1.0, 0.0, 0.0)
    score = mix(Design({"a": 1.0}, {"a": 0.5, "b": 1.0}), a=part, b=Fixed())
    assert score.local == (None, -0.5, 0.0, 0.0)


def test_token_rewards_follow_equation_four():
    design = Design({"a": 1.0}, {"a": 1.0}, w_g=3.0, w_s=0.5)
    score = Score("r", 1.0, local=(0.0, -1.0, None))
    np.testing.assert_array_equal(token_rewards(score, design), [3.0, 2.5, math.nan])
    assert np.isnan(token_rewards(Score.unscored("r", "down"), design, n_tokens=2)).all()


def test_token_rewards_without_tokens_ask_for_them():
    with pytest.raises(ConfigError, match="n_tokens"):
        token_rewards(Score("r", 1.0), Design({"a": 1.0}))


def test_designs_without_a_local_signal_give_every_token_the_outcome():
    design = Design({"a": 1.0}, w_g=2.0)
    score = mix(design, a=Fixed())
    assert score.local is None and score.local_scored
    assert token_rewards(score, design, n_tokens=4).tolist() == [2.0] * 4


def test_a_composite_keeps_its_own_promises():
    spans = [Span(3, 5, -1.0), Span(4, 5, -1.0)]
    for design in (Design({"a": 2.0}), Design({"a": 2.0}, {"a": 0.5}, decay_lines=2)):
        reward = Composite(design, {"a": Fixed(spans=spans)})
        assert asyncio.run(checked_scores("design", reward, [rollout(), rollout("r2", None)]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": 1.5}, "outcome is 1.5, outside the declared outcome_range"),
        ({"outcome": math.nan}, "outcome is nan"),
        ({"spans": [Span(0, 1, 0.5)]}, "span value is 0.5"),
        ({"spans": [Span(0, 9, -0.5)]}, "outside the completion's 8 code points"),
        ({"spans": [Span(2, 1, -0.5)]}, "outside the completion"),
        ({"spans": [Span(0, 1, -1.0)], "local_range": None}, "declares no local_range"),
    ],
)
def test_a_broken_promise_is_an_error_and_not_clipped(change, message):
    with pytest.raises(RewardError, match=message.replace("(", r"\(")):
        mix(Design({"a": 1.0}), a=Fixed(**change))


def test_a_score_with_a_wrong_id_or_count_is_an_error():
    part = Fixed()
    part.ids = "other"
    with pytest.raises(RewardError, match="keep order and ids"):
        mix(Design({"a": 1.0}), a=part)
    part.local, part.ids = (0.0,), None
    with pytest.raises(RewardError, match="1 local values for 4 tokens"):
        mix(Design({"a": 1.0}), a=part)


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcomes": {}},
        {"outcomes": {"a": math.nan}},
        {"outcomes": {"a": 1.0}, "clip_local": (1.0, -1.0)},
        {"outcomes": {"a": 1.0}, "decay_lines": -1},
    ],
)
def test_impossible_designs_are_refused(wrong):
    with pytest.raises(ConfigError):
        Design(**wrong)


def test_a_reward_without_a_local_signal_cannot_be_a_local():
    with pytest.raises(ConfigError, match="no local signal"):
        Composite(Design({"a": 1.0}, {"a": 1.0}), {"a": Fixed(local_range=None)})


def test_the_composite_declares_the_range_of_its_sum():
    spec = Composite(Design({"a": 2.0, "b": -1.0}, {"a": 0.5}), {"a": Fixed(), "b": Fixed()}).spec
    assert spec.outcome_range == (-1.0, 2.0) and spec.local_range == (-0.5, 0.0)
