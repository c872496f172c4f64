"""Every step of a completion with its verdict, its claims and the work that it took."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace

from botgrpo.rewards.math.check import Claim, check_chain
from botgrpo.rewards.math.claims import Reader
from botgrpo.rewards.math.scope import Scope
from botgrpo.rewards.math.steps import Step, split_steps
from botgrpo.rewards.math.tree import Budget, OverBudget
from botgrpo.rewards.math.words import check_words

STEP_OPERATIONS = 20_000
STEP_CHARS = 8_000  # what follows in a longer step is not read
MAX_STEPS = 2_000
# P(1 + r) may be a product, but S(0) = 3 must not become S = anything: unknown beats wrong.
FUNCTION_LETTERS = frozenset("fghpqABCDEFGHIJKLMNOPQRSTUVWXYZφ") | {"phi", "varphi"}
_NEXT_CHARS = 80  # a retraction at the start of the next step still counts

_RETRACTION = re.compile(
    r"\b(?:wait|hold on|scratch that|oops|correction"
    r"|let me (?:re(?:do|check|compute|calculate|consider)|correct|fix|try again)"
    r"|(?:that|this|which)(?:['’]s| is| was) (?:not right|not correct|wrong|incorrect|a mistake"
    r"|an error)|i made (?:a|an) (?:mistake|error)|no, (?:that|this|it)|actually)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a step.

    Attributes:
        value: -1 if some claim is refuted, else +1 if some claim with work in it is verified for
            the first time, else 0.
        claims: the decided ones, retracted ones with value 0.
        operations: counted work.
        reason: "budget" where some of the step was not read, else "".
    """

    step: Step
    value: int
    claims: tuple[Claim, ...]
    operations: int
    reason: str = ""

    @property
    def decisive(self) -> Claim | None:
        """The first claim that made the verdict."""
        return next((c for c in self.claims if c.value == self.value and not c.trivial), None)


def verify(completion: str) -> list[Verdict]:
    """The verdict on each step; the same text always gets the same verdicts."""
    scope = Scope()
    steps = split_steps(completion)[:MAX_STEPS]
    seen: set[str] = set()
    verdicts = []
    for i, step in enumerate(steps):
        following = ""
        if i + 1 < len(steps):
            start = steps[i + 1].start
            following = completion[start : min(steps[i + 1].end, start + _NEXT_CHARS)]
        verdicts.append(_judge(completion, step, following, scope, seen))
        scope.next_step()
    return verdicts


def _judge(completion: str, step: Step, following: str, scope: Scope, seen: set[str]) -> Verdict:
    budget = Budget(STEP_OPERATIONS)
    text = completion[step.start : min(step.end, step.start + STEP_CHARS)]
    reader = Reader(text, budget, FUNCTION_LETTERS | scope.functions, scope.moduli)
    claims: list[Claim] = []
    over = step.end - step.start > STEP_CHARS
    scope.moduli = reader.moduli
    for chain in reader.chains():
        try:
            claims += check_chain(chain, scope, budget)
        except OverBudget:
            over = True
    with contextlib.suppress(OverBudget):
        claims = sorted(claims + check_words(reader, budget), key=lambda claim: claim.start)
    claims = [_unless_retracted(claim, text, following) for claim in claims]
    claims = [_unless_repeated(claim, text, seen) for claim in claims]
    value = 0
    if any(claim.value < 0 for claim in claims):
        value = -1
    elif any(claim.value > 0 and not claim.trivial for claim in claims):
        value = 1
    placed = tuple(replace(c, start=step.start + c.start, end=step.start + c.end) for c in claims)
    return Verdict(step, value, placed, budget.used, "budget" if over or reader.over_budget else "")


def _unless_retracted(claim: Claim, text: str, following: str) -> Claim:
    if claim.value >= 0 or not (
        _RETRACTION.search(text, claim.end) or _RETRACTION.search(following)
    ):
        return claim
    return replace(claim, value=0, evidence=f"retracted: {claim.evidence}")


def _unless_repeated(claim: Claim, text: str, seen: set[str]) -> Claim:
    """What an earlier step or claim said already takes no work."""
    said = re.sub(r"\s+", "", text[claim.start : claim.end])
    if claim.value > 0 and said in seen:
        return replace(claim, trivial=True)
    seen.add(said)
    return claim
