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

from botgrpo.rewards.math.exact import Rational, bits, exact_root, rational, simplest
from botgrpo.rewards.math.tree import Apply, Budget, Expr, Name, Number, Undecided

Generator = str | int  # a variable, "pi", an opaque part "#...", or a prime; -1 stands for i
Monomial = tuple[tuple[Generator, Rational], ...]
Terms = dict[Monomial, Rational]

MAX_TERMS = 200
_ONE: Monomial = ()
_SMALL_PRIMES = tuple(p for p in range(2, 1000) if all(p % q for q in range(2, int(p**0.5) + 1)))


@dataclass(frozen=True, slots=True)
class Form:
    """top / bottom; `bottom` is never zero."""

    top: Terms
    bottom: Terms

    @property
    def constant(self) -> Rational | None:
        """The value where it is rational."""
        if set(self.top) <= {_ONE} and set(self.bottom) == {_ONE}:
            return simplest(Fraction(self.top.get(_ONE, 0)) / self.bottom[_ONE])
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


IMAGINARY_UNIT = Form({((-1, Fraction(1, 2)),): 1}, {_ONE: 1})


def form(expr: Expr, budget: Budget, env: Mapping[str, Form] | None = None) -> Form:
    """The canonical form of `expr`; names of `env` are replaced by theirs.

    Raises `Undecided` for what is no number (a list, a relation, words) and for a division by
    zero, `OverBudget` for more than `MAX_TERMS` terms or too much work.
    """
    return _Forms(env or {}, budget).of(expr)


def same(left: Form, right: Form, budget: Budget) -> bool:
    """Whether the forms are one: left.top * right.bottom = right.top * left.bottom."""
    a = _times(left.top, right.bottom, budget)
    return a == _times(right.top, left.bottom, budget)


def difference(left: Form, right: Form, budget: Budget) -> Terms:
    """The numerator of left - right, without a common denominator."""
    a = _times(left.top, right.bottom, budget)
    b = _times(right.top, left.bottom, budget)
    return _plus(a, {m: -c for m, c in b.items()}, budget)


def number(value: Rational) -> Form:
    """The form of a rational number."""
    return Form({_ONE: value} if value else {}, {_ONE: 1})


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
            return known or Form({((expr.name, 1),): 1}, {_ONE: 1})
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
            return Form(_scale(args[0].top, -1), args[0].bottom)
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
        return Form(_raise(base.top, k, self.budget), _raise(base.bottom, k, self.budget))

    def root(self, base: Form, degree: int) -> Form:
        value = base.constant
        if value is None:
            return _opaque("root", [number(degree), base])
        if value < 0 and degree % 2:
            return Form(_scale(self.root(number(-value), degree).top, -1), {_ONE: 1})
        unit: Monomial = _ONE
        if value < 0:
            if degree != 2:
                raise Undecided("an even root of a negative number")
            unit, value = ((-1, Fraction(1, 2)),), -value
        # a/b = a b^(n-1) / b^n keeps the root of a whole number
        whole = value.numerator * value.denominator ** (degree - 1)
        self.budget.spend_bits(bits(whole))
        outside, inside = 1, list(unit)
        for prime, count in _factors(whole, self.budget):
            outside *= prime ** (count // degree)
            if count % degree:
                inside.append((prime, Fraction(count % degree, degree)))
        coefficient = simplest(Fraction(outside, value.denominator))
        return Form({_sorted(inside): coefficient} if value else {}, {_ONE: 1})

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
            return self.power(Form({(("e", 1),): 1}, {_ONE: 1}), args[0])
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
    if set(angle.bottom) != {_ONE} or not set(angle.top) <= {(("pi", 1),)}:
        return None
    turn = Fraction(angle.top.get((("pi", 1),), 0)) / angle.bottom[_ONE]
    fits = turn * 6 == int(turn * 6) or turn * 4 == int(turn * 4)
    return turn if fits else None


def _opaque(op: str, args: list[Form]) -> Form:
    sizes = [bits(c) for a in args for terms in (a.top, a.bottom) for c in terms.values()]
    if sum(sizes) > 4000:
        raise Undecided("too large a part without a canonical form")
    text = ";".join(f"{_text(a.top)}/{_text(a.bottom)}" for a in args)
    if len(text) > 1000:
        raise Undecided("too large a part without a canonical form")
    return Form({((f"#{op}({text})", 1),): 1}, {_ONE: 1})


def _text(terms: Terms) -> str:
    return "+".join(sorted(f"{c}{m}" for m, c in terms.items()))


def _factors(n: int, budget: Budget) -> list[tuple[int, int]]:
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


def _sorted(parts: list[tuple[Generator, Rational]]) -> Monomial:
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
    return _sorted([(g, e) for g, e in powers.items() if e]), coefficient


def _times(left: Terms, right: Terms, budget: Budget) -> Terms:
    budget.spend(3 * len(left) * len(right))
    result: Terms = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial, factor = _product(a, b)
            total = simplest(result.get(monomial, 0) + x * y * factor)
            budget.spend_bits(bits(total))
            result[monomial] = total
    return _checked(result)


def _plus(left: Terms, right: Terms, budget: Budget) -> Terms:
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


def _scale(terms: Terms, factor: Rational) -> Terms:
    return {m: simplest(c * factor) for m, c in terms.items()}


def _raise(terms: Terms, exponent: int, budget: Budget) -> Terms:
    result: Terms = {_ONE: 1}
    if exponent > 64 and len(terms) > 1:
        raise Undecided("a high power of a sum")
    if exponent > 4096:
        raise Undecided("a high power")
    square = terms
    while exponent:
        if exponent & 1:
            result = _times(result, square, budget)
        exponent >>= 1
        if exponent:
            square = _times(square, square, budget)
    return result


def _add(left: Form, right: Form, budget: Budget) -> Form:
    if left.bottom == right.bottom:
        return Form(_plus(left.top, right.top, budget), left.bottom)
    a = _times(left.top, right.bottom, budget)
    b = _times(right.top, left.bottom, budget)
    return Form(_plus(a, b, budget), _times(left.bottom, right.bottom, budget))


def _multiply(left: Form, right: Form, budget: Budget) -> Form:
    top = _times(left.top, right.top, budget)
    return Form(top, _times(left.bottom, right.bottom, budget))


def _invert(value: Form) -> Form:
    if not value.top:
        raise Undecided("a division by zero")
    if len(value.top) == 1 and set(value.bottom) == {_ONE}:
        ((monomial, coefficient),) = value.top.items()
        inverse = simplest(Fraction(value.bottom[_ONE]) / coefficient)
        if all(isinstance(g, str) for g, _ in monomial):
            return Form({tuple((g, -e) for g, e in monomial): inverse}, {_ONE: 1})
    return Form(value.bottom, value.top)
