r"""Claims of a step: chains of equations, inequalities and congruences with exact places.

What is read strictly and what stays out sets the precision of a refutation, more than the algebra
does: a side that our grammar does not read, or that a word beside it belongs to ("half of 8 + 2"),
is unknown, and so are the links on both its sides. Each chain carries the mood of its sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from botgrpo.rewards.math.expression import parse
from botgrpo.rewards.math.pieces import mask
from botgrpo.rewards.math.segments import Segment, segments
from botgrpo.rewards.math.tree import Apply, Budget, Expr, MathError, OverBudget, names

Mood = Literal["asserted", "supposed", "denied"]

# Operations that looking at the words around a chain, and reading a side at all, count for.
_MOOD_COST, _SIDE_COST = 120, 20

_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|\n")
_SUPPOSED = re.compile(
    r"\b(?:contradict\w*|impossible|would|instead|hypothe\w*|otherwise|pretend|whether)\b",
    re.IGNORECASE,
)
_SUPPOSED_LEAD = re.compile(
    r"\b(?:if|suppose|supposing|assum\w*|unless|imagine|guess\w*)\b\W*(?:\w+\W+){0,4}\Z",
    re.IGNORECASE,
)
_DENIED_LEAD = re.compile(
    r"\b(?:not|never|cannot|false|incorrect|wrong|fails?|invalid|mistake\w*|errors?)\b|n['’]t\b",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"\b(?:not (?:true|possible|correct|valid|hold|satisf\w*|work)|false|incorrect|wrong|invalid"
    r"|contradict\w*|impossible|untrue)\b|n['’]t (?:hold|true|work|correct|possible)\b",
    re.IGNORECASE,
)
_APPROXIMATE = re.compile(
    r"\b(?:approx\w*|about|roughly|nearest|round\w*|nearly|estimat\w*|around|closest|almost)\b",
    re.IGNORECASE,
)
_MODULUS = re.compile(r"mod(?:ulo)?[\s{$(]{0,3}([1-9][0-9]{0,5})(?![0-9])", re.IGNORECASE)
_OPERATION_OF = re.compile(
    r"\b(?:sum|product|difference|quotient|ratio|average|mean|between)\b[^.=]{0,60}\Z"
)
_VALUE_OF = re.compile(r"\b(?:value|result) of\W*\Z")
_BEFORE = (
    "of times plus minus by over squared cubed half twice double triple thrice than per "
    "percent root log modulo mod between each every negative remainder base quotient"
)
_AFTER = (
    "times plus minus divided multiplied hundred thousand million billion trillion percent squared "
    "cubed factorial choose mod modulo dozen pi over remainder of"
)
_BEFORE_IS = frozenset(("", "so", "thus", "then", "that", "since", "because", "hence", "but"))
_TEARS_BEFORE = frozenset(_BEFORE.split())
_TEARS_AFTER = frozenset(_AFTER.split())


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a chain at [start, end) of the completion, with the names in it.

    `expr` is None where it is not known.
    """

    expr: Expr | None
    start: int
    end: int
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Chain:
    """n signs between n + 1 sides.

    Attributes:
        modulus: of the whole chain.
        units: singular units that were left out, "$" among them.
        mood: of the sentence; what is supposed or denied is not held against anyone.
        approximate: the sentence speaks of rounding or estimating.
        joined: another value follows, as in x = 2 or 3.
        lead: the words before it in its sentence, lower case.
        after: the word or comma right after it, or "".
        moduli: numbers that the text so far calculates modulo.
    """

    sides: tuple[Side, ...]
    signs: tuple[str, ...]
    modulus: Expr | None
    units: frozenset[str]
    mood: Mood
    approximate: bool
    joined: bool
    lead: str
    after: str
    moduli: frozenset[int]


class Reader:
    """Reads the chains of one step."""

    def __init__(
        self,
        text: str,
        budget: Budget,
        applied: frozenset[str],
        moduli: frozenset[int] = frozenset(),
    ) -> None:
        self.text = text
        self.budget = budget
        self.applied = applied
        self.masked = mask(text)
        self.ends = [m.end() for m in _SENTENCE_END.finditer(text)]
        self.over_budget = False
        self.moduli = moduli | {int(m[1]) for m in _MODULUS.finditer(text)}

    def chains(self) -> list[Chain]:
        """All chains of the text, in order; what is left when the budget ends is not read."""
        found: list[Chain] = []
        carried: Side | None = None
        for segment in segments(self.masked, 0, len(self.masked)):
            try:
                chain = self.chain(segment, carried)
            except OverBudget:
                self.over_budget = True
                if self.budget.used >= self.budget.operations:
                    break
                carried = None
                continue
            carried = chain.sides[-1]
            if any(a.expr and b.expr for a, b in pairwise(chain.sides)):
                found.append(chain)
        return found

    def chain(self, segment: Segment, carried: Side | None) -> Chain:
        """One chain; an empty first side on a new line is the last side of the line before."""
        edges = [segment.start]
        for _, start, end in segment.signs:
            edges += [start, end]
        edges.append(segment.end)
        sides = [
            self.side(segment, edges[i], edges[i + 1], i == 0, i + 2 == len(edges))
            for i in range(0, len(edges), 2)
        ]
        if sides[0].expr is None and edges[0] == edges[1] and carried is not None:
            between = self.text[carried.end : segment.start]
            if not between.strip(" \t\r\n\\&$"):
                sides[0] = carried
        signs = tuple(sign for sign, _, _ in segment.signs)
        modulus = None
        for i, side in enumerate(sides):
            # 17 = 3 mod 7 is a congruence, and so is 3^2 mod 7 ≡ 2; 10^10 mod 7 = 4 gives a value
            reduced = isinstance(side.expr, Apply) and side.expr.op == "mod"
            if reduced and (i == len(signs) or "≡" in signs) and not set(signs) & set("<>≤≥≈"):
                assert isinstance(side.expr, Apply)
                value, modulus = side.expr.args
                sides[i] = Side(value, side.start, side.end, names(value))
        if modulus is not None:
            signs = tuple("≡" if sign in "=≐" else sign for sign in signs)
        mood, approximate = self.mood(segment.start, segment.end)
        units = segment.units | ({"$"} if "$" in self.text[segment.start : segment.end] else set())
        return Chain(
            tuple(sides),
            signs,
            modulus,
            frozenset(units),
            mood,
            approximate,
            segment.joined,
            self.lead(segment.start),
            segment.after,
            self.moduli,
        )

    def side(self, segment: Segment, start: int, end: int, first: bool, last: bool) -> Side:
        text = segment.text[start - segment.start : end - segment.start]
        start += len(text) - len(text.lstrip())
        end = start + len(text.strip())
        if (first and self.torn(segment)) or (last and segment.after in _TEARS_AFTER):
            return Side(None, start, end)
        if not text.strip():
            return Side(None, start, end)
        self.budget.spend(_SIDE_COST)
        try:
            expr = parse(text.strip(), budget=self.budget, applied=self.applied)
        except OverBudget:
            raise
        except MathError:
            return Side(None, start, end)
        return Side(expr, start, end, names(expr))

    def torn(self, segment: Segment) -> bool:
        """Whether words before a stretch belong to its first side."""
        if segment.signs[0][0] == "≐" and segment.before not in _BEFORE_IS:
            return not _VALUE_OF.search(self.lead(segment.start))
        if segment.before in ("and", "or", "both"):
            lead = self.lead(segment.start)
            return segment.signs[0][0] == "⋮" or _OPERATION_OF.search(lead) is not None
        return segment.before in _TEARS_BEFORE and not _VALUE_OF.search(self.lead(segment.start))

    def sentence(self, at: int) -> tuple[int, int]:
        i = bisect_right(self.ends, at)
        start = self.ends[i - 1] if i else 0
        return start, self.ends[i] if i < len(self.ends) else len(self.text)

    def lead(self, at: int) -> str:
        return self.text[self.sentence(at)[0] : at].lower()[-80:]

    def mood(self, start: int, end: int) -> tuple[Mood, bool]:
        """The mood of a stretch in its sentence, and whether that speaks of rounding."""
        self.budget.spend(_MOOD_COST)
        first, _ = self.sentence(start)
        _, last = self.sentence(max(end - 1, start))
        lead, rest = (
            self.text[max(first, start - 200) : start],
            self.text[end : min(last, end + 200)],
        )
        approximate = _APPROXIMATE.search(lead) or _APPROXIMATE.search(rest)
        mood: Mood = "asserted"
        if rest.rstrip().endswith("?") or _SUPPOSED.search(lead) or _SUPPOSED_LEAD.search(lead):
            mood = "supposed"
        elif _DENIED_LEAD.search(lead) or _DENIED_AFTER.search(rest):
            mood = "denied"
        return mood, approximate is not None
