"""The engine draws from the model's own distribution, whatever else is in the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer.engines.base import Sampling, uniforms
from botgrpo.trainer.engines.decode import sample
from botgrpo.trainer.engines.native import NativeEngine

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]


def engine(seed: int = 0, kv_heads: int = 2) -> NativeEngine:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        intermediate_size=48,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    model = LlamaForCausalLM(config).eval()
    return NativeEngine(model, end_ids=[3], pad_id=0, dtype=torch.float32)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_log_probabilities_are_those_of_transformers(kv_heads: int) -> None:
    native = engine(kv_heads=kv_heads)
    samples = native.generate(PROMPTS, 4, range(12), Sampling(40, temperature=0.8))
    assert len(samples) == 12
    for i, s in enumerate(samples):
        prompt = PROMPTS[i // 4]
        with torch.no_grad():
            logits = native.model(torch.tensor([[*prompt, *s.token_ids]])).logits[0]
        logps = torch.log_softmax(logits / 0.8, -1)[len(prompt) - 1 : -1]
        expected = logps.gather(1, torch.tensor(s.token_ids)[:, None])[:, 0].numpy()
        np.testing.assert_allclose(s.logps, expected, atol=2e-4)


def test_a_rollout_depends_on_its_key_and_not_on_its_neighbours() -> None:
    native = engine()
    together = native.generate(PROMPTS, 4, range(12), Sampling(40))
    for i in (0, 5, 11):
        alone = native.generate([PROMPTS[i // 4]], 1, [i], Sampling(40))[0]
        assert alone.token_ids == together[i].token_ids
    again = native.generate(PROMPTS, 4, range(12), Sampling(40, seed=1))
    assert [s.token_ids for s in again] != [s.token_ids for s in together]


def test_a_completion_ends_with_the_end_token_or_at_the_limit() -> None:
    samples = engine().generate(PROMPTS, 16, range(48), Sampling(60))
    assert {s.finish_reason for s in samples} == {"stop", "length"}
    for s in samples:
        assert 3 not in s.token_ids[:-1]
        assert (s.token_ids[-1] == 3) == (s.finish_reason == "stop")
        assert s.finish_reason == "stop" or len(s.token_ids) == 60


def test_new_weights_are_used_after_sync() -> None:
    native = engine()
    before = native.generate(PROMPTS, 2, range(6), Sampling(20))
    with torch.no_grad():
        for p in native.model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    assert [s.token_ids for s in native.generate(PROMPTS, 2, range(6), Sampling(20))] == [
        s.token_ids for s in before
    ]
    native.sync()
    assert [s.token_ids for s in native.generate(PROMPTS, 2, range(6), Sampling(20))] != [
        s.token_ids for s in before
    ]


def test_samples_follow_the_distribution() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 700) * 2
    n = 200_000
    draws = torch.from_numpy(np.random.default_rng(0).random(n))
    ids, logps = sample(logits.expand(n, -1), draws, 1.3)
    expected = torch.softmax(logits[0] / 1.3, -1)
    counts = torch.bincount(ids, minlength=700).double()
    # chi-square over ids that are expected ten times or more; mean is the number of cells
    cells = expected * n > 10
    chi2 = ((counts - expected * n) ** 2 / (expected * n))[cells].sum()
    degrees = float(cells.sum())
    assert abs(float(chi2) - degrees) < 5 * (2 * degrees) ** 0.5
    torch.testing.assert_close(logps, torch.log(expected[ids]).float(), atol=1e-4, rtol=1e-4)


def test_draws_at_the_edges_give_ids_that_can_happen() -> None:
    logits = torch.full((3, 600), -1e4)
    logits[:, 5] = 0.0
    logits[:, 599] = 0.0
    ids, _ = sample(logits, torch.tensor([0.0, 0.5 + 1e-9, 1 - 1e-16]), 1.0)
    assert ids.tolist() == [5, 599, 599]


def test_uniforms_depend_on_seed_and_key_only() -> None:
    a = uniforms([3, 9], 5, seed=1)
    np.testing.assert_array_equal(a[1], uniforms([9], 5, seed=1)[0])
    assert not np.array_equal(a, uniforms([3, 9], 5, seed=2))


def test_a_prompt_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lower sampling\.max_new_tokens"):
        engine().generate([[5] * 100], 1, [0], Sampling(60))


def test_every_rollout_is_told_of_once_and_early_ones_before_the_end() -> None:
    heard: list[list[int]] = []
    told: dict[int, object] = {}

    def ended(places: object, samples: object) -> None:
        heard.append(list(places))  # type: ignore[call-overload]
        told.update(zip(places, samples, strict=True))  # type: ignore[call-overload]

    native = engine()
    native.end_ids = torch.arange(3, 30)
    samples = native.generate(PROMPTS, 16, range(48), Sampling(60), ended)
    assert sorted(i for places in heard for i in places) == list(range(48))
    assert len(heard) > 2  # not all at the end
    assert all(told[i] is s for i, s in enumerate(samples))


def test_weights_that_have_overflowed_stop_the_run() -> None:
    native = engine()
    with torch.no_grad():
        native.model.model.norm.weight.fill_(float("inf"))
    native.sync()
    with pytest.raises(RunFailed, match="not finite"):
        native.generate(PROMPTS, 2, range(6), Sampling(5))
