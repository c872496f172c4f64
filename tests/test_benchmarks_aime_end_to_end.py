"""`aime_micro` from its warm start to learning on symbolic step checks, without a sandbox."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks import assemble, cli, math_eval, shipped, suite
from botgrpo.benchmarks.tasks.aime_micro import AimeMicroTask
from botgrpo.benchmarks.warm_start_aime import TAGS, AimeRecipe, aime_micro, measure_answers
from botgrpo.trainer.config import to_toml

TINY = AimeRecipe(
    drill_steps=2,
    drill_batch=4,
    solutions=16,
    solution_steps=2,
    solution_batch=4,
    eval_prompts=4,
)
SHIPPED = sorted((shipped.ROOT / "checkpoints" / "aime_micro").glob("seed*"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start") / "tiny"
    aime_micro(folder, seed=0, recipe=TINY, say=lambda _: None)
    return folder


def own_config(folder: Path, model: Path) -> Path:
    """The shipped configuration, made small."""
    data = tomllib.loads((shipped.ROOT / "configs" / "aime_micro.toml").read_text())
    data["policy"]["model"] = str(model)
    data["sampling"] |= {"prompts": 2, "group_size": 4, "max_new_tokens": 24}
    data["run"] |= {"steps": 2, "eval_every": 1, "eval_prompts": 4, "log_rollouts": 2}
    path = folder / "own.toml"
    path.write_text(to_toml(data))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_checkpoint_is_made_again_bit_for_bit_from_its_seed(start: Path, tmp_path: Path) -> None:
    again = aime_micro(tmp_path / "again", seed=0, recipe=TINY, say=lambda _: None)
    first = json.loads((start / "manifest.json").read_text())
    assert again["sha256"] == first["sha256"]
    assert again["measured"] == first["measured"]
    assert 0.0 <= first["measured"]["correct"] <= 1.0


def test_a_run_learns_on_the_answer_and_the_steps_without_a_sandbox(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, out = own_config(tmp_path, start), tmp_path / "out"
    monkeypatch.setattr("botgrpo.sandbox.backends.chooser", lambda *_: pytest.fail("a sandbox"))
    assert cli.main(["train", str(config), "--out", str(out)]) == 0
    assert [row["step"] for row in lines(out / "eval.jsonl")] == [0, 1, 2]
    assert all({"correct", "answered"} <= row.keys() for row in lines(out / "eval.jsonl"))
    assert json.loads((out / "manifest.json").read_text())["sandbox"] == {}
    rollouts = lines(out / "rollouts.jsonl")
    assert rollouts and all(set(r["reference"]) == {"accepted"} for r in rollouts)
    assert all(len(r["local"]) == len(r["token_ids"]) for r in rollouts)
    capsys.readouterr()
    assert cli.main(["eval", str(out), "--prompts", "4"]) == 0
    assert "correct" in capsys.readouterr().out
    words = [str(out), "--prompts", "3", "--samples", "4", "--k", "1", "2"]
    assert math_eval.main(words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("step       2\navg@4")
    assert "samples    12" in printed


def test_a_refuted_step_costs_its_own_tokens_only(start: Path, tmp_path: Path) -> None:
    from botgrpo.benchmarks import training
    from botgrpo.rewards.base import Rollout
    from botgrpo.trainer.policy import load_policy

    config = training.load_config(str(own_config(tmp_path, start)), ())
    policy = load_policy(start)
    text = "<step 1>Sum: 2+3=5</step 1>\n<step 2>Rest: 5*7=36</step 2>\n<final>36</final>"
    ids = tuple(policy.tokenizer.encode(text, add_special_tokens=False))
    decoded, spans = policy.token_bytes.decode(ids)
    assert decoded == text
    assert sum(text[a:b] in TAGS for a, b in spans) == 6
    rollout = Rollout("r", "g", "?", text, {"accepted": [35]}, ids, tuple(spans))
    with_scores = assemble.reward(config)
    (score,) = asyncio.run(with_scores.score([rollout]))
    assert score.outcome == 0.0 and score.local is not None
    blamed = "".join(text[a:b] for v, (a, b) in zip(score.local, spans, strict=True) if v)
    assert blamed == "Rest: 5*7=36"


def test_the_suite_compares_step_checks_with_the_answer_alone() -> None:
    plans = suite.cells(suite.load("aime_quick"))
    assert {(p.arm, p.config.algorithm) for p in plans} == {
        ("bot_grpo", "bot_grpo"),
        ("grpo", "grpo"),
    }
    assert {p.config.task for p in plans} == {"aime_micro"}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda p: p.name)
def test_shipped_start_is_right_sometimes(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert 0.1 <= manifest["measured"]["correct"] <= 0.4
    assert manifest["measured"]["answered"] >= 0.9
    again = measure_answers(folder, AimeMicroTask().eval_items(64))
    assert abs(again["correct"] - manifest["measured"]["correct"]) < 0.2


def test_a_checkpoint_ships() -> None:
    assert SHIPPED
