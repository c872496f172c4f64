"""Where a completion's steps stand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards.math.steps import MAX_CHARS, split_steps


def texts(completion: str) -> list[str]:
    return [completion[s.start : s.end] for s in split_steps(completion)]


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("<step 1>one</step 1>\n<step 2> two </step 2><final>3</final>", ["one", "two"]),
        ("Hm. <step_1>one</step_1> aside <STEP 2>two</STEP 2>", ["one", "two"]),
        ("<step>never closed <step>two<final>3</final> x", ["never closed", "two"]),
        ("<step 1></step 1><step 2>two</step 2>", ["two"]),
        (
            "one\nstill one\n\n\n  two\r\n\r\nthree <final>4</final> five",
            ["one\nstill one", "two", "three"],
        ),
        ("", []),
        (" \n\n ", []),
        ("</step 1> text", ["</step 1> text"]),
    ],
)
def test_steps_are_tags_else_paragraphs(completion, expected):
    assert texts(completion) == expected


@pytest.mark.parametrize(
    "formula",
    [
        "$$a\n\n= b$$",
        "\\[a\n\n= b\\]",
        "\\begin{align*}a\n\n&= b\\end{align*}",
        "```\na\n\nb\n```",
    ],
)
def test_a_formula_or_a_fence_keeps_its_blank_lines(formula):
    assert texts(f"one {formula} more\n\ntwo") == [f"one {formula} more", "two"]


def test_an_opening_that_never_closes_does_not_swallow_the_rest():
    assert texts("price $$ 5\n\ntwo \\[ x\n\nthree") == ["price $$ 5", "two \\[ x", "three"]


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("<think>2 + 2 = 5\n\nno</think>one\n\ntwo", ["one", "two"]),
        ("2 + 2 = 5\n\nno</think>one", ["one"]),
        ("one\n\n<think>2 + 2 = 5", ["one"]),
        ("one <think>a</think> two\n\n<think>b</think> three", ["one", "two", "three"]),
        ("<step 1>one<think>a</think>more</step 1><step 2>two</step 2>", ["one", "two"]),
        ("<think>never ends", []),
        ("<think><step 1>2 + 2 = 5</step 1></think><step 1>one</step 1>", ["one"]),
    ],
)
def test_thinking_holds_no_steps(completion, expected):
    assert texts(completion) == expected


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.lists(
        st.sampled_from(
            (
                *("a", "=", "\n\n", "\n", " ", "$$", "\\[", "\\]", "```", "漢", "\u2028", "🤨"),
                *("<step 1>", "</step 1>", "<final>", "<think>", "</think>"),
                *("\\begin{align}", "\\end{align}"),
            )
        ),
        max_size=40,
    )
)
def test_steps_are_in_order_apart_and_without_white_space_around_them(parts):
    completion = "".join(parts)
    steps = split_steps(completion)
    assert steps == split_steps(completion)
    last = 0
    for step in steps:
        assert last <= step.start < step.end <= len(completion)
        inner = completion[step.start : step.end]
        assert inner == inner.strip()
        last = step.end


def test_what_follows_the_longest_text_holds_no_steps():
    (step,) = split_steps("a" * 1_000_000 + "\n\nlast")
    assert (step.start, step.end) == (0, MAX_CHARS)


def test_many_openings_cost_no_more_than_one_look_each():
    completion = "$$ a\n\n" * 5_001 + "\\[ b\n\n" * 5_000 + "\\begin{x} c\n\n" * 5_000
    assert len(split_steps(completion)) > 10_000
