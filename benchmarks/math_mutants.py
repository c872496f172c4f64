"""How a step reward does on the audited key: `python -m botgrpo.benchmarks.math_mutants`.

Every mutant has exactly one false claim, at a known place. *Recall*: mutants in which a negative
span touches the step of the false claim. *Precision*: of all steps that the reward blames, on
mutants and on clean solutions, those that hold a false claim. Bounds are Wilson's at 95%, over
solutions, drawn from one generator: they say nothing of other texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from botgrpo.benchmarks import scoring
from botgrpo.benchmarks.math_steps import share
from botgrpo.benchmarks.tasks.aime_micro import EVAL_SEED, problems
from botgrpo.benchmarks.tasks.aime_mutants import Mutant, mutants
from botgrpo.benchmarks.tasks.aime_work import KINDS, Solution
from botgrpo.rewards.base import Reward, Rollout, Score
from botgrpo.rewards.registry import build


@dataclass(slots=True)
class Count:
    """Mutants of one kind, or all clean solutions.

    Attributes:
        solutions: how many were scored; `unscored`: how many nobody could tell of.
        caught: those whose false claim lies in a blamed step.
        blamed: steps with a negative span, right or wrong.
        wrong: blamed steps that hold no false claim.
    """

    solutions: int = 0
    unscored: int = 0
    caught: int = 0
    blamed: int = 0
    wrong: int = 0

    def add(self, score: Score, solution: Solution, false_step: int | None) -> None:
        if not score.local_scored:
            self.unscored += 1
            return
        steps = blamed_steps(score, solution)
        self.solutions += 1
        self.caught += false_step in steps
        self.blamed += len(steps)
        self.wrong += len(steps - {false_step})


@dataclass(slots=True)
class Report:
    """Counts by kind of error, and of solutions without one."""

    kinds: dict[str, Count] = field(default_factory=lambda: {kind: Count() for kind in KINDS})
    clean: Count = field(default_factory=Count)

    @property
    def recall(self) -> tuple[int, int]:
        """(mutants caught, mutants scored)."""
        counts = self.kinds.values()
        return sum(c.caught for c in counts), sum(c.solutions for c in counts)

    @property
    def precision(self) -> tuple[int, int]:
        """(blamed steps that hold a false claim, blamed steps), clean solutions included."""
        counts = (*self.kinds.values(), self.clean)
        blamed = sum(c.blamed for c in counts)
        return blamed - sum(c.wrong for c in counts), blamed


def mutant_report(
    reward: Reward, wrong: Sequence[Mutant], clean: Sequence[tuple[str, Solution]]
) -> Report:
    """Score every mutant and every clean (prompt, solution) at once."""
    texts = [(m.problem.prompt, m.solution) for m in wrong] + list(clean)
    rollouts = [
        Rollout(
            f"key/{i}", f"key/{i}", prompt, solution.text, {"accepted": [solution.answer % 1000]}
        )
        for i, (prompt, solution) in enumerate(texts)
    ]
    (scores,) = scoring.score(reward, rollouts)
    report = Report()
    for mutant, score in zip(wrong, scores, strict=False):
        report.kinds[mutant.kind].add(score, mutant.solution, mutant.claim.step)
    for (_, solution), score in zip(clean, scores[len(wrong) :], strict=True):
        report.clean.add(score, solution, None)
    return report


def blamed_steps(score: Score, solution: Solution) -> set[int]:
    """Indices of the steps that a negative span touches."""
    return {
        i
        for i, (start, end) in enumerate(solution.steps)
        for span in score.spans
        if span.value < 0 and span.start < end and span.end > start
    }


def clean_solutions(n: int, difficulty: int) -> list[tuple[str, Solution]]:
    """Prompts and solutions of the first n held-out problems."""
    stream = problems(EVAL_SEED, difficulty, held_out=True)
    return [(problem.prompt, problem.solve()) for problem in islice(stream, n)]


def text(report: Report) -> str:
    """The report as a table, with counts and Wilson's bounds."""
    lines = [
        f"  {kind:14} recall {share(c.caught, c.solutions)}, {c.wrong} other steps blamed"
        for kind, c in report.kinds.items()
    ]
    clean = report.clean
    lines += [
        f"  {'all kinds':14} recall {share(*report.recall)}",
        f"  precision of -1       {share(*report.precision)}",
        f"  clean                 {clean.blamed} steps of {clean.solutions} solutions blamed",
    ]
    missing = clean.unscored + sum(c.unscored for c in report.kinds.values())
    return "\n".join([*lines, *([f"  unscored              {missing}"] if missing else [])])


def measured(name: str, n: int, *, difficulty: int = 1, seed: int = 0) -> str:
    """What the reward `name` makes of n mutants of each kind and of n clean solutions."""
    wrong = mutants(n, seed, difficulty)
    clean = clean_solutions(n, difficulty)
    head = (
        f"{name} on {len(wrong)} mutants and {len(clean)} clean solutions of "
        f"aime_micro(difficulty={difficulty}), seed {seed}"
    )
    return f"{head}\n{text(mutant_report(build(name), wrong, clean))}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.math_mutants")
    parser.add_argument("--reward", default="math.steps_sympy", metavar="NAME")
    parser.add_argument("--mutants", type=int, default=100, metavar="N", help="of each kind")
    parser.add_argument("--difficulty", type=int, default=1, metavar="D", help="1 to 5")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    print(
        measured(
            arguments.reward,
            arguments.mutants,
            difficulty=arguments.difficulty,
            seed=arguments.seed,
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
