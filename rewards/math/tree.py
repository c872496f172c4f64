"""What mathematical text is made of: a small tree with exact places, and counted work.

Every node knows the half-open [start, end) in code points of the text that it was read from;
places do not count when two trees are compared. Work on a tree is bounded by a `Budget` that
counts operations and digits, never by the clock, so that the same text always ends the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

MAX_BITS = 32_768  # of one number: 2^2024 and 2024! fit, a tower of powers does not


class MathError(ValueError):
    """Text that cannot be read or decided here; its message is a short reason."""


class ParseError(MathError):
    """Not an expression of our grammar."""


class Ambiguous(ParseError):
    """An expression that readers take in two ways, such as 1/2x or 2^n!."""


class Undecided(MathError):
    """Read, but without a value here: a free symbol, a division by zero, no exact form."""


class OverBudget(MathError):
    """More operations or digits than this text is allowed."""


class Budget:
    """Counts work and refuses more than `operations`; one operation takes about a microsecond.

    An operation on long numbers counts as many, so that the bound holds for digits as well.
    """

    def __init__(self, operations: int = 20_000) -> None:
        self.operations = operations
        self.used = 0

    def spend(self, count: int = 1) -> None:
        """Count `count` operations. Raises `OverBudget` when that is more than is left."""
        self.used += count
        if self.used > self.operations:
            self.used = self.operations + 1
            raise OverBudget(f"more than {self.operations} operations")

    def spend_bits(self, bits: int) -> None:
        """Count one operation on numbers of `bits` bits. Raises `OverBudget` past `MAX_BITS`."""
        if bits > MAX_BITS:
            raise OverBudget(f"a number of more than {MAX_BITS} bits")
        self.spend(1 + (bits * bits >> 18))


@dataclass(frozen=True, slots=True)
class Number:
    """A number as printed: 3, 1,200 or 0.25 with `decimals` digits after the point."""

    value: int | Fraction
    decimals: int = 0
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or constant: x, a_{1}, alpha, pi, oo (infinity); a subscript is part of it."""

    name: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    r"""Words inside a formula, such as the unit in 5\text{ cm}."""

    text: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on parts.

    `op` is one of "+" (any number of parts), "neg", "*", "/", "^", "!", "mod", "percent", "degree",
    "mixed" (3 1/2 in one of its readings), "+-", "sqrt", "root" (degree, radicand), "binom",
    "perm", "log" (base, value), "sum" and "prod" (name, low, high, body), "call" (name, arguments),
    "union", or the name of a function such as "gcd", "floor" or "sin".
    """

    op: str
    args: tuple[Expr, ...]
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Collection:
    r"""Several values: (1, 2), [0, 1), \{1, 2\}; a bare list has empty brackets."""

    open: str
    close: str
    items: tuple[Expr, ...]
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain such as a = b < c: n signs between n + 1 sides.

    Signs are = ≠ < > ≤ ≥ ≈ ≡ ∣ (divides). `modulus` belongs to the whole chain; with it every = is
    a ≡.
    """

    signs: tuple[str, ...]
    sides: tuple[Expr, ...]
    modulus: Expr | None = None
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


Expr = Number | Name | Text | Apply | Collection | Relation


def moved(expr: Expr, start: int, end: int) -> Expr:
    """The same node at another place: with the brackets around it, say."""
    if isinstance(expr, Apply):  # the usual case, ten times as fast as `replace`
        return Apply(expr.op, expr.args, start, end)
    return replace(expr, start=start, end=end)


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of a node."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Collection):
        return expr.items
    if isinstance(expr, Relation):
        return expr.sides if expr.modulus is None else (*expr.sides, expr.modulus)
    return ()


def names(expr: Expr) -> frozenset[str]:
    """The variables of a tree: all names but constants and the index of a sum or product."""
    found: set[str] = set()
    rest = [expr]
    while rest:
        node = rest.pop()
        if isinstance(node, Apply):
            if node.op in ("sum", "prod"):
                index = names(node.args[0])
                found |= frozenset().union(*map(names, node.args[1:])) - index
            else:
                rest += node.args[1:] if node.op == "call" else node.args
        elif isinstance(node, Name):
            if node.name not in ("pi", "oo"):
                found.add(node.name)
        else:
            rest += parts(node)
    return frozenset(found)


def ops(expr: Expr) -> frozenset[str]:
    """The operations that occur in a tree."""
    found: set[str] = set()
    rest = [expr]
    while rest:
        node = rest.pop()
        if isinstance(node, Apply):
            found.add(node.op)
        rest += parts(node)
    return frozenset(found)
