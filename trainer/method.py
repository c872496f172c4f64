"""What an algorithm is made of: parts by name, what it reads, where it is from.

The entries are in `algorithms`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

PORTS = {
    "token": "w_g G + w_s S on each token",
    "mean": "each rollout's mean of w_g G + w_s S, on every token: the same information",
    "outcome": "w_g G on every token; local rewards are not seen",
    "outcome_last": "w_g G on the last token, for methods that add up what follows",
    "step": "the mean of w_g G + w_s S over each step, on the step's last token",
    "step_and_outcome": "the mean of w_s S over each step, on its last token, and w_g G apart",
    "token_and_outcome": "w_s S on each token, and w_g G apart",
}
# keywords of an advantage that come from the batch, not from a configuration
FROM_BATCH = {"groups_K", "outcomes_K", "step_ends_K_T", "entropies_K_T", "correct_K", "values_K_T"}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One method as its paper runs it.

    Attributes:
        advantage: key into `ADVANTAGES`.
        loss: key into `LOSSES`.
        aggregation: key into `AGGREGATIONS`.
        port: key into `PORTS`, what the advantage reads.
        clip_low, clip_high: how far the ratio may move, below and above 1.
        source: paper and equations; says where it is second-hand.
        summary: the method by its difference from a known one.
        paper: what else the paper sets, and what of it is not here.
        needs: what the method reads beyond rewards.
        dynamic_sampling: groups whose outcomes are all alike leave the step.
        overlong_share: last share of the generation cap in which length is punished; 0 for none.
        critic: its advantage reads a critic's values, and the loop trains one.
        unavailable: why it cannot be trained here; "" if it can.
    """

    name: str
    advantage: str
    loss: str
    aggregation: str
    port: str
    clip_low: float
    clip_high: float
    source: str
    summary: str
    paper: str = ""
    needs: tuple[str, ...] = ()
    dynamic_sampling: bool = False
    overlong_share: float = 0.0
    critic: bool = False
    unavailable: str = ""


def advantage_options(found: Algorithm) -> dict[str, Any]:
    """What a configuration may set under `algorithm_options`, with defaults."""
    # imported here: naming and listing algorithms needs no torch
    from botgrpo.trainer.advantages import ADVANTAGES

    parameters = inspect.signature(ADVANTAGES[found.advantage]).parameters.values()
    return {
        p.name: "required" if p.default is p.empty else p.default
        for p in parameters
        if p.kind is p.KEYWORD_ONLY and p.name not in FROM_BATCH
    }


def describe(found: Algorithm) -> dict[str, str]:
    """The entry in words, label by label, for people."""
    options = [f"{name} = {value}" for name, value in advantage_options(found).items()]
    rules = ["dynamic sampling on the outcome"] * found.dynamic_sampling
    if found.overlong_share:
        rules.append(f"soft overlong penalty in the last {found.overlong_share:g} of the cap")
    words = {
        "name": found.name,
        "summary": found.summary,
        "source": found.source,
        "reads": f"{found.port}: {PORTS[found.port]}",
        "advantage": f"{found.advantage} ({', '.join(options) or 'no options'})",
        "loss": f"{found.loss}, ratio within {1 - found.clip_low:g} to {1 + found.clip_high:g}",
        "aggregation": found.aggregation,
        "sampling": ", ".join(rules),
        "needs": "; ".join(found.needs),
        "paper": found.paper,
        "trainable": f"no: {found.unavailable}" if found.unavailable else "yes",
    }
    return {label: text for label, text in words.items() if text}
