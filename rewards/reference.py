"""The grammar of a reward reference, `NAME` or `NAME(argument, key=value)`; never evaluated."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from botgrpo.sandbox.errors import ConfigError

_LONGEST = 2000  # keeps Python's parser away from hostile nesting


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference; arguments are literals or further references."""

    name: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def parse(text: str) -> Reference:
    """Parse a reference; `ConfigError` says what was got and what is allowed.

    A name as an argument is a reference (`react.compile`); one with `/` or `:` is written in
    quotes, and the reward that takes it builds it.
    """
    text = text.strip()
    head, bracket, rest = text.partition("(")
    name = head.strip()
    if len(text) > _LONGEST or not name or (bracket and not text.endswith(")")):
        raise _wrong(text)
    if not bracket:
        return Reference(name)
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _wrong(text) from error
    # `a(1)(2)` or `a(1) + b(2)` would parse too, but not as one call of the first name.
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _wrong(text)
    return _call(name, call, text)


def _call(name: str, call: ast.Call, text: str) -> Reference:
    if any(keyword.arg is None for keyword in call.keywords):
        raise _wrong(text)
    options = {str(k.arg): _value(k.value, text) for k in call.keywords}
    return Reference(name, tuple(_value(a, text) for a in call.args), options)


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Call):
        return _call(_dotted(node.func, text), node, text)
    if isinstance(node, ast.Attribute | ast.Name):
        return Reference(_dotted(node, text))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        raise _wrong(text) from error


def _dotted(node: ast.expr, text: str) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, text)}.{node.attr}"
    raise _wrong(text)


def _wrong(text: str) -> ConfigError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return ConfigError(
        f"got the reward reference {shown!r}; allowed: NAME or NAME(argument, key=value) with "
        "literals and further names as arguments, e.g. noise.gaussian(react.compile, sigma=0.5); "
        'a name with / or : as an argument in quotes, e.g. noise.flip("path.py:name")'
    )
