"""Problems of our own: every answer found again by another way, every claim of a solution true."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import combinations, islice
from random import Random

import pytest

from botgrpo.benchmarks.tasks.aime_families import FAMILIES, LEVELS
from botgrpo.benchmarks.tasks.aime_micro import (
    EVAL_SEED,
    AimeMicroTask,
    Problem,
    corrupted,
    draw_problem,
    problems,
)
from botgrpo.benchmarks.tasks.aime_work import Work, evaluate
from botgrpo.sandbox.errors import ConfigError

TASK = AimeMicroTask()


# ---- each answer by brute force, from the words of the prompt alone


def power(base: int, exponent: int, modulus: int) -> int:
    product = 1
    for _ in range(exponent):
        product *= base
    return product - modulus * (product // modulus)


def remainders(rest: int, small: int, other: int, large: int) -> int:
    return next(n for n in range(1, 10_000) if n % small == rest and n % large == other)


def squares(below: int, _two: int, rest: int, modulus: int) -> int:
    return sum(n for n in range(1, below) if (n * n - rest) % modulus == 0)


def divisors(n: int) -> int:
    return sum(n % d == 0 for d in range(1, n + 1))


def multiple(a: int, b: int) -> int:
    return next(n for n in range(1, a * b + 1) if n % a == 0 and n % b == 0)


def committee(people: int, women: int, size: int) -> int:
    chosen = combinations(range(people), size)
    return sum(any(person < women for person in each) for each in chosen)


def either(_one: int, top: int, a: int, b: int) -> int:
    return len({*range(a, top + 1, a), *range(b, top + 1, b)})


def power_sum(total: int, product: int, exponent: int, _again: int) -> int:
    """The sequence x^k + y^k, from x^(k+1) + y^(k+1) = (x+y)(x^k+y^k) - xy(x^(k-1)+y^(k-1))."""
    sums = [2, total]
    while len(sums) <= exponent:
        sums.append(total * sums[-1] - product * sums[-2])
    return sums[exponent]


def roots(_two: int, b: int, c: int, *_: int) -> int:
    p, q = (x for x in range(1, c + 1) if x * x - b * x + c == 0)
    return q**2 - p**2


def pair(total: int, difference: int) -> int:
    (found,) = [x * (total - x) for x in range(total) if x - (total - x) == difference]
    return found


def series(first: int, difference: int, terms: int) -> int:
    added, term = 0, first
    for _ in range(terms):
        added, term = added + term, term + difference
    return added


def recurrence(first: int, second: int, p: int, q: int, n: int) -> int:
    def term(i: int) -> int:
        return (first, second)[i - 1] if i < 3 else p * term(i - 1) + q * term(i - 2)

    return term(n)


BY_FORCE = {
    name: globals()[name]
    for name in (
        *("power", "remainders", "squares", "divisors", "multiple", "committee"),
        *("either", "power_sum", "roots", "pair", "series", "recurrence"),
    )
}


def drawn(family: str, level: int, n: int) -> list[Problem]:
    rng = Random(f"{family}/{level}")
    found = (Problem(family, FAMILIES[family].draw(rng, level)) for _ in range(50 * n))
    return list(islice((p for p in found if 0 <= p.solve().answer <= 999), n))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_answer_is_found_again_by_brute_force_from_the_prompt(family: str) -> None:
    for level in LEVELS:
        for problem in drawn(family, level, 60):
            numbers = map(int, re.findall(r"\d+", problem.prompt))
            assert BY_FORCE[family](*numbers) == problem.solve().answer, problem.prompt


def test_brute_force_knows_every_family_and_there_are_five_areas() -> None:
    assert set(BY_FORCE) == set(FAMILIES)
    assert len({family.area for family in FAMILIES.values()}) == 5


@pytest.mark.parametrize("family", FAMILIES)
def test_every_claim_of_a_solution_is_true_and_stands_where_it_says(family: str) -> None:
    for level in LEVELS:
        for problem in drawn(family, level, 40):
            solution = problem.solve()
            for claim in solution.claims:
                assert claim.statement.holds and not claim.error
                assert solution.text[claim.start : claim.end] == claim.statement.text
                start, end = solution.steps[claim.step]
                assert start < claim.start and claim.end <= end
            assert solution.claims or family == "remainders"


@pytest.mark.parametrize("family", FAMILIES)
def test_solutions_wear_the_tags_of_the_paper(family: str) -> None:
    for problem in drawn(family, 2, 40):
        solution = problem.solve()
        pieces = [
            f"<step {i}>{solution.text[a:b]}</step {i}>\n"
            for i, (a, b) in enumerate(solution.steps, start=1)
        ]
        assert solution.text == "".join(pieces) + f"<final>{solution.answer}</final>"


def test_no_held_out_problem_is_ever_trained_on() -> None:
    levels = [AimeMicroTask(level) for level in (1, 2, 5)]
    held_out = {item.prompt for task in levels for item in task.eval_items(300)}
    trained = {item.prompt for task in levels for item in task.train_items(0)}
    warm = {item.prompt for seed in range(2) for item, _ in TASK.corpus(1000, seed)}
    assert len(held_out) > 700  # levels may share a problem
    assert not held_out & (trained | warm)


def test_one_problem_has_one_prompt() -> None:
    """Two keys with one prompt could lie on both sides of the split."""
    keys: dict[str, set[str]] = {}
    for level in LEVELS:
        for problem in islice(problems(0, level, held_out=False), 600):
            keys.setdefault(problem.prompt, set()).add(problem.key)
    assert max(map(len, keys.values())) == 1


def test_both_sides_of_the_split_hold_every_family() -> None:
    for held_out in (True, False):
        some = list(islice(problems(0, 1, held_out=held_out), 300))
        assert {problem.family for problem in some} == set(FAMILIES)


def test_task_is_deterministic_and_its_seeds_differ() -> None:
    again = AimeMicroTask()
    assert TASK.train_items(3) == again.train_items(3)
    assert TASK.train_items(3) != TASK.train_items(4)
    assert TASK.corpus(50, 3) == again.corpus(50, 3)
    assert TASK.corpus(50, 3) != TASK.corpus(50, 4)
    assert TASK.eval_items(20) == again.eval_items(60)[:20]
    assert len({item.id for item in TASK.train_items(0)}) == len(TASK.train_items(0))


def test_a_higher_difficulty_has_larger_numbers_and_longer_solutions() -> None:
    means = []
    for level in LEVELS:
        some = list(islice(problems(EVAL_SEED, level, held_out=True), 300))
        means.append(sum(len(p.solve().text) for p in some) / len(some))
    assert means == sorted(means)
    assert means[-1] > 1.2 * means[0]


def test_what_the_task_cannot_give_is_refused_with_what_it_can() -> None:
    with pytest.raises(ConfigError, match="1 to 5"):
        AimeMicroTask(6)
    with pytest.raises(ConfigError, match=r"held-out problems of difficulty 1; .* raise"):
        TASK.eval_items(2000)


def test_corruption_rate_is_the_chance_of_each_claim_and_errors_go_on() -> None:
    rng = Random(1)
    found: Counter[str] = Counter()
    claims = right = 0
    for _ in range(1500):
        problem = draw_problem(rng, 1, held_out=False)
        solution = corrupted(problem, 0.1, rng)
        false = [claim for claim in solution.claims if claim.error]
        assert all(not claim.statement.holds for claim in false)
        claims += len(solution.claims)
        found.update(claim.error for claim in false)
        right += solution.answer == problem.solve().answer
        if not false:
            assert solution == problem.solve()
    # a slip after which nothing can follow is drawn again, and a kind may not fit: a little less
    assert 0.04 < found.total() / claims < 0.1
    assert set(found) == {"digit", "off_by_one", "dropped_case"}
    assert 0.5 < right / 1500 < 0.9
    assert corrupted(problem, 0.0, rng) == problem.solve()


def test_a_false_claim_cannot_be_made_without_saying_so() -> None:
    work = Work(lambda statement: ("", type(statement)("1+1", 3)))
    work.step("Sum:")
    with pytest.raises(AssertionError, match="1\\+1=3 is false"):
        work.equal("1+1")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("2^3*3^2", 72),
        ("C(7,3)-C(5,3)", 25),
        ("-4+1", -3),
        ("3/2", Fraction(3, 2)),
        ("C(2,5)", 0),
    ],
)
def test_expressions_have_their_exact_value(expression: str, value: Fraction) -> None:
    assert evaluate(expression) == value


def test_a_drill_holds_calculations_of_training_problems_and_works_them_out() -> None:
    pairs = TASK.drills(200, seed=0)
    assert pairs == TASK.drills(200, seed=0) != TASK.drills(200, seed=1)
    signs: Counter[str] = Counter()
    for asked, worked in pairs:
        questions, claims = asked.split(", "), worked.split(", ")
        assert len(questions) == len(claims) == 3
        for question, claim in zip(questions, claims, strict=True):
            left, _, modulus = question.partition(" mod ")
            if modulus:
                said = claim.removeprefix(f"{left}≡").removesuffix(f" (mod {modulus})")
                assert int(left) % int(modulus) == int(said)
            else:
                assert claim.startswith(f"{question}=")
                assert evaluate(question) == int(claim.removeprefix(f"{question}="))
            signs.update(re.findall(r"[-+*/^≡C]", claim))
    assert set(signs) == set("-+*/^≡C")
