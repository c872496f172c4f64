"""Families of competition-style problems with whole answers, each with its worked solution.

A family draws its numbers at a level from 1 (numbers for a policy of half a million parameters) to
5, asks a question about them, and solves it claim by claim. Numbers are drawn in one canonical
order, so that no problem hides under two keys. The five areas: number theory, counting, algebra,
sequences, modular arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from botgrpo.benchmarks.tasks.aime_work import Solution, Work

Numbers = tuple[int, ...]
LEVELS = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of problem.

    Attributes:
        area: one of the five.
        draw: numbers of a problem at a level; whether its answer fits is checked by who draws.
        ask: the question.
        solve: writes the solution.
    """

    area: str
    draw: Callable[[Random, int], Numbers]
    ask: Callable[[Numbers], str]
    solve: Callable[[Numbers, Work], Solution]


# ---- modular arithmetic


def _draw_power(rng: Random, level: int) -> Numbers:
    modulus = rng.randint(5, (9, 16, 25, 60, 100)[level - 1])
    base = rng.randint(2, modulus - 1 if level > 1 else min(9, modulus - 1))
    return base, rng.randint(3, (8, 12, 30, 60, 200)[level - 1]), modulus


def _ask_power(numbers: Numbers) -> str:
    base, exponent, modulus = numbers
    return f"Find the remainder when {base}^{exponent} is divided by {modulus}."


def _solve_power(numbers: Numbers, work: Work) -> Solution:
    """Square and multiply, from the leading bit of the exponent."""
    base, exponent, modulus = numbers
    rest, reached = base, 1
    for bit in f"{exponent:b}"[1:]:
        reached *= 2
        work.step(f"Power {reached}:")
        rest = work.mod(work.equal(f"{rest}*{rest}"), modulus)
        if bit == "1":
            reached += 1
            work.step(f"Power {reached}:")
            rest = work.mod(work.equal(f"{rest}*{base}"), modulus)
    return work.done(rest)


def _draw_remainders(rng: Random, level: int) -> Numbers:
    top = (7, 8, 9, 11, 13)[level - 1]
    while True:
        small, large = sorted((rng.randint(3, top), rng.randint(3, top + 2)))
        rest, other = rng.randrange(1, small), rng.randrange(1, large)
        if math.gcd(small, large) == 1 and other % small != rest:
            return small, rest, large, other


def _ask_remainders(numbers: Numbers) -> str:
    small, rest, large, other = numbers
    return (
        f"Find the least positive n that leaves remainder {rest} when divided by {small} and "
        f"{other} when divided by {large}."
    )


def _solve_remainders(numbers: Numbers, work: Work) -> Solution:
    small, rest, large, other = numbers
    n = other
    work.step(f"Try {n}:")
    left = work.mod(n, small)
    for _ in range(2 * small):
        if left == rest:
            return work.done(n)
        work.step("Next:")
        n = work.equal(f"{n}+{large}")
        left = work.mod(n, small)
    return work.done(n)


def _draw_squares(rng: Random, level: int) -> Numbers:
    modulus = rng.randint(5, (9, 12, 16, 20, 25)[level - 1])
    root = rng.randrange(1, modulus)
    below = rng.randint(modulus + 1, modulus * (2, 2, 3, 3, 4)[level - 1])
    return root * root % modulus, modulus, below


def _ask_squares(numbers: Numbers) -> str:
    rest, modulus, below = numbers
    return (
        f"Find the sum of all positive n below {below} for which n^2 leaves remainder {rest} "
        f"when divided by {modulus}."
    )


def _solve_squares(numbers: Numbers, work: Work) -> Solution:
    rest, modulus, below = numbers
    roots = [n for n in range(modulus) if n * n % modulus == rest]
    for root in roots:
        work.step("Square:")
        work.mod(work.equal(f"{root}*{root}"), modulus)
    work.step("All n:")
    found = work.all_of(tuple(n for n in range(1, below) if n % modulus in roots))
    if len(found) == 1:
        return work.done(found[0])
    work.step("Sum:")
    return work.done(work.equal("+".join(map(str, found))))


# ---- number theory


def _draw_divisors(rng: Random, level: int) -> Numbers:
    """Exponents of 2, 3, 5, 7; at least two of them are not 0."""
    while True:
        powers = tuple(
            rng.randint(0, top)
            for top in ((5, 3, 1, 1), (5, 3, 2, 1), (6, 3, 2, 2), (7, 4, 2, 2), (9, 5, 3, 2))[
                level - 1
            ]
        )
        n = math.prod(p**e for p, e in zip(PRIMES, powers, strict=True))
        if sum(e > 0 for e in powers) > 1 and n <= (120, 600, 2000, 5000, 20000)[level - 1]:
            return powers


PRIMES = (2, 3, 5, 7)


def _ask_divisors(numbers: Numbers) -> str:
    n = math.prod(p**e for p, e in zip(PRIMES, numbers, strict=True))
    return f"How many positive divisors does {n} have?"


def _solve_divisors(numbers: Numbers, work: Work) -> Solution:
    factors = [(p, e) for p, e in zip(PRIMES, numbers, strict=True) if e]
    work.step("Factor:")
    work.equal("*".join(f"{p}^{e}" if e > 1 else str(p) for p, e in factors))
    work.step("Choices:")
    choices = [work.equal(f"{e}+1") for _, e in factors]
    work.step("Count:")
    return work.done(work.equal("*".join(map(str, choices))))


def _draw_multiple(rng: Random, level: int) -> Numbers:
    top = (24, 60, 100, 200, 400)[level - 1]
    while True:
        small, large = sorted((rng.randint(4, top), rng.randint(4, top)))
        if 1 < math.gcd(small, large) < small:
            return small, large


def _ask_multiple(numbers: Numbers) -> str:
    return f"Find the least common multiple of {numbers[1]} and {numbers[0]}."


def _solve_multiple(numbers: Numbers, work: Work) -> Solution:
    small, large = numbers
    a, b = large, small
    while b:
        work.step("Divide:")
        a, b = b, work.equal(f"{a}-{a // b}*{b}")
    work.step(f"The gcd is {a}:")
    part = work.equal(f"{small}/{a}")
    return work.done(work.equal(f"{part}*{large}"))


# ---- counting


def _draw_committee(rng: Random, level: int) -> Numbers:
    people = rng.randint(5, (8, 10, 11, 12, 13)[level - 1])
    special = rng.randint(2, (4, 4, 4, 5, 5)[level - 1])
    return people, rng.randint(2, max(2, people - special)), special


def _ask_committee(numbers: Numbers) -> str:
    people, size, special = numbers
    return (
        f"A club of {people} people has {special} women. How many committees of {size} include at "
        "least one woman?"
    )


def _solve_committee(numbers: Numbers, work: Work) -> Solution:
    people, size, special = numbers
    work.step("All:")
    every = work.equal(f"C({people},{size})")
    work.step("No woman:")
    men = work.equal(f"{people}-{special}")
    without = work.equal(f"C({men},{size})")
    work.step("The rest:")
    return work.done(work.equal(f"{every}-{without}"))


def _draw_either(rng: Random, level: int) -> Numbers:
    top = (7, 9, 11, 13, 15)[level - 1]
    while True:
        small, large = sorted((rng.randint(2, top), rng.randint(2, top)))
        if small != large and math.gcd(small, large) == 1:
            return rng.randint(small * large, (60, 99, 300, 600, 999)[level - 1]), small, large


def _ask_either(numbers: Numbers) -> str:
    top, small, large = numbers
    return f"How many integers from 1 to {top} are divisible by {small} or {large}?"


def _solve_either(numbers: Numbers, work: Work) -> Solution:
    top, small, large = numbers
    counts = []
    for divisor in (small, large, small * large):
        work.step(f"By {divisor}:")
        whole = work.equal(f"{top}-{top % divisor}")
        counts.append(work.equal(f"{whole}/{divisor}"))
    work.step("Count:")
    return work.done(work.equal(f"{counts[0]}+{counts[1]}-{counts[2]}"))


# ---- algebra


def _draw_power_sum(rng: Random, level: int) -> Numbers:
    total = rng.randint(3, (11, 20, 12, 15, 18)[level - 1])
    return total, rng.randint(1, max(1, total * total // 4)), 2 if level < 3 else 3


def _ask_power_sum(numbers: Numbers) -> str:
    total, product, power = numbers
    return f"Let x+y={total} and xy={product}. Find x^{power}+y^{power}."


def _solve_power_sum(numbers: Numbers, work: Work) -> Solution:
    total, product, power = numbers
    work.step("Power of the sum:")
    whole = work.equal(f"{total}^{power}")
    work.step("Mixed terms:")
    mixed = work.equal(f"2*{product}" if power == 2 else f"3*{product}*{total}")
    work.step("The rest:")
    return work.done(work.equal(f"{whole}-{mixed}"))


def _draw_roots(rng: Random, level: int) -> Numbers:
    top = (11, 18, 20, 25, 31)[level - 1]
    small, large = sorted(rng.sample(range(1, top + 1), 2))
    return small, large


def _ask_roots(numbers: Numbers) -> str:
    small, large = numbers
    return (
        f"The roots of x^2-{small + large}x+{small * large}=0 are p and q with p<q. Find q^2-p^2."
    )


def _solve_roots(numbers: Numbers, work: Work) -> Solution:
    small, large = numbers
    work.step(f"Roots {small} and {large}:")
    work.equal(f"{small}+{large}")
    work.equal(f"{small}*{large}")
    work.step("Squares:")
    squares = work.equal(f"{large}^2"), work.equal(f"{small}^2")
    work.step("The rest:")
    return work.done(work.equal(f"{squares[0]}-{squares[1]}"))


def _draw_pair(rng: Random, level: int) -> Numbers:
    top = (12, 20, 25, 28, 31)[level - 1]
    small, large = sorted(rng.sample(range(1, top + 1), 2))
    return small + large, large - small


def _ask_pair(numbers: Numbers) -> str:
    return f"Let x+y={numbers[0]} and x-y={numbers[1]}. Find xy."


def _solve_pair(numbers: Numbers, work: Work) -> Solution:
    total, difference = numbers
    work.step("Twice x:")
    double = work.equal(f"{total}+{difference}")
    x = work.equal(f"{double}/2")
    work.step("Now y:")
    y = work.equal(f"{total}-{x}")
    work.step("Product:")
    return work.done(work.equal(f"{x}*{y}"))


# ---- sequences


def _draw_series(rng: Random, level: int) -> Numbers:
    top = (8, 15, 25, 40, 60)[level - 1]
    return (
        rng.randint(1, top),
        rng.randint(1, (4, 8, 12, 15, 20)[level - 1]),
        rng.randint(4, (7, 10, 14, 18, 25)[level - 1]),
    )


def _ask_series(numbers: Numbers) -> str:
    first, difference, terms = numbers
    return (
        f"An arithmetic sequence begins with {first} and has difference {difference}. "
        f"Find the sum of its first {terms} terms."
    )


def _solve_series(numbers: Numbers, work: Work) -> Solution:
    first, difference, terms = numbers
    work.step("Last term:")
    steps = work.equal(f"{terms}-1")
    last = work.equal(f"{first}+{steps}*{difference}")
    work.step("Ends:")
    ends = work.equal(f"{first}+{last}")
    work.step("Sum:")
    return work.done(work.equal(f"{ends}*{terms}/2"))


def _draw_recurrence(rng: Random, level: int) -> Numbers:
    start = (5, 9, 9, 12, 15)[level - 1]
    factor = (2, 2, 3, 3, 4)[level - 1]
    return (
        rng.randint(1, start),
        rng.randint(1, start),
        rng.randint(1, factor),
        rng.randint(1, factor),
        rng.randint(5, (5, 7, 7, 8, 9)[level - 1]),
    )


def _ask_recurrence(numbers: Numbers) -> str:
    first, second, p, q, n = numbers
    return (
        f"A sequence begins with {first}, {second}. Each later term is {p} times the term before "
        f"it plus {q} times the one before that. Find term {n}."
    )


def _solve_recurrence(numbers: Numbers, work: Work) -> Solution:
    before, last, p, q, n = numbers
    for i in range(3, n + 1):
        work.step(f"Term {i}:")
        before, last = last, work.equal(f"{p}*{last}+{q}*{before}")
    return work.done(last)


FAMILIES: dict[str, Family] = {
    "power": Family("modular arithmetic", _draw_power, _ask_power, _solve_power),
    "remainders": Family(
        "modular arithmetic", _draw_remainders, _ask_remainders, _solve_remainders
    ),
    "squares": Family("modular arithmetic", _draw_squares, _ask_squares, _solve_squares),
    "divisors": Family("number theory", _draw_divisors, _ask_divisors, _solve_divisors),
    "multiple": Family("number theory", _draw_multiple, _ask_multiple, _solve_multiple),
    "committee": Family("counting", _draw_committee, _ask_committee, _solve_committee),
    "either": Family("counting", _draw_either, _ask_either, _solve_either),
    "power_sum": Family("algebra", _draw_power_sum, _ask_power_sum, _solve_power_sum),
    "roots": Family("algebra", _draw_roots, _ask_roots, _solve_roots),
    "pair": Family("algebra", _draw_pair, _ask_pair, _solve_pair),
    "series": Family("sequences", _draw_series, _ask_series, _solve_series),
    "recurrence": Family("sequences", _draw_recurrence, _ask_recurrence, _solve_recurrence),
}
