"""The paper's figures and ours as one document: what is claimed, what came out, and what it took.

Every number comes from the folders of runs; a figure without one is *not measured*. The tier of a
folder is that of the suite that lies in it, so folders of several tiers go into one document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from botgrpo.benchmarks import pages, paper, plan
from botgrpo.benchmarks import suite as suites
from botgrpo.benchmarks.headlines import pass_at_k, sooner
from botgrpo.benchmarks.paper import Figure, Finding, Tier, Word
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.report.page import learning_curves
from botgrpo.benchmarks.report.provenance import total_hours
from botgrpo.benchmarks.reproduction_tables import (
    arms,
    as_table,
    photographs,
    provenance,
    standalone,
)
from botgrpo.benchmarks.results import SuiteResult, load_suite
from botgrpo.sandbox.errors import ConfigError

PAPER_GIB = 80.0


@dataclass(frozen=True, slots=True)
class Row:
    """A figure at a tier and what became of it: `result` is None where it was not measured."""

    figure: Figure
    tier: Tier
    note: str
    result: SuiteResult | None = None
    findings: tuple[Finding, ...] = ()
    word: Word = "not measured"

    @property
    def command(self) -> str:
        return command(self.figure, self.tier)

    @property
    def extent(self) -> str:
        """How much of it was run."""
        if self.result is None:
            return ""
        cells = self.result.cells.values()
        done = sum(cell.status == "finished" for cell in cells)
        seeds = f"{len(self.result.seeds)} seeds"
        return seeds if done == len(cells) else f"{seeds}, {done} of {len(cells)} cells finished"


def command(figure: Figure, tier: Tier) -> str:
    return f"botgrpo reproduce {figure.name} --tier {tier}"


def row(figure: Figure, tier: Tier, folder: Path) -> Row:
    """What lies in `folder/F1` of this figure, read as this tier's."""
    place, found = figure.tiers[tier], folder / figure.name
    if not place.suite:
        return Row(figure, tier, place.note)
    if not (found / "suite.toml").is_file():
        return Row(figure, tier, f"not run yet: {command(figure, tier)}")
    result = load_suite(found)
    findings = tuple(paper.findings(figure, result))
    return Row(figure, tier, place.note, result, findings, paper.overall(findings))


def gather(figures: Sequence[Figure], folders: Sequence[Path]) -> list[Row]:
    """A row for each figure and folder that has it, one of reasons for a figure that none has.

    Raises ConfigError for a folder that is not there, or that holds a suite of no tier.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no folder there; give the --out of `botgrpo reproduce`")
    rows = []
    for figure in figures:
        there = [f for f in folders if (f / figure.name / "suite.toml").is_file()]
        rows += [row(figure, _tier(figure, folder / figure.name), folder) for folder in there]
        if not there:
            rows.append(Row(figure, "micro", _why_not(figure)))
    return rows


def _tier(figure: Figure, folder: Path) -> Tier:
    name = load_suite(folder).name
    for tier in get_args(Tier):
        if figure.tiers[tier].suite == name:
            found: Tier = tier
            return found
    known = ", ".join(p.suite for p in figure.tiers.values() if p.suite) or "none"
    raise ConfigError(f"{folder}: the suite {name!r} is none of {figure.name}'s: {known}")


def _why_not(figure: Figure) -> str:
    return "; ".join(
        f"{tier}: {'not run yet' if place.suite else place.note}"
        for tier, place in figure.tiers.items()
    )


def headlines(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The paper's two claims as questions, each with what was measured here."""
    first, fifth = (
        [(row.tier, row.result) for row in rows if row.figure.name == name and row.result]
        for name in ("F1", "F5")
    )
    return [
        (
            "How many times sooner does BoT-GRPO reach a compile rate of 80% than GRPO? "
            "(The paper: before step 40 against near step 90.)",
            " ".join(f"{tier.capitalize()} tier: {sooner(result)}" for tier, result in first)
            or "Not measured: `botgrpo reproduce F1`.",
        ),
        (
            "What does BoT-GRPO add to Pass@k, and in how many steps? (The paper: 3.0, 8.1 and 5.5 "
            "points at k = 1, 2 and 4, in half the steps.)",
            " ".join(f"{tier.capitalize()} tier: {pass_at_k(result)}" for tier, result in fifth)
            or "Not measured: `botgrpo reproduce F5`.",
        ),
    ]


def write(rows: Sequence[Row], path: Path) -> Path:
    """The document, and its charts as SVG in a folder of its name beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["# The figures of BoT-GRPO (arXiv 2610.09804), and ours", ""]
    lines += [
        "`botgrpo reproduce --page FILE --from DIR` writes this page from the folders of runs; "
        "nothing in it is written by hand. A claim *agrees* only where paired seeds separate the "
        "arms. Intervals hold 95%, over seeds.",
        "",
        "## The two headline claims",
        "",
    ]
    for question, answer in headlines(rows):
        lines += [f"**{question}** {answer}", ""]
    lines += ["## Figure by figure", "", *as_table(_overview(rows)), ""]
    lines += ["## What each takes", "", *as_table(_costs(rows)), ""]
    for each in rows:
        lines += _section(each, path)
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return path


def _overview(rows: Sequence[Row]) -> Iterator[Sequence[str]]:
    yield ("figure", "the paper", "ours", "tier", "verdict", "command")
    for each in rows:
        told = (f"{f.brief or f.text}, {f.word}" for f in each.findings)
        ours = "; ".join(told) or each.note
        where = f"{each.tier}: {each.extent}" if each.result else ""
        name = f"{each.figure.name}: {each.figure.title}"
        yield (name, each.figure.paper, ours, where, each.word, f"`{each.command}`")


def _costs(rows: Sequence[Row]) -> Iterator[Sequence[str]]:
    """Steps at each tier, and the hours that were measured or follow from what was."""
    yield ("figure", *get_args(Tier))
    pace = _pace(rows)
    for figure in {each.figure.name: each.figure for each in rows}.values():
        cells = []
        for tier in get_args(Tier):
            run = next((r for r in rows if (r.figure.name, r.tier) == (figure.name, tier)), None)
            cells.append(_cost(figure, tier, run.result if run else None, pace))
        yield (figure.name, *cells)


def _pace(rows: Sequence[Row]) -> float | None:
    """Hours a step of the micro runs here, evaluations included."""
    hours, steps = 0.0, 0
    for each in rows:
        if each.tier == "micro" and each.result:
            hours += total_hours(each.result) or 0.0
            steps += sum(len(cell.metrics) for cell in each.result.cells.values())
    return hours / steps if steps else None


def _cost(figure: Figure, tier: Tier, result: SuiteResult | None, pace: float | None) -> str:
    place = figure.tiers[tier]
    if not place.suite:
        return "not measured"
    plans = suites.cells(suites.load(place.suite), weights=False)
    steps = sum(cell.config.run.steps for cell in plans)
    told = f"{steps:,} steps"
    if tier == "paper":
        return f"{told}, {plan.of_accelerator(plans, PAPER_GIB)[-1].partition(' by ')[0]}"
    if result and (hours := total_hours(result)):
        done = sum(len(cell.metrics) for cell in result.cells.values())
        return f"{told}; {hours:.1f} hours of single cells by the clock for {done:,} of them"
    if tier == "micro" and pace:
        return f"{told}; about {steps * pace:.1f} hours of single cells at the pace of those here"
    return told


def _section(each: Row, path: Path) -> Iterator[str]:
    figure, result = each.figure, each.result
    yield from (f"## {figure.name}: {figure.title}" + (f" ({each.tier})" if result else ""), "")
    yield from (f"The paper: {figure.paper}", "")
    if each.note:
        yield from (
            each.note[0].upper() + each.note[1:] + ("" if each.note[-1] == "." else "."),
            "",
        )
    if result:
        chart = learning_curves(result, id=f"{figure.name}-{each.tier}")
        if chart:
            picture = path.with_suffix("") / f"{figure.name}-{each.tier}.svg"
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_text(standalone(str(chart.wide)), encoding="utf-8")
            yield f"![{chart.title}, {each.tier} tier]({picture.relative_to(path.parent)})"
            marks = f" The paper's marks: {'; '.join(figure.marks)}." if figure.marks else ""
            yield from ("", f"{chart.title}. {chart.note}{marks}", "")
        analysis = analyse(result)
        yield from (*as_table(arms(analysis, figure.pass_at)), "")
        for arm in figure.pages:
            for cell in result.finished(arm)[:1]:
                if records := pages.read(cell):
                    name = f"{figure.name}-{each.tier}-{arm}"
                    yield from (*as_table(photographs(cell, records, name, path)), "")
        yield from (provenance(result), "")
        yield from (f"- {finding.word}: {finding.text}" for finding in each.findings)
        for warning in analysis.warnings:
            if "It is not compared" not in warning:  # that cells are not finished stands above
                yield f"- note: {warning}"
    yield from (f"- left open by the paper: {line}" for line in figure.open)
    yield from (f"- chosen: {line}" for line in figure.chosen)
    yield ""
