"""The paper's figures: what it claims, what we chose; a claim agrees only by evidence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from botgrpo.benchmarks import cli, paper, reproduce, shipped, suite
from botgrpo.benchmarks.paper import Expectation, Figure, Finding
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.errors import ConfigError
from synthetic_suite import write_synthetic_suite

ARMS = {"grpo": 0.9, "bot_grpo": 1.6, "twin": 0.9}


def figure(*expects: tuple[str, str, str], suite_name: str = "paper_f5") -> Figure:
    return Figure(
        name="F5",
        title="made up",
        paper="it is better",
        marks=["bot_grpo: .1"],
        tiers={
            "micro": {"suite": suite_name},
            "small": {"note": "too small"},
            "paper": {"note": "no"},
        },
        expects=[Expectation(arm=a, than=b, **{"is": kind}) for a, b, kind in expects],
    )


def test_all_ten_figures_are_there_with_a_suite_or_a_reason_at_each_tier() -> None:
    assert paper.names() == [f"F{i}" for i in range(1, 11)]
    for name in paper.names():
        loaded = paper.load(name)
        assert set(loaded.tiers) == {"micro", "small", "paper"}
        for place in loaded.tiers.values():
            assert place.suite in shipped.names("suites") if place.suite else place.note
        for place in (p for p in loaded.tiers.values() if p.suite):
            arms = {arm.name for arm in suite.load(place.suite).arms}
            told = [e for e in loaded.expects if {e.arm, e.than} <= arms]
            assert told, f"{name}: nothing of its claim is measured by {place.suite}"


def test_a_figure_that_the_paper_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(ConfigError, match=r"no figure 'F11'.*F1, F2, .*F10"):
        paper.load("F11")
    assert paper.load("f4").name == "F4"


def test_a_claim_agrees_where_paired_seeds_separate_the_arms(tmp_path: Path) -> None:
    result = load_suite(write_synthetic_suite(tmp_path, arms=ARMS, seeds=8))
    found = paper.findings(
        figure(
            ("bot_grpo", "grpo", "better"),
            ("grpo", "bot_grpo", "better"),
            ("bot_grpo", "grpo", "alike"),
            ("bot_grpo", "absent", "better"),
        ),
        result,
    )
    assert [f.word for f in found] == ["agrees", "disagrees", "disagrees", "not measured"]
    assert "area +" in found[0].text and "8 of 8 paired seeds" in found[0].text


def test_arms_are_alike_only_where_the_whole_interval_is_small(tmp_path: Path) -> None:
    quiet = write_synthetic_suite(tmp_path / "a", arms={"grpo": 1.0, "twin": 1.0}, seeds=8)
    for seed in range(8):
        source = quiet / f"cells/grpo/seed{seed}/eval.jsonl"
        shutil.copy(source, quiet / f"cells/twin/seed{seed}/eval.jsonl")
    alike = figure(("twin", "grpo", "alike"))
    assert [f.word for f in paper.findings(alike, load_suite(quiet))] == ["agrees"]
    few = write_synthetic_suite(tmp_path / "b", arms={"grpo": 1.0, "twin": 1.02}, seeds=2)
    assert [f.word for f in paper.findings(alike, load_suite(few))] == ["not separated"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["agrees", "agrees"], "agrees"),
        (["agrees", "not separated"], "not separated"),
        (["agrees", "not separated", "disagrees"], "disagrees"),
        (["agrees", "not measured"], "agrees"),
        ([], "not measured"),
    ],
)
def test_a_figure_is_called_by_the_worst_that_is_known(words: list[str], told: str) -> None:
    assert paper.overall([Finding("", word) for word in words]) == told


def test_the_page_shows_measured_figures_and_says_why_others_are_not(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path / "F5", arms=ARMS, seeds=8)
    measured = figure(("bot_grpo", "grpo", "better"))
    others = [paper.load("F2"), paper.load("F8")]
    page = reproduce.write([measured, *others], "micro", tmp_path)
    html, table = page.read_text(), (tmp_path / "reproduction.md").read_text()
    assert "<svg" in html and "bot_grpo: .1" in html and 'href="F5/report.html"' in html
    assert "vision-language model as judge" in html
    assert "not run yet: botgrpo reproduce F8 --tier micro" in html
    assert "| agrees |" in table and table.count("| not measured |") == 2
    assert "Pass@1, averaged over training: +" in table
    assert (tmp_path / "F5/report.html").is_file()


def test_the_first_claim_is_told_in_steps_sooner(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path / "F1", arms=ARMS, seeds=8)
    rows = reproduce.markdown([reproduce._row(paper.load("F1"), "micro", tmp_path)], "micro")
    assert "times sooner" in rows and "8 of 8 runs of BoT-GRPO" in rows


def test_a_plan_for_the_paper_s_size_needs_no_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "F1", "F2", "--tier", "paper", "--plan"]) == 0
    told = capsys.readouterr().out
    for words in ("of 80 GiB", "tokens to sample", "calls of judges", "GPU hours", "left open"):
        assert words in told
    assert "F2" in told and "not measured" not in told.split("F2")[0]


def test_the_table_keeps_its_rows_whatever_a_title_holds() -> None:
    hostile = figure().model_copy(update={"title": "a|b\nc"})
    row = reproduce.Row(hostile, "", "", None, (), "not measured")
    assert reproduce.markdown([row], "micro").splitlines()[2].startswith("| F5: a\\|b c | it is")
