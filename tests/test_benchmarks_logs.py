"""Rollouts that TRL and verl logged become ours; what cannot be read is named by its place."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks import cli, logs
from botgrpo.rewards.records import read_rollouts
from botgrpo.sandbox.errors import ConfigError

Row = dict[str, Any]


def verl_row(**changes: Any) -> Row:
    row = {"input": "user\nsum?\nassistant\n", "output": "42", "gts": "42", "score": 1.0, "step": 2}
    return row | {"acc": True} | changes


def dumped(folder: Path, step: int, *rows: Any) -> Path:
    folder.mkdir(exist_ok=True)
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / f"{step}.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder


def test_a_folder_of_verl_is_read_in_the_order_of_its_steps(tmp_path: Path) -> None:
    dumped(tmp_path, 10, verl_row(step=10))
    dumped(tmp_path, 2, verl_row(), verl_row(output="41", score=0.0), verl_row(input="other"))
    found = logs.load("verl", tmp_path)
    assert [r.id for r in found.rollouts] == ["2/1", "2/2", "2/3", "10/1"]
    groups = [r.group for r in found.rollouts]
    assert groups[0] == groups[1] and len(set(groups)) == 3
    first = found.rollouts[0]
    assert (first.prompt, first.completion) == ("user\nsum?\nassistant\n", "42")
    assert first.reference == {"score": 1.0, "acc": True, "ground_truth": "42", "accepted": [42]}


@pytest.mark.parametrize(
    ("truth", "reference"),
    [
        ("1/2", {"ground_truth": "1/2", "accepted": ["1/2"], "kind": "expression"}),
        (7, {"ground_truth": 7, "accepted": [7]}),
        (None, {}),
        (["a"], {"ground_truth": ["a"]}),
        (True, {"ground_truth": True}),
    ],
)
def test_a_ground_truth_is_kept_and_put_as_our_math_takes_it(
    tmp_path: Path, truth: Any, reference: Row
) -> None:
    dumped(tmp_path, 1, verl_row(gts=truth))
    (rollout,) = logs.load("verl", tmp_path).rollouts
    assert {k: v for k, v in rollout.reference.items() if k not in ("score", "acc")} == reference


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{broken", r"1\.jsonl:2: "),
        ("[" * 100_000, r"1\.jsonl:2: "),
        ("[1]", r"1\.jsonl:2: got list"),
        ({"input": "x"}, r"1\.jsonl, row 2: texts under input and output"),
    ],
)
def test_a_wrong_line_of_verl_is_named(tmp_path: Path, row: Any, says: str) -> None:
    dumped(tmp_path, 1, verl_row(), row)
    with pytest.raises(ConfigError, match=says):
        logs.load("verl", tmp_path)


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_a_place_without_logs_says_which_setting_writes_them(tmp_path: Path, trainer: str) -> None:
    setting = {"trl": "log_completions=True", "verl": r"trainer\.rollout_data_dir"}[trainer]
    with pytest.raises(ConfigError, match=setting):
        logs.load(trainer, tmp_path)


def test_what_is_imported_can_be_read_again_whatever_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "<script>\u2028\ud83d\x00</script>"
    dumped(tmp_path / "logs", 1, verl_row(output=hostile, score=None, extra={"a": [1, None]}))
    text = (tmp_path / "logs/1.jsonl").read_text()
    (tmp_path / "logs/1.jsonl").write_text(text.replace("null", "NaN", 1))
    out = tmp_path / "r.jsonl"
    assert cli.main(["import", "verl", str(tmp_path / "logs"), "--out", str(out)]) == 0
    assert "1 rollouts of 1 groups imported" in capsys.readouterr().err
    (rollout,) = read_rollouts(out)
    assert rollout.completion == hostile and rollout.reference["score"] is None


# ---- rows as TRL writes them; the file itself is read where pyarrow is ----


def test_chat_and_text_of_trl_are_read_and_turns_with_tools_left_out() -> None:
    asked = [{"role": "user", "content": [{"type": "text", "text": "sum?"}]}]
    row = {"step": 1, "prompt": asked, "completion": [{"role": "assistant", "content": "42"}]}
    taken = logs._trl(row | {"letters": float("nan"), "advantage": 0.5, "answer": "42"}, "here")
    assert taken == (
        [{"role": "user", "content": "sum?"}], "42", {"letters": None, "answer": "42"}
    )  # fmt: skip
    assert logs._trl({"prompt": "p", "completion": "c"}, "here") == ("p", "c", {})
    turns = [{"role": "assistant", "content": None}, {"role": "tool", "content": "4"}]
    assert logs._trl(row | {"completion": turns}, "here") is None
    with pytest.raises(ConfigError, match="here: a prompt and a completion are needed"):
        logs._trl({"prompt": "p"}, "here")


def test_parquet_without_its_library_says_what_to_install(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyarrow"):
        pytest.skip("pyarrow is here")
    (tmp_path / "completions_00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=r"botgrpo\[hub\]"):
        logs.load("trl", tmp_path)


def test_parquet_that_is_none_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "completions_00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match="expected the Parquet file of a TRL run"):
        logs.load("trl", tmp_path)


def test_a_batch_that_is_logged_again_counts_once(tmp_path: Path) -> None:
    dumped(tmp_path, 1, verl_row(step=1))
    dumped(tmp_path, 2, verl_row(step=2))
    found = logs.load("verl", tmp_path)
    assert len(found.rollouts) == 1 and "2.jsonl logs the rollouts" in found.notes[0]
