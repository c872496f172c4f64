"""`botgrpo reproduce`: the paper's figures beside ours, one suite each, on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from botgrpo.benchmarks import paper, plan, runner
from botgrpo.benchmarks import suite as suites
from botgrpo.benchmarks.executors import Executor
from botgrpo.benchmarks.paper import Figure, Finding, Tier, Word
from botgrpo.benchmarks.report.document import environment, static, write_page
from botgrpo.benchmarks.report.page import Figure as Chart
from botgrpo.benchmarks.report.page import learning_curves, write_report
from botgrpo.benchmarks.results import SuiteResult, load_suite

PAPER_GIB = 80.0


@dataclass(frozen=True, slots=True)
class Row:
    """A figure and what became of it: `result` is None where it was not measured."""

    figure: Figure
    note: str
    command: str
    result: SuiteResult | None
    findings: tuple[Finding, ...]
    word: Word
    chart: Chart | None = None
    report: str = ""  # of the figure alone, beside the page


def plan_text(figures: Sequence[Figure], tier: Tier, workers: int | None) -> str:
    """What each figure would run, what it leaves open, and what it takes; nothing is started.

    Raises ConfigError where a configuration is wrong or cannot fit.
    """
    parts = []
    for figure in figures:
        place = figure.tiers[tier]
        lines = [f"{figure.name}  {figure.title}", f"  the paper    {figure.paper}"]
        lines += [f"  left open    {line}" for line in figure.open]
        lines += [f"  chosen       {line}" for line in figure.chosen]
        if place.note:
            lines.append(f"  {'note' if place.suite else 'not measured':12} {place.note}")
        if place.suite:
            loaded = suites.load(place.suite)
            plans = suites.cells(loaded, weights=False)
            told = suites.plan_text(loaded, plans).splitlines()
            if tier == "paper":
                told += plan.of_accelerator(plans, PAPER_GIB)
            else:
                told += plan.of_suite(loaded, plans, Path(), workers, None)
            lines.append(f"  command      {command(figure, tier)}")
            lines += [f"    {line}" for line in told]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def command(figure: Figure, tier: Tier) -> str:
    return f"botgrpo reproduce {figure.name} --tier {tier}"


def run(
    figures: Sequence[Figure],
    tier: Tier,
    out: Path,
    *,
    workers: int | None,
    resume: bool,
    executor: Callable[[], Executor],
) -> tuple[Path, list[runner.Cell]]:
    """Run the suites one after the other, then write the page; returns it and the failed cells."""
    failed: list[runner.Cell] = []
    for figure in figures:
        name = figure.tiers[tier].suite
        if name:
            loaded, folder = suites.load(name), out / figure.name
            failed += runner.Bench(loaded, folder, workers, resume, executor()).run()
    return write(figures, tier, out), failed


def write(figures: Sequence[Figure], tier: Tier, out: Path) -> Path:
    """The page of what lies in `out`, and `reproduction.md` with its table."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [_row(figure, tier, out) for figure in figures]
    html = (
        environment()
        .get_template("reproduction.html.j2")
        .render(
            rows=rows, tier=tier, sentences=headlines(rows), **static("report.js", "report.css")
        )
    )
    (out / "reproduction.md").write_text(markdown(rows, tier), encoding="utf-8")
    return write_page(out / "reproduction.html", html)


def _row(figure: Figure, tier: Tier, out: Path) -> Row:
    place, folder = figure.tiers[tier], out / figure.name
    told = command(figure, tier)
    if not place.suite or not (folder / "suite.toml").is_file():
        note = place.note if not place.suite else f"not run yet: {told}"
        return Row(figure, note, told, None, (), "not measured")
    result = load_suite(folder)
    found = tuple(paper.findings(figure, result))
    page = write_report(result)
    return Row(
        figure,
        place.note,
        told,
        result,
        found,
        paper.overall(found),
        learning_curves(result, id=f"curves-{figure.name}"),
        str(page.relative_to(out)),
    )


def headlines(rows: Sequence[Row]) -> list[str]:
    """The paper's two claims, each in a sentence of what was measured here."""
    from botgrpo.benchmarks.report.analysis import analyse
    from botgrpo.benchmarks.report.words import between

    by_name = {row.figure.name: row for row in rows}
    told = []
    first = by_name.get("F1")
    if first and first.result and {"bot_grpo", "grpo"} <= set(first.result.arms):
        analysis = analyse(first.result)
        bot, grpo = analysis.arm("bot_grpo"), analysis.arm("grpo")
        threshold = f"{first.result.metric} {first.result.threshold:g}"
        reached = f"reached by {bot.reached} of {len(bot.crossings)} runs of BoT-GRPO and "
        reached += f"{grpo.reached} of {len(grpo.crossings)} of GRPO"
        if bot.restricted_mean and grpo.restricted_mean:
            ratio = grpo.restricted_mean / bot.restricted_mean
            told.append(
                f"{threshold}, {reached}: BoT-GRPO takes {bot.restricted_mean:.1f} steps on "
                f"average and GRPO {grpo.restricted_mean:.1f}, each run counting for at most "
                f"{first.result.last_step}: {ratio:.2f} times sooner."
            )
    fifth = by_name.get("F5")
    if fifth and fifth.result:
        comparison = analyse(fifth.result).comparison("bot_grpo")
        if comparison:
            told.append(
                f"Pass@1, averaged over training: {comparison.auc.difference:+.3f} "
                f"({between(comparison.auc.interval)}) with step scores, "
                f"{comparison.auc.sentence}."
            )
    return told


def markdown(rows: Sequence[Row], tier: Tier) -> str:
    """The table, figure by figure, for a document."""
    lines = [f"| figure | the paper | ours ({tier} tier) | verdict |", "| --- | --- | --- | --- |"]
    for row in rows:
        ours = "; ".join(finding.text for finding in row.findings) or row.note
        cells = (f"{row.figure.name}: {row.figure.title}", row.figure.paper, ours, row.word)
        lines.append(
            "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
        )
    told = [f"- {line}" for line in headlines(rows)]
    return "\n".join([*lines, "", *told]) + "\n"
