"""What TRL and verl really log is read. Runs in .envs/trl and in .envs/verl."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest

import walk
from botgrpo.benchmarks import logs
from botgrpo.trainer.micro import build_model, build_tokenizer
from tiny import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.trl
@pytest.mark.parametrize("chat", [False, True])
def test_a_real_run_of_trl_is_imported(tmp_path: Path, chat: bool) -> None:
    if importlib.util.find_spec("trl") is None:
        pytest.skip("TRL has pins of its own; next: make env-trl")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = build_tokenizer(TEXTS, vocab_size=300)
    asks = ("say the letter a", "b", "aaa", "ab")
    prompts: list[Any] = [[{"role": "user", "content": a}] if chat else a for a in asks]

    def letters(completions: list[Any], log_extra: Any, **_: Any) -> list[float | None]:
        log_extra("ground_truth", ["4"] * len(completions))
        return [None if k == 0 else float(k) for k in range(len(completions))]

    trainer = GRPOTrainer(
        build_model(tokenizer, seed=0, layers=1, width=16),
        letters,
        GRPOConfig(
            str(tmp_path),
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=6,
            max_steps=2,
            steps_per_generation=1,
            use_cpu=True,
            bf16=False,
            log_completions=True,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": p} for p in prompts]),
        processing_class=tokenizer,
    )
    trainer.train()
    found = logs.load("trl", tmp_path / "completions")
    assert len(found.rollouts) == 8 and not found.notes
    assert len({r.group for r in found.rollouts}) == 2
    assert len({r.id for r in found.rollouts}) == 8
    first = found.rollouts[0]
    assert first.prompt in ([[dict(p[0])] for p in prompts] if chat else prompts)
    assert first.reference == {"letters": None, "ground_truth": "4"}
    assert found.rollouts[1].reference["letters"] == 1.0
    assert all(isinstance(r.completion, str) for r in found.rollouts)
    if chat:  # docs/own_reward.md walks on with this log
        (tmp_path / "trl-run").mkdir()
        (tmp_path / "completions").rename(tmp_path / "trl-run/completions")
        walk.write_files(tmp_path)
        said = [walk.run(line, tmp_path) for line in walk.sections()["What TRL logged"]]
        assert "8 rollouts of 2 groups" in said[0] and "rules.py:ShortLines" in said[1]


@pytest.mark.verl
def test_what_verl_writes_is_imported(tmp_path: Path) -> None:
    if importlib.util.find_spec("verl") is None:
        pytest.skip("verl has pins of its own; next: make env-verl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    RayPPOTrainer._write_generations(
        ["user\nsum?", "user\nsum?"],
        ["42", "x\u2028y"],
        ["42", "42"],
        [1.0, 0.0],
        {"acc": [True, False], "request_id": ["a", "b"]},
        str(tmp_path),
        3,
    )
    found = logs.load("verl", tmp_path)
    assert [r.completion for r in found.rollouts] == ["42", "x\u2028y"]
    assert len({r.group for r in found.rollouts}) == 1
    assert found.rollouts[0].reference["accepted"] == [42]
    assert found.rollouts[0].reference["acc"] is True
