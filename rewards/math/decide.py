"""Whether one relation holds: True, False, or None where nobody can tell; with the evidence.

False means that the sides differ in every reading in use, and by more than rounding explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product

from botgrpo.rewards.math.algebra import IMAGINARY_UNIT, difference, form, same
from botgrpo.rewards.math.exact import rational, residue
from botgrpo.rewards.math.measures import has_decimals, is_literal, printed_decimals
from botgrpo.rewards.math.numeric import approximate, context
from botgrpo.rewards.math.operations import Rational, bits
from botgrpo.rewards.math.readings import other_readings
from botgrpo.rewards.math.scope import Scope
from botgrpo.rewards.math.tree import Budget, Expr, Undecided, names, ops

Outcome = tuple[bool | None, str]
UNKNOWN: Outcome = (None, "")


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides relations with the values of a scope.

    Attributes:
        approximate: the sentence speaks of rounding; 5% are then no error.
        moduli: numbers that the text calculates modulo; 8 + 8 = 6 is none modulo 10.
    """

    scope: Scope
    budget: Budget
    approximate: bool = False
    moduli: frozenset[int] = frozenset()

    def equal(self, left: Expr, right: Expr) -> Outcome:
        """left = right, every name of them known."""
        try:
            a = rational(left, self.scope.values, self.budget)
            b = rational(right, self.scope.values, self.budget)
        except Undecided:
            return self._equal_forms(left, right)
        if a == b:
            return True, f"both are {shown(a)}"
        if self._rounds(a, b, right) or self._rounds(b, a, left) or self._reads(left, right):
            return UNKNOWN
        return False, f"left is {shown(a)}, right is {shown(b)}"

    def near(self, left: Expr, right: Expr, *, exact: bool = False) -> Outcome:
        """left ≈ right, both closed: within half a unit of the printed digits, or clearly apart.

        With `exact` only 40 equal digits count as equal.
        """
        outcome = self._near(left, right, exact)
        if outcome[0] is False:
            for a, b in _readings(left, right):
                try:
                    if self._near(a, b, exact)[0] is not False:
                        return UNKNOWN
                except Undecided:
                    return UNKNOWN
        return outcome

    def _near(self, left: Expr, right: Expr, exact: bool) -> Outcome:
        mp = context()
        x, y = approximate(left, self.budget), approximate(right, self.budget)
        gap, size = abs(x - y), max(abs(x), abs(y))
        unit = mp.mpf(10) ** -max(printed_decimals(left), printed_decimals(right))
        evidence = f"left is {mp.nstr(x, 8)}, right is {mp.nstr(y, 8)}"
        if gap <= size * mp.mpf(10) ** -40:
            return True, evidence
        decimals = has_decimals(left) or has_decimals(right)
        if not exact and decimals and gap <= 0.51 * unit:
            return True, evidence
        rounded = not exact or is_literal(left) or is_literal(right)
        if rounded and (gap <= unit or gap <= size / 20):
            return UNKNOWN
        return False, evidence

    def congruent(self, left: Expr, right: Expr, modulus: Expr, *, closed: bool) -> Outcome:
        """left ≡ right; with names in it only their congruence is evidence."""
        m = rational(modulus, self.scope.values, self.budget)
        if not isinstance(m, int) or m < 1 or left == right:
            return UNKNOWN
        a = residue(left, m, self.scope.values, self.budget)
        b = residue(right, m, self.scope.values, self.budget)
        if a != b and not closed:
            return UNKNOWN
        return a == b, f"left is {shown(a)}, right is {shown(b)} modulo {shown(m)}"

    def divides(self, divisor: Expr, dividend: Expr) -> Outcome:
        """divisor ∣ dividend, for printed whole numbers."""
        if names(divisor) or names(dividend):
            return UNKNOWN
        a, b = (rational(side, {}, self.budget) for side in (divisor, dividend))
        if not isinstance(a, int) or not isinstance(b, int) or a == 0:
            return UNKNOWN
        return b % a == 0, f"{shown(b)} leaves {shown(b % a)} divided by {shown(a)}"

    def ordered(self, left: Expr, right: Expr, sign: str) -> Outcome:
        """left < right and the like, both closed and not both printed numbers."""
        if names(left) or names(right) or (is_literal(left) and is_literal(right)):
            return UNKNOWN
        mp = context()
        a, b = approximate(left, self.budget), approximate(right, self.budget)
        if abs(a - b) <= max(abs(a), abs(b), 1) * mp.mpf(10) ** -30:
            return sign in "≤≥", "both sides are equal"
        holds = a < b if sign in "<≤" else a > b
        return bool(holds), f"left is {mp.nstr(a, 8)}, right is {mp.nstr(b, 8)}"

    def identical(self, left: Expr, right: Expr, *, rewriting: bool) -> Outcome:
        """left = right as functions of their free names.

        False only where the equation has no solution at all, or where one side is meant as another
        form of the other (`rewriting`) and is none.
        """
        a, b = (form(side, self.budget, self.scope.forms) for side in (left, right))
        if same(a, b, self.budget):
            return True, "both sides have one expansion"
        if a.opaque or b.opaque or has_decimals(left) or has_decimals(right):
            return UNKNOWN
        free = names(left) | names(right)
        if "i" in free:
            env = {**self.scope.forms, "i": IMAGINARY_UNIT}
            if same(form(left, self.budget, env), form(right, self.budget, env), self.budget):
                return UNKNOWN
        else:
            gap = difference(a, b, self.budget)
            if set(gap) == {()} and a.bottom == b.bottom:
                return False, f"the sides differ by {shown(gap[()])} always"
        # 10 b / 2 = 12 b / 2 equates two things, it does not rewrite one
        if not rewriting or len(a.top) == len(b.top) == 1:
            return UNKNOWN
        return False, "the sides expand differently"

    def _equal_forms(self, left: Expr, right: Expr) -> Outcome:
        a, b = (form(side, self.budget, self.scope.forms) for side in (left, right))
        if same(a, b, self.budget):
            return True, "both sides have one exact form"
        if (names(left) | names(right)) - {"e"}:
            return UNKNOWN
        return self.near(left, right, exact=True)

    def _rounds(self, exact: Rational, printed: Rational, side: Expr) -> bool:
        """Whether `side` may be `exact` rounded, reduced or as a percentage."""
        gap = abs(Fraction(exact) - printed)
        if any(gap % m == 0 and 0 <= printed < m for m in self.moduli):
            return True
        if "percent" in ops(side) and exact in (printed * 100, Fraction(printed) / 100):
            return True
        if gap * (20 if self.approximate else 10**9) <= abs(Fraction(exact)):
            return self.approximate or has_decimals(side)
        if not is_literal(side):
            return False
        # 0.1 + 0.2 = 0.4 is no rounding: 0.3 could have been printed
        unit = Fraction(1, 10 ** printed_decimals(side))
        return (exact / unit).denominator != 1 and gap <= unit

    def _reads(self, left: Expr, right: Expr) -> bool:
        """Whether both sides agree, or have no value, in some other reading."""
        for a, b in _readings(left, right):
            try:
                x = rational(a, self.scope.values, self.budget)
                if x == rational(b, self.scope.values, self.budget):
                    return True
            except Undecided:
                return True
        return False


def _readings(left: Expr, right: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Every pair of readings of two sides but the first of both."""
    pairs = product([left, *other_readings(left)], [right, *other_readings(right)])
    return islice(pairs, 1, None)


def shown(value: Rational) -> str:
    """A number for a label; a long one by its digits, since printing it would cost too much."""
    if bits(value) > 200:
        return f"a number of about {int(bits(value) * 0.30103) + 1} digits"
    return str(value)
