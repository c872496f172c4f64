"""A worked solution as it is written: every claim is checked when it is made, or is a known slip.

A family's solver states its claims through `Work` and goes on with the values that `Work` gives
back. A *slip* puts a false statement in the place of a true one; what follows is then computed
from it, as by a student who did not notice. Without slips every claim of a solution is true.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from random import Random


@dataclass(frozen=True, slots=True)
class Equation:
    """`left=right`: an expression over integers and its value."""

    left: str
    right: int

    @property
    def text(self) -> str:
        return f"{self.left}={self.right}"

    @property
    def question(self) -> str:
        return self.left

    @property
    def holds(self) -> bool:
        return evaluate(self.left) == self.right


@dataclass(frozen=True, slots=True)
class Congruence:
    """`left≡right (mod modulus)`."""

    left: int
    right: int
    modulus: int

    @property
    def text(self) -> str:
        return f"{self.left}≡{self.right} (mod {self.modulus})"

    @property
    def question(self) -> str:
        return f"{self.left} mod {self.modulus}"

    @property
    def holds(self) -> bool:
        return (self.left - self.right) % self.modulus == 0


@dataclass(frozen=True, slots=True)
class Listing:
    """All cases of something, in order; `complete` is what must stand there."""

    cases: tuple[int, ...]
    complete: tuple[int, ...]

    @property
    def text(self) -> str:
        return ", ".join(map(str, self.cases))

    @property
    def holds(self) -> bool:
        return self.cases == self.complete


Statement = Equation | Congruence | Listing
Slip = Callable[[Statement], "tuple[str, Statement] | None"]


class CannotGoOn(Exception):
    """A slip made a value with which the solution has no next line (a fraction, say)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement where it stands.

    Attributes:
        start, end: [start, end) in code points of the solution.
        step: index of its step, from 0.
        statement: what is claimed.
        error: kind of the slip, "" for a true claim.
    """

    start: int
    end: int
    step: int
    statement: Statement
    error: str = ""


@dataclass(frozen=True, slots=True)
class Solution:
    """A solution in the paper's format: `<step i>` blocks, then `<final>`.

    Attributes:
        text: the whole of it.
        steps: [start, end) of what stands between the tags of each step.
        claims: in order of appearance.
        answer: what stands in `<final>`.
    """

    text: str
    steps: tuple[tuple[int, int], ...]
    claims: tuple[Claim, ...]
    answer: int


class Work:
    """Writes one solution; `slip` is asked before each claim and may give a false one instead."""

    def __init__(self, slip: Slip | None = None) -> None:
        self._slip = slip
        self._text = ""
        self._steps: list[list[int]] = []
        self._claims: list[Claim] = []

    def step(self, words: str) -> None:
        """Open the next step with a few words and a colon."""
        self._close()
        self._text += f"<step {len(self._steps) + 1}>"
        self._steps.append([len(self._text), 0])
        self._text += words

    def equal(self, left: str) -> int:
        """State the value of an expression; returns the value as stated."""
        left = _NEGATIVE.sub(r"(\1)", left)
        try:
            value = evaluate(left)
        except (ValueError, ZeroDivisionError) as error:  # C(-1,2), 12/0
            raise CannotGoOn(str(error)) from None
        if value.denominator != 1:
            raise CannotGoOn(f"{left} is {value}")
        shown = self._state(Equation(left, int(value)))
        assert isinstance(shown, Equation)
        return shown.right

    def mod(self, value: int, modulus: int) -> int:
        """State what is left of `value`; nothing is stated where it is smaller than the modulus."""
        if 0 <= value < modulus:
            return value
        shown = self._state(Congruence(value, value % modulus, modulus))
        assert isinstance(shown, Congruence)
        return shown.right

    def all_of(self, cases: tuple[int, ...]) -> tuple[int, ...]:
        """State all cases; returns those stated."""
        shown = self._state(Listing(cases, cases))
        assert isinstance(shown, Listing)
        return shown.cases

    def done(self, answer: int) -> Solution:
        """Close the last step and give the answer."""
        self._close()
        text = f"{self._text}<final>{answer}</final>"
        return Solution(text, tuple((a, b) for a, b in self._steps), tuple(self._claims), answer)

    def _state(self, statement: Statement) -> Statement:
        slipped = self._slip(statement) if self._slip else None
        error, shown = slipped or ("", statement)
        if shown.holds != (not error):
            raise AssertionError(f"{shown.text} is {'true' if error else 'false'}")
        self._text += " " if self._text.endswith(":") else ", "
        start = len(self._text)
        self._text += shown.text
        self._claims.append(Claim(start, len(self._text), len(self._steps) - 1, shown, error))
        return shown

    def _close(self) -> None:
        if self._steps and not self._steps[-1][1]:
            self._steps[-1][1] = len(self._text)
            self._text += f"</step {len(self._steps)}>\n"


_NEGATIVE = re.compile(r"(?<=[-+*/])(-\d+)")
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: lambda base, exponent: Fraction(base ** int(exponent)),
}


@lru_cache(maxsize=65536)
def evaluate(expression: str) -> Fraction:
    """Exact value of one of our own expressions: integers, + - * / ^, brackets, C(n,k)."""
    return _value(ast.parse(expression.replace("^", "**"), mode="eval").body)


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant):
        return Fraction(int(str(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Call):
        n, k = (int(_value(argument)) for argument in node.args)
        return Fraction(math.comb(n, k))
    raise ValueError(f"no value for {ast.dump(node)}")


# ---- slips: a false statement in the place of a true one

KINDS = ("digit", "sign", "operator", "off_by_one", "dropped_case", "wrong_modulus")


def slip(statement: Statement, kind: str, rng: Random) -> Statement | None:
    """A false statement with an error of this kind; None where the statement offers none."""
    offers = [s for s in _OFFERS[kind](statement) if not s.holds]
    return rng.choice(offers) if offers else None


def _digit(statement: Statement) -> list[Statement]:
    if isinstance(statement, Listing):
        return []
    digits = str(statement.right)
    changed = {
        int(digits[:i] + other + digits[i + 1 :])
        for i, digit in enumerate(digits)
        for other in "0123456789"
        if digit != "-" and (other != "0" or i > 0 or len(digits) == 1)
    }
    return [replace(statement, right=value) for value in sorted(changed)]


def _sign(statement: Statement) -> list[Statement]:
    return [] if isinstance(statement, Listing) else [replace(statement, right=-statement.right)]


def _operator(statement: Statement) -> list[Statement]:
    if not isinstance(statement, Equation):
        return []
    swap = {"+": "-", "-": "+", "*": "+", "/": "*"}
    places = [m.start() for m in re.finditer(r"(?<=[\d)])[-+*/]", statement.left)]
    lefts = [statement.left[:i] + swap[statement.left[i]] + statement.left[i + 1 :] for i in places]
    return [replace(statement, left=left) for left in lefts]


def _off_by_one(statement: Statement) -> list[Statement]:
    if isinstance(statement, Listing):
        return []
    return [
        replace(statement, right=value)
        for value in (statement.right - 1, statement.right + 1)
        if value >= 0
    ]


def _dropped_case(statement: Statement) -> list[Statement]:
    if not isinstance(statement, Listing) or len(statement.cases) < 2:
        return []
    cases = statement.cases
    return [replace(statement, cases=cases[:i] + cases[i + 1 :]) for i in range(len(cases))]


def _wrong_modulus(statement: Statement) -> list[Statement]:
    if not isinstance(statement, Congruence):
        return []
    near = (statement.modulus - 1, statement.modulus + 1)
    return [replace(statement, modulus=m) for m in near if m > max(1, statement.right)]


_OFFERS: dict[str, Callable[[Statement], list[Statement]]] = {
    "digit": _digit,
    "sign": _sign,
    "operator": _operator,
    "off_by_one": _off_by_one,
    "dropped_case": _dropped_case,
    "wrong_modulus": _wrong_modulus,
}
