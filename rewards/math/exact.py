"""Exact values of trees in the rational numbers, and residues without expanding powers.

`rational` gives a whole number or a fraction, `residue` the value modulo m. Both count every
operation and every digit on the budget and answer `Undecided` where there is no such value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from botgrpo.rewards.math.operations import OPERATIONS, Rational, bits, simplest
from botgrpo.rewards.math.tree import (
    Apply,
    Budget,
    Expr,
    Name,
    Number,
    OverBudget,
    Undecided,
)

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


_RINGS = frozenset(("+", "neg", "*", "^"))


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
        function = OPERATIONS.get(op)
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
