"""The operations on exact rational numbers, each with its work counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from botgrpo.rewards.math.tree import MAX_BITS, Budget, OverBudget, Undecided

Rational = int | Fraction
Operation = Callable[[list[Rational], Budget], Rational]


def bits(value: Rational) -> int:
    """Binary digits of a number, of numerator and denominator together."""
    if isinstance(value, int):
        return value.bit_length()
    return value.numerator.bit_length() + value.denominator.bit_length()


def simplest(value: Rational) -> Rational:
    """An int where the value is whole."""
    return value.numerator if value.denominator == 1 else value


def exact_root(value: Rational, degree: int) -> Rational | None:
    """The real root >= 0 of a value >= 0 where it is rational, else None; `degree` >= 1."""
    if value < 0:
        return None
    top = _integer_root(value.numerator, degree)
    bottom = _integer_root(value.denominator, degree)
    return None if top is None or bottom is None else simplest(Fraction(top, bottom))


def _integer_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(value)
    elif value < 2:
        root = value
    else:
        root = 1 << -(-value.bit_length() // degree)  # Newton's iteration from above
        while True:
            better = ((degree - 1) * root + value // root ** (degree - 1)) // degree
            if better >= root:
                break
            root = better
    return root if root**degree == value else None


def power(base: Rational, exponent: Rational, budget: Budget) -> Rational:
    """base^exponent where it is rational. Raises `Undecided` for 0^0, 1/0 and irrational powers."""
    if isinstance(exponent, Fraction):
        degree = exponent.denominator
        if degree > 64:
            raise Undecided("a root of high degree")
        root = exact_root(base, degree)
        if root is None:
            raise Undecided("an irrational power")
        return power(root, exponent.numerator, budget)
    if base == 0 and exponent <= 0:
        raise Undecided("zero to a power that is not positive")
    if base in (0, 1):
        return base
    if base == -1:
        return 1 if exponent % 2 == 0 else -1
    if abs(exponent) > MAX_BITS:
        raise OverBudget("a power with too many digits")
    budget.spend_bits(bits(base) * abs(exponent))
    return simplest(Fraction(base) ** exponent)


def _add(args: list[Rational], budget: Budget) -> Rational:
    budget.spend(len(args))
    return simplest(sum(args))


def _multiply(args: list[Rational], budget: Budget) -> Rational:
    left, right = args
    budget.spend_bits(bits(left) + bits(right))
    return simplest(left * right)


def _divide(args: list[Rational], budget: Budget) -> Rational:
    top, bottom = args
    if bottom == 0:
        raise Undecided("a division by zero")
    budget.spend_bits(bits(top) + bits(bottom))
    return simplest(Fraction(top) / bottom)


def _root(args: list[Rational], budget: Budget) -> Rational:
    degree, value = args
    if not isinstance(degree, int) or not 1 <= degree <= 64:
        raise Undecided("a root of such a degree")
    if value < 0 and degree % 2:
        return -_root([degree, -value], budget)
    root = exact_root(value, degree)
    if root is None:
        raise Undecided("an irrational root")
    return root


def _factorial(args: list[Rational], budget: Budget) -> Rational:
    (n,) = args
    if not isinstance(n, int) or n < 0:
        raise Undecided("a factorial of no natural number")
    return _falling(n, n, budget)


def _falling(n: int, k: int, budget: Budget) -> int:
    """n (n - 1) ... (n - k + 1)."""
    if k > MAX_BITS:
        raise OverBudget("a factorial with too many digits")
    budget.spend_bits(k * n.bit_length())
    budget.spend(k)
    return math.perm(n, k)


def _counts(args: list[Rational]) -> tuple[int, int]:
    n, k = args
    if not isinstance(n, int) or not isinstance(k, int) or n < 0 or k < 0:
        raise Undecided("a binomial of no natural numbers")
    return n, k


def _binomial(args: list[Rational], budget: Budget) -> Rational:
    n, k = _counts(args)
    if k > n:
        return 0
    k = min(k, n - k)
    return _falling(n, k, budget) // math.factorial(k)


def _permutations(args: list[Rational], budget: Budget) -> Rational:
    n, k = _counts(args)
    return 0 if k > n else _falling(n, k, budget)


def _whole_numbers(args: list[Rational]) -> list[int]:
    whole = [arg for arg in args if isinstance(arg, int)]
    if len(whole) < max(len(args), 2):
        raise Undecided("gcd and lcm take several whole numbers")
    return whole


def _log(args: list[Rational], budget: Budget) -> Rational:
    """log_b(x) where it is a fraction with a small denominator: x^q = b^p."""
    if len(args) != 2 or args[0] <= 0 or args[1] <= 0 or args[0] == 1:
        raise Undecided("no exact logarithm")
    base, value = args
    if value == 1:
        return 0
    estimate = (math.log(value.numerator) - math.log(value.denominator)) / (
        math.log(base.numerator) - math.log(base.denominator)
    )
    guess = Fraction(estimate).limit_denominator(12)
    budget.spend_bits(bits(value) * guess.denominator)
    budget.spend_bits(bits(base) * (abs(guess.numerator) + 1))
    if Fraction(value) ** guess.denominator == Fraction(base) ** guess.numerator:
        return simplest(guess)
    raise Undecided("an irrational logarithm")


OPERATIONS: dict[str, Operation] = {
    "+": _add,
    "neg": lambda args, _: -args[0],
    "*": _multiply,
    "/": _divide,
    "^": lambda args, budget: power(args[0], args[1], budget),
    "!": _factorial,
    "percent": lambda args, _: simplest(Fraction(args[0]) / 100),
    "mixed": _add,
    "sqrt": lambda args, budget: _root([2, args[0]], budget),
    "cbrt": lambda args, budget: _root([3, args[0]], budget),
    "root": _root,
    "binom": _binomial,
    "perm": _permutations,
    "abs": lambda args, _: max(args[0], -args[0]),
    "floor": lambda args, _: math.floor(args[0]),
    "ceil": lambda args, _: math.ceil(args[0]),
    "gcd": lambda args, _: math.gcd(*_whole_numbers(args)),
    "lcm": lambda args, _: math.lcm(*_whole_numbers(args)),
    "max": lambda args, _: max(args),
    "min": lambda args, _: min(args),
    "log": _log,
}
