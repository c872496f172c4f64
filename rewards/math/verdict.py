"""What is said of one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["correct", "wrong", "invalid", "unparsed", "ambiguous", "budget"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict and why, in words; `scored` is False where nobody could tell."""

    verdict: Verdict
    reason: str = ""
    scored: bool = True


CORRECT = Judged("correct")


def quoted(text: str) -> str:
    """At most 60 characters of an answer on one line, for a reason."""
    text = " ".join(text[:200].split())
    return f'"{text if len(text) <= 60 else text[:57] + "..."}"'
