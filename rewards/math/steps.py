r"""A completion into steps: what stands in `<step i>` tags, else paragraphs. Places are exact.

Thinking (`<think>` ... `</think>`, closed or not) is scratch work and holds no steps, nor does what
follows `<final>`. A paragraph ends at a blank line that is in no display formula and no code fence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_THINKING = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_TAG = re.compile(r"<(?P<close>/?)(?P<name>step|final)(?:[ _]?[0-9]{1,4})?\s?>", re.IGNORECASE)
_BREAK = re.compile(r"\n[ \t\r]*\n\s*|\$\$|\\\[|```|\\begin\{[A-Za-z*]{1,20}\}")
_CLOSERS = {"$$": "$$", "\\[": "\\]", "```": "```"}


@dataclass(frozen=True, slots=True)
class Step:
    """[start, end) in code points of the completion, without white space around it."""

    start: int
    end: int


def split_steps(completion: str) -> list[Step]:
    """The steps, in order, none empty, none overlapping; linear in the text."""
    start, end = _outside_thinking(completion)
    tags = list(_TAG.finditer(completion, start, end))
    if any(tag["name"].lower() == "step" and not tag["close"] for tag in tags):
        return _tagged(completion, tags, end)
    final = next((tag.start() for tag in tags if tag["name"].lower() == "final"), end)
    return _paragraphs(completion, start, final)


def _outside_thinking(text: str) -> tuple[int, int]:
    """The place after the last closing tag, up to an opening one that is never closed."""
    start, end = 0, len(text)
    for tag in _THINKING.finditer(text):
        if tag[0][1] == "/":
            start, end = tag.end(), len(text)
        elif end == len(text):
            end = tag.start()
    return start, end


def _tagged(text: str, tags: list[re.Match[str]], end: int) -> list[Step]:
    """What each opening tag holds, up to the next tag of any kind."""
    limits = [tag.start() for tag in tags[1:]] + [end]
    steps = []
    for tag, limit in zip(tags, limits, strict=True):
        if tag["name"].lower() == "step" and not tag["close"]:
            steps += _stripped(text, tag.end(), limit)
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
