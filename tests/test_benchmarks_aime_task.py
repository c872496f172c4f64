"""The task `aime`: whatever form the data has, one split, and nothing of it on both sides."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from botgrpo.benchmarks import assemble
from botgrpo.benchmarks.tasks.aime import AimeTask
from botgrpo.sandbox.errors import ConfigError

DATA = Path(
    os.environ.get("BOTGRPO_DATA") or Path(__file__).parents[2] / "shared" / "data"
).resolve()
ROWS = [{"id": f"own-{i}", "problem": f"What is {i}+{i}?", "accepted": [2 * i]} for i in range(50)]


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="") as file:
            head = csv.writer(file)
            head.writerow(["ID", "Question", "Answer"])
            head.writerows([row["id"], row["problem"], row["accepted"][0]] for row in rows)
    return str(path)


def prompts(task: AimeTask) -> tuple[set[str], set[str]]:
    return {i.prompt for i in task.train_items(0)}, {i.prompt for i in task.eval_items(9999)}


def test_every_form_of_file_gives_the_same_problems_in_the_same_split(tmp_path: Path) -> None:
    splits = []
    for name in ("a.jsonl", "b.json", "c.csv"):
        task = AimeTask(written(tmp_path / name, ROWS))
        splits.append((task.train_items(3), task.eval_items(10)))
    assert splits[0] == splits[1] == splits[2]
    train, held_out = splits[0]
    assert len(train) == 40 and len(held_out) == 10
    assert {i.id for i in (*train, *held_out)} == {f"aime-{row['id']}" for row in ROWS}


def test_split_is_the_seeds_and_order_of_training_the_runs(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", ROWS)
    one, again, other = AimeTask(source), AimeTask(source, seed=0), AimeTask(source, seed=1)
    assert prompts(one) == prompts(again)
    assert prompts(one) != prompts(other)
    assert one.train_items(0) != one.train_items(1)
    assert set(map(str, one.train_items(0))) == set(map(str, one.train_items(1)))
    shuffled = written(tmp_path / "b.jsonl", ROWS[::-1])
    assert AimeTask(shuffled).eval_items(10) == one.eval_items(10)


def test_a_statement_that_occurs_twice_is_one_problem(tmp_path: Path) -> None:
    double = [{**row, "id": f"copy-{row['id']}", "problem": f" {row['problem']}\n"} for row in ROWS]
    train, held_out = prompts(AimeTask(written(tmp_path / "a.jsonl", ROWS + double)))
    assert len(train) + len(held_out) == len(ROWS)
    assert not {" ".join(p.split()) for p in train} & {" ".join(p.split()) for p in held_out}


def test_prompt_asks_for_the_tags_and_holds_the_problem(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "problem": "Let {x} be 1\u2028. Find {}."}, *ROWS[1:]]
    task = AimeTask(written(tmp_path / "a.jsonl", rows))
    items = [*task.train_items(0), *task.eval_items(99)]
    (item,) = [item for item in items if "{x}" in item.prompt]
    assert item.prompt.endswith("Problem: Let {x} be 1\u2028. Find {}.")
    for tag in ("<step 1>", "</step 1>", "<step 2>", "<final>", "</final>"):
        assert tag in item.prompt


@pytest.mark.parametrize("answer", [33, "033", "33", 33.0, " 33 ", "33.0", [33]])
def test_answers_are_read_as_data_sets_store_them(tmp_path: Path, answer: Any) -> None:
    rows = [{"problem": row["problem"], "answer": answer} for row in ROWS[:5]]
    for item in AimeTask(written(tmp_path / "a.jsonl", rows)).train_items(0):
        assert item.reference == {"accepted": [33]}


@pytest.mark.parametrize("answer", [1000, -1, "1/2", "", None, True, "٣٣", "33 or 34", []])
def test_a_row_whose_answer_is_no_aime_answer_is_refused_with_its_place(
    tmp_path: Path, answer: Any
) -> None:
    rows = [*ROWS[:3], {"id": "x", "problem": "What?", "answer": answer}]
    with pytest.raises(ConfigError, match=r"a\.jsonl, problem 4"):
        AimeTask(written(tmp_path / "a.jsonl", rows))


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.jsonl", "{}\n", "problem 1: needs text"),
        ("a.jsonl", "{\n", "a.jsonl: Expecting"),
        ("a.json", '{"problem": 1}', "expected a list"),
        ("a.csv", "ID,Question,Answer\n", "0 problems"),
    ],
)
def test_a_file_of_another_form_is_refused(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        AimeTask(str(tmp_path / name))


def test_two_problems_under_one_id_are_refused(tmp_path: Path) -> None:
    rows = [*ROWS, {**ROWS[0], "problem": "Another?"}]
    with pytest.raises(ConfigError, match="own-0"):
        AimeTask(written(tmp_path / "a.jsonl", rows))


def test_what_has_no_source_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="aime_micro, which works offline"):
        assemble.task("aime")
    with pytest.raises(ConfigError, match="No such file"):
        assemble.task('aime("nowhere.jsonl")')
    with pytest.raises(ConfigError, match="allowed: a file"):
        assemble.task('aime("nowhere.txt")')
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'botgrpo\[hub\]'"):
        assemble.task('aime("owner/name")')


def test_a_hubs_data_set_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, split: str) -> list[dict[str, Any]]:
        asked.append((name, split))
        return ROWS

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    assert len(AimeTask("owner/name").train_items(0)) == 40
    assert asked == [("owner/name", "train")]


def test_tasks_are_named_with_their_arguments() -> None:
    assert assemble.task("aime_micro(difficulty=3)").eval_items(1) != (
        assemble.task("aime_micro").eval_items(1)
    )
    assert assemble.task("react").name == "react"
    with pytest.raises(ConfigError, match="Did you mean 'aime_micro'"):
        assemble.task("aime_mikro")
    with pytest.raises(ConfigError, match="it takes"):
        assemble.task("aime_micro(level=3)")


def test_there_is_no_corpus_without_worked_solutions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no worked solutions"):
        AimeTask(written(tmp_path / "a.jsonl", ROWS)).corpus(1, 0, 0.0)


@pytest.mark.skipif(not (DATA / "aime").is_dir(), reason=f"no AIME data at {DATA}")
def test_the_papers_set_has_its_933_problems_and_the_one_with_two_answers() -> None:
    task = AimeTask(str(DATA / "aime" / "aime_1983_2024.jsonl"))
    train, held_out = task.train_items(0), task.eval_items(9999)
    assert len(train) + len(held_out) == 933
    assert len(train) == round(0.8 * 933)
    (two,) = [i for i in (*train, *held_out) if len(i.reference["accepted"]) > 1]
    assert two.id == "aime-2022-II-8" and two.reference["accepted"] == [80, 81]
