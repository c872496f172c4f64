"""The command answers quickly, and a mistake gets one clear message and status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo.benchmarks import cli


def python(code: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that finds what this one finds."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )


def run(*argv: str) -> int:
    return cli.main(argv)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from botgrpo.benchmarks.cli import parser\n"
        "parser().format_help()\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'rich', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_listing_rewards_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from botgrpo.benchmarks.cli import main\n"
        "assert main(['rewards', 'list']) == 0\n"
        "sys.exit('imported torch' if 'torch' in sys.modules else 0)\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "react.compile" in done.stdout and "noise.gaussian" in done.stdout


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["bench", "quikstart"], "Did you mean 'quickstart'"),
        (["train", "react_mikro"], "Did you mean 'react_micro'"),
        (["train", "react_micro", "--set", "run.stesp=3"], "Did you mean 'steps'"),
        (["train", "react_micro", "--set", "algorithm=gropo"], "Did you mean 'grpo'"),
        (["train", "react_micro", "--set", "policy.model=gone"], "gone"),
        (["train", "no/such/file.toml"], "no such file"),
        (["report", "no/such/folder"], "no suite.toml"),
        (["models", "fetch", "gpt-5"], "smollm2-135m"),
        (["rewards", "show", "react.complie"], "Did you mean react.compile"),
        (["rewards", "validate", "react.complie"], "Did you mean react.compile"),
        (["algorithms", "show", "gropo"], "Did you mean 'grpo'"),
        (["score", "--reward", "react.compile", "--in", "gone.jsonl"], "gone.jsonl"),
        (["eval", "react_mikro"], "Did you mean 'react_micro'"),
        (["sft", "react_mikro"], "Did you mean 'react_micro'"),
    ],
)
def test_a_mistake_gets_one_message_and_status_2(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*argv) == 2
    printed = capsys.readouterr()
    assert says in printed.err and printed.err.startswith("botgrpo: ")
    assert "Traceback" not in printed.err and printed.out == ""


def test_a_wrong_word_is_a_wrong_call() -> None:
    with pytest.raises(SystemExit) as stopped:
        run("bnech")
    assert stopped.value.code == 2


def test_plans_run_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "quickstart", "--plan", "--out", str(tmp_path / "x")) == 0
    assert run("train", "react_micro", "--plan", "--out", str(tmp_path / "x")) == 0
    printed = capsys.readouterr().out
    assert "9 cells" in printed and "8 prompts x 8 rollouts = 64" in printed
    assert not (tmp_path / "x").exists()


def test_a_plan_says_what_the_design_does_not_guarantee(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("train", "react_micro", "--plan") == 0
    assert "caution      Local rewards can outweigh the outcome" in capsys.readouterr().out
    assert run("train", "react_micro", "--plan", "--set", "algorithm=grpo") == 0
    assert "caution" not in capsys.readouterr().out


def test_algorithms_are_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("algorithms", "list") == 0
    assert run("algorithms", "show", "bot_grpo") == 0
    printed = capsys.readouterr().out
    assert "grpo_mean" in printed and "arXiv 2610.09804" in printed


def test_a_run_that_is_there_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    assert run("train", "react_micro", "--out", str(tmp_path)) == 2
    assert "--resume" in capsys.readouterr().err
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1}\n'


REWARDS = """
import sys


def nothing(prompts, completions, **columns):
    return [None] * len(completions)


def forgot(prompts, completions, **columns):
    pass


def leaves(prompts, completions, **columns):
    sys.exit(0)


def infinite(prompts, completions, **columns):
    return [float("inf")] * len(completions)


def huge(prompts, completions, **columns):
    return [10**400] * len(completions)
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("forgot", "returned None; expected a list"),
        ("leaves", "raised SystemExit"),
        ("infinite", "allowed: a finite number"),
        ("huge", "allowed: a number or None"),
    ],
)
def test_a_reward_function_that_misbehaves_is_named_and_never_a_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    (tmp_path / "r.jsonl").write_text(
        '{"id": "r", "group": "g", "prompt": "p", "completion": "c"}\n'
    )
    reference = f"{tmp_path / 'mine.py'}:{name}"
    assert run("score", "--reward", reference, "--in", str(tmp_path / "r.jsonl")) == 1
    printed = capsys.readouterr()
    assert says in printed.err and name in printed.err and printed.out == ""


def test_a_reward_file_that_leaves_on_import_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    reference = f"{tmp_path / 'script.py'}:f"
    assert run("score", "--reward", reference, "--in", "gone.jsonl") == 2
    assert "SystemExit" in capsys.readouterr().err


@pytest.mark.parametrize("place", [".", "no/such/folder/s.jsonl", "r.jsonl/s.jsonl"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    (tmp_path / "r.jsonl").write_text(
        '{"id": "r", "group": "g", "prompt": "p", "completion": "c"}\n'
    )
    words = ["--reward", f"{tmp_path / 'mine.py'}:nothing", "--in", str(tmp_path / "r.jsonl")]
    assert run("score", *words, "--out", str(tmp_path / place)) == 2
    assert capsys.readouterr().err.startswith("botgrpo: ")
    assert run("train", "react_micro", "--out", str(tmp_path / "r.jsonl" / "x")) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_two_runs_do_not_write_into_one_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from botgrpo.benchmarks.training import only_writer

    with only_writer(tmp_path):
        assert run("train", "react_micro", "--out", str(tmp_path)) == 2
    assert "another run writes" in capsys.readouterr().err
    only_writer(tmp_path).close()


@pytest.mark.parametrize(
    "assignment", ["name=", "name=../x", 'name="a\\nb"', "seed=99999999999999999999999", "w_g=inf"]
)
def test_a_value_that_would_fail_later_is_refused_now(
    assignment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "react_micro", "--set", assignment, "--plan") == 2
    assert assignment.partition("=")[0] in capsys.readouterr().err
