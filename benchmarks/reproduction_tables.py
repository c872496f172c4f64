"""The tables and pictures of the reproduction's document: Markdown and SVG from results."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from botgrpo.benchmarks import pages, passes
from botgrpo.benchmarks.curves import peak_to_final_drop
from botgrpo.benchmarks.report.analysis import Analysis
from botgrpo.benchmarks.report.document import TEMPLATES
from botgrpo.benchmarks.results import Cell, SuiteResult
from botgrpo.benchmarks.stats import bootstrap_interval


def as_table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Markdown, the first row as its head."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |"

    head, *body = rows
    return [line(head), "| " + " | ".join("---" for _ in head) + " |", *map(line, body)]


def arms(analysis: Analysis, ks: Sequence[int]) -> Iterator[Sequence[str]]:
    """A line an arm over its finished seeds: its curve, and pass@k where that was measured."""
    result = analysis.suite
    metric, last = result.metric, result.last_step
    yield (
        "arm", "seeds", f"area under {metric}", f"{metric} at step {last}",
        f"steps to {result.threshold:g} (median; reached)", "peak to end, down",
        *(f"pass@{k}" for k in ks),
    )  # fmt: skip
    for arm in analysis.arms:
        curves = [cell.curve(metric)[1] for cell in result.finished(arm.name)]
        measured = [passes.read(cell) for cell in result.finished(arm.name)]
        median = "–" if arm.median_steps is None else f"{arm.median_steps:.0f}"
        yield (
            arm.name,
            f"{len(curves)} of {arm.planned}",
            _mean([arm.auc[seed] for seed in arm.auc]),
            _mean([values[-1] for values in curves]),
            f"{median}; {arm.reached}",
            _mean([peak_to_final_drop(values) for values in curves]),
            *(_mean([rates[k] for rates in measured if k in rates]) for k in ks),
        )


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    interval = bootstrap_interval(values)
    bounds = f" [{interval.low:.3f}, {interval.high:.3f}]" if interval else ""
    return f"{np.mean(values):.3f}{bounds}"


def photographs(
    cell: Cell, records: Sequence[Mapping[str, Any]], name: str, path: Path
) -> Iterator[Sequence[str]]:
    """What was asked, and the page that was paid for it, copied beside the document."""
    yield (f"asked of {cell.arm}, seed {cell.seed}", "paid", "its page, mounted")
    folder = path.with_suffix("")
    for record in records:
        shown = str(record["verdict"])
        if record["picture"]:
            picture = folder / f"{name}-{record['picture']}"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(cell.folder / pages.FOLDER / record["picture"], picture)
            shown += f" ![a page]({picture.relative_to(path.parent)})"
        yield (str(record["prompt"]), f"{record['reward']:.2f}", shown)


def provenance(result: SuiteResult) -> str:
    """The code and the first weights of the runs."""
    manifests = [cell.manifest for cell in result.cells.values() if cell.manifest]
    commits = dict.fromkeys(str(m["git_commit"])[:12] for m in manifests if m.get("git_commit"))
    models = dict.fromkeys(
        f"{m['model']['name']} {str(m['model']['sha256'])[:12]}" for m in manifests if "model" in m
    )
    return (
        f"Run at commit {', '.join(commits) or 'unknown'}, from the weights (SHA-256) "
        f"{', '.join(models) or 'unknown'}."
    )


def standalone(svg: str) -> str:
    """An inline chart of a page as a file of its own: with its namespace and its style."""
    css = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    root = css[: css.index("}") + 1]
    rules = [line for line in css.splitlines() if line.startswith(("svg ", ".c0", ".c4"))]
    style = "\n".join([root, "svg { background: var(--card); }", *rules])
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{style}</style>", 1
    )
