r"""Where a completion's answer stands: what `<final>` holds, else the last closed `\boxed{}`.

Thinking is dropped first, closed or not. Everything is looked for from the end, where it mostly is,
and no character is looked at more than a few times, whatever the text holds.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_THINK, _END_THINK, _FINAL = "<think>", "</think>", "<final>"
_TAG = re.compile("</?(?:think|final)>")
_FEW = 100  # a search for one character runs at memory speed, ten times a pattern's; but not many
_NEAR = 4000  # within so many characters of the end thinking mostly ends, in a text that has it
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(?:([^{}\\]*)\})?")  # the group where it is simple
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_JOIN_LENGTH = 80
_DRESS = r"(?:[\s$.,;:*{}()~!]|\\(?:[,;:! ()\[\]]|text|mbox|textbf|textit|mathrm|q?quad))*"
_JOIN = re.compile(
    rf"\}}{_DRESS}(?:or|and|\\lor|\\land|\\vee|\\wedge){_DRESS}(?:[A-Za-z]\w?\s*=)?{_DRESS}"
)
_JOINED = re.compile(rf"{_JOIN.pattern}\Z")


class Found(NamedTuple):
    """The answer is `completion[start:end]`, in code points, without white space around it.

    `rival` is the place of the box that "or" or "and" joins to this one; None where there is none.
    """

    start: int
    end: int
    source: Literal["final", "box"]
    rival: tuple[int, int] | None = None


def find_answer(completion: str, *, thinking: bool = False) -> Found | None:
    """The answer's place, or None where there is no closed `<final>` and no closed box.

    Thinking is what `<think>` and `</think>` enclose; unclosed it runs to the end. A closing tag
    without an opening one ends thinking that the prompt opened; `thinking` says that the prompt
    did, which matters where the completion never closes it. What stands outside of thinking may
    be cut into stretches by it: the last one that holds an answer counts. In it `<final>` goes
    before boxes, the last closed one of either counts, and of nested boxes the outermost. A box
    inside `<final>` is the answer then.
    """
    end = completion.rfind(_END_THINK, max(len(completion) - _NEAR, 0))
    if end >= 0 and (found := _last_answer(completion, end + len(_END_THINK), False)) is not None:
        return found
    return _last_answer(completion, 0, thinking)


def _last_answer(text: str, low: int, thinking: bool) -> Found | None:
    for start, end, final in reversed(_stretches(text, low, thinking)):
        box = _last_box(text, *(final or (start, end)))
        if box is not None:
            return Found(*_strip(text, box[0], box[1]), "final" if final else "box", box[2])
        if final is not None:
            return Found(*_strip(text, *final), "final")
    return None


Place = tuple[int, int]
# Where a box begins, what it holds (to -1 while it is open), how many braces are open then.
_Box = tuple[int, int, int, int]


def _stretches(text: str, low: int, thinking: bool) -> list[tuple[int, int, Place | None]]:
    """Stretches of text[low:] outside of thinking, each with what its last `<final>` holds.

    `thinking` tells whether `low` lies in thinking.
    """
    outside: list[tuple[int, int, Place | None]] = []
    final, opened, start = None, -1, low
    for at, tag in reversed(_tags(text, low)):
        if tag == _END_THINK:
            if not thinking:  # all before it was thinking
                outside = []
            thinking, start, final, opened = False, at + len(tag), None, -1
        elif thinking:
            continue
        elif tag == _THINK:
            outside.append((start, at, final))
            thinking = True
        elif tag == _FINAL:
            opened = at + len(tag)
        elif opened >= 0:
            final, opened = (opened, at), -1
    if not thinking:
        outside.append((start, len(text), final))
    return outside


def _tags(text: str, low: int) -> list[tuple[int, str]]:
    """(place, tag) of every tag of text[low:], the last first."""
    found: list[tuple[int, str]] = []
    rfind = text.rfind
    at = len(text) - 6  # where the shortest tag no longer fits
    for _ in range(_FEW):
        at = rfind("<", low, at)
        if at < 0:
            return found
        if text[at + 1] in "/tf" and (tag := _TAG.match(text, at)) is not None:
            found.append((at, tag[0]))
    earlier = [(match.start(), match[0]) for match in _TAG.finditer(text, low, at)]
    return found + earlier[::-1]


def _last_box(text: str, low: int, high: int) -> tuple[int, int, Place | None] | None:
    """(start and end of what the last closed box holds, place of its rival), within [low, high).

    An unclosed box leaves everything that would contain it unclosed too, so each search for a
    closing brace ends at the unclosed box after it: all searches together read the text once.
    """
    limit = high
    while (box := _box_before(text, low, limit)) is not None and box[2] < 0:
        limit = box[0]
    if box is None:
        return None
    at, start, end, _ = box
    while _joins(text, low, at) or _closes_more(text, end + 1, limit):
        outer = _box_before(text, low, at)
        if outer is None:
            break
        outer_at, outer_start, outer_end, depth = outer
        if outer_end >= 0:
            joined = at - outer_end <= _JOIN_LENGTH and _JOIN.fullmatch(text, outer_end, at)
            return start, end, (outer_start, outer_end) if joined else None
        # the box before is still open here: it contains this one, if it closes at all
        closes, _ = _closing(text, end + 1, limit, depth)
        if closes < 0:
            break
        at, start, end = outer_at, outer_start, closes
    return start, end, None


def _joins(text: str, low: int, at: int) -> bool:
    """Whether the few characters before `at` may join a box to what precedes them."""
    first = max(low, at - _JOIN_LENGTH)
    return text.rfind("}", first, at) >= 0 and _JOINED.search(text, first, at) is not None


def _closes_more(text: str, low: int, high: int) -> bool:
    """Whether [low, high) closes a brace that it does not open."""
    return text.find("}", low, high) >= 0 and _closing(text, low, high, 1)[0] >= 0


def _box_before(text: str, low: int, high: int) -> _Box | None:
    """The last box that begins in [low, high), closed or not before `high`."""
    at = text.rfind("box", low, high)
    while at >= 0:
        back = 2 if text.startswith("f", at - 1) else 1
        box = _BOX.match(text, at - back, high) if at - back >= low else None
        if box is not None and box.end(1) >= 0:
            return box.start(), *box.span(1), 0
        if box is not None:
            return box.start(), box.end(), *_closing(text, box.end(), high, 1)
        at = text.rfind("box", low, at)
    return None


def _closing(text: str, start: int, high: int, depth: int) -> tuple[int, int]:
    """(place of the brace that closes `depth` open ones, 0); -1 and the depth reached if none."""
    for match in _BRACE.finditer(text, start, high):
        if match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start(), 0
        elif match[0] == "{":
            depth += 1
    return -1, depth


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    held = text[start:end]
    bare = held.strip()
    if len(bare) < len(held):
        start += len(held) - len(held.lstrip())
    return start, start + len(bare)
