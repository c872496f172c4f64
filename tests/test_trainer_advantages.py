"""Every advantage: numbers worked by hand, and the rules that all of them keep."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.advantages import (
    ADVANTAGES,
    dr_grpo,
    grpo,
    grpo_lambda,
    hapo,
    lambda_grpo,
    reinforce_pp,
    reinforce_pp_baseline,
    rloo,
)
from botgrpo.trainer.bot_grpo import bot_grpo
from botgrpo.trainer.critic import vapo
from botgrpo.trainer.entropy_shaping import grpo_s, gtpo
from botgrpo.trainer.length_weights import lambda_grpo_weights

COMPUTED = sorted(set(ADVANTAGES) - {"eapo"})
WHITENED = {"reinforce_pp", "reinforce_pp_baseline", "prime", "pure_verl"}  # over the batch
NO_GROUP = {"reinforce_pp", "vapo"}


def ragged(lengths: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
    return np.where(mask, rng.normal(size=mask.shape), np.nan), mask


def rows(values: list[float], lengths: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """One reward a rollout, on every token."""
    mask = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
    return np.where(mask, np.array(values)[:, None], 0.0), mask


def inputs(name: str, mask: np.ndarray) -> dict[str, Any]:
    """What each method reads beyond rewards, the same for the same rows."""
    rng = np.random.default_rng(7)
    k = len(mask)
    ends = rng.random(mask.shape) < 0.4
    ends[:, 0] = True
    correct = np.arange(k) % 2 == 0
    known = {
        "grpo_process": {"step_ends_K_T": ends},
        "pure": {"step_ends_K_T": ends, "outcomes_K": correct.astype(float)},
        "pure_openrlhf_step": {"step_ends_K_T": ends, "outcomes_K": correct.astype(float)},
        "pure_verl": {
            "step_ends_K_T": ends,
            "outcomes_K": correct.astype(float),
            "max_tokens": 16,
        },
        "prime": {"outcomes_K": correct.astype(float)},
        "lambda_grpo": {"lam": 0.7},
        "vapo": {"values_K_T": rng.normal(size=mask.shape)},
    }
    for entropic in ("gtpo", "grpo_s"):
        known[entropic] = {
            "entropies_K_T": rng.random(mask.shape),
            "correct_K": correct,
            "outcome_weight": 0.9,
            "entropy_weight": 0.1,
        }
    return known.get(name, {})


def call(name: str, rewards: np.ndarray, mask: np.ndarray, **more: Any) -> np.ndarray:
    return ADVANTAGES[name](rewards, mask, **(inputs(name, mask) | more))


def test_dr_grpo_and_rloo_worked_by_hand() -> None:
    rewards, mask = rows([3.0, 1.0, 1.0], [2, 1, 3])
    for function, expected in ((dr_grpo, [4 / 3, -2 / 3, -2 / 3]), (rloo, [2.0, -1.0, -1.0])):
        result = function(rewards, mask)
        np.testing.assert_allclose(result, np.where(mask, np.array(expected)[:, None], 0.0))


def test_grpo_reads_the_row_mean_and_never_the_token_sum() -> None:
    rewards, mask = rows([1.0, 0.5], [4, 1])
    once = grpo(rewards, mask)
    short, short_mask = rows([1.0, 0.5], [1, 1])
    np.testing.assert_allclose(once[:, :1], grpo(short, short_mask))


def test_reinforce_pp_worked_by_hand() -> None:
    # outcome on the last token: returns 1, 1 and 0; mean 2/3, sample variance 1/3
    mask = np.array([[True, True], [True, False]])
    last = np.array([[0.0, 1.0], [0.0, np.nan]])
    expected = np.array([[1 / 3, 1 / 3], [-2 / 3, 0]]) / np.sqrt(1 / 3 + 1e-8)
    np.testing.assert_allclose(reinforce_pp(last, mask), expected)
    halved = np.array([0.5, 1.0, 0.0])
    expected = (halved - 0.5) / np.sqrt(halved.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(reinforce_pp(last, mask, gamma=0.5)[mask], expected)


def test_credit_passes_over_masked_tokens_without_a_discount() -> None:
    mask = np.array([[True, False, True], [True, True, False]])
    rewards = np.array([[0.0, 9.0, 1.0], [0.0, 1.0, 9.0]])
    for gamma in (1.0, 0.5):
        result = reinforce_pp(rewards, mask, gamma=gamma)
        np.testing.assert_allclose(result[0, [0, 2]], result[1, :2])


def test_reinforce_pp_baseline_worked_by_hand() -> None:
    # centred 1/2, 1/2 and -1/2 on three tokens; mean 1/6, sample variance 1/3
    rewards, mask = rows([1.0, 0.0], [2, 1])
    expected = np.array([[1 / 3, 1 / 3], [-2 / 3, 0]]) / np.sqrt(1 / 3 + 1e-8)
    np.testing.assert_allclose(reinforce_pp_baseline(rewards, mask), expected)


def test_hapo_counts_tokens_and_falls_back_to_grpo_where_an_advantage_is_large() -> None:
    rewards, mask = rows([1.0, 0.0], [2, 1])
    expected = np.array([[1 / 3, 1 / 3], [-2 / 3, 0]]) / np.sqrt(2 / 9)
    np.testing.assert_allclose(hapo(rewards, mask, eps=0.0), expected)
    # 30 tokens against 1: the lone failure would get -sqrt(30)
    rewards, mask = rows([1.0, 0.0], [30, 1])
    assert bot_grpo(rewards, mask, weight="pooled")[1, 0] == pytest.approx(-np.sqrt(30), abs=1e-3)
    np.testing.assert_allclose(hapo(rewards, mask, eps=0.0)[:, 0], [0.5**0.5, -(0.5**0.5)])
    # one group falls back, the other does not
    both = np.vstack([rewards, np.pad(rows([1.0, 0.0], [2, 1])[0], ((0, 0), (0, 28)))])
    both_mask = np.vstack([mask, np.pad(rows([1.0, 0.0], [2, 1])[1], ((0, 0), (0, 28)))])
    result = hapo(both, both_mask, eps=0.0, groups_K=[0, 0, 1, 1])
    assert result[1, 0] == pytest.approx(-(0.5**0.5))
    assert result[3, 0] == pytest.approx(-(2**0.5))


def test_grpo_lambda_floors_negative_advantages() -> None:
    rewards, mask = rows([1.0, 0.0], [1, 2])
    np.testing.assert_allclose(grpo_lambda(rewards, mask, eps=0.0), [[1.0, 0.0], [-0.1, -0.1]])


def test_lambda_grpo_weighs_by_relative_length() -> None:
    lengths = np.array([1.0, 3.0])  # z = -1 and 1
    groups = np.zeros(2, dtype=int)
    lifted = np.exp([8 / 9, 10 / 9])
    np.testing.assert_allclose(
        lambda_grpo_weights(lengths, 1.0, groups_K=groups), 2 * lifted / lifted.sum()
    )
    np.testing.assert_array_equal(lambda_grpo_weights(lengths, 0.0, groups_K=groups), [1, 1])
    rewards, mask = rows([1.0, 0.0], [1, 3])
    np.testing.assert_allclose(lambda_grpo(rewards, mask, lam=0.0), grpo(rewards, mask))
    longer = lambda_grpo(rewards, mask, lam=2.0)
    assert abs(longer[1, 0]) > 1 > abs(longer[0, 0])


def test_lambda_grpo_gives_its_exponent_a_gradient() -> None:
    lam = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    groups = torch.zeros(3, dtype=torch.int64)
    weights = lambda_grpo_weights(torch.tensor([5, 1, 0]), lam, groups_K=groups)
    assert weights[2] == 0 and float(weights.detach().sum()) == pytest.approx(2.0)
    weights[0].backward()
    assert lam.grad is not None and float(lam.grad) > 0  # the longer one gains


def test_gtpo_worked_by_hand() -> None:
    # correct rows hold (3, 5) and (1): shares 3/4 and 1/4 of two at t = 0, all of one at t = 1
    mask = np.array([[True, True], [True, False], [True, False], [True, False]])
    entropies = np.array([[3.0, 5.0], [1.0, np.nan], [1.0, 0.0], [0.5, 0.0]])
    result = gtpo(
        np.zeros((4, 2)),
        mask,
        entropies_K_T=entropies,
        correct_K=np.array([True, True, False, False]),
        outcome_weight=0.9,
        entropy_weight=0.1,
    )
    high = np.sqrt(1.5)
    # wrong rows: the more decided one (entropy 1/2) loses more
    np.testing.assert_allclose(result, [[high, 0], [-high, 0], [1, 0], [-1, 0]], atol=1e-6)


def test_grpo_s_worked_by_hand() -> None:
    mask = np.array([[True, True], [True, False], [True, False]])
    entropies = np.array([[2.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
    result = grpo_s(
        np.zeros((3, 2)),
        mask,
        entropies_K_T=entropies,
        correct_K=np.array([True, True, False]),
        outcome_weight=0.9,
        entropy_weight=0.1,
    )
    np.testing.assert_allclose(result, [[1, 1], [-1, 0], [0, 0]], atol=1e-6)


@pytest.mark.parametrize("name", ["gtpo", "grpo_s"])
def test_a_group_of_failures_does_not_train_on_shaping_noise(name: str) -> None:
    _, mask = ragged([3, 2, 4])
    for correct in (np.zeros(3, bool), np.ones(3, bool)):
        assert not call(name, np.zeros(mask.shape), mask, correct_K=correct).any()


def test_eapo_says_that_its_formula_is_unavailable() -> None:
    rewards, mask = ragged([2, 3])
    with pytest.raises(ConfigError, match="eapo: formula unavailable"):
        ADVANTAGES["eapo"](rewards, mask, entropies_K_T=rewards)


def test_vapo_worked_by_hand() -> None:
    # alpha = 1 and two tokens: lambda = 1/2; deltas 1 and 1
    mask = np.array([[True, True]])
    rewards, values = np.array([[0.0, 3.0]]), np.array([[1.0, 2.0]])
    np.testing.assert_allclose(vapo(rewards, mask, values_K_T=values, alpha=1.0), [[1.5, 1.0]])
    # short rollouts under the paper's alpha: lambda 0
    np.testing.assert_allclose(vapo(rewards, mask, values_K_T=values), [[1.0, 1.0]])
    # a masked token in between changes nothing
    gap = np.array([[True, False, True]])
    result = vapo(
        np.array([[0.0, 7.0, 3.0]]), gap, values_K_T=np.array([[1.0, np.nan, 2.0]]), alpha=1.0
    )
    np.testing.assert_allclose(result, [[1.5, 0.0, 1.0]])


@pytest.mark.parametrize("name", COMPUTED)
def test_torch_gives_what_numpy_gives(name: str) -> None:
    rewards, mask = ragged([4, 6, 1, 5, 3, 2])
    groups = [0, 0, 1, 1, 2, 2]
    more = inputs(name, mask)
    expected = ADVANTAGES[name](rewards, mask, groups_K=groups, **more)
    tensors = {
        key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for key, value in more.items()
    }
    result = ADVANTAGES[name](
        torch.from_numpy(rewards), torch.from_numpy(mask), groups_K=torch.tensor(groups), **tensors
    )
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("filler", [np.nan, np.inf, 1e30])
def test_nothing_outside_the_mask_is_read_or_written(name: str, filler: float) -> None:
    rewards, mask = ragged([4, 6, 2])
    clean = call(name, np.where(mask, rewards, 0.0), mask)
    np.testing.assert_array_equal(call(name, np.where(mask, rewards, filler), mask), clean)
    assert not clean[~mask].any()
    assert np.isfinite(clean).all()


@pytest.mark.parametrize("name", sorted(set(COMPUTED) - {"vapo", "gtpo", "grpo_s"}))
@pytest.mark.parametrize("value", [0.1, -3.3])
def test_equal_rewards_in_float32_give_zero(name: str, value: float) -> None:
    k, width = 4, 513
    mask = torch.ones(k, width, dtype=torch.bool)
    at_the_end = (torch.arange(width) == width - 1).repeat(k, 1)
    rewards = torch.full((k, width), value, dtype=torch.float32)
    if name == "reinforce_pp":  # of equal outcomes; other token rewards make unequal returns
        rewards = rewards * at_the_end
    options = inputs(name, mask.numpy())
    options |= {"outcomes_K": torch.ones(k)} if "outcomes_K" in options else {}
    options |= {"step_ends_K_T": at_the_end} if "step_ends_K_T" in options else {}
    result = ADVANTAGES[name](rewards, mask, **options)
    assert result.dtype == torch.float32
    if name in ("pure", "pure_openrlhf_step"):  # not divided by a deviation: rounding stays small
        assert float(result.abs().max()) < 1e-12
    else:
        assert torch.equal(result, torch.zeros(k, width))


@pytest.mark.parametrize("name", sorted(set(COMPUTED) - NO_GROUP))
def test_one_rollout_alone_has_no_advantage(name: str) -> None:
    rewards, mask = ragged([3, 5])
    mask[0] = False
    assert not call(name, rewards, mask).any()


@pytest.mark.parametrize("name", COMPUTED)
def test_an_empty_rollout_changes_no_other(name: str) -> None:
    rewards, mask = ragged([3, 5, 4, 2])
    more = inputs(name, mask)
    emptied = mask.copy()
    emptied[3] = False
    kept = {k: v[:3] if isinstance(v, np.ndarray) else v for k, v in more.items()}
    alone = ADVANTAGES[name](rewards[:3], mask[:3], **kept)
    result = ADVANTAGES[name](rewards, emptied, **more)
    np.testing.assert_allclose(result[:3], alone, atol=1e-12)
    assert not result[3].any()


@pytest.mark.parametrize("name", sorted(set(COMPUTED) - WHITENED))
def test_groups_do_not_touch_each_other(name: str) -> None:
    rewards, mask = ragged([4, 6, 2, 5, 3, 1])
    more = inputs(name, mask)
    half = {k: v[:3] if isinstance(v, np.ndarray) else v for k, v in more.items()}
    alone = ADVANTAGES[name](rewards[:3], mask[:3], **half)
    together = ADVANTAGES[name](rewards, mask, groups_K=[0, 0, 0, 1, 1, 1], **more)
    np.testing.assert_allclose(together[:3], alone, atol=1e-12)


@pytest.mark.parametrize("name", COMPUTED)
def test_nothing_at_all_is_answered_with_nothing(name: str) -> None:
    for shape in ((0, 0), (2, 0)):
        empty: np.ndarray = np.zeros(shape)
        more = inputs(name, np.ones((shape[0], 1), bool))
        more = {
            k: v[:, :0] if isinstance(v, np.ndarray) and v.ndim == 2 else v for k, v in more.items()
        }
        assert ADVANTAGES[name](empty, empty.astype(bool), **more).shape == shape


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize(
    ("rewards", "mask", "says"),
    [
        (np.zeros((2, 3)), np.zeros((2, 4), bool), r"shape \(2, 3\) and the mask \(2, 4\)"),
        (np.zeros(3), np.zeros(3, bool), "two equal shapes"),
        (np.zeros((2, 3)), np.ones((2, 3)), "the mask has dtype float64; expected bool"),
        (np.zeros((2, 3), int), np.ones((2, 3), bool), "rewards have dtype int64; expected a fl"),
        (np.full((2, 3), np.nan), np.ones((2, 3), bool), "NaN or infinite"),
        (torch.zeros(2, 3), np.ones((2, 3), bool), "Tensor and the mask is ndarray"),
    ],
)
def test_bad_input_says_what_was_got(name: str, rewards: Any, mask: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ADVANTAGES[name](rewards, mask, **inputs(name, np.ones((2, 3), bool)))


@pytest.mark.parametrize(
    ("groups", "says"), [([0, 0, 1], r"shape \(3,\); expected \(2,\)"), ([0, -1], "holds -1")]
)
def test_bad_groups_say_what_was_got(groups: list[int], says: str) -> None:
    rewards, mask = ragged([2, 3])
    for function in (bot_grpo, grpo, rloo):
        with pytest.raises(ValueError, match=says):
            function(rewards, mask, groups_K=groups)


@pytest.mark.parametrize(
    ("name", "key", "value", "says"),
    [
        ("grpo_process", "step_ends_K_T", np.ones((2, 4), bool), "step_ends_K_T: got shape"),
        ("prime", "outcomes_K", np.ones(3), r"outcomes_K: got shape \(3,\); expected shape \(2,\)"),
        ("prime", "outcomes_K", np.array([1.0, np.nan]), "mask unscored"),
        ("vapo", "values_K_T", None, "values_K_T: got nothing"),
        ("gtpo", "entropies_K_T", np.full((2, 3), np.nan), "entropy inside the mask is NaN"),
    ],
)
def test_further_inputs_are_checked(name: str, key: str, value: Any, says: str) -> None:
    rewards, mask = ragged([2, 3])
    with pytest.raises(ValueError, match=says):
        call(name, rewards, mask, **{key: value})


def test_unscored_outcomes_are_asked_to_be_masked() -> None:
    rewards, mask = ragged([2, 3])
    outcomes = np.array([1.0, np.nan])
    with pytest.raises(ValueError, match="mask unscored rollouts"):
        bot_grpo(rewards, mask, uniform_group="zero", outcomes_K=outcomes)
    mask[1] = False
    bot_grpo(rewards, mask, uniform_group="zero", outcomes_K=outcomes)
    with pytest.raises(ValueError, match=r"outcomes_K has shape \(3,\)"):
        bot_grpo(rewards, mask, uniform_group="zero", outcomes_K=np.zeros(3))


def test_every_advantage_names_its_source() -> None:
    for name, function in ADVANTAGES.items():
        assert re.search(r"arXiv \d{4}\.\d{5}", function.__doc__ or ""), name
