"""docs/own_reward.md is walked from its first line to its last, outside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import walk
from botgrpo.benchmarks import cli, suite
from botgrpo.benchmarks.results import load_suite

TRL = "What TRL logged"  # walked where TRL is, by test_adapters_logs.py


def test_the_page_has_files_and_commands_and_every_line_of_a_block_is_one(tmp_path: Path) -> None:
    assert walk.write_files(tmp_path) == ["rules.py", "asks.jsonl", "mine.toml", "verl-run/1.jsonl"]
    commands = [line for lines in walk.sections().values() for line in lines]
    assert len(commands) > 15 and TRL in walk.sections()
    for line in commands:
        assert line.split()[0] in ("botgrpo", "sed", "pip"), line
    page = walk.PAGE.read_text("utf-8")
    assert page.count("\n$ ") == len(commands) and "```sh\nmake setup\n" in page


def test_every_option_of_the_page_is_one_of_the_command() -> None:
    for lines in walk.sections().values():
        for line in lines:
            if line.startswith("botgrpo "):
                cli.parser().parse_args(line.split()[1:])


def test_the_suite_of_the_page_is_valid_where_its_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    plans = suite.cells(suite.load("mine.toml"), weights=False)
    assert {plan.arm for plan in plans} == {"blamed", "misplaced", "outcome"}


@pytest.mark.slow
@pytest.mark.browser
def test_the_walk_arrives(tmp_path: Path) -> None:
    walk.write_files(tmp_path)
    said = {
        title: "".join(walk.run(line, tmp_path) for line in lines)
        for title, lines in walk.sections().items()
        if title != TRL
    }
    result = load_suite(tmp_path / "runs/mine")
    assert all(cell.status == "finished" for cell in result.cells.values())
    for made in (
        *("my-model/config.json", "runs/mine/report.html", "runs/mine/figures/primary.png"),
        *("card/audit.html", "view.html", "verl-card/audit.json", "runs/mine/compared.html"),
    ):
        assert (tmp_path / made).is_file(), made
    assert "it pays for the prompt again" in said["Before you train: audit"]
    assert "4 rollouts of 2 groups" in said["What verl logged"]
    assert "runs/mine" in said["Another try, beside the first"]
    card = json.loads((tmp_path / "verl-card/audit.json").read_text())
    assert card["rewards"][0]["name"] == "rules.py:ShortLines"
