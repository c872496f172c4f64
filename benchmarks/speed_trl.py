"""Our trainer beside TRL's, on the same work:  .envs/trl/bin/python -m botgrpo.benchmarks.speed_trl

SmolLM2-135M learns whole. Sides take turns, each measurement in a process of its own; printed are
medians over the rounds with their range, by the wall and, since others may use the machine, tokens
a second of the processor. With `.envs/vllm` beside it generation is compared with
vLLM's CPU build too. `--quick` is one round of the smaller batch. Minutes to an hour.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from botgrpo.benchmarks.speed_job import Job
from botgrpo.benchmarks.speed_sides import SIDES
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.models import locate

SIZES = ((32, 64), (64, 128))  # rollouts, tokens of each
DTYPES = ("bfloat16", "float32")
VLLM_PYTHON = Path(".envs/vllm/bin/python")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a quantity of one job, of ours and of another's."""

    what: str
    mine: str
    other: str
    quantity: str  # key of a measurement
    target: float  # other's over mine, at least
    unit: str = "tokens/s"


ROWS = (
    Row("whole step", "ours", "trl", "step_s", 3.0),
    Row("update", "ours", "trl", "update_s", 1.5),
    Row("generation in the step", "ours", "trl", "generate_s", 2.0),
    Row("peak memory", "ours", "trl", "peak_gib", 2.0, "GiB"),
    Row("generation", "native", "transformers", "generate_s", 2.0),
    Row("generation", "native", "vllm", "generate_s", 1.3),
)
Found = dict[tuple[Job, str], list[dict[str, float]]]


def measure(side: str, job: Job) -> dict[str, float]:
    """One measurement in a fresh process; what it said on the way is shown where it fails."""
    python = str(VLLM_PYTHON.absolute()) if side == "vllm" else sys.executable
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    command = [python, "-W", "ignore", "-m", "botgrpo.benchmarks.speed_sides"]
    done = subprocess.run(
        [*command, side, json.dumps(asdict(job))],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{side} failed on {job}:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    found.setdefault("tokens", float(job.rollouts * job.tokens))
    return found


def table(found: Found) -> str:
    """The comparison as a Markdown table; a cell is a median and, of several rounds, the range."""
    lines = [
        "| work | what | ours | other | times | times, CPU | target |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for job in dict.fromkeys(job for job, _ in found):
        work = f"{job.rollouts} x {job.tokens}, {job.dtype}"
        for row in ROWS:
            if (job, row.mine) not in found or (job, row.other) not in found:
                continue
            mine, other = (values(found[job, side], row) for side in (row.mine, row.other))
            times = ratio(found, job, row)
            processor = dataclasses.replace(row, quantity=row.quantity.replace("_s", "_cpu_s"))
            by_cpu = "" if row.unit == "GiB" else f"{ratio(found, job, processor):.2f}"
            lines.append(
                f"| {work} | {row.what}, {row.unit} | {cell(mine)} | {row.other} {cell(other)} "
                f"| {times:.2f} | {by_cpu} | {row.target:g} |"
            )
    return "\n".join(lines)


def ratio(found: Found, job: Job, row: Row) -> float:
    """How many times better ours is: the ratio of medians."""
    a, b = (statistics.median(values(found[job, side], row)) for side in (row.mine, row.other))
    return b / a if row.unit == "GiB" else a / b


def values(measured: Sequence[dict[str, float]], row: Row) -> list[float]:
    if row.unit == "GiB":
        return [m[row.quantity] for m in measured]
    return [m["tokens"] / m[row.quantity] for m in measured]


def cell(numbers: Sequence[float]) -> str:
    middle = statistics.median(numbers)
    digits = 2 if middle < 20 else 0
    around = f" ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"
    return f"{middle:.{digits}f}{around if len(numbers) > 1 else ''}"


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m botgrpo.benchmarks.speed_trl", description=__doc__
    )
    made.add_argument("--model", default="smollm2-135m", help="a folder, or a model of the cache")
    made.add_argument("--rounds", type=int, default=2)
    made.add_argument("--quick", action="store_true", help="one round of the smaller batch")
    made.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    made.add_argument("--out", metavar="FILE", help="add every measurement as a line of JSON")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    sides = [s for s in arguments.sides if s != "vllm" or VLLM_PYTHON.exists()]
    if "trl" in sides and importlib.util.find_spec("trl") is None:
        print(
            "speed_trl: TRL is not installed here; next: make env-trl, then "
            ".envs/trl/bin/python -m botgrpo.benchmarks.speed_trl",
            file=sys.stderr,
        )
        return 2
    try:
        model = str(locate(arguments.model))
    except ConfigError as error:
        print(f"speed_trl: {error}", file=sys.stderr)
        return 2
    sizes = SIZES[:1] if arguments.quick else SIZES
    jobs = [Job(model, rollouts, tokens, dtype) for rollouts, tokens in sizes for dtype in DTYPES]
    found: Found = {}
    began = load()
    for _ in range(1 if arguments.quick else arguments.rounds):
        for job in jobs:
            for side in sides:
                measured = measure(side, job)
                found.setdefault((job, side), []).append(measured)
                said = f"{job.rollouts} x {job.tokens} {job.dtype} {side}"
                numbers = ", ".join(f"{k} {v:.2f}" for k, v in measured.items())
                print(f"{said}: {numbers}; {load()}", file=sys.stderr, flush=True)
                if arguments.out:
                    with Path(arguments.out).open("a") as file:
                        file.write(json.dumps({**asdict(job), "side": side, **measured}) + "\n")
    print(table(found))
    print(f"{began} at the start, {load()} at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
