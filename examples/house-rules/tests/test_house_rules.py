from __future__ import annotations

import asyncio

from house_rules import InlineStyleReward

from botgrpo.rewards import Rollout, Score, build
from botgrpo.rewards.validate import validate


def score(text: str) -> Score:
    (scored,) = asyncio.run(InlineStyleReward().score([Rollout("r", "g", "prompt", text)]))
    return scored


def test_it_keeps_every_promise_on_its_own_examples() -> None:
    failed = [check for check in asyncio.run(validate(InlineStyleReward())) if not check.ok]
    assert failed == []


def test_each_inline_style_is_blamed_and_costs_its_share() -> None:
    text = "<a style={s}><b/><i style={{}}/><u/></a>"
    scored = score(text)
    assert scored.outcome == 0.5
    assert [text[span.start : span.end] for span in scored.spans] == ["style", "style"]


def test_the_word_alone_is_no_fault() -> None:
    assert score("<p>in style</p>").outcome == 1.0


def test_it_is_found_by_its_name() -> None:
    """Needs an install of this folder: pip install -e ."""
    assert build("house-rules/inline_style").spec.name == "house-rules/inline_style"
