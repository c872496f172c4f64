"""Losses, aggregation and the optimiser step on a tiny real model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from botgrpo.sandbox.errors import RunFailed
from botgrpo.trainer.algorithms import ALGORITHMS
from botgrpo.trainer.logps import Row, microbatches, token_logps
from botgrpo.trainer.losses import AGGREGATIONS, clipped, constant, sequence_mean, token_mean
from botgrpo.trainer.update import Settings, update


def tiny_model(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def some_rows(advantage: float | None = None) -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    for prompt, length in ((3, 5), (4, 1), (2, 9)):
        completion = rng.integers(1, 50, length).tolist()
        values = rng.normal(size=length) if advantage is None else np.full(length, advantage)
        rows.append(Row(rng.integers(1, 50, prompt).tolist(), completion, values, np.zeros(length)))
    return rows


def step(
    model: LlamaForCausalLM,
    rows: list[Row],
    budget: int = 10_000,
    name: str = "bot_grpo",
    max_tokens: int = 16,
) -> dict[str, float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    how = Settings(
        pad_id=0, temperature=1.0, max_tokens=max_tokens, budget_tokens=budget, grad_clip=1e9
    )
    return update(model, optimizer, rows, ALGORITHMS[name], how)


def test_clipping_worked_by_hand() -> None:
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5])
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0])
    row = torch.zeros(4, dtype=torch.int64)
    loss = clipped(ratio.log(), torch.zeros(4), advantages, row, clip_low=0.2, clip_high=0.28)
    torch.testing.assert_close(loss, torch.tensor([-1.28, 1.5, -0.5, 0.8]))


def test_sequence_mean_counts_rollouts_and_token_mean_counts_tokens() -> None:
    row = torch.tensor([0, 0, 0, 2])  # rollout 1 has no token
    values = torch.tensor([3.0, 0.0, 0.0, 5.0])
    assert float((values * sequence_mean(row, 3, 16)).sum()) == pytest.approx((1.0 + 5.0) / 2)
    assert float((values * token_mean(row, 3, 16)).sum()) == pytest.approx(8.0 / 4)
    assert float((values * constant(row, 3, 16)).sum()) == pytest.approx(8.0 / (2 * 16))
    assert set(AGGREGATIONS) == {"sequence_mean", "token_mean", "constant"}


def test_log_probabilities_are_those_of_the_model_alone_on_each_row() -> None:
    model, rows = tiny_model(), some_rows()
    with torch.no_grad():
        together, row = token_logps(model, rows, pad_id=0, temperature=0.7, autocast=None)
        for i, r in enumerate(rows):
            ids = torch.tensor([[*r.prompt_ids, *r.completion_ids]])
            logps = torch.log_softmax(model(ids).logits[0] / 0.7, -1)
            expected = logps[len(r.prompt_ids) - 1 : -1].gather(
                1, torch.tensor(r.completion_ids)[:, None]
            )
            torch.testing.assert_close(together[row == i], expected[:, 0], atol=1e-5, rtol=1e-5)


def test_micro_batches_change_neither_loss_nor_weights() -> None:
    whole, parts = tiny_model(), tiny_model()
    a, b = step(whole, some_rows()), step(parts, some_rows(), budget=1)
    assert a["loss"] == pytest.approx(b["loss"], abs=1e-6)
    for p, q in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)


def test_the_constant_that_divides_the_loss_is_the_generation_cap() -> None:
    rows = some_rows()
    expected = -sum(float(r.advantages_T.sum()) for r in rows) / (len(rows) * 20)
    numbers = step(tiny_model(), rows, name="dr_grpo", max_tokens=20)
    assert numbers["loss"] == pytest.approx(expected, abs=1e-6)


def test_micro_batches_hold_every_row_once_and_keep_the_budget() -> None:
    rows = some_rows()
    batches = list(microbatches(tiny_model(), rows, 16))
    assert sorted(i for batch in batches for i in batch) == [0, 1, 2]
    for batch in batches:
        width = max(len(rows[i].prompt_ids) + len(rows[i].completion_ids) for i in batch)
        assert len(batch) == 1 or len(batch) * width <= 16


def test_a_step_raises_what_was_rewarded() -> None:
    for advantage in (1.0, -1.0):
        model, rows = tiny_model(), some_rows(advantage)
        with torch.no_grad():
            before, _ = token_logps(model, rows, pad_id=0, temperature=1.0, autocast=None)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        how = Settings(
            pad_id=0, temperature=1.0, max_tokens=16, budget_tokens=10_000, grad_clip=1e9
        )
        update(model, optimizer, rows, ALGORITHMS["bot_grpo"], how)
        with torch.no_grad():
            after, _ = token_logps(model, rows, pad_id=0, temperature=1.0, autocast=None)
        assert (after.sum() > before.sum()) == (advantage > 0)


def test_rows_without_advantage_count_in_the_denominator_but_are_not_computed() -> None:
    rows = some_rows()
    silent = [*rows, Row([1, 2], [3, 4], np.zeros(2), np.zeros(2))]
    a, b = step(tiny_model(), rows), step(tiny_model(), silent)
    assert b["loss"] == pytest.approx(a["loss"] * 3 / 4, abs=1e-6)


def test_nothing_to_learn_leaves_the_weights_alone() -> None:
    model, reference = tiny_model(), tiny_model()
    numbers = step(model, some_rows(0.0))
    assert numbers["loss"] == 0.0 and numbers["grad_norm"] == 0.0
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(p, q)


def test_a_loss_that_is_not_finite_stops_the_run_before_the_step() -> None:
    model = tiny_model()
    rows = some_rows()
    rows[0].advantages_T[0] = np.inf
    weights = [p.clone() for p in model.parameters()]
    with pytest.raises(RunFailed, match="not finite"):
        step(model, rows)
    for p, q in zip(model.parameters(), weights, strict=True):
        assert torch.equal(p, q)


def test_masked_tokens_get_exactly_zero_gradient() -> None:
    logps = torch.zeros(4, requires_grad=True)
    advantages = torch.tensor([1.0, 0.0, -1.0, 0.0])
    row = torch.zeros(4, dtype=torch.int64)
    clipped(logps, logps.detach(), advantages, row, clip_low=0.2, clip_high=0.2).sum().backward()
    assert logps.grad is not None
    assert logps.grad.tolist() == [-1.0, 0.0, 1.0, 0.0]


def test_logits_made_in_pieces_give_the_same_gradient_and_are_never_whole() -> None:
    rows = some_rows()
    tokens = sum(len(r.completion_ids) for r in rows)
    gradients, logps, shapes = [], [], []
    for pieces in (1 << 26, 4 * 50):
        model = tiny_model()
        kept: set[torch.Size] = set()

        def note(x: torch.Tensor, kept: set[torch.Size] = kept) -> torch.Tensor:
            kept.add(x.shape)
            return x

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            logps_N, _ = token_logps(
                model, rows, pad_id=0, temperature=0.7, autocast=None, chunk_elements=pieces
            )
        (logps_N * torch.arange(len(logps_N))).sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad for p in model.parameters()])
        logps.append(logps_N.detach())
        shapes.append(kept)
    assert (tokens, 50) in shapes[0]  # kept for the backward pass
    assert (tokens, 50) not in shapes[1]
    torch.testing.assert_close(logps[0], logps[1], atol=1e-6, rtol=1e-6)
    for whole, pieced in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, pieced, atol=1e-4, rtol=1e-5)
