from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from botgrpo.rewards import Composite, Design, Example, RewardSpec, Rollout, Score, Span, local_of
from botgrpo.rewards.noise import Flip, Gaussian, PermuteLines
from botgrpo.sandbox.errors import ConfigError

TEXT = "first\n  second\n\nthird\nfourth"
TOKENS = tuple((i, i + 1) for i in range(len(TEXT)))
SPAN = Span(8, 12, -1.0, "here")


class Blames:
    """Blames part of the second line of everything."""

    def __init__(self, local_range=(-1.0, 0.0), spans=(SPAN,), local=None):
        self.spec = RewardSpec("test.blames", "1", (0.0, 1.0), local_range)
        self.spans, self.local = spans, local

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        return [Score(r.id, 1.0, spans=self.spans, local=self.local) for r in rollouts]

    def examples(self):
        return [Example(rollouts(1)[0], (1.0, 1.0), blames="cond")]


def rollouts(n: int) -> list[Rollout]:
    return [Rollout(f"r{i}", "g", "p", TEXT, token_spans=TOKENS) for i in range(n)]


def run(reward, batch):
    return asyncio.run(reward.score(batch))


def locals_of(reward, batch, decay_lines=0) -> np.ndarray:
    return np.array(
        [
            local_of(reward, r, s, decay_lines=decay_lines)
            for r, s in zip(batch, run(reward, batch), strict=True)
        ],
        dtype=float,
    )


MAKERS = [lambda b: Gaussian(b, 0.5), lambda b: PermuteLines(b), lambda b: Flip(b, 0.4)]


@pytest.mark.parametrize("make", MAKERS)
def test_order_and_batching_change_nothing_but_the_seed_does(make):
    batch = rollouts(40)
    whole = dict(zip([r.id for r in batch], locals_of(make(Blames()), batch), strict=True))
    scores = {s.id: s for s in run(make(Blames()), batch)}
    for r in reversed(batch):
        assert run(make(Blames()), [r]) == [scores[r.id]]
        assert (locals_of(make(Blames()), [r])[0] == whole[r.id]).all()
    other = make(Blames())
    other.seed = 1
    changed = [s for s in run(other, batch) if s != scores[s.id]]
    assert changed or (locals_of(other, batch) != np.array(list(whole.values()))).any()


@pytest.mark.parametrize("decay_lines", [0, 3])
def test_gaussian_noise_keeps_the_mean_and_has_the_asked_width(decay_lines):
    batch = rollouts(400)
    noisy = locals_of(Gaussian(Blames(), 0.5), batch, decay_lines)
    clean = locals_of(Blames(), batch[:1], decay_lines)
    noise = noisy - clean
    assert Gaussian.oracle.mean_preserving
    assert abs(noise.mean()) < 4 * 0.5 / np.sqrt(noise.size)
    assert noise.std() == pytest.approx(0.5, rel=0.03)
    assert np.abs(noise).max() <= 2.0


def test_gaussian_noise_leaves_outcome_and_spans_and_declares_its_width():
    reward = Gaussian(Blames(), 0.5)
    assert run(reward, rollouts(3)) == run(Blames(), rollouts(3))
    assert reward.spec.local_range == (-3.0, 2.0)
    mixed = Composite(Design({"n": 1.0}, {"n": 1.0}), {"n": reward})
    values = np.array([s.local for s in run(mixed, rollouts(200))])
    assert values.min() >= -3.0 and values.max() <= 2.0 and values.std() > 0.4


def test_gaussian_noise_of_no_width_is_the_clean_signal():
    assert (
        locals_of(Gaussian(Blames(), 0.0), rollouts(2)) == locals_of(Blames(), rollouts(2))
    ).all()


def test_gaussian_noise_leaves_unknown_tokens_unknown():
    local = (None,) + (0.0,) * (len(TEXT) - 1)
    values = locals_of(Gaussian(Blames(spans=(), local=local), 0.5), rollouts(1))[0]
    assert np.isnan(values[0]) and not np.isnan(values[1:]).any()


def test_noise_nests():
    reward = Gaussian(Gaussian(Blames(), 0.3), 0.4, seed=1)
    noise = locals_of(reward, rollouts(200)) - locals_of(Blames(), rollouts(1))
    assert noise.std() == pytest.approx(0.5, rel=0.05)


def test_permuted_lines_keep_number_and_values_but_not_the_place():
    scores = run(PermuteLines(Blames()), rollouts(300))
    pieces = [TEXT[s.spans[0].start : s.spans[0].end] for s in scores]
    assert {p for p in pieces} == {"firs", "thir", "four"}
    assert all(len(s.spans) == 1 and s.spans[0].value == -1.0 for s in scores)
    assert all(s.outcome == 1.0 for s in scores)
    counts = [pieces.count(p) for p in ("firs", "thir", "four")]
    assert min(counts) > 60


def test_permuting_moves_the_asked_share():
    scores = run(PermuteLines(Blames(), p=0.25), rollouts(800))
    moved = np.mean([s.spans[0] != SPAN for s in scores])
    assert abs(moved - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 800)


def test_a_completion_of_one_line_keeps_its_spans():
    one = [Rollout("r", "g", "p", "only line\n\n", token_spans=())]
    assert run(PermuteLines(Blames(spans=(Span(0, 4, -1.0),))), one)[0].spans == (Span(0, 4, -1.0),)


def test_permuting_refuses_rewards_that_give_token_values():
    with pytest.raises(ConfigError, match="permute first"):
        PermuteLines(Gaussian(Blames(), 0.5))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.4, 1.0])
def test_the_flip_rate_is_p_and_j_is_one_minus_two_p(p):
    reward = Flip(Blames(), p)
    scores = run(reward, rollouts(1000))
    rate = np.mean([s.outcome == 0.0 for s in scores])
    assert abs(rate - p) <= 4 * np.sqrt(p * (1 - p) / 1000)
    assert reward.oracle.expected_j == 1 - 2 * p
    assert rate == np.mean([s.metrics["flipped"] for s in scores])
    assert all(s.spans == (SPAN,) for s in scores)


def test_an_unscored_rollout_stays_unscored():
    class Down(Blames):
        async def score(self, batch):
            return [Score.unscored(r.id, "down") for r in batch]

    for make in MAKERS:
        reward = make(Down())
        assert run(reward, rollouts(1))[0].outcome is None
        assert np.isnan(locals_of(reward, rollouts(1))).all()


def test_examples_keep_only_what_the_noise_leaves_true():
    assert Gaussian(Blames(), 0.5).examples()[0].blames == "cond"
    assert PermuteLines(Blames()).examples()[0].blames is None
    assert Flip(Blames(), 0.5).examples()[0].outcome == (0.0, 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(Blames(), -1.0),
        lambda: Gaussian(Blames(), float("nan")),
        lambda: Gaussian(Blames(local_range=None), 0.5),
        lambda: PermuteLines(Blames(), p=1.5),
        lambda: PermuteLines(Blames(local_range=None)),
        lambda: Flip(Blames(), -0.1),
    ],
)
def test_impossible_noise_is_refused(make):
    with pytest.raises(ConfigError):
        make()
