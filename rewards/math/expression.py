r"""Our own grammar for LaTeX and plain-text mathematics: `parse(text, budget=Budget()) -> Expr`.

A whitelist: what the grammar does not know is a `ParseError`, what readers take in two ways is
`Ambiguous` (1/2x, 2^n!, 7 + 5 mod 3). Nothing is evaluated here, and nothing that a model wrote
reaches `eval` or a library's string parser.

    relation  = sum (sign sum)* [(mod m)]            sign: = ≠ < > ≤ ≥ ≈ ≡ ∣
    sum       = product (("+" | "-" | "±") product)*
    product   = factor ((* | /) factor | factor)*    side by side is a product
    factor    = ["-"] atom ["^" exponent] ["!" | "%" | "°"]
    atom      = number | name | (list) | [list] | \{list\} | |sum| | \frac | \sqrt | \binom | f(x) |
                gcd(a, b) | \log_b x | \sum_{i=1}^{n} product | \lfloor sum \rfloor | \boxed{...}
"""

from __future__ import annotations

from botgrpo.rewards.math.atoms import Atoms
from botgrpo.rewards.math.tokens import tokenize
from botgrpo.rewards.math.tree import (
    Ambiguous,
    Apply,
    Budget,
    Collection,
    Expr,
    Number,
    ParseError,
    Relation,
    moved,
)

APPLIED = frozenset("fgh")  # letters that are functions before a bracket; others are factors
_SIGNS = frozenset("=≠<>≤≥≈≡∣")
_SUMS = {"+": "+", "-": "neg", "±": "+-", "∪": "union"}
_BRACKETS = ("(", "[", "{", r"\{", "⌊", "⌈")
_STARTS = frozenset((*_BRACKETS, "name", "func", "text", "√", "frac", "binom", "boxed", "∑", "∏"))


def parse(text: str, *, budget: Budget, applied: frozenset[str] = APPLIED) -> Expr:
    """The tree of a formula; places are code points of `text`.

    A bare list "3, 5" is a `Collection` without brackets, a chain of signs a `Relation`. `applied`
    are the names that take an argument in brackets, f(x); any other name before a bracket is a
    factor, x(x + 1).

    Raises `ParseError`, `Ambiguous` or `OverBudget`, all `MathError`.
    """
    return _Parser(tokenize(text, budget), applied).whole()


class _Parser(Atoms):
    """Recursive descent: relations, sums and products over atoms."""

    def whole(self) -> Expr:
        items = [self.relation()]
        while self.accept(",", ";"):
            items.append(self.relation())
        self.accept(".")
        if self.next.kind != "end":
            raise ParseError(f"{self.next.value[:20]!r} after the formula")
        if len(items) == 1:
            return items[0]
        return Collection("", "", tuple(items), items[0].start, items[-1].end)

    def relation(self) -> Expr:
        signs: list[str] = []
        sides = [self.sum()]
        modulus: Expr | None = None
        bracketed = False
        while True:
            if self.next.kind in _SIGNS or self.bar_divides():
                sign = self.take().kind
                signs.append("∣" if sign == "|" else sign)
                sides.append(self.sum())
            elif modulus is None and (found := self.modulus()) is not None:
                modulus, bracketed = found
                if not self.ends_side():
                    if bracketed or self.next.kind not in _SIGNS:
                        raise ParseError("more after the modulus")
                    sides[-1] = self.reduced(sides[-1], modulus, bracketed)
                    modulus = None
            else:
                break
        if not signs:
            return sides[0] if modulus is None else self.reduced(sides[0], modulus, bracketed)
        if modulus is not None:
            if any(sign not in "=≡≠" for sign in signs):
                raise ParseError("a modulus after an inequality")
            signs = ["≡" if sign == "=" else sign for sign in signs]
        return Relation(tuple(signs), tuple(sides), modulus, sides[0].start, self.last_end)

    def reduced(self, side: Expr, modulus: Expr, bracketed: bool) -> Expr:
        if (
            not bracketed
            and self.attached(side)
            and isinstance(side, Apply)
            and side.op in ("+", "neg")
        ):
            raise Ambiguous("a sum before mod")
        return Apply("mod", (side, modulus), side.start, modulus.end)

    def bar_divides(self) -> bool:
        return self.next.kind == "|" and self.divides

    def ends_side(self) -> bool:
        return self.next.kind in ("end", ",", ";", ".")

    def modulus(self) -> tuple[Expr, bool] | None:
        """(m, True) of \\pmod{m} or (mod m), (m, False) of "mod m" without brackets."""
        if self.accept("pmod"):
            return self.argument(), True
        if self.next.kind == "(" and self.tokens[self.at + 1].kind == "mod":
            self.go(self.at + 2)
            inner = self.sum()
            self.expect(")")
            return inner, True
        if self.accept("mod"):
            return self.factor(), False
        return None

    def sum(self) -> Expr:
        terms = [self.product()]
        while self.next.kind in _SUMS:
            sign = self.take()
            term = self.product()
            if sign.kind == "+":
                terms.append(term)
            elif sign.kind == "-":
                terms.append(Apply("neg", (term,), sign.start, term.end))
            else:
                left = _sum(terms)
                terms = [Apply(_SUMS[sign.kind], (left, term), left.start, term.end)]
        return _sum(terms)

    def product(self) -> Expr:
        left = self.factor()
        after_slash = False
        while True:
            kind = self.next.kind
            if kind in ("*", "/", ":"):
                self.take()
                right, op = self.factor(), "*" if kind == "*" else "/"
                after_slash = op == "/"
            elif self.starts_factor():
                if after_slash:
                    raise Ambiguous("a factor beside a divisor, as in 1/2x")
                mixed = kind == "frac" and isinstance(left, Number) and not left.decimals
                right = self.factor()
                op = "mixed" if mixed and _is_proper(right) else "*"
            else:
                return left
            left = Apply(op, (left, right), left.start, right.end)

    def starts_factor(self) -> bool:
        kind = self.next.kind
        if kind == "num":
            raise ParseError("a number right after a factor")
        if kind == "|":
            return self.bars == 0 and not self.divides
        return kind in _STARTS and not (kind == "(" and self.tokens[self.at + 1].kind == "mod")

    def factor(self) -> Expr:
        sign = self.accept("-", "+", "±")
        if sign is not None:
            self.enter()  # a row of signs nests as well
            inner = self.factor()
            self.depth -= 1
            if sign.kind == "+":
                return moved(inner, sign.start, inner.end)
            if sign.kind == "±":
                zero = Number(0, 0, sign.start, sign.start)
                return Apply("+-", (zero, inner), sign.start, inner.end)
            return Apply("neg", (inner,), sign.start, inner.end)
        return self.postfix(self.atom())


def _sum(terms: list[Expr]) -> Expr:
    if len(terms) == 1:
        return terms[0]
    return Apply("+", tuple(terms), terms[0].start, terms[-1].end)


def _is_proper(expr: Expr) -> bool:
    """A fraction of two printed whole numbers, below 1."""
    if not (isinstance(expr, Apply) and expr.op == "/"):
        return False
    top, bottom = expr.args
    return isinstance(top, Number) and isinstance(bottom, Number) and top.value < bottom.value
