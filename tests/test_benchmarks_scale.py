"""What a large step needs is arithmetic on what was measured."""

from __future__ import annotations

import pytest

from botgrpo.benchmarks.scale import Judge, Stage, bottleneck, table

JUDGE = Judge(4.0, 128, 2000, 500, 0.1, 0.4)


def test_cores_keep_up_with_a_step_and_are_never_a_fraction() -> None:
    assert Stage("a page", 0.5).cores(8192, 60.0) == 69  # 4,096 core seconds in 60
    assert Stage("a verdict", 0.005).cores(8192, 60.0) == 1


def test_a_judge_costs_its_calls_in_time_and_in_money() -> None:
    assert JUDGE.seconds(8192) == pytest.approx(256.0)
    assert JUDGE.usd(8192) == pytest.approx(8192 * (2000 * 0.1 + 500 * 0.4) / 1e6)


def test_the_table_adds_the_stages_up_and_names_what_comes_next() -> None:
    told = table([Stage("verdict", 0.005), Stage("page", 0.5)], JUDGE, 8192, 60.0, 64)
    assert "| page | 500.0 | 69 | 2 |" in told and "| all of them | | 70 | 2 |" in told
    assert "547 calls at a time keep up" in told and "20,480,000 tokens" in told
    assert "Next bottleneck: the judge, 4.3 times a step's time" in told


def test_without_a_slow_judge_the_stage_with_most_cores_comes_next() -> None:
    assert bottleneck({"verdict": 1, "page": 69}, 10.0, 60.0) == "page, 69 of 70 cores"
