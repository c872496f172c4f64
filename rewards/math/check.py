"""From a chain to its claims: +1 verified, 0 undecided, -1 refuted, with the evidence.

What is supposed, denied, or printed in units that are mixed is not held against anyone. A
verification says that the claim holds, not that it helps.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from botgrpo.rewards.math.claims import Chain
from botgrpo.rewards.math.decide import UNKNOWN, Decider, Outcome
from botgrpo.rewards.math.measures import e_is_constant, is_literal, is_name, is_trivial, size
from botgrpo.rewards.math.roots import premise, solution, solves
from botgrpo.rewards.math.scope import Scope
from botgrpo.rewards.math.tree import Apply, Budget, Expr, Name, Undecided, ops, parts

_REWRITING = re.compile(r"\b(?:expan|simplif|factor|distribut|rewrit|multiply)(?!.*equation)")
_CONDITIONS = ("when", "at ", "for ", "if ", "let ", "set", "plug", "substitut", "case", "where")


@dataclass(frozen=True, slots=True)
class Claim:
    """A decided statement at [start, end) of the completion.

    Attributes:
        value: +1 verified, 0 undecided, -1 refuted.
        kind: arithmetic, substitution, identity, root, congruence, inequality, divisibility,
            property.
        evidence: what was computed.
        trivial: true without any work, such as 2 + 2 = 4 or 7 = 7.
    """

    start: int
    end: int
    value: int
    kind: str
    evidence: str
    trivial: bool = False


def check_chain(chain: Chain, scope: Scope, budget: Budget) -> list[Claim]:
    """The decided claims of a chain; afterwards the scope knows what the chain defines.

    Raises `OverBudget` where the step may do no more work.
    """
    decider = Decider(scope, budget, chain.approximate, chain.moduli)
    claims: list[Claim] = []
    for i in range(len(chain.signs)):
        try:
            kind, (holds, evidence), trivial = _link(chain, i, decider)
        except Undecided:
            continue
        if holds is None or (not holds and (chain.mood != "asserted" or len(chain.units) > 1)):
            continue
        start, end = chain.sides[i].start, chain.sides[i + 1].end
        claims.append(Claim(start, end, 1 if holds else -1, kind, evidence, holds and trivial))
    _learn(chain, scope, budget)
    return claims + _roots(chain, scope, budget)


def _link(chain: Chain, i: int, decider: Decider) -> tuple[str, Outcome, bool]:
    """(kind, whether it holds and why, whether that takes no work) of the sign at `i`."""
    left, right, sign = chain.sides[i].expr, chain.sides[i + 1].expr, chain.signs[i]
    if left is None or right is None:
        return "", UNKNOWN, False
    free = chain.sides[i].names | chain.sides[i + 1].names
    closed = not free or (free == {"e"} and e_is_constant(left) and e_is_constant(right))
    if sign == "≡" and chain.modulus is not None:
        outcome = decider.congruent(left, right, chain.modulus, closed=closed)
        return "congruence", outcome, False
    if sign in "∣⋮":
        divisor, dividend = (left, right) if sign == "∣" else (right, left)
        return "divisibility", decider.divides(divisor, dividend), False
    if sign in "<>≤≥":
        return "inequality", decider.ordered(left, right, sign), False
    if sign == "≈":
        return "arithmetic", decider.near(left, right), False
    if sign == "≠":
        holds, evidence = decider.equal(left, right) if closed else UNKNOWN
        return "inequality", (None if holds is None else not holds, evidence), False
    if sign == "=" or (sign == "≐" and closed and ops(left)):
        return _equation(chain, i, left, right, free, closed, decider)
    return "", UNKNOWN, False


def _equation(
    chain: Chain,
    i: int,
    left: Expr,
    right: Expr,
    free: frozenset[str],
    closed: bool,
    decider: Decider,
) -> tuple[str, Outcome, bool]:
    if i == 0 and (is_name(left) or _parameters(left) is not None):
        return "", UNKNOWN, False  # gives a name its meaning
    scope = decider.scope
    if closed or free <= scope.forms.keys():
        if is_literal(left) and is_literal(right):
            return "", UNKNOWN, False
        outcome = decider.equal(left, right)
        plain = closed and "call" not in ops(left) | ops(right)
        if outcome[0] is False and not plain and not (size(left) and size(right)):
            outcome = UNKNOWN  # 2x = 8 may be an equation to solve, x = 7 a new value
        kind = "arithmetic" if plain else "substitution"
        return kind, outcome, is_trivial(left, right)
    unknown = [chain.sides[j].names - scope.forms.keys() for j in (i, i + 1)]
    rewriting = unknown[0] == unknown[1] and size(left) > 1 and size(right) > 1
    rewriting = rewriting and (i > 0 or _REWRITING.search(chain.lead) is not None)
    outcome = decider.identical(left, right, rewriting=rewriting)
    return "identity", outcome, left == right or not (ops(left) and ops(right))


def _roots(chain: Chain, scope: Scope, budget: Budget) -> list[Claim]:
    """The claims that the chain solves an equation before it; its own equation is remembered."""
    claims = []
    found = solution(chain, budget)
    before = [p for p in scope.premises if found is not None and p.unknown == found[0]]
    if found is not None and before:
        with contextlib.suppress(Undecided):
            holds, evidence = solves(before[-1], chain, found[1], budget)
            if holds is not None:
                start, end = chain.sides[0].start, chain.sides[-1].end
                claims.append(Claim(start, end, 1 if holds else -1, "root", evidence))
    stated = premise(chain)
    if stated is not None and not is_name(stated.left):
        scope.state(stated)
    return claims


def _learn(chain: Chain, scope: Scope, budget: Budget) -> None:
    """x = ... = v gives x the value printed last, f(x) = ... a function its body."""
    head, body = chain.sides[0].expr, chain.sides[1].expr
    if head is None or chain.signs[0] not in "=≐":
        return
    parameters = _parameters(head)
    if parameters is not None and body is not None:
        function = parts(head)[0]
        assert isinstance(function, Name)
        scope.define(function.name, parameters, body)
    elif isinstance(head, Name) and is_name(head):
        values = [
            side.expr
            for side, sign in zip(chain.sides[1:], chain.signs, strict=True)
            if side.expr is not None and not side.names and sign in "=≐"
        ]
        if values and not chain.joined:
            conditional = chain.mood == "supposed" or any(c in chain.lead for c in _CONDITIONS)
            scope.bind(head.name, values[-1], budget, conditional=conditional)
        else:
            scope.drop(head.name)


def _parameters(expr: Expr) -> tuple[str, ...] | None:
    """The parameters of f(x, y) as the left side of a definition."""
    if not (isinstance(expr, Apply) and expr.op == "call"):
        return None
    inner = [arg.name for arg in expr.args[1:] if isinstance(arg, Name) and is_name(arg)]
    return tuple(inner) if len(inner) == len(expr.args) - 1 else None
