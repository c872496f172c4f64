"""What a reward sees and what it says: `Rollout` in, `Score` out.

Positions are half-open [start, end) in Unicode code points of the completion. A reward that could
not tell says so with `Score.unscored`; it never turns its own failure into a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from botgrpo.sandbox.errors import RunFailed

Prompt = str | Sequence[Mapping[str, str]]
Range = tuple[float, float]


class RewardError(RunFailed):
    """A reward broke its promise: a value out of its range, a span outside the text, a lost id.

    Never repaired silently, since a clipped bug trains the model on it.
    """


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a prompt with the tokens that the policy sampled.

    Attributes:
        id: unique within its file or step.
        group: id of the prompt; the K rollouts of one prompt share it.
        prompt: text or chat messages.
        completion: what the policy wrote (decoded from the sampled ids).
        reference: what the task knows, for example `{"accepted": [204]}`.
        token_ids: T sampled ids, or None for text scored offline.
        token_spans: T pairs [start, end) in code points of `completion`, or None.
        finish_reason: "stop" (the policy ended) or "length" (it was cut).
    """

    id: str
    group: str
    prompt: Prompt
    completion: str
    reference: Mapping[str, Any] = field(default_factory=dict)
    token_ids: tuple[int, ...] | None = None
    token_spans: tuple[tuple[int, int], ...] | None = None
    finish_reason: Literal["stop", "length"] = "stop"


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the completion, its value, and why: [start, end) in code points."""

    start: int
    end: int
    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """What a reward says of one rollout.

    Attributes:
        id: the rollout's id.
        outcome: G, one number a rollout; None when nobody could tell (see `reason`).
        verdict: a machine-readable word such as "ok" or "syntax".
        reason: why it is unscored, or a short remark.
        spans: places with values, from which the local reward is projected.
        local: S, T numbers (None for a token that nobody could tell); None when not projected yet.
        local_scored: False when the local signal is unknown while the outcome stands.
        metrics: named numbers for the logs.
        seconds: time spent on this rollout.
    """

    id: str
    outcome: float | None
    verdict: str = ""
    reason: str = ""
    spans: tuple[Span, ...] = ()
    local: tuple[float | None, ...] | None = None
    local_scored: bool = True
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def unscored(
        cls, id: str, reason: str, *, verdict: str = "infra_error", seconds: float = 0.0
    ) -> Score:
        """Nobody could tell: masked and counted by whoever reads it, never 0."""
        return cls(id, None, verdict=verdict, reason=reason, local_scored=False, seconds=seconds)


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """What a reward promises; the harness checks it.

    Attributes:
        name: `area.name`, or `distribution/name` for a plug-in.
        version: changes whenever the same rollout may get another score.
        outcome_range: inclusive bounds of the outcome.
        local_range: inclusive bounds of one token's local value; None for no local signal.
        deterministic: the same rollout always gets the same score.
        needs: what must be there, for example ("sandbox",) or ("judge",).
        summary: one line for `botgrpo rewards list`.
    """

    name: str
    version: str
    outcome_range: Range
    local_range: Range | None = None
    deterministic: bool = True
    needs: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A rollout whose score is known: what `botgrpo rewards validate` runs.

    Attributes:
        rollout: the input.
        outcome: inclusive bounds within which the outcome must lie.
        verdict: the verdict that must come out, or None for any.
        blames: text that some span with a negative value must cover, or None.
        gold: True for an answer that deserves the reward, False for a tampered one.
    """

    rollout: Rollout
    outcome: Range
    verdict: str | None = None
    blames: str | None = None
    gold: bool = True


@runtime_checkable
class Reward(Protocol):
    """The one interface: same order, same ids, one score for each rollout.

    A reward may also have `examples() -> Sequence[Example]` (needed by `validate`),
    `async aclose()` (called when its user is done) and
    `project_local(rollout, score, decay_lines)`, its own way from spans to token values (see
    `botgrpo.rewards.local`). One that keeps results has `botgrpo.rewards.attempt()` in their key,
    or `botgrpo score --repeat` finds it stable for no reason; one that renders a page offers it
    with `botgrpo.rewards.picture(rollout.id, png)`, for `--html`.
    """

    spec: RewardSpec

    async def score(self, rollouts: Sequence[Rollout]) -> Sequence[Score]: ...
