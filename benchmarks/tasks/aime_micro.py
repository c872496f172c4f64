"""The task `aime_micro`: our own problems with whole answers from 0 to 999, made offline.

Nothing here was ever published, so no model can have seen it. A fixed hash of a problem's family
and numbers decides whether it is held out, so that training and evaluation cannot meet whatever
seeds and levels are used.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from botgrpo.benchmarks.tasks.aime_families import FAMILIES, LEVELS, Numbers
from botgrpo.benchmarks.tasks.aime_work import (
    CannotGoOn,
    Listing,
    Slip,
    Solution,
    Statement,
    Work,
    slip,
)
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.task import Item

TRAIN_PROMPTS = 768
EVAL_SEED = 1_000_003
HELD_OUT_ONE_IN = 4
LARGEST = 999
MOST_REPEATS = 5000
CLAIMS_A_DRILL = 3
CORRUPTION_RATE = 0.1
# Errors of the corpus change what follows; a swapped sign or a wrong modulus in the text does not.
CORPUS_KINDS = ("digit", "off_by_one", "dropped_case")


@dataclass(frozen=True, slots=True)
class Problem:
    """A family with its numbers."""

    family: str
    numbers: Numbers

    @property
    def key(self) -> str:
        """The same text for the same problem in every process and version."""
        return f"{self.family}|{','.join(map(str, self.numbers))}"

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.key.encode()).digest()

    @property
    def held_out(self) -> bool:
        """Whether the problem belongs to evaluation (one in `HELD_OUT_ONE_IN`)."""
        return int.from_bytes(self.digest[:4], "big") % HELD_OUT_ONE_IN == 0

    @property
    def prompt(self) -> str:
        return FAMILIES[self.family].ask(self.numbers)

    def solve(self, slip: Slip | None = None) -> Solution:
        """The worked solution, with the slips that `slip` makes. Raises `CannotGoOn` after some."""
        return FAMILIES[self.family].solve(self.numbers, Work(slip))

    @property
    def item(self) -> Item:
        reference = {"accepted": [self.solve().answer]}
        return Item(f"aime_micro-{self.digest.hex()[:12]}", self.prompt, reference)


class AimeMicroTask:
    """Problems of one level of difficulty, 1 to 5; a larger number has larger numbers in it."""

    name = "aime_micro"
    judge = "math.answer"
    metrics = ("correct", "answered")

    def __init__(self, difficulty: int = 1) -> None:
        if difficulty not in LEVELS:
            raise ConfigError(f"aime_micro: difficulty = {difficulty!r}; allowed: 1 to 5")
        self.difficulty = difficulty

    def train_items(self, seed: int) -> Sequence[Item]:
        """`TRAIN_PROMPTS` different prompts in the order of this seed."""
        stream = problems(seed, self.difficulty, held_out=False)
        return [problem.item for problem in islice(stream, TRAIN_PROMPTS)]

    def eval_items(self, n: int) -> Sequence[Item]:
        """The first n held-out prompts, the same ones in every call."""
        stream = problems(EVAL_SEED, self.difficulty, held_out=True)
        return [problem.item for problem in islice(stream, n)]

    def corpus(
        self, n: int, seed: int, corruption_rate: float = CORRUPTION_RATE
    ) -> Sequence[tuple[Item, str]]:
        """n pairs for a warm start; each claim of a solution is a slip with `corruption_rate`."""
        rng = random.Random(f"corpus/{seed}")
        pairs = []
        for _ in range(n):
            problem = draw_problem(rng, self.difficulty, held_out=False)
            pairs.append((problem.item, corrupted(problem, corruption_rate, rng).text))
        return pairs

    def drills(self, n: int, seed: int) -> Sequence[tuple[str, str]]:
        """n pairs of some calculations and the same worked out, from training problems.

        Text to learn copying and arithmetic on: of a whole solution most is words and tags.
        """
        rng = random.Random(f"drills/{seed}")
        pairs = []
        for _ in range(n):
            claims = [self._claim(rng) for _ in range(CLAIMS_A_DRILL)]
            asked = ", ".join(question for question, _ in claims)
            pairs.append((asked, ", ".join(worked for _, worked in claims)))
        return pairs

    def _claim(self, rng: random.Random) -> tuple[str, str]:
        """The left side of a claim as a question, and the whole claim."""
        while True:
            problem = draw_problem(rng, self.difficulty, held_out=False)
            claims = [claim.statement for claim in problem.solve().claims]
            found = [c for c in claims if not isinstance(c, Listing)]
            if found:
                claim = rng.choice(found)
                return claim.question, claim.text


def draw_problem(rng: random.Random, level: int, *, held_out: bool) -> Problem:
    """A random problem from the wished side of the split, with an answer from 0 to 999."""
    while True:
        family = rng.choice(tuple(FAMILIES))
        problem = Problem(family, FAMILIES[family].draw(rng, level))
        if problem.held_out == held_out and 0 <= problem.solve().answer <= LARGEST:
            return problem


def problems(seed: int, level: int, *, held_out: bool) -> Iterator[Problem]:
    """A stream of different problems; its first n are the same for every n.

    Raises ConfigError where hardly a new one is left (the small numbers of level 1 make some
    1,700 problems, a quarter of them held out).
    """
    rng = random.Random(f"problems/{seed}/{level}/{held_out}")
    seen: set[str] = set()
    again = 0
    while again < MOST_REPEATS:
        problem = draw_problem(rng, level, held_out=held_out)
        again = again + 1 if problem.key in seen else 0
        if not again:
            seen.add(problem.key)
            yield problem
    raise ConfigError(
        f"aime_micro has about {len(seen)} {'held-out' if held_out else 'training'} problems of "
        f"difficulty {level}; ask for fewer, or raise the difficulty"
    )


def corrupted(problem: Problem, rate: float, rng: random.Random) -> Solution:
    """A solution in which each claim is a slip with probability `rate`, and so is what follows."""

    def slips(statement: Statement) -> tuple[str, Statement] | None:
        if rng.random() >= rate:
            return None
        kind = rng.choice(CORPUS_KINDS)
        false = slip(statement, kind, rng)
        return (kind, false) if false else None

    while True:
        try:
            return problem.solve(slips)
        except CannotGoOn:
            continue
