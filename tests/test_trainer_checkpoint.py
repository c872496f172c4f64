"""A checkpoint is whole or not there, and files agree with it after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from botgrpo.sandbox.errors import RunFailed
from botgrpo.trainer import checkpoint


def model_and_optimizer(seed: int) -> tuple[torch.nn.Linear, torch.optim.AdamW]:
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_restoring_gives_weights_and_optimiser_back(tmp_path: Path) -> None:
    model, optimizer = model_and_optimizer(0)
    path = checkpoint.save(tmp_path, 7, model, optimizer, {"extra": 1})
    other, other_optimizer = model_and_optimizer(1)
    state = checkpoint.restore(path, other, other_optimizer)
    assert state == {"step": 7, "extra": 1}
    assert torch.equal(model.weight, other.weight)
    for a, b in zip(
        optimizer.state_dict()["state"].values(),
        other_optimizer.state_dict()["state"].values(),
        strict=True,
    ):
        assert torch.equal(a["exp_avg_sq"], b["exp_avg_sq"])


def test_only_whole_checkpoints_count_and_only_the_newest_stay(tmp_path: Path) -> None:
    model, optimizer = model_and_optimizer(0)
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, model, optimizer, {})
    (tmp_path / "step-000009").mkdir()  # as a kill between two writes would leave it
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["step-000002", "step-000003"]
    latest = checkpoint.latest(tmp_path)
    assert latest is not None and latest.name == "step-000003"
    assert checkpoint.latest(tmp_path / "nothing") is None


def test_a_disk_that_refuses_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = model_and_optimizer(0)
    checkpoint.save(tmp_path, 1, model, optimizer, {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(RunFailed, match="No space left"):
        checkpoint.save(tmp_path, 2, model, optimizer, {})
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_lines_after_the_checkpoint_and_a_cut_last_line_go(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": i}) + "\n" for i in range(1, 6)]
    path.write_text("".join(lines) + '{"step": 6, "rew')
    checkpoint.truncate_after(path, 5)
    assert path.read_text() == "".join(lines)
    checkpoint.truncate_after(path, 3)
    assert path.read_text() == "".join(lines[:3])
    path.write_text("".join(lines[:3]) + '{"step": 4}')  # cut just before its newline
    checkpoint.truncate_after(path, 9)
    assert path.read_text() == "".join(lines[:3])
    checkpoint.truncate_after(tmp_path / "absent.jsonl", 3)


def test_what_a_model_wrote_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    nasty = "a\u2028b\u0085c\ud800\r\nd"
    checkpoint.append(path, {"step": 1, "completion": nasty})
    checkpoint.truncate_after(path, 1)
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["completion"] == nasty


def test_a_number_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="step 1"):
        checkpoint.append(tmp_path / "metrics.jsonl", {"step": 1, "reward": float("nan")})
