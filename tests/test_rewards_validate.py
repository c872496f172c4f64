from __future__ import annotations

import asyncio
import itertools

import pytest

from botgrpo.rewards import Example, RewardSpec, Rollout, Score, Span, attempt
from botgrpo.rewards.validate import validate

GOLD = Example(Rollout("gold", "g", "p", "good"), (1.0, 1.0), "ok")
BAD = Example(Rollout("bad", "g", "p", "so bad"), (0.0, 0.0), "wrong", blames="bad", gold=False)


class Honest:
    """Says that whatever contains "bad" is wrong, and where."""

    def __init__(self, deterministic: bool = True) -> None:
        self.spec = RewardSpec("test.honest", "1", (0.0, 1.0), (-1.0, 0.0), deterministic)

    async def score(self, rollouts):
        return [self.one(r, i) for i, r in enumerate(rollouts)]

    def one(self, rollout, index):
        at = rollout.completion.find("bad")
        if at < 0:
            return Score(rollout.id, 1.0, verdict="ok")
        return Score(rollout.id, 0.0, verdict="wrong", spans=(Span(at, at + 3, -1.0),))

    def examples(self):
        return [GOLD, BAD]


def failed(reward) -> set[str]:
    return {check.name for check in asyncio.run(validate(reward)) if not check.ok}


def test_an_honest_reward_passes_every_check():
    checks = asyncio.run(validate(Honest()))
    assert all(check.ok for check in checks)
    assert {c.name for c in checks} >= {"examples", "gold", "tampered", "blame", "order"}


class NoExamples(Honest):
    examples = None


class OnlyGold(Honest):
    def examples(self):
        return [GOLD]


class Lenient(Honest):
    def one(self, rollout, index):
        return Score(rollout.id, 1.0, verdict="ok")


class Harsh(Honest):
    def one(self, rollout, index):
        span = Span(0, len(rollout.completion), -1.0)
        return Score(rollout.id, 0.0, verdict="wrong", spans=(span,))


class BlamesElsewhere(Honest):
    def one(self, rollout, index):
        score = super().one(rollout, index)
        spans = tuple(Span(0, 2, s.value) for s in score.spans)
        return Score(rollout.id, score.outcome, score.verdict, spans=spans)


class OutOfRange(Honest):
    def one(self, rollout, index):
        return Score(rollout.id, 7.0)


class OutOfText(Honest):
    def one(self, rollout, index):
        return Score(rollout.id, 1.0, spans=(Span(0, 99, -1.0),))


class SwapsIds(Honest):
    async def score(self, rollouts):
        return list(reversed(await super().score(rollouts)))


class LosesOne(Honest):
    async def score(self, rollouts):
        return (await super().score(rollouts))[1:]


class MindsTheOrder(Honest):
    def one(self, rollout, index):
        # Right as long as the examples come as they stand.
        return Score(rollout.id, 1.0 - index, ("ok", "wrong")[index], spans=())

    def examples(self):
        return [GOLD, Example(BAD.rollout, (0.0, 0.0), "wrong", gold=False)]


class Drifts(Honest):
    def __init__(self):
        super().__init__()
        self.calls = itertools.count()

    def one(self, rollout, index):
        score = super().one(rollout, index)
        return Score(score.id, score.outcome, score.verdict, spans=score.spans, metrics={
            "n": float(next(self.calls))
        })  # fmt: skip


class Down(Honest):
    def one(self, rollout, index):
        return Score.unscored(rollout.id, "no judge")


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (NoExamples(), {"examples"}),
        (OnlyGold(), {"examples"}),
        (Lenient(), {"tampered", "verdicts", "blame"}),
        (Harsh(), {"gold", "verdicts"}),
        (BlamesElsewhere(), {"blame"}),
        (OutOfRange(), {"ids, ranges and spans"}),
        (OutOfText(), {"ids, ranges and spans"}),
        (SwapsIds(), {"ids, ranges and spans"}),
        (LosesOne(), {"ids, ranges and spans"}),
        (MindsTheOrder(), {"order"}),
        (Drifts(), {"order", "repeatable"}),
        (Down(), {"scored"}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, set) else "",
)
def test_each_broken_promise_fails_its_own_check(reward, expected):
    assert failed(reward) == expected


def test_details_say_what_was_got_and_expected():
    details = {c.name: c.detail for c in asyncio.run(validate(Lenient()))}
    assert details["tampered"] == "bad: outcome 1.0, expected 0.0 to 0.0 (verdict 'ok')"
    assert details["blame"] == "bad: blames [], expected a span over 'bad'"


@pytest.mark.parametrize("counts_attempts", [False, True])
def test_a_cache_that_counts_attempts_does_not_hide_a_drift(counts_attempts):
    class Cached(Drifts):
        def __init__(self):
            super().__init__()
            self.kept = {}

        def one(self, rollout, index):
            key = (rollout.id, attempt() if counts_attempts else 0)
            if key not in self.kept:
                self.kept[key] = super().one(rollout, index)
            return self.kept[key]

    assert failed(Cached()) == ({"repeatable"} if counts_attempts else set())


def test_a_reward_that_admits_chance_need_not_repeat_itself():
    class Chance(Drifts):
        def __init__(self):
            super().__init__()
            self.spec = RewardSpec("test.chance", "1", (0.0, 1.0), (-1.0, 0.0), False)

    assert failed(Chance()) == set()
