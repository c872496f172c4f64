"""Whatever a folder holds: a report, or one message that says what is wrong. No traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.audit.labels import read_labelled
from botgrpo.benchmarks.question import number
from botgrpo.benchmarks.report import verdict_text, write_report
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.errors import ConfigError
from synthetic_suite import write_synthetic_suite

ODD: tuple[Any, ...] = (
    None, 5, -1, "x", "", [1], [[0]], {"a": 1}, float("nan"), float("inf"), 10**400, True,
)  # fmt: skip
FIELDS = {
    "eval.jsonl": ("step", "n", "unscored", "complete", "mean_length", "verdicts"),
    "metrics.jsonl": (
        "step", "reward", "bot/unscored", "sandbox/verdict/ok", "time/generate_s",
    ),
    "rollouts.jsonl": (
        "step", "id", "prompt", "completion", "token_spans", "local", "token_rewards",
        "advantages", "spans", "outcome", "verdict", "reason", "finish_reason",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    return write_synthetic_suite(folder, arms={"grpo": 0.9, "bot": 1.2}, steps=8, eval_every=4)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "suite")


def change(path: Path, place: int, **values: Any) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[place].update(values)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("step", [-1, 10**400, 1.0, True, None])
@pytest.mark.parametrize("file", ["eval.jsonl", "metrics.jsonl"])
def test_a_step_that_is_no_count_is_refused_with_its_line(
    folder: Path, file: str, step: object
) -> None:
    path = folder / "cells/bot/seed0" / file
    change(path, 0, step=step)
    with pytest.raises(ConfigError, match=rf"{file}:1: 'step' is absent, or no whole number"):
        load_suite(folder)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([(file, key) for file, keys in FIELDS.items() for key in keys]),
    st.sampled_from(ODD),
    st.sampled_from([0, -1]),
)
def test_an_odd_value_makes_a_report_or_one_message_that_names_the_file(
    folder: Path, field: tuple[str, str], value: Any, place: int
) -> None:
    file, key = field
    path = folder / "cells/bot/seed0" / file
    kept = path.read_text()
    try:
        change(path, place, **{key: value})
        suite = load_suite(folder)
        assert verdict_text(suite)
        assert write_report(suite).is_file()
    except ConfigError as error:
        assert file in str(error)
    finally:
        path.write_text(kept)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("threshold = 0.5", 'threshold = "x"', "primary.threshold is 'x'; allowed: a finite"),
        ("threshold = 0.5", "threshold = nan", "primary.threshold is 'nan'"),
        ("seeds = [0, 1, 2]", "seeds = 3", "seeds is '3'; allowed: a list"),
        ("seeds = [0, 1, 2]", 'seeds = ["a"]', "a seed is 'a'; allowed: a whole number"),
        ('name = "bot"', 'nam = "bot"', "an arm's name is 'None'"),
        ('name = "bot"', 'name = "../../bot"', "text without slashes"),
        ("steps = 8", 'steps = "x"', "run.steps is 'x'"),
        ("[run]\nsteps = 8", "[x]", ""),
        ('baseline = "grpo"', "baseline = 5", "baseline '5' is not an arm"),
    ],
)
def test_a_wrong_key_of_suite_toml_is_named(folder: Path, old: str, new: str, says: str) -> None:
    path = folder / "suite.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    if not says:
        assert load_suite(folder).last_step == 8
        return
    with pytest.raises(ConfigError) as raised:
        load_suite(folder)
    assert says in str(raised.value) and "suite.toml" in str(raised.value)


@pytest.mark.parametrize("file", ["manifest.json", "eval.jsonl"])
@pytest.mark.parametrize("text", ["[" * 100_000, "{", "\x00"])
def test_what_is_no_json_is_named_however_deep_it_nests(
    folder: Path, file: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cells/bot/seed0" / file).write_text(text + "\n")
    assert cli.main(["report", str(folder)]) == 2
    assert file in capsys.readouterr().err


def test_a_run_that_could_not_be_scored_at_its_end_is_not_compared(folder: Path) -> None:
    change(folder / "cells/bot/seed0/eval.jsonl", -1, complete=float("nan"))
    suite = load_suite(folder)
    assert suite.paired_seeds("grpo", "bot") == [1, 2]
    assert "was not scored at the last step" in verdict_text(suite)


@given(st.sampled_from(ODD) | st.floats() | st.integers())
def test_a_number_is_finite_or_unknown(value: Any) -> None:
    found = number(value)
    assert found is None or abs(found) < float("inf")


def test_labels_outside_the_text_are_refused_with_their_line(tmp_path: Path) -> None:
    record = {"id": "a", "group": "g", "prompt": "p", "completion": "four"}
    spans = {"labels": {"spans": [{"start": 2, "end": 5}]}}
    path = tmp_path / "labelled.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(record | {"id": "b"} | spans) + "\n")
    with pytest.raises(ConfigError, match=r"line 2: got labels.spans\[0\] = \[2, 5\).*<= 4"):
        read_labelled(path)


@pytest.mark.slow
def test_a_report_of_500_cells_opens_under_15_mb(tmp_path: Path) -> None:
    """How long it takes is printed by --durations; 20 s are allowed."""
    arms = {f"arm{i:02}": 0.5 + i / 50 for i in range(50)}
    long = "const item = [1, 2, 3].map((n) => n + 1);\n" * 25
    write_synthetic_suite(tmp_path, arms=arms, seeds=10, completion=long)
    assert write_report(load_suite(tmp_path)).stat().st_size < 15 * 2**20
