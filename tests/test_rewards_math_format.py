from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.rewards import Rollout
from botgrpo.rewards.local import check_score
from botgrpo.rewards.math.format_tags import MathFormat
from botgrpo.rewards.validate import validate

PERFECT = "<step 1>2 + 2 = 4</step 1>\n<step 2>4 * 5 = 20</step 2>\n<final>20</final>"


def judge(text, finish="stop"):
    rollout = Rollout("r", "g", "p", text, finish_reason=finish)
    (score,) = asyncio.run(MathFormat().score([rollout]))
    check_score("math.format", MathFormat().spec, rollout, score)
    return score


def blamed(text, finish="stop"):
    return [(text[s.start : s.end], s.value) for s in judge(text, finish).spans]


def test_its_own_examples_hold():
    checks = asyncio.run(validate(MathFormat()))
    assert [c for c in checks if not c.ok] == []


def test_perfect_tags_get_a_fifth():
    score = judge(PERFECT)
    assert (score.outcome, score.verdict, score.spans) == (0.2, "perfect", ())
    assert score.metrics == {"steps": 2.0, "perfect": 1.0}
    assert judge(f"\n\t{PERFECT} \n").verdict == "perfect"
    assert judge(f"<think> <step 9> oh </final> </think>\n{PERFECT}").verdict == "perfect"
    assert judge(f"prompt opened it </think>{PERFECT}").verdict == "perfect"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PERFECT.replace("step 2>", "step 3>"), "step 2 is expected where step 3 stands"),
        (PERFECT.replace("step 1>", "step 2>"), "step 1 is expected"),
        (PERFECT.replace("step 1>", "step 01>"), "not well written: <step 01>"),
        (PERFECT.replace("step 1>", "Step 1>"), "not well written: <Step 1>"),
        (PERFECT.replace("step 1>", "step>"), "not well written: <step>"),
        (PERFECT.replace("<final>20</final>", ""), "one final block comes last"),
        (PERFECT + "<final>21</final>", "one final block comes last"),
        (PERFECT + "<step 3>x</step 3>", "one final block comes last"),
        ("<final>20</final>", "no step"),
        (PERFECT.replace("2 + 2 = 4", " \n"), "a block is empty"),
        ("Sure! " + PERFECT, "text outside"),
        (PERFECT.replace("\n<step 2>", " so <step 2>"), "text outside"),
        (PERFECT + " That is all.", "text outside"),
    ],
)
def test_tags_that_match_but_are_not_as_asked_get_nothing(text, reason):
    score = judge(text)
    assert (score.outcome, score.verdict, score.spans) == (0.0, "imperfect", ())
    assert reason in score.reason


def test_prose_gets_nothing():
    for text in ("", "It is 20.", "<think><step 1></think> 20", "<steps 1> <stepwise> 1 <step 2"):
        assert (judge(text).outcome, judge(text).verdict) == (0.0, "no_tags")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("<step 1>a<final>b</final>", ["<step 1>"]),
        ("a</step 1><final>b</final>", ["</step 1>"]),
        ("<step 1>a</step 2><final>b</final>", ["<step 1>", "</step 2>"]),
        ("<step 1>a<step 2>b</step 2></step 1>", ["<step 1>", "</step 1>"]),
        ("<step 1>a</step 1><final>b", ["<final>"]),
        ("<step 1>a</final>", ["<step 1>", "</final>"]),
        ("<step 1><step 1><step 1>", ["<step 1>"] * 3),
        ("é🤨<STEP 1 >漢</final>", ["<STEP 1 >", "</final>"]),
    ],
)
def test_tags_without_a_partner_are_blamed_and_the_outcome_is_minus_one(text, tags):
    score = judge(text)
    assert (score.outcome, score.verdict) == (-1.0, "mismatched")
    assert blamed(text) == [(tag, -1.0) for tag in tags]


def test_a_tag_that_the_length_limit_left_open_is_named_and_not_blamed():
    text = "<step 1>a</step 1><step 2>b"
    assert judge(text, "length").outcome == -1.0
    assert blamed(text, "length") == [("<step 2>", 0.0)]
    # what was wrong before the cut stays wrong
    assert blamed("<step 1>a<step 2>b", "length") == [("<step 1>", -1.0), ("<step 2>", 0.0)]


TAGS = st.sampled_from(
    ["<step 1>", "</step 1>", "<step 2>", "</step 2>", "<final>", "</final>", "x", "<think>",
     "</think>", "<step", ">", " "]
)  # fmt: skip


@given(st.lists(TAGS, max_size=12).map("".join))
def test_any_text_gets_one_of_three_outcomes_and_blame_only_on_tags(text):
    score = judge(text)
    assert score.outcome in (-1.0, 0.0, 0.2)
    assert bool(score.spans) == (score.verdict == "mismatched")
    assert all(text[s.start : s.end][0] == "<" for s in score.spans)


@given(st.integers(1, 30))
def test_any_number_of_steps_can_be_perfect(count):
    steps = "".join(f"<step {i}>s</step {i}>" for i in range(1, count + 1))
    assert judge(f"{steps}<final>1</final>").metrics == {"steps": float(count), "perfect": 1.0}


def test_a_long_text_of_tag_beginnings_is_read_once():
    assert judge("<step " * 200_000 + "</" * 200_000).verdict == "no_tags"
