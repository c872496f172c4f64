"""The paper's React reward stacks as data: what is summed into the outcome, what blames lines.

    r_t = G + w_s sum over blamed lines l of p_l phi(d(t, l))
    phi(d) = max(0, 1 - d / (w + 1)),  w = 3 lines
    G = 3 [mounts] + ESLint's sum + code judge + screenshot judge

(2610.09804, React). S is the sum of the stack's local signals, each line at its own severity,
clipped to [-1, 0]. The paper has a large penalty on what does not compile or render, and leaves its
size and w_l open: with our 3 no page that fails outranks one that runs, whatever linter and judges
say, and w_s is 1. Every part is in the metrics by its own name, and a stack with a part that nobody
could score is unscored. One thing differs: a blank page counts as one that does not run, so the
paper's way of hacking `compiler_linter` is closed here.

| stack | outcome | lines |
| --- | --- | --- |
| react.compiler_linter | mounts, ESLint | both |
| react.no_vlm | and the code judge | and its three worst |
| react.paper_full | and the screenshot judge | as no_vlm; its own in `one_turn`, `two_turn` |

Each judge takes its options under its own name, so that two endpoints may serve one stack:

    react.paper_full(code_judge={"model": "a", "temperature": 0.2, "max_calls": 1000},
                     vlm_judge={"url": "http://b:8000/v1", "model": "b", "variant": "two_turn"})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from botgrpo.rewards.base import Example, Reward, Rollout, Score
from botgrpo.rewards.mix import Composite, Design
from botgrpo.rewards.react.code_judge import CodeJudge
from botgrpo.rewards.react.examples import stack_examples
from botgrpo.rewards.react.vlm_judge import VlmJudge
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError

_COMPILE, _ESLINT = "react.compile(mount=True)", "react.eslint"
_CODE, _PAGE = "react.code_judge", "react.vlm_judge"
_LINES = 3
MOUNTS = 3.0  # the rest of what runs is worth -1.3 at the least, of what does not 0.7 at the most
Options = Mapping[str, Any]


class _Stack(Composite):
    """A composite whose parts are fixed; what of them has a local signal blames lines.

    `weights` replaces weights of single outcomes, `w_s` weighs all lines; `options` are those of
    single parts.
    """

    name: ClassVar[str]
    outcomes: ClassVar[Sequence[str]]
    gold: ClassVar[tuple[float, float]]  # bounds of the right answer's outcome
    broken: ClassVar[tuple[float, float]]  # of what does not compile

    def __init__(
        self,
        w_s: float = 1.0,
        weights: Mapping[str, float] | None = None,
        backend: str = "auto",
        options: Mapping[str, Options | None] | None = None,
    ) -> None:
        given: dict[str, Any] = dict(weights or {})
        known = {name: MOUNTS if name == _COMPILE else 1.0 for name in self.outcomes}
        if unknown := set(given) - set(known):
            raise ConfigError(
                f"got weights of {', '.join(sorted(unknown))}; allowed: {', '.join(known)}"
            )
        parts = {
            part: _judge(part, (options or {}).get(part), backend)
            if part in (_CODE, _PAGE)
            else build(part, defaults={"backend": backend})
            for part in self.outcomes
        }
        blaming = [part for part, reward in parts.items() if reward.spec.local_range is not None]
        design = Design(
            known | given,
            dict.fromkeys(blaming, w_s),
            clip_local=(-w_s, 0.0),
            decay_lines=_LINES,
        )
        super().__init__(design, parts)
        summary = f"the paper's stack: {', '.join(self.outcomes)}"
        self.spec = replace(self.spec, name=self.name, summary=summary)

    def examples(self) -> Sequence[Example]:
        """The right answer, and what does not compile."""
        return stack_examples(self.gold, self.broken)

    def _mix(self, rollout: Rollout, scores: Mapping[str, Score], seconds: float) -> Score:
        """And what the judges remarked, where everything was scored."""
        mixed = super()._mix(rollout, scores, seconds)
        if mixed.outcome is None:
            return mixed
        said = [
            f"{part}: {score.reason}"
            for part, score in scores.items()
            if score.verdict == "judged" and score.reason
        ]
        return replace(mixed, reason="; ".join(filter(None, (mixed.reason, *said))))


class CompilerLinter(_Stack):
    """The stack that the paper found hacked: it runs, and the linter is content."""

    name = "react.compiler_linter"
    outcomes = (_COMPILE, _ESLINT)
    gold, broken = (3.0, 3.0), (-0.5, -0.5)

    def __init__(
        self,
        w_s: float = 1.0,
        weights: Mapping[str, float] | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__(w_s, weights, backend)


class NoVlm(_Stack):
    """Compiler, linter and a language model that reads the code; nobody looks at the page.

    `code_judge` holds options of `react.code_judge`.
    """

    name = "react.no_vlm"
    outcomes = (_COMPILE, _ESLINT, _CODE)
    gold, broken = (3.5, 4.0), (-0.8, 0.5)

    def __init__(
        self,
        w_s: float = 1.0,
        weights: Mapping[str, float] | None = None,
        backend: str = "auto",
        code_judge: Options | None = None,
    ) -> None:
        super().__init__(w_s, weights, backend, {_CODE: code_judge})


class PaperFull(_Stack):
    """The paper's whole stack: it runs, the linter, a judge of the code, a judge of the page.

    `code_judge` and `vlm_judge` hold options of `react.code_judge` and `react.vlm_judge`.
    """

    name = "react.paper_full"
    outcomes = (_COMPILE, _ESLINT, _CODE, _PAGE)
    gold, broken = (4.0, 5.0), (-1.1, 0.2)

    def __init__(
        self,
        w_s: float = 1.0,
        weights: Mapping[str, float] | None = None,
        backend: str = "auto",
        code_judge: Options | None = None,
        vlm_judge: Options | None = None,
    ) -> None:
        super().__init__(w_s, weights, backend, {_CODE: code_judge, _PAGE: vlm_judge})


def _judge(part: str, options: Options | None, backend: str) -> Reward:
    """The judge with its options. ConfigError, which repeats none of them, for no table."""
    given = {} if options is None else options
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        example = '{"model": "name", "temperature": 0.2}'
        raise ConfigError(f"options of {part} are a table such as {example}")
    if part == _CODE:
        return CodeJudge(**given)
    return VlmJudge(**{"backend": backend, **given})
