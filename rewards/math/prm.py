"""`math.prm`: a process reward model's probability that each step is right.

Steps are those of `split_steps`: `<step i>` blocks, else paragraphs; their spans are exact, and the
model reads their text as its authors have it read (`prm_readings.py`). A step's span is worth
2p - 1; the outcome is the smallest p, as Math-Shepherd ranks solutions.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from botgrpo.rewards.base import Example, Prompt, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.math.prm_readings import READINGS, Unplaced
from botgrpo.rewards.math.steps import Step, split_steps
from botgrpo.sandbox.errors import ConfigError

if TYPE_CHECKING:
    from botgrpo.rewards.prm import Sequenced

_MOST_STEPS = 200  # a trace of more is longer than these models were trained on
_MOST_CHARS = 16  # a token, far above any text's mean: what is longer is not even encoded
_RIGHT = (
    "<step 1>12 squared is 12 * 12 = 144.</step 1>\n<step 2>Half of it is 144 / 2 = 72.</step 2>"
)


class MathPrm:
    """A process reward model's 2p - 1 on each step, p the probability that it is right.

    `model` is a transformers folder or a hub's OWNER/MODEL, `reading` is how its authors read it:
    qwen, shepherd, skywork or rlhflow. Loads torch and the model when constructed; raises
    ConfigError where the model has no such head or its tokenizer no such token. Weights must be
    safetensors; code of a checkpoint is not run.

    Verdicts: right (each p is 0.5 or more), wrong, no_steps (outcome 0); too_long (more than
    `max_tokens` tokens or 200 steps), unplaced and not_finite are unscored. `budget_tokens` bounds
    the padded tokens of one batch. Metrics: `steps`, `steps_wrong`, `tokens`.

    Checked on small random models of the same shapes; the published weights need a hub.
    """

    def __init__(
        self,
        model: str,
        reading: str,
        *,
        max_tokens: int = 4096,
        budget_tokens: int = 16_384,
    ) -> None:
        if reading not in READINGS:
            raise ConfigError(f"got reading = {reading!r}; allowed: {', '.join(READINGS)}")
        if not 1 <= max_tokens <= budget_tokens:
            raise ConfigError(
                f"got max_tokens = {max_tokens} and budget_tokens = {budget_tokens}; allowed are "
                "1 <= max_tokens <= budget_tokens"
            )
        from botgrpo.rewards import prm

        folder = prm.folder_of(model)
        self._reading = READINGS[reading](prm.tokenizer_of(folder), folder)
        self._model = prm.StepModel(folder, self._reading.head)
        self._max_tokens, self._budget_tokens = max_tokens, budget_tokens
        self.spec = RewardSpec(
            name="math.prm",
            version="1",
            outcome_range=(0.0, 1.0),
            local_range=(-1.0, 1.0),
            deterministic=False,  # the last bits of a sum depend on what else is in the batch
            needs=("model",),
            summary="a process reward model's 2p - 1 on each step, p that it is right",
        )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts in few batches, off the event loop."""
        return await asyncio.to_thread(self._score, rollouts)

    def examples(self) -> Sequence[Example]:
        """A right solution, and it with one wrong step: p must fall below one half there."""
        gold = Rollout("gold", "examples", "What is half of 12 squared?", _RIGHT)
        wrong = replace(gold, id="wrong-square", completion=_RIGHT.replace("= 144", "= 124"))
        return (
            Example(gold, (0.5, 1.0), "right"),
            Example(wrong, (0.0, 0.5), "wrong", "= 124", gold=False),
        )

    def _score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        began = time.perf_counter()
        scores: dict[int, Score] = {}
        asked = []
        for i, rollout in enumerate(rollouts):
            steps = split_steps(rollout.completion)
            prepared = self._prepared(rollout, steps)
            if isinstance(prepared, Score):
                scores[i] = prepared
            else:
                asked.append((i, steps, prepared))
        found = self._model.right([sequence for _, _, sequence in asked], self._budget_tokens)
        seconds = (time.perf_counter() - began) / max(1, len(asked))
        for (i, steps, sequence), right in zip(asked, found, strict=True):
            scores[i] = _scored(rollouts[i].id, steps, right, len(sequence.ids), seconds)
        return [scores[i] for i in range(len(rollouts))]

    def _prepared(self, rollout: Rollout, steps: Sequence[Step]) -> Score | Sequenced:
        if not steps:
            return Score(rollout.id, 0.0, verdict="no_steps", metrics={"steps": 0.0})
        if len(steps) > _MOST_STEPS:
            reason = f"{len(steps)} steps; at most {_MOST_STEPS} are read"
            return Score.unscored(rollout.id, reason, verdict="too_long")
        texts = [rollout.completion[step.start : step.end] for step in steps]
        if (chars := sum(map(len, texts))) > _MOST_CHARS * self._max_tokens:
            return Score.unscored(rollout.id, f"{chars} characters", verdict="too_long")
        try:
            sequence = self._reading.sequence(_question(rollout.prompt), texts)
        except Unplaced as error:
            return Score.unscored(rollout.id, str(error), verdict="unplaced")
        if len(sequence.ids) > self._max_tokens:
            reason = f"{len(sequence.ids)} tokens; at most {self._max_tokens} are read"
            return Score.unscored(rollout.id, reason, verdict="too_long")
        return sequence


def _scored(
    id: str, steps: Sequence[Step], right: Sequence[float], tokens: int, seconds: float
) -> Score:
    if not all(map(math.isfinite, right)):
        reason = "the model gave a probability that is not finite"
        return Score.unscored(id, reason, verdict="not_finite", seconds=seconds)
    wrong = sum(p < 0.5 for p in right)
    return Score(
        id,
        min(right),
        verdict="wrong" if wrong else "right",
        spans=tuple(
            Span(step.start, step.end, 2 * p - 1, f"right with probability {p:.3f}")
            for step, p in zip(steps, right, strict=True)
        ),
        metrics={
            "steps": float(len(steps)),
            "steps_wrong": float(wrong),
            "tokens": float(tokens),
        },
        seconds=seconds,
    )


def _question(prompt: Prompt) -> str:
    """What the user asked; of a chat the user's messages."""
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(m.get("content", "") for m in prompt if m.get("role") == "user")
