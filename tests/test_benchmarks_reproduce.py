"""The paper's figures: what it claims, what we chose; a claim agrees only by evidence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from botgrpo.benchmarks import (
    cli,
    headlines,
    pages,
    paper,
    passes,
    plan,
    reproduce,
    reproduction,
    runner,
    shipped,
    suite,
)
from botgrpo.benchmarks.executors import Local
from botgrpo.benchmarks.paper import Expectation, Figure, Finding
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.reproduction_tables import arms, as_table
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
    assert "| agrees |" in table and table.count("| not measured | `botgrpo") == 2
    assert "Pass@1 0." in table and "Pass@2 not measured" in table
    assert (tmp_path / "F5/report.html").is_file()


def suite_of(folder: Path, name: str, arms: dict[str, float] = ARMS, **options: int) -> Path:
    """A synthetic folder that holds the suite `name`."""
    write_synthetic_suite(folder, arms=arms, **options)  # type: ignore[arg-type]
    path = folder / "suite.toml"
    path.write_text(path.read_text().replace('"synthetic"', f'"{name}"'))
    return folder


def test_the_first_claim_is_told_in_steps_sooner(tmp_path: Path) -> None:
    result = load_suite(suite_of(tmp_path / "F1", "paper_f1", seeds=8))
    told = headlines.sooner(result)
    assert "times as soon" in told and "8 of 8 seeds paired" in told
    assert float(told.split(" times")[0].split()[-1]) > 1.3
    result = load_suite(suite_of(tmp_path / "slow", "paper_f1", {"grpo": 0.01, "bot_grpo": 0.01}))
    assert "no run of either reaches complete 0.5" in headlines.sooner(result)


def test_a_ratio_of_means_has_an_interval_by_pairs() -> None:
    ones = np.ones(5)
    assert headlines.ratio_interval(2 * ones, ones) == (2.0, 2.0)
    assert headlines.ratio_interval(ones[:1], ones[:1]) is None
    low, high = headlines.ratio_interval(np.array([30.0, 60.0]), np.array([30.0, 30.0])) or (0, 0)
    assert (low, high) == (1.0, 2.0)


def test_pass_at_k_is_told_where_it_was_measured_and_by_which_step(tmp_path: Path) -> None:
    result = load_suite(suite_of(tmp_path, "paper_f5", seeds=6))
    assert "Pass@2 not measured" in headlines.pass_at_k(result)
    for (arm, _), cell in result.cells.items():
        rates = {1: 0.2, 2: 0.3, 4: 0.5 if arm == "bot_grpo" else 0.4}
        (cell.folder / passes.FILE).write_text(json.dumps({"rates": rates}))
    head, _, row, *_ = as_table(arms(analyse(result), [1, 4]))
    assert head.endswith("| pass@1 | pass@4 |")
    assert row.endswith("| 0.200 [0.200, 0.200] | 0.400 [0.400, 0.400] |")
    told = headlines.pass_at_k(result)
    assert "Pass@4 0.500 against 0.400, +0.100 [+0.100, +0.100], better" in told
    assert (
        "Pass@1 0.200 against 0.200, +0.000" in told and "that of BoT-GRPO is there at step" in told
    )


def test_a_document_is_written_from_folders_of_several_tiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = ["about 4 GPU hours on an H100 by arithmetic"]  # the plan has a test of its own
    monkeypatch.setattr(plan, "of_accelerator", lambda *_: hours)
    suite_of(tmp_path / "a/F1", "paper_f1", seeds=8)
    suite_of(tmp_path / "b/F1", "small_f1", seeds=2)
    shutil.rmtree(tmp_path / "a/F1/cells/twin/seed3")
    made = {"git_commit": "ab" * 20, "model": {"name": "micro", "sha256": "cd" * 32}}
    (tmp_path / "a/F1/cells/twin/seed0/manifest.json").write_text(json.dumps(made))
    page = tmp_path / "docs/reproduction.md"
    folders = [f"--from={tmp_path / name}" for name in "ab"]
    assert cli.main(["reproduce", "F1", "F2", f"--page={page}", *folders]) == 0
    text = page.read_text()
    assert "micro: 8 seeds, 23 of 24 cells finished" in text and "small: 2 seeds" in text
    assert "Micro tier: complete 0.5 comes" in text and "Small tier: complete 0.5 comes" in text
    assert "Not measured: `botgrpo reproduce F5`" in text
    assert "commit abababababab, from the weights (SHA-256) micro cdcdcdcdcdcd." in text
    assert "GPU hours on an H100" in text and "hours of single cells by the clock for" in text
    for tier in ("micro", "small"):
        picture = (page.parent / f"reproduction/F1-{tier}.svg").read_text()
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
        assert f"(reproduction/F1-{tier}.svg)" in text and ".mean" in picture


def test_a_folder_that_holds_another_suite_is_refused(tmp_path: Path) -> None:
    suite_of(tmp_path / "F1", "quickstart")
    with pytest.raises(ConfigError, match=r"'quickstart' is none of F1's: paper_f1, small_f1"):
        reproduction.gather([paper.load("F1")], [tmp_path])
    with pytest.raises(ConfigError, match="no folder there"):
        reproduction.gather([paper.load("F1")], [tmp_path / "none"])


def test_an_arm_that_falls_less_from_its_peak_is_steadier(tmp_path: Path) -> None:
    folder = suite_of(tmp_path, "paper_f10", {"one_turn": 1.6, "two_turn": 1.6}, seeds=8)
    for seed in range(8):
        path = folder / f"cells/one_turn/seed{seed}/eval.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[-1]["complete"] -= 0.3 + 0.01 * seed
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    claims = figure(("two_turn", "one_turn", "steadier"), ("one_turn", "two_turn", "steadier"))
    found = paper.findings(claims, load_suite(folder))
    assert [f.word for f in found] == ["agrees", "disagrees"]
    assert "two_turn falls less than one_turn: spared of the peak +0.29" in found[0].text


def test_a_figure_is_run_then_sampled_and_photographed_as_its_file_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    class Bench:
        def __init__(self, suite: Any, out: Path, *_: object) -> None:
            write_synthetic_suite(out, arms=ARMS, seeds=2)
            done.append(suite.name)

        def run(self) -> list[object]:
            return []

    monkeypatch.setattr(runner, "Bench", Bench)
    monkeypatch.setattr(passes, "measure", lambda result, ks: done.append(ks))
    monkeypatch.setattr(pages, "take", lambda cell: done.append((cell.arm, cell.seed)))
    measured = figure(("bot_grpo", "grpo", "better")).model_copy(
        update={"pass_at": [1, 2], "pages": ["twin"]}
    )
    page, failed = reproduce.run(
        [measured, paper.load("F2")], "micro", tmp_path, workers=1, resume=False, executor=Local
    )
    assert done == ["paper_f5", [1, 2], ("twin", 0)] and not failed
    assert "F2" in page.read_text() and (tmp_path / "reproduction.md").is_file()


def test_a_plan_for_the_paper_s_size_needs_no_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "F1", "F2", "--tier", "paper", "--plan"]) == 0
    told = capsys.readouterr().out
    for words in ("of 80 GiB", "tokens to sample", "calls of judges", "GPU hours", "left open"):
        assert words in told
    assert "F2" in told and "not measured" not in told.split("F2")[0]
    for words in ("models fetch Qwen/Qwen2.5-3B", "benchmarks.device", "--workers 1", "disk: "):
        assert words in told


def test_the_table_keeps_its_rows_whatever_a_title_holds(tmp_path: Path) -> None:
    hostile = figure().model_copy(update={"title": "a|b\nc"})
    row = reproduction.Row(hostile, "micro", "why")
    page = reproduction.write([row], tmp_path / "page.md").read_text()
    assert "| F5: a\\|b c | it is better | why |" in page
