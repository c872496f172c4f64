"""Checkpoints that are whole or not there, and files that agree with them after a crash.

A checkpoint is written beside its final name and renamed; the newest complete one wins. On resume
the run's JSON Lines files are cut back to the checkpoint's step, so that what is redone is not
there twice. No random state is kept because none is used: every draw is a function of seed, step
and rollout.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from botgrpo.sandbox.errors import RunFailed

KEEP = 2


class Learner(Protocol):
    """What learns beside the policy: a model and its optimiser."""

    model: Any
    optimizer: Any


def save(
    folder: Path,
    step: int,
    model: Any,
    optimizer: Any,
    state: Mapping[str, Any],
    beside: Mapping[str, Learner] | None = None,
) -> Path:
    """Write `folder/step-NNNNNN`; older ones beyond the newest two are removed.

    Raises RunFailed for weights that are not finite, and where the disk refuses.
    """
    learners = [model, *(learner.model for learner in (beside or {}).values())]
    if not all(bool(p.isfinite().all()) for each in learners for p in each.parameters()):
        raise RunFailed(
            f"weights after step {step} are not finite, and are not saved. The last checkpoint is "
            "intact: lower optim.learning_rate and go on with --resume"
        )
    final = folder / f"step-{step:06d}"
    for left in folder.glob(".partial-*"):  # of a run that was killed while it saved
        shutil.rmtree(left, ignore_errors=True)
    partial = folder / f".partial-{step:06d}"
    try:
        partial.mkdir(parents=True)
        weights = {"model": learned(model), "optimizer": optimizer.state_dict()}
        for name, learner in (beside or {}).items():
            weights[name] = {
                "model": learned(learner.model),
                "optimizer": learner.optimizer.state_dict(),
            }
        torch.save(weights, partial / "weights.pt")
        (partial / "state.json").write_text(json.dumps({"step": step, **state}))
        for path in partial.iterdir():
            _flush(path)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(partial, final)
        _flush(folder)
    except (OSError, RuntimeError) as error:  # torch's writer knows RuntimeError alone
        shutil.rmtree(partial, ignore_errors=True)
        raise RunFailed(
            f"could not write the checkpoint of step {step} in {folder}: {error}. Earlier "
            "checkpoints are intact: make room and go on with --resume"
        ) from error
    for old in complete(folder)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def complete(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(
        p
        for p in folder.glob("step-*")
        if (p / "state.json").is_file() and (p / "weights.pt").is_file()
    )


def latest(folder: Path) -> Path | None:
    found = complete(folder)
    return found[-1] if found else None


def step_of(path: Path | None) -> int:
    """The step after which a checkpoint was made; 0 for none."""
    return int(json.loads((path / "state.json").read_text())["step"]) if path else 0


def restore(
    path: Path,
    model: Any,
    optimizer: Any,
    beside: Mapping[str, Learner] | None = None,
) -> dict[str, Any]:
    """Load weights and optimisers in place; returns the saved state with its `step`."""
    weights = torch.load(path / "weights.pt", map_location="cpu", weights_only=True)
    _load(path, weights, model, optimizer)
    for name, learner in (beside or {}).items():
        if name not in weights:
            raise RunFailed(f"{path} holds no {name} beside the policy; choose another --out")
        _load(path, weights[name], learner.model, learner.optimizer)
    state: dict[str, Any] = json.loads((path / "state.json").read_text())
    return state


def _load(path: Path, weights: Mapping[str, Any], model: Any, optimizer: Any) -> None:
    if set(weights["model"]) != set(learned(model)):
        raise RunFailed(f"{path} holds the weights of another model; choose another --out")
    model.load_state_dict(weights["model"], strict=False)
    optimizer.load_state_dict(weights["optimizer"])


def learned(model: Any) -> dict[str, Any]:
    """The part of a model's state that a run changes: all but its frozen parameters."""
    frozen = {
        name
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if not parameter.requires_grad
    }
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


def truncate_after(path: Path, step: int) -> None:
    """Drop lines later than `step`, and a last line that a crash cut short."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        if not line.endswith("\n") or record["step"] > step:
            break
        kept.append(line)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text("".join(kept), encoding="utf-8")
    os.replace(partial, path)


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add one JSON line; ASCII, so that anything a model wrote survives any reader.

    Raises RunFailed where the disk refuses, or a number is not finite.
    """
    try:
        line = json.dumps(record, allow_nan=False) + "\n"
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
    except (OSError, ValueError) as error:
        raise RunFailed(
            f"could not write step {record['step']} to {path}: {error}. The last checkpoint is "
            "intact: mend the cause and go on with --resume"
        ) from error


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
