r"""Are two expressions the same value? True, False, or None where nobody can tell.

For answers: rationals, radicals, pi, polynomials and quotients of them, tuples and intervals item
by item, sets and bare lists in any order, a \pm b as the list of both, and equations up to a
factor. An equation x = 3 for a name is its right side where the other is no equation. Decimals are
what they say: 0.33 is not 1/3. The name i is the imaginary unit; other names are positive numbers,
so that sqrt(x^2) is x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from botgrpo.rewards.math.algebra import IMAGINARY_UNIT, difference, form, same
from botgrpo.rewards.math.exact import rational
from botgrpo.rewards.math.numeric import approximate, context
from botgrpo.rewards.math.terms import Terms
from botgrpo.rewards.math.tree import (
    Apply,
    Budget,
    Collection,
    Expr,
    Name,
    Relation,
    Undecided,
    names,
    parts,
)

_MAX_ITEMS = 50
_IMAGINARY = {"i": IMAGINARY_UNIT}
# Nine tenths and so on: positive, off every grid on which expressions meet by chance.
_POINTS = (Fraction(9, 10), Fraction(17, 7), Fraction(53, 11))


def equal(left: Expr, right: Expr, budget: Budget) -> bool | None:
    """Whether both stand for the same value or values; None where it cannot be told.

    Raises `OverBudget`, nothing else.
    """
    try:
        return _equal(_bare(left, right), _bare(right, left), budget)
    except Undecided:
        return None


def _bare(expr: Expr, other: Expr) -> Expr:
    """x = 3 is 3 where the other side names nothing."""
    if isinstance(expr, Relation) and expr.signs == ("=",) and not isinstance(other, Relation):
        name, value = expr.sides
        return value if isinstance(name, Name) else expr
    return expr


def _equal(left: Expr, right: Expr, budget: Budget) -> bool | None:
    left, right = _spread(left), _spread(right)
    if isinstance(left, Collection) or isinstance(right, Collection):
        return _collections(left, right, budget)
    if isinstance(left, Apply) and isinstance(right, Apply) and left.op == right.op == "union":
        return _in_any_order(left.args, right.args, budget)
    if _infinite(left) or _infinite(right):
        return left == right
    if isinstance(left, Relation) or isinstance(right, Relation):
        return _equations(left, right, budget)
    try:
        return rational(left, {}, budget) == rational(right, {}, budget)
    except Undecided:
        return _values(left, right, budget)


def _values(left: Expr, right: Expr, budget: Budget) -> bool | None:
    a, b = form(left, budget, _IMAGINARY), form(right, budget, _IMAGINARY)
    if same(a, b, budget):
        return True
    if not (a.opaque or b.opaque):
        return False
    free = sorted((names(left) | names(right)) - {"e", "i"})
    return _numerically(left, right, free, budget)


def _numerically(left: Expr, right: Expr, free: list[str], budget: Budget) -> bool | None:
    """Equal to 45 digits at every point counts as equal, 20 digits apart at one as different."""
    mp = context()
    for i, point in enumerate(_POINTS):
        env = {n: mp.mpf(point.numerator) / point.denominator + i + j for j, n in enumerate(free)}
        x, y = approximate(left, budget, env), approximate(right, budget, env)
        gap, size = abs(x - y), max(abs(x), abs(y), 1)
        if gap > size * mp.mpf(10) ** -20:
            return False
        if gap > size * mp.mpf(10) ** -45:
            return None
        if not free:
            break
    return True


def _spread(expr: Expr) -> Expr:
    r"""2 \pm 3 as the list -1, 5; one such sign only, since two may go together."""
    if isinstance(expr, Apply) and expr.op == "+-":
        left, right = expr.args
        minus = Apply("neg", (right,), right.start, right.end)
        both = (Apply("+", (left, right)), Apply("+", (left, minus)))
        return Collection("", "", both, expr.start, expr.end)
    if isinstance(expr, Collection) and expr.open in ("", "{"):
        spread = [_spread(item) for item in expr.items]
        items = [
            i
            for s in spread
            for i in (s.items if isinstance(s, Collection) and not s.open else [s])
        ]
        return Collection(expr.open, expr.close, tuple(items), expr.start, expr.end)
    return expr


def _infinite(expr: Expr) -> bool:
    """Infinity or its negative."""
    return Name("oo") in (expr, *parts(expr)) and not isinstance(expr, Collection)


def _collections(left: Expr, right: Expr, budget: Budget) -> bool | None:
    if not isinstance(left, Collection) or not isinstance(right, Collection):
        return False
    loose = ("", "{")
    if left.open in loose and right.open in loose:
        return _in_any_order(left.items, right.items, budget)
    if (left.open or "(", left.close or ")") != (right.open or "(", right.close or ")"):
        return False
    if len(left.items) != len(right.items):
        return False
    return _all(_equal(a, b, budget) for a, b in zip(left.items, right.items, strict=True))


def _all(results: Iterable[bool | None]) -> bool | None:
    found = list(results)
    if False in found:
        return False
    return None if None in found else True


def _in_any_order(left: Sequence[Expr], right: Sequence[Expr], budget: Budget) -> bool | None:
    """As sets: each item of one equals some item of the other."""
    if max(len(left), len(right)) > _MAX_ITEMS:
        raise Undecided("a long list")
    table = [[_equal(a, b, budget) for b in right] for a in left]
    rows = [True if True in row else None if None in row else False for row in table]
    columns = [
        True if True in column else None if None in column else False
        for column in zip(*table, strict=True)
    ]
    if not left or not right:
        return not left and not right
    return _all([*rows, *columns])


def _equations(left: Expr, right: Expr, budget: Budget) -> bool | None:
    """Two equations are one if left minus right of each are proportional; others part by part."""
    if not (isinstance(left, Relation) and isinstance(right, Relation)):
        return False
    if left.signs == right.signs == ("=",):
        a, b = (_zero(r, budget) for r in (left, right))
        return a.keys() == b.keys() and _proportional(a, b)
    if left.signs != right.signs or (left.modulus is None) != (right.modulus is None):
        return None
    return _all(_equal(a, b, budget) for a, b in zip(parts(left), parts(right), strict=True))


def _zero(relation: Relation, budget: Budget) -> Terms:
    left, right = (form(side, budget, _IMAGINARY) for side in relation.sides)
    return difference(left, right, budget)


def _proportional(a: Terms, b: Terms) -> bool:
    ratios = {Fraction(a[m]) / b[m] for m in a}
    return len(ratios) == 1
