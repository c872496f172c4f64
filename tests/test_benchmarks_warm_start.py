"""Micro checkpoints: made from a seed alone, and the shipped ones are what their manifests say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from botgrpo.benchmarks import shipped
from botgrpo.benchmarks.tasks.react import ReactTask
from botgrpo.benchmarks.warm_start import warm_started
from botgrpo.benchmarks.warm_start_react import Recipe, follows, measure, react_micro
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.trainer.config import Config, parse
from botgrpo.trainer.micro import build_model, build_tokenizer, save
from botgrpo.trainer.policy import load_policy

TINY = Recipe(
    outline_steps=2, outline_batch=4, files=16, file_steps=2, file_batch=4, eval_prompts=4
)
SHIPPED = sorted((shipped.ROOT / "checkpoints" / "react_micro").glob("seed*"))


def made(folder: Path, seed: int) -> dict[str, str]:
    try:
        return dict(react_micro(folder, seed=seed, recipe=TINY, say=lambda _: None)["sha256"])
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox: {error}")


def test_a_checkpoint_is_made_again_bit_for_bit_from_its_seed(tmp_path: Path) -> None:
    first, again = made(tmp_path / "a", 1), made(tmp_path / "b", 1)
    assert first == again
    other = made(tmp_path / "c", 2)
    assert other["model.safetensors"] != first["model.safetensors"]
    assert other["tokenizer.json"] == first["tokenizer.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]


def small_config(model: Path, **warm_start: float) -> Config:
    policy: dict[str, object] = {"model": str(model)}
    if warm_start:
        policy["warm_start"] = warm_start
    data = {"name": "own", "task": "react", "policy": policy}
    return parse({**data, "reward": {"outcomes": {"react.complete": 1.0}}}, "test")


def test_warm_start_of_any_model_is_made_once_for_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    pairs = [(item.prompt, text) for item, text in ReactTask().corpus(20, 0)]
    tokenizer = build_tokenizer(text for pair in pairs for text in pair)
    save(build_model(tokenizer, seed=0, layers=1, width=64), tokenizer, tmp_path / "model")
    said: list[str] = []
    config = small_config(tmp_path / "model", examples=8, steps=2, batch_size=4)
    folder = warm_started(config, None, say=said.append)
    assert "step 2/2" in said[-1]
    weights = (folder / "model.safetensors").read_bytes()
    assert weights != (tmp_path / "model" / "model.safetensors").read_bytes()
    assert warm_started(config, None, say=said.append) == folder
    assert "in the cache" in said[-1]
    other = small_config(tmp_path / "model", examples=8, steps=3, batch_size=4)
    assert warm_started(other, None, say=said.append) != folder
    again = warm_started(config, tmp_path / "out", say=said.append)
    assert (again / "model.safetensors").read_bytes() == weights


def test_a_model_without_settings_for_its_warm_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.warm_start"):
        warm_started(small_config(tmp_path), None)


def test_following_a_request_is_read_from_the_text() -> None:
    item = ReactTask().corpus(1, 0, 0.0)[0][0]
    clean = ReactTask().corpus(1, 0, 0.0)[0][1]
    assert follows(item, clean)["all_followed"]
    name = item.reference["name"]
    assert not follows(item, clean.replace(name, "Other"))["name"]
    tag = item.reference["elements"][0]
    assert not follows(item, clean.replace(f"<{tag}", "<b"))["elements"]
    assert not follows(item, "")["name"]


def test_three_micro_checkpoints_ship_with_one_tokenizer() -> None:
    assert [p.name for p in SHIPPED] == ["seed0", "seed1", "seed2"]
    assert len({(p / "tokenizer.json").read_bytes() for p in SHIPPED}) == 1
    assert len({(p / "model.safetensors").read_bytes() for p in SHIPPED}) == 3


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda p: p.name)
def test_shipped_files_are_those_of_the_manifest(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    found = {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.iterdir()
        if p.name != "manifest.json"
    }
    assert found == manifest["sha256"]
    assert (folder / "model.safetensors").stat().st_size < 1_500_000
    policy = load_policy(folder)
    assert policy.model.dtype == torch.float32


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda p: p.name)
def test_shipped_start_follows_requests_and_compiles_sometimes(folder: Path) -> None:
    measured = json.loads((folder / "manifest.json").read_text())["measured"]
    assert 0.15 <= measured["compile"] <= 0.30
    assert measured["name"] >= 0.9
    assert measured["elements"] >= 0.9
    try:
        again = measure(folder, ReactTask().eval_items(64))
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox: {error}")
    # 64 of 512 prompts: four standard errors of a rate of .9 and of .2
    assert again["name"] > 0.75
    assert 0.02 < again["compile"] < 0.45
