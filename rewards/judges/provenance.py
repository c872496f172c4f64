"""Which models judged, and what they were told: for a run's manifest."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from botgrpo.rewards.base import Reward
from botgrpo.rewards.judges.client import JudgeClient


@runtime_checkable
class Judging(Protocol):
    """A reward that asks a model."""

    client: JudgeClient

    @property
    def prompt_hash(self) -> str: ...


def judges_of(reward: Reward, name: str = "") -> dict[str, dict[str, str]]:
    """Model and prompt hash of every judge in `reward`, by its reference in a composite.

    Wrappers and composites are looked into; a reward that asks no model adds nothing.
    """
    name = name or reward.spec.name
    found: dict[str, dict[str, str]] = {}
    if isinstance(reward, Judging):
        found[name] = {
            "model": reward.client.settings.model,
            "prompt_sha256": reward.prompt_hash,
        }
    parts = dict(getattr(reward, "parts", {}))
    if (inner := getattr(reward, "inner", None)) is not None:
        parts[name] = inner
    for reference, part in parts.items():
        found |= judges_of(part, reference)
    return found
