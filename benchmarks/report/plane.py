"""Designs on the plane of stability and richness, coloured by what training did with them."""

from __future__ import annotations

from markupsafe import Markup

from botgrpo.benchmarks.report.charts import clip
from botgrpo.benchmarks.report.relation import Placed, Relation
from botgrpo.benchmarks.report.svg import Frame, figure, number, tag
from botgrpo.benchmarks.report.tokens import LEVELS

LONGEST_NAME = 24
HEAD = "arm,stability,richness,area"


def plane_chart(relation: Relation, *, baseline: float | None, width: int, id: str) -> Markup:
    """Stability to the right, richness upwards; blue learns more than the baseline, orange less."""
    placed = relation.placed
    xs, ys = [p.stability for p in placed], [p.richness for p in placed]
    height = 420 if width > 500 else 300
    frame = Frame(width, height, 52, 24, 18, 46, _range(xs), _range(ys))
    level = baseline if baseline is not None else sum(_area(p) for p in placed) / len(placed)
    most = max((abs(_area(p) - level) for p in placed), default=0.0) or 1.0
    parts = [frame.x_axis("update repeated by a second pass (cosine)", grid=True), frame.y_axis()]
    parts.append(tag("text", "bits a rollout", class_="note", x=frame.left + 4.0, y=14.0))
    for each in sorted(placed, key=_area):
        x, y, difference = frame.x(each.stability), frame.y(each.richness), _area(each) - level
        shade = max(1, round(LEVELS * abs(difference) / most))
        fill = f"fill: var(--{'p' if difference >= 0 else 'n'}{shade}); stroke: currentColor"
        parts.append(tag("circle", style=fill, cx=x, cy=y, r=7.0))
        left = x > width * 0.7
        name = clip(each.arm.name, LONGEST_NAME)
        parts.append(
            tag("text", name, class_="note", x=x + (-11 if left else 11), y=y + 4,
                text_anchor="end" if left else "start")
        )  # fmt: skip
    told = "; ".join(
        f"{p.arm.name}: stability {number(p.stability)}, {number(p.richness)} bits, "
        f"area {_area(p):.3f}"
        for p in placed
    )
    return figure(frame, id, "Stability, richness and what was learned", told, *parts)


def plane_rows(relation: Relation) -> list[tuple[str, float, float, float]]:
    """The points, for a table."""
    return [(p.arm.name, p.stability, p.richness, _area(p)) for p in relation.placed]


def _area(placed: Placed) -> float:
    return float(placed.areas.mean())


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.1
    return low - room, high + room
