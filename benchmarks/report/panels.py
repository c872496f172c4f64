"""The page's figures: each a chart in one or two widths, with its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from botgrpo.benchmarks.report import charts, lanes
from botgrpo.benchmarks.report.analysis import Analysis, Curve, curve_of
from botgrpo.benchmarks.report.mix import verdict_classes
from botgrpo.benchmarks.report.plane import plane_chart, plane_rows
from botgrpo.benchmarks.report.profiles import Profile, profile_chart, profile_table, sentence
from botgrpo.benchmarks.report.relation import Relation
from botgrpo.benchmarks.report.transfer import Transfer, transfer_chart, transfer_rows
from botgrpo.benchmarks.report.words import bounds, signed
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Floats

WIDE, NARROW, CARD = 1040, 360, 400
MOST_SEED_LINES, MOST_LABELS = 6, 12  # more designs than this would only hide each other


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart in one or two widths, and its numbers as a table."""

    title: str
    note: str
    wide: Markup
    narrow: Markup | None
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def curves(suite: SuiteResult, metric: str, *, training: bool = False) -> list[Curve]:
    """Every arm's curve of a metric, where it has one."""
    found = (curve_of(suite, arm, metric, training=training) for arm in suite.arms)
    return [curve for curve in found if curve]


def _both(draw: Callable[[int, str], Markup], id: str) -> tuple[Markup, Markup]:
    """The same chart for a wide and a narrow screen; ids must differ."""
    return draw(WIDE, id), draw(NARROW, f"{id}-narrow")


def primary(suite: SuiteResult, curves: Sequence[Curve], id: str = "primary") -> Figure:
    """The primary metric of every arm."""
    title = f"{suite.metric} on held-out prompts"
    few = len(curves) <= MOST_SEED_LINES

    def draw(width: int, id: str) -> Markup:
        return charts.line_chart(
            curves,
            id=id,
            title=title,
            width=width,
            height=420 if width == WIDE else 300,
            threshold=suite.threshold,
            seed_lines=few,
            labels=width == WIDE and len(curves) <= MOST_LABELS,
        )

    wide, narrow = _both(draw, id)
    note = "Thick: mean over seeds. Band: 95% bootstrap interval."
    note += " Thin: single seeds." if few else ""
    return Figure(title, note, wide, narrow, *_curve_table(curves))


def small(metric: str, curves: Sequence[Curve]) -> Figure:
    """Another metric, small."""
    title = metric.replace("_", " ")
    notes = {
        "training reward": "Each design has its own reward: compare shapes, not heights.",
        "mean_length": "Tokens a completion.",
        "match": "Agreement with what the prompt asked for.",
    }
    slug = "".join(c if c.isalnum() else "-" for c in metric)
    chart = charts.line_chart(
        curves, id=f"small-{slug}", title=title, width=CARD, height=240, seed_lines=False
    )
    return Figure(title, notes.get(metric, ""), chart, None, *_curve_table(curves))


def _curve_table(curves: Sequence[Curve]) -> tuple[list[str], list[list[str]]]:
    means = {c.arm: dict(zip(c.steps, c.rows.T.tolist(), strict=True)) for c in curves}
    steps = sorted({step for column in means.values() for step in column})
    steps = steps if len(steps) <= 30 else steps[:: -(-len(steps) // 30)]
    rows = [
        [str(step), *("–" if step not in m else _range(m[step]) for m in means.values())]
        for step in steps
    ]
    return ["step", *means], rows


def _range(row: Sequence[float]) -> str:
    middle, low, high = row
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def forest(analysis: Analysis) -> Figure | None:
    """Paired differences to the baseline; None without any."""
    rows = [
        lanes.Difference(
            c.arm, analysis.arm(c.arm).index, c.auc.difference, c.auc.interval, c.auc_by_seed,
            c.auc.word,
        )
        for c in analysis.comparisons
    ]  # fmt: skip
    if not rows:
        return None
    title = f"Difference to {analysis.baseline.name}"
    axis = f"AUC of {analysis.suite.metric} minus that of {analysis.baseline.name} (right: faster)"

    def draw(width: int, id: str) -> Markup:
        label = axis if width == WIDE else "AUC difference"
        return lanes.forest_chart(rows, id=id, title=title, x_label=label, width=width)

    wide, narrow = _both(draw, "forest")
    table = [
        [
            c.arm, signed(c.auc.difference), bounds(c.auc.interval), str(c.auc.n_seeds),
            f"{c.auc.p:.3f}", f"{c.auc.p_adjusted:.3f}", f"{c.win_probability:.2f}",
            signed(c.saved.difference, 1), bounds(c.saved.interval, 1), c.auc.word,
        ]
        for c in analysis.comparisons
    ]  # fmt: skip
    head = ["design", "AUC difference", "95% interval", "paired seeds", "p", "p (Holm)"]
    head += ["P(improvement)", "steps saved", "95% interval", "verdict"]
    note = "Large dot: mean of the paired seeds with its 95% interval. Small dots: single pairs."
    return Figure(title, note, wide, narrow, head, table)


def arrivals(analysis: Analysis) -> Figure | None:
    """Steps to the threshold; None where nothing finished."""
    rows = [
        lanes.Arrivals(a.name, a.index, tuple(a.crossings.items()), a.median_steps)
        for a in analysis.arms
        if a.crossings
    ]
    if not rows:
        return None
    suite = analysis.suite
    title = f"Steps until {suite.metric} reaches {suite.threshold:g}"

    def draw(width: int, id: str) -> Markup:
        return lanes.arrival_chart(rows, id=id, title=title, last_step=suite.last_step, width=width)

    wide, narrow = _both(draw, "arrivals")
    table = [
        [lane.label, str(seed), f"{c.step:.1f}" if c.reached else f"not by {c.step:.0f}"]
        for lane in rows
        for seed, c in lane.crossings
    ]
    note = (
        "Dot: a seed arrives, on the straight line between two evaluations. Bar: median. "
        "Arrow: not there when training ended; such runs are kept as censored."
    )
    return Figure(title, note, wide, narrow, ["design", "seed", "step"], table)


def plane(relation: Relation, analysis: Analysis) -> Figure | None:
    """Designs by their rewards' audit; None where none has a place."""
    if not relation.placed:
        return None
    base = analysis.baseline.auc_mean

    def draw(width: int, id: str) -> Markup:
        return plane_chart(relation, baseline=base, width=width, id=id)

    rows = [[name, *(f"{value:.3f}" for value in row)] for name, *row in plane_rows(relation)]
    note = "Blue learned more than the baseline, orange less; stronger is further away."
    note += "".join(f" Not on the plane: {line}." for line in relation.left_out)
    head = ["design", "stability", "bits a rollout", "area under the curve"]
    return Figure(
        "Stability, richness and what was learned", note, *_both(draw, "plane"), head, rows
    )


def profile(analysis: Analysis, found: Sequence[Profile]) -> Figure:
    """How many runs of each design learned at least so much."""
    title = "How many runs learned so much"

    def draw(width: int, id: str) -> Markup:
        return profile_chart(found, width=width, id=id, title=title)

    note = sentence(analysis, found)
    return Figure(title, note, *_both(draw, "profile"), *profile_table(found))


def transfer(found: Transfer) -> Figure:
    """The designs' areas with two policies."""

    def draw(width: int, id: str) -> Markup:
        return transfer_chart(found, width=width, id=id)

    rows = [[name, f"{here:.3f}", f"{there:.3f}"] for name, here, there in transfer_rows(found)]
    head = ["design", f"area with {found.here}", f"area with {found.there}"]
    note = "A point a design; where the ranking holds, they rise from left to right."
    title = "The same designs with two policies"
    return Figure(title, note, *_both(draw, "transfer"), head, rows)


def mix(arm: str, index: int, steps: Sequence[int], shares: dict[str, Floats]) -> Figure:
    """Shares of verdicts over an arm's training."""
    classes = verdict_classes(set(shares))
    chart = charts.mix_chart(steps, shares, classes, id=f"mix-{index}", title=arm)
    places = sorted({0, len(steps) // 4, len(steps) // 2, 3 * len(steps) // 4, len(steps) - 1})
    rows = [[str(steps[i]), *(f"{share[i]:.2f}" for share in shares.values())] for i in places]
    return Figure(arm, "", chart, None, ["step", *shares], rows)


def mix_legend(
    mixes: Sequence[tuple[str, Sequence[int], dict[str, Floats]]],
) -> list[tuple[str, str]]:
    """Verdicts and their CSS classes."""
    names = list(dict.fromkeys(name for _, _, shares in mixes for name in shares))
    classes = verdict_classes(set(names))
    return [(name, classes[name]) for name in names]
