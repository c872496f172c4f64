"""`math.answer`: is the final answer of a completion the right one?

An integer 0..999, as AIME asks for, is read exactly in plain Python. Another answer is compared by
our own grammar and exact arithmetic; what they leave open goes to math-verify, in a process of its
own, where that is installed. Nothing that a model wrote is evaluated in this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.math.answer_examples import answer_examples
from botgrpo.rewards.math.answer_expression import judge_expression
from botgrpo.rewards.math.extract import Found, find_answer
from botgrpo.rewards.math.integer import LARGEST, judge_integer
from botgrpo.rewards.math.verdict import Judged, quoted
from botgrpo.rewards.math.verify_worker import MathVerify, shared_math_verify
from botgrpo.sandbox.errors import ConfigError

_MISSING = Judged("unparsed", r"no closed <final> or \boxed{} outside of thinking")


class MathAnswer:
    """1 if the final answer is one of the accepted ones, else 0.

    The reference is `{"accepted": [204]}` where an integer 0..999 is asked, or
    `{"accepted": ["1/2"], "kind": "expression"}`. Verdicts: correct; wrong; invalid (not an answer
    of the asked kind); unparsed (no answer, or none that can be read); ambiguous (two boxes joined
    by "or" or "and"); budget (too much work to tell). An expression that only math-verify could
    tell is unscored where it is not installed. The span is the place of the answer; its value is 0,
    since the outcome says all. Metrics: `correct`, `answered` (an answer of the asked kind was
    read) and `truncated`, each 0 or 1. `library` replaces the process's shared math-verify.
    """

    def __init__(self, library: MathVerify | None = None) -> None:
        self.spec = RewardSpec(
            name="math.answer",
            version="1",
            outcome_range=(0.0, 1.0),
            local_range=(0.0, 0.0),
            summary="1 if the final answer is right: an integer 0..999 or an expression",
        )
        self._library = library or shared_math_verify()

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts. Raises `ConfigError` for a reference of another form."""
        cases = [_judge(rollout) for rollout in rollouts]
        left = [i for i, (_, judged, _) in enumerate(cases) if judged is None]
        if left:
            asked = await asyncio.gather(*(self._ask(rollouts[i], cases[i]) for i in left))
            for i, case in zip(left, asked, strict=True):
                cases[i] = case
        return [_score(rollout, case) for rollout, case in zip(rollouts, cases, strict=True)]

    def examples(self) -> Sequence[Example]:
        """Gold and tampered answers with the verdicts that must come out."""
        return answer_examples()

    async def _ask(self, rollout: Rollout, case: _Case) -> _Case:
        started = time.perf_counter()
        found, _, seconds = case
        assert found is not None
        text = rollout.completion[found.start : found.end]
        judged = await self._library.judge(text, _accepted_expressions(rollout))
        return found, judged, seconds + time.perf_counter() - started


# Where the answer stands, what is said of it (None where that is open), seconds spent.
_Case = tuple[Found | None, Judged | None, float]


def _judge(rollout: Rollout) -> _Case:
    started = time.perf_counter()
    judge, accepted = _asked(rollout)
    found = find_answer(rollout.completion, thinking=_opens_thinking(rollout))
    if found is None:
        judged: Judged | None = _MISSING
    elif found.rival is not None:
        judged = _ambiguous(rollout.completion, found)
    else:
        judged = judge(rollout.completion[found.start : found.end], accepted)
    return found, judged, time.perf_counter() - started


def _asked(rollout: Rollout) -> tuple[Callable[[str, Any], Judged | None], Sequence[Any]]:
    """How an answer is judged, by the kind that the reference asks for, and what is accepted."""
    kind = rollout.reference.get("kind", "integer")
    if kind == "integer":
        return judge_integer, _accepted_integers(rollout)
    if kind == "expression":
        return judge_expression, _accepted_expressions(rollout)
    _wrong(rollout, f"kind = {kind!r}", '"integer" (the default) or "expression"')


def _score(rollout: Rollout, case: _Case) -> Score:
    found, judged, seconds = case
    assert judged is not None
    correct = float(judged.verdict == "correct")
    metrics = {"truncated": float(rollout.finish_reason == "length")}
    if judged.scored:
        metrics["correct"] = correct
        metrics["answered"] = float(judged.verdict in ("correct", "wrong"))
    spans: tuple[Span, ...] = ()
    if found is not None:
        spans = (Span(found.start, found.end, 0.0, f"answer ({found.source}): {judged.verdict}"),)
    return Score(
        rollout.id,
        correct if judged.scored else None,
        verdict=judged.verdict,
        reason=judged.reason,
        spans=spans,
        metrics=metrics,
        seconds=seconds,
    )


def _ambiguous(completion: str, found: Found) -> Judged:
    assert found.rival is not None
    start, end = found.rival
    one, other = quoted(completion[start:end]), quoted(completion[found.start : found.end])
    return Judged("ambiguous", f"two boxes, {one} and {other}")


def _opens_thinking(rollout: Rollout) -> bool:
    """Whether the prompt ends with an open `<think>`, as some chat templates do."""
    prompt = rollout.prompt
    if not isinstance(prompt, str):
        last = prompt[-1] if prompt else {}
        prompt = last.get("content", "") if last.get("role") == "assistant" else ""
    return prompt[-32:].rstrip().endswith("<think>")


def _accepted(rollout: Rollout) -> Sequence[Any]:
    accepted = rollout.reference.get("accepted")
    if not isinstance(accepted, (list, tuple)) or not accepted:
        _wrong(rollout, f"accepted = {accepted!r}", 'a list, as in {"accepted": [204]}')
    return accepted


def _accepted_integers(rollout: Rollout) -> list[int]:
    return [_integer(rollout, item) for item in _accepted(rollout)]


def _accepted_expressions(rollout: Rollout) -> tuple[str, ...]:
    accepted = _accepted(rollout)
    for item in accepted:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            _wrong(rollout, f"accepted answer {item!r}", 'text such as "1/2", or a number')
    return tuple(map(str, accepted))


def _integer(rollout: Rollout, item: Any) -> int:
    """An accepted answer; data sets also store "033" and 33.0."""
    if type(item) is int and 0 <= item <= LARGEST:
        return item
    is_text = isinstance(item, str) and item.strip().isdecimal() and len(item) <= 20
    is_whole = isinstance(item, float) and item.is_integer()
    value = int(item) if is_text or is_whole else -1
    if not 0 <= value <= LARGEST:
        allowed = f'an integer 0..{LARGEST}; other answers take "kind": "expression"'
        _wrong(rollout, f"accepted answer {item!r}", allowed)
    return value


def _wrong(rollout: Rollout, got: str, allowed: str) -> NoReturn:
    raise ConfigError(f"reference of {rollout.id!r}: got {got}; allowed: {allowed}")
