"""Every page says who judged, or that nobody did: a judge that was not asked is not left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.report import write_report
from botgrpo.benchmarks.results import load_suite
from botgrpo.benchmarks.stand_in import StandIn
from botgrpo.benchmarks.view import view_html
from botgrpo.rewards import RewardSpec
from botgrpo.rewards.judges.provenance import in_words
from synthetic_suite import write_synthetic_suite

NOBODY = "judge: not measured"
OPINION = json.dumps({"react": True, "remark": "canned", "lines": [], "score": 7})


def test_nobody_is_said_to_be_nobody() -> None:
    (line,) = in_words({})
    assert line.startswith(NOBODY)


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("localhost", "a local model's opinions"),
        ("127.0.0.1", "a local model's opinions"),
        ("::1", "a local model's opinions"),
        ("api.vendor.com", "at api.vendor.com"),
        ("", "at an endpoint that is not recorded"),
    ],
)
def test_a_local_model_is_called_so_and_no_judge_is_called_good(host: str, place: str) -> None:
    judges = {"react.code_judge": {"model": "m", "host": host}, "b": {"model": "m", "host": host}}
    (line,) = in_words(judges)
    assert line == f"judge: m, {place}, for react.code_judge, b; how right it is was not measured"
    assert "agrees with the labels" in in_words(judges, labelled=True)[0]


def test_two_models_are_two_lines() -> None:
    judges = {"a": {"model": "m", "host": "h"}, "b": {"model": "n", "host": "h"}}
    assert len(in_words(judges)) == 2


def test_the_score_page_says_it() -> None:
    spec = RewardSpec("test.view", "1", (0.0, 1.0))
    assert NOBODY in view_html(spec, [], [[]])
    judged = view_html(spec, [], [[]], judges={"x": {"model": "<b>m", "host": "localhost"}})
    assert NOBODY not in judged and "&lt;b&gt;m, a local model" in judged


def test_the_report_says_it_for_each_arm(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms={"plain": 1.0, "judged": 1.2}, seeds=2, rollouts=False)
    assert NOBODY in write_report(load_suite(tmp_path)).read_text()
    for seed in (0, 1):
        judge = {"model": "small", "host": "127.0.0.1", "prompt_sha256": "x"}
        cell = tmp_path / "cells" / "judged" / f"seed{seed}"
        manifest = {"reward": {"version": "1", "judges": {"react.code_judge": judge}}}
        (cell / "manifest.json").write_text(json.dumps(manifest))
    page = write_report(load_suite(tmp_path)).read_text()
    assert NOBODY not in page
    said = "judge: small, a local model&#39;s opinions, for react.code_judge of judged; how right"
    assert said in page


def test_the_audit_and_the_score_command_say_it(tmp_path: Path) -> None:
    rows = [
        {"id": i, "group": "g", "prompt": "p", "completion": f"```tsx\n{i}\n```"}
        for i in ("a", "b")
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with StandIn(lambda request: OPINION) as server:
        judge = f"react.code_judge(url='{server.url}', model='m', cache=False)"
        for reward, said in (("react.form", NOBODY), (judge, "judge: m, a local model")):
            card, view = tmp_path / said[:9], tmp_path / "v.html"
            words = ["--reward", reward, "--in", str(path)]
            assert cli.main(["audit", *words, "--out", str(card)]) == 0
            assert said in (card / "audit.html").read_text()
            assert said in json.loads((card / "audit.json").read_text())["facts"]["judges"][0]
            scores = ["--out", str(tmp_path / "s.jsonl"), "--html", str(view)]
            assert cli.main(["score", *words, *scores]) == 0
            assert said in view.read_text()
