"""From judged completions to pass@k, maj@k and efficiency: what a vote is, and a first answer."""

from __future__ import annotations

import asyncio

import pytest

from botgrpo.benchmarks import math_eval
from botgrpo.rewards.base import Rollout, Score
from botgrpo.rewards.math.answer import MathAnswer


def judged(
    completions: list[str], accepted: tuple[int, ...] = (12,), group: str = "g", cut: int = 0
) -> tuple[list[Rollout], list[Score]]:
    """Completions of one problem with one token a character; the last `cut` of them cut off."""
    rollouts = [
        Rollout(
            f"{group}/{i}",
            group,
            "?",
            text,
            {"accepted": list(accepted)},
            token_ids=tuple(range(len(text))),
            token_spans=tuple((at, at + 1) for at in range(len(text))),
            finish_reason="length" if i >= len(completions) - cut else "stop",
        )
        for i, text in enumerate(completions)
    ]
    return rollouts, asyncio.run(MathAnswer().score(rollouts))


def test_votes_are_answers_as_printed_and_what_holds_none_is_silent() -> None:
    rollouts, scores = judged(
        ["<final>12</final>", "<final>012</final>", "\\boxed{7}", "no idea", "<final>1200</final>"],
        cut=2,
    )
    (samples,) = math_eval.by_problem(rollouts, scores)
    assert samples.answers == ("12", "12", "7", None, None)
    assert samples.correct == (True, True, False, False, False)
    assert samples.truncated == 2 and samples.unscored == 0


def test_unscored_samples_are_in_no_rate() -> None:
    rollouts, scores = judged(["<final>12</final>", "<final>12</final>", "<final>1</final>"], cut=1)
    scores[2] = Score.unscored(rollouts[2].id, "?")
    (samples,) = math_eval.by_problem(rollouts, scores)
    assert samples.correct == (True, True)
    assert samples.truncated == 0 and samples.unscored == 1


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2*6=12, done. <final>12</final>", "2*6=12"),
        ("x is 12. Check: 12", "x is 12"),
        ("24≡12 (mod 12)", "24≡12"),
        ("so \\boxed{12}", "so \\boxed{12"),
        ("<final>012</final>", "<final>012"),
        ("a= $12$", "a= $12"),
        ("5+7=12+0=12", "5+7=12+0=12"),  # 12+0 states no number yet
        ("12 is not stated", None),
        ("=120, =112, =12.5, =1 2", None),
        ("", None),
    ],
)
def test_first_right_answer_is_the_first_one_stated(text: str, end: str | None) -> None:
    ((rollout,), _) = judged([text])
    assert math_eval.first_right_token(rollout) == (None if end is None else len(end))


def test_table_holds_rates_with_intervals_counts_and_efficiency() -> None:
    one = judged(["<final>12</final>"] * 3 + ["<final>5</final>"], group="g1")
    other = judged(["<final>5</final>"] * 3 + ["<final>1"], group="g2", cut=1)
    printed = math_eval.text(one[0] + other[0], one[1] + other[1], [1, 2])
    lines = dict(line.split(maxsplit=1) for line in printed.splitlines())
    assert lines["avg@4"].startswith("0.3750 [")
    assert lines["pass@2"].startswith("0.5000 [")
    assert lines["maj@1"].startswith("0.3750 [")
    assert lines["problems"] == "2" and lines["samples"] == "8"
    assert lines["truncated"] == "1" and lines["no_answer"] == "1" and lines["unscored"] == "0"
    # 9 of the 17 characters of a right response, in three of eight
    assert lines["efficiency"].startswith(f"{3 / 8 * 9 / 17:.4f}")
