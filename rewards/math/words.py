"""Claims in words: "91 is prime", "the gcd of 84 and 36 is 12", "the remainder ... is 3"."""

from __future__ import annotations

import math
import re

from botgrpo.rewards.math.check import Claim
from botgrpo.rewards.math.claims import Reader
from botgrpo.rewards.math.exact import residue
from botgrpo.rewards.math.expression import parse
from botgrpo.rewards.math.operations import exact_root
from botgrpo.rewards.math.tree import Budget, MathError, OverBudget

_NUMBER = r"([0-9]{1,18})"
_PROPERTY = re.compile(
    rf"(?<![\w.,/^*+=()<>-])(?<![-+*/^=<>]\s){_NUMBER}\s+is\s+(not\s+)?(?:(?:also|itself|indeed)\s+)?"
    r"(?:an?\s+)?(prime|composite|odd|even|perfect\s+square|perfect\s+cube)\b(?!\s+(?:power|factor|to))"
)
_PAIR = re.compile(
    r"\b(greatest\s+common\s+(?:divisor|factor)|gcd|gcf|hcf|least\s+common\s+multiple|lcm)\s+of\s+"
    rf"{_NUMBER}\s+and\s+{_NUMBER}\s+is\s+{_NUMBER}(?![\w/^*+-]|[.,][0-9]|\s*[-+*/^])",
    re.IGNORECASE,
)
_REMAINDER = re.compile(
    rf"\bremainder\s+(?:when|of)\s+([0-9][0-9^*+(){{}} -]{{0,60}}?)\s+(?:is\s+)?divided\s+by\s+"
    rf"{_NUMBER}\s+(?:is|=)\s+{_NUMBER}(?![\w/^*+-]|[.,][0-9]|\s*[-+*/^])"
)


def check_words(reader: Reader, budget: Budget) -> list[Claim]:
    """The decided claims in words, in order. Raises `OverBudget`."""
    claims: list[Claim] = []
    words = reader.masked.lower()
    for hints, pattern, kind, decide in (
        (("prime", "compos", "odd", "even", "perfect"), _PROPERTY, "property", _property),
        (("common", "gcd", "gcf", "hcf", "lcm"), _PAIR, "divisibility", _pair),
        (("remainder",), _REMAINDER, "congruence", _remainder),
    ):
        if not any(hint in words for hint in hints):
            continue
        for match in pattern.finditer(reader.masked):
            budget.spend(100)
            holds, evidence = decide(match, budget)
            if holds is None or (not holds and reader.mood(*match.span())[0] != "asserted"):
                continue
            trivial = kind == "property" and int(match[1]) < 10
            value = 1 if holds else -1
            claims.append(Claim(*match.span(), value, kind, evidence, holds and trivial))
    return sorted(claims, key=lambda claim: claim.start)


def _property(match: re.Match[str], _: Budget) -> tuple[bool | None, str]:
    n, word = int(match[1]), " ".join(match[3].split())
    if word in ("prime", "composite"):
        from sympy import isprime  # exact below 2^64

        prime = bool(isprime(n))
        holds = prime if word == "prime" else n > 1 and not prime
    elif word in ("odd", "even"):
        holds = n % 2 == (word == "odd")
    else:
        holds = exact_root(n, 2 if word.endswith("square") else 3) is not None
    return holds != bool(match[2]), f"{n} is {'' if holds else 'not '}{word}"


def _pair(match: re.Match[str], _: Budget) -> tuple[bool | None, str]:
    a, b, said = (int(match[i]) for i in (2, 3, 4))
    least = match[1].lower().startswith("l")
    value = math.lcm(a, b) if least else math.gcd(a, b)
    return value == said, f"it is {value}"


def _remainder(match: re.Match[str], budget: Budget) -> tuple[bool | None, str]:
    try:
        value = residue(parse(match[1], budget=budget), int(match[2]), {}, budget)
    except OverBudget:
        raise
    except MathError:
        return None, ""
    return value == int(match[3]), f"it is {value}"
