"""Each named method is whole, says where it is from, and trains or says why it cannot."""

from __future__ import annotations

import inspect
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import loop
from botgrpo.trainer.advantages import ADVANTAGES
from botgrpo.trainer.algorithms import ALGORITHMS, PORTS, algorithm, describe, entry
from botgrpo.trainer.loop import Run
from botgrpo.trainer.losses import AGGREGATIONS, LOSSES
from botgrpo.trainer.policy import load_policy
from botgrpo.trainer.update import update
from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder

NAMES = {
    *("bot_grpo", "grpo", "grpo_process", "dr_grpo", "rloo", "reinforce_pp", "gspo", "gspo_token"),
    *("dapo", "pure", "prime", "hapo", "grpo_lambda", "lambda_grpo", "gtpo", "grpo_s", "eapo"),
    "vapo",
}
UNAVAILABLE = {"lambda_grpo", "gtpo", "grpo_s", "eapo"}
TRAINABLE = sorted(set(ALGORITHMS) - UNAVAILABLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


def test_every_name_of_the_contract_is_there() -> None:
    assert set(ALGORITHMS) >= NAMES
    assert {a.name for a in ALGORITHMS.values() if a.unavailable} == UNAVAILABLE


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_an_entry_names_parts_that_exist_and_its_source(name: str) -> None:
    found = entry(name)
    assert found.name == name
    assert found.advantage in ADVANTAGES and found.loss in LOSSES
    assert found.aggregation in AGGREGATIONS and found.port in PORTS
    assert re.search(r"arXiv \d{4}\.\d{5}", found.source)
    assert found.summary and 0 < found.clip_low <= found.clip_high < 1


@pytest.mark.parametrize("name", TRAINABLE)
def test_what_an_advantage_requires_its_port_supplies(name: str) -> None:
    found = entry(name)
    parameters = inspect.signature(ADVANTAGES[found.advantage]).parameters.values()
    required = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    supplied = {"step_ends_K_T"} if found.port.startswith("step") else set()
    supplied |= {"outcomes_K"} if found.port.endswith("_and_outcome") else set()
    supplied |= {"values_K_T"} if found.critic else set()
    assert required <= supplied


def make(folder: Path, out: Path, **sets: object) -> Run:
    return Run(
        config=tiny_config(run__steps=2, run__eval_every=2, **sets),
        policy=load_policy(folder),
        task=StubTask(),
        reward=StubReward(lose="/0"),
        judge=StubReward(),
        out=out,
    )


@pytest.mark.parametrize("name", TRAINABLE)
def test_every_available_method_trains(name: str, folder: Path, tmp_path: Path) -> None:
    sets = {"critic__pretrain_steps": 0} if entry(name).critic else {}
    make(folder, tmp_path, algorithm=name, **sets).train(resume=False)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert all(math.isfinite(value) for line in lines for value in line.values())
    assert any(line["grad_norm"] > 0 for line in lines)


@pytest.mark.parametrize("name", sorted(UNAVAILABLE))
def test_what_cannot_be_trained_is_refused_before_a_model_is_loaded(name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"algorithm '{name}' cannot be trained here: .*Trainabl"
    ):
        algorithm(name)


def test_a_run_refuses_what_cannot_be_trained_and_options_that_do_not_exist(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="cannot be trained here"):
        make(folder, tmp_path, algorithm="eapo")
    with pytest.raises(ConfigError, match="no option 'wieght'"):
        make(folder, tmp_path, algorithm_options__wieght="pooled")


def test_rollouts_of_dropped_groups_do_not_reach_the_update(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[int] = []

    def spy(model: Any, optimizer: Any, rows: Any, *rest: Any, **options: Any) -> dict[str, float]:
        reached.append(len(rows))
        return update(model, optimizer, rows, *rest, **options)

    monkeypatch.setattr(loop, "update", spy)
    make(folder, tmp_path, algorithm="dapo").train(resume=False)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    dropped = [int(line["bot/dropped"]) for line in lines]
    assert any(dropped)
    assert reached == [8 - 2 - n for n in dropped]  # two of eight are lost on purpose


def test_a_formula_that_was_not_found_is_called_unavailable() -> None:
    assert "formula unavailable" in entry("eapo").unavailable
    for name in ("gtpo", "grpo_s"):
        assert "formula unavailable" in entry(name).paper


def test_an_unknown_algorithm_names_what_exists() -> None:
    with pytest.raises(ConfigError, match=r"no algorithm 'bot_gpro'\. Did you mean 'bot_grpo'"):
        algorithm("bot_gpro")


def test_an_option_that_the_advantage_does_not_have_is_named() -> None:
    assert algorithm("bot_grpo", ["uniform_group", "weight"]).name == "bot_grpo"
    with pytest.raises(ConfigError, match=r"bot_grpo has no option 'wieght'\. Allowed: ddof, eps,"):
        algorithm("bot_grpo", ["wieght"])
    with pytest.raises(ConfigError, match=r"rloo has no option 'eps'\. Allowed: none"):
        algorithm("rloo", ["eps"])
    with pytest.raises(ConfigError, match="no option 'outcomes_K'"):  # the batch's, not the user's
        algorithm("bot_grpo", ["outcomes_K"])


def test_papers_clip_ranges() -> None:
    assert (entry("gspo").clip_low, entry("gspo").clip_high) == (3e-4, 4e-4)
    assert (entry("dapo").clip_low, entry("dapo").clip_high) == (0.2, 0.28)
    assert [entry(f"{n}_mean").port for n in ("grpo", "dr_grpo", "rloo", "gspo", "dapo")] == [
        "mean"
    ] * 5


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_method_is_described_with_source_defaults_and_needs(name: str) -> None:
    words = describe(entry(name))
    assert {"summary", "source", "reads", "advantage", "loss", "aggregation"} <= set(words)
    assert words["trainable"].startswith("no: " if name in UNAVAILABLE else "yes")
    if name == "hapo":
        assert "fall_back_at = 5.0" in words["advantage"]
    if name == "gtpo":
        assert "outcome_weight = required" in words["advantage"]
    if name == "vapo":
        assert words["needs"] == "a critic's values"
