"""Rollouts with what is known to be true of them, where anything is.

A record of rollouts may carry `labels`, and each part of it may be absent:

    "labels": {"outcome": 0.0, "spans": [{"start": 12, "end": 30, "kind": "tag_mismatch"}]}

`outcome` is what the outcome should have been, 0 to 1 where it is a verdict. `spans` are the places
that are truly wrong, [start, end) in code points of the completion; an empty list says that none
is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.rewards import Rollout
from botgrpo.rewards.records import read_records, rollout_from_json, rollout_to_json
from botgrpo.sandbox.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Fault:
    """A place that is truly wrong, and what kind of error it is."""

    start: int
    end: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A rollout and its labels; None for a part that nobody labelled."""

    rollout: Rollout
    outcome: float | None = None
    faults: tuple[Fault, ...] | None = None

    @property
    def id(self) -> str:
        """The rollout's."""
        return self.rollout.id


def read_labelled(path: str | Path) -> list[Labelled]:
    """Rollouts of a file, labels where there are any.

    Raises `ConfigError` with the line of the first record that is wrong, spans outside the text
    among them.
    """
    return read_records(path, labelled_from_json)


def labelled_from_json(record: Any) -> Labelled:
    """A rollout's record with its `labels`."""
    rollout = rollout_from_json(record)
    labels = record.get("labels")
    if labels is None:
        return Labelled(rollout)
    if not isinstance(labels, dict) or set(labels) - {"outcome", "spans"}:
        raise ConfigError(f'got labels = {_short(labels)}; allowed: {{"outcome": .., "spans": ..}}')
    outcome, spans = labels.get("outcome"), labels.get("spans")
    if outcome is not None and (isinstance(outcome, bool) or not isinstance(outcome, int | float)):
        raise ConfigError(f"got labels.outcome = {_short(outcome)}; allowed: a number or null")
    if spans is not None and not isinstance(spans, list):
        raise ConfigError(f"got labels.spans = {_short(spans)}; allowed: a list of spans, or null")
    faults = None
    if spans is not None:
        length = len(rollout.completion)
        faults = tuple(sorted((_fault(s, i, length) for i, s in enumerate(spans)), key=_place))
    return Labelled(rollout, None if outcome is None else float(outcome), faults)


def labelled_to_json(labelled: Labelled) -> dict[str, Any]:
    """The inverse of `labelled_from_json`."""
    labels: dict[str, Any] = {}
    if labelled.outcome is not None:
        labels["outcome"] = labelled.outcome
    if labelled.faults is not None:
        labels["spans"] = [
            {"start": f.start, "end": f.end, "kind": f.kind} for f in labelled.faults
        ]
    record = rollout_to_json(labelled.rollout)
    return {**record, "labels": labels} if labels else record


def _place(fault: Fault) -> tuple[int, int]:
    return fault.start, fault.end


def _fault(value: Any, index: int, length: int) -> Fault:
    record: Mapping[str, Any] = value if isinstance(value, dict) else {}
    start, end, kind = record.get("start"), record.get("end"), record.get("kind", "")
    what = f"labels.spans[{index}]"
    if type(start) is not int or type(end) is not int or not isinstance(kind, str):
        raise ConfigError(
            f'got {what} = {_short(value)}; allowed: {{"start": .., "end": .., "kind": ".."}}'
        )
    if not 0 <= start < end <= length:
        raise ConfigError(
            f"got {what} = [{start}, {end}); allowed: 0 <= start < end <= {length}, the "
            "completion's code points"
        )
    return Fault(start, end, kind)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
