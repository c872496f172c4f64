"""The paper's React reward stacks as data: what is summed into the outcome, what blames lines.

    r_t = w_g G + w_s sum over blamed lines l of p_l phi(d(t, l))
    phi(d) = max(0, 1 - d / (w + 1)),  w = 3 lines

(2610.09804, React). G is the sum of the stack's outcomes, S that of its local
signals, each line at its own severity, clipped to [-1, 0]. The paper leaves the weights open: ours
are 1. Every part is in the metrics by its own name, and a stack with a part that nobody could score
is unscored.

| stack | outcome | lines |
| --- | --- | --- |
| react.compiler_linter | mounts, ESLint | both |
| react.no_vlm | and the code judge | and its three worst |
| react.paper_full | and the screenshot judge | as no_vlm |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from botgrpo.rewards.base import Example
from botgrpo.rewards.mix import Composite, Design
from botgrpo.rewards.react.examples import stack_examples
from botgrpo.sandbox.errors import ConfigError

_COMPILE, _ESLINT = "react.compile(mount=True)", "react.eslint"
_CODE, _PAGE = "react.code_judge", "react.vlm_judge"
_LINES = 3


class _Stack(Composite):
    """A composite whose parts are fixed; `w_g`, `w_s` and each part's weight may be replaced."""

    name: ClassVar[str]
    outcomes: ClassVar[Sequence[str]]
    locals: ClassVar[Sequence[str]]
    gold: ClassVar[tuple[float, float]]  # bounds of the right answer's outcome
    broken: ClassVar[tuple[float, float]]  # of what does not compile

    def __init__(
        self,
        w_g: float = 1.0,
        w_s: float = 1.0,
        weights: Mapping[str, float] | None = None,
        backend: str = "auto",
    ) -> None:
        given: dict[str, Any] = dict(weights or {})
        known = dict.fromkeys((*self.outcomes, *self.locals), 1.0)
        if unknown := set(given) - set(known):
            raise ConfigError(
                f"got weights of {', '.join(sorted(unknown))}; allowed: {', '.join(known)}"
            )
        known |= given
        design = Design(
            {name: known[name] for name in self.outcomes},
            {name: known[name] for name in self.locals},
            w_g=w_g,
            w_s=w_s,
            clip_local=(-1.0, 0.0),
            decay_lines=_LINES,
        )
        super().__init__(design, backend=backend)
        summary = f"the paper's stack: {', '.join(self.outcomes)}"
        self.spec = replace(self.spec, name=self.name, summary=summary)

    def examples(self) -> Sequence[Example]:
        """The right answer, one that does not compile, one whose page is blank."""
        return stack_examples(self.gold, self.broken)


class CompilerLinter(_Stack):
    """The stack that the paper found hacked: it runs, and the linter is content."""

    name = "react.compiler_linter"
    outcomes = (_COMPILE, _ESLINT)
    locals = (_COMPILE, _ESLINT)
    gold, broken = (1.0, 1.0), (-0.5, -0.5)


class NoVlm(_Stack):
    """Compiler, linter and a language model that reads the code; nobody looks at the page."""

    name = "react.no_vlm"
    outcomes = (_COMPILE, _ESLINT, _CODE)
    locals = (_COMPILE, _ESLINT, _CODE)
    gold, broken = (1.5, 2.0), (-0.8, 0.5)


class PaperFull(_Stack):
    """The paper's whole stack: it runs, the linter, a judge of the code, a judge of the page."""

    name = "react.paper_full"
    outcomes = (_COMPILE, _ESLINT, _CODE, _PAGE)
    locals = (_COMPILE, _ESLINT, _CODE)
    gold, broken = (2.0, 3.0), (-1.1, 0.2)
