"""Exact values of trees in the rational numbers, and residues without expanding powers.

`rational` gives a whole number or a fraction, `residue` the value modulo m. Both count every
operation and every digit on the budget and answer `Undecided` where there is no such value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from botgrpo.rewards.math.tree import (
    MAX_BITS,
    Apply,
    Budget,
    Expr,
    Name,
    Number,
    OverBudget,
    Undecided,
)

Rational = int | Fraction
MAX_DEPTH = 300  # of evaluation: a function that calls itself must end before Python's stack does


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a text defined: f(x) = x^2 + 1."""

    parameters: tuple[str, ...]
    body: Expr


Environment = Mapping[str, Rational | Function]


def rational(expr: Expr, env: Environment, budget: Budget) -> Rational:
    """The value of `expr` with the names of `env`, an int where it is whole.

    Raises `Undecided` (a free name, a division by zero, an irrational value, no value at all) or
    `OverBudget`.
    """
    return _Evaluation(env, budget).value(expr)


def residue(expr: Expr, modulus: int, env: Environment, budget: Budget) -> int:
    """`expr` modulo `modulus` > 0, in 0..modulus - 1; a^k by modular power, a/b by the inverse.

    Raises as `rational`; also where a divisor has no inverse.
    """
    if modulus <= 0:
        raise Undecided("a modulus that is not positive")
    return _Evaluation(env, budget).residue(expr, modulus)


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


class _Evaluation:
    def __init__(self, env: Environment, budget: Budget) -> None:
        self.env = env
        self.budget = budget
        self.depth = 0

    def value(self, expr: Expr) -> Rational:
        if isinstance(expr, Number):
            return expr.value
        if isinstance(expr, Name):
            value = self.env.get(expr.name)
            if value is None or isinstance(value, Function):
                raise Undecided(f"no value for {expr.name}")
            return value
        if not isinstance(expr, Apply):
            raise Undecided("no single number")
        self.budget.spend()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OverBudget("nested too deeply")
        result = self.apply(expr)
        self.depth -= 1
        return result

    def apply(self, expr: Apply) -> Rational:
        op = expr.op
        if op in ("sum", "prod"):
            return self.series(expr)
        if op == "call":
            return self.call(expr)
        if op == "mod":
            modulus = self.whole(expr.args[1])
            if modulus <= 0:
                raise Undecided("a modulus that is not positive")
            return self.residue(expr.args[0], modulus)
        function = _OPERATIONS.get(op)
        if function is None:
            raise Undecided(f"no exact value of {op}")
        args = [self.value(arg) for arg in expr.args]
        result = function(args, self.budget)
        self.budget.spend_bits(bits(result))
        return result

    def whole(self, expr: Expr) -> int:
        value = self.value(expr)
        if not isinstance(value, int):
            raise Undecided("no whole number where one is needed")
        return value

    def series(self, expr: Apply) -> Rational:
        index, low, high, body = expr.args
        assert isinstance(index, Name)
        first, last = self.whole(low), self.whole(high)
        total: Rational = 0 if expr.op == "sum" else 1
        self.budget.spend(max(last - first, 0))
        outer = self.env
        for i in range(first, last + 1):
            self.env = {**outer, index.name: i}
            term = self.value(body)
            total = simplest(total + term if expr.op == "sum" else total * term)
            self.budget.spend_bits(bits(total))
        self.env = outer
        return total

    def call(self, expr: Apply) -> Rational:
        head = expr.args[0]
        function = self.env.get(head.name) if isinstance(head, Name) else None
        if not isinstance(function, Function) or len(function.parameters) != len(expr.args) - 1:
            raise Undecided("a function without a definition")
        values = [self.value(arg) for arg in expr.args[1:]]
        outer = self.env
        self.env = {**outer, **dict(zip(function.parameters, values, strict=True))}
        result = self.value(function.body)
        self.env = outer
        return result

    def residue(self, expr: Expr, modulus: int) -> int:
        self.budget.spend()
        if isinstance(expr, Apply) and expr.op in _RINGS:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise OverBudget("nested too deeply")
            result = self.ring(expr, modulus)
            self.depth -= 1
            return result
        value = self.value(expr)
        if isinstance(value, int):
            return value % modulus
        return value.numerator * self.inverse(value.denominator, modulus) % modulus

    def ring(self, expr: Apply, modulus: int) -> int:
        if expr.op == "^":
            exponent = self.whole(expr.args[1])
            if exponent < 0:
                base = self.inverse(self.residue(expr.args[0], modulus), modulus)
            else:
                base = self.residue(expr.args[0], modulus)
            size = modulus.bit_length()
            self.budget.spend(1 + abs(exponent).bit_length() * (1 + (size * size >> 14)) // 8)
            return pow(base, abs(exponent), modulus)
        values = [self.residue(arg, modulus) for arg in expr.args]
        self.budget.spend_bits(modulus.bit_length())
        if expr.op == "+":
            return sum(values) % modulus
        if expr.op == "neg":
            return -values[0] % modulus
        return values[0] * values[1] % modulus

    def inverse(self, value: int, modulus: int) -> int:
        self.budget.spend_bits(modulus.bit_length())
        if math.gcd(value, modulus) != 1:
            raise Undecided("a divisor without an inverse")
        return pow(value, -1, modulus)


_RINGS = frozenset(("+", "neg", "*", "^"))
Operation = Callable[[list[Rational], Budget], Rational]


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


_OPERATIONS: dict[str, Operation] = {
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
