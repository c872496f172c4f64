"""`math.format`: are the `<step i>` and `<final>` tags as they were asked for?

The paper's format term: +0.2 for perfect tags, -1 where tags do not match, else 0. Of two tags that
do not match both are blamed, since either may be the wrong one. Thinking is scratch work and may
hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span

_PERFECT, _MISMATCHED = 0.2, -1.0
# What is meant as a tag, well written or not; anything else is text.
_TAG = re.compile(r"<(/?)(step|final)[ _]?([0-9]{0,4})\s?>", re.IGNORECASE)
_WELL_WRITTEN = re.compile(r"</?(?:step [1-9][0-9]{0,3}|final)>")
_THINKING = re.compile(r"</?think>")


class MathFormat:
    """+0.2 for numbered steps and one final block, all closed; -1 for tags that do not match.

    Perfect is `<step 1>` to `<step n>` in order, then one `<final>`, each closed before the next
    opens, none empty, and nothing but white space around them. Verdicts: perfect, imperfect (tags
    match, but a number, the final block or the order is not as asked), no_tags, mismatched. Spans:
    -1 on each tag without its partner; 0 where the length limit cut the completion there, because
    the policy did not choose to end. Metrics: `steps` (closed ones) and `perfect`, 0 or 1.
    """

    def __init__(self) -> None:
        self.spec = RewardSpec(
            name="math.format",
            version="1",
            outcome_range=(_MISMATCHED, _PERFECT),
            local_range=(-1.0, 0.0),
            summary="+0.2 for perfect <step i> and <final> tags, -1 for tags that do not match",
        )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts; linear in their texts."""
        return [_score(rollout) for rollout in rollouts]

    def examples(self) -> Sequence[Example]:
        """A perfect answer and it tampered with, one tag at a time."""
        return _examples()


class _Tag(NamedTuple):
    closes: bool
    name: str
    number: str
    start: int
    end: int


class _Block(NamedTuple):
    opening: _Tag
    closing: _Tag


def _score(rollout: Rollout) -> Score:
    text = rollout.completion
    start, end = _shown(text)
    blocks, faults, unclosed = _matched(_tags(text, start, end))
    spans = [Span(t.start, t.end, -1.0, f"no partner: {text[t.start : t.end]}") for t in faults]
    if unclosed is not None:
        cut = rollout.finish_reason == "length"
        label = f"never closed: {text[unclosed.start : unclosed.end]}"
        spans.append(Span(unclosed.start, unclosed.end, 0.0 if cut else -1.0, label))
    if spans:
        outcome, verdict, reason = _MISMATCHED, "mismatched", spans[0].label
    elif not blocks:
        outcome, verdict, reason = 0.0, "no_tags", ""
    else:
        reason = _imperfection(text, start, end, blocks)
        outcome, verdict = (0.0, "imperfect") if reason else (_PERFECT, "perfect")
    steps = sum(block.opening.name == "step" for block in blocks)
    return Score(
        rollout.id,
        outcome,
        verdict=verdict,
        reason=reason,
        spans=tuple(sorted(spans, key=lambda span: span.start)),
        metrics={"steps": float(steps), "perfect": float(verdict == "perfect")},
    )


def _shown(text: str) -> tuple[int, int]:
    """What is not thinking: from the last closing tag on, up to an opening one that stays open."""
    start, end = 0, len(text)
    for tag in _THINKING.finditer(text):
        if tag[0] == "</think>":
            start, end = tag.end(), len(text)
        elif end == len(text):
            end = tag.start()
    return start, end


def _tags(text: str, start: int, end: int) -> list[_Tag]:
    return [
        _Tag(m[1] == "/", m[2].lower(), m[3].lstrip("0"), m.start(), m.end())
        for m in _TAG.finditer(text, start, end)
    ]


def _matched(tags: Sequence[_Tag]) -> tuple[list[_Block], list[_Tag], _Tag | None]:
    """(blocks, tags without a partner, the tag that is still open at the end). Nothing nests."""
    blocks: list[_Block] = []
    faults: list[_Tag] = []
    opened: _Tag | None = None
    for tag in tags:
        if not tag.closes:
            if opened is not None:
                faults.append(opened)
            opened = tag
        elif opened is None:
            faults.append(tag)
        else:
            if (opened.name, opened.number) == (tag.name, tag.number):
                blocks.append(_Block(opened, tag))
            else:
                faults += [opened, tag]
            opened = None
    return blocks, faults, opened


def _imperfection(text: str, start: int, end: int, blocks: Sequence[_Block]) -> str:
    """What keeps matching tags from being perfect, or nothing."""
    for tag in (tag for block in blocks for tag in block):
        if not _WELL_WRITTEN.fullmatch(text, tag.start, tag.end):
            return f"not well written: {text[tag.start : tag.end]}"
    *steps, final = blocks
    if final.opening.name != "final" or any(b.opening.name == "final" for b in steps):
        return "one final block comes last"
    if not steps:
        return "no step"
    for number, block in enumerate(steps, 1):
        if block.opening.number != str(number):
            return f"step {number} is expected where step {block.opening.number} stands"
    if any(not text[b.opening.end : b.closing.start].strip() for b in blocks):
        return "a block is empty"
    edges = [start, *(edge for b in blocks for edge in (b.opening.start, b.closing.end)), end]
    outside = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return "text outside of the blocks" if any(piece.strip() for piece in outside) else ""


def _examples() -> Sequence[Example]:
    right = "<step 1>2 + 2 = 4</step 1>\n<step 2>4 * 5 = 20</step 2>\n<final>20</final>"
    none, worst = (0.0, 0.0), (_MISMATCHED, _MISMATCHED)

    def example(name: str, old: str, new: str, verdict: str, blames: str | None) -> Example:
        assert old in right
        rollout = Rollout(name, "examples", "What is 5 (2 + 2)?", right.replace(old, new))
        outcome = worst if verdict == "mismatched" else none
        return Example(rollout, outcome, verdict, blames, gold=False)

    gold = Rollout("gold", "examples", "What is 5 (2 + 2)?", right)
    return (
        Example(gold, (_PERFECT, _PERFECT), "perfect"),
        example("not-closed", "</step 1>", "", "mismatched", "<step 1>"),
        example("never-closed", "</final>", "", "mismatched", "<final>"),
        example("not-opened", "<step 2>", "", "mismatched", "</step 2>"),
        example("crossed", "</step 2>", "</step 3>", "mismatched", "</step 3>"),
        example("numbers", "step 2>", "step 3>", "imperfect", None),
        example("no-final", "<final>20</final>", "", "imperfect", None),
        example("prose", right, "It is 20.", "no_tags", None),
    )
