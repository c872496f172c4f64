"""The parts of a formula that stand for one value: numbers, names, brackets, commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from botgrpo.rewards.math.tokens import Cursor, Token
from botgrpo.rewards.math.tree import (
    Ambiguous,
    Apply,
    Collection,
    Expr,
    Name,
    Number,
    OverBudget,
    ParseError,
    Text,
    moved,
)

MAX_DEPTH = 30
_CLOSING = {"(": (")", "]"), "[": ("]", ")"), r"\{": (r"\}",)}
_ENCLOSED = {"|": ("abs", "|"), "⌊": ("floor", "⌋"), "⌈": ("ceil", "⌉")}
_SEVERAL = ("gcd", "lcm", "max", "min")
_POSTFIX = {"^": "^", "sup": "^", "!": "!", "%": "percent", "°": "degree"}


class Atoms(Cursor, ABC):
    """Reads atoms and what is attached to them.

    Every level of brackets counts towards `MAX_DEPTH`, which bounds the recursion.
    """

    def __init__(self, tokens: list[Token], applied: frozenset[str]) -> None:
        super().__init__(tokens)
        self.applied = applied
        self.depth = 0
        self.bars = 0
        self.bracketed: set[tuple[int, int]] = set()
        self.divides = sum(t.value == "|" for t in tokens) == 1

    @abstractmethod
    def sum(self) -> Expr:
        """What stands in brackets or braces."""

    @abstractmethod
    def product(self) -> Expr:
        """The body of a big sum or product."""

    def items(self, opening: Token, closing: tuple[str, ...]) -> Expr:
        """What stands in brackets: one sum, or several as a `Collection`."""
        items: list[Expr] = []
        if self.next.kind not in closing:
            items.append(self.sum())
            while self.accept(",", ";"):
                items.append(self.sum())
        close = self.expect(*closing)
        if len(items) == 1 and opening.value in "([":
            self.bracketed.add((opening.start, close.end))
            return moved(items[0], opening.start, close.end)
        if not items and opening.value != r"\{":
            raise ParseError("empty brackets")
        return Collection(
            opening.value.removeprefix("\\"),
            close.value.removeprefix("\\"),
            tuple(items),
            opening.start,
            close.end,
        )

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OverBudget(f"more than {MAX_DEPTH} levels of brackets")

    def postfix(self, base: Expr) -> Expr:
        while self.next.kind in _POSTFIX:
            token = self.take()
            if token.kind == "^":
                base = self.power(base)
            elif token.kind == "sup":
                power = integer(token.value, token.start, token.end)
                base = Apply("^", (base, power), base.start, token.end)
            else:
                if token.kind == "!" and (self.next.kind == "!" or self.attached(base)):
                    raise Ambiguous("n!! or 2^n!")
                base = Apply(_POSTFIX[token.kind], (base,), base.start, token.end)
        return base

    def attached(self, expr: Expr) -> bool:
        """A power, factorial or sum that no brackets keep together."""
        loose = isinstance(expr, Apply) and expr.op in ("^", "!", "+", "neg")
        return loose and (expr.start, expr.end) not in self.bracketed

    def power(self, base: Expr) -> Expr:
        if self.accept("°"):
            return Apply("degree", (base,), base.start, self.last_end)
        self.enter()
        sign = self.accept("-")
        exponent = self.atom()
        if sign is not None:
            exponent = Apply("neg", (exponent,), sign.start, exponent.end)
        if self.accept("^"):
            exponent = self.power(exponent)
        self.depth -= 1
        if isinstance(exponent, Apply) and exponent.op == "degree":
            raise ParseError("a degree as an exponent")
        return Apply("^", (base, exponent), base.start, exponent.end)

    def atom(self) -> Expr:
        self.enter()
        result = self.one()
        self.depth -= 1
        return result

    def one(self) -> Expr:
        token = self.take()
        kind = token.kind
        if kind == "num":
            return self.number(token)
        if kind == "name":
            return self.name(token)
        if kind in _CLOSING:
            return self.items(token, _CLOSING[kind])
        if kind in ("{", "boxed"):
            if kind == "{":
                self.go(self.at - 1)
            return moved(self.argument(), token.start, self.last_end)
        if kind in ("frac", "binom"):
            args = (self.argument(), self.argument())
            return Apply("/" if kind == "frac" else kind, args, token.start, self.last_end)
        if kind == "func":
            return self.function(token)
        if kind == "√":
            return self.root(token)
        if kind in _ENCLOSED and not (kind == "|" and self.divides):
            return self.enclosed(token)
        if kind in ("∑", "∏"):
            return self.big(token)
        if kind == "text":
            return Text(token.value, token.start, token.end)
        raise ParseError(f"{token.value[:20] or 'the end'!r} where a value should stand")

    def number(self, token: Token) -> Expr:
        if self.next.kind == "_":
            self.take()
            base = self.argument()
            if not isinstance(base, Number) or base.decimals or not 2 <= base.value <= 10:
                raise ParseError("a number with a subscript that is no base from 2 to 10")
            try:
                value = int(token.value, int(base.value))
            except ValueError:
                raise ParseError("digits that the base does not have") from None
            return Number(value, 0, token.start, self.last_end)
        if token.value.isdigit():
            return Number(int(token.value), 0, token.start, token.end)
        decimals = len(token.value.partition(".")[2])
        return Number(Fraction(token.value), decimals, token.start, token.end)

    def name(self, token: Token) -> Expr:
        start, name = token.start, token.value
        if self.next.kind == "_":
            self.take()
            name = f"{name}_{{{self.subscript()}}}"
        result: Expr = Name(name, start, self.last_end)
        applies = name[0] in self.applied or name in self.applied
        if self.next.kind == "(" and (applies or name in ("C", "P")):
            here = self.at
            inner = self.items(self.take(), (")",))
            arguments = inner.items if isinstance(inner, Collection) else (inner,)
            if name in ("C", "P") and len(arguments) == 2:
                op = "binom" if name == "C" else "perm"
                return Apply(op, arguments, start, self.last_end)
            if applies:
                return Apply("call", (result, *arguments), start, self.last_end)
            self.go(here)
        return result

    def subscript(self) -> str:
        """The subscript without spaces; one token, or what stands in braces."""
        if not self.accept("{"):
            token = self.take()
            if token.kind not in ("num", "name", "text"):
                raise ParseError("a subscript that is no number or name")
            return token.value
        values: list[str] = []
        while not self.accept("}"):
            token = self.take()
            if token.kind in ("end", "{", "=", "_"):
                raise ParseError("a subscript that is no simple one")
            values.append(token.value)
        return "".join(values)

    def argument(self) -> Expr:
        r"""One argument of a LaTeX command: a braced group, or one digit, letter or command."""
        if self.accept("{"):
            inner = self.sum()
            self.expect("}")
            return inner
        token = self.next
        if token.kind == "num" and len(token.value) > 1 and token.value.isdigit():
            cut = token.start + 1
            self.tokens[self.at] = self.next = Token("num", token.value[1:], cut, token.end)
            return integer(token.value[0], token.start, cut)
        if token.kind in ("-", "+", "^"):
            raise ParseError("a sign where an argument should stand")
        return self.atom()

    def root(self, token: Token) -> Expr:
        degree = None
        if self.next.kind == "[":
            self.take()
            degree = self.sum()
            self.expect("]")
        plain = self.next.kind == "num"
        inner = self.atom() if plain else self.argument()
        if degree is None:
            return Apply("sqrt", (inner,), token.start, self.last_end)
        return Apply("root", (degree, inner), token.start, self.last_end)

    def enclosed(self, opening: Token) -> Expr:
        """|a|, floor or ceiling: no list inside."""
        op, closing = _ENCLOSED[opening.kind]
        self.bars += op == "abs"
        inner = self.sum()
        self.expect(closing)
        self.bars -= op == "abs"
        return Apply(op, (inner,), opening.start, self.last_end)

    def function(self, token: Token) -> Expr:
        op = token.value
        extra: tuple[Expr, ...] = ()
        power: Expr | None = None
        if op == "log" and self.next.kind == "_":
            self.take()
            extra = (self.argument(),)
        if self.accept("^"):
            power = self.argument()
            if isinstance(power, Apply) and power.op == "neg":
                raise Ambiguous("a function to a negative power: its inverse or its reciprocal")
        if self.next.kind == "(":
            inner = self.items(self.take(), (")",))
            args = inner.items if isinstance(inner, Collection) else (inner,)
        else:
            args = (self.bare_argument(),)
        if op not in _SEVERAL and len(args) != (2 if op == "binom" else 1):
            raise ParseError(f"{op} of {len(args)} values")
        result: Expr = Apply(op, (*extra, *args), token.start, self.last_end)
        if power is not None:
            result = Apply("^", (result, power), token.start, self.last_end)
        return result

    def bare_argument(self) -> Expr:
        """sin 2x: the factors that stand side by side, up to a sign or the next function."""
        left = self.postfix(self.atom())
        while self.next.kind in ("name", "√", "frac"):
            right = self.postfix(self.atom())
            left = Apply("*", (left, right), left.start, right.end)
        if self.next.kind == "/":
            raise Ambiguous("a function without brackets before a slash")
        return left

    def big(self, token: Token) -> Expr:
        self.expect("_")
        self.expect("{")
        index = self.atom()
        self.expect("=")
        low = self.sum()
        self.expect("}")
        self.expect("^")
        high = self.argument()
        body = self.product()
        if not isinstance(index, Name):
            raise ParseError("a sum over something that is no name")
        op = "sum" if token.value == "∑" else "prod"
        return Apply(op, (index, low, high, body), token.start, self.last_end)


def integer(digits: str, start: int, end: int) -> Number:
    try:
        return Number(int(digits), 0, start, end)
    except ValueError:
        raise ParseError("an exponent that is no number") from None
