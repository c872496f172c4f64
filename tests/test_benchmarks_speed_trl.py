"""The comparison with TRL: its table, its sides, and what it says where a side is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from botgrpo.benchmarks import speed_sides, speed_trl
from botgrpo.benchmarks.speed_job import Job, letters
from tiny import tiny_policy_folder

JOB = Job("m", 32, 64, "float32")


def measured(seconds: float, gib: float) -> dict[str, float]:
    parts = {"step_s": seconds, "generate_s": seconds / 4, "update_s": seconds * 3 / 4}
    cpu = {f"{name[:-2]}_cpu_s": 2 * value for name, value in parts.items()}
    return {**parts, **cpu, "peak_gib": gib, "tokens": 2048.0}


def test_a_row_is_the_ratio_of_medians_and_larger_is_better_for_us() -> None:
    found = {
        (JOB, "ours"): [measured(10, 3), measured(12, 3), measured(8, 3)],
        (JOB, "trl"): [measured(40, 12)],
    }
    lines = speed_trl.table(found).splitlines()
    assert lines[2] == (
        "| 32 x 64, float32 | whole step, tokens/s | 205 (171 to 256) | trl 51 | 4.00 | 4.00 | 3 |"
    )
    assert "| peak memory, GiB | 3.00 (3.00 to 3.00) | trl 12.00 | 4.00 |  | 2 |" in lines[5]
    assert len(lines) == 6  # nothing of sides that were not measured


def test_where_trl_is_missing_the_next_step_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert speed_trl.main(["--sides", "ours", "trl"]) == 2
    assert "make env-trl" in capsys.readouterr().err


def test_our_side_measures_one_whole_step(tmp_path: Path) -> None:
    folder = tiny_policy_folder(tmp_path)
    found = speed_sides.ours(Job(str(folder), 16, 12, "float32"))
    assert found["step_s"] == pytest.approx(found["generate_s"] + found["update_s"])
    assert min(found[f"{part}_cpu_s"] for part in ("step", "generate", "update")) > 0
    drawn = speed_sides.native(Job(str(folder), 16, 12, "float32"))
    assert drawn["tokens"] == 16 * 12


def test_a_letter_is_what_is_paid() -> None:
    assert letters("eel") == pytest.approx(2 / 3)
    assert letters("") == 0
