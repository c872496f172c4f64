r"""Gold and tampered answers for `math.answer`: what `validate` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botgrpo.rewards.base import Example, Rollout

_WORK = "<think>Maybe \\boxed{205}? No.</think>\n<step 1>12 * 17 = 204</step 1>\n"
_ASKED = {"accepted": [204]}
_HALF = {"accepted": ["1/2"], "kind": "expression"}


def answer_examples() -> Sequence[Example]:
    """Right answers in several dresses, and wrong or evasive ones."""
    return (
        _gold("final", _WORK + "<final>204</final>"),
        _gold("box", _WORK + "So it is $\\boxed{204}$."),
        _gold("dress", _WORK + "\\[ \\boxed{\\text{0204}^\\circ} \\]"),
        _gold("value", "\\boxed{\\frac{1}{2}}", _HALF),
        _tampered("digit", _WORK + "<final>214</final>", "wrong"),
        _tampered("not-done", _WORK + "<final>12 \\cdot 17</final>", "invalid"),
        _tampered("range", _WORK + "\\boxed{20400}", "invalid"),
        _tampered("two", _WORK + "\\boxed{204} or \\boxed{205}", "ambiguous"),
        _tampered("thought", "<think>so \\boxed{204}</think> I could not solve it.", "unparsed"),
        _tampered("other-value", "\\boxed{\\frac{1}{3}}", "wrong", _HALF),
        _tampered("tower", "\\boxed{9^{9^{9^{9}}}}", "budget", _HALF),
        _tampered("cut", _WORK + "\\boxed{204", "unparsed"),
    )


def _gold(name: str, completion: str, asked: Mapping[str, Any] = _ASKED) -> Example:
    return Example(_rollout(name, completion, asked), (1.0, 1.0), "correct")


def _tampered(
    name: str, completion: str, verdict: str, asked: Mapping[str, Any] = _ASKED
) -> Example:
    return Example(_rollout(name, completion, asked), (0.0, 0.0), verdict, gold=False)


def _rollout(name: str, completion: str, asked: Mapping[str, Any]) -> Rollout:
    return Rollout(name, "examples", "What is 12 times 17?", completion, asked)
