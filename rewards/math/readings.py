"""Other readings of a formula that are in use, tried before a claim is called false."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo.rewards.math.tree import Apply, Expr, Name, Number, parts

_CIRCULAR = frozenset(("sin", "cos", "tan", "sec", "csc", "cot"))
Change = Callable[[Apply], Apply]


def other_readings(expr: Expr) -> list[Expr]:
    """Each convention applied throughout: 3 1/2 as a product, -2^2 as (-2)^2, a/bc as a/(bc),
    sin 30 in degrees."""
    found = []
    for change in (_mixed_as_product, _sign_inside_power, _slash_takes_all, _degrees):
        other = _everywhere(expr, change)
        if other != expr:
            found.append(other)
    return found


def _everywhere(expr: Expr, change: Change) -> Expr:
    if not isinstance(expr, Apply):
        return expr
    args = tuple(_everywhere(arg, change) for arg in expr.args)
    if change is _sign_inside_power and expr.op == "+":
        # in 5 - 2^2 the sign is the sum's, only the first term may have one of its own
        args = (args[0], *expr.args[1:])
    return change(Apply(expr.op, args, expr.start, expr.end))


def _mixed_as_product(expr: Apply) -> Apply:
    return Apply("*", expr.args, expr.start, expr.end) if expr.op == "mixed" else expr


def _sign_inside_power(expr: Apply) -> Apply:
    (inner, *_) = expr.args
    if expr.op != "neg" or not isinstance(inner, Apply) or inner.op != "^":
        return expr
    base, exponent = inner.args
    return Apply("^", (Apply("neg", (base,)), exponent), expr.start, expr.end)


def _slash_takes_all(expr: Apply) -> Apply:
    left = expr.args[0]
    if expr.op != "*" or not isinstance(left, Apply) or left.op != "/":
        return expr
    top, bottom = left.args
    return Apply("/", (top, Apply("*", (bottom, expr.args[1]))), expr.start, expr.end)


def _degrees(expr: Apply) -> Apply:
    if expr.op not in _CIRCULAR or Name("pi") in parts(expr.args[0]):
        return expr
    turned = Apply("/", (Apply("*", (expr.args[0], Name("pi"))), Number(180)))
    return Apply(expr.op, (turned,), expr.start, expr.end)
