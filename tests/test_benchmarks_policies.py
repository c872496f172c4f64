"""The shipped 3B configurations on tiny random models of their own classes: no weights are here.

What this shows is that every part of a run fits the architecture. What the real weights learn, it
does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from botgrpo.benchmarks import plan, training
from botgrpo.trainer import config as configs
from botgrpo.trainer.config import Config
from botgrpo.trainer.loop import Run
from botgrpo.trainer.micro import build_tokenizer
from botgrpo.trainer.policy import load_policy
from test_trainer_loop import lines
from tiny import TEXTS, StubReward, StubTask

NAMES = ("react_qwen2.5_3b", "react_smollm3_3b", "react_phi4_mini")
SMALL = (
    "sampling.prompts=2",
    "sampling.group_size=4",
    "sampling.max_new_tokens=12",
    "optim.learning_rate=0.01",
    "run.steps=4",
    "run.eval_every=2",
    "run.eval_prompts=4",
    "run.checkpoint_every=2",
    "run.threads=1",
)
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}<|assistant|>"
    "{% if enable_thinking is not defined or enable_thinking %}think{% endif %}"
)


def tiny_of_its_class(name: str, folder: Path) -> Config:
    """The shipped configuration, small, on a random model of the shape's class in `folder`."""
    shipped = training.load_config(name, SMALL, weights=False)
    if shipped.policy.lora:
        pytest.importorskip("peft")
    shape, _ = plan.model_shape(shipped)
    data = json.loads((shape / "config.json").read_text())
    tokenizer = build_tokenizer(TEXTS, vocab_size=300)
    tokenizer.chat_template = TEMPLATE
    small = {
        "vocab_size": len(tokenizer) + 3,  # published models pad theirs as well
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
    }
    kind = data.pop("model_type")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**data, **small}))
    assert type(model).__name__ == data["architectures"][0]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return configs.parse(configs.override(_written(shipped), [f"policy.model={folder}"]), name)


def _written(config: Config) -> dict[str, Any]:
    return configs.parse_text(configs.to_toml(config.model_dump()))


def run(config: Config, out: Path, *, resume: bool) -> Run:
    out.mkdir(exist_ok=True)
    policy = load_policy(Path(config.policy.model), config.policy)
    made = Run(config, policy, StubTask(), StubReward(), StubReward(), out)
    made.train(resume=resume)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_policy_trains_and_resumes_to_the_same_bits(name: str, tmp_path: Path) -> None:
    config = tiny_of_its_class(name, tmp_path / "model")
    whole = run(config, tmp_path / "whole", resume=False)
    assert whole.engine.name == "generic"
    metrics = lines(tmp_path / "whole" / "metrics.jsonl")
    assert len(metrics) == 4 and any(m["grad_norm"] > 0 for m in metrics)
    # bf16 here and there: near, and logged
    assert max(m["sampling/sampling_logp_difference/mean"] for m in metrics) < 0.05
    shorter = configs.parse(configs.override(_written(config), ["run.steps=2"]), name)
    run(shorter, tmp_path / "cut", resume=False)
    resumed = run(config, tmp_path / "cut", resume=True)
    assert lines(tmp_path / "cut" / "metrics.jsonl") == metrics
    for a, b in zip(
        whole.policy.model.parameters(), resumed.policy.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("name", "thinks"), [(NAMES[0], True), (NAMES[1], False), (NAMES[2], True)]
)
def test_thinking_is_as_its_configuration_says(name: str, thinks: bool, tmp_path: Path) -> None:
    config = tiny_of_its_class(name, tmp_path / "model")
    policy = load_policy(Path(config.policy.model), config.policy)
    text = policy.tokenizer.decode(policy.prompt_ids("a b"))
    assert ("think" in text) == thinks
