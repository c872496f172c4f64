"""Canonical forms: when are two expressions the same number, or the same function?

A value is a quotient of two sums of terms; a term is a rational coefficient times powers of
variables, of pi and e, and of primes to exponents in (0, 1). Products of such prime powers are
linearly independent over the rationals (Besicovitch 1940), so without other parts the form decides
equality: sqrt(8) and 2 sqrt(2) are one, sqrt(2) + sqrt(3) and sqrt(10) are not. What has no such
form (a nested root, sin 1) is a part of its own, named by its content; then equal forms still
prove equality, while unequal ones prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from botgrpo.rewards.math.exact import rational
from botgrpo.rewards.math.operations import Rational, bits, simplest
from botgrpo.rewards.math.terms import (
    ONE,
    Monomial,
    Terms,
    factors,
    ordered,
    plus,
    raised,
    scale,
    times,
)
from botgrpo.rewards.math.tree import Apply, Budget, Expr, Name, Number, Undecided


@dataclass(frozen=True, slots=True)
class Form:
    """top / bottom; `bottom` is never zero."""

    top: Terms
    bottom: Terms

    @property
    def constant(self) -> Rational | None:
        """The value where it is rational."""
        if set(self.top) <= {ONE} and set(self.bottom) == {ONE}:
            return simplest(Fraction(self.top.get(ONE, 0)) / self.bottom[ONE])
        return None

    @property
    def opaque(self) -> bool:
        """Whether some part has no canonical form."""
        return any(
            isinstance(g, str) and g.startswith("#")
            for terms in (self.top, self.bottom)
            for monomial in terms
            for g, _ in monomial
        )


IMAGINARY_UNIT = Form({((-1, Fraction(1, 2)),): 1}, {ONE: 1})


def form(expr: Expr, budget: Budget, env: Mapping[str, Form] | None = None) -> Form:
    """The canonical form of `expr`; names of `env` are replaced by theirs.

    Raises `Undecided` for what is no number (a list, a relation, words) and for a division by
    zero, `OverBudget` for more than `MAX_TERMS` terms or too much work.
    """
    return _Forms(env or {}, budget).of(expr)


def same(left: Form, right: Form, budget: Budget) -> bool:
    """Whether the forms are one: left.top * right.bottom = right.top * left.bottom."""
    a = times(left.top, right.bottom, budget)
    return a == times(right.top, left.bottom, budget)


def difference(left: Form, right: Form, budget: Budget) -> Terms:
    """The numerator of left - right, without a common denominator."""
    a = times(left.top, right.bottom, budget)
    b = times(right.top, left.bottom, budget)
    return plus(a, {m: -c for m, c in b.items()}, budget)


def number(value: Rational) -> Form:
    """The form of a rational number."""
    return Form({ONE: value} if value else {}, {ONE: 1})


class _Forms:
    def __init__(self, env: Mapping[str, Form], budget: Budget) -> None:
        self.env = env
        self.budget = budget

    def of(self, expr: Expr) -> Form:
        self.budget.spend(2)
        if isinstance(expr, Number):
            return number(expr.value)
        if isinstance(expr, Name):
            if expr.name == "oo":
                raise Undecided("infinity is no number")
            known = self.env.get(expr.name)
            return known or Form({((expr.name, 1),): 1}, {ONE: 1})
        if not isinstance(expr, Apply):
            raise Undecided("no single value")
        return self.apply(expr)

    def apply(self, expr: Apply) -> Form:
        budget = self.budget
        if expr.op in ("sum", "prod", "mod", "!", "binom", "perm", "floor", "ceil", "gcd", "lcm"):
            return number(rational(expr, {}, budget))
        if expr.op in ("+-", "union", "call", "degree"):
            raise Undecided("several values, or a function without a definition")
        args = [self.of(arg) for arg in expr.args]
        if expr.op in ("+", "mixed"):
            total = args[0]
            for term in args[1:]:
                total = _add(total, term, budget)
            return total
        if expr.op == "neg":
            return Form(scale(args[0].top, -1), args[0].bottom)
        if expr.op == "*":
            return _multiply(args[0], args[1], budget)
        if expr.op == "/":
            return _multiply(args[0], _invert(args[1]), budget)
        if expr.op == "percent":
            return _multiply(args[0], number(Fraction(1, 100)), budget)
        if expr.op == "^":
            return self.power(args[0], args[1])
        if expr.op in ("sqrt", "cbrt"):
            return self.root(args[0], 2 if expr.op == "sqrt" else 3)
        if expr.op == "root":
            degree = args[0].constant
            if not isinstance(degree, int) or not 2 <= degree <= 64:
                raise Undecided("a root of such a degree")
            return self.root(args[1], degree)
        return self.function(expr.op, args)

    def power(self, base: Form, exponent: Form) -> Form:
        k = exponent.constant
        if k is None:
            return _opaque("^", [base, exponent])
        if isinstance(k, Fraction):
            root = self.root(base, k.denominator) if k.denominator <= 64 else None
            if root is None:
                raise Undecided("a root of high degree")
            return self.power(root, number(k.numerator))
        if k < 0:
            base, k = _invert(base), -k
        if k == 0:
            return number(1)
        return Form(raised(base.top, k, self.budget), raised(base.bottom, k, self.budget))

    def root(self, base: Form, degree: int) -> Form:
        value = base.constant
        if value is None:
            return _opaque("root", [number(degree), base])
        if value < 0 and degree % 2:
            return Form(scale(self.root(number(-value), degree).top, -1), {ONE: 1})
        unit: Monomial = ONE
        if value < 0:
            if degree != 2:
                raise Undecided("an even root of a negative number")
            unit, value = ((-1, Fraction(1, 2)),), -value
        # a/b = a b^(n-1) / b^n keeps the root of a whole number
        whole = value.numerator * value.denominator ** (degree - 1)
        self.budget.spend_bits(bits(whole))
        outside, inside = 1, list(unit)
        for prime, count in factors(whole, self.budget):
            outside *= prime ** (count // degree)
            if count % degree:
                inside.append((prime, Fraction(count % degree, degree)))
        coefficient = simplest(Fraction(outside, value.denominator))
        return Form({ordered(inside): coefficient} if value else {}, {ONE: 1})

    def function(self, op: str, args: list[Form]) -> Form:
        values = [a.constant for a in args]
        known = [v for v in values if v is not None]
        if len(known) == len(values):
            numbers = tuple(Number(Fraction(v)) for v in known)
            try:
                return number(rational(Apply(op, numbers), {}, self.budget))
            except Undecided:
                pass
        if op in ("sin", "cos", "tan") and (turn := _sixths_of_pi(args[0])) is not None:
            return self.trigonometry(op, turn)
        if op == "exp":
            return self.power(Form({(("e", 1),): 1}, {ONE: 1}), args[0])
        if op == "ln" and args[0].constant == 1:
            return number(0)
        return _opaque(op, args)

    def trigonometry(self, op: str, turn: Fraction) -> Form:
        """sin, cos or tan of turn * pi, where 12 * turn is whole and a multiple of 2 or 3."""
        twelfths = int(turn * 12) % 24
        if op == "tan":
            if twelfths % 12 == 6:
                raise Undecided("the tangent of a right angle")
            sine, cosine = self.trigonometry("sin", turn), self.trigonometry("cos", turn)
            return _multiply(sine, _invert(cosine), self.budget)
        if op == "cos":
            twelfths = (twelfths + 6) % 24
        sign = -1 if twelfths >= 12 else 1
        twelfths %= 12
        squared = {0: 0, 2: 1, 3: 2, 4: 3, 6: 4}[min(twelfths, 12 - twelfths)]  # (2 sin)^2
        half_root = _multiply(self.root(number(squared), 2), number(Fraction(sign, 2)), self.budget)
        return half_root


def _sixths_of_pi(angle: Form) -> Fraction | None:
    """The multiple of pi, if it is one of pi/6 or pi/4."""
    if set(angle.bottom) != {ONE} or not set(angle.top) <= {(("pi", 1),)}:
        return None
    turn = Fraction(angle.top.get((("pi", 1),), 0)) / angle.bottom[ONE]
    fits = turn * 6 == int(turn * 6) or turn * 4 == int(turn * 4)
    return turn if fits else None


def _opaque(op: str, args: list[Form]) -> Form:
    sizes = [bits(c) for a in args for terms in (a.top, a.bottom) for c in terms.values()]
    if sum(sizes) > 4000:
        raise Undecided("too large a part without a canonical form")
    text = ";".join(f"{_text(a.top)}/{_text(a.bottom)}" for a in args)
    if len(text) > 1000:
        raise Undecided("too large a part without a canonical form")
    return Form({((f"#{op}({text})", 1),): 1}, {ONE: 1})


def _text(terms: Terms) -> str:
    return "+".join(sorted(f"{c}{m}" for m, c in terms.items()))


def _add(left: Form, right: Form, budget: Budget) -> Form:
    if left.bottom == right.bottom:
        return Form(plus(left.top, right.top, budget), left.bottom)
    a = times(left.top, right.bottom, budget)
    b = times(right.top, left.bottom, budget)
    return Form(plus(a, b, budget), times(left.bottom, right.bottom, budget))


def _multiply(left: Form, right: Form, budget: Budget) -> Form:
    top = times(left.top, right.top, budget)
    return Form(top, times(left.bottom, right.bottom, budget))


def _invert(value: Form) -> Form:
    if not value.top:
        raise Undecided("a division by zero")
    if len(value.top) == 1 and set(value.bottom) == {ONE}:
        ((monomial, coefficient),) = value.top.items()
        inverse = simplest(Fraction(value.bottom[ONE]) / coefficient)
        if all(isinstance(g, str) for g, _ in monomial):
            return Form({tuple((g, -e) for g, e in monomial): inverse}, {ONE: 1})
    return Form(value.bottom, value.top)
