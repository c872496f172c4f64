"""A completion cut into runs of tokens under the same spans, and the spans as a numbered list.

A run is what a reader can point at and focus: its tokens carry their own local values, its spans
say why. Everything that a model wrote stays plain text here; the template escapes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from botgrpo.benchmarks.report.tokens import laid_out, shade
from botgrpo.rewards import Span

LONGEST_EXCERPT = 80
LONGEST_LABEL = 1000  # a label is a line to read, not a place to hide a book in
SPANS_SHOWN = 100  # a completion with more is unreadable, and every run names those above it


@dataclass(frozen=True, slots=True)
class Bit:
    """A token, or the part of `whole` inside a run; without `value` it is 0 or has none."""

    text: str
    classes: str
    value: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """Bits under the same spans; `spans` and `ends` (those that end here) are numbers from 1."""

    bits: tuple[Bit, ...]
    spans: tuple[int, ...]
    ends: tuple[int, ...]
    tone: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A span in words; `run` is the place among the runs where it begins, None in an empty text."""

    number: int
    line: int
    value: str
    tone: str
    label: str
    excerpt: str
    run: int | None


Place = tuple[int, int]
Cover = tuple[int, ...]


def runs(
    text: str,
    token_spans: Sequence[Place] | None,
    local: Sequence[float | None] | None,
    spans: Sequence[Span],
    scale: float,
) -> tuple[list[Run], list[Finding]]:
    """Runs that give `text` back, and the first `SPANS_SHOWN` spans in their order in the text.

    Without tokens a run is coloured by the sum of its spans' values, as projection would do.
    """
    spans = sorted(spans, key=lambda s: (s.start, s.end))[:SPANS_SHOWN]
    places = [_widened(span, len(text)) for span in spans]
    edges = sorted({0, len(text), *(edge for place in places for edge in place)})
    covers = [
        tuple(i for i, (a, b) in enumerate(places) if a <= start and end <= b)
        for start, end in pairwise(edges)
    ]
    if token_spans is None:
        bits = [
            (cover, _bit(text[a:b], sum(spans[i].value for i in cover), scale))
            if cover
            else (cover, Bit(text[a:b], "", ""))
            for cover, (a, b) in zip(covers, pairwise(edges), strict=True)
        ]
    else:
        bits = list(_token_bits(text, token_spans, local, edges, covers, scale))
    made = [
        Run(tuple(bit for _, bit in group), tuple(i + 1 for i in cover), (), _tone(spans, cover))
        for cover, group in groupby(bits, key=lambda pair: pair[0])
    ]
    return _with_ends(made, len(spans)), _findings(text, spans, places, made)


def exact(value: float) -> str:
    """A local value with its sign, to six digits; the minus sign is U+2212 as in print."""
    return f"{value:+.6g}".replace("-", "\N{MINUS SIGN}") if value else "0"


def shortened(text: str, most: int) -> str:
    """The first `most` characters, and how many were left out."""
    left = len(text) - most
    return f"{text[:most]} … ({left:,} more characters)" if left > 0 else text


def _widened(span: Span, length: int) -> Place:
    """Where a span is drawn: one without text stands for the character at its place."""
    start = max(0, min(span.start, length - 1))
    return start, min(max(span.end, start + 1), length)


def _token_bits(
    text: str,
    token_spans: Sequence[Place],
    local: Sequence[float | None] | None,
    edges: Sequence[int],
    covers: Sequence[Cover],
    scale: float,
) -> Iterator[tuple[Cover, Bit]]:
    for token, start, end in laid_out(len(text), token_spans):
        value = 0.0 if local is None or token is None else local[token]
        if start == end:
            assert token is not None
            first, last = token_spans[token]
            # a later token of a shared character lies under its spans, an end token under none
            cover = covers[bisect_right(edges, first) - 1] if first < last else ()
            yield cover, _bit("", value, scale)
            continue
        k = bisect_right(edges, start) - 1
        whole = "" if token is None or end <= edges[k + 1] else text[start:end]
        while start < end:  # a token that a span cuts comes in parts
            stop = min(end, edges[k + 1])
            part = text[start:stop]
            bit = Bit(part, "", "") if token is None else _bit(part, value, scale, whole)
            yield covers[k], bit
            start, k = stop, k + 1


def _bit(text: str, value: float | None, scale: float, whole: str = "") -> Bit:
    empty = "" if text else "z"
    if value is None:
        return Bit(text, f"{empty} u".strip(), "unknown", whole)
    level = shade(value, scale)
    colour = f"{'n' if value < 0 else 'p'}{level}" if level else ""
    return Bit(text, f"{empty} {colour}".strip() or "o", exact(value) if value else "", whole)


def _tone(spans: Sequence[Span], cover: Cover) -> str:
    """The worst that a run's spans say of it."""
    if not cover:
        return ""
    values = [spans[i].value for i in cover]
    return _sign(min(values)) if min(values) < 0 else _sign(max(values))


def _sign(value: float) -> str:
    return "neg" if value < 0 else "pos" if value > 0 else "zero"


def _with_ends(made: Sequence[Run], n_spans: int) -> list[Run]:
    last = {number: k for k, run in enumerate(made) for number in run.spans}
    ends: dict[int, list[int]] = {}
    for number in range(1, n_spans + 1):
        if number in last:
            ends.setdefault(last[number], []).append(number)
    return [
        Run(run.bits, run.spans, tuple(ends.get(k, ())), run.tone) for k, run in enumerate(made)
    ]


def _findings(
    text: str, spans: Sequence[Span], places: Sequence[Place], made: Sequence[Run]
) -> list[Finding]:
    first: dict[int, int] = {}
    for k, run in enumerate(made):
        for number in run.spans:
            first.setdefault(number, k)
    return [
        Finding(
            number=i + 1,
            line=text.count("\n", 0, span.start) + 1,
            value=exact(span.value),
            tone=_sign(span.value),
            label=shortened(span.label, LONGEST_LABEL),
            excerpt=_excerpt(text[start : min(end, start + 4 * LONGEST_EXCERPT)]),
            run=first.get(i + 1),
        )
        for i, (span, (start, end)) in enumerate(zip(spans, places, strict=True))
    ]


def _excerpt(text: str) -> str:
    line = text.strip("\n").split("\n")[0]
    return line if len(line) <= LONGEST_EXCERPT else line[: LONGEST_EXCERPT - 1] + "…"
