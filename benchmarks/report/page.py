"""`write_report(suite)`: DIR/report.html, one offline file, and DIR/figures/*.csv behind it.

How the page is kept safe: `document.py`. What is not covered: the CSV files hold model text as JSON
strings and are not made for a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from botgrpo.benchmarks.report import charts, lanes, provenance
from botgrpo.benchmarks.report.analysis import Analysis, Curve, analyse, curve_of, eval_metrics
from botgrpo.benchmarks.report.document import environment, static, write_page
from botgrpo.benchmarks.report.figures import write_figures
from botgrpo.benchmarks.report.mix import verdict_classes, verdict_mix
from botgrpo.benchmarks.report.plane import plane_chart, plane_rows
from botgrpo.benchmarks.report.relation import Relation, sentences
from botgrpo.benchmarks.report.tokens import LEVELS, VIEWS, build_browser
from botgrpo.benchmarks.report.words import bounds, headline, signed
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Floats

WIDE, NARROW, CARD = 1040, 360, 400
MOST_SEED_LINES, MOST_LABELS = 6, 12  # more designs than this would only hide each other
TRAINING_REWARD = "reward"


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart in one or two widths, and its numbers as a table."""

    title: str
    note: str
    wide: Markup
    narrow: Markup | None
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_report(
    suite: SuiteResult, page: Path | None = None, relation: Relation | None = None
) -> Path:
    """Build the page and the CSV files; returns the page's path.

    Args:
        page: where it goes, the CSV files into a folder of its name; None: into the suite's folder.
        relation: where the designs stand by an audit of their rewards.

    Raises:
        ConfigError: a file of a cell is malformed.
    """
    figures = page.with_suffix("") if page else suite.folder / "figures"
    analysis = analyse(suite)
    browser = build_browser(suite)
    curves = {m: _curves(suite, m) for m in eval_metrics(suite)}
    training = _curves(suite, TRAINING_REWARD, training=True)
    mixes = [(arm, *mix) for arm in suite.arms if (mix := verdict_mix(suite, arm))]
    named = [(m, c) for m, group in curves.items() for c in group]
    named += [("training reward", c) for c in training]
    write_figures(figures, analysis, named, mixes, browser, relation)
    primary = curves.pop(suite.metric, [])
    pages = environment()
    pages.globals.update(signed=signed, bounds=bounds, colour=charts.colour)
    html = pages.get_template("report.html.j2").render(
        suite=suite,
        analysis=analysis,
        head=headline(analysis),
        forest=_forest(analysis),
        primary=_primary(suite, primary) if primary else None,
        small=[_small(m, c) for m, c in curves.items() if c]
        + ([_small("training reward", training)] if training else []),
        arrivals=_arrivals(analysis),
        mixes=[_mix(arm, i, steps, shares) for i, (arm, steps, shares) in enumerate(mixes)],
        mix_legend=_mix_legend(mixes),
        plane=_plane(relation, analysis) if relation else None,
        relation=sentences(relation) if relation else [],
        browser=browser,
        views=VIEWS,
        levels=range(1, LEVELS + 1),
        differences=provenance.config_differences(suite),
        manifest=provenance.manifest_rows(suite),
        hours=provenance.total_hours(suite),
        **static("report.js", "report.css"),
    )
    return write_page(page or suite.folder / "report.html", html)


def _curves(suite: SuiteResult, metric: str, *, training: bool = False) -> list[Curve]:
    found = (curve_of(suite, arm, metric, training=training) for arm in suite.arms)
    return [curve for curve in found if curve]


def _both(draw: Callable[[int, str], Markup], id: str) -> tuple[Markup, Markup]:
    """The same chart for a wide and a narrow screen; ids must differ."""
    return draw(WIDE, id), draw(NARROW, f"{id}-narrow")


def learning_curves(suite: SuiteResult, id: str) -> Figure | None:
    """The primary metric of every arm, for another page; None where nothing was scored."""
    curves = _curves(suite, suite.metric)
    return _primary(suite, curves, id) if curves else None


def _primary(suite: SuiteResult, curves: Sequence[Curve], id: str = "primary") -> Figure:
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


def _small(metric: str, curves: Sequence[Curve]) -> Figure:
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


def _forest(analysis: Analysis) -> Figure | None:
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


def _arrivals(analysis: Analysis) -> Figure | None:
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


def _plane(relation: Relation, analysis: Analysis) -> Figure | None:
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


def _mix(arm: str, index: int, steps: Sequence[int], shares: dict[str, Floats]) -> Figure:
    classes = verdict_classes(set(shares))
    chart = charts.mix_chart(steps, shares, classes, id=f"mix-{index}", title=arm)
    places = sorted({0, len(steps) // 4, len(steps) // 2, 3 * len(steps) // 4, len(steps) - 1})
    rows = [[str(steps[i]), *(f"{share[i]:.2f}" for share in shares.values())] for i in places]
    return Figure(arm, "", chart, None, ["step", *shares], rows)


def _mix_legend(
    mixes: Sequence[tuple[str, Sequence[int], dict[str, Floats]]],
) -> list[tuple[str, str]]:
    names = list(dict.fromkeys(name for _, _, shares in mixes for name in shares))
    classes = verdict_classes(set(names))
    return [(name, classes[name]) for name in names]
