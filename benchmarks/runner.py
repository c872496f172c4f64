"""The main job: every cell of a suite by itself, resumed, retried, never dropped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from botgrpo.benchmarks import suite as suites
from botgrpo.benchmarks.executors import Executor, Job, Local
from botgrpo.benchmarks.progress import Progress, duration
from botgrpo.benchmarks.suite import CellPlan, Suite
from botgrpo.benchmarks.training import only_writer
from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import checkpoint, manifest
from botgrpo.trainer.config import to_toml

ATTEMPTS = 2
POLL_S = 0.5


@dataclass(slots=True)
class Cell:
    """A cell on its way: its plan, the job that runs it, how often it was tried."""

    plan: CellPlan
    folder: Path
    attempts: int = 0
    job: Job | None = None
    state: str = "waiting"  # waiting, running, finished, failed
    note: str = ""

    def steps_done(self) -> int:
        """Steps that the cell has written; cheap enough to ask twice a second."""
        path = self.folder / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0


@dataclass(slots=True)
class Bench:
    """Runs a suite into a folder.

    Args:
        suite: the checked suite.
        out: its folder; `resume` goes on with what lies there.
        workers: cells side by side, one torch thread each; None: as many as there is room for.
        executor: where they run.
    """

    suite: Suite
    out: Path
    workers: int | None = None
    resume: bool = False
    executor: Executor = field(default_factory=Local)
    cells: list[Cell] = field(default_factory=list)
    lock: IO[str] | None = None

    def run(self) -> list[Cell]:
        """Run all cells; returns those that failed. The folder is ready for `report`."""
        self._prepare()
        total = sum(cell.plan.config.run.steps for cell in self.cells)
        began = time.monotonic()
        at_start = sum(cell.steps_done() for cell in self.cells)
        with Progress(total=total, label=f"bench {self.suite.name}") as progress:
            try:
                while any(cell.state in ("waiting", "running") for cell in self.cells):
                    self._start_waiting()
                    time.sleep(POLL_S)
                    self._collect(progress)
                    done = sum(cell.steps_done() for cell in self.cells)
                    finished = sum(cell.state == "finished" for cell in self.cells)
                    left = _time_left(done - at_start, total - done, time.monotonic() - began)
                    progress.update(done, f"{finished} of {len(self.cells)} cells finished, {left}")
            except BaseException:
                self._stop_all()
                raise
            finally:
                self.executor.close()
                if self.lock:
                    self.lock.close()
        return [cell for cell in self.cells if cell.state == "failed"]

    def _prepare(self) -> None:
        plans = suites.cells(self.suite)
        record = suites.resolved(self.suite, plans)
        path = self.out / "suite.toml"
        text = to_toml(record)
        if path.exists() and not self.resume:
            raise ConfigError(
                f"{self.out} holds a suite already: add --resume to go on with it, or choose "
                "another folder with --out"
            )
        if path.exists() and path.read_text() != text:
            raise ConfigError(
                f"{path} is not this suite as it stands now, so its cells cannot be mixed with "
                "new ones; choose another folder with --out"
            )
        self.out.mkdir(parents=True, exist_ok=True)
        self.lock = only_writer(self.out)
        self.executor.check(self.out)
        path.write_text(text)
        self._note_other_code()
        manifest.write(self.out / "manifest.json", suite=self.suite.name, seeds=self.suite.seeds)
        for plan in plans:
            folder = plan.folder(self.out)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "error.txt").unlink(missing_ok=True)
            (folder / "config.toml").write_text(to_toml(plan.config.model_dump()))
            done = _is_done(folder, plan.config.run.steps)
            self.cells.append(Cell(plan, folder, state="finished" if done else "waiting"))

    def _note_other_code(self) -> None:
        """Say it where cells that are kept were run by another version of the code."""
        path = self.out / "manifest.json"
        before = json.loads(path.read_text()).get("git_commit") if path.exists() else None
        now = manifest.git_commit()
        if before and now and before != now:
            print(
                f"{self.out}: begun at commit {before[:12]}, going on at {now[:12]}; cells that "
                "are finished are kept as they are (choose another --out to run all anew)",
                file=sys.stderr,
            )

    def _start_waiting(self) -> None:
        running = sum(cell.state == "running" for cell in self.cells)
        for cell in self.cells:
            if running >= (self.workers or self.executor.slots):
                return
            if cell.state == "waiting":
                self._start(cell)
                running += 1

    def _start(self, cell: Cell) -> None:
        cell.attempts += 1
        cell.state = "running"
        cell.job = self.executor.start(cell.folder)

    def _collect(self, progress: Progress) -> None:
        for cell in self.cells:
            if cell.job is None or (code := cell.job.poll()) is None:
                continue
            cell.job = None
            name = f"{cell.plan.arm}, seed {cell.plan.seed}"
            if code == 0:
                cell.state = "finished"
                progress.say(f"{name}: {_last_eval(cell, self.suite.primary.metric)}")
                continue
            cell.note = _tail(cell.folder / "log.txt")
            # a wrong configuration will not get better by trying again
            retry = cell.attempts < ATTEMPTS and code != 2
            cell.state = "waiting" if retry else "failed"
            what = "trying again from its checkpoint" if retry else "given up"
            progress.say(f"{name}: exit status {code}, {what}: {cell.note}")
            if not retry:
                (cell.folder / "error.txt").write_text(f"exit status {code}: {cell.note}\n")

    def _stop_all(self) -> None:
        jobs = [cell.job for cell in self.cells if cell.job]
        with ThreadPoolExecutor(len(jobs) or 1) as together:
            list(together.map(lambda job: job.stop(), jobs))


def worker_count(asked: int | None) -> int | None:
    """As asked; None leaves it to the place where the cells run. Raises ConfigError below 1."""
    if asked is not None and asked < 1:
        raise ConfigError(f"--workers {asked}: at least 1")
    return asked


def require_all(failed: Sequence[Cell]) -> None:
    """Raise RunFailed where a cell could not be finished, naming each and its log."""
    if failed:
        lines = [f"  {c.plan.arm} seed {c.plan.seed}: {c.folder / 'log.txt'}" for c in failed]
        raise RunFailed(
            f"{len(failed)} cells failed; the report shows them. Their logs:\n"
            + "\n".join(lines)
            + "\nMend the cause and go on with --resume"
        )


def _is_done(folder: Path, steps: int) -> bool:
    """True where the cell's last step was evaluated and its checkpoint is there."""
    newest = checkpoint.latest(folder / "checkpoints")
    path = folder / "eval.jsonl"
    if newest is None or newest.name != f"step-{steps:06d}" or not path.exists():
        return False
    return bool(json.loads(path.read_text().splitlines()[-1])["step"] == steps)


def _time_left(done: int, left: int, seconds: float) -> str:
    if done <= 0:
        return "starting"
    return f"about {duration(seconds / done * left)} left"


def _last_eval(cell: Cell, metric: str) -> str:
    path = cell.folder / "eval.jsonl"
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    value = rows[-1].get(metric)
    shown = "unscored" if value is None else f"{value:.2f}"
    return f"{metric} {shown} at step {rows[-1]['step']}"


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "no output"
