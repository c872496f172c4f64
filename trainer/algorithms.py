"""The vetted pairs: an advantage, a loss and an aggregation under one name.

A method differs from another by its entry here, never by a flag inside a loss. `port` says what the
advantage reads: the token rewards themselves, each rollout's mean of them ("mean": the same
information as one number), or w_g * G alone ("outcome").
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from botgrpo.sandbox.errors import ConfigError

Port = Literal["token", "mean", "outcome"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One method as its paper runs it.

    Attributes:
        advantage: key into `ADVANTAGES`.
        loss: key into `LOSSES`.
        aggregation: key into `AGGREGATIONS`.
        port: what the advantage reads.
        clip_low, clip_high: how far the ratio may move, below and above 1.
        source: paper and equations.
        summary: the method by its difference from a known one.
    """

    name: str
    advantage: str
    loss: str
    aggregation: str
    port: Port
    clip_low: float
    clip_high: float
    source: str
    summary: str


ALGORITHMS: dict[str, Algorithm] = {
    a.name: a
    for a in (
        Algorithm(
            "bot_grpo",
            advantage="bot_grpo",
            loss="clipped",
            aggregation="sequence_mean",
            port="token",
            clip_low=0.2,
            clip_high=0.2,
            source="arXiv 2610.09804, equations 2 and 3; its clip range is not stated, 0.2 is ours",
            summary="GRPO with the group's mean and deviation taken over tokens, 1/L a token",
        ),
        Algorithm(
            "grpo",
            advantage="grpo",
            loss="clipped",
            aggregation="sequence_mean",
            port="outcome",
            clip_low=0.2,
            clip_high=0.2,
            source="arXiv 2402.03300, equations 3 and 4 and section 4.1.2; no KL term",
            summary="one number a rollout, standardised within the group; sees no local reward",
        ),
        Algorithm(
            "grpo_mean",
            advantage="grpo",
            loss="clipped",
            aggregation="sequence_mean",
            port="mean",
            clip_low=0.2,
            clip_high=0.2,
            source="arXiv 2402.03300, section 4.1.2, on each rollout's mean token reward",
            summary="GRPO given the same information as BoT-GRPO, but not where it belongs",
        ),
    )
}


def algorithm(name: str) -> Algorithm:
    """The entry called `name`; raises ConfigError naming what exists."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = difflib.get_close_matches(name, ALGORITHMS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"no algorithm {name!r}.{hint} Known: {', '.join(sorted(ALGORITHMS))}. "
        "`botgrpo algorithms list` describes them."
    )
