"""Losses worked by hand, and where their gradients go."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botgrpo.trainer.losses import AGGREGATIONS, CORRECTIONS, LOSSES, k3, sequence_mean

ROW = torch.tensor([0, 0, 1, 1, 1])
CLIPS = {"clip_low": 0.2, "clip_high": 0.28}


def run(name: str, logps: Tensor, old: Tensor, advantages: Tensor, row: Tensor = ROW) -> Tensor:
    return LOSSES[name](logps, old, advantages, row, **CLIPS)


def gradient(
    name: str, advantages: Tensor, moved: float = 0.05, row: Tensor = ROW
) -> tuple[Tensor, Tensor]:
    """Loss and gradient of the sequence mean, off-policy by a little."""
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(len(row), generator=generator, dtype=torch.float64) - 2
    shift = moved * torch.randn(len(row), generator=generator, dtype=torch.float64)
    logps = (old + shift).requires_grad_()
    weights = sequence_mean(row, int(row.max()) + 1, 8).double()
    loss = (run(name, logps, old, advantages, row) * weights).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert logps.grad is not None
    return loss.detach(), logps.grad


@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "expected"),
    [
        ("clipped", 1.5, 1.0, -1.28),
        ("clipped", 1.5, -1.0, 1.5),
        ("clipped", 0.5, 1.0, -0.5),
        ("clipped", 0.5, -1.0, 0.8),
        ("dual_clipped", 1.5, -1.0, 1.5),
        ("dual_clipped", 9.0, -1.0, 3.0),
        ("dual_clipped", 9.0, 1.0, -1.28),
    ],
)
def test_clipping_worked_by_hand(
    name: str, ratio: float, advantage: float, expected: float
) -> None:
    logp = torch.tensor([math.log(ratio)])
    loss = run(name, logp, torch.zeros(1), torch.tensor([advantage]), torch.zeros(1).long())
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["gspo", "gspo_token"])
def test_gspo_takes_the_geometric_mean_of_a_rollouts_ratios(name: str) -> None:
    ratio = torch.tensor([1.21, 1.0, 0.9, 0.9, 0.9])
    advantages = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0])
    loss = run(name, ratio.log(), torch.zeros(5), advantages)
    torch.testing.assert_close(loss, -torch.tensor([1.1, 1.1, 0.9, 0.9, 0.9]))


def test_gspo_token_is_gspo_where_a_rollout_shares_one_advantage() -> None:
    advantages = torch.tensor([0.7, 0.7, -1.2, -1.2, -1.2], dtype=torch.float64)
    for moved in (0.05, 2.0):  # inside the clip range and beyond
        for a, b in zip(
            gradient("gspo", advantages, moved),
            gradient("gspo_token", advantages, moved),
            strict=True,
        ):
            torch.testing.assert_close(a, b)


def test_gspo_spreads_the_mean_advantage_and_gspo_token_keeps_each() -> None:
    advantages = torch.tensor([1.0, 0.0, 2.0, -1.0, 0.5], dtype=torch.float64)
    _, spread = gradient("gspo", advantages, moved=0.01)
    _, kept = gradient("gspo_token", advantages, moved=0.01)
    assert spread[0] == pytest.approx(float(spread[1]))  # both tokens of rollout 0: the mean, 1/2
    assert kept[1] == 0.0
    torch.testing.assert_close(kept / kept[0], torch.tensor([1, 0, 4 / 3, -2 / 3, 1 / 3]).double(),
                               atol=0.05, rtol=0)  # fmt: skip
    assert float((spread - kept).abs().max()) > 0.05


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_on_policy_every_token_loss_is_minus_its_advantage(name: str) -> None:
    advantages = torch.tensor([1.0, -2.0, 0.5, 0.0, -0.25])
    logps = torch.full((5,), -3.0)
    torch.testing.assert_close(run(name, logps, logps, advantages), -advantages)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"gspo"}))
def test_without_advantage_there_is_exactly_no_gradient(name: str) -> None:
    loss, grad = gradient(name, torch.zeros(5, dtype=torch.float64))
    assert float(loss) == 0.0 and not grad.any()
    _, grad = gradient(name, torch.tensor([0.0, 0.0, 1.0, -1.0, 1.0], dtype=torch.float64))
    assert not grad[:2].any() and grad[2:].all()


def test_the_trace_remembers_earlier_tokens_of_the_same_rollout_only() -> None:
    difference = torch.tensor([0.1, 0.02, 0.05, 0.0, 0.01])
    options = {"clip_low": 0.9, "clip_high": 9.0, "decay": 0.5}
    ones = torch.ones(5)
    recent = -LOSSES["grpo_lambda"](difference, torch.zeros(5), ones, ROW, **options)
    expected = torch.tensor([0.1, 0.02 + 0.05, 0.05, 0.025, 0.01 + 0.0125]).exp()
    torch.testing.assert_close(recent, expected)
    # max(0.5^l, 0.5^s): the token at s = 0 keeps weight 1
    both = -LOSSES["grpo_lambda_both"](difference, torch.zeros(5), ones, ROW, **options)
    expected = torch.tensor([0.1, 0.02 + 0.1, 0.05, 0.05 + 0.0, 0.05 + 0.0 + 0.01]).exp()
    torch.testing.assert_close(both, expected)


def test_the_trace_sends_a_tokens_advantage_to_the_tokens_before_it() -> None:
    logps = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    row = torch.zeros(3, dtype=torch.int64)
    advantages = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    LOSSES["grpo_lambda"](
        logps, logps.detach(), advantages, row, decay=0.5, **CLIPS
    ).sum().backward()
    assert logps.grad is not None
    assert logps.grad.tolist() == [-0.25, -0.5, -1.0]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.sampled_from(sorted(LOSSES)))
def test_rows_in_one_call_give_what_each_gives_alone(lengths: list[int], name: str) -> None:
    row = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    generator = torch.Generator().manual_seed(len(row))
    logps, old, advantages = (torch.randn(len(row), generator=generator) for _ in range(3))
    together = run(name, logps, old, advantages, row)
    for i in range(len(lengths)):
        inside = row == i
        zeros = torch.zeros(int(inside.sum()), dtype=torch.int64)
        alone = run(name, logps[inside], old[inside], advantages[inside], zeros)
        torch.testing.assert_close(together[inside], alone)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_no_token_at_all_is_no_loss(name: str) -> None:
    nothing = torch.zeros(0)
    assert run(name, nothing, nothing, nothing, nothing.long()).shape == (0,)


def test_a_ratio_that_explodes_stays_finite_where_sequences_share_it() -> None:
    logps = torch.full((5,), 500.0)
    for name in ("gspo", "gspo_token", "grpo_lambda"):
        assert torch.isfinite(run(name, logps, torch.zeros(5), -torch.ones(5))).all()


def test_k3_worked_by_hand_and_its_mean_is_the_divergence() -> None:
    value = k3(torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, -2.0]))
    torch.testing.assert_close(value, torch.tensor([0.0, math.exp(-1)]))
    policy = torch.tensor([0.5, 0.3, 0.2])
    reference = torch.tensor([0.4, 0.4, 0.2])
    divergence = (policy * (policy / reference).log()).sum()
    torch.testing.assert_close((policy * k3(policy.log(), reference.log())).sum(), divergence)


def test_corrections_worked_by_hand() -> None:
    ratio = torch.tensor([3.0, 0.5, 0.25, 1.0, 6.0])
    old, sampler = ratio.log().requires_grad_(), torch.zeros(5)
    expected = {
        "token": [2.0, 0.5, 0.25, 1.0, 2.0],
        "sequence": [1.5, 1.5, 1.5, 1.5, 1.5],  # products 3 * 0.5 and 0.25 * 6
        "icepop": [3.0, 0.5, 0.0, 1.0, 0.0],
    }
    assert set(expected) == set(CORRECTIONS)
    for name, weights in expected.items():
        result = CORRECTIONS[name](old, sampler, ROW)
        torch.testing.assert_close(result, torch.tensor(weights))
        assert not result.requires_grad
    assert float(CORRECTIONS["sequence"](old, sampler, ROW, high=1.2)[0].detach()) == pytest.approx(
        1.2
    )


@pytest.mark.parametrize("name", sorted(AGGREGATIONS))
def test_an_aggregation_gives_every_token_a_weight(name: str) -> None:
    weights = AGGREGATIONS[name](ROW, 3, 8)
    expected = {
        "sequence_mean": np.array([1 / 4, 1 / 4, 1 / 6, 1 / 6, 1 / 6]),
        "token_mean": np.full(5, 1 / 5),
        "constant": np.full(5, 1 / 16),
    }[name]
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6)
    assert AGGREGATIONS[name](ROW[:0], 0, 8).shape == (0,)
