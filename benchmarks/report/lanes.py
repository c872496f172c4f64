"""Charts with one lane an arm: paired differences, and steps to the threshold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from botgrpo.benchmarks.curves import Crossing
from botgrpo.benchmarks.report.charts import clip, colour
from botgrpo.benchmarks.report.svg import Frame, figure, tag
from botgrpo.benchmarks.stats import Interval

WIDE_ROW, NARROW_ROW = 44, 62
NARROW = 500  # below this width the label stands above its lane


def _lane_size(width: int) -> tuple[int, int]:
    """Left margin and height of a lane."""
    return (14, NARROW_ROW) if width < NARROW else (200, WIDE_ROW)


def _lane_y(i: int, row: int) -> float:
    return 10 + row * (i + 0.5) + (9 if row == NARROW_ROW else 0)


def _label(frame: Frame, text: str, index: int, y: float) -> Markup:
    narrow = frame.width < NARROW
    return tag(
        "text",
        clip(text, 24),
        class_=f"label {colour(index)}",
        x=float(frame.left if narrow else frame.left - 16),
        y=y - 18 if narrow else y + 4,
        text_anchor="start" if narrow else "end",
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of the forest plot."""

    label: str
    index: int
    mean: float
    interval: Interval | None
    by_seed: tuple[float, ...]
    word: str


def forest_chart(
    rows: Sequence[Difference], *, id: str, title: str, x_label: str, width: int
) -> Markup:
    """Paired differences to the baseline: a dot a seed, the mean and its interval; 0 is no gain."""
    values = [v for r in rows for v in (*r.by_seed, *(r.interval or ()), 0.0)]
    air = 0.08 * (max(values) - min(values) or 1.0)
    left, row = _lane_size(width)
    height = 10 + row * len(rows) + 48
    frame = Frame(
        width, height, left, 14, 10, 48, (min(values) - air, max(values) + air), (0.0, 1.0)
    )
    zero = frame.x(0.0)
    parts = [
        frame.x_axis(x_label, grid=True, about=5 if width > 500 else 4),
        tag("line", class_="zero", x1=zero, x2=zero, y1=10.0, y2=float(height - 48)),
    ]
    for i, r in enumerate(rows):
        y = _lane_y(i, row)
        parts.append(_label(frame, r.label, r.index, y))
        for k, value in enumerate(r.by_seed):
            parts.append(
                tag(
                    "circle",
                    tag("title", f"seed pair {k + 1}: {value:+.3f}"),
                    class_=f"dot {colour(r.index)}",
                    cx=frame.x(value),
                    cy=y + 11,
                    r=3.0,
                )
            )
        if r.interval:
            parts.append(
                tag(
                    "line",
                    class_=f"bar {colour(r.index)}",
                    x1=frame.x(r.interval.low),
                    x2=frame.x(r.interval.high),
                    y1=y,
                    y2=y,
                )
            )
        parts.append(
            tag(
                "circle",
                tag("title", f"{r.label}: {r.mean:+.3f}"),
                class_=f"middle {colour(r.index)}",
                cx=frame.x(r.mean),
                cy=y,
                r=6.0,
            )
        )
    text = "; ".join(f"{r.label}: {r.mean:+.3f}, {r.word}" for r in rows)
    return figure(frame, id, title, text, *parts)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A lane of the steps-to-threshold chart: one crossing a seed."""

    label: str
    index: int
    crossings: tuple[tuple[int, Crossing], ...]
    median: float | None


def arrival_chart(
    lanes: Sequence[Arrivals], *, id: str, title: str, last_step: int, width: int
) -> Markup:
    """A dot where each seed reached the threshold, an open arrow where it had not by the end."""
    left, row = _lane_size(width)
    height = 10 + row * len(lanes) + 48
    frame = Frame(width, height, left, 44, 10, 48, (0.0, float(last_step)), (0.0, 1.0))
    parts = [frame.x_axis("training step", grid=True, about=6 if width > 500 else 4)]
    for i, lane in enumerate(lanes):
        y = _lane_y(i, row)
        parts.append(_label(frame, lane.label, lane.index, y))
        parts.append(tag("line", class_="lane", x1=frame.x(0), x2=frame.x(last_step), y1=y, y2=y))
        parts += _arrivals(frame, lane, y)
        if lane.median is not None:
            x = frame.x(lane.median)
            parts.append(
                tag(
                    "line",
                    tag("title", f"median {lane.median:.1f}"),
                    class_=f"median {colour(lane.index)}",
                    x1=x,
                    x2=x,
                    y1=y - 13,
                    y2=y + 13,
                )
            )
    text = "; ".join(
        f"{lane.label}: {sum(c.reached for _, c in lane.crossings)} of {len(lane.crossings)} "
        "seeds reached it"
        for lane in lanes
    )
    return figure(frame, id, title, text, *parts)


def _arrivals(frame: Frame, lane: Arrivals, y: float) -> Iterator[Markup]:
    for seed, crossing in lane.crossings:
        if crossing.reached:
            note = tag("title", f"seed {seed}: reached at step {crossing.step:.1f}")
            x = frame.x(crossing.step)
            yield tag("circle", note, class_=f"arrived {colour(lane.index)}", cx=x, cy=y, r=6.0)
    late = [(seed, c.step) for seed, c in lane.crossings if not c.reached]
    if late:  # they all lie at the end: one arrow with a count instead of a pile
        x = frame.x(max(step for _, step in late))
        note = tag("title", f"not reached by seeds {', '.join(str(seed) for seed, _ in late)}")
        arrow = f"M{x:.1f} {y - 6:.1f}l10 6l-10 6z"
        yield tag("path", note, class_=f"censored {colour(lane.index)}", d=arrow)
        yield tag("text", f"×{len(late)}", class_="tick", x=x + 14, y=y + 4)
