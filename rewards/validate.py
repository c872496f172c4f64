"""Does a reward keep its promises? Runs its own gold and tampered-gold examples."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from botgrpo.rewards.base import Example, Reward, RewardError, Score
from botgrpo.rewards.local import check_score
from botgrpo.sandbox.attempt import attempting


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: whether it holds, and where it does not."""

    name: str
    ok: bool
    detail: str = ""


async def validate(reward: Reward) -> list[Check]:
    """Every check of one reward, the failed ones with what was got and expected.

    A reward without examples of both kinds fails, since nothing was tried; so does one whose
    examples stay unscored (no sandbox, no judge), with the reason as the detail.
    """
    give = getattr(reward, "examples", None)
    examples: Sequence[Example] = tuple(give()) if give is not None else ()
    kinds = {example.gold for example in examples}
    if kinds != {True, False}:
        detail = "add examples(): at least one gold answer and one tampered with"
        return [Check("examples", False, detail)]
    rollouts = [example.rollout for example in examples]
    scores = list(await reward.score(rollouts))
    checks = [
        Check("examples", True, f"{len(examples)} examples"),
        _promises(reward, examples, scores),
    ]
    if not checks[-1].ok:
        return checks
    checks += [
        _each("scored", examples, scores, _unscored),
        _each("gold", [e for e in examples if e.gold], scores, _outcome),
        _each("tampered", [e for e in examples if not e.gold], scores, _outcome),
        _each("verdicts", examples, scores, _verdict),
        _each("blame", examples, scores, _blame),
        await _order(reward, examples, scores),
    ]
    if reward.spec.deterministic:
        with attempting(1):  # else a cache would answer, and agree with itself
            again = {s.id: s for s in await reward.score(rollouts)}
        checks.append(_same("repeatable", scores, again))
    return checks


def _promises(reward: Reward, examples: Sequence[Example], scores: Sequence[Score]) -> Check:
    name = "ids, ranges and spans"
    try:
        if len(scores) != len(examples):
            raise RewardError(f"{len(scores)} scores for {len(examples)} rollouts")
        for example, score in zip(examples, scores, strict=True):
            check_score(reward.spec.name, reward.spec, example.rollout, score)
    except RewardError as error:
        return Check(name, False, str(error))
    return Check(name, True)


def _each(
    name: str,
    examples: Sequence[Example],
    scores: Sequence[Score],
    problem: Callable[[Example, Score], str],
) -> Check:
    by_id = {score.id: score for score in scores}
    found = [
        f"{e.rollout.id}: {text}" for e in examples if (text := problem(e, by_id[e.rollout.id]))
    ]
    return Check(name, not found, "; ".join(found))


def _unscored(example: Example, score: Score) -> str:
    return f"unscored: {score.reason}" if score.outcome is None else ""


def _outcome(example: Example, score: Score) -> str:
    low, high = example.outcome
    if score.outcome is None or low <= score.outcome <= high:
        return ""
    return f"outcome {score.outcome}, expected {low} to {high} (verdict {score.verdict!r})"


def _verdict(example: Example, score: Score) -> str:
    if score.outcome is None or example.verdict in (None, score.verdict):
        return ""
    return f"verdict {score.verdict!r}, expected {example.verdict!r}"


def _blame(example: Example, score: Score) -> str:
    if score.outcome is None or example.blames is None:
        return ""
    text = example.rollout.completion
    blamed = [text[s.start : s.end] for s in score.spans if s.value < 0]
    if any(example.blames in piece for piece in blamed):
        return ""
    return f"blames {blamed}, expected a span over {example.blames!r}"


async def _order(reward: Reward, examples: Sequence[Example], scores: Sequence[Score]) -> Check:
    """The same examples reversed, and each half alone, must score as they did together."""
    rollouts = [example.rollout for example in reversed(examples)]
    half = len(rollouts) // 2
    parts = await asyncio.gather(reward.score(rollouts[:half]), reward.score(rollouts[half:]))
    again = {score.id: score for part in parts for score in part}
    if not reward.spec.deterministic:
        missing = sorted({s.id for s in scores} - set(again))
        return Check("order", not missing, f"lost {', '.join(missing)}" if missing else "")
    return _same("order", scores, again)


def _same(name: str, scores: Sequence[Score], again: dict[str, Score]) -> Check:
    for score in scores:
        other = again.get(score.id)
        if other is None or _content(other) != _content(score):
            return Check(name, False, f"{score.id}: {_content(score)}, then {other}")
    return Check(name, True)


def _content(score: Score) -> tuple[object, ...]:
    """All but the time that it took."""
    return (
        score.outcome,
        score.verdict,
        score.spans,
        score.local,
        score.local_scored,
        dict(score.metrics),
    )
