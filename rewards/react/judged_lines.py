"""Lines that a judge blames: shown with numbers, answered as numbers, turned into spans.

The paper's scale: up to three lines, with impact -1, -2 or -3, of which a tenth counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from botgrpo.rewards.base import Span
from botgrpo.rewards.judges.fence import fence, numbered, remark
from botgrpo.rewards.judges.question import Unreadable
from botgrpo.rewards.react.extract import Extraction
from botgrpo.rewards.spans import line_starts

LOCAL_RANGE = (-0.3, 0.0)
_LONGEST = 60_000  # code points that a judge is shown; more is no single-file component


class Blame(BaseModel):
    """A line that harms the result, and how much: -1 a little, -3 most."""

    model_config = ConfigDict(extra="forbid")

    line: int = Field(ge=1, le=99_999)  # a number without an upper bound may never end
    why: str
    impact: Literal[-1, -2, -3]


class HasLines(Protocol):
    """An answer that blames lines."""

    lines: list[Blame]


def shown(code: Extraction) -> str:
    """The code as a judge reads it: fenced, with line numbers, cut where it is very long."""
    text = code.code[:_LONGEST]
    made = fence(numbered(text), "CODE")
    if hidden := len(code.code) - len(text):
        made += f"\n\n{hidden} more characters of it are not shown."
    return made


def lines_exist(code: Extraction) -> Callable[[HasLines], None]:
    """A check that raises `Unreadable` for an answer that blames a line that was not shown."""
    last = len(line_starts(code.code[:_LONGEST]))

    def check(answer: HasLines) -> None:
        if any(blame.line > last for blame in answer.lines):
            raise Unreadable("the answer blames a line that does not exist")

    return check


def blamed(code: Extraction, lines: Sequence[Blame]) -> tuple[Span, ...]:
    """Each blamed line from its first to its last visible character, a tenth of its impact.

    A blank line is a place without length, at its start. A line that is blamed twice counts once,
    at its worst.
    """
    starts = [*line_starts(code.code).tolist(), len(code.code)]
    worst: dict[int, Blame] = {}
    for blame in lines:
        if blame.line not in worst or blame.impact < worst[blame.line].impact:
            worst[blame.line] = blame
    spans = []
    for line, blame in sorted(worst.items()):
        text = code.code[starts[line - 1] : starts[line]]
        seen = text.strip()
        start = code.start + starts[line - 1] + (text.index(seen) if seen else 0)
        why = remark(blame.why)
        label = f"judge {blame.impact}" + f": {why}" * bool(why)
        spans.append(Span(start, start + len(seen), blame.impact / 10, label))
    return tuple(spans)
