"""What is counted without weights is what a real model with weights holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, SmolLM3Config

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import footprint as fp
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.llama import LlamaDecoder
from botgrpo.trainer.logps import Row, hidden_states
from botgrpo.trainer.pace import measure
from botgrpo.trainer.policy import DTYPES, load_policy
from tiny import tiny_config, tiny_policy_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


def rows_of(rows: int, prompt: int = 9, new: int = 12) -> list[Row]:
    """Rollouts of one prompt."""
    return [Row([1] * prompt, [1] * new, np.zeros(0), np.zeros(0)) for _ in range(rows)]


def counted_for_real(folder: Path, config: Config, rows: list[Row]) -> int:
    """Bytes that a real forward pass keeps."""
    model = load_policy(folder, config.policy).model
    dtype = config.policy.update_dtype
    autocast = None if dtype == "float32" else DTYPES[dtype]
    with fp.kept_bytes(model) as kept, torch.autocast("cpu", autocast, enabled=bool(autocast)):
        hidden_states(model, rows, pad_id=0)
    return sum(kept.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_are_those_of_a_real_forward_pass(folder: Path, dtype: str) -> None:
    config = tiny_config(policy__update_dtype=dtype)
    predicted = fp.activations(fp.read_config(folder), config, rows_of(3))
    assert predicted == counted_for_real(folder, config, rows_of(3)) > 0


def test_layers_that_are_computed_again_keep_less(folder: Path) -> None:
    config = tiny_config(policy__gradient_checkpointing="true")
    plain = counted_for_real(folder, tiny_config(), rows_of(3))
    again = counted_for_real(folder, config, rows_of(3))
    # one layer alone: what is kept between layers, and that layer while it is computed again
    assert again < plain / 4
    assert fp.activations(fp.read_config(folder), config, rows_of(3)) == again + plain


def test_a_deep_model_is_counted_from_a_few_of_its_layers() -> None:
    shape: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "vocab_size": 50}
    deep = LlamaConfig(**shape, num_hidden_layers=20, num_attention_heads=2, num_key_value_heads=1)
    rows = rows_of(2)
    assert fp.activations(deep, tiny_config(), rows) == fp._kept(deep, tiny_config(), rows)


def test_fewer_layers_keep_their_kinds() -> None:
    config = SmolLM3Config(num_hidden_layers=8, no_rope_layer_interval=4)
    cut = fp.with_layers(config, 5)
    assert cut.no_rope_layers == [1, 1, 1, 0, 1] and len(cut.layer_types) == 5
    assert config.num_hidden_layers == 8


def test_weights_cache_and_optimiser_are_those_of_a_run(folder: Path) -> None:
    config = tiny_config(optim__kl=0.1, policy__generate_dtype="bfloat16")
    found = fp.footprint(config, folder, prompt_tokens=10)
    policy = load_policy(folder)
    parameters = sum(p.numel() for p in policy.model.parameters())
    assert found.parameters == found.trained == parameters
    assert found.weights == found.gradients == found.reference == 4 * parameters
    assert found.optimizer == 8 * parameters and found.decoding == 2 * parameters
    rows, width = 2 * 4, 10 + 12
    assert (found.rows, found.width, found.micro_rows) == (rows, width, rows)
    assert found.micro_tokens == found.update_tokens == 2 * 10 + rows * 12  # a prompt is there once
    cache = LlamaDecoder(policy.model, torch.bfloat16).new_cache(rows, width)
    assert found.cache == sum(t.numel() * t.element_size() for pair in cache for t in pair)
    assert found.peak == found.steady + max(
        found.cache + found.drawing, found.activations + found.logits
    )


def test_what_vllm_holds_is_there_all_the_time_and_what_a_server_holds_is_not_here(
    folder: Path,
) -> None:
    native = fp.footprint(tiny_config(), folder, prompt_tokens=10)
    sets = {"engine__kind": "vllm", "engine__memory_gib": 0.5}
    inside = fp.footprint(tiny_config(**sets), folder, prompt_tokens=10)
    assert inside.decoding == native.parameters * 4 + 2**29 and inside.cache == 0
    sets = {"engine__kind": "vllm-server", "engine__url": "'http://localhost'"}
    outside = fp.footprint(tiny_config(**sets), folder, prompt_tokens=10)
    assert outside.decoding == outside.cache == outside.drawing == 0


def test_with_adapters_only_they_need_gradients(folder: Path) -> None:
    pytest.importorskip("peft")
    config = tiny_config(policy__lora__rank=2, policy__update_dtype="bfloat16", optim__kl=0.1)
    found = fp.footprint(config, folder, prompt_tokens=10)
    model = load_policy(folder, config.policy).model
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert found.trained == learned < found.parameters
    assert found.gradients == 4 * learned and found.reference == 0
    assert found.weights == 4 * learned + 2 * (found.parameters - learned)
    assert found.activations == counted_for_real(folder, config, fp.longest_rows(config, 10))


def test_a_small_budget_makes_more_passes_and_each_computes_its_prompts_again(
    folder: Path,
) -> None:
    config = tiny_config(optim__microbatch_tokens=10 + 2 * 12)
    found = fp.footprint(config, folder, prompt_tokens=10)
    assert (found.micro_rows, found.micro_tokens) == (2, 34)
    assert found.update_tokens == 4 * 34


def test_a_pace_grows_with_what_is_done(folder: Path) -> None:
    config = tiny_config()
    found = fp.footprint(config, folder, prompt_tokens=10)
    pace = measure(config, folder, found)
    assert pace.generate_s >= 0 and pace.update_s > 0


def test_an_architecture_that_is_not_known_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no_such_model"}')
    with pytest.raises(ConfigError, match="no_such_model"):
        fp.read_config(tmp_path)
