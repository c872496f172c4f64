"""Which models judged, and what they were told: for a run's manifest, and in words for a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import httpx2

from botgrpo.rewards.base import Reward
from botgrpo.rewards.judges.client import JudgeClient


@runtime_checkable
class Judging(Protocol):
    """A reward that asks a model."""

    client: JudgeClient

    @property
    def prompt_hash(self) -> str: ...


def judges_of(reward: Reward, name: str = "") -> dict[str, dict[str, str]]:
    """Model, host and prompt hash of every judge in `reward`, by its reference in a composite.

    Wrappers and composites are looked into; a reward that asks no model adds nothing.
    """
    name = name or reward.spec.name
    found: dict[str, dict[str, str]] = {}
    if isinstance(reward, Judging):
        found[name] = {
            "model": reward.client.settings.model,
            "host": httpx2.URL(reward.client.settings.url).host,
            "prompt_sha256": reward.prompt_hash,
        }
    parts = dict(getattr(reward, "parts", {}))
    if (inner := getattr(reward, "inner", None)) is not None:
        parts[name] = inner
    for reference, part in parts.items():
        found |= judges_of(part, reference)
    return found


def in_words(judges: Mapping[str, Mapping[str, str]], *, labelled: bool = False) -> list[str]:
    """What a page says of the models in `judges` (see `judges_of`): never nothing.

    How good a judge is can be told from labels alone; `labelled` says that they stand on that page.
    """
    if not judges:
        return ["judge: not measured (no language or vision-language model was asked)"]
    known = "see how it agrees with the labels" if labelled else "how right it is was not measured"
    asked: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, judge in judges.items():
        asked[judge.get("model", "?"), judge.get("host", "")].append(name)
    return [
        f"judge: {model}, {_place(host)}, for {', '.join(names)}; {known}"
        for (model, host), names in asked.items()
    ]


def _place(host: str) -> str:
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return "a local model's opinions"
    return f"at {host}" if host else "at an endpoint that is not recorded"
