"""One figure of a card: what it is called, what it came to, which way is good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from botgrpo.benchmarks.audit.estimate import Estimate

Axis = Literal["stability", "truth", "confounds", "hacking", "richness", "health"]
Good = Literal["high", "low", "zero", ""]

AXES: dict[Axis, str] = {
    "stability": "Does it say the same twice?",
    "truth": "Is it right, and in the right place?",
    "hacking": "Can it be fooled?",
    "confounds": "Does it pay for something else?",
    "richness": "How much does it say?",
    "health": "Does it work, and what does it take?",
}
NO_LABELS = "no labels"
NO_SPANS = "no labelled places"
NO_TOKENS = "no token values: no local signal, or rollouts without tokens (see --tokenizer)"
ONE_PASS = "one pass: score again with --repeat"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure.

    Attributes:
        key: its name in the JSON, and on every card.
        title: what a reader sees.
        axis: the question that it belongs to.
        estimate: the value, its interval, or why there is none.
        good: which way is better; "" where neither is.
        note: what the number is, in a sentence.
        unit: written after it.
    """

    key: str
    title: str
    axis: Axis
    estimate: Estimate
    good: Good = ""
    note: str = ""
    unit: str = ""
