"""The data behind every figure as CSV: DIR/figures/*.csv, one row a point, full precision."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from botgrpo.benchmarks.report.analysis import Analysis, Curve
from botgrpo.benchmarks.report.plane import HEAD, plane_rows
from botgrpo.benchmarks.report.profiles import Profile
from botgrpo.benchmarks.report.relation import Relation
from botgrpo.benchmarks.report.svg import visible
from botgrpo.benchmarks.report.tokens import Browser
from botgrpo.benchmarks.report.transfer import Transfer, transfer_rows
from botgrpo.benchmarks.stats import Floats, Verdict

Row = Sequence[object]


def write_figures(
    folder: Path,
    analysis: Analysis,
    curves: Iterable[tuple[str, Curve]],
    mixes: Iterable[tuple[str, Sequence[int], dict[str, Floats]]],
    browser: Browser,
    profiles: Iterable[Profile],
    relation: Relation | None = None,
    transfer: Transfer | None = None,
) -> list[Path]:
    """Write all tables and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    curves = list(curves)
    tables: dict[str, tuple[str, Iterable[Row]]] = {
        "arms": (
            "arm,finished_seeds,planned_seeds,auc_mean,auc_low,auc_high,auc_iqm,reached,"
            "median_steps,restricted_mean_steps,peak_to_final_drop,unscored,local_unscored_tokens,step_s",
            _arms(analysis),
        ),
        "final_metrics": (
            "arm,metric,mean_over_seeds",
            ((a.name, k, v) for a in analysis.arms for k, v in a.finals.items()),
        ),
        "differences": (
            "arm,baseline,quantity,seeds,mean,low,high,p,p_holm,wins,losses,word",
            _differences(analysis),
        ),
        "steps_to_threshold": (
            "arm,seed,step,reached",
            (
                (a.name, seed, c.step, int(c.reached))
                for a in analysis.arms
                for seed, c in a.crossings.items()
            ),
        ),
        "curves_by_seed": (
            "metric,arm,seed,finished,step,value",
            (
                (metric, c.arm, seed, int(done), x, y)
                for metric, c in curves
                for seed, done, xs, ys in c.lines
                for x, y in zip(xs, ys, strict=True)
            ),
        ),
        "curves_mean": (
            "metric,arm,seeds,step,mean,low,high",
            (
                (metric, c.arm, c.n_seeds, step, *c.rows[:, i].tolist())
                for metric, c in curves
                for i, step in enumerate(c.steps)
            ),
        ),
        "profiles": (
            "arm,seeds,area_above,share,low,high",
            (
                (p.arm, p.n_seeds, float(level), *p.rows[:, i].tolist())
                for p in profiles
                for i, level in enumerate(p.levels)
            ),
        ),
        "verdict_mix": (
            "arm,step,verdict,share",
            (
                (arm, step, verdict, float(share[i]))
                for arm, steps, shares in mixes
                for i, step in enumerate(steps)
                for verdict, share in shares.items()
            ),
        ),
        "rollout_tokens": ("arm,seed,step,rollout,token,text_json,values", _tokens(browser)),
    }
    if relation:
        tables["plane"] = (HEAD, plane_rows(relation))
    if transfer:
        tables["transfer"] = ("arm,area_here,area_there", transfer_rows(transfer))
    return [_write(folder / f"{name}.csv", head, rows) for name, (head, rows) in tables.items()]


def _write(path: Path, head: str, rows: Iterable[Row]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head.split(","))
        writer.writerows([_cell(value) for value in row] for row in rows)
    return path


def _cell(value: object) -> object:
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else value


def _arms(analysis: Analysis) -> Iterable[Row]:
    for a in analysis.arms:
        low, high = a.auc_interval or (None, None)
        yield (
            a.name, len(a.auc), a.planned, a.auc_mean, low, high, a.auc_iqm, a.reached,
            a.median_steps, a.restricted_mean, a.drop, a.unscored,
            a.local_unscored_tokens, a.step_s,
        )  # fmt: skip


def _differences(analysis: Analysis) -> Iterable[Row]:
    def row(arm: str, quantity: str, v: Verdict) -> Row:
        low, high = v.interval or (None, None)
        return (
            arm, analysis.baseline.name, quantity, v.n_seeds, v.difference, low, high, v.p,
            v.p_adjusted, v.wins, v.losses, v.word,
        )  # fmt: skip

    for c in analysis.comparisons:
        yield row(c.arm, "auc", c.auc)
        yield row(c.arm, "steps_saved_to_threshold", c.saved)


def _tokens(browser: Browser) -> Iterable[Row]:
    """Text as a JSON string: a cell that starts with a quote is no formula to a spreadsheet."""
    for panel in browser.panels:
        for i, piece in enumerate(p for p in panel.pieces if p.note):
            identity = json.dumps(panel.id)
            yield panel.arm, panel.seed, panel.step, identity, i, json.dumps(piece.text), piece.note
