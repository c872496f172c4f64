"""The engine for any causal model, on tiny random models of the classes that are shipped for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    SmolLM3Config,
)

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.engines.base import Sampling
from botgrpo.trainer.engines.generic import GenericEngine, engine_for
from botgrpo.trainer.engines.native import NativeEngine

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
SHAPE: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.2],
    "long_factor": [2.0, 4.0],
    "original_max_position_embeddings": 128,
}
# Qwen2.5 has biases, SmolLM3 layers without positions, Phi-4-mini rotates a part of each head
CONFIGS: dict[str, PreTrainedConfig] = {
    "qwen2": Qwen2Config(**SHAPE),
    "smollm3": SmolLM3Config(**SHAPE, no_rope_layers=[1, 1, 1, 0]),
    "phi3": Phi3Config(**SHAPE, rope_parameters=LONG_ROPE, sliding_window=1000),
    "sliding": Qwen2Config(
        **SHAPE, use_sliding_window=True, sliding_window=16, max_window_layers=2
    ),
}


def model_of(config: PreTrainedConfig) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return model


def engine(config: PreTrainedConfig, dtype: torch.dtype = torch.float32) -> GenericEngine:
    return GenericEngine(model_of(config), end_ids=range(3, 30), pad_id=0, dtype=dtype)


@pytest.mark.parametrize("name", CONFIGS)
def test_log_probabilities_are_those_of_the_model_on_each_row_alone(name: str) -> None:
    generic = engine(CONFIGS[name])
    samples = generic.generate(PROMPTS, 4, range(12), Sampling(40, temperature=0.8))
    for i, s in enumerate(samples):
        prompt = PROMPTS[i // 4]
        with torch.no_grad():
            logits = generic.model(torch.tensor([[*prompt, *s.token_ids]])).logits[0]
        logps = torch.log_softmax(logits / 0.8, -1)[len(prompt) - 1 : -1]
        expected = logps.gather(1, torch.tensor(s.token_ids)[:, None])[:, 0].numpy()
        np.testing.assert_allclose(s.logps, expected, atol=2e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_rollout_depends_on_its_key_and_not_on_its_neighbours(name: str) -> None:
    generic = engine(CONFIGS[name])
    together = generic.generate(PROMPTS, 4, range(12), Sampling(40))
    for i in (0, 5, 11):
        alone = generic.generate([PROMPTS[i // 4]], 1, [i], Sampling(40))[0]
        assert alone.token_ids == together[i].token_ids


def test_on_a_llama_it_draws_what_the_native_engine_draws() -> None:
    model = model_of(LlamaConfig(**SHAPE))
    kwargs: dict[str, Any] = {"end_ids": range(3, 30), "pad_id": 0, "dtype": torch.float32}
    chosen = engine_for(model, **kwargs)
    assert isinstance(chosen, NativeEngine)
    generic = GenericEngine(model, **kwargs)
    ours = generic.generate(PROMPTS, 4, range(12), Sampling(40))
    theirs = chosen.generate(PROMPTS, 4, range(12), Sampling(40))
    assert [s.token_ids for s in ours] == [s.token_ids for s in theirs]
    assert isinstance(engine_for(model_of(CONFIGS["qwen2"]), **kwargs), GenericEngine)


def test_a_copy_in_another_type_changes_at_sync_and_the_policy_itself_at_once() -> None:
    for dtype, waits in ((torch.bfloat16, True), (torch.float32, False)):
        generic = engine(CONFIGS["qwen2"], dtype)
        before = generic.generate(PROMPTS, 2, range(6), Sampling(20))
        with torch.no_grad():
            for p in generic.source.parameters():
                p.add_(torch.randn_like(p) * 0.3)
        now = generic.generate(PROMPTS, 2, range(6), Sampling(20))
        assert ([s.token_ids for s in now] == [s.token_ids for s in before]) == waits
        generic.sync()
        after = generic.generate(PROMPTS, 2, range(6), Sampling(20))
        assert [s.token_ids for s in after] != [s.token_ids for s in before]
        assert generic.model.get_input_embeddings().weight.dtype == dtype


def test_a_prompt_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lower sampling\.max_new_tokens"):
        engine(CONFIGS["qwen2"]).generate([[5] * 100], 1, [0], Sampling(60))
