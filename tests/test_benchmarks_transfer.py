"""Rankings of designs held against another policy's, and runs counted one by one."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.report import profiles, transfer
from botgrpo.benchmarks.report.analysis import Analysis, analyse
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.errors import ConfigError
from synthetic_suite import write_synthetic_suite

ARMS = {"grpo": 0.9, "bot": 1.3, "noisy": 0.6, "rloo": 1.1, "pure": 0.75}


def written(folder: Path, arms: Mapping[str, float], model: str, seeds: int = 4) -> Path:
    write_synthetic_suite(folder, arms=arms, seeds=seeds, rollouts=False)
    for path in folder.glob("cells/*/seed*/config.toml"):
        arm = path.parent.parent.name
        path.write_text(f'algorithm = "{arm}"\n[policy]\nmodel = "{model}"\n[reward]\nw_s = 1.0\n')
    return folder


def suites(tmp_path: Path, there: Mapping[str, float], **more: int) -> tuple[Analysis, Analysis]:
    return (
        analyse(load_suite(written(tmp_path / "micro", ARMS, "micro"))),
        analyse(load_suite(written(tmp_path / "small", there, "small", **more))),
    )


def test_the_same_order_with_another_policy_holds(tmp_path: Path) -> None:
    found = transfer.transfer(*suites(tmp_path, {k: 0.7 * v for k, v in ARMS.items()}))
    assert found.spearman and found.spearman.interval and found.spearman.interval.low > 0
    first, second = transfer.sentences(found, suites_here(tmp_path))
    assert first.startswith("The ranking with micro holds with small: Spearman +1.00 [")
    assert second == "The design that learned most with micro, bot, is the best of 5 with small."


def suites_here(tmp_path: Path) -> Analysis:
    return analyse(load_suite(tmp_path / "micro"))


def test_the_opposite_order_is_called_turned_around(tmp_path: Path) -> None:
    found = transfer.transfer(*suites(tmp_path, {k: 2.0 - v for k, v in ARMS.items()}))
    told = transfer.sentences(found, suites_here(tmp_path))
    assert "is turned around with small" in told[0] and "number 5 of 5" in told[1]


def test_designs_that_are_alike_there_are_not_separated(tmp_path: Path) -> None:
    found = transfer.transfer(*suites(tmp_path, dict.fromkeys(ARMS, 1.0)))
    assert "is not separated: Spearman" in transfer.sentences(found, suites_here(tmp_path))[0]


def test_correlations_are_those_of_scipy_on_mean_areas(tmp_path: Path) -> None:
    here, there = suites(tmp_path, {**ARMS, "bot": 0.8, "noisy": 1.2})
    found = transfer.transfer(here, there)
    means = [[np.mean(list(s.arm(name).auc.values())) for name in ARMS] for s in (here, there)]
    assert found.spearman and found.kendall
    assert found.spearman.value == pytest.approx(scipy_stats.spearmanr(*means).statistic)
    assert found.kendall.value == pytest.approx(scipy_stats.kendalltau(*means).statistic)
    for each in (found.spearman, found.kendall):
        assert each.interval and each.interval.low <= each.value <= each.interval.high


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=8))
def test_correlations_with_ties_are_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    rho, tau = transfer._correlations(a[None], b[None])[:, 0]
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert np.isnan(rho) and np.isnan(tau)
    else:
        assert rho == pytest.approx(scipy_stats.spearmanr(a, b).statistic)
        assert tau == pytest.approx(scipy_stats.kendalltau(a, b).statistic)


def test_only_the_same_design_counts_and_three_are_too_few(tmp_path: Path) -> None:
    here, there = suites(tmp_path, {k: v for k, v in ARMS.items() if k != "pure"})
    for path in (tmp_path / "small/cells/rloo").glob("seed*/config.toml"):
        path.write_text(path.read_text().replace("w_s = 1.0", "w_s = 0.5"))
    there = analyse(load_suite(tmp_path / "small"))
    told = transfer.sentences(transfer.transfer(here, there), here)
    assert told[0] == "Not measured: 3 designs are in both suites; a ranking needs 4."
    assert "rloo has another algorithm or reward" in " ".join(told)
    assert "pure is not in" in " ".join(told)


def test_one_seed_gives_a_number_and_no_certainty(tmp_path: Path) -> None:
    found = transfer.transfer(*suites(tmp_path, ARMS, seeds=1))
    assert found.spearman and found.spearman.interval is None
    assert "says nothing of how sure" in transfer.sentences(found, suites_here(tmp_path))[0]


def test_another_metric_and_the_same_policy_are_refused(tmp_path: Path) -> None:
    here, _ = suites(tmp_path, ARMS)
    with pytest.raises(ConfigError, match="both trained micro"):
        transfer.transfer(here, here)
    path = tmp_path / "small/suite.toml"
    path.write_text(path.read_text().replace('"complete"', '"compile"'))
    with pytest.raises(ConfigError, match="ranks by 'compile'"):
        transfer.transfer(here, analyse(load_suite(tmp_path / "small")))
    assert cli.main(["report", str(tmp_path / "micro"), "--transfer", str(tmp_path / "no")]) == 2


def test_the_report_draws_the_ranking_and_says_when_it_was_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suites(tmp_path, ARMS)
    micro, small = str(tmp_path / "micro"), str(tmp_path / "small")
    assert cli.main(["report", micro]) == 0
    html = (tmp_path / "micro/report.html").read_text()
    said = "Not measured: this ranking is a claim about micro, a cheap test of the rewards"
    assert said in html and said in capsys.readouterr().out and 'id="transfer-t"' not in html
    assert cli.main(["report", micro, "--transfer", small]) == 0
    assert "The ranking with micro holds with small" in capsys.readouterr().out
    assert 'id="transfer-t"' in (tmp_path / "micro/report.html").read_text()
    with (tmp_path / "micro/figures/transfer.csv").open() as file:
        assert [row["arm"] for row in csv.DictReader(file)] == list(ARMS)


def test_names_of_policies_and_designs_are_no_markup(tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    arms = {f"{name}<b>": speed for name, speed in ARMS.items()}
    micro = written(tmp_path / "micro", arms, hostile, seeds=2)
    small = written(tmp_path / "small", arms, "small", seeds=2)
    assert cli.main(["report", str(micro), "--transfer", str(small)]) == 0
    html = (micro / "report.html").read_text()
    assert "&lt;img src=x" in html and "bot&lt;b&gt;" in html and "⟨U+202E⟩" in html
    assert "<img" not in html and "bot<b>" not in html and "\u202e" not in html


# ---- runs one by one ----


def test_a_profile_counts_runs_by_hand(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, {"grpo": 0.9, "bot": 1.2}, "micro", seeds=5))
    analysis = analyse(suite)
    for each in profiles.profiles(analysis):
        areas = list(analysis.arm(each.arm).auc.values())
        for i in range(0, len(each.levels), 13):
            assert each.rows[0, i] == sum(a > each.levels[i] for a in areas) / 5
        assert each.rows[0, 0] == 1 and each.rows[0, -1] == 0
        assert (each.rows[1] <= each.rows[0] + 1e-9).all()
        assert (each.rows[2] >= each.rows[0] - 1e-9).all()


@pytest.mark.parametrize(
    ("speed", "says"), [(1.6, "nowhere below grpo"), (0.3, "nowhere above grpo")]
)
def test_a_profile_is_said_in_words(tmp_path: Path, speed: float, says: str) -> None:
    analysis = analyse(load_suite(written(tmp_path, {"grpo": 0.9, "bot": speed}, "micro")))
    assert says in profiles.sentence(analysis, profiles.profiles(analysis))


def test_lines_that_cross_are_said_to_cross(tmp_path: Path) -> None:
    analysis = analyse(load_suite(written(tmp_path, {"a": 0.9, "b": 0.9}, "micro", seeds=8)))
    found = profiles.profiles(analysis)
    assert "cross" in profiles.sentence(analysis, found)


def test_a_suite_with_nothing_finished_has_no_profile(tmp_path: Path) -> None:
    folder = written(tmp_path, {"grpo": 0.9}, "micro", seeds=1)
    (folder / "cells").rename(tmp_path / "gone")
    assert profiles.profiles(analyse(load_suite(folder))) == []


# ---- pictures ----


@pytest.mark.browser
def test_each_figure_of_the_page_becomes_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suites(tmp_path, ARMS)
    micro, small = str(tmp_path / "micro"), str(tmp_path / "small")
    assert cli.main(["report", micro, "--transfer", small, "--png"]) == 0
    names = {path.stem for path in (tmp_path / "micro/figures").glob("*.png")}
    assert {"primary", "forest", "arrivals", "profile", "transfer", "mix-0"} <= names
    assert not [name for name in names if "narrow" in name]
    assert f"{len(names)} pictures" in capsys.readouterr().out
    head = (tmp_path / "micro/figures/primary.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG") and int.from_bytes(head[16:20], "big") > 1500
