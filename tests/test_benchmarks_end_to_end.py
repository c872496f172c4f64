"""The main job for real: shipped policy, real compiler in its sandbox, report; and runs that are
killed at any moment and go on to the same numbers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks.results import load_suite
from botgrpo.trainer.config import to_toml

SIZES = {"sampling": {"prompts": 2, "group_size": 4}, "optim": {"learning_rate": 1e-3}}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "botgrpo.benchmarks.cli", *words]


def environment() -> dict[str, str]:
    path = os.pathsep.join(sys.path)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def records(path: Path) -> list[dict[str, Any]]:
    """Lines without what the clock decides."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    drop = ("seconds",)
    return [
        {k: v for k, v in row.items() if k not in drop and not k.startswith("time/")}
        for row in rows
    ]


def test_a_suite_runs_from_its_file_to_a_report(tmp_path: Path) -> None:
    suite = {
        "name": "tiny",
        "config": "react_micro",
        "baseline": "grpo",
        "seeds": [0],
        "primary": {"metric": "complete", "threshold": 0.5},
        "run": {"steps": 2, "eval_every": 1, "eval_prompts": 8},
        "set": SIZES,
        "arms": [{"name": "bot_grpo"}, {"name": "grpo", "set": {"algorithm": "grpo"}}],
    }
    (tmp_path / "tiny.toml").write_text(to_toml(suite))
    out = tmp_path / "out"
    done = subprocess.run(
        command("bench", str(tmp_path / "tiny.toml"), "--out", str(out)),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert str(out / "report.html") in done.stdout
    result = load_suite(out)
    assert {cell.status for cell in result.cells.values()} == {"finished"}
    for cell in result.cells.values():
        assert [e.step for e in cell.evals] == [0, 1, 2]
        assert all(e.unscored == 0 for e in cell.evals)
        verdicts = {v for e in cell.evals for v in e.verdicts}
        assert verdicts <= {
            *("no_code", "syntax", "resolve", "link", "no_default_export", "not_a_component"),
            *("incomplete", "ok"),
        }
        assert cell.manifest["sandbox"]["backend"] in ("docker", "bubblewrap")
        rollouts = [
            json.loads(x) for x in (cell.folder / "rollouts.jsonl").read_text().splitlines()
        ]
        for r in (r for r in rollouts if any(span["value"] for span in r["spans"])):
            assert min(r["local"]) < 0, "what the compiler blames costs some token something"
            first = next(span for span in r["spans"] if span["value"])
            for value, (start, end) in zip(r["local"], r["token_spans"], strict=True):
                if start < first["end"] and end > first["start"]:
                    assert value == -1.0
    # before the first step both arms are the same policy with the same draws
    first = [cell.evals[0].values["complete"] for cell in result.cells.values()]
    assert first[0] == first[1]


@pytest.mark.kill
@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_numbers(tmp_path: Path) -> None:
    sets = {
        "run.steps": 8,
        "run.eval_every": 2,
        "run.eval_prompts": 8,
        "run.checkpoint_every": 2,
        "sampling.prompts": 2,
        "sampling.group_size": 4,
    }
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]

    def start(out: Path) -> subprocess.Popen[bytes]:
        line = command("train", "react_micro", *words, "--out", str(out), "--resume")
        return subprocess.Popen(
            line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def steps_done(out: Path) -> int:
        path = out / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert start(whole).wait(timeout=300) == 0
    rng = random.Random(0)
    for steps in (0, 1, 3, 4):
        process = start(cut)
        while steps_done(cut) < steps:
            assert process.poll() is None, "ended before it was killed"
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2) if steps else rng.uniform(0.5, 3))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert start(cut).wait(timeout=300) == 0
    for name in ("metrics.jsonl", "eval.jsonl", "rollouts.jsonl"):
        assert records(cut / name) == records(whole / name)
    weights = [
        (folder / "checkpoints" / "step-000008" / "weights.pt").read_bytes()
        for folder in (whole, cut)
    ]
    assert weights[0] == weights[1]


@pytest.mark.kill
def test_a_suite_killed_in_the_middle_ends_with_the_same_report(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "def share(prompts, completions):\n"
        "    return [min(1.0, text.count('e') / 20) for text in completions]\n"
    )
    asks = tmp_path / "asks.jsonl"
    asks.write_text(
        "".join(json.dumps({"prompt": f"Write the letter {c}."}) + "\n" for c in "abcdef")
    )
    task = f'prompts("{asks}", judge="{rules}:share")'
    (tmp_path / "mine.toml").write_text(
        f'name = "mine"\nconfig = "react_micro"\nbaseline = "grpo"\nseeds = [0, 1]\n'
        f'[primary]\nmetric = "outcome"\nthreshold = 0.5\n[set]\ntask = {json.dumps(task)}\n'
        f'"reward.outcomes" = {{ "{rules}:share" = 1.0 }}\n"reward.locals" = {{}}\n'
        '"sampling.prompts" = 2\n"sampling.group_size" = 4\n"sampling.max_new_tokens" = 32\n'
        "[run]\nsteps = 4\neval_every = 1\ncheckpoint_every = 1\n"
        '[[arms]]\nname = "grpo"\nset = { algorithm = "grpo" }\n'
        '[[arms]]\nname = "bot_grpo"\nset = { algorithm = "bot_grpo" }\n'
    )

    def start(out: str) -> subprocess.Popen[bytes]:
        line = command(
            "bench", str(tmp_path / "mine.toml"), "--out", str(tmp_path / out), "--resume"
        )
        return subprocess.Popen(
            line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def steps_done() -> int:
        files = (tmp_path / "cut").glob("cells/*/*/metrics.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in files)

    assert start("whole").wait(timeout=600) == 0
    process = start("cut")
    while steps_done() < 3:
        assert process.poll() is None, "ended before it was killed"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert start("cut").wait(timeout=600) == 0
    for name in ("curves_by_seed", "curves_mean", "differences", "profiles", "rollout_tokens"):
        whole, cut = (tmp_path / out / "figures" / f"{name}.csv" for out in ("whole", "cut"))
        assert cut.read_bytes() == whole.read_bytes(), name
