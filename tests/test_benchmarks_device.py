"""The device script on a tiny shape: every part runs, and prints its figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo.benchmarks import device, shipped
from botgrpo.benchmarks.device import SMALL


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_each_part_is_measured_and_the_small_model_compared(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = json.loads((shipped.ROOT / "shapes" / SMALL / "config.json").read_text())
    shape |= {"model_type": kind, "hidden_size": 24, "intermediate_size": 32, "vocab_size": 300}
    shape |= {"num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1}
    (tmp_path / "shapes" / SMALL).mkdir(parents=True)
    (tmp_path / "shapes" / SMALL / "config.json").write_text(json.dumps(shape))
    arguments = ["--device", "cpu", "--prompts", "2", "--group", "2", "--tokens", "8", SMALL]
    config = device.settings  # found before the folder of shapes is another
    made = config(device.parser().parse_args(arguments))
    monkeypatch.setattr(device, "settings", lambda _: made)
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    assert device.main(arguments) == 0
    text = capsys.readouterr().out
    assert ("native engine" if kind == "llama" else "generic engine") in text
    assert text.count("tokens/s") == 2 and "GiB, planned" in text
    assert "largest difference to the CPU" in text and "0.0e+00 nats" in text


def test_the_shapes_that_it_measures_are_shipped() -> None:
    for name in device.parser().parse_args([]).models:
        assert (shipped.ROOT / "shapes" / name / "config.json").is_file()
