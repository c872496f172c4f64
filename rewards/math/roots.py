"""Equations in one unknown: what is given as the solution must solve what stands before it.

"2x + 3 = 11, so x = 5" is refuted by 2 * 5 + 3 = 13. The premise is the equation before, in the
same step or at the end of the one before; the conclusion is x = v, or a linear equation by its
root. Neither may be supposed, denied or one of several cases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from botgrpo.rewards.math.algebra import difference, form
from botgrpo.rewards.math.claims import Chain
from botgrpo.rewards.math.exact import rational
from botgrpo.rewards.math.measures import has_decimals
from botgrpo.rewards.math.operations import Rational, simplest
from botgrpo.rewards.math.tree import (
    Budget,
    Expr,
    Name,
    Undecided,
)

_CONNECTED = re.compile(
    r"\b(?:so|thus|therefore|hence|gives?|giving|get|then|means|yields?|implies|have|solving)\W*\Z"
)
_CASES = re.compile(
    r"\b(?:or|if|when|case|either|at|for|let|set|setting|suppose|also|other|second|another|and|option"
    r"|choice|where|instead|equation [0-9]|values?"
    r"|given|with|plugging|substitut\w+)\b"
)


@dataclass(frozen=True, slots=True)
class Premise:
    """left = right in one unknown."""

    unknown: str
    left: Expr
    right: Expr
    listed: bool


def premise(chain: Chain) -> Premise | None:
    """The equation that a chain states, None where it has several unknowns or is one of a list."""
    left, right = chain.sides[-2].expr, chain.sides[-1].expr
    if left is None or right is None or chain.signs[-1] != "=" or chain.mood != "asserted":
        return None
    unknown = chain.sides[-2].names | chain.sides[-1].names
    if len(unknown) != 1 or chain.joined or chain.after in ("or", "and"):
        return None
    return Premise(next(iter(unknown)), left, right, chain.after == ",")


def solution(chain: Chain, budget: Budget) -> tuple[str, Rational] | None:
    """(unknown, value) of a chain x = ... = v, or of a linear equation in one unknown."""
    if chain.mood != "asserted" or set(chain.signs) != {"="} or _CASES.search(chain.lead):
        return None
    head, last = chain.sides[0].expr, chain.sides[-1].expr
    if head is None or last is None:
        return None
    try:
        if isinstance(head, Name) and not chain.sides[-1].names:
            return head.name, rational(last, {}, budget)
        unknown = chain.sides[0].names | chain.sides[-1].names
        if len(chain.sides) == 2 and len(unknown) == 1:
            name = next(iter(unknown))
            value = _linear_root(head, last, name, budget)
            return None if value is None else (name, value)
    except Undecided:
        pass
    return None


def solves(
    given: Premise, chain: Chain, value: Rational, budget: Budget
) -> tuple[bool | None, str]:
    """Whether `value` solves the premise of the chain, and how the sides come out."""
    if given.listed and not _CONNECTED.search(chain.lead):
        return None, ""
    env = {given.unknown: value}
    left = Fraction(rational(given.left, env, budget))
    right = Fraction(rational(given.right, env, budget))
    evidence = f"{given.unknown} = {value} gives {left} and {right} in the equation before"
    if left == right:
        return True, evidence
    rounded = any(map(has_decimals, (given.left, given.right))) or isinstance(value, Fraction)
    if rounded and abs(left - right) * 50 <= max(abs(left), abs(right), Fraction(1)):
        return None, ""
    return False, evidence


def _linear_root(left: Expr, right: Expr, name: str, budget: Budget) -> Rational | None:
    a, b = form(left, budget), form(right, budget)
    if a.opaque or b.opaque:
        return None
    terms = difference(a, b, budget)
    slope = terms.get(((name, 1),))
    if slope is None or not set(terms) <= {((name, 1),), ()}:
        return None
    return simplest(-Fraction(terms.get((), 0)) / slope)
