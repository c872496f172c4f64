"""The paper's AIME reward, equation 8, worked by hand."""

from __future__ import annotations

import asyncio

import pytest

from botgrpo.rewards import Design, Rollout, Score, build
from botgrpo.rewards.math.aime import MathAime
from botgrpo.rewards.mix import token_rewards
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.errors import ConfigError

FIRST, SECOND = "<step 1>3 * 4 = 12 seats.</step 1>", "<step 2>12 - 2 = 11 are left.</step 2>"
FINAL = "<final>11</final>"


def rollout(*parts: str, accepted: int = 11) -> Rollout:
    """One token for each part, as if the policy had sampled it so."""
    spans, at = [], 0
    for part in parts:
        spans.append((at, at + len(part)))
        at += len(part)
    reference = {"accepted": [accepted]}
    return Rollout("r", "g", "p", "".join(parts), reference, token_spans=tuple(spans))


def score(reward: MathAime, *parts: str, accepted: int = 11) -> Score:
    return asyncio.run(reward.score([rollout(*parts, accepted=accepted)]))[0]


def test_a_right_answer_in_perfect_tags_with_one_false_step_of_two() -> None:
    result = score(MathAime(), FIRST, SECOND, FINAL)
    # G = 3 * 1 + 0.2; the false step costs w_s / |S| = 0.5 / 2 on its tokens, and only there
    assert result.outcome == pytest.approx(3.2)
    assert result.local == pytest.approx((0.0, -0.25, 0.0))
    rewards_T = token_rewards(result, Design({"math.aime": 1.0}, {"math.aime": 1.0}))
    assert rewards_T.tolist() == pytest.approx([3.2, 2.95, 3.2])


def test_a_wrong_answer_keeps_its_format_and_a_broken_tag_costs_one() -> None:
    assert score(MathAime(), FIRST, FINAL, accepted=12).outcome == pytest.approx(0.2)
    assert score(MathAime(), FIRST[:-1], FINAL).outcome == pytest.approx(3.0 - 1.0)


def test_weights_and_the_judge_of_steps_are_data() -> None:
    reward = build("math.aime(math.steps_sympy(verified=1.0), w_g=1.0, w_s=2.0, w_format=0.0)")
    result = score(reward, FIRST, SECOND, FINAL)
    assert result.outcome == pytest.approx(1.0)
    assert result.local == pytest.approx((2.0 / 2, -2.0 / 2, 0.0))


def test_every_component_is_logged_apart() -> None:
    metrics = score(MathAime(), FIRST, SECOND, FINAL).metrics
    assert metrics["rewards/math.answer"] == 1.0
    assert metrics["rewards/math.format"] == pytest.approx(0.2)
    assert metrics["rewards/math.steps_sympy/refuted"] == 1.0


@pytest.mark.parametrize("reference", ["math.aime", "math.aime(w_g=1.0, w_format=0.5)"])
def test_it_passes_its_own_examples(reference: str) -> None:
    assert [check for check in asyncio.run(validate(build(reference))) if not check.ok] == []


def test_a_judge_without_steps_is_refused() -> None:
    from botgrpo.rewards.functions import FunctionReward

    plain = FunctionReward(lambda prompts, completions: [1.0 for _ in completions])
    with pytest.raises(ConfigError, match="no local signal"):
        MathAime(plain)
