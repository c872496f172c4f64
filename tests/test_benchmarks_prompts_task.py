"""Anyone's prompts as a task: read with line numbers, split once, judged by their own reward."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.benchmarks import assemble
from botgrpo.benchmarks.tasks.prompts import Judged, PromptsTask, split
from botgrpo.rewards.base import RewardError, Rollout
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs
from botgrpo.trainer.task import Item

RULES = """
def share(prompts, completions, **columns):
    return [len(set(text)) / len(text) if text else None for text in completions]

def length(prompts, completions, **columns):
    return [float(len(text)) for text in completions]
"""


def asks(folder: Path, *rows: Any, n: int = 10) -> str:
    path = folder / "asks.jsonl"
    lines = [json.dumps({"prompt": f"ask {i}"}) for i in range(n)] + [
        row if isinstance(row, str) else json.dumps(row) for row in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def rules(folder: Path, name: str) -> str:
    (folder / "rules.py").write_text(RULES)
    return f"{folder / 'rules.py'}:{name}"


def test_a_fifth_is_held_out_and_never_trained_on(tmp_path: Path) -> None:
    task = PromptsTask(asks(tmp_path), "x.y")
    held_out = {item.prompt for item in task.eval_items(99)}
    trained = {item.prompt for item in task.train_items(0)}
    assert (len(held_out), len(trained)) == (2, 8) and not held_out & trained
    assert task.train_items(0) == task.train_items(0) != task.train_items(1)


@given(st.permutations(range(12)))
def test_the_split_does_not_depend_on_the_order_of_the_file(order: list[int]) -> None:
    items = [Item(str(i), f"ask {i}") for i in order]
    assert {i.prompt for i in split(items, "f")[1]} == {
        i.prompt for i in split(sorted(items, key=lambda i: i.prompt), "f")[1]
    }


def test_references_ids_and_line_separators_inside_a_prompt_are_kept(tmp_path: Path) -> None:
    text = '{"prompt": "a\u2028b", "id": "mine", "reference": {"answer": 4}}'
    items = [*PromptsTask(asks(tmp_path, text), "x.y").train_items(0)]
    items += PromptsTask(asks(tmp_path, text), "x.y").eval_items(9)
    (item,) = (item for item in items if item.id == "mine")
    assert item.prompt == "a\u2028b" and item.reference == {"answer": 4}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{broken", "asks.jsonl:11: "),
        ("[" * 100_000, "asks.jsonl:11: "),
        ({"text": "no prompt"}, 'asks.jsonl:11: an object with a text under "prompt"'),
        ({"prompt": ""}, "asks.jsonl:11: "),
        ({"prompt": "x", "reference": [1]}, 'asks.jsonl:11: "reference" is list'),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PromptsTask(asks(tmp_path, row), "x.y")


def test_an_id_for_two_prompts_is_refused_and_a_prompt_twice_counts_once(tmp_path: Path) -> None:
    one, two = {"prompt": "p", "id": "a"}, {"prompt": "q", "id": "a"}
    assert len(PromptsTask(asks(tmp_path, one, one), "x.y").train_items(0)) == 9
    with pytest.raises(ConfigError, match=r"asks\.jsonl:12: the id 'a' is that of line 11"):
        PromptsTask(asks(tmp_path, one, two), "x.y")


def test_too_few_prompts_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="4 prompts; a fifth is held out: give 5 or more"):
        PromptsTask(asks(tmp_path, n=4), "x.y")
    with pytest.raises(ConfigError, match=r"give a \.jsonl file"):
        PromptsTask(str(tmp_path / "gone.jsonl"), "x.y")


def config(folder: Path, judge: str) -> configs.Config:
    data = {
        "name": "mine",
        "task": f"prompts({asks(folder)!r}, judge={judge!r})",
        "algorithm": "grpo",
        "policy": {"model": "react_micro"},
        "reward": {"outcomes": {rules(folder, "length"): 1.0}},
    }
    return configs.parse(data, "the test")


def test_a_plain_function_judges_and_its_mean_is_the_metric(tmp_path: Path) -> None:
    made = config(tmp_path, rules(tmp_path, "share"))
    assert assemble.eval_metrics(made) == ["outcome"]
    rollouts = [Rollout("a", "g", "p", "aab"), Rollout("b", "g", "p", "")]
    scores = asyncio.run(assemble.judge(made).score(rollouts))
    assert [s.metrics.get("outcome") for s in scores] == [pytest.approx(2 / 3), None]
    assert [s.outcome for s in scores] == [pytest.approx(2 / 3), None]


def test_a_judge_that_gives_no_rate_is_refused(tmp_path: Path) -> None:
    judge = Judged(build(rules(tmp_path, "length")))
    with pytest.raises(RewardError, match="length gave r the outcome 4; allowed: 0 to 1"):
        asyncio.run(judge.score([Rollout("r", "g", "p", "four")]))
    with pytest.raises(ConfigError, match="from 0 to 9; allowed: 0 to 1"):
        Judged(build(rules(tmp_path, "length") + "(low=0, high=9)"))


def test_an_unknown_judge_is_found_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"here: no reward 'react\.complie'"):
        assemble.check(config(tmp_path, "react.complie"), where="here")


def test_there_is_nothing_to_warm_start_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="begin with a model that follows instructions"):
        PromptsTask(asks(tmp_path), "x.y").corpus(1, 0, 0.1)
