"""`math.aime`: the paper's reward for competition problems, all of it data (eq. 8).

    r_kt = w_g 1[correct] + b_format + (w_s / |S|) sum of e_s over the steps s that hold token t

The first two terms are the outcome, the last is the local signal. Any reward with a span for each
step can judge the steps: by default exact arithmetic, which needs no model; the paper's is
`math.aime(math.steps_judge)`, with its own propagation and window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from botgrpo.rewards.base import Example, Reward, Rollout
from botgrpo.rewards.math.answer import MathAnswer
from botgrpo.rewards.math.format_tags import MathFormat
from botgrpo.rewards.math.steps_sympy import StepsSympy
from botgrpo.rewards.mix import Composite, Design

_ANSWER, _FORMAT = "math.answer", "math.format"


class MathAime(Composite):
    """`w_g` for a right answer and `w_format` times math.format; locally `w_s` over the steps.

    `steps` is any reward whose spans are steps. Every component is in the metrics by its own name.
    A rollout whose steps nobody could judge keeps its outcome. Raises ConfigError for a reward
    without a local signal.
    """

    def __init__(
        self,
        steps: Reward | None = None,
        w_g: float = 3.0,
        w_s: float = 0.5,
        w_format: float = 1.0,
    ) -> None:
        judge = StepsSympy() if steps is None else steps
        name = judge.spec.name
        design = Design({_ANSWER: w_g, _FORMAT: w_format}, {name: w_s}, renormalise=True)
        super().__init__(design, {_ANSWER: MathAnswer(), _FORMAT: MathFormat(), name: judge})
        self.spec = replace(
            self.spec,
            name="math.aime",
            summary="the paper's AIME reward: answer, format, and a share for each step",
        )

    def examples(self) -> Sequence[Example]:
        """A right solution, a wrong answer, a broken tag; with the arithmetic one, a false step."""
        answer, tags = self.design.outcomes.values()
        right, wrong, broken = answer + tags * 0.2, tags * 0.2, answer - tags
        tampered_answer = _tampered("answer", "<final>204", "<final>205")
        tampered_tag = _tampered("tag", "</step 2>", "</step 3>")
        examples = [
            Example(_rollout("gold", _GOLD), (right, right), "correct"),
            Example(tampered_answer, (wrong, wrong), "wrong", gold=False),
            Example(tampered_tag, (broken, broken), "correct", gold=False),
        ]
        if any(isinstance(part, StepsSympy) for part in self.parts.values()):
            slip = _tampered("slip", "12 = 204", "12 = 214")
            false = Example(slip, (right, right), "correct", blames="12 = 214", gold=False)
            examples.append(false)
        return examples


_GOLD = """<step 1>There are 17 * 12 = 204 seats.</step 1>
<step 2>All of them are taken, since 204 - 204 = 0.</step 2>
<final>204</final>"""


def _rollout(name: str, text: str) -> Rollout:
    return Rollout(name, "examples", "How many seats are taken?", text, {"accepted": [204]})


def _tampered(name: str, old: str, new: str) -> Rollout:
    assert old in _GOLD
    return _rollout(name, _GOLD.replace(old, new, 1))
