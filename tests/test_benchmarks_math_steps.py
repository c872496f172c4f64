"""Counting a step reward's verdicts against labels, and hostile texts."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from botgrpo.benchmarks import math_fuzz
from botgrpo.benchmarks.math_steps import (
    BIG_BENCH,
    MR_BEN,
    big_bench_mistake,
    confirmed_false,
    labelled_trace,
    main,
    mr_ben,
    share,
    step_report,
    text,
)
from botgrpo.rewards import RewardSpec, Score, Span
from botgrpo.rewards.math.steps_sympy import StepsSympy
from botgrpo.sandbox.errors import ConfigError

DATA = Path(os.environ.get("BOTGRPO_CASES") or Path(__file__).parents[2] / "shared" / "cases")
TRACES = DATA.parent / "data" / "traces"


class Blames:
    """Refutes every step that holds a word, verifies one that holds another."""

    spec = RewardSpec("test.blames", "1", (0.0, 0.0), (-1.0, 1.0))

    async def score(self, rollouts):
        return [self.one(r) for r in rollouts]

    def one(self, rollout):
        if "unknown" in rollout.completion:
            return Score(rollout.id, 0.0, local_scored=False)
        words = {"bad": -0.3, "good": 0.5}
        places = [(rollout.completion.find(w), w, v) for w, v in words.items()]
        spans = tuple(Span(at, at + len(w), v, w) for at, w, v in places if at >= 0)
        return Score(rollout.id, 0.0, spans=spans)


def test_only_steps_up_to_the_first_wrong_one_are_counted():
    report = step_report(
        Blames(),
        [
            labelled_trace("hit", "", ["a good one", "a bad one", "later"], 1),
            labelled_trace("late", "", ["plain", "a bad one"], 0),
            labelled_trace("alarm", "", ["a bad one", "plain"], None),
            labelled_trace("none", "", ["unknown"], 0),
        ],
    )
    assert report.counts == {("right", 1): 1, ("wrong", -1): 1, ("wrong", 0): 1} | {
        ("right", -1): 1,
        ("right", 0): 1,
    }
    assert report.precision == (1, 2) and report.recall == (1, 2)
    assert report.verified_wrong == (0, 1) and report.unscored == 1
    assert [(one.id, i, said, right) for one, i, said, right in report.refuted] == [
        ("hit", 1, "bad", True),
        ("alarm", 0, "bad", False),
    ]
    assert "precision of -1     0.500" in text("x", report)


def test_a_share_carries_its_counts_and_wilsons_bounds():
    # by hand, n = 10, p = 0.5, z = 1.96: centre 0.5, half-width 1.96 sqrt(.025 + .0096) / 1.384
    assert share(5, 10) == "0.500 [0.237, 0.763] (5 of 10)"
    assert share(0, 0) == "none"


def test_a_refuted_equation_is_confirmed_by_the_second_evaluator():
    traces = [labelled_trace("a", "", ["7 * 8 = 54 and so on", "2^10 = 1024"], 0)]
    assert confirmed_false(step_report(StepsSympy(), traces)) == (1, 1)


def mr_ben_file(folder: Path, ids: list[str]) -> Path:
    steps = ["Step 1: first", "more of it", "Step 2: second", "Solution: C"]
    rows = [{"id": i, "question": "?", "steps": steps, "first_error_step": "2"} for i in ids]
    path = folder / MR_BEN
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_lines_are_grouped_into_numbered_steps_and_questions_kept_in_one_half(tmp_path):
    ids = [f"q{i}" for i in range(40)]
    path = mr_ben_file(tmp_path, [*ids, *ids])
    tune, test = mr_ben(path, "tune"), mr_ben(path, "test")
    assert len(tune) + len(test) == 80 and min(len(tune), len(test)) > 20
    assert len(tune) % 2 == 0
    one = tune[0]
    assert one.first_error == 1
    assert [one.completion[a:b] for a, b in one.steps] == [
        "Step 1: first\nmore of it",
        "Step 2: second\nSolution: C",
    ]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="--traces names its folder"):
        big_bench_mistake(tmp_path / BIG_BENCH)


def test_the_command_needs_something_to_do():
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2


@pytest.mark.skipif(not (TRACES / BIG_BENCH).exists(), reason=f"needs {BIG_BENCH} in {TRACES}")
def test_explicit_arithmetic_is_refuted_where_people_found_the_first_error():
    report = step_report(StepsSympy(), big_bench_mistake(TRACES / BIG_BENCH))
    hits, wrong = report.recall
    assert wrong == 238 and hits / wrong >= 0.9
    agreed, read = confirmed_false(report)
    assert agreed == read and read > 200


def test_hostile_texts_do_nothing_but_take_their_bounded_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = math_fuzz.fuzz(150)
    assert report.inputs == 150 and report.steps > 100
    assert report.crashes == [] and report.effects == []
    assert report.operations <= 20_001
    assert not list(tmp_path.iterdir())


def test_the_fuzzer_notices_a_side_effect_and_a_crash(monkeypatch):
    def careless(text: str) -> list[object]:
        open(os.devnull).close()
        raise RuntimeError("boom")

    monkeypatch.setattr(math_fuzz, "verify", careless)
    with pytest.raises(RuntimeError):
        math_fuzz.fuzz(1)  # the warm-up fails
    monkeypatch.setattr(math_fuzz, "verify", lambda text: [] if "prime" in text else careless(text))
    report = math_fuzz.fuzz(3)
    assert len(report.crashes) == 3 and "boom" in report.crashes[0]
    assert any(effect.startswith("open") for effect in report.effects)


def test_hostile_texts_are_the_same_for_a_seed():
    first, second = random.Random("fuzz/0"), random.Random("fuzz/0")
    assert [math_fuzz.hostile(first) for _ in range(30)] == [
        math_fuzz.hostile(second) for _ in range(30)
    ]
