"""`math.steps_sympy`: exact arithmetic on the claims of each step, without a model.

Local rule: a refuted step is worth -1, a verified one +1, any other 0; a step is refuted by one
false claim. On labelled traces -1 is right nine times in ten, while +1 says little about a step of
prose: a wrong step holds true equations as often as a right one does. So tokens are paid -1 for
`refuted` and nothing for `verified` unless asked, and then never more than `verified` in all,
however many steps there are. Claims that take no work (2 + 2 = 4, x = x, what was said before)
verify nothing.

sympy says which numbers are prime, and mpmath, which it is built on, gives digits where there is no
exact form. The rest (arithmetic, radicals, polynomials, congruences) is decided by canonical forms
of our own, whose work can be counted (`algebra.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.math.steps_examples import steps_examples
from botgrpo.rewards.math.verify import Verdict, verify
from botgrpo.rewards.spans import project
from botgrpo.sandbox.errors import ConfigError

_SHOWN = 80  # code points of a claim in a label


class StepsSympy:
    """-1 on each step that exact arithmetic refutes, +1 where it verifies one, 0 elsewhere.

    The outcome is -1 where some step is refuted, else 0. Verdicts: refuted, verified (a step is,
    and none is refuted), undecided, no_steps. Steps are what stands in `<step i>` tags, else
    paragraphs; thinking is not judged. `verified` in 0..1 is what the tokens of verified steps are
    paid, divided by the number of steps.
    """

    def __init__(self, verified: float = 0.0) -> None:
        if not 0.0 <= verified <= 1.0:
            raise ConfigError(f"got verified = {verified}; allowed: 0 to 1, 0 pays for no +1")
        self._verified = verified
        self.spec = RewardSpec(
            name="math.steps_sympy",
            version="1",
            outcome_range=(-1.0, 0.0),
            local_range=(-1.0, 1.0),
            summary="-1 on each step that exact arithmetic refutes, +1 where it verifies one",
        )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One after the other; bounded by counted operations, so never unscored."""
        return [self._score(rollout) for rollout in rollouts]

    def project_local(
        self, rollout: Rollout, score: Score, decay_lines: int
    ) -> tuple[float | None, ...]:
        """Tokens of a refuted step get -1, those of a verified one `verified` / steps."""
        most = 1 / max(len(score.spans), 1)  # a design may have divided by the steps already
        paid = [
            Span(s.start, s.end, min(s.value, most) * (1 if s.value < 0 else self._verified))
            for s in score.spans
        ]
        token_spans = rollout.token_spans or ()
        values_T = project(paid, token_spans, rollout.completion, decay_lines=decay_lines)
        return tuple(values_T.tolist())

    def examples(self) -> Sequence[Example]:
        """Gold and tampered solutions, one kind of claim each."""
        return steps_examples()

    def _score(self, rollout: Rollout) -> Score:
        began = time.perf_counter()
        verdicts = verify(rollout.completion)
        refuted = [v for v in verdicts if v.value < 0]
        verified = [v for v in verdicts if v.value > 0]
        verdict = "undecided" if verdicts else "no_steps"
        if refuted or verified:
            verdict = "refuted" if refuted else "verified"
        spans = [_span(v, rollout.completion) for v in verdicts]
        claims = [claim for v in verdicts for claim in v.claims]
        return Score(
            rollout.id,
            -1.0 if refuted else 0.0,
            verdict=verdict,
            reason=_span(refuted[0], rollout.completion).label if refuted else "",
            spans=tuple(spans),
            metrics={
                "steps": float(len(verdicts)),
                "refuted": float(len(refuted)),
                "verified": float(len(verified)),
                "claims": float(len(claims)),
                "operations": float(max((v.operations for v in verdicts), default=0)),
            },
            seconds=time.perf_counter() - began,
        )


def _span(verdict: Verdict, completion: str) -> Span:
    """The step with the claim that decides it, as printed, and the evidence."""
    step, claim = verdict.step, verdict.decisive
    if claim is None:
        label = f"undecided: {verdict.reason}" if verdict.reason else "undecided"
        return Span(step.start, step.end, 0.0, label)
    said = " ".join(completion[claim.start : claim.end].split())
    said = said if len(said) <= _SHOWN else f"{said[: _SHOWN - 3]}..."
    word = "refuted" if claim.value < 0 else "verified"
    label = f"{word} {claim.kind}: {said} ({claim.evidence})"
    return Span(step.start, step.end, float(verdict.value), label)
