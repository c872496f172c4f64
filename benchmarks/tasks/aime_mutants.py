"""An audited key: worked solutions with exactly one false claim, whose place and kind are known.

A mutant goes on from its false claim as a student would, so every other claim in it is true of what
stands before it: a checker that blames another place is wrong. A listing that lacks a case is false
of its problem, though no equation in it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from botgrpo.benchmarks.tasks.aime_micro import EVAL_SEED, Problem, problems
from botgrpo.benchmarks.tasks.aime_work import (
    KINDS,
    CannotGoOn,
    Claim,
    Slip,
    Solution,
    Statement,
    slip,
)

POOL = 300  # problems that mutants are made of
TRIES = 200


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solution with one error.

    Attributes:
        problem: what is solved.
        kind: one of `KINDS`.
        solution: its text and all its claims.
        claim: the false one.
    """

    problem: Problem
    kind: str
    solution: Solution
    claim: Claim


def mutants(n: int, seed: int = 0, difficulty: int = 1) -> Sequence[Mutant]:
    """n different mutants of each kind from held-out problems.

    Fewer where the problems of that difficulty do not offer n: a dropped case needs a list of
    cases. One problem may give several, at another place or with another value.
    """
    rng = random.Random(f"mutants/{seed}/{difficulty}")
    pool = list(islice(problems(EVAL_SEED, difficulty, held_out=True), POOL))
    return [made for kind in KINDS for made in _of_kind(kind, n, pool, rng)]


def _of_kind(kind: str, n: int, pool: Sequence[Problem], rng: random.Random) -> Iterable[Mutant]:
    found: dict[tuple[str, str], Mutant] = {}
    for _ in range(TRIES * n):
        if len(found) == n:
            break
        made = mutant(rng.choice(pool), kind, rng)
        if made:
            found.setdefault((made.problem.key, made.solution.text), made)
    return found.values()


def mutant(problem: Problem, kind: str, rng: random.Random) -> Mutant | None:
    """One claim of a solution made false; None where no claim offers such an error."""
    clean = problem.solve().claims
    for place in rng.sample(range(len(clean)), len(clean)):
        false = slip(clean[place].statement, kind, rng)
        if false is None:
            continue
        try:
            solution = problem.solve(_slip_at(place, kind, false))
        except CannotGoOn:
            continue
        (claim,) = (c for c in solution.claims if not c.statement.holds)
        assert claim.error == kind and claim.statement == false
        return Mutant(problem, kind, solution, claim)
    return None


def _slip_at(place: int, kind: str, false: Statement) -> Slip:
    planned = iter([*[None] * place, (kind, false)])
    return lambda _: next(planned, None)
