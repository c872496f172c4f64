from __future__ import annotations

import argparse
import asyncio
import json

import pytest

from botgrpo.benchmarks import math_speed
from botgrpo.benchmarks.math_speed import answer, trace
from botgrpo.rewards import Rollout, build


@pytest.mark.parametrize("seed", range(6))
def test_a_trace_is_as_long_as_asked_the_same_for_a_seed_and_gives_its_number(seed):
    text, number = trace(seed, 3000)
    assert len(text) == 3000 and trace(seed, 3000) == (text, number)
    right = Rollout("a", "g", "p", text, {"accepted": [number]})
    wrong = Rollout("b", "g", "p", text, {"accepted": [(number + 1) % 1000]})
    scores = asyncio.run(build("math.answer").score([right, wrong]))
    assert [s.verdict for s in scores] == ["correct", "wrong"]


def test_it_says_what_is_missing_and_which_cases_were_missed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(math_speed.importlib.util, "find_spec", lambda name: None)
    cases = [
        {"id": "right", "accepted": [7], "completion": "\\boxed{7}", "verdict": "correct"},
        {"id": "mistaken", "accepted": [7], "completion": "\\boxed{7}", "verdict": "wrong"},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    answer(argparse.Namespace(texts=4, chars=2000, repeats=2, cases=path))
    printed = capsys.readouterr().out
    assert printed.count("4/4 right") == 2 and "make env-math" in printed
    assert "cases.jsonl: math.answer, verdicts: 1/2" in printed and "missed: mistaken" in printed
