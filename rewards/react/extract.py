"""The code in a completion: which characters the compiler gets, and where they stand.

The code is one contiguous slice of the completion, so that a place in it is a place in the
completion after adding `start`. One pass over the lines, linear in the text whatever it holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# "none" is an untagged fence; typescript and javascript are ts and js written out.
LANGUAGES = frozenset(("", "tsx", "jsx", "ts", "js", "react", "typescript", "javascript"))

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_MARK = r"(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?"  # a fence may open a list item
_OPEN = re.compile(rf"[ \t]*{_MARK}(?P<fence>`{{3,}}(?=[^`\r\n]*(?:[\r\n]|\Z))|~{{3,}})")
_TAG = re.compile(r"[ \t]*\{?\.?([^\s{}:,]*)")
_THINK = re.compile("</?think>")
_END_THINK = "</think>"


@dataclass(frozen=True, slots=True)
class Extraction:
    """The code and its place: `completion[start:end]`, in code points.

    `truncated` marks a fence that was never closed. `fenced` is False for bare code.
    """

    code: str
    start: int
    end: int
    truncated: bool = False
    fenced: bool = True


def extract(completion: str) -> Extraction | None:
    """The last fenced block that may hold React, else bare code with `export default`, else None.

    Thinking (`<think>` to `</think>`, or to the end) is passed over, fences in it included; a tag
    inside a code block is code. A closing tag without an opening one ends thinking that the prompt
    opened. Fences are those of Markdown: three or more backticks or tildes, closed by at least as
    many of the same; indented ones count too. Blocks without any code do not count.
    """
    scan = _Scan(completion)
    scan.run()
    if scan.best is not None or scan.fences:
        return scan.best
    for start, end in reversed(scan.outside):
        if "export default" in completion[start:end]:
            return Extraction(completion[start:end], start, end, fenced=False)
    return None


class _Scan:
    """The state of the one pass: outside, in thinking, or in a block."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.best: Extraction | None = None
        self.fences = 0
        self.outside: list[tuple[int, int]] = []  # stretches that are not thinking
        self.outside_from = 0
        self.line_end = 0

    def run(self) -> None:
        position = 0
        while position < len(self.text):
            position = self._line(position)
        if self.outside_from < len(self.text):
            self.outside.append((self.outside_from, len(self.text)))

    def _line(self, position: int) -> int:
        """Handle what begins at `position` and return where to go on."""
        if position >= self.line_end:
            line = _LINE.match(self.text, position)
            assert line is not None
            self.line_end = line.end()
        opening = _OPEN.match(self.text, position)
        if opening is not None:
            return self._block(opening, self.line_end)
        tag = _THINK.search(self.text, position, self.line_end)
        if tag is None:
            return self.line_end
        if tag[0] == _END_THINK:
            self._forget(tag.end())
            return self.outside_from
        self.outside.append((self.outside_from, tag.start()))
        closes = self.text.find(_END_THINK, tag.end())
        self.outside_from = len(self.text) if closes < 0 else closes + len(_END_THINK)
        return self.outside_from

    def _forget(self, position: int) -> None:
        """A closing tag without an opening one: all before it was thinking."""
        self.best, self.fences, self.outside, self.outside_from = None, 0, [], position

    def _block(self, opening: re.Match[str], start: int) -> int:
        """Take the block whose opening fence ends at `start`; return the end of its closing line.

        `start` is past the opening line's own end.
        """
        fence = opening["fence"]
        tag = _TAG.match(self.text, opening.end(), start)
        close, after = _closing(self.text, start, fence)
        self.fences += 1
        code = self.text[start:close]
        if tag is not None and tag[1].lower() in LANGUAGES and code.strip():
            self.best = Extraction(code, start, close, truncated=after is None)
        return len(self.text) if after is None else after


def _closing(text: str, start: int, fence: str) -> tuple[int, int | None]:
    """(where the code ends, where the closing line ends); the end of the text and None if open."""
    position = start
    while position < len(text):
        line = _LINE.match(text, position)
        assert line is not None
        stripped = line[0].strip(" \t\r\n")
        if len(stripped) >= len(fence) and not stripped.strip(fence[0]):
            return position, line.end()
        position = line.end()
    return len(text), None
