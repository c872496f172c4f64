"""`write_report(suite)`: DIR/report.html, one offline file, and DIR/figures/*.csv behind it.

How the page is kept safe: `document.py`. What is not covered: the CSV files hold model text as JSON
strings and are not made for a browser.
"""

from __future__ import annotations

from pathlib import Path

from botgrpo.benchmarks.report import charts, panels, provenance
from botgrpo.benchmarks.report import transfer as transfers
from botgrpo.benchmarks.report.analysis import analyse, eval_metrics
from botgrpo.benchmarks.report.document import environment, static, write_page
from botgrpo.benchmarks.report.figures import write_figures
from botgrpo.benchmarks.report.mix import verdict_mix
from botgrpo.benchmarks.report.profiles import profiles
from botgrpo.benchmarks.report.relation import Relation, sentences
from botgrpo.benchmarks.report.tokens import LEVELS, VIEWS, build_browser
from botgrpo.benchmarks.report.transfer import Transfer
from botgrpo.benchmarks.report.words import bounds, headline, signed
from botgrpo.benchmarks.results import SuiteResult

TRAINING_REWARD = "reward"


def write_report(
    suite: SuiteResult,
    page: Path | None = None,
    relation: Relation | None = None,
    transfer: Transfer | None = None,
) -> Path:
    """Build the page and the CSV files; returns the page's path.

    Args:
        page: where it goes, the CSV files into a folder of its name; None: into the suite's folder.
        relation: where the designs stand by an audit of their rewards.
        transfer: their ranking with another policy.

    Raises:
        ConfigError: a file of a cell is malformed.
    """
    figures = figures_folder(suite, page)
    analysis = analyse(suite)
    browser = build_browser(suite)
    curves = {m: panels.curves(suite, m) for m in eval_metrics(suite)}
    training = panels.curves(suite, TRAINING_REWARD, training=True)
    mixes = [(arm, *mix) for arm in suite.arms if (mix := verdict_mix(suite, arm))]
    named = [(m, c) for m, group in curves.items() for c in group]
    named += [("training reward", c) for c in training]
    found = profiles(analysis)
    write_figures(figures, analysis, named, mixes, browser, found, relation, transfer)
    primary = curves.pop(suite.metric, [])
    pages = environment()
    pages.globals.update(signed=signed, bounds=bounds, colour=charts.colour)
    html = pages.get_template("report.html.j2").render(
        suite=suite,
        analysis=analysis,
        head=headline(analysis),
        forest=panels.forest(analysis),
        primary=panels.primary(suite, primary) if primary else None,
        small=[panels.small(m, c) for m, c in curves.items() if c]
        + ([panels.small("training reward", training)] if training else []),
        arrivals=panels.arrivals(analysis),
        mixes=[panels.mix(arm, i, steps, shares) for i, (arm, steps, shares) in enumerate(mixes)],
        mix_legend=panels.mix_legend(mixes),
        plane=panels.plane(relation, analysis) if relation else None,
        relation=sentences(relation) if relation else [],
        profile=panels.profile(analysis, found) if found else None,
        transfer=transfers.sentences(transfer, analysis),
        ranking=panels.transfer(transfer) if transfer and transfer.designs else None,
        browser=browser,
        figures=figures.name,
        views=VIEWS,
        levels=range(1, LEVELS + 1),
        differences=provenance.config_differences(suite),
        manifest=provenance.manifest_rows(suite),
        hours=provenance.total_hours(suite),
        judges=provenance.judge_lines(suite),
        **static("report.js", "report.css"),
    )
    return write_page(page or suite.folder / "report.html", html)


def figures_folder(suite: SuiteResult, page: Path | None = None) -> Path:
    """Where the CSV files of a page go, and its pictures."""
    return page.with_suffix("") if page else suite.folder / "figures"


def learning_curves(suite: SuiteResult, id: str) -> panels.Figure | None:
    """The primary metric of every arm, for another page; None where nothing was scored."""
    curves = panels.curves(suite, suite.metric)
    return panels.primary(suite, curves, id) if curves else None
