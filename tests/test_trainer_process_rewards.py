"""Methods that credit steps: worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.trainer.bot_grpo import bot_grpo_with_stats
from botgrpo.trainer.process_rewards import (
    grpo_process,
    prime,
    prime_centre,
    pure,
    pure_openrlhf_step,
    pure_softmin,
    pure_verl,
)

# two rollouts: steps of 2 and 1 tokens that are fine, one step of 2 tokens that is wrong
PROCESS = np.array([[0.0, 1.0, 1.0], [0.0, -1.0, 9.0]])
MASK = np.array([[True, True, True], [True, True, False]])
ENDS = np.array([[False, True, True], [False, True, True]])
SOLVED = np.array([1.0, 0.0])


def test_grpo_process_worked_by_hand() -> None:
    # steps 1, 0 and 0 pooled: mean 1/3, deviation sqrt(2)/3
    rewards = np.array([[1.0, 0.0], [5.0, 0.0]])
    ends = np.array([[True, True], [False, True]])
    result = grpo_process(rewards, np.ones((2, 2), bool), step_ends_K_T=ends, eps=0.0)
    half = 0.5**0.5
    np.testing.assert_allclose(result, [[half, -half], [-half, -half]])


def test_grpo_process_gives_nothing_to_tokens_after_the_last_step() -> None:
    rewards, mask = np.array([[1.0, 0.0], [0.0, 0.0]]), np.ones((2, 2), bool)
    ends = np.array([[True, False], [True, False]])
    result = grpo_process(rewards, mask, step_ends_K_T=ends, eps=0.0)
    np.testing.assert_allclose(result, [[1, 0], [-1, 0]])


def test_softmin_returns_the_worst_step_up_to_it_and_nothing_after() -> None:
    process = np.array([[0.9, 0.8, 0.95, -0.6, 0.7]])
    star = pure_softmin(process, np.ones((1, 5), bool))
    to_go = np.cumsum(star[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(to_go, [[-0.6, -0.6, -0.6, -0.6, 0.0]], atol=1e-4)


def test_softmin_shares_between_equal_steps_and_reads_step_ends_alone() -> None:
    process = np.array([[-0.6, np.nan, -0.6, 7.0]])
    star = pure_softmin(process, np.array([[True, False, True, False]]))
    np.testing.assert_allclose(star, [[-0.3, 0, -0.3, 0]])
    assert not pure_softmin(process, np.zeros((1, 4), bool)).any()


def test_softmin_does_not_overflow_at_low_temperatures() -> None:
    star = pure_softmin(np.array([[1.0, -1.0]]), np.ones((1, 2), bool), temperature=1e-4)
    np.testing.assert_allclose(star, [[0.0, -1.0]])


def test_pure_with_the_token_baseline_worked_by_hand() -> None:
    # PR* (1/2, 1/2) and (-1); baselines -1/2 and 1/3 a token
    result = pure(PROCESS, MASK, step_ends_K_T=ENDS)
    np.testing.assert_allclose(result, [[2.5, 2.5, 1.0], [-5 / 3, -5 / 3, 0]])
    result = pure(PROCESS, MASK, step_ends_K_T=ENDS, outcomes_K=SOLVED)
    np.testing.assert_allclose(result, [[3.5, 3.5, 2.0], [-8 / 3, -8 / 3, 0]])


def test_pure_with_the_step_baseline_worked_by_hand() -> None:
    # 1/2 and -1 a step
    result = pure_openrlhf_step(PROCESS, MASK, step_ends_K_T=ENDS)
    np.testing.assert_allclose(result, [[3, 3, 1.5], [-1.5, -1.5, 0]])


def test_pure_of_verl_worked_by_hand_is_another_estimator() -> None:
    # returns (2, 2, 3/2) and (-1, -1); baselines -2/4 and 5.5/4
    options = {"step_ends_K_T": ENDS, "outcomes_K": SOLVED, "max_tokens": 4}
    result = pure_verl(PROCESS, MASK, whiten=False, **options)
    np.testing.assert_allclose(result, [[2.5, 2.5, 2.0], [-2.375, -2.375, 0]])
    values = result[MASK]
    white = (values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(pure_verl(PROCESS, MASK, **options)[MASK], white)


def test_prime_worked_by_hand() -> None:
    # process (2, 0) and (0), over 2; centred (3/2, -1/2) and (-1/2); outcomes centred -1 and 1
    mask = np.array([[True, True], [True, False]])
    result = prime(np.array([[2.0, 0.0], [0.0, 5.0]]), mask, outcomes_K=np.array([0.0, 1.0]))
    values = np.array([0.0, -7.5, 2.5])
    white = (values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(result[mask], white)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=6), st.integers(0, 2**32 - 1))
def test_prime_centres_as_bot_grpo_does(lengths: list[int], seed: int) -> None:
    mask = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
    rewards = np.random.default_rng(seed).normal(size=mask.shape)
    _, stats = bot_grpo_with_stats(rewards, mask)
    k = len(lengths)
    expected = np.where(mask, k / (k - 1) * (rewards - stats.mean[0]), 0.0)
    np.testing.assert_allclose(prime_centre(rewards, mask), expected, atol=1e-12)


@pytest.mark.parametrize("function", [pure, pure_openrlhf_step])
def test_two_solved_rollouts_without_process_rewards_learn_nothing(function) -> None:  # type: ignore[no-untyped-def]
    result = function(PROCESS * 0, MASK, step_ends_K_T=ENDS, outcomes_K=np.ones(2))
    assert not result.any()
