"""Gold and tampered solutions for `math.steps_sympy`: what `validate` runs."""

from __future__ import annotations

from collections.abc import Sequence

from botgrpo.rewards.base import Example, Rollout

_GOLD = r"""<step 1>Let $n = 17 \cdot 12 = 204$. Then $n + 6 = 204 + 6 = 210$.</step 1>
<step 2>There are $\binom{10}{3} = 120$ choices, and $5! - 4! = 96$ orders.</step 2>
<step 3>Since 3 * $4 = $12, she pays $12. The powers give $7^{100} \equiv 1 \pmod{5}$.</step 3>
<step 4>From $x^2 - 5x + 6 = 0$ we get $x = 2$ or $x = 3$.</step 4>
<step 5>The sum is $\sum_{k=1}^{10} k^2 = 385$, and $\gcd(84, 36) = 12$.</step 5>
<step 6>So $(a+b)^2 = a^2 + 2ab + b^2$, and $2/3 = 0.667$ to three places.</step 6>
<final>204</final>"""
_REFUTED, _FINE = (-1.0, -1.0), (0.0, 0.0)


def steps_examples() -> Sequence[Example]:
    """A solution whose claims hold, it with one claim tampered with each, and what is no error."""
    return (
        Example(_rollout("gold", _GOLD), _FINE, "verified"),
        _tampered("product", "12 = 204$", "12 = 214$"),
        _tampered("substitution", "204 + 6 = 210", "214 + 6 = 220"),
        _tampered("binomial", "= 120", "= 130"),
        _tampered("factorial", "= 96", "= 86"),
        _tampered("currency", "$4 = $12", "$4 = $13"),
        _tampered("congruence", r"\equiv 1", r"\equiv 2"),
        _tampered("root", "$x = 2$", "$x = 4$"),
        _tampered("sum", "= 385", "= 384"),
        _tampered("gcd", "36) = 12", "36) = 6"),
        _fine("retracted", "So 3 * 4 = 13.\n\nWait, that is wrong, 3 * 4 = 12 of course.", False),
        _fine("supposed", "Suppose that 7 * 8 = 54 were true.", False),
        _fine("no-claim", "I would try small cases first.", False),
    )


def _tampered(name: str, old: str, new: str) -> Example:
    text = _GOLD.replace(old, new, 1)
    assert text != _GOLD
    return Example(_rollout(name, text), _REFUTED, "refuted", new, gold=False)


def _fine(name: str, text: str, gold: bool) -> Example:
    return Example(_rollout(name, text), _FINE, gold=gold)


def _rollout(name: str, completion: str) -> Rollout:
    return Rollout(name, "examples", "A problem.", completion)
