"""Performance profiles: how many of a design's runs learned at least so much.

Share of runs above each level, with its pointwise bootstrap band over seeds (Agarwal et al. 2021,
2108.13264, section 4.3). A run's score is the area under its learning curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from botgrpo.benchmarks.report.analysis import Analysis
from botgrpo.benchmarks.report.charts import clip, colour
from botgrpo.benchmarks.report.svg import Frame, figure, tag
from botgrpo.benchmarks.stats import Floats, band, performance_profile

LEVELS = 161  # finer than the pixels of the wide chart's steps
TABLE_ROWS = 9
MOST_LABELS = 16  # as many as stand beside the chart; the legend above it names all


@dataclass(frozen=True, slots=True)
class Profile:
    """One design: `rows` is [3, S], share above each level with its bounds."""

    arm: str
    index: int
    levels: Floats
    rows: Floats
    n_seeds: int


def profiles(analysis: Analysis) -> list[Profile]:
    """Of every design with a finished run, over the same levels."""
    arms = [arm for arm in analysis.arms if arm.auc]
    areas = [np.array(list(arm.auc.values())) for arm in arms]
    if not arms:
        return []
    low, high = min(a.min() for a in areas), max(a.max() for a in areas)
    air = 0.04 * (high - low or 1.0)
    levels = np.linspace(low - air, high + air, LEVELS)
    made = []
    for arm, area in zip(arms, areas, strict=True):
        above_N_S = (area[:, None] > levels).astype(np.float64)
        rows = band(above_N_S)
        rows[0] = performance_profile(area, levels)
        made.append(Profile(arm.name, arm.index, levels, rows, area.size))
    return made


def profile_chart(found: Sequence[Profile], *, width: int, id: str, title: str) -> Markup:
    """A line a design, falling from all of its runs to none; names beside it, the best first."""
    levels = found[0].levels
    height = 360 if width > 500 else 280
    labels = width > 500 and len(found) <= MOST_LABELS
    right = 140 if labels else 14
    frame = Frame(width, height, 46, right, 12, 44, (levels[0], levels[-1]), (0.0, 1.0))
    parts = [frame.x_axis("area under the learning curve"), frame.y_axis()]
    for each in found:
        if each.n_seeds > 1:
            ribbon = frame.ribbon(list(levels), list(each.rows[1]), list(each.rows[2]))
            parts.append(tag("path", class_=f"band {colour(each.index)}", d=ribbon))
    for each in found:
        line = frame.path(list(levels), list(each.rows[0]))
        parts.append(
            tag("path", tag("title", each.arm), class_=f"mean {colour(each.index)}", d=line)
        )
    if labels:
        order = sorted(found, key=lambda p: -_half(p))
        parts += [
            tag("text", clip(each.arm, 18), class_=f"label {colour(each.index)}",
                x=float(width - right + 12), y=24.0 + 18 * i)
            for i, each in enumerate(order)
        ]  # fmt: skip
    told = "; ".join(f"{p.arm}: half of {p.n_seeds} runs above {_half(p):.3f}" for p in found)
    return figure(frame, id, title, f"{told}. The numbers are in the table below.", *parts)


def profile_table(found: Sequence[Profile]) -> tuple[list[str], list[list[str]]]:
    """Head and rows: shares at a few levels."""
    places = np.linspace(0, LEVELS - 1, TABLE_ROWS).astype(int)
    rows = [
        [
            f"{found[0].levels[i]:.3f}",
            *("{:.2f} [{:.2f}, {:.2f}]".format(*each.rows[:, i]) for each in found),
        ]
        for i in places
    ]
    return ["area above", *(each.arm for each in found)], rows


def sentence(analysis: Analysis, found: Sequence[Profile]) -> str:
    """The chart in words: how to read it, and what it says of the best design and the baseline."""
    how = (
        "Each line falls from all of a design's runs to none: its height is the share of runs that "
        "learned more than the value below it. Further right is better, and a steep fall means "
        "that the seeds agree."
    )
    by_name = {each.arm: each for each in found}
    others = [each for each in found if each.arm != analysis.baseline.name]
    base = by_name.get(analysis.baseline.name)
    if base is None or not others:
        return how
    best = max(others, key=lambda p: analysis.arm(p.arm).auc_mean or 0.0)
    difference = best.rows[0] - base.rows[0]
    if not difference.any():
        told = f"The lines of {best.arm} and {base.arm} are the same."
    elif (difference >= 0).all():
        told = (
            f"{best.arm} lies nowhere below {base.arm}: at no level did fewer of its runs arrive."
        )
    elif (difference <= 0).all():
        told = f"{best.arm} lies nowhere above {base.arm}: at no level did more of its runs arrive."
    else:
        told = f"The lines of {best.arm} and {base.arm} cross: which is ahead depends on the run."
    return f"{how} {told} Where bands overlap, that is not separated."


def _half(profile: Profile) -> float:
    """The highest level that at least half of the runs lie above."""
    return float(profile.levels[np.flatnonzero(profile.rows[0] >= 0.5)[-1]])
