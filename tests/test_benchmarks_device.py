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
    # found before the folder of shapes is another
    made = device.settings(SMALL, device.parser().parse_args(arguments))
    monkeypatch.setattr(device, "settings", lambda *_: made)
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    assert device.main(arguments) == 0
    text = capsys.readouterr().out
    assert ("native engine" if kind == "llama" else "generic engine") in text
    assert text.count("tokens/s") == 2 and text.count("by the plan") == 2 and "GiB, planned" in text
    assert "largest difference to the CPU" in text and "0.0e+00 nats" in text


def test_the_shapes_that_it_measures_are_shipped_and_the_largest_has_the_paper_s_step() -> None:
    given = device.parser().parse_args([])
    assert given.parts[0] == "micro"
    for name in given.parts[1:]:
        assert (shipped.ROOT / "shapes" / name / "config.json").is_file()
    sampling = device.settings(device.PAPER, given).sampling
    assert (sampling.prompts, sampling.group_size, sampling.max_new_tokens) == (8, 8, 1024)
    assert device.settings(SMALL, given).sampling.max_new_tokens == 256


@pytest.mark.slow
def test_the_first_figure_runs_with_real_compilers(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--device", "cpu", "--steps", "1", "--eval-prompts", "4", "micro"]
    assert device.main(arguments) == 0
    text = capsys.readouterr().out
    assert "micro F1 on cpu: 5 methods, 1 steps" in text
    assert text.count("compile 0.") == 5 and text.count("s a step") == 5
