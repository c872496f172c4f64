"""The estimator obeys its identities, on numpy and torch alike."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.trainer import segments
from botgrpo.trainer.advantages import grpo
from botgrpo.trainer.bot_grpo import (
    RowStats,
    bot_grpo,
    bot_grpo_ragged,
    bot_grpo_with_stats,
    group_scale,
    row_stats,
)


def ragged(lengths: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random rewards with NaN outside the mask, and the mask."""
    rng = np.random.default_rng(seed)
    mask = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
    return np.where(mask, rng.normal(size=mask.shape), np.nan), mask


groups = st.tuples(st.lists(st.integers(1, 40), min_size=2, max_size=8), st.integers(0, 2**32 - 1))


def test_worked_by_hand() -> None:
    # rollout means 1 and 0 (lengths 2 and 1): mu 1/2; between 1/4; within (1 + 0)/2 = 1/2
    rewards = np.array([[2.0, 0.0], [0.0, 9.0]])
    mask = np.array([[True, True], [True, False]])
    advantages, stats = bot_grpo_with_stats(rewards, mask, eps=0.0)
    sigma = np.sqrt(0.75)
    assert stats.mean == pytest.approx([0.5])
    assert stats.between**2 == pytest.approx([0.25])
    assert stats.within**2 == pytest.approx([0.5])
    np.testing.assert_allclose(advantages, [[1.5 / sigma, -0.5 / sigma], [-0.5 / sigma, 0.0]])


def test_pooled_weight_worked_by_hand() -> None:
    # three tokens 2, 0, 0 alike: mean 2/3, variance 8/9
    rewards = np.array([[2.0, 0.0], [0.0, 0.0]])
    mask = np.array([[True, True], [True, False]])
    advantages = bot_grpo(rewards, mask, eps=0.0, weight="pooled")
    sigma = np.sqrt(8 / 9)
    expected = [[(4 / 3) / sigma, (-2 / 3) / sigma], [(-2 / 3) / sigma, 0]]
    np.testing.assert_allclose(advantages, expected)


def test_leave_one_out_centres_on_the_others() -> None:
    rewards, mask = np.array([[3.0], [1.0], [1.0]]), np.ones((3, 1), dtype=bool)
    advantages, stats = bot_grpo_with_stats(rewards, mask, eps=0.0, leave_one_out=True)
    np.testing.assert_allclose(advantages[:, 0] * stats.sigma[0], [2.0, -1.0, -1.0])


@given(groups)
def test_weighted_mean_is_zero_and_variance_is_one(group: tuple[list[int], int]) -> None:
    rewards, mask = ragged(*group)
    advantages = bot_grpo(rewards, mask, eps=0.0)
    weights = mask / mask.sum(1, keepdims=True) / len(mask)
    assert (weights * advantages).sum() == pytest.approx(0.0, abs=1e-9)
    if advantages.any():
        assert (weights * advantages**2).sum() == pytest.approx(1.0, abs=1e-9)


@given(groups, st.integers(2, 5))
def test_repeating_each_token_changes_nothing(group: tuple[list[int], int], times: int) -> None:
    rewards, mask = ragged(*group)
    once = bot_grpo(rewards, mask)
    many = bot_grpo(np.repeat(rewards, times, 1), np.repeat(mask, times, 1))
    np.testing.assert_allclose(many[:, ::times], once, atol=1e-9)


def test_the_weights_make_length_invariance_and_pooling_breaks_it() -> None:
    # the second rollout is written twice as long, with the same values
    short = np.array([[1.0, 0.0, 0, 0], [0.0, 0.0, 0, 1]])
    mask = np.array([[True, True, False, False], [True, True, True, True]])
    longer = np.array([[1.0, 0.0] + [0.0] * 6, [0.0, 0, 0, 0, 0, 0, 1, 1]])
    longer_mask = np.array([[True, True] + [False] * 6, [True] * 8])
    a, b = bot_grpo(short, mask), bot_grpo(longer, longer_mask)
    np.testing.assert_allclose(a[0, :2], b[0, :2])
    a, b = (bot_grpo(x, m, weight="pooled") for x, m in ((short, mask), (longer, longer_mask)))
    assert abs(a[0, 0] - b[0, 0]) > 0.1


@given(groups)
def test_one_reward_a_rollout_is_grpo_with_the_population_deviation(
    group: tuple[list[int], int],
) -> None:
    lengths, seed = group
    _, mask = ragged(lengths, seed)
    outcomes = np.random.default_rng(seed).integers(0, 2, len(lengths)).astype(float)
    rewards = np.where(mask, outcomes[:, None], np.nan)
    expected = (outcomes - outcomes.mean()) / (outcomes.std() + 1e-6)
    if outcomes.std() == 0:
        expected = np.zeros(len(lengths))
    for result in (bot_grpo(rewards, mask), grpo(rewards, mask)):
        np.testing.assert_allclose(result, np.where(mask, expected[:, None], 0.0), atol=1e-12)


@given(groups)
def test_cluster_correction_is_the_sample_deviation_on_constant_rows(
    group: tuple[list[int], int],
) -> None:
    lengths, seed = group
    _, mask = ragged(lengths, seed)
    outcomes = np.random.default_rng(seed).normal(size=len(lengths))
    rewards = np.where(mask, outcomes[:, None], np.nan)
    expected = (outcomes - outcomes.mean()) / (outcomes.std(ddof=1) + 1e-6)
    result = bot_grpo(rewards, mask, ddof=1)
    np.testing.assert_allclose(result, np.where(mask, expected[:, None], 0.0), atol=1e-9)


@given(groups, st.floats(0.1, 100), st.floats(-50, 50))
def test_scale_and_offset_of_the_reward_cancel(
    group: tuple[list[int], int], scale: float, offset: float
) -> None:
    rewards, mask = ragged(*group)
    plain = bot_grpo(rewards, mask, eps=0.0)
    moved = bot_grpo(rewards * scale + offset, mask, eps=0.0)
    np.testing.assert_allclose(moved, plain, atol=1e-6)


@given(groups, st.randoms(use_true_random=False))
def test_padding_and_order_of_rollouts_change_nothing(group, random) -> None:  # type: ignore[no-untyped-def]
    rewards, mask = ragged(*group)
    plain = bot_grpo(rewards, mask)
    wide = np.pad(rewards, ((0, 0), (0, 7)), constant_values=np.inf)
    padded = bot_grpo(wide, np.pad(mask, ((0, 0), (0, 7))))
    np.testing.assert_allclose(padded[:, : plain.shape[1]], plain, atol=1e-12)
    order = list(range(len(mask)))
    random.shuffle(order)
    np.testing.assert_allclose(bot_grpo(rewards[order], mask[order]), plain[order], atol=1e-9)


@given(groups, st.integers(0, 2**32 - 1))
def test_groups_in_one_batch_do_not_touch_each_other(group, seed: int) -> None:  # type: ignore[no-untyped-def]
    rewards, mask = ragged(*group)
    other, other_mask = ragged(group[0], seed)
    index = np.arange(2 * len(mask)) % 2
    stacked, stacked_mask = (
        np.empty((len(index), mask.shape[1])),
        np.empty((len(index), mask.shape[1]), bool),
    )
    stacked[index == 0], stacked[index == 1] = rewards, other * 1000 + 5
    stacked_mask[index == 0], stacked_mask[index == 1] = mask, other_mask
    result = bot_grpo(stacked, stacked_mask, groups_K=index)
    np.testing.assert_allclose(result[index == 0], bot_grpo(rewards, mask), atol=1e-9)


@settings(max_examples=30)
@given(groups)
def test_torch_gives_what_numpy_gives(group: tuple[list[int], int]) -> None:
    rewards, mask = ragged(*group)
    options = {"ddof": 1, "leave_one_out": True, "weight": "pooled"}
    expected = bot_grpo(rewards, mask, **options)
    got = bot_grpo(torch.from_numpy(rewards), torch.from_numpy(mask), **options)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("length", [1, 513, 4096])
def test_equal_rewards_in_float32_give_exactly_zero(length: int) -> None:
    rewards = torch.full((8, length), 0.1, dtype=torch.float32)
    result = bot_grpo(rewards, torch.ones(8, length, dtype=torch.bool), eps=1e-8)
    assert result.dtype == torch.float32
    assert torch.equal(result, torch.zeros(8, length))


def test_a_spread_that_is_rounding_beside_the_rewards_counts_as_none() -> None:
    noise = np.random.default_rng(0).normal(size=(4, 6)) * 1e-5
    mask = np.ones((4, 6), dtype=bool)
    assert not bot_grpo(100 + noise, mask).any()
    assert bot_grpo(1 + noise, mask).any()


def test_large_rewards_in_one_group_do_not_silence_another() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(size=(2, 6)) * 1e-4, rng.normal(size=(2, 6)) * 1e4
    both = bot_grpo(np.vstack([small, large]), np.ones((4, 6), bool), groups_K=[0, 0, 1, 1])
    np.testing.assert_array_equal(both[:2], bot_grpo(small, np.ones((2, 6), bool)))
    assert both[:2].any()


def test_whatever_lies_outside_the_mask_is_ignored() -> None:
    rewards, mask = ragged([3, 5, 2], 0)
    clean = bot_grpo(np.where(mask, rewards, 0.0), mask)
    for filler in (np.nan, np.inf, 1e30):
        np.testing.assert_array_equal(bot_grpo(np.where(mask, rewards, filler), mask), clean)
    assert not clean[~mask].any()


def test_an_empty_rollout_leaves_the_statistics() -> None:
    rewards, mask = ragged([3, 5, 2], 1)
    with_empty = np.vstack([rewards, np.full((1, 5), 7.0)])
    result = bot_grpo(with_empty, np.vstack([mask, np.zeros((1, 5), bool)]))
    np.testing.assert_allclose(result[:3], bot_grpo(rewards, mask))
    assert not result[3].any()


def test_a_single_rollout_with_tokens_has_no_advantage() -> None:
    mask = np.array([[True, True, True], [False, False, False]])
    assert not bot_grpo(np.array([[1.0, 2, 3], [4, 5, 6]]), mask).any()


def test_uniform_groups_keep_zero_or_damp() -> None:
    rng = np.random.default_rng(0)
    local = rng.normal(size=(8, 20)) * 0.01
    mask = np.ones((8, 20), dtype=bool)
    failed, mixed = np.zeros(8), np.array([1.0] + [0.0] * 7)
    rms = {
        mode: np.sqrt((bot_grpo(local, mask, uniform_group=mode, outcomes_K=failed) ** 2).mean())
        for mode in ("keep", "zero", "damp")
    }
    assert rms["keep"] == pytest.approx(1.0, abs=1e-3)  # whatever the size of the local reward
    assert rms["zero"] == 0.0
    assert rms["damp"] == pytest.approx(0.01 / (np.sqrt(7) / 8), rel=0.1)
    for mode in ("zero", "damp"):
        np.testing.assert_array_equal(
            bot_grpo(local, mask, uniform_group=mode, outcomes_K=mixed), bot_grpo(local, mask)
        )


@pytest.mark.parametrize(("w_g", "pushed_down"), [(7.001, True), (6.999, False)])
def test_a_failure_is_pushed_down_only_if_the_outcome_outweighs_k_minus_one(
    w_g: float, pushed_down: bool
) -> None:
    # K = 8, one success; the failure has the best local reward, all others the worst (range 1)
    outcomes = np.array([1.0] + [0.0] * 7)
    local = np.zeros(8)
    local[7] = 1.0
    mask = np.ones((8, 4), dtype=bool)
    rewards = np.repeat((w_g * outcomes + local)[:, None], 4, 1)
    assert (bot_grpo(rewards, mask)[7, 0] < 0) == pushed_down


def test_ragged_form_equals_the_padded_one() -> None:
    rewards, mask = ragged([3, 5, 1, 4], 3)
    index = np.array([0, 0, 1, 1])
    flat, _ = bot_grpo_ragged(rewards[mask], mask.sum(1), index)
    np.testing.assert_array_equal(flat, bot_grpo(rewards, mask, groups_K=index)[mask])


@pytest.mark.parametrize("block", [1, 7, 20])
def test_pieces_of_any_size_give_what_the_whole_gives(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [3, 0, 9, 5, 0, 1, 12, 0]
    rewards, mask = ragged(lengths, 0)
    index = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    whole = bot_grpo(rewards, mask, groups_K=index)
    monkeypatch.setattr(segments, "BLOCK_TOKENS", block)
    np.testing.assert_array_equal(bot_grpo(rewards, mask, groups_K=index), whole)
    got = bot_grpo(torch.from_numpy(rewards), torch.from_numpy(mask), groups_K=index)
    np.testing.assert_allclose(got.numpy(), whole, atol=1e-12)


def test_lengths_must_add_up_to_the_tokens() -> None:
    with pytest.raises(ValueError, match="the lengths add up to 5; got 4 tokens"):
        bot_grpo_ragged(np.zeros(4), np.array([2, 3]), np.array([0, 0]))


def test_a_group_on_two_processes_needs_four_numbers_a_rollout() -> None:
    rewards, mask = ragged([3, 5, 1, 4], 3)
    lengths, flat = mask.sum(1), rewards[mask]
    whole, _ = bot_grpo_ragged(flat, lengths, np.zeros(4, dtype=int), ddof=1)
    parts = [row_stats(flat[:8], lengths[:2], 9.0), row_stats(flat[8:], lengths[2:], 9.0)]
    gathered = RowStats(
        *(np.concatenate([a, b]) for a, b in zip(*map(astuple, parts), strict=True))
    )
    scale, _ = group_scale(
        gathered,
        np.zeros(4, dtype=int),
        eps=1e-6,
        ddof=1,
        uniform_group="keep",
        weight="inv_length",
        leave_one_out=False,
        outcomes_R=None,
        outcome_gap=1.0,
    )
    second = (flat[8:] - np.repeat(scale.centre[2:], lengths[2:])) / scale.divisor[2]
    np.testing.assert_allclose(second, whole[8:])


@pytest.mark.parametrize(
    ("rewards", "mask", "says"),
    [
        (np.zeros((2, 3)), np.zeros((2, 4), bool), "two equal shapes"),
        (np.zeros(3), np.zeros(3, bool), "two equal shapes"),
        (np.zeros((2, 3)), np.ones((2, 3)), "expected bool"),
        (np.full((2, 3), np.nan), np.ones((2, 3), bool), "NaN or infinite"),
        (np.full((2, 3), np.inf), np.ones((2, 3), bool), "NaN or infinite"),
    ],
)
def test_bad_input_says_what_was_got(rewards: np.ndarray, mask: np.ndarray, says: str) -> None:
    for function in (bot_grpo, grpo):
        with pytest.raises(ValueError, match=says):
            function(rewards, mask)


def test_unknown_options_are_refused() -> None:
    rewards, mask = ragged([2, 2], 0)
    with pytest.raises(ValueError, match="allowed: 'keep', 'zero', 'damp'"):
        bot_grpo(rewards, mask, uniform_group="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs outcomes_K"):
        bot_grpo(rewards, mask, uniform_group="zero")
    with pytest.raises(ValueError, match="allowed: 'inv_length', 'pooled'"):
        bot_grpo(rewards, mask, weight="token")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ddof is 2; allowed: 0, 1"):
        bot_grpo(rewards, mask, ddof=2)  # type: ignore[arg-type]
