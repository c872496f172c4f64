"""Charts over training steps: learning curves and the verdict mix.

Each function takes plain data and a width, and returns inline SVG. Colours come from CSS classes
(`c0`, `c1`, ...), so that light, dark and print share one picture; shape repeats what colour says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from botgrpo.benchmarks.report.analysis import Curve
from botgrpo.benchmarks.report.svg import Frame, figure, join, number, tag, ticks
from botgrpo.benchmarks.stats import Floats

COLOURS = 8  # beyond eight arms colours repeat; labels and order still tell them apart


def colour(index: int) -> str:
    """CSS class of an arm."""
    return f"c{index % COLOURS}"


def line_chart(
    curves: Sequence[Curve],
    *,
    id: str,
    title: str,
    width: int,
    height: int,
    threshold: float | None = None,
    seed_lines: bool = True,
    labels: bool = False,
) -> Markup:
    """Means with bands over seeds, thin lines for single seeds; unfinished runs are dotted."""
    right = 130 if labels else 14
    steps = [x for c in curves for line in c.lines for x in line[2]]
    frame = Frame(width, height, 46, right, 12, 44, (min(steps), max(steps)), _height(curves))
    parts = [frame.x_axis("training step"), frame.y_axis()]
    if threshold is not None:
        y = frame.y(threshold)
        parts.append(tag("line", class_="threshold", x1=46.0, x2=float(width - right), y1=y, y2=y))
        parts.append(tag("text", f"threshold {number(threshold)}", class_="note", x=52, y=y - 6))
    for curve in curves:
        if curve.n_seeds > 1:
            band = frame.ribbon(curve.steps, list(curve.rows[1]), list(curve.rows[2]))
            parts.append(tag("path", class_=f"band {colour(curve.index)}", d=band))
    for curve in curves:
        for _, finished, xs, ys in curve.lines:
            if seed_lines or not finished:
                kind = "seed" if finished else "seed unfinished"
                parts.append(
                    tag("path", class_=f"{kind} {colour(curve.index)}", d=frame.path(xs, ys))
                )
    for curve in curves:
        if curve.steps:
            parts.append(_mean_line(frame, curve))
    if labels:
        parts.append(_end_labels(frame, curves))
    return figure(frame, id, title, _describe(curves), *parts)


def _height(curves: Sequence[Curve]) -> tuple[float, float]:
    """0 to 1 for rates (closer where all are low), else the range with some air."""
    values = np.array([y for c in curves for line in c.lines for y in line[3]])
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0 if high > 0.5 else max(0.05, high * 1.2)
    air = 0.08 * (high - low or abs(high) or 1.0)
    return (0.0 if 0 <= low < 0.4 * high else low - air), high + air


def _mean_line(frame: Frame, curve: Curve) -> Markup:
    means = [float(v) for v in curve.rows[0]]
    line = tag("path", class_=f"mean {colour(curve.index)}", d=frame.path(curve.steps, means))
    if len(means) > 30:  # marks on every training step would hide the line
        return line
    marks = (
        tag(
            "circle",
            tag("title", f"{curve.arm}, step {step}: {mean:.3f} [{low:.3f}, {high:.3f}]"),
            class_=f"mark {colour(curve.index)}",
            cx=frame.x(step),
            cy=frame.y(mean),
            r=3.2,
        )
        for step, mean, low, high in zip(curve.steps, *curve.rows.tolist(), strict=True)
    )
    return line + join(marks)


def _end_labels(frame: Frame, curves: Sequence[Curve]) -> Markup:
    """Names at the lines' ends, pushed apart where they would overlap."""
    ends = sorted(
        ((frame.y(float(c.rows[0, -1])), c) for c in curves if c.steps), key=lambda e: e[0]
    )
    y_last, parts = -99.0, []
    for y, curve in ends:
        y_last = max(y, y_last + 16)
        parts.append(
            tag(
                "text",
                clip(curve.arm, 17),
                class_=f"label {colour(curve.index)}",
                x=frame.x(curve.steps[-1]) + 9,
                y=y_last + 4,
            )
        )
    return join(parts)


def clip(text: str, length: int) -> str:
    """Text cut with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _describe(curves: Sequence[Curve]) -> str:
    parts = [
        f"{c.arm}: from {c.rows[0, 0]:.3f} to {c.rows[0, -1]:.3f} over {c.n_seeds} seeds"
        for c in curves
        if c.steps
    ]
    return "; ".join(parts) + ". The numbers are in the table below the figure."


def mix_chart(
    steps: Sequence[int],
    shares: dict[str, Floats],
    classes: dict[str, str],
    *,
    id: str,
    title: str,
    width: int = 400,
    height: int = 230,
) -> Markup:
    """Stacked shares of verdicts over training; wide areas carry their name."""
    span = (float(min(steps)), float(max(steps)))
    frame = Frame(width, height, 40, 12, 10, 44, span, (0.0, 1.0))
    xs = list(steps) if len(steps) > 1 else [steps[0] - 0.5, steps[0] + 0.5]
    base = np.zeros(len(xs))
    parts, names = [], []
    for verdict, share in shares.items():
        share = np.resize(share, len(xs))
        top = base + share
        parts.append(
            tag(
                "path",
                tag("title", verdict),
                class_=f"area {classes[verdict]}",
                d=frame.ribbon(xs, list(base), list(top)),
            )
        )
        widest = (
            int(np.argmax(np.convolve(share, [1, 1, 1], "same")[1:-1])) + 1 if len(xs) > 2 else 0
        )
        if share[widest] > 0.12:
            middle = float(base[widest] + share[widest] / 2)
            x = min(max(frame.x(xs[widest]), 40 + 34.0), width - 12 - 34.0)
            names.append(
                tag(
                    "text",
                    clip(verdict, 20),
                    class_="inside",
                    x=x,
                    y=frame.y(middle) + 4,
                    text_anchor="middle",
                )
            )
        base = top
    axes = [frame.x_axis("training step", about=4), _share_axis(frame)]
    text = ", ".join(f"{v}: {s[0]:.2f} to {s[-1]:.2f}" for v, s in shares.items())
    return figure(frame, id, title, text, *axes, *parts, *names)


def _share_axis(frame: Frame) -> Markup:
    return join(
        tag("text", number(v), class_="tick", x=frame.left - 8, y=frame.y(v) + 4, text_anchor="end")
        for v in ticks(0, 1, 4)
    )
