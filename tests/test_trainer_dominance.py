"""The bounds hold, and are tight: just inside nothing flips, just outside something does."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.trainer import dominance
from botgrpo.trainer.bot_grpo import bot_grpo

K = 8


def design(w_g: float, w_s: float = 1.0, **more: object) -> dominance.Dominance:
    options = {"outcome_gap": 1.0, "local_range": (-1.0, 0.0), "group_size": K} | more
    return dominance.report(w_g=w_g, w_s=w_s, **options)  # type: ignore[arg-type]


def mean_advantages(w_g: float, outcomes: np.ndarray, local: np.ndarray) -> np.ndarray:
    rewards = np.repeat((w_g * outcomes + local)[:, None], 4, 1)
    return bot_grpo(rewards, np.ones(rewards.shape, dtype=bool))[:, 0]


def worst_case(successes: int) -> tuple[np.ndarray, np.ndarray]:
    """The last failure has the best local reward, everything else the worst."""
    outcomes = (np.arange(K) < successes).astype(float)
    local = np.full(K, -1.0)
    local[-1] = 0.0
    return outcomes, local


@pytest.mark.parametrize(("w_g", "holds"), [(1.001, True), (0.999, False)])
def test_ordering_is_tight(w_g: float, holds: bool) -> None:
    assert design(w_g).ordering is holds
    outcomes, local = worst_case(1)
    advantages = mean_advantages(w_g, outcomes, local)
    assert (advantages[0] > advantages[-1]) is np.bool_(holds)


@pytest.mark.parametrize(("w_g", "holds"), [(7.001, True), (6.999, False)])
def test_the_sign_of_a_rollout_is_tight_at_the_worst_composition(w_g: float, holds: bool) -> None:
    assert design(w_g).rollout_sign is holds
    assert design(w_g).rollout_sign_at(1) is holds
    assert (mean_advantages(w_g, *worst_case(1))[-1] < 0) == holds


@pytest.mark.parametrize("successes", range(1, K))
def test_the_sign_of_a_rollout_is_tight_at_every_composition(successes: int) -> None:
    # successes are the few: a failure with the best local reward; else a success with the worst
    outcomes, local = worst_case(successes)
    victim, sign = -1, -1
    if successes > K / 2:
        local = np.zeros(K)
        local[0], victim, sign = -1.0, 0, 1
    bound = (K - 1) / min(successes, K - successes)
    for w_g, holds in ((bound * 1.001, True), (bound * 0.999, False)):
        assert design(w_g).rollout_sign_at(successes) is holds
        assert (sign * mean_advantages(w_g, outcomes, local)[victim] > 0) == holds


@settings(deadline=None)
@given(
    st.integers(2, 6),
    st.floats(0.05, 3),
    st.integers(0, 2**32 - 1),
    st.sampled_from([(-1.0, 0.0), (-1.0, 1.0), (0.0, 0.5)]),
)
def test_no_local_reward_breaks_what_is_guaranteed(
    k: int, w_g: float, seed: int, local_range: tuple[float, float]
) -> None:
    w_s = 0.3
    bounds = dominance.report(
        w_g=w_g, w_s=w_s, outcome_gap=1.0, local_range=local_range, group_size=k
    )
    rng = np.random.default_rng(seed)
    local = rng.choice([local_range[0], local_range[1], rng.uniform(*local_range)], (k, 5))
    mask = np.arange(5)[None] < rng.integers(1, 6, k)[:, None]
    for outcomes in itertools.product([0.0, 1.0], repeat=k):
        outcome = np.array(outcomes)
        if outcome.min() == outcome.max():
            continue
        advantages = bot_grpo(w_g * outcome[:, None] + w_s * local, mask, eps=0.0)
        means = advantages.sum(1) / mask.sum(1)
        success = outcome == 1
        if bounds.ordering:
            assert means[success].min() > means[~success].max()
        if bounds.rollout_sign or bounds.rollout_sign_at(int(outcome.sum())):
            assert (means[success] > 0).all() and (means[~success] < 0).all()
        if bounds.token_sign:
            assert (advantages[success][mask[success]] >= 0).all()
            assert (advantages[~success][mask[~success]] <= 0).all()


def test_the_sign_of_a_token_is_tight_in_the_limit_of_long_rollouts() -> None:
    # one failure's single clean token, everything else blamed; one success of K
    long = 2000
    outcomes = np.array([1.0] + [0.0] * (K - 1))
    local = np.full((K, long), -1.0)
    local[-1, 0] = 0.0
    signs = []
    for w_g in (K, K - 0.01):
        rewards = w_g * outcomes[:, None] + local
        advantages = bot_grpo(rewards, np.ones(rewards.shape, dtype=bool))
        signs.append(bool(advantages[-1, 0] < 0))
        assert design(w_g).token_sign is signs[-1]
    assert signs == [True, False]


def test_papers_mathematics_design_orders_but_does_not_fix_signs() -> None:
    # w_g 3, w_s 0.5, K 8: a rollout's sign needs a local range below 6/7
    wide = design(3.0, 0.5, local_range=(-1.0, 1.0))
    assert wide.ordering and not wide.rollout_sign
    assert design(3.0, 0.5, local_range=(-0.85, 0.0)).rollout_sign
    assert not design(3.0, 0.5, local_range=(-0.86, 0.0)).rollout_sign


def test_uniform_groups_are_described() -> None:
    assert "whatever w_s is" in design(3.0).uniform_group
    assert "dropped" in design(3.0, uniform_group="zero").uniform_group
    assert "damped" in design(3.0, uniform_group="damp").uniform_group
    assert "nothing is learned" in design(3.0, local_range=None).uniform_group


def test_penalties_reward_padding_and_bonuses_punish_it() -> None:
    ranges = {(-1.0, 0.0): "rewarded", (0.0, 1.0): "punished", (-1.0, 1.0): "either"}
    for local_range, expected in ranges.items():
        assert design(3.0, local_range=local_range).padding == expected
    assert design(3.0, local_range=None).padding == "nothing"
    # the claim itself: clean tokens appended to a blamed rollout raise its advantage
    mask = np.zeros((2, 20), dtype=bool)
    mask[:, :5] = True
    rewards = np.zeros((2, 20))
    rewards[0, 0] = rewards[1, :2] = -1.0
    before = bot_grpo(rewards, mask)[1, :5].mean()
    mask[1] = True
    assert bot_grpo(rewards, mask)[1].mean() > before


@pytest.mark.parametrize(
    ("w_g", "says"),
    [
        (0.5, "a failure can rank as high as a success"),
        (3.0, "A failing rollout can still be pushed up"),
        (9.0, "Local penalties are a density"),
    ],
)
def test_the_warning_is_one_sentence_on_the_weakest_guarantee(w_g: float, says: str) -> None:
    text = dominance.warning(design(w_g))
    assert says in text and text.endswith(".") and "\n" not in text
    assert text.count(". ") == 0


def test_nothing_is_warned_of_where_the_outcome_decides() -> None:
    assert dominance.warning(design(1.0, local_range=None)) == ""
    assert dominance.warning(design(9.0, local_range=(0.0, 1.0))) == ""
    assert "nothing will be learned" in dominance.warning(design(0.0, 0.0))


def test_a_design_is_read_by_its_weights() -> None:
    @dataclasses.dataclass
    class Weights:
        w_g: float = 3.0
        w_s: float = 0.5

    bounds = dominance.of_design(Weights(), (-1.0, 1.0), (-1.0, 1.0), 4)
    assert (bounds.outcome_gap, bounds.local_span) == (6.0, 1.0)
    assert bounds.rollout_sign and bounds.token_sign
    none = dominance.of_design(Weights(), None, (0.0, 1.0), 4)
    assert none.local_span == 0 and none.token_sign


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 rollouts"):
        design(1.0, group_size=1)
    with pytest.raises(ValueError, match="the lower bound comes first"):
        design(1.0, local_range=(1.0, -1.0))
    with pytest.raises(ValueError, match="a mixed group of 8 has 1 to 7"):
        design(1.0).rollout_sign_at(8)
