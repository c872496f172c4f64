"""A run killed at random moments and resumed ends like one that was not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from botgrpo.benchmarks import kills


def finished(folder: Path, **changes: float) -> Path:
    """Files as a run of one step leaves them."""
    saved = folder / "checkpoints" / "step-000001"
    saved.mkdir(parents=True)
    weights = torch.tensor([0.0, changes.get("weight", 1.0)])
    torch.save({"model": {"w": weights}, "optimizer": {"state": [1]}}, saved / "weights.pt")
    record = {"step": 1, "loss": changes.get("loss", 0.5), "time/update_s": changes["clock"]}
    for name in kills.FILES:
        (folder / name).write_text(json.dumps(record) + "\n")
    return folder


def test_the_comparison_sees_a_bit_and_not_the_clock(tmp_path: Path) -> None:
    whole = finished(tmp_path / "whole", clock=1.0)
    assert kills.differences(whole, finished(tmp_path / "same", clock=2.0)) == []
    other = finished(tmp_path / "weight", clock=1.0, weight=1.0000001)
    assert kills.differences(whole, other) == [
        f"weights or optimiser of {other / 'checkpoints/step-000001'}"
    ]
    other = finished(tmp_path / "loss", clock=1.0, loss=0.5000000000000001)
    assert len(kills.differences(whole, other)) == len(kills.FILES)
    other = finished(tmp_path / "zero", clock=1.0)
    negative = {"model": {"w": torch.tensor([-0.0, 1.0])}, "optimizer": {"state": [1]}}
    torch.save(negative, other / "checkpoints/step-000001/weights.pt")
    assert len(kills.differences(whole, other)) == 1


@pytest.mark.kill
@pytest.mark.slow
def test_three_kills_change_nothing(tmp_path: Path) -> None:
    arguments = ["--kills", "3", "--out", str(tmp_path), "--set", "run.steps=4"]
    assert kills.main(arguments) == 0
    assert (tmp_path / "killed-1" / "metrics.jsonl").exists()
