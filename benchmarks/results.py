"""Read a suite's folder into plain dataclasses; nothing that is missing is dropped silently.

    DIR/suite.toml, manifest.json, cells/<arm>/seed<k>/{config.toml, manifest.json,
    metrics.jsonl, eval.jsonl, rollouts.jsonl}

A cell is *finished* when its last eval is at the suite's last step. Cells that are missing,
failed or unfinished stay in the result with a note. A malformed line is an error that names file
and line; only the last line of a file, cut off when a run was killed, is left out and noted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from botgrpo.benchmarks.question import Json, number, read_question, read_toml
from botgrpo.sandbox.errors import ConfigError

Status = Literal["finished", "unfinished", "failed", "missing"]
# What a step's wall time is made of; `time/score_overlapped_s` is in generation already.
STEP_TIMES = ("time/generate_s", "time/score_s", "time/update_s")
LARGEST_STEP = 2**53  # the last whole number before floats leave one out
NOT_A_RATE = ("step", "n", "unscored", "verdicts", "seconds")


@dataclass(frozen=True, slots=True)
class Eval:
    """Held-out results at one step; a value is None where nothing could be scored."""

    step: int
    n: int
    unscored: int
    values: Mapping[str, float | None]
    verdicts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm under one seed."""

    arm: str
    seed: int
    folder: Path
    status: Status
    note: str
    evals: tuple[Eval, ...] = ()
    metrics: tuple[Json, ...] = ()
    config: Json = field(default_factory=dict)
    manifest: Json = field(default_factory=dict)

    def curve(self, metric: str) -> tuple[list[int], list[float]]:
        """Steps and values of an eval metric where it was scored."""
        points = [(e.step, e.values.get(metric)) for e in self.evals]
        return (
            [step for step, value in points if value is not None],
            [value for _, value in points if value is not None],
        )

    def training_curve(self, metric: str) -> tuple[list[int], list[float]]:
        """Steps and values of a training metric where it is a finite number."""
        points = [(int(m["step"]), number(m.get(metric))) for m in self.metrics]
        return [s for s, v in points if v is not None], [v for _, v in points if v is not None]


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """A suite as it lies on disk; `cells` holds every arm under every seed, also the missing."""

    folder: Path
    name: str
    metric: str
    threshold: float
    baseline: str
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    last_step: int
    cells: Mapping[tuple[str, int], Cell]
    suite: Json
    manifest: Json
    problems: tuple[str, ...]

    def finished(self, arm: str) -> list[Cell]:
        """The finished cells of an arm by seed."""
        cells = (self.cells[arm, seed] for seed in self.seeds)
        return [cell for cell in cells if cell.status == "finished"]

    def summary_of(self, arm: str) -> str:
        """The suite's one line on an arm, "" where it has none."""
        tables = (t for t in self.suite["arms"] if isinstance(t, Mapping))
        return next((str(t.get("summary", "")) for t in tables if t.get("name") == arm), "")

    def paired_seeds(self, arm: str, other: str) -> list[int]:
        """Seeds that both arms finished: the only ones that are compared."""
        return [
            s
            for s in self.seeds
            if all(self.cells[name, s].status == "finished" for name in (arm, other))
        ]


def load_suite(folder: str | Path) -> SuiteResult:
    """Read DIR.

    Raises:
        ConfigError: no suite.toml, a key that is needed is absent, or a malformed file, with
            its name and line.
    """
    root = Path(folder)
    path = root / "suite.toml"
    if not path.is_file():
        raise ConfigError(
            f"{root}: no suite.toml there; give the folder that `botgrpo bench` wrote"
        )
    suite = read_toml(path)
    question = read_question(suite, path)
    arms, seeds = question.arms, question.seeds
    read = {(a, s): _read_cell(root / "cells" / a / f"seed{s}", a, s) for a in arms for s in seeds}
    steps = [e.step for cell, _ in read.values() for e in cell.evals]
    last_step = max(steps, default=0) if question.steps is None else question.steps
    cells = {key: _settle(cell, question.metric, last_step) for key, (cell, _) in read.items()}
    problems = [line for _, lines in read.values() for line in lines]
    return SuiteResult(
        folder=root,
        name=str(suite.get("name", root.name)),
        metric=question.metric,
        threshold=question.threshold,
        baseline=question.baseline,
        arms=arms,
        seeds=seeds,
        last_step=last_step,
        cells=cells,
        suite=suite,
        manifest=_optional_json(root / "manifest.json"),
        problems=(*_strangers(root, arms, seeds), *problems),
    )


def load_rollouts(cell: Cell) -> tuple[list[Json], list[str]]:
    """The cell's sampled rollouts and notes on lines left out; read only when they are shown."""
    return _read_lines(cell.folder / "rollouts.jsonl")


def load_rows(path: Path) -> list[Json]:
    """The whole lines of a run's JSON Lines file, [] where there is none. Raises ConfigError."""
    return _read_lines(path)[0]


def _optional_json(path: Path) -> Json:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON: {error}") from error
    return value if isinstance(value, dict) else {"value": value}


def _read_lines(path: Path) -> tuple[list[Json], list[str]]:
    """Objects of a JSON Lines file, and a note where its last line is cut off."""
    if not path.is_file():
        return [], []
    data = path.read_bytes()
    lines = data.split(b"\n")
    rows: list[Json] = []
    for place, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"a JSON object was expected, not {type(row).__name__}")
            step = row.get("step")
            if type(step) is not int or not 0 <= step <= LARGEST_STEP:
                raise ValueError("'step' is absent, or no whole number from 0 to 2^53")
        except (ValueError, RecursionError) as error:
            if place == len(lines):  # no newline behind it: the writer was killed here
                return rows, [f"{path}:{place}: cut off in the middle; this line is left out"]
            raise ConfigError(
                f"{path}:{place}: {error}; mend or delete the line, or run the cell again"
            ) from error
        rows.append(row)
    return rows, []


def _by_step(rows: Sequence[Json], path: Path) -> tuple[list[Json], list[str]]:
    """Rows in order of step; where a step was written twice (a resumed run), the later one."""
    last = {row["step"]: row for row in rows}
    doubled = len(rows) - len(last)
    note = [f"{path}: {doubled} steps were written twice; the later line counts"]
    return [last[step] for step in sorted(last)], note if doubled else []


def _read_cell(folder: Path, arm: str, seed: int) -> tuple[Cell, list[str]]:
    if not folder.is_dir():
        return Cell(arm, seed, folder, "missing", "no folder"), []
    eval_path, metrics_path = folder / "eval.jsonl", folder / "metrics.jsonl"
    eval_rows, cut_evals = _read_lines(eval_path)
    metric_rows, cut_metrics = _read_lines(metrics_path)
    eval_rows, twice_evals = _by_step(eval_rows, eval_path)
    metric_rows, twice_metrics = _by_step(metric_rows, metrics_path)
    config_path = folder / "config.toml"
    manifest = _optional_json(folder / "manifest.json")
    failed = str(manifest.get("status", "")) == "failed" or (folder / "error.txt").is_file()
    cell = Cell(
        arm,
        seed,
        folder,
        "failed" if failed else "unfinished",
        str(manifest.get("error", "")) or _first_line(folder / "error.txt"),
        tuple(_eval(row) for row in eval_rows),
        tuple(metric_rows),
        read_toml(config_path) if config_path.is_file() else {},
        manifest,
    )
    return cell, [*cut_evals, *cut_metrics, *twice_evals, *twice_metrics]


def _first_line(path: Path) -> str:
    if not path.is_file():
        return ""
    return next(iter(path.read_text(encoding="utf-8", errors="replace").splitlines()), "")


def _eval(row: Json) -> Eval:
    verdicts = row.get("verdicts")
    counts = verdicts if isinstance(verdicts, Mapping) else {}
    return Eval(
        step=row["step"],
        n=_count(row.get("n")),
        unscored=_count(row.get("unscored")),
        values={k: number(v) for k, v in row.items() if k not in NOT_A_RATE},
        verdicts={str(k): _count(v) for k, v in counts.items()},
    )


def _count(value: Any) -> int:
    """A number of things, 0 where it is none."""
    return max(0, int(number(value) or 0))


def _settle(cell: Cell, metric: str, last_step: int) -> Cell:
    """Decide whether a cell counts as finished, and say why not."""
    if cell.status in ("missing", "failed"):
        return cell
    steps, _ = cell.curve(metric)
    status: Status = "unfinished"
    if not cell.evals:
        note = "no evaluation yet"
    elif not steps:
        note = f"{metric!r} was never scored"
    elif cell.evals[-1].step < last_step:
        note = f"stopped at step {cell.evals[-1].step} of {last_step}"
    elif steps[-1] < last_step:
        note = f"{metric!r} was not scored at the last step"
    else:
        status, note = "finished", cell.note
    return replace(cell, status=status, note=note)


def _strangers(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Cells on disk that the suite does not name: said, not compared."""
    known = {(root / "cells" / a / f"seed{s}") for a in arms for s in seeds}
    for folder in sorted((root / "cells").glob("*/seed*")):
        if folder.is_dir() and folder not in known:
            yield f"{folder.relative_to(root)} is not in suite.toml; it is not compared"
