"""Decides claims: +1 verified, 0 undecided, -1 refuted, with the evidence.

A refutation is exact arithmetic that contradicts what is printed, in every reading of it that is
in use; a rounded value, a mixed unit, a supposed or denied sentence are undecided. A verification
says that the claim holds, not that it helps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from botgrpo.rewards.math.algebra import IMAGINARY_UNIT, difference, form, same
from botgrpo.rewards.math.claims import Chain
from botgrpo.rewards.math.exact import Rational, bits, rational, residue
from botgrpo.rewards.math.numeric import approximate, context
from botgrpo.rewards.math.readings import other_readings
from botgrpo.rewards.math.roots import premise, solution, solves
from botgrpo.rewards.math.scope import Scope, is_name
from botgrpo.rewards.math.tree import (
    Apply,
    Budget,
    Expr,
    Name,
    Number,
    Undecided,
    names,
    ops,
    parts,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A decided statement at [start, end) of the completion.

    Attributes:
        value: +1 verified, 0 undecided, -1 refuted.
        kind: arithmetic, substitution, identity, root, congruence, inequality, divisibility.
        evidence: what was computed.
        trivial: true without any work, such as 2 + 2 = 4 or 7 = 7.
    """

    start: int
    end: int
    value: int
    kind: str
    evidence: str
    trivial: bool = False


def check_chain(chain: Chain, scope: Scope, budget: Budget) -> list[Claim]:
    """The decided claims of a chain; afterwards the scope knows what the chain defines."""
    checker = _Checker(chain, scope, budget)
    claims: list[Claim] = []
    for i in range(len(chain.signs)):
        try:
            claim = checker.link(i)
        except Undecided:
            continue
        if claim is not None and claim.value:
            claims.append(claim)
    checker.learn()
    claims += checker.root()
    return claims


class _Checker:
    def __init__(self, chain: Chain, scope: Scope, budget: Budget) -> None:
        self.chain = chain
        self.scope = scope
        self.budget = budget

    def link(self, i: int) -> Claim | None:
        """The claim of the sign at `i`, None where it defines or nobody can tell."""
        chain = self.chain
        left, right, sign = chain.sides[i].expr, chain.sides[i + 1].expr, chain.signs[i]
        if left is None or right is None:
            return None
        free = names(left) | names(right)
        closed = not free or (free == {"e"} and _euler(left) and _euler(right))
        if sign == "≡" and chain.modulus is not None:
            return self.claim(i, "congruence", *self.congruent(left, right, closed))
        if sign in "∣⋮":
            a, b = (left, right) if sign == "∣" else (right, left)
            return self.claim(i, "divisibility", *self.divides(a, b))
        if sign in "<>≤≥":
            return self.claim(i, "inequality", *self.ordered(left, right, sign, closed))
        if sign == "≈":
            return self.claim(i, "arithmetic", *self.near(left, right))
        if sign == "≠":
            holds, evidence = self.equal(left, right) if closed else (None, "")
            return self.claim(i, "inequality", None if holds is None else not holds, evidence)
        if sign not in "=≐" or (sign == "≐" and not (closed and ops(left))):
            return None
        if self.defines(i):
            return None
        if closed or (self.scope.knows(left) and self.scope.knows(right)):
            if _literal(left) and _literal(right):
                return None
            holds, evidence = self.equal(left, right)
            closed = closed and not {"call"} & (ops(left) | ops(right))
            kind = "arithmetic" if closed else "substitution"
            if not holds and not closed and not _size(right):
                return None  # 2x = 8 may be the equation that x is asked to solve
            return self.claim(i, kind, holds, evidence, trivial=_trivial(left, right))
        return self.identity(i, left, right, free)

    def claim(
        self, i: int, kind: str, holds: bool | None, evidence: str, trivial: bool = False
    ) -> Claim | None:
        if holds is None:
            return None
        chain = self.chain
        first, last = chain.sides[i], chain.sides[i + 1]
        value = 1 if holds else -1
        if not holds and (chain.mood != "asserted" or len(chain.units) > 1):
            value = 0
        return Claim(first.start, last.end, value, kind, evidence, holds and trivial)

    # What holds ----------------------------------------------------------------------------------

    def equal(self, left: Expr, right: Expr) -> tuple[bool | None, str]:
        """Whether both sides have one value; None where they differ for an accepted reason."""
        try:
            a: Rational | None = rational(left, self.scope.values, self.budget)
            b: Rational | None = rational(right, self.scope.values, self.budget)
        except Undecided:
            return self.equal_forms(left, right)
        assert a is not None and b is not None
        if a == b:
            return True, f"both are {shown(a)}"
        if self.excused(a, b, right) or self.excused(b, a, left) or self.other(left, right):
            return None, ""
        return False, f"left is {shown(a)}, right is {shown(b)}"

    def equal_forms(self, left: Expr, right: Expr) -> tuple[bool | None, str]:
        a, b = (form(side, self.budget, self.scope.forms) for side in (left, right))
        if same(a, b, self.budget):
            return True, "both sides have one exact form"
        if (names(left) | names(right)) - {"e"}:
            return None, ""
        return self.near(left, right, exact=True)

    def near(self, left: Expr, right: Expr, exact: bool = False) -> tuple[bool | None, str]:
        """Closed sides to 60 places: equal within the printed digits, or clearly apart."""
        mp = context()
        x, y = approximate(left, self.budget), approximate(right, self.budget)
        gap, size = abs(x - y), max(abs(x), abs(y))
        unit = mp.mpf(10) ** -max(_printed(left), _printed(right))
        evidence = f"left is {mp.nstr(x, 8)}, right is {mp.nstr(y, 8)}"
        if gap <= size * mp.mpf(10) ** -40:
            return True, evidence
        if not exact and gap <= 0.51 * unit and (_decimal(left) or _decimal(right)):
            return True, evidence
        rounded = _literal(left) or _literal(right) or not exact
        if (rounded and (gap <= unit or gap <= size / 20)) or self.other_near(left, right):
            return None, ""
        return False, evidence

    def other_near(self, left: Expr, right: Expr) -> bool:
        return bool(other_readings(left) or other_readings(right))

    def excused(self, exact: Rational, printed: Rational, side: Expr) -> bool:
        """Whether `side` may be `exact` rounded, as a decimal, a whole number or a percentage."""
        gap = abs(Fraction(exact) - printed)
        if any(gap % m == 0 and 0 <= printed < m for m in self.chain.moduli):
            return True  # 8 + 8 = 6 in a text that calculates modulo 10
        if "percent" in ops(side) and exact in (printed * 100, Fraction(printed) / 100):
            return True
        if self.chain.approximate and gap * 20 <= abs(Fraction(exact)):
            return True
        if not _literal(side):
            return False
        decimals = _printed(side)
        if decimals or _decimal(side):
            return gap <= Fraction(1, 10**decimals)
        return isinstance(exact, Fraction) and gap < 1

    def other(self, left: Expr, right: Expr) -> bool:
        """Whether both sides agree in some other reading."""
        lefts, rights = [left, *other_readings(left)], [right, *other_readings(right)]
        for a, b in list(product(lefts, rights))[1:]:
            try:
                if rational(a, self.scope.values, self.budget) == rational(
                    b, self.scope.values, self.budget
                ):
                    return True
            except Undecided:
                return True
        return False

    def congruent(self, left: Expr, right: Expr, closed: bool) -> tuple[bool | None, str]:
        assert self.chain.modulus is not None
        modulus = rational(self.chain.modulus, self.scope.values, self.budget)
        if not isinstance(modulus, int) or modulus < 1 or (_literal(left) and left == right):
            return None, ""
        a = residue(left, modulus, self.scope.values, self.budget)
        b = residue(right, modulus, self.scope.values, self.budget)
        if a != b and not closed:
            return None, ""
        return a == b, f"left is {shown(a)}, right is {shown(b)} modulo {shown(modulus)}"

    def divides(self, divisor: Expr, dividend: Expr) -> tuple[bool | None, str]:
        if names(divisor) or names(dividend):
            return None, ""
        a, b = (rational(side, {}, self.budget) for side in (divisor, dividend))
        if not isinstance(a, int) or not isinstance(b, int) or a == 0:
            return None, ""
        return b % a == 0, f"{shown(b)} leaves {shown(b % a)} divided by {shown(a)}"

    def ordered(self, left: Expr, right: Expr, sign: str, closed: bool) -> tuple[bool | None, str]:
        if not closed or (_literal(left) and _literal(right)):
            return None, ""
        a, b = approximate(left, self.budget), approximate(right, self.budget)
        mp = context()
        if abs(a - b) <= max(abs(a), abs(b), 1) * mp.mpf(10) ** -30:
            return sign in "≤≥", "both sides are equal"
        holds = a < b if sign in "<≤" else a > b
        return holds, f"left is {mp.nstr(a, 8)}, right is {mp.nstr(b, 8)}"

    def identity(self, i: int, left: Expr, right: Expr, free: frozenset[str]) -> Claim | None:
        a, b = (form(side, self.budget, self.scope.forms) for side in (left, right))
        if same(a, b, self.budget):
            trivial = left == right or not (ops(left) and ops(right))
            return self.claim(i, "identity", True, "both sides have one expansion", trivial)
        if a.opaque or b.opaque:
            return None
        gap = difference(a, b, self.budget)
        if "i" in free:
            env = {**self.scope.forms, "i": IMAGINARY_UNIT}
            if same(form(left, self.budget, env), form(right, self.budget, env), self.budget):
                return None
        elif set(gap) == {()} and a.bottom == b.bottom and not (_decimal(left) or _decimal(right)):
            return self.claim(i, "identity", False, f"the sides differ by {shown(gap[()])} always")
        if (i or _REWRITING.search(self.chain.lead)) and self.rewrites(left, right):
            return self.claim(i, "identity", False, "the sides expand differently")
        return None

    def rewrites(self, left: Expr, right: Expr) -> bool:
        """Whether one side is meant as another form of the other, not as an equation to solve."""
        unknown = names(left) - self.scope.forms.keys()
        if not unknown or unknown != names(right) - self.scope.forms.keys():
            return False
        return _size(left) > 1 and _size(right) > 1 and not (_decimal(left) or _decimal(right))

    # What is learnt ------------------------------------------------------------------------------

    def defines(self, i: int) -> bool:
        """x = ... at the start of a chain, or f(x) = ..., gives a name its meaning."""
        if i:
            return False
        left = self.chain.sides[0].expr
        assert left is not None
        if is_name(left):
            return True
        return _parameters(left) is not None

    def root(self) -> list[Claim]:
        """The claim that the chain solves an equation before it; the chain's own is remembered."""
        chain = self.chain
        found = solution(chain, self.budget)
        claims = []
        for given in self.scope.premises if found is not None else ():
            if found is None or given.unknown != found[0]:
                continue
            try:
                holds, evidence = solves(given, chain, found[1], self.budget)
            except Undecided:
                continue
            if holds is not None:
                start, end = chain.sides[0].start, chain.sides[-1].end
                claims.append(Claim(start, end, 1 if holds else -1, "root", evidence))
        stated = premise(chain)
        if stated is not None and not is_name(stated.left):
            self.scope.state(stated)
        return claims

    def learn(self) -> None:
        chain = self.chain
        head = chain.sides[0].expr
        if head is None or chain.signs[0] not in "=≐":
            return
        parameters = _parameters(head)
        body = chain.sides[1].expr
        if parameters is not None and body is not None:
            function = parts(head)[0]
            assert isinstance(function, Name)
            self.scope.define(function.name, parameters, body)
        elif is_name(head):
            assert isinstance(head, Name)
            closed = [
                side.expr
                for side, sign in zip(chain.sides[1:], chain.signs, strict=True)
                if side.expr is not None and not names(side.expr) and sign in "=≐"
            ]
            if closed and not chain.joined:
                conditional = chain.mood == "supposed" or _conditional(chain.lead)
                self.scope.bind(head.name, closed[-1], self.budget, conditional=conditional)
            else:
                self.scope.drop(head.name)


def shown(value: Rational) -> str:
    """A number for a label; a long one by its digits, since printing it would cost too much."""
    if bits(value) > 200:
        return f"a number of about {int(bits(value) * 0.30103) + 1} digits"
    return str(value)


_REWRITING = re.compile(r"\b(?:expan|simplif|factor|distribut|rewrit|multiply)(?!.*equation)")
_CONDITIONS = ("when", "at ", "for ", "if ", "let ", "set", "plug", "substitut", "case", "where")


def _conditional(lead: str) -> bool:
    return any(word in lead for word in _CONDITIONS)


def _parameters(expr: Expr) -> tuple[str, ...] | None:
    """The parameters of f(x, y) as the left side of a definition."""
    if not (isinstance(expr, Apply) and expr.op == "call"):
        return None
    inner = [arg.name for arg in expr.args[1:] if isinstance(arg, Name)]
    return tuple(inner) if len(inner) == len(expr.args) - 1 and is_name(expr.args[1]) else None


def _literal(expr: Expr) -> bool:
    """A printed number, perhaps with a sign or a percent sign."""
    while isinstance(expr, Apply) and expr.op in ("neg", "percent"):
        expr = expr.args[0]
    return isinstance(expr, Number)


def _printed(expr: Expr) -> int:
    """Digits after the point, the most that a number of the tree has; two more for percent."""
    inner = [_printed(part) for part in parts(expr)]
    if isinstance(expr, Number):
        return expr.decimals
    more = 2 if isinstance(expr, Apply) and expr.op == "percent" else 0
    return max(inner, default=0) + more


def _decimal(expr: Expr) -> bool:
    if isinstance(expr, Number):
        return expr.decimals > 0
    return any(map(_decimal, parts(expr)))


def _euler(expr: Expr) -> bool:
    """Whether each e of the tree is the base of a power: then it is no variable."""
    if isinstance(expr, Apply) and expr.op == "^" and expr.args[0] == Name("e"):
        return _euler(expr.args[1])
    return expr != Name("e") and all(map(_euler, parts(expr)))


def _size(expr: Expr) -> int:
    """How many operations a tree has, signs not counted."""
    own = isinstance(expr, Apply) and expr.op != "neg"
    return own + sum(map(_size, parts(expr)))


def _trivial(left: Expr, right: Expr) -> bool:
    """At most one operation on numbers of one digit, or the same twice."""
    if left == right:
        return True
    return _size(left) + _size(right) <= 1 and all(v < 10 for v in _numbers(left) + _numbers(right))


def _numbers(expr: Expr) -> list[Rational]:
    if isinstance(expr, Number):
        return [expr.value]
    return [value for part in parts(expr) for value in _numbers(part)]
