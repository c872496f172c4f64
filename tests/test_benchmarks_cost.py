"""The cost of rollouts: the plane is found again, and the command writes what it says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from botgrpo.benchmarks import cost
from botgrpo.benchmarks.cost import Point


def test_the_costs_that_points_were_made_of_are_found() -> None:
    points = [
        Point(name, p, k, t, 0.05 * p + 0.01 * t + 0.002 * p * k * t, 1.0)
        for name, sizes in cost.SERIES.items()
        for p, k, t in sizes
    ]
    found = cost.fit(points)
    assert found.prompt_s == pytest.approx(0.05, rel=1e-3)
    assert found.step_s == pytest.approx(0.01, rel=1e-3)
    assert found.token_s == pytest.approx(0.002, rel=1e-3)
    assert found.r2 == pytest.approx(1) and found.worst < 1e-6


def test_a_straight_line_is_found_and_a_bent_one_is_not_called_straight() -> None:
    assert cost.line([1, 2, 3], [3, 5, 7]) == pytest.approx((1, 2, 1))
    assert cost.line([0, 1, 2, 3], [0, 9, 1, 8])[2] < 0.5


def test_the_command_writes_points_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["--model", "react_micro", "--dtype", "float32", "--quick", "--tries", "1"]
    assert cost.main([*call, "--out", str(tmp_path)]) == 0
    assert "ms a token" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "cost.csv").read_text().splitlines()))
    assert [int(r["generated"]) for r in rows] == [32, 128, 8, 128]
    assert all(float(r["generate_s"]) > 0 and float(r["update_s"]) > 0 for r in rows)
    page = (tmp_path / "cost.html").read_text()
    assert page.count("<svg") == 2 and "http" not in page
