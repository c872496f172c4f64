"""Models by their name on the Hub: fetched on demand, found in the Hub's own cache, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import models


def test_a_hub_model_is_found_in_the_hubs_cache_only_with_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "snapshots" / "abc" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text("{}")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: str(config))
    with pytest.raises(ConfigError, match="botgrpo models fetch Some/Model"):
        models.locate("Some/Model", tmp_path)
    (config.parent / "model.safetensors").write_text("")
    assert models.locate("Some/Model", tmp_path) == config.parent


def test_what_is_not_cached_names_the_command_that_fetches_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="botgrpo models fetch Nobody/Nothing-3B"):
        models.locate("Nobody/Nothing-3B", tmp_path)


def test_fetching_takes_weights_and_tokenizer_and_no_pickles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.update(name=name, patterns=allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert models.fetch("Some/Model") == tmp_path
    assert asked["name"] == "Some/Model" and "*.safetensors" in asked["patterns"]
    assert not any("bin" in p or "pt" in p or p == "*" for p in asked["patterns"])


def test_a_hub_that_cannot_be_reached_is_reported_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(name: str, allow_patterns: list[str]) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gone)
    with pytest.raises(RunFailed, match=r"no route to host.*HF_ENDPOINT"):
        models.fetch("Some/Model")
