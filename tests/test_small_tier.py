"""SmolLM2-135M through the whole loop: real weights, real prompts, real sandbox, a real kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SETS = {
    "run.steps": 3,
    "run.eval_every": 3,
    "run.eval_prompts": 4,
    "run.checkpoint_every": 1,
    "sampling.prompts": 2,
    "sampling.group_size": 4,
    "sampling.max_new_tokens": 48,
    "policy.warm_start.steps": 3,
    "policy.warm_start.examples": 32,
    "policy.warm_start.batch_size": 4,
}


def start(out: Path) -> subprocess.Popen[bytes]:
    words = [word for key, value in SETS.items() for word in ("--set", f"{key}={value}")]
    line = [sys.executable, "-m", "botgrpo.benchmarks.cli", "train", "react_small", *words]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    return subprocess.Popen([*line, "--out", str(out), "--resume"], env=environment)


def metrics(out: Path) -> list[dict[str, Any]]:
    path = out / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


@pytest.mark.small
@pytest.mark.slow
@pytest.mark.kill
def test_a_run_of_the_135m_model_survives_a_kill_with_the_same_metrics(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert start(whole).wait(timeout=900) == 0
    process = start(cut)
    deadline = time.monotonic() + 900
    while not (cut / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(metrics(cut)) < 3
    assert start(cut).wait(timeout=900) == 0
    assert metrics(cut) == metrics(whole)
    assert [m["step"] for m in metrics(whole)] == [1, 2, 3]
    assert all(m["bot/unscored"] == 0 for m in metrics(whole))
    manifest = json.loads((whole / "manifest.json").read_text())
    assert len(manifest["model"]["sha256"]) == 64
    assert manifest["sandbox"]["backend"] in ("docker", "bubblewrap")
