"""What a configuration makes of a model folder: adapters, recomputed layers, where it lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GraniteConfig, GraniteForCausalLM

from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import checkpoint
from botgrpo.trainer.config import LoraConfig, PolicyConfig
from botgrpo.trainer.engines.base import Sampling
from botgrpo.trainer.engines.native import NativeEngine
from botgrpo.trainer.logps import token_logps
from botgrpo.trainer.loop import Run
from botgrpo.trainer.policy import Policy, device, load_policy
from botgrpo.trainer.reference import Reference
from test_trainer_loop import lines
from test_trainer_update import some_rows
from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder

SETS = {"optim__learning_rate": 0.05, "optim__epochs": 2, "optim__minibatches": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


def with_lora(folder: Path, **sets: Any) -> Policy:
    pytest.importorskip("peft")
    return load_policy(folder, PolicyConfig(model="x", lora=LoraConfig(rank=4), **sets), seed=3)


def make(policy: Policy, out: Path, **sets: Any) -> Run:
    out.mkdir(exist_ok=True)
    return Run(tiny_config(**SETS, **sets), policy, StubTask(), StubReward(), StubReward(), out)


def test_adapters_begin_as_the_model_and_alone_learn(folder: Path, tmp_path: Path) -> None:
    plain, adapted = load_policy(folder), with_lora(folder)
    frozen = {n: p.clone() for n, p in adapted.model.named_parameters() if not p.requires_grad}
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(plain.model(ids).logits, adapted.model(ids).logits)
    run = make(adapted, tmp_path, optim__kl=0.1)
    run.train(resume=False)
    for name, parameter in adapted.model.named_parameters():
        if name in frozen:
            assert torch.equal(parameter, frozen[name])
    assert not torch.allclose(plain.model(ids).logits, adapted.model(ids).logits, atol=1e-4)
    metrics = lines(tmp_path / "metrics.jsonl")
    # the engine decodes with the adapters, the reference without them
    assert max(m["sampling/sampling_logp_difference/max"] for m in metrics) < 1e-3
    assert metrics[-1]["kl"] > 0
    with Reference(adapted.model).model() as start:
        assert torch.equal(plain.model(ids).logits, start(ids).logits)


def test_a_run_with_adapters_resumes_to_the_same_weights(folder: Path, tmp_path: Path) -> None:
    whole = make(with_lora(folder), tmp_path / "whole")
    whole.train(resume=False)
    make(with_lora(folder), tmp_path / "cut", run__steps=2).train(resume=False)
    resumed = make(with_lora(folder), tmp_path / "cut")
    resumed.train(resume=True)
    assert lines(tmp_path / "cut/metrics.jsonl") == lines(tmp_path / "whole/metrics.jsonl")
    for a, b in zip(
        whole.policy.model.parameters(), resumed.policy.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)
    saved = torch.load(tmp_path / "cut/checkpoints/step-000004/weights.pt", weights_only=True)
    assert saved["model"] and all("lora_" in name for name in saved["model"])


def test_a_checkpoint_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    make(with_lora(folder), tmp_path).train(resume=False)
    other = make(load_policy(folder), tmp_path)
    with pytest.raises(RunFailed, match="another model"):
        checkpoint.restore(
            tmp_path / "checkpoints/step-000004", other.policy.model, other.optimizer
        )


def test_frozen_weights_may_be_bf16_and_adapters_are_not(folder: Path) -> None:
    model = with_lora(folder, update_dtype="bfloat16").model
    for parameter in model.parameters():
        expected = torch.float32 if parameter.requires_grad else torch.bfloat16
        assert parameter.dtype == expected


def test_layers_for_adapters_that_do_not_exist_are_named(folder: Path) -> None:
    pytest.importorskip("peft")
    config = PolicyConfig(model="x", lora=LoraConfig(targets=("q_porj",)))
    with pytest.raises(ConfigError, match=r"policy\.lora\.targets.*q_porj"):
        load_policy(folder, config)


def test_recomputed_layers_give_the_same_gradient(folder: Path) -> None:
    gradients = []
    for again in (False, True):
        model = load_policy(folder, PolicyConfig(model="x", gradient_checkpointing=again)).model
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        model.model.layers[0].mlp.register_forward_pre_hook(count)
        logps_N, _ = token_logps(model, some_rows(), pad_id=0, temperature=1.0, autocast=None)
        logps_N.sum().backward()  # type: ignore[no-untyped-call]
        assert calls == 1 + again
        gradients.append([p.grad for p in model.parameters()])
        # "in training" is the layer alone: nothing inside it may drop anything
        inside = [m for n, m in model.named_modules() if n.count(".") > 2]
        assert inside and not any(m.training for m in inside)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_a_model_that_scales_its_logits_is_refused(folder: Path, tmp_path: Path) -> None:
    config = GraniteConfig(
        vocab_size=300,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        logits_scaling=0.01,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    GraniteForCausalLM(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(ConfigError, match="changes its logits after the output layer"):
        load_policy(tmp_path)


def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device("auto").type == "cpu"
    with pytest.raises(ConfigError, match=r"policy\.device=auto"):
        device("cuda")


def test_the_chat_template_gets_its_options(folder: Path) -> None:
    policy = load_policy(folder, PolicyConfig(model="x", chat_options={"enable_thinking": False}))
    policy.tokenizer.chat_template = (
        "{{ messages[0]['content'] }}{% if enable_thinking %}abc{% endif %}"
    )
    short = policy.prompt_ids("ab")
    policy.chat_options = {"enable_thinking": True}
    assert len(policy.prompt_ids("ab")) > len(short)


def test_merged_adapters_are_what_the_native_engine_decodes_with(folder: Path) -> None:
    policy = with_lora(folder)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=torch.manual_seed(0)))
    engine = NativeEngine(
        policy.model, end_ids=policy.end_ids, pad_id=policy.pad_id, dtype=torch.float32
    )
    (sample,) = engine.generate([[5, 6]], 1, [0], Sampling(8))
    with torch.no_grad():
        logits = policy.model(torch.tensor([[5, 6, *sample.token_ids]])).logits[0, 1:-1]
    expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(sample.token_ids)[:, None])
    torch.testing.assert_close(torch.from_numpy(sample.logps), expected[:, 0], atol=1e-4, rtol=1e-4)
