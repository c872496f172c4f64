"""The card as one offline page, readable without training: sentences first, then the figures.

How the page is kept safe: `report/document.py`; it has no script at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from botgrpo.benchmarks.audit.card import Card, Separation
from botgrpo.benchmarks.audit.evidence import Evidence
from botgrpo.benchmarks.audit.figure import AXES, Axis, Figure
from botgrpo.benchmarks.report.charts import clip, colour
from botgrpo.benchmarks.report.document import TEMPLATES, environment
from botgrpo.benchmarks.report.runs import shortened
from botgrpo.benchmarks.report.svg import Frame, figure, tag, visible

WIDE_LETTER = 7.3  # px of a bold letter of a label, about
WIDE, NARROW = 720, 360
LANE = 110  # px of a figure's interval in its cell
BADGES = {"bad": "think twice", "good": "no alarm", "flat": "little known"}
TONES = {"bad": "worse", "good": "better", "flat": "flat"}
PLANE = ("advantage_repeat", "rollout_bits")
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of one reward as text and picture; `why` where there is no value."""

    value: str
    extent: str
    why: str
    lane: Markup | None
    against: str


@dataclass(frozen=True, slots=True)
class Row:
    """A figure over all rewards."""

    title: str
    note: str
    cells: tuple[Cell, ...]


def page_html(
    cards: Sequence[Card],
    evidence: Mapping[str, Sequence[Evidence]],
    facts: Mapping[str, Any],
    *,
    verdict_first: bool = True,
) -> str:
    """The page as text.

    Args:
        cards: one a reward, the first being what the others are held against.
        evidence: name of a reward -> rollouts to look at.
        facts: what was scored, as in the JSON.
        verdict_first: sentences above the figures, or below them.
    """
    pages = environment()
    pages.globals.update(colour=colour)
    style = "".join(
        (TEMPLATES / name).read_text(encoding="utf-8")
        for name in ("report.css", "view.css", "audit.css")
    )
    return pages.get_template("audit.html.j2").render(
        names=[shortened(card.name, LONGEST_NAME) for card in cards],
        breakable=_breakable,
        cards=cards,
        badges=BADGES,
        tones=TONES,
        facts=facts,
        sections=[
            (axis, words, rows) for axis, words in AXES.items() if (rows := _rows(cards, axis))
        ],
        plane=_plane(cards, WIDE, "plane"),
        narrow_plane=_plane(cards, NARROW, "plane-narrow"),
        off_plane=[shortened(c.name, LONGEST_NAME) for c in cards if _place(c) is None],
        evidence=[
            (shortened(name, LONGEST_NAME), i, found)
            for i, (name, found) in enumerate(evidence.items())
            if found
        ],
        verdict_first=verdict_first,
        style=Markup(style),
    )


def number(value: float, unit: str = "") -> str:
    """Three digits, a real minus sign, the unit after a narrow space; short times in ms."""
    if unit == "s" and abs(value) < 1:
        value, unit = 1000 * value, "ms"
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:.0f}"
    else:
        text = f"{value:.2f}" if size >= 0.01 or value == 0 else f"{value:.1g}"
    text = text.replace("-", "\N{MINUS SIGN}")
    return f"{text}\N{NARROW NO-BREAK SPACE}{unit}" if unit else text


def _breakable(name: str) -> Markup:
    """A reference that may go on to the next line after each bracket, dot or underscore."""
    return Markup("<wbr>").join(visible(part) for part in re.split(r"(?<=[(._])", name))


def _rows(cards: Sequence[Card], axis: Axis) -> list[Row]:
    keys = dict.fromkeys(f.key for card in reversed(cards) for f in card.figures if f.axis == axis)
    rows = []
    for key in keys:
        found = [next((f for f in c.figures if f.key == key), None) for c in cards]
        first = next(f for f in found if f is not None)
        extent = _extent([f for f in found if f is not None])
        cells = [
            _cell(f, i, extent, card.against_first.get(key))
            for i, (f, card) in enumerate(zip(found, cards, strict=True))
        ]
        rows.append(Row(first.title, first.note, tuple(cells)))
    return rows


def _extent(figures: Sequence[Figure]) -> tuple[float, float]:
    """From 0, or below, to the largest value of a row: its cells share one scale."""
    values = [0.0]
    for f in figures:
        if f.estimate.value is not None:
            values += [f.estimate.value, *(f.estimate.interval or ())]
    low, high = min(values), max(values)
    return (low, high if high > low else low + 1.0)


def _cell(
    found: Figure | None, i: int, extent: tuple[float, float], against: Separation | None
) -> Cell:
    if found is None:
        return Cell("", "", "it is what the others are held against", None, "")
    e = found.estimate
    if e.value is None:
        return Cell("", "", e.why, None, "")
    interval = e.interval
    shown = "" if interval is None else f"{number(interval.low)} to {number(interval.high)}"
    word = against.word if against else ""
    return Cell(
        number(e.value, found.unit),
        shown,
        "" if shown else e.why,
        _lane(e.value, interval, i, extent),
        word,
    )


def _lane(
    value: float, interval: tuple[float, float] | None, i: int, extent: tuple[float, float]
) -> Markup:
    frame = Frame(LANE, 16, 5, 5, 2, 2, extent, (0.0, 1.0))
    low, high = interval or (value, value)
    return tag(
        "svg",
        tag("line", class_="lane", x1=5.0, x2=LANE - 5.0, y1=8.0, y2=8.0),
        tag("line", class_="zero", x1=frame.x(0.0), x2=frame.x(0.0), y1=3.0, y2=13.0),
        tag("line", class_=f"bar {colour(i)}", x1=frame.x(low), x2=frame.x(high), y1=8.0, y2=8.0),
        tag("circle", class_=f"middle {colour(i)}", cx=frame.x(value), cy=8.0, r=4.5),
        viewBox=f"0 0 {LANE} 16",
        class_="tiny",
        aria_hidden="true",
    )


def _place(card: Card) -> tuple[Figure, Figure] | None:
    """The figures that put a card on the plane, or None where one is unknown."""
    stable, rich = (card.figure(key) for key in PLANE)
    if stable.estimate.value is None or rich.estimate.value is None:
        return None
    return stable, rich


def _plane(cards: Sequence[Card], width: int, id: str) -> Markup | None:
    """Stability to the right, richness upwards: a design wants to be at the top right."""
    placed = [(i, c.name, p) for i, c in enumerate(cards) if (p := _place(c)) is not None]
    if not placed:
        return None
    tops = [p[1].estimate.value or 0.0 for _, _, p in placed]
    lows = [v for _, _, (x, _) in placed for v in (x.estimate.value, *(x.estimate.interval or ()))]
    left = min(0.0, *(v for v in lows if v is not None))
    frame = Frame(width, 330, 44, 20, 16, 46, (left, 1.0), (0.0, 1.15 * (max(tops) or 1.0)))
    parts = [frame.x_axis("update repeated (cosine)", grid=True), frame.y_axis()]
    parts.append(tag("text", "bits a rollout", class_="note", x=48.0, y=14.0))
    dots = [(frame.x(p[0].estimate.value or 0.0), frame.y(p[1].estimate.value or 0.0))
            for _, _, p in placed]  # fmt: skip
    taken = [(x - 8, x + 8, y + 5) for x, y in dots]
    for (i, name, (stable, _)), (x, y) in zip(placed, dots, strict=True):
        if stable.estimate.interval:
            low, high = (frame.x(v) for v in stable.estimate.interval)
            parts.append(tag("line", class_=f"bar {colour(i)}", x1=low, x2=high, y1=y, y2=y))
        parts.append(tag("circle", class_=f"middle {colour(i)}", cx=x, cy=y, r=7.0))
        text, right = clip(name, width // 16), x < 0.55 * width
        left = x + 12 if right else x - 12 - WIDE_LETTER * len(text)
        extent = left, left + WIDE_LETTER * len(text)
        at = _free(extent, y, taken)
        taken.append((*extent, at))
        anchor = "start" if right else "end"
        parts.append(
            tag("text", text, class_=f"label {colour(i)}", x=x + (12 if right else -12), y=at,
                text_anchor=anchor)
        )  # fmt: skip
    told = "; ".join(
        f"{name}: {number(p[0].estimate.value or 0.0)}, {number(p[1].estimate.value or 0.0)} bits"
        for _, name, p in placed
    )
    return figure(frame, id, "Stability and richness", told, *parts)


def _free(
    extent: tuple[float, float], y: float, taken: Sequence[tuple[float, float, float]]
) -> float:
    """A height near y at which a label of this extent covers neither another nor a point."""
    low, high = extent
    beside = [at for left, right, at in taken if left < high and right > low]
    places = (y + shift for shift in (-9.0, 22.0, -25.0, 38.0, -41.0))
    return next((at for at in places if all(abs(at - b) >= 15 for b in beside)), y - 9)
