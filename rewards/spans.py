"""Places in text, and how places become token values.

Positions are half-open [start, end) in Unicode code points. Tools report other units: esbuild
counts UTF-8 bytes, TypeScript and Babel UTF-16 units, each within a line. Only LF, CR LF, CR,
U+2028 and U+2029 end a line, as in JavaScript; `str.splitlines` knows seven more and would shift
every line after a form feed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from botgrpo.rewards.base import Span

Unit = Literal["codepoint", "utf8", "utf16"]
TokenSpans = Sequence[tuple[int, int]]

_TERMINATOR = re.compile("\r\n|[\n\r\u2028\u2029]")
_TERMINATOR_RUN = re.compile("[\n\r\u2028\u2029]+")


def line_starts(text: str) -> NDArray[np.int64]:
    """Code-point offset of the first character of each line; a text of n terminators has n + 1."""
    return np.array([0, *(m.end() for m in _TERMINATOR.finditer(text))], dtype=np.int64)


def unit_offsets(text: str, unit: Unit) -> NDArray[np.int64]:
    """Offset of every code point in `unit`, with the total length at the end: [len(text) + 1].

    A lone surrogate counts 3 bytes and one UTF-16 unit, a byte-order mark 3 bytes and one unit.
    """
    if unit == "codepoint":
        return np.arange(len(text) + 1, dtype=np.int64)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    widths = np.ones(len(text), dtype=np.int64)
    if unit == "utf8":
        widths += (points >= 0x80).astype(np.int64) + (points >= 0x800)
    widths += points >= 0x10000
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(widths)))


def to_units(text: str, position: int, unit: Unit) -> int:
    """How many units of `unit` stand before the code point at `position`."""
    return int(unit_offsets(text, unit)[position])


def from_units(text: str, offset: int, unit: Unit, *, up: bool = False) -> int:
    """The code point at `offset` units; inside a character its start, or its end with `up`.

    Offsets past the end give len(text), negative ones 0: tools do point past the end of a file.
    """
    return _search(unit_offsets(text, unit), offset, up)


def _search(offsets: NDArray[np.int64], offset: int, up: bool) -> int:
    if up:
        return min(int(np.searchsorted(offsets, offset, "left")), len(offsets) - 1)
    return max(int(np.searchsorted(offsets, offset, "right")) - 1, 0)


class TextMap:
    """Converts many places of one text; lines are 1-based, columns 0-based."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = line_starts(text)

    @cached_property
    def _line_ends(self) -> NDArray[np.int64]:
        """End of each line's own text, before its terminator."""
        ends = [m.start() for m in _TERMINATOR.finditer(self.text)]
        return np.array([*ends, len(self.text)], dtype=np.int64)

    def offset(self, line: int, column: int, unit: Unit, *, up: bool = False) -> int:
        """Code-point offset of a place; past the last line the end of the text.

        A column past its line stops at the line's end, so that a wrong column cannot blame another
        line.
        """
        if line > len(self.starts):
            return len(self.text)
        first, last = int(self.starts[max(line, 1) - 1]), int(self._line_ends[max(line, 1) - 1])
        return first + from_units(self.text[first:last], column, unit, up=up)

    def span(self, line: int, column: int, length: int, unit: Unit) -> tuple[int, int]:
        """[start, end) of `length` units from a place on; it may run over line ends.

        A place cut through a character takes the whole character. Zero length stays zero length.
        """
        start = self.offset(line, column, unit)
        if length <= 0 or line > len(self.starts):
            return start, start
        first = int(self.starts[max(line, 1) - 1])
        return start, first + from_units(self.text[first:], column + length, unit, up=True)

    def line_of(self, position: int) -> int:
        """The 1-based line of a code point; a terminator belongs to the line that it ends."""
        return int(np.searchsorted(self.starts, position, "right"))

    def place(self, position: int, unit: Unit) -> tuple[int, int]:
        """(line, column) of a code point, the inverse of `offset`."""
        line = self.line_of(position)
        first = int(self.starts[line - 1])
        return line, to_units(self.text[first:position], position - first, unit)


def project(
    spans: Sequence[Span],
    token_spans: TokenSpans | NDArray[np.int64],
    text: str,
    *,
    decay_lines: int = 0,
) -> NDArray[np.float64]:
    """Token values from spans: float64 [T], contributions of several spans added.

    With `decay_lines` = 0 a token gets the value of every span that it shares a code point with. A
    span without length counts for the token that encloses it, and one at or past the end of the
    text for the last token with text. With `decay_lines` = w > 0 a token gets value * phi(d),
    phi(d) = max(0, 1 - d / (w + 1)), d being the number of lines between the token and the span
    (BoT-GRPO, the React reward); a token belongs to the line of its first character that is not
    a line end. Tokens without text (end of sequence, padding) get 0. Nothing is clipped here.
    """
    tokens_T2 = _token_array(token_spans)
    values_T = np.zeros(len(tokens_T2), dtype=np.float64)
    starts_T, ends_T = tokens_T2[:, 0], tokens_T2[:, 1]
    has_text_T = ends_T > starts_T
    if not spans or not has_text_T.any():
        return values_T
    last = int(np.flatnonzero(has_text_T)[-1])
    final = (int(starts_T[last]), int(ends_T[last]))
    places = [_widen(span, final) for span in spans]
    if decay_lines > 0:
        starts = line_starts(text)
        lines_T = _token_lines(starts_T, ends_T, text, starts)
        by_line = np.array(_line_values(spans, places, starts.tolist(), decay_lines))
        return np.where(has_text_T, by_line[lines_T], 0.0)
    for span, (start, end) in zip(spans, places, strict=True):
        values_T[(starts_T < end) & (ends_T > start) & has_text_T] += span.value
    return values_T


def _token_array(token_spans: TokenSpans | NDArray[np.int64]) -> NDArray[np.int64]:
    if isinstance(token_spans, np.ndarray):
        return token_spans.astype(np.int64, copy=False).reshape(-1, 2)
    # Half the time of np.asarray on nested tuples, and this runs for every rollout of a step.
    flat = chain.from_iterable(token_spans)
    return np.fromiter(flat, dtype=np.int64, count=2 * len(token_spans)).reshape(-1, 2)


def _line_values(
    spans: Sequence[Span],
    places: Sequence[tuple[int, int]],
    starts: list[int],
    decay_lines: int,
) -> list[float]:
    """Sum over spans of value * phi(distance), for each line (0-based).

    A plain loop: a span reaches only `decay_lines` lines to each side, too few for numpy to pay.
    """
    by_line = [0.0] * len(starts)
    for span, (start, end) in zip(spans, places, strict=True):
        first = bisect_right(starts, start) - 1
        last = bisect_right(starts, max(start, end - 1)) - 1
        for line in range(max(first - decay_lines, 0), min(last + decay_lines + 1, len(starts))):
            distance = max(first - line, line - last, 0)
            by_line[line] += span.value * (1.0 - distance / (decay_lines + 1))
    return by_line


def _widen(span: Span, final: tuple[int, int]) -> tuple[int, int]:
    """The span itself, or the code points that stand for a span without text of its own.

    `final` is the place of the last token with text.
    """
    if span.start >= final[1]:
        return final
    start = max(span.start, 0)
    return start, max(start + 1, min(span.end, final[1]))


def _token_lines(
    starts_T: NDArray[np.int64],
    ends_T: NDArray[np.int64],
    text: str,
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """0-based line of each token's first character that is no terminator (else of its first)."""
    first_T = starts_T
    runs = [m.span() for m in _TERMINATOR_RUN.finditer(text)]
    if runs:
        past_all = (len(text) + 1, 0)  # where a token after the last run looks, in vain
        edges_R2 = _token_array([*runs, past_all])
        run_starts_R, run_ends_R = edges_R2[:, 0], edges_R2[:, 1]
        run_T = np.searchsorted(run_ends_R[:-1], starts_T, "right")
        after_T = run_ends_R[run_T]
        skips_T = (run_starts_R[run_T] <= starts_T) & (after_T < ends_T)
        first_T = np.where(skips_T, after_T, starts_T)
    return np.searchsorted(starts, first_T, "right") - 1
