"""A suite is checked whole before anything runs; its cells are paired and independent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks import executors, runner, shipped, suite
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer.config import to_toml
from synthetic_suite import write_synthetic_suite

SUITE: dict[str, Any] = {
    "name": "mine",
    "config": "react_micro",
    "baseline": "grpo",
    "seeds": [0, 1],
    "primary": {"metric": "complete", "threshold": 0.5},
    "run": {"steps": 3},
    "arms": [
        {"name": "bot", "set": {"algorithm": "bot_grpo", "reward": {"w_s": 0.5}}},
        {"name": "grpo", "set": {"algorithm": "grpo"}},
    ],
}


def write(tmp_path: Path, **changes: Any) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(to_toml({**SUITE, **changes}))
    return str(path)


def test_cells_share_all_but_their_arm_and_seed(tmp_path: Path) -> None:
    plans = suite.cells(suite.load(write(tmp_path)))
    assert [(p.arm, p.seed) for p in plans] == [("bot", 0), ("grpo", 0), ("bot", 1), ("grpo", 1)]
    bot, grpo = plans[0].config, plans[1].config
    assert (bot.algorithm, grpo.algorithm) == ("bot_grpo", "grpo")
    assert (bot.reward.w_s, grpo.reward.w_s) == (0.5, 1.0)
    assert bot.run == grpo.run and bot.run.steps == 3 and plans[2].config.run.seed == 1
    assert bot.sampling == grpo.sampling and bot.policy == grpo.policy


def test_a_table_of_rewards_is_replaced_and_not_merged(tmp_path: Path) -> None:
    arms = [
        {"name": "x", "set": {"reward": {"locals": {"noise.permute_lines(react.compile)": 1.0}}}},
        SUITE["arms"][1],
    ]
    plans = suite.cells(suite.load(write(tmp_path, arms=arms)))
    assert plans[0].config.reward.locals == {"noise.permute_lines(react.compile)": 1.0}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"primary": {"metric": "complte", "threshold": 0.5}}, "measures compile, complete, match"),
        ({"primary": {"metric": "complete", "threshold": 50}}, "primary.threshold"),
        ({"baseline": "gpro"}, "arms: bot, grpo"),
        ({"config": "react_mikro"}, "Did you mean 'react_micro'"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "different"),
        ({"arm": []}, "Did you mean 'arms'"),
        ({"arms": [{"name": "grpo"}, {"name": "grpo"}]}, "same name"),
        ({"arms": [{"name": "../grpo"}]}, "letters, digits"),
        ({"arms": [{"name": "grpo", "set": {"algorithm": "gpro"}}]}, "arm 'grpo': no algorithm"),
        ({"arms": [{"name": "grpo", "set": {"run.stpes": 3}}]}, "Did you mean 'steps'"),
        (
            {"arms": [{"name": "grpo", "set": {"reward.outcomes": {"react.complie": 1.0}}}]},
            "react.compile",
        ),
        ({"arms": [{"name": "grpo", "set": {"policy.model": "nowhere"}}]}, "nowhere"),
        ({"arms": [{"name": "grpo", "set": {"task": "raect"}}]}, "Did you mean 'react'"),
    ],
)
def test_a_mistake_is_named_before_anything_runs(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        suite.cells(suite.load(write(tmp_path, **changes)))
    assert says in str(error.value)


def test_a_configuration_may_lie_beside_its_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (shipped.ROOT / "configs" / "react_micro.toml").read_text()
    (tmp_path / "own.toml").write_text(text)
    path = write(tmp_path, config="own.toml")
    monkeypatch.chdir("/")
    assert len(suite.cells(suite.load(path))) == 4


def test_an_unknown_suite_names_what_is_shipped() -> None:
    with pytest.raises(ConfigError, match=r"no suite 'quikstart'. Did you mean 'quickstart'"):
        suite.load("quikstart")


@pytest.mark.parametrize("name", shipped.names("suites"))
def test_every_shipped_suite_is_valid(name: str) -> None:
    assert suite.cells(suite.load(name), weights=False)


def test_an_arm_whose_tool_is_not_here_is_left_out_and_said_to_be_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = [{"name": "grpo"}, {"name": "judged", "needs": ["judge"]}]
    path = write(tmp_path, arms=arms, baseline="grpo")
    monkeypatch.delenv("BOTGRPO_JUDGE_URL", raising=False)
    without = suite.load(path)
    plans = suite.cells(without)
    assert {plan.arm for plan in plans} == {"grpo"}
    said = "judged               not measured: no judge is configured: set BOTGRPO_JUDGE_URL"
    assert said in suite.plan_text(without, plans)
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("BOTGRPO_JUDGE_MODEL", "m")
    assert {plan.arm for plan in suite.cells(suite.load(path))} == {"grpo", "judged"}


def test_the_report_says_what_was_not_measured(tmp_path: Path) -> None:
    folder = write_synthetic_suite(tmp_path, arms={"grpo": 0.9, "bot": 1.2})
    text = (folder / "suite.toml").read_text()
    (folder / "suite.toml").write_text(f'not_measured = {{ judge = "no judge" }}\n{text}')
    told = analyse(load_suite(folder)).warnings
    assert "judge: not measured, since no judge." in told


def test_a_baseline_that_cannot_be_measured_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = [{"name": "grpo", "needs": ["browser"]}]
    monkeypatch.setenv("BOTGRPO_CHROMIUM", "/nowhere")
    with pytest.raises(ConfigError, match="baseline 'grpo': no Chromium at /nowhere"):
        suite.load(write(tmp_path, arms=arms, baseline="grpo"))


def bench(tmp_path: Path, **options: Any) -> runner.Bench:
    loaded = suite.load(write(tmp_path))
    return runner.Bench(loaded, tmp_path / "out", workers=2, **options)


class StubCell:
    """Stands in for a training process: writes its lines, or fails as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        self.commands: list[list[str]] = []
        real = subprocess.Popen

        def start(command: list[str], **options: Any) -> Any:
            if "botgrpo.benchmarks.cli" not in command:
                return real(command, **options)
            self.commands.append(command)
            folder = command[command.index("--out") + 1]
            return real([sys.executable, "-c", script, folder], **options)

        monkeypatch.setattr(executors.subprocess, "Popen", start)
        monkeypatch.setattr(runner, "POLL_S", 0.02)


WRITES = (
    "import sys, json, pathlib\n"
    "d = pathlib.Path(sys.argv[1])\n"
    "lines = [json.dumps({'step': i}) + '\\n' for i in (1, 2, 3)]\n"
    "(d / 'metrics.jsonl').write_text(''.join(lines))\n"
    "(d / 'eval.jsonl').write_text(json.dumps({'step': 3, 'n': 4, 'complete': 0.5}) + '\\n')\n"
)
FAILS_ONCE = (
    "import sys, pathlib\n"
    "mark = pathlib.Path(sys.argv[1], 'tried')\n"
    "if not mark.exists():\n"
    "    mark.touch(); print('a passing fault'); sys.exit(1)\n" + WRITES
)


def test_all_cells_run_and_the_folder_says_what_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = StubCell(monkeypatch, WRITES)
    assert bench(tmp_path).run() == []
    assert len(stub.commands) == 4
    record = tomllib.loads((tmp_path / "out" / "suite.toml").read_text())
    assert record["task"] == "react" and record["run"]["steps"] == 3
    assert (tmp_path / "out" / "manifest.json").is_file()
    config = tomllib.loads((tmp_path / "out/cells/bot/seed1/config.toml").read_text())
    assert config["run"]["seed"] == 1


def test_a_cell_that_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubCell(monkeypatch, FAILS_ONCE)
    assert bench(tmp_path).run() == []
    assert len(stub.commands) == 8


def test_a_cell_that_keeps_failing_is_shown_and_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    StubCell(monkeypatch, "import sys; print('broken for good'); sys.exit(1)")
    failed = bench(tmp_path).run()
    assert len(failed) == 4
    assert "broken for good" in (tmp_path / "out/cells/bot/seed0/error.txt").read_text()
    assert "broken for good" in capsys.readouterr().err
    with pytest.raises(RunFailed, match=r"4 cells failed[\s\S]*bot seed 0"):
        runner.require_all(failed)


def test_a_wrong_call_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubCell(monkeypatch, "import sys; sys.exit(2)")
    assert len(bench(tmp_path).run()) == 4
    assert len(stub.commands) == 4


def test_results_are_not_overwritten_or_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    StubCell(monkeypatch, WRITES)
    bench(tmp_path).run()
    with pytest.raises(ConfigError, match="--resume"):
        bench(tmp_path).run()
    bench(tmp_path, resume=True).run()
    other = suite.load(write(tmp_path, run={"steps": 9}))
    with pytest.raises(ConfigError, match="another folder"):
        runner.Bench(other, tmp_path / "out", workers=1, resume=True).run()


def test_finished_cells_are_kept_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubCell(monkeypatch, WRITES)
    bench(tmp_path).run()
    done = tmp_path / "out/cells/bot/seed0/checkpoints/step-000003"
    done.mkdir(parents=True)
    (done / "state.json").write_text("{}")
    (done / "weights.pt").touch()
    before = len(stub.commands)
    bench(tmp_path, resume=True).run()
    again = [command[command.index("--out") + 1] for command in stub.commands[before:]]
    assert len(again) == 3
    assert str(tmp_path / "out/cells/bot/seed0") not in again


def test_workers_must_be_at_least_one() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        runner.worker_count(0)
    assert runner.worker_count(None) is None
    assert executors.Local().slots >= 1


def test_a_cluster_without_ray_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'botgrpo\[ray\]'"):
        executors.EXECUTORS["ray"]()


def test_cells_that_run_are_ended_with_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    StubCell(monkeypatch, "import time; time.sleep(600)")
    started = bench(tmp_path)

    class Interrupted(executors.Local):
        def start(self, folder: Path) -> executors.Job:
            if folder.parent.name == "grpo":
                raise KeyboardInterrupt
            return super().start(folder)

    started.executor = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        started.run()
    jobs = [cell.job for cell in started.cells if cell.job]
    assert len(jobs) == 1 and jobs[0].poll() is not None


def test_a_cell_ends_with_whoever_started_it(tmp_path: Path) -> None:
    cell = (
        "import time; from botgrpo.benchmarks import executors; executors.end_with_starter()\n"
        "print('up', flush=True); time.sleep(600)"
    )
    starter = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
        "stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={'BOTGRPO_CELL': '1', 'PYTHONPATH': "
        "sys.argv[2]}); p.stdout.readline(); print(p.pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", starter, cell, os.pathsep.join(sys.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    for _ in range(400):
        if (
            not Path(f"/proc/{pid}").exists()
            or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        ):
            return
        time.sleep(0.05)
    raise AssertionError("the cell is still there")
