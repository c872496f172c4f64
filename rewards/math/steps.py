r"""A completion into steps: what stands in `<step i>` tags, else paragraphs. Places are exact.

Thinking is scratch work and holds no steps: what `<think>` and `</think>` enclose, what precedes a
`</think>` that the prompt opened, what follows a `<think>` that never closes. Nor does what follows
`<final>` outside tags. A paragraph ends at a blank line that is in no display formula and no code
fence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

MAX_CHARS = 200_000  # some 50,000 tokens; what follows holds no steps
_OPEN, _CLOSE = "<think>", "</think>"
_TAG = re.compile(r"<(?P<close>/?)(?P<name>step|final)(?:[ _]?[0-9]{1,4})?\s?>", re.IGNORECASE)
_BREAK = re.compile(r"\n[ \t\r]*\n\s*|\$\$|\\\[|```|\\begin\{[A-Za-z*]{1,20}\}")
_CLOSERS = {"$$": "$$", "\\[": "\\]", "```": "```"}
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """[start, end) in code points of the completion, without white space around it."""

    start: int
    end: int


def split_steps(completion: str) -> list[Step]:
    """The steps, in order, none empty, none overlapping; linear in the text."""
    completion = completion[:MAX_CHARS]
    outside = _outside_thinking(completion)
    tags = [tag for place in outside for tag in _TAG.finditer(completion, *place)]
    if any(tag["name"].lower() == "step" and not tag["close"] for tag in tags):
        return _tagged(completion, tags, outside)
    final = next((tag.start() for tag in tags if tag["name"].lower() == "final"), len(completion))
    return [
        step
        for start, end in outside
        if start < final
        for step in _paragraphs(completion, start, min(end, final))
    ]


def _outside_thinking(text: str) -> list[Place]:
    """The stretches that are no thinking, in order."""
    places: list[Place] = []
    start = 0
    first = text.find(_CLOSE)
    if first >= 0 and text.find(_OPEN, 0, first) < 0:
        start = first + len(_CLOSE)
    while (opens := text.find(_OPEN, start)) >= 0:
        places.append((start, opens))
        closes = text.find(_CLOSE, opens)
        if closes < 0:
            return places
        start = closes + len(_CLOSE)
    return [*places, (start, len(text))]


def _tagged(text: str, tags: list[re.Match[str]], outside: list[Place]) -> list[Step]:
    """What each opening tag holds, up to the next tag of any kind or to thinking."""
    edges = sorted({tag.start() for tag in tags} | {end for _, end in outside})
    ends = dict(pairwise(edges))
    steps: list[Step] = []
    for tag in tags:
        if tag["name"].lower() == "step" and not tag["close"]:
            steps += _stripped(text, tag.end(), ends[tag.start()])
    return steps


def _paragraphs(text: str, start: int, end: int) -> list[Step]:
    steps: list[Step] = []
    at = search = start
    missing: set[str] = set()  # closers that do not come any more: looked for once, not each time
    while (match := _BREAK.search(text, search, end)) is not None:
        opener = match[0]
        if opener[0] == "\n":
            steps += _stripped(text, at, match.start())
            at = search = match.end()
            continue
        closer = _CLOSERS.get(opener) or opener.replace("begin", "end", 1)
        closes = -1 if closer in missing else text.find(closer, match.end(), end)
        if closes < 0:
            missing.add(closer)
            search = match.end()
        else:
            search = closes + len(closer)
    return steps + _stripped(text, at, end)


def _stripped(text: str, start: int, end: int) -> list[Step]:
    inner = text[start:end].strip()
    if not inner:
        return []
    first = end - len(text[start:end].lstrip())
    return [Step(first, first + len(inner))]
