"""Sums of terms: the polynomials of `algebra.py`, with their work counted."""

from __future__ import annotations

from botgrpo.rewards.math.operations import Rational, bits, exact_root, simplest
from botgrpo.rewards.math.tree import Budget, Undecided

Generator = str | int  # a variable, "pi", an opaque part "#...", or a prime; -1 stands for i
Monomial = tuple[tuple[Generator, Rational], ...]
Terms = dict[Monomial, Rational]

MAX_TERMS = 200
ONE: Monomial = ()
_SMALL_PRIMES = tuple(p for p in range(2, 1000) if all(p % q for q in range(2, int(p**0.5) + 1)))


def factors(n: int, budget: Budget) -> list[tuple[int, int]]:
    """Prime factors with their counts. Raises `Undecided` for a large part that is not prime."""
    found = []
    for p in _SMALL_PRIMES:
        if p * p > n:
            break
        count = 0
        while n % p == 0:
            n, count = n // p, count + 1
        if count:
            found.append((p, count))
    budget.spend(30)
    if n > 1:
        root = exact_root(n, 2)
        if n < _SMALL_PRIMES[-1] ** 2:
            found.append((n, 1))
        elif isinstance(root, int) and root < _SMALL_PRIMES[-1] ** 2:
            found.append((root, 2))
        else:
            raise Undecided("a root of a number with large factors")
    return found


def ordered(parts: list[tuple[Generator, Rational]]) -> Monomial:
    return tuple(sorted(parts, key=lambda part: (isinstance(part[0], int), str(part[0]))))


def _product(left: Monomial, right: Monomial) -> tuple[Monomial, Rational]:
    """Of two monomials; whole powers of primes, and i^2, move into the coefficient."""
    if not left or not right:
        return left or right, 1
    powers: dict[Generator, Rational] = dict(left)
    coefficient: Rational = 1
    for generator, exponent in right:
        total = powers.get(generator, 0) + exponent
        if isinstance(generator, int) and total >= 1:
            coefficient *= generator
            total -= 1
        powers[generator] = simplest(total)
    return ordered([(g, e) for g, e in powers.items() if e]), coefficient


def times(left: Terms, right: Terms, budget: Budget) -> Terms:
    budget.spend(3 * len(left) * len(right))
    result: Terms = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial, factor = _product(a, b)
            total = simplest(result.get(monomial, 0) + x * y * factor)
            budget.spend_bits(bits(total))
            result[monomial] = total
    return _checked(result)


def plus(left: Terms, right: Terms, budget: Budget) -> Terms:
    budget.spend(len(right))
    result = dict(left)
    for monomial, coefficient in right.items():
        total = simplest(result.get(monomial, 0) + coefficient)
        budget.spend_bits(bits(total))
        result[monomial] = total
    return _checked(result)


def _checked(terms: Terms) -> Terms:
    terms = {m: c for m, c in terms.items() if c}
    if len(terms) > MAX_TERMS:
        raise Undecided(f"more than {MAX_TERMS} terms")
    return terms


def scale(terms: Terms, factor: Rational) -> Terms:
    return {m: simplest(c * factor) for m, c in terms.items()}


def raised(terms: Terms, exponent: int, budget: Budget) -> Terms:
    result: Terms = {ONE: 1}
    if exponent > 64 and len(terms) > 1:
        raise Undecided("a high power of a sum")
    if exponent > 4096:
        raise Undecided("a high power")
    square = terms
    while exponent:
        if exponent & 1:
            result = times(result, square, budget)
        exponent >>= 1
        if exponent:
            square = times(square, square, budget)
    return result
