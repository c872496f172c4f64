"""Values to 60 decimal places, for what has no exact form; mpmath is imported where it is used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from botgrpo.rewards.math.tree import Apply, Budget, Expr, Name, Number, Undecided

DIGITS = 60
_LARGEST = 1_000_000  # arguments of powers, exponentials and circular functions stay below
_COST = 40  # operations that one operation on long floats counts for


@functools.cache
def context() -> Any:
    """Our own mpmath context, so that nobody's change of precision reaches it."""
    from mpmath.ctx_mp import MPContext

    mp = MPContext()
    mp.dps = DIGITS
    return mp


def approximate(expr: Expr, budget: Budget, env: Mapping[str, Any] | None = None) -> Any:
    """The real value of `expr` as an mpmath number; names of `env` have the values given there.

    Raises `Undecided` for a free name, a value that is not real or not finite, and a power beyond
    any use; `OverBudget` for too much work.
    """
    mp = context()
    try:
        value = _value(expr, budget, env or {}, mp)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        raise Undecided("no real value") from error
    if not mp.isfinite(value) or (isinstance(value, mp.mpc) and value.imag):
        raise Undecided("no real value")
    return value.real


def _value(expr: Expr, budget: Budget, env: Mapping[str, Any], mp: Any) -> Any:
    budget.spend(_COST)
    if isinstance(expr, Number):
        return mp.mpf(expr.value.numerator) / expr.value.denominator
    if isinstance(expr, Name):
        if expr.name in env:
            return env[expr.name]
        if expr.name in ("pi", "e"):
            return +getattr(mp, expr.name)
        raise Undecided(f"no value for {expr.name}")
    function = _FUNCTIONS.get(expr.op) if isinstance(expr, Apply) else None
    if function is None or not isinstance(expr, Apply):
        raise Undecided("no single value")
    args = [_value(arg, budget, env, mp) for arg in expr.args]
    if any(abs(a) > _LARGEST for a in args) and expr.op not in ("+", "neg", "*", "/", "sqrt", "ln"):
        raise Undecided("too large an argument")
    return function(mp, *args)


def _power(mp: Any, base: Any, exponent: Any) -> Any:
    if base == 0 and exponent <= 0:
        raise Undecided("zero to a power that is not positive")
    if base < 0 and exponent != int(exponent):
        raise Undecided("a broken power of a negative number")
    return mp.power(base, exponent)


def _root(mp: Any, degree: Any, value: Any) -> Any:
    if degree != int(degree) or not 1 <= degree <= 64:
        raise Undecided("a root of such a degree")
    if value < 0 and degree % 2:
        return -mp.root(-value, int(degree))
    return _real(mp.root(value, int(degree)), value >= 0)


def _log(mp: Any, *args: Any) -> Any:
    """log_b(x); a bare log is none, since it is read to base 10 and to base e."""
    if len(args) != 2 or args[0] <= 0 or args[1] <= 0 or args[0] == 1:
        raise Undecided("no logarithm")
    return mp.log(args[1]) / mp.log(args[0])


def _real(value: Any, holds: bool) -> Any:
    if not holds:
        raise Undecided("no real value")
    return value


def _circular(name: str) -> Callable[..., Any]:
    return lambda mp, angle: getattr(mp, name)(angle)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": lambda mp, *args: mp.fsum(args),
    "neg": lambda mp, a: -a,
    "*": lambda mp, a, b: a * b,
    "/": lambda mp, a, b: a / b,
    "mixed": lambda mp, a, b: a + b,
    "percent": lambda mp, a: a / 100,
    "^": _power,
    "sqrt": lambda mp, a: _real(mp.sqrt(a), a >= 0),
    "cbrt": lambda mp, a: _root(mp, 3, a),
    "root": _root,
    "abs": lambda mp, a: abs(a),
    "exp": lambda mp, a: mp.exp(a),
    "ln": lambda mp, a: _real(mp.log(a), a > 0) if a > 0 else _real(a, False),
    "log": _log,
    **{f: _circular(f) for f in ("sin", "cos", "tan", "sec", "csc", "cot", "sinh", "cosh", "tanh")},
    "arctan": lambda mp, a: mp.atan(a),
    "arcsin": lambda mp, a: _real(mp.asin(a), abs(a) <= 1),
    "arccos": lambda mp, a: _real(mp.acos(a), abs(a) <= 1),
}
