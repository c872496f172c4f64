"""1,015 requests for apps: each fair, checkable, and met by a component of ours."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from botgrpo.benchmarks import assemble
from botgrpo.benchmarks.tasks.react_apps import FAMILIES, HELD_OUT, REQUESTS, ReactAppsTask, apps
from botgrpo.benchmarks.tasks.react_apps_parts import App
from botgrpo.benchmarks.tasks.react_corpus import fenced
from botgrpo.benchmarks.training import load_config
from botgrpo.rewards.base import Rollout
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.complete import ReactComplete
from botgrpo.rewards.react.requirements import requirements_of
from botgrpo.rewards.react.visual import ReactVisual
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.models import models_dir


def rollout(app: App, source: str | None = None) -> Rollout:
    return Rollout(
        app.prompt[:40], app.family, app.prompt, fenced(source or app.source), app.reference
    )


def one_of_each() -> list[App]:
    return list({app.family: app for app in reversed(apps())}.values())


def test_there_are_as_many_as_the_paper_has_and_none_twice() -> None:
    prompts = {app.prompt for app in apps()}
    assert len(prompts) == len(apps()) == REQUESTS == 1015
    assert {app.family for app in apps()} == set(FAMILIES) and len(FAMILIES) == 25
    sizes = sorted(len(app.prompt) for app in apps())
    assert sizes[-1] > 2 * sizes[0]


def test_held_out_requests_are_203_and_no_run_learns_on_them() -> None:
    task = ReactAppsTask()
    held_out = {item.prompt for item in task.eval_items(10_000)}
    orders = [[item.id for item in task.train_items(seed)] for seed in (0, 1)]
    assert len(held_out) == HELD_OUT == 203
    assert not held_out & {item.prompt for item in task.train_items(0)}
    assert orders[0] != orders[1] and set(orders[0]) == set(orders[1])
    families = {app.family for app in apps() if app.prompt in held_out}
    assert families == set(FAMILIES)
    assert task.eval_items(5) == ReactAppsTask().eval_items(5)


def test_a_prompt_says_all_that_is_asked_of_the_page_at_rest() -> None:
    for app in apps():
        said = set(re.findall(r"\w+", app.prompt.lower()))
        page = app.reference["page"]
        asked = [*page["texts"], *(role["name"] for role in page["roles"])]
        for text in (*asked, *app.reference["elements"]):
            missing = set(re.findall(r"\w+", text.lower())) - said
            missing = {
                word for word in missing if not word.isdigit()
            }  # the ends of a range are said
            assert not missing, f"{app.family}: {text!r} is asked and {missing} never said"


def test_every_reference_is_one_that_the_rewards_take() -> None:
    for app in apps():
        asked = requirements_of(rollout(app))
        assert asked.elements and asked.at_rest.roles and asked.steps


def test_the_corpus_is_of_training_requests_and_faults_can_be_put_in() -> None:
    task = ReactAppsTask()
    held_out = {item.id for item in task.eval_items(10_000)}
    clean, faulty = task.corpus(60, seed=1, corruption_rate=0.0), task.corpus(60, 1, 0.3)
    assert not held_out & {item.id for item, _ in clean}
    assert [item for item, _ in clean] == [item for item, _ in faulty]
    assert sum(a != b for (_, a), (_, b) in zip(clean, faulty, strict=True)) > 50


def test_requests_of_a_file_are_split_the_same_way_each_time(tmp_path: Path) -> None:
    rows = [{"id": f"x{n}", "prompt": f"Build app {n}."} for n in range(20)]
    rows[3]["reference"] = {"page": {"texts": ["Hello"]}}  # type: ignore[assignment]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (*rows, rows[0])))
    task = assemble.task(f'react_apps("{path}")')
    held_out, train = task.eval_items(99), task.train_items(0)
    assert len(held_out) == 4 and len(train) == 16
    assert {item.id for item in (*held_out, *train)} == {row["id"] for row in rows}
    with pytest.raises(ConfigError, match="come without components"):
        task.corpus(1, 0, 0.0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "requests.jsonl:6: "),
        ('{"prompt": ""}', "requests.jsonl:6: .*a text under"),
        ('{"prompt": "x", "reference": []}', "requests.jsonl:6: .*list, an object is needed"),
        (
            '{"prompt": "x", "reference": {"page": {"txts": []}}}',
            "requests.jsonl:6: .*texts, roles",
        ),
    ],
)
def test_a_line_that_is_wrong_is_named_by_its_number(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "requests.jsonl"
    good = "".join(json.dumps({"prompt": f"Build app {n}."}) + "\n" for n in range(5))
    path.write_text(good + line + "\n")
    with pytest.raises(ConfigError, match=says):
        ReactAppsTask(str(path))


def test_a_file_that_is_not_there_or_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"give a \.jsonl file"):
        ReactAppsTask(str(tmp_path / "none.jsonl"))
    (tmp_path / "short.jsonl").write_text('{"prompt": "Build."}\n')
    with pytest.raises(ConfigError, match="give 5 or more"):
        ReactAppsTask(str(tmp_path / "short.jsonl"))


@pytest.mark.slow
def test_every_component_compiles_and_holds_what_is_asked() -> None:
    scores = asyncio.run(ReactComplete().score([rollout(app) for app in apps()]))
    assert {score.verdict for score in scores} == {"ok"}
    assert {score.metrics["match"] for score in scores} == {1.0}


@pytest.mark.slow
@pytest.mark.browser
def test_a_quarter_of_the_components_from_all_families_mounts_to_a_page_that_shows_something() -> (
    None
):
    some = apps()[::4]  # families take turns, and 4 shares no factor with 25
    assert {app.family for app in some} == set(FAMILIES)
    scores = asyncio.run(ReactCompile(mount=True).score([rollout(app) for app in some]))
    assert {score.verdict for score in scores} == {"ok"}


def test_the_configuration_for_them_has_room_for_each_component() -> None:
    config = load_config("react_apps_small", (), weights=False)
    assert config.task == "react_apps" and config.policy.warm_start is not None
    assert len({item.id for item, _ in ReactAppsTask().corpus(4096, 0, 0.0)}) > 800
    path = models_dir() / "smollm2-135m" / "tokenizer.json"
    if not path.is_file():
        pytest.skip("no tokenizer here: botgrpo models fetch smollm2-135m")
    tokenizer = Tokenizer.from_file(str(path))
    longest = max(len(tokenizer.encode(fenced(app.source)).ids) for app in apps())
    assert longest + 1 < config.sampling.max_new_tokens


@pytest.mark.browser
def test_one_component_of_each_family_does_all_that_its_request_asks() -> None:
    scores = asyncio.run(ReactVisual().score([rollout(app) for app in one_of_each()]))
    assert {score.verdict for score in scores} == {"ok"}
    assert {score.metrics["required"] for score in scores} == {1.0}
    assert min(score.outcome or 0 for score in scores) == 1.0


@pytest.mark.browser
def test_a_component_that_does_not_answer_a_click_misses_a_requirement() -> None:
    tampered = [
        rollout(app, app.source.replace("onClick={", "data-x={").replace("onSubmit={", "data-x={"))
        for app in one_of_each()
        if "onClick" in app.source
    ]
    scores = asyncio.run(ReactVisual().score(tampered[::3]))
    assert len(scores) >= 5
    assert max(score.metrics.get("required", 0) for score in scores) < 1.0
