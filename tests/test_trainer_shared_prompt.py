"""Rollouts in one pass without padding, each prompt once: the same as each row by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from botgrpo.trainer import shared_prompt
from botgrpo.trainer.logps import Row, microbatches, token_logps

SHAPE = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Ids:
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]


def model_of(kind: str = "llama", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**SHAPE | changes)
    return AutoModelForCausalLM.from_config(config).float().eval()


def rows_of(prompts: list[int], seed: int = 0) -> list[Row]:
    """Three rollouts of each prompt, one of a single token; prompts of these lengths."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in prompts:
        prompt = rng.integers(3, 50, length).tolist()
        for size in (1, int(rng.integers(2, 20)), int(rng.integers(2, 20))):
            advantages = rng.normal(size=size)
            rows.append(Row(prompt, rng.integers(3, 50, size).tolist(), advantages, np.zeros(size)))
    return rows


def logps_and_gradient(
    model: Any, rows: list[Row], autocast: torch.dtype | None = None
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.zero_grad()
    logps_N, _ = token_logps(model, rows, pad_id=0, temperature=0.8, autocast=autocast)
    weights = torch.from_numpy(np.concatenate([r.advantages_T for r in rows])).float()
    (logps_N * weights).sum().backward()
    return logps_N.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", sorted(shared_prompt.MODEL_TYPES))
def test_each_architecture_gives_the_log_probabilities_and_gradients_of_its_padded_pass(
    kind: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_prompt, "SMALL_WIDTH", 0 if fused else 256)
    model, rows = model_of(kind), rows_of([5, 9, 1])
    padded = logps_and_gradient(model, rows)
    shared_prompt.install(model)
    assert shared_prompt.packs(model, rows)
    packed = logps_and_gradient(model, rows)
    torch.testing.assert_close(packed[0], padded[0], atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(packed[1], padded[1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_in_bfloat16_the_two_differ_by_its_rounding() -> None:
    model, rows = model_of(), rows_of([5, 9])
    padded, _ = logps_and_gradient(model, rows, torch.bfloat16)
    shared_prompt.install(model)
    packed, _ = logps_and_gradient(model, rows, torch.bfloat16)
    torch.testing.assert_close(packed, padded, atol=2e-2, rtol=1e-2)


def test_layers_that_are_computed_again_give_the_same_gradient() -> None:
    from botgrpo.trainer.policy import checkpoint_layers

    model, rows = model_of(), rows_of([5, 9])
    shared_prompt.install(model)
    _, kept = logps_and_gradient(model, rows)
    checkpoint_layers(model)
    _, again = logps_and_gradient(model, rows)
    for ours, theirs in zip(again, kept, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_a_prompt_is_in_the_input_once_and_padding_never() -> None:
    model, rows = model_of(), rows_of([5, 9])
    shared_prompt.install(model)
    seen: list[tuple[int, ...]] = []
    model.model.embed_tokens.register_forward_hook(lambda _, args, __: seen.append(args[0].shape))
    token_logps(model, rows, pad_id=0, temperature=1.0, autocast=None)
    assert seen == [(1, 5 + 9 + sum(len(r.completion_ids) - 1 for r in rows))]


def test_completions_of_one_token_need_no_pass_of_their_own() -> None:
    model = model_of()
    rows = [Row([4, 5], [token], np.ones(1), np.zeros(1)) for token in (7, 8)]
    padded = logps_and_gradient(model, rows)
    shared_prompt.install(model)
    packed = logps_and_gradient(model, rows)
    torch.testing.assert_close(packed[0], padded[0], atol=1e-6, rtol=1e-6)


def test_a_pass_laid_out_by_hand() -> None:
    packing = shared_prompt.pack(
        [Ids((11, 12), (21, 22, 23)), Ids((13,), (31,)), Ids((11, 12), (41, 42))],
        torch.device("cpu"),
    )
    assert packing.ids_1_N.tolist() == [[11, 12, 13, 21, 22, 41]]
    assert packing.positions_1_N.tolist() == [[0, 1, 0, 2, 3, 2]]
    assert packing.predicts_M.tolist() == [1, 3, 4, 2, 1, 5]
    assert packing.prompt_R.tolist() == [0, 1, 0]
    assert packing.sees_R_T_C[0].tolist() == [[True, True, True, False], [True, True, True, True]]
    assert packing.sees_R_T_C[1, :, :2].tolist() == [[True, False], [True, False]]


def test_what_comes_after_a_token_or_beside_its_rollout_cannot_reach_it() -> None:
    model, rows = model_of(), rows_of([5, 9])
    shared_prompt.install(model)
    with torch.no_grad():
        before, row_N = token_logps(model, rows, pad_id=0, temperature=1.0, autocast=None)
        changed = rows[1].completion_ids[:-1]
        others = [
            Row(r.prompt_ids, [*r.completion_ids[:-1], 3], r.advantages_T, r.sampler_logps_T)
            if i != 1
            else Row(r.prompt_ids, [*changed, 3], r.advantages_T, r.sampler_logps_T)
            for i, r in enumerate(rows)
        ]
        others[2] = Row(rows[2].prompt_ids, [9] * 30, np.zeros(30), np.zeros(30))
        after, new_row_N = token_logps(model, others, pad_id=0, temperature=1.0, autocast=None)
    torch.testing.assert_close(
        after[new_row_N == 1][:-1], before[row_N == 1][:-1], atol=1e-6, rtol=1e-6
    )


def test_an_architecture_that_was_not_compared_is_padded() -> None:
    model = model_of("gpt_neox")
    before = model.config._attn_implementation
    shared_prompt.install(model)
    assert model.config._attn_implementation == before
    assert not shared_prompt.packs(model, rows_of([3]))


def test_rollouts_longer_than_the_attention_window_are_padded() -> None:
    model, rows = model_of("mistral", sliding_window=12), rows_of([9], seed=3)
    padded, _ = logps_and_gradient(model, rows)
    shared_prompt.install(model)
    assert max(len(r.prompt_ids) + len(r.completion_ids) for r in rows) > 12
    assert not shared_prompt.packs(model, rows)
    again, _ = logps_and_gradient(model, rows)
    torch.testing.assert_close(again, padded, atol=1e-5, rtol=1e-5)


def test_an_installed_model_still_reads_plain_input_and_masks() -> None:
    model = model_of()
    ids = torch.tensor([[0, 0, 5, 6, 7], [3, 4, 5, 6, 7]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    with torch.no_grad():
        before = model(ids, attention_mask=mask).logits
        shared_prompt.install(model)
        after = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(after[mask == 1], before[mask == 1], atol=1e-5, rtol=1e-5)


@settings(deadline=None, max_examples=50)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), max_size=12),
    budget=st.integers(1, 40),
)
def test_passes_hold_every_row_once_and_keep_the_budget(
    lengths: list[tuple[int, int]], budget: int
) -> None:
    rows = [Ids((prompt,) * prompt, (1,) * size) for prompt, size in lengths]
    batches = list(shared_prompt.batches(rows, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(rows)))
    for batch in batches:
        prompts = {rows[i].prompt_ids for i in batch}
        tokens = sum(map(len, prompts)) + sum(len(rows[i].completion_ids) for i in batch)
        assert tokens <= budget or len(batch) == 1


def test_a_model_that_packs_gets_rows_of_one_prompt_together() -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    rows = [
        Row([p] * 9, [1] * size, np.ones(size), np.zeros(size)) for size in (2, 3) for p in (1, 2)
    ]
    shared_prompt.install(model)
    assert list(microbatches(model, rows, 14)) == [[0, 2], [1, 3]]
