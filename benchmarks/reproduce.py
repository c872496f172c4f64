"""`botgrpo reproduce`: the paper's figures beside ours, one suite each, on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from botgrpo.benchmarks import pages, passes, plan, power, reproduction, runner
from botgrpo.benchmarks import suite as suites
from botgrpo.benchmarks.executors import Executor
from botgrpo.benchmarks.memory import GIB
from botgrpo.benchmarks.paper import Figure, Tier
from botgrpo.benchmarks.report.document import environment, static, write_page
from botgrpo.benchmarks.report.page import learning_curves, write_report
from botgrpo.benchmarks.reproduction import PAPER_GIB, Row, command
from botgrpo.benchmarks.results import load_suite
from botgrpo.benchmarks.suite import CellPlan


def plan_text(figures: Sequence[Figure], tier: Tier, workers: int | None) -> str:
    """What each figure would run, what it leaves open, and what it takes; nothing is started.

    Raises ConfigError where a configuration is wrong or cannot fit.
    """
    parts, total_s = [], 0.0
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
                told += plan.of_accelerator(plans, PAPER_GIB) + to_begin(figure, plans)
            else:
                seconds = plan.suite_s(plans, workers)
                total_s += seconds
                told.append(plan.at_most(seconds, workers))
                told += power.plan_lines(len(loaded.arms) - 1, None, None)
            lines.append(f"  command      {command(figure, tier)}")
            lines += [f"    {line}" for line in told]
        parts.append("\n".join(lines))
    if total_s and len(figures) > 1:
        parts.append(
            f"all of it: {plan.at_most(total_s, workers)}; one figure after the other, and "
            f"`botgrpo reproduce --tier {tier} --resume` goes on where it was stopped"
        )
    return "\n\n".join(parts)


def to_begin(figure: Figure, plans: Sequence[CellPlan]) -> list[str]:
    """What to type on a fresh machine with one GPU, and the disk that it takes."""
    from botgrpo.trainer.checkpoint import KEEP
    from botgrpo.trainer.footprint import footprint

    config = plans[0].config
    folder, _ = plan.model_shape(config)
    found = footprint(config, folder, 1)
    each = (found.weights + found.optimizer) / GIB
    # the next checkpoint is written before the oldest goes
    room = each * (KEEP * len(plans) + 1)
    models = dict.fromkeys(cell.config.policy.model for cell in plans)
    return [
        f"disk: {room:,.0f} GiB for {KEEP} checkpoints of {each:.0f} GiB in each of {len(plans)} "
        "cells; of a finished cell all but the newest may be deleted",
        "to begin, in this order:",
        *(f"  botgrpo models fetch {model}" for model in models),
        "  botgrpo sandbox doctor                    # compilers run on this machine's own cores",
        "  python -m botgrpo.benchmarks.device       # ten minutes: is the device as planned?",
        f"  {command(figure, 'paper')} --workers 1    # one cell at a time fits; --resume goes on",
    ]


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
            result = load_suite(folder)
            if figure.pass_at:
                passes.measure(result, figure.pass_at)
            for arm in figure.pages:
                for cell in result.finished(arm)[:1]:
                    pages.take(cell)
    return write(figures, tier, out), failed


def write(figures: Sequence[Figure], tier: Tier, out: Path) -> Path:
    """The page of what lies in `out`, and `reproduction.md`, the same as a document."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [reproduction.row(figure, tier, out) for figure in figures]
    html = (
        environment()
        .get_template("reproduction.html.j2")
        .render(
            rows=[_shown(row, out) for row in rows],
            tier=tier,
            sentences=[f"{q} {a}" for q, a in reproduction.headlines(rows)],
            **static("report.js", "report.css"),
        )
    )
    reproduction.write(rows, out / "reproduction.md")
    return write_page(out / "reproduction.html", html)


def _shown(row: Row, out: Path) -> dict[str, object]:
    """A row with its chart, and the report of its suite beside the page."""
    result, chart, report = row.result, None, ""
    if result:
        chart = learning_curves(result, id=f"curves-{row.figure.name}")
        report = str(write_report(result).relative_to(out))
    return {
        "figure": row.figure,
        "note": row.note,
        "command": row.command,
        "result": result,
        "findings": row.findings,
        "word": row.word,
        "chart": chart,
        "report": report,
    }
