"""House rules for React code, as rewards: `house-rules/inline_style`.

Made by `botgrpo rewards new house-rules/inline_style examples/house-rules`, with a rule of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from botgrpo.rewards import Example, RewardSpec, Rollout, Score, Span

_ELEMENT = re.compile(r"<[A-Za-z]")
_STYLE = re.compile(r"\bstyle=\{")


class InlineStyleReward:
    """The share of elements without an inline style; -1 on each place that has one."""

    def __init__(self) -> None:
        self.spec = RewardSpec(
            name="house-rules/inline_style",
            version="1",
            outcome_range=(0.0, 1.0),
            local_range=(-1.0, 0.0),
            summary="the share of elements without an inline style, -1 on each that has one",
        )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One score for each rollout, in order, with the same id."""
        return [self._score(rollout) for rollout in rollouts]

    def _score(self, rollout: Rollout) -> Score:
        elements = len(_ELEMENT.findall(rollout.completion))
        spans = tuple(
            Span(found.start(), found.end() - 2, -1.0, "inline style: use a class")
            for found in _STYLE.finditer(rollout.completion)
        )
        if not elements:
            return Score(rollout.id, 0.0, verdict="no_elements", reason="no element in the text")
        return Score(
            rollout.id,
            max(0.0, 1.0 - len(spans) / elements),
            verdict="inline_style" if spans else "ok",
            spans=spans,
            metrics={"elements": float(elements), "inline_styles": float(len(spans))},
        )

    def examples(self) -> Sequence[Example]:
        """What `botgrpo rewards validate` runs: answers that deserve it, and tampered ones."""

        def rollout(id: str, text: str) -> Rollout:
            return Rollout(id, "box", "Write a box with a line of text.", text)

        return [
            Example(
                rollout("gold", '<div className="box"><p>hello</p></div>'), (1.0, 1.0), verdict="ok"
            ),
            Example(
                rollout("tampered", "<div style={{ padding: 4 }}><p>hello</p></div>"),
                (0.5, 0.5),
                verdict="inline_style",
                blames="style",
                gold=False,
            ),
            Example(rollout("prose", "a box"), (0.0, 0.0), verdict="no_elements", gold=False),
        ]
