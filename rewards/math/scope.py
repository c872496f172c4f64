"""What the names of a text stand for: definitions, functions, and equations not yet solved.

A name is bound to the value that the text printed last for it, so that one error is charged once.
What is bound under a condition ("when x = 2", "suppose n = 7") holds to the end of its step only.
"""

from __future__ import annotations

from botgrpo.rewards.math.algebra import Form, form, number
from botgrpo.rewards.math.exact import Function, rational
from botgrpo.rewards.math.measures import is_name
from botgrpo.rewards.math.operations import Rational
from botgrpo.rewards.math.roots import Premise
from botgrpo.rewards.math.tree import Budget, Expr, MathError, names

MAX_NAMES = 200
MAX_PREMISES = 8


class Scope:
    """Bindings of one completion, step by step."""

    def __init__(self) -> None:
        self.values: dict[str, Rational | Function] = {}
        self.forms: dict[str, Form] = {}
        self.premises: list[Premise] = []
        self.conditional: set[str] = set()
        self.moduli: frozenset[int] = frozenset()

    def next_step(self) -> None:
        """Forget what held under a condition, and all equations but the last."""
        for name in self.conditional:
            self.drop(name)
        self.conditional.clear()
        del self.premises[:-1]

    def bind(self, name: str, value: Expr, budget: Budget, *, conditional: bool) -> None:
        """`name` stands for the value of a closed expression from now on."""
        self.drop(name)
        if len(self.forms) >= MAX_NAMES:
            return
        try:
            exact = rational(value, self.values, budget)
        except MathError:
            try:
                self.forms[name] = form(value, budget, self.forms)
            except MathError:
                return
        else:
            self.values[name] = exact
            self.forms[name] = number(exact)
        if conditional:
            self.conditional.add(name)

    def define(self, name: str, parameters: tuple[str, ...], body: Expr) -> None:
        """`name` is a function from now on."""
        self.drop(name)
        if len(self.values) < MAX_NAMES and names(body) == {*parameters} and not is_name(body):
            self.values[name] = Function(parameters, body)

    def drop(self, name: str) -> None:
        """`name` stands for nothing that is known."""
        self.values.pop(name, None)
        self.forms.pop(name, None)

    def state(self, premise: Premise) -> None:
        """Remember an equation in one unknown."""
        self.premises.append(premise)
        del self.premises[:-MAX_PREMISES]

    @property
    def functions(self) -> frozenset[str]:
        """Names that take an argument in brackets."""
        return frozenset(n for n, value in self.values.items() if isinstance(value, Function))
