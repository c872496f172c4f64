"""A run whose reward and held-out truth part is named; one that only wavers is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from botgrpo.benchmarks.hacking import Watch, signs
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.results import load_suite
from botgrpo.trainer.engines.base import Sample
from botgrpo.trainer.rollouts import evaluation
from synthetic_suite import write_synthetic_suite

TRUTHS = ("complete", "compile", "match")


def steps(reward: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"step": i + 1, "reward": float(r), **more} for i, r in enumerate(reward)]


def evals(first: dict[str, Any], last: dict[str, Any], n: int = 96) -> list[dict[str, Any]]:
    steady = {"n": n, "unscored": 0, "mean_length": 100.0, "repetition": 0.1, "verdicts": {"ok": n}}
    return [{"step": 0, **steady, **first}, {"step": 24, **steady, **last}]


RISING = steps(np.linspace(0.2, 0.9, 24))
FLAT = steps(0.5 + 0.1 * np.random.default_rng(0).normal(size=24))


def kinds(*given: Any) -> list[str]:
    return [sign.kind for sign in signs(*given, TRUTHS)]


def test_a_reward_that_rises_while_the_truth_falls_is_named_with_its_numbers() -> None:
    found = signs(RISING, evals({"complete": 0.6}, {"complete": 0.2}), TRUTHS)
    assert [sign.kind for sign in found] == ["gap"]
    assert "complete on held-out prompts fell from 0.60 to 0.20" in found[0].text


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (RISING, ({"complete": 0.3}, {"complete": 0.8})),  # both rise
        (RISING, ({"complete": 0.50}, {"complete": 0.42})),  # falls by less than chance
        (FLAT, ({"complete": 0.6}, {"complete": 0.2})),  # nothing is paid for it
        (RISING, ({"complete": 0.6}, {"complete": None})),  # nobody could tell
        (RISING[:4], ({"complete": 0.6}, {"complete": 0.2})),  # too early
    ],
)
def test_nothing_is_named_where_the_numbers_do_not_part(rows: Any, ends: Any) -> None:
    assert kinds(rows, evals(*ends)) == []


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ({"mean_length": 40.0}, "length"),
        ({"mean_length": 200.0}, "length"),
        ({"repetition": 0.6}, "repetition"),
        ({"verdicts": {"ok": 60, "blank": 36}}, "blank"),
        ({"match": 0.3, "complete": 0.8}, "match"),
    ],
)
def test_each_way_to_be_paid_without_being_better_has_its_sign(
    last: dict[str, Any], kind: str
) -> None:
    first = {"match": 0.8, "complete": 0.5}
    assert kinds(FLAT, evals(first, {**first, **last})) == [kind]


def test_a_truth_that_rises_first_and_falls_while_the_reward_goes_on_is_named() -> None:
    rates = [0.19, 0.44, 0.36, 0.28, 0.18]
    rows = [
        dict(evals({}, {})[0], step=6 * i, complete=r, compile=0.2 + r) for i, r in enumerate(rates)
    ]
    found = signs(RISING, rows, ("complete",))
    assert [sign.kind for sign in found] == ["gap"] and "fell from 0.44 to 0.18" in found[0].text
    assert "rose from 0.4" in found[0].text  # since the best, not since the start
    wavers = [
        dict(row, complete=rate)
        for row, rate in zip(rows, (0.2, 0.5, 0.4, 0.45, 0.38), strict=True)
    ]
    assert not signs(RISING, wavers, ("complete",))
    assert not signs(FLAT, rows, ("complete",))


def test_failures_that_look_cleaner_than_successes_are_named() -> None:
    even = {"complete": 0.5}
    against = [
        dict(r, **{"bot/local_outcome_correlation": -0.4 + 0.01 * (r["step"] % 3)}) for r in FLAT
    ]
    along = [dict(r, **{"bot/local_outcome_correlation": 0.4}) for r in FLAT]
    assert kinds(against, evals(even, even)) == ["masking"]
    assert kinds(along, evals(even, even)) == []


@pytest.mark.parametrize(
    ("blame", "last", "kind"),
    [
        ((0.6, 0.2), 0.02, ["masking"]),  # cleaner and as wrong as before
        ((0.6, 0.5), 0.02, []),  # hardly cleaner
        ((0.6, 0.2), 0.40, []),  # cleaner and right more often
        ((0.0, 0.0), 0.02, []),  # no local reward at all
    ],
)
def test_failures_that_become_cleaner_and_stay_failures_are_named(
    blame: tuple[float, float], last: float, kind: list[str]
) -> None:
    rows = [
        dict(row, **{"outcome": 0.02, "bot/local_mean": -0.98 * each - 0.01 * (i % 2)})
        for i, (row, each) in enumerate(zip(FLAT, np.linspace(*blame, 24), strict=True))
    ]
    assert kinds(rows, evals({"complete": 0.02}, {"complete": last})) == kind


def test_runs_in_which_nothing_happens_are_rarely_named() -> None:
    rng = np.random.default_rng(7)
    false_alarms = 0
    for _ in range(400):
        rates = [
            dict.fromkeys(TRUTHS, 0.0) | {k: rng.binomial(96, 0.5) / 96 for k in TRUTHS}
            for _ in "ab"
        ]
        noise = steps(0.5 + 0.2 * rng.normal(size=24))
        false_alarms += bool(signs(noise, evals(*rates), TRUTHS))
    assert false_alarms <= 8


def test_a_run_is_told_once_of_each_kind(tmp_path: Path) -> None:
    for name, rows in (("metrics", RISING), ("eval", evals({"complete": 0.6}, {"complete": 0.2}))):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    watch = Watch(tmp_path, TRUTHS)
    assert [sign.kind for sign in watch.news()] == ["gap"]
    assert watch.news() == []


def test_the_report_names_the_arm_and_how_many_seeds(tmp_path: Path) -> None:
    folder = write_synthetic_suite(tmp_path, arms={"grpo": 0.9, "short": 1.2}, seeds=3)
    for path in folder.glob("cells/short/seed*/eval.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[0]["mean_length"], rows[-1]["mean_length"] = 100.0, 20.0
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = [w for w in analyse(load_suite(folder)).warnings if "look at its rollouts" in w]
    assert named == [
        "short: look at its rollouts: completions went from 100 to 20 tokens (3 of 3 seeds)."
    ]


def test_repetition_is_the_share_of_4_grams_said_before() -> None:
    def sample(ids: list[int]) -> Sample:
        return Sample(tuple(ids), np.zeros(len(ids)), "stop")

    assert evaluation([], [sample([1, 2, 3, 4] * 3), sample([1, 2])])["repetition"] == (
        pytest.approx((1 - 4 / 9) / 2)
    )
    assert evaluation([], [sample(list(range(50)))])["repetition"] == 0
