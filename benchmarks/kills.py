"""Does a killed run go on to the same numbers?  python -m botgrpo.benchmarks.kills [--kills 50]

One run is left alone. Others are killed (SIGKILL, with everything that they started) at random
moments and resumed until they end; then a new one begins, until there were enough kills. One kill
in five falls into the start of a process, four into its steps, uniform over the time of a whole
run's. Compared byte for byte: every line of metrics.jsonl, eval.jsonl and rollouts.jsonl but for
the clock's numbers, and the last checkpoint's weights and optimiser.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botgrpo.benchmarks import executors
from botgrpo.sandbox.errors import RunFailed

FILES = ("metrics.jsonl", "eval.jsonl", "rollouts.jsonl")
# short, but with every kind of moment in it: generating, scoring, learning, testing, saving
SHORT = (
    "sampling.prompts=4",
    "sampling.group_size=4",
    "sampling.max_new_tokens=96",
    "run.steps=8",
    "run.eval_every=2",
    "run.eval_prompts=16",
    "run.checkpoint_every=2",
    "optim.epochs=2",
    "optim.minibatches=2",
)
LONGEST_S = 900.0
STEPPING = 0.8  # share of kills that wait for the steps to begin


class Runs:
    """Starts `botgrpo train` into a folder, again and again."""

    def __init__(self, config: str, sets: Sequence[str]) -> None:
        self.config, self.sets = config, sets

    def start(self, out: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "botgrpo.benchmarks.cli", "train", self.config]
        command += [word for each in self.sets for word in ("--set", each)]
        environment = executors.environment() | {"PYTHONPATH": os.pathsep.join(sys.path)}
        out.mkdir(parents=True, exist_ok=True)
        with (out / "log.txt").open("ab") as log:
            return subprocess.Popen(
                [*command, "--out", str(out), "--resume"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def finish(self, out: Path) -> tuple[float, float]:
        """Run to the end; seconds until its steps began, and of them.

        Raises RunFailed where it ends otherwise.
        """
        began = time.monotonic()
        process = self.start(out)
        self.wait_for_steps(process, out)
        stepping = time.monotonic()
        self.check(process.wait(timeout=LONGEST_S), out)
        return stepping - began, time.monotonic() - stepping

    def killed(self, out: Path, after_s: float, *, stepping: bool) -> bool:
        """Run and kill so many seconds after the start, or after the first step began.

        False where it had ended by then.
        """
        process = self.start(out)
        if stepping:
            self.wait_for_steps(process, out)
        try:
            self.check(process.wait(timeout=after_s), out)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
        return False

    @staticmethod
    def wait_for_steps(process: subprocess.Popen[bytes], out: Path) -> None:
        """The manifest is written when all is loaded; it may be there from the process before."""
        manifest, started = out / "manifest.json", time.time()
        while process.poll() is None:
            if manifest.exists() and manifest.stat().st_mtime > started:
                return
            time.sleep(0.02)

    @staticmethod
    def check(status: int, out: Path) -> None:
        if status:
            lines = (out / "log.txt").read_text(errors="replace").strip().splitlines()
            raise RunFailed(f"exit status {status} in {out}: {lines[-1] if lines else 'no output'}")


def differences(one: Path, other: Path) -> list[str]:
    """What differs between the folders of two finished runs."""
    import torch

    found = []
    for name in FILES:
        if _lines(one / name) != _lines(other / name):
            found.append(f"{name} of {other}")
    saved = [sorted((folder / "checkpoints").glob("step-*"))[-1] for folder in (one, other)]
    if saved[0].name != saved[1].name:
        found.append(f"last checkpoint: {saved[0].name} and {saved[1].name}")
    states = [torch.load(path / "weights.pt", weights_only=True) for path in saved]
    if not _same(*states):
        found.append(f"weights or optimiser of {saved[1]}")
    return found


def _lines(path: Path) -> list[str]:
    """Lines without what the clock wrote."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        json.dumps({k: v for k, v in r.items() if k != "seconds" and not k.startswith("time/")})
        for r in records
    ]


def _same(one: Any, other: Any) -> bool:
    """Equal to the last bit, through nested containers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "numpy"):
        return bool(one.numpy().tobytes() == other.numpy().tobytes())
    return bool(one == other)


def run(config: str, sets: Sequence[str], kills: int, seed: int, out: Path) -> list[str]:
    """Kill `kills` times, finish every run, and return what differs from the one left alone."""
    runs, moments = Runs(config, sets), random.Random(seed)
    start_s, steps_s = runs.finish(out / "whole")
    print(f"a whole run starts for {start_s:.1f} s and steps for {steps_s:.1f} s", flush=True)
    found: list[str] = []
    done, number, mine = 0, 1, 0
    while done < kills:
        folder = out / f"killed-{number}"
        stepping = moments.random() < STEPPING
        after_s = moments.uniform(0, steps_s if stepping else start_s)
        if runs.killed(folder, after_s, stepping=stepping):
            done, mine = done + 1, mine + 1
            lines = folder / "metrics.jsonl"
            steps = lines.read_bytes().count(b"\n") if lines.exists() else 0
            of = "steps" if stepping else "start"
            told = f"{after_s:.2f} s after its {of} began, {steps} steps written"
            print(f"kill {done}: run {number}, {told}", flush=True)
            if done < kills:
                continue
            runs.finish(folder)
        elif stepping:
            steps_s *= 0.8  # it ended before its time: the machine is less busy than it was
        different = differences(out / "whole", folder)
        told = ", ".join(different) or "the same to the last bit"
        print(f"run {number}, killed {mine} times: {told}", flush=True)
        found += different
        number, mine = number + 1, 0
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--config", default="react_micro")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c")
    parser.add_argument("--out", metavar="DIR", help="keep the runs there (default: nowhere)")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(arguments.out or scratch)
        sets = [*SHORT, *arguments.set]
        found = run(arguments.config, sets, arguments.kills, arguments.seed, out)
    print("every run ended the same" if not found else f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
