"""Small measures of a tree that decide how strictly a claim is taken."""

from __future__ import annotations

from botgrpo.rewards.math.operations import Rational
from botgrpo.rewards.math.tree import Apply, Expr, Name, Number, parts


def is_name(expr: Expr) -> bool:
    """A variable on its own."""
    return isinstance(expr, Name) and expr.name not in ("pi", "oo")


def is_literal(expr: Expr) -> bool:
    """A printed number, perhaps with a sign or a percent sign."""
    while isinstance(expr, Apply) and expr.op in ("neg", "percent"):
        expr = expr.args[0]
    return isinstance(expr, Number)


def printed_decimals(expr: Expr) -> int:
    """Digits after the point, the most that a number of the tree has; two more for percent."""
    if isinstance(expr, Number):
        return expr.decimals
    inner = max(map(printed_decimals, parts(expr)), default=0)
    return inner + 2 if isinstance(expr, Apply) and expr.op == "percent" else inner


def has_decimals(expr: Expr) -> bool:
    """Whether some number of the tree is printed with a decimal point."""
    if isinstance(expr, Number):
        return expr.decimals > 0
    return any(map(has_decimals, parts(expr)))


def size(expr: Expr) -> int:
    """How many operations a tree has, signs not counted."""
    own = isinstance(expr, Apply) and expr.op != "neg"
    return own + sum(map(size, parts(expr)))


def is_trivial(left: Expr, right: Expr) -> bool:
    """The same twice, or at most one operation on numbers of one digit."""
    if left == right:
        return True
    small = size(left) + size(right) <= 1
    return small and all(value < 10 for value in _numbers(left) + _numbers(right))


def e_is_constant(expr: Expr) -> bool:
    """Whether each e of the tree is the base of a power: then it is no variable."""
    if isinstance(expr, Apply) and expr.op == "^" and expr.args[0] == Name("e"):
        return e_is_constant(expr.args[1])
    return expr != Name("e") and all(map(e_is_constant, parts(expr)))


def _numbers(expr: Expr) -> list[Rational]:
    if isinstance(expr, Number):
        return [expr.value]
    return [value for part in parts(expr) for value in _numbers(part)]
