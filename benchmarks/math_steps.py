"""How often a step reward is right on labelled traces: `python -m botgrpo.benchmarks.math_steps`.

Traces carry one label: the first wrong step, or that there is none. Steps after it are not
counted, since nobody labelled them. *Precision* of -1: refuted steps that are the first wrong one,
of all refuted steps up to it. *Recall*: first wrong steps that are refuted. Both stand with Wilson
bounds at 95%. Labels under-rate a refuter, because annotators pass over false equations; those of
explicit arithmetic are therefore checked again by a second evaluator.

Mr-Ben comes in two halves by a hash of the question, one to tune on and one to test on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from scipy.stats import binomtest

from botgrpo.benchmarks import math_fuzz, scoring
from botgrpo.benchmarks.tasks.aime_work import evaluate
from botgrpo.rewards.base import Reward, Rollout, Score
from botgrpo.rewards.math.verify import verify
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError

BIG_BENCH, MR_BEN = "bbmistake_multistep_arithmetic.jsonl", "mrben_math_half.jsonl"
_STEP_NUMBER = re.compile(r"\s*Step\s*(\d+)")
_ARITHMETIC = re.compile(r"[-+*/^() 0-9]+=[-+*/^() 0-9]+")
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Labelled:
    """A solution with its first wrong step.

    Attributes:
        steps: [start, end) in code points of the text between the tags of each step.
        first_error: index of the first wrong step, None where all are right.
    """

    id: str
    prompt: str
    completion: str
    steps: tuple[tuple[int, int], ...]
    first_error: int | None


@dataclass(slots=True)
class StepReport:
    """Counts over steps up to the first wrong one of each trace.

    Attributes:
        counts: (label, value) -> steps; label "wrong" or "right", value -1, 0 or +1.
        unscored: traces that nobody could tell of, in no other count.
        refuted: (trace, index of step, label of the span, right) of every refuted step.
    """

    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    unscored: int = 0
    refuted: list[tuple[Labelled, int, str, bool]] = field(default_factory=list)

    def of(self, label: Literal["wrong", "right"], *values: int) -> int:
        """How many steps of a label got one of these values."""
        return sum(self.counts.get((label, value), 0) for value in values)

    @property
    def precision(self) -> tuple[int, int]:
        """(refuted first wrong steps, refuted steps)."""
        hits = self.of("wrong", -1)
        return hits, hits + self.of("right", -1)

    @property
    def recall(self) -> tuple[int, int]:
        """(refuted first wrong steps, first wrong steps)."""
        return self.of("wrong", -1), self.of("wrong", -1, 0, 1)

    @property
    def verified_wrong(self) -> tuple[int, int]:
        """(verified first wrong steps, verified steps): what a +1 is worth."""
        hits = self.of("wrong", 1)
        return hits, hits + self.of("right", 1)


def step_report(reward: Reward, labelled: Sequence[Labelled]) -> StepReport:
    """Score the traces and compare the spans of any step reward with the labels.

    A step has the lowest value of the spans that share a code point with it, 0 without any; only
    its sign counts. A trace whose local signal is unknown is counted apart.
    """
    rollouts = [Rollout(one.id, one.id, one.prompt, one.completion) for one in labelled]
    (scores,) = scoring.score(reward, rollouts)
    report = StepReport()
    for one, score in zip(labelled, scores, strict=True):
        if not score.local_scored:
            report.unscored += 1
            continue
        last = len(one.steps) - 1 if one.first_error is None else one.first_error
        for index in range(last + 1):
            value, said = _value(score, one.steps[index])
            wrong = index == one.first_error
            key = ("wrong" if wrong else "right", value)
            report.counts[key] = report.counts.get(key, 0) + 1
            if value < 0:
                report.refuted.append((one, index, said, wrong))
    return report


def _value(score: Score, step: tuple[int, int]) -> tuple[int, str]:
    """(sign of the step's lowest span, its label)."""
    touching = [s for s in score.spans if s.start < step[1] and s.end > step[0]]
    if not touching:
        return 0, ""
    lowest = min(touching, key=lambda span: span.value)
    return (lowest.value > 0) - (lowest.value < 0), lowest.label


def labelled_trace(id: str, prompt: str, steps: Sequence[str], first_error: int | None) -> Labelled:
    """A trace from the texts of its steps, each put into a `<step i>` tag."""
    text, places = "", []
    for number, step in enumerate(steps, 1):
        text += f"<step {number}>"
        places.append((len(text), len(text) + len(step)))
        text += f"{step}</step {number}>\n"
    return Labelled(id, prompt, text, tuple(places), first_error)


def big_bench_mistake(path: Path) -> list[Labelled]:
    """BIG-Bench-Mistake, multistep arithmetic: a record with steps and `mistake_index`."""
    return [
        labelled_trace(f"{path.stem}/{i}", row["input"], row["steps"], row["mistake_index"])
        for i, row in enumerate(_rows(path))
    ]


def mr_ben(path: Path, part: Literal["tune", "test"]) -> list[Labelled]:
    """Half of Mr-Ben mathematics: lines grouped into numbered steps, a question in one half.

    The few records whose label names no step of theirs are left out.
    """
    found = []
    for i, row in enumerate(_rows(path)):
        steps, numbers = _numbered(row["steps"])
        error = row["first_error_step"]
        wrong = None if error == "N/A" else int(error)
        if mr_ben_part(row["id"]) == part and (wrong is None or wrong in numbers):
            first = None if wrong is None else numbers.index(wrong)
            found.append(labelled_trace(f"{path.stem}/{i}", row["question"], steps, first))
    return found


def mr_ben_part(question_id: str) -> Literal["tune", "test"]:
    """The half that a question belongs to, by a hash of its id."""
    return "test" if hashlib.sha256(question_id.encode()).digest()[0] % 2 else "tune"


def _numbered(lines: Sequence[str]) -> tuple[list[str], list[int]]:
    """Lines joined to the numbered step that they belong to, and the numbers."""
    steps: list[str] = []
    numbers: list[int] = []
    for line in lines:
        match = _STEP_NUMBER.match(line)
        if match or not steps:
            steps.append(line)
            numbers.append(int(match[1]) if match else 0)
        else:
            steps[-1] += f"\n{line}"
    return steps, numbers


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror}; --traces names its folder"
        raise ConfigError(problem) from error


def confirmed_false(report: StepReport) -> tuple[int, int]:
    """(refuted equations that a second evaluator finds false, those that it can read).

    Only equations of whole numbers with + - * / ^ and brackets; it shares no code with ours.
    """
    agreed = read = 0
    for one, index, _, _ in report.refuted:
        start, end = one.steps[index]
        for verdict in verify(one.completion[start:end]):
            claim = verdict.decisive
            said = one.completion[start:end][claim.start : claim.end] if claim else ""
            if claim is not None and claim.value < 0 and _ARITHMETIC.fullmatch(said):
                values = [_second_value(side) for side in said.split("=")]
                if None not in values:
                    read += 1
                    agreed += values[0] != values[1]
    return agreed, read


def _second_value(side: str) -> Fraction | None:
    """The value by the evaluator that `aime_micro` is made with, None where it reads no formula."""
    try:
        return evaluate(side.strip())
    except (ValueError, SyntaxError, ArithmeticError, KeyError):
        return None


def share(k: int, n: int) -> str:
    """k of n with Wilson's bounds at 95%."""
    if n == 0:
        return "none"
    bounds = binomtest(k, n).proportion_ci(method="wilson")
    return f"{k / n:.3f} [{bounds.low:.3f}, {bounds.high:.3f}] ({k} of {n})"


def text(name: str, report: StepReport) -> str:
    """The report in lines."""
    right, wrong = report.of("right", -1, 0, 1), report.of("wrong", -1, 0, 1)
    lines = [
        f"{name}: {right} right steps, {wrong} first wrong steps",
        f"  precision of -1     {share(*report.precision)}",
        f"  first-error recall  {share(*report.recall)}",
        f"  right steps refuted {share(report.of('right', -1), right)}",
        f"  wrong among +1      {share(*report.verified_wrong)}",
        f"  wrong among all     {share(wrong, right + wrong)}",
    ]
    if report.unscored:
        lines.append(f"  unscored            {report.unscored} traces")
    return "\n".join(lines)


def speed(labelled: Sequence[Labelled]) -> str:
    """Steps a second on one core (best of three, processor time), and the slowest step alone."""
    verify("<step 1>91 is prime, and $\\sqrt{2} \\approx 1.414$.</step 1>")  # imports come first
    steps = sum(len(one.steps) for one in labelled)
    rates = []
    for _ in range(_REPEATS):
        began = time.process_time()
        for one in labelled:
            verify(one.completion)
        rates.append(steps / (time.process_time() - began))
    slowest, operations = 0.0, 0
    for one in labelled:
        for start, end in one.steps:
            began = time.process_time()
            verdicts = verify(one.completion[start:end])
            slowest = max(slowest, time.process_time() - began)
            operations = max([operations, *(v.operations for v in verdicts)])
    return (
        f"  speed               {max(rates):,.0f} steps/s on one core; slowest step "
        f"{1000 * slowest:.1f} ms, most work {operations} operations"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.math_steps")
    parser.add_argument("--traces", type=Path, metavar="DIR", help=f"holds {BIG_BENCH}, {MR_BEN}")
    parser.add_argument("--reward", default="math.steps_sympy", metavar="NAME")
    parser.add_argument("--refuted", action="store_true", help="print every refuted step")
    parser.add_argument(
        "--mutants", type=int, default=0, metavar="N", help="single errors of each kind to find"
    )
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="hostile inputs to try")
    arguments = parser.parse_args(argv)
    if arguments.traces is None and not arguments.mutants and not arguments.fuzz:
        parser.error("got none of --traces DIR, --mutants N and --fuzz N; give at least one")
    if arguments.traces is not None:
        sets = {
            "BIG-Bench-Mistake arithmetic": big_bench_mistake(arguments.traces / BIG_BENCH),
            "Mr-Ben, half to tune on": mr_ben(arguments.traces / MR_BEN, "tune"),
            "Mr-Ben, half to test on": mr_ben(arguments.traces / MR_BEN, "test"),
        }
        for name, labelled in sets.items():
            report = step_report(build(arguments.reward), labelled)
            print(text(f"{arguments.reward} on {name}", report))
            if arguments.reward.startswith("math.steps_sympy"):
                print(f"  second evaluator    {share(*confirmed_false(report))} are false")
                print(speed(labelled))
            for one, index, said, right in report.refuted if arguments.refuted else ():
                print(f"    {'+' if right else '-'} {one.id} step {index + 1}: {said}")
    if arguments.mutants:
        from botgrpo.benchmarks.math_mutants import measured  # which counts as this module does

        print(measured(arguments.reward, arguments.mutants))
    if arguments.fuzz:
        print(math_fuzz.text(math_fuzz.fuzz(arguments.fuzz)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
