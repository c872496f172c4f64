"""Rollouts and scores as JSON Lines, the form in which they leave and enter the program.

Everything is written in ASCII with escapes, so that a lone surrogate survives and no reader takes
U+2028 for a line end. Reading checks each record and names the line of the first that is wrong.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from botgrpo.rewards.base import Rollout, Score, Span
from botgrpo.sandbox.errors import ConfigError


class HasId(Protocol):
    """Whatever a line becomes; ids are unique within a file."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=HasId)


def read_rollouts(path: str | Path) -> list[Rollout]:
    """Rollouts of a file, or of standard input for "-". Raises `ConfigError` with the line."""
    return read_records(path, rollout_from_json)


def read_scores(path: str | Path) -> list[Score]:
    """Scores of a file, or of standard input for "-". Raises `ConfigError` with the line."""
    return read_records(path, score_from_json)


def write_rollouts(path: str | Path, rollouts: Iterable[Rollout]) -> None:
    """One line a rollout, to a file or for "-" to standard output."""
    write_records(path, map(rollout_to_json, rollouts))


def write_scores(path: str | Path, scores: Iterable[Score]) -> None:
    """One line a score, to a file or for "-" to standard output."""
    write_records(path, map(score_to_json, scores))


def write_records(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """One line a record, to a file or for "-" to standard output; all of them or none."""
    # everything is turned into text first: a NaN must not leave half a file behind
    try:
        text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)
    except ValueError as error:
        raise ConfigError(
            f"cannot write {path}: {error}; an unknown number is None, not NaN"
        ) from error
    if str(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        Path(path).write_text(text, encoding="ascii")


def rollout_to_json(rollout: Rollout) -> dict[str, Any]:
    """The rollout's record; tokens are left out where there are none."""
    record: dict[str, Any] = {
        "id": rollout.id,
        "group": rollout.group,
        "prompt": rollout.prompt
        if isinstance(rollout.prompt, str)
        else [dict(message) for message in rollout.prompt],
        "completion": rollout.completion,
        "reference": dict(rollout.reference),
    }
    if rollout.token_ids is not None:
        record["token_ids"] = list(rollout.token_ids)
    if rollout.token_spans is not None:
        record["token_spans"] = [list(pair) for pair in rollout.token_spans]
    return {**record, "finish_reason": rollout.finish_reason}


def score_to_json(score: Score) -> dict[str, Any]:
    """The score's record: `local` is null where unknown and left out where not projected."""
    record: dict[str, Any] = {
        "id": score.id,
        "outcome": score.outcome,
        "verdict": score.verdict,
        "reason": score.reason,
        "spans": [
            {"start": s.start, "end": s.end, "value": s.value, "label": s.label}
            for s in score.spans
        ],
    }
    if not score.local_scored:
        record["local"] = None
    elif score.local is not None:
        record["local"] = list(score.local)
    return {**record, "metrics": dict(score.metrics), "seconds": score.seconds}


def rollout_from_json(record: Any) -> Rollout:
    """The inverse of `rollout_to_json`; keys that it does not know are passed over.

    Raises `ConfigError` saying what was got and what is allowed.
    """
    record = _object(record)
    completion = _text(record, "completion")
    spans = record.get("token_spans")
    if spans is not None:
        spans = tuple(
            _span_pair(pair, f"token_spans[{i}]", len(completion))
            for i, pair in enumerate(_list(record, "token_spans"))
        )
    ids = record.get("token_ids")
    if ids is not None:
        ids = tuple(_list(record, "token_ids"))
        for i, token in enumerate(ids):
            if type(token) is not int or token < 0:
                _wrong(f"token_ids[{i}]", token, "a whole number, 0 or larger")
    if ids is not None and spans is not None and len(ids) != len(spans):
        raise ConfigError(
            f"got {len(ids)} token_ids and {len(spans)} token_spans; one span for each token"
        )
    finish = record.get("finish_reason", "stop")
    if finish not in ("stop", "length"):
        _wrong("finish_reason", finish, '"stop" or "length"')
    reference = record.get("reference", {})
    if not isinstance(reference, dict):
        _wrong("reference", reference, "an object")
    return Rollout(
        _text(record, "id"),
        _text(record, "group"),
        _prompt(record),
        completion,
        reference,
        ids,
        spans,
        finish,
    )


def score_from_json(record: Any) -> Score:
    """The inverse of `score_to_json`. Raises `ConfigError` saying what was got and allowed."""
    record = _object(record)
    outcome = None
    if record.get("outcome", "") is not None:
        outcome = _number(record.get("outcome"), "outcome", " or null")
    local = record.get("local")
    if local is not None:
        local = tuple(
            None if value is None else _number(value, f"local[{i}]", " or null")
            for i, value in enumerate(_list(record, "local"))
        )
    metrics = _object(record.get("metrics", {}))
    return Score(
        _text(record, "id"),
        outcome,
        verdict=_text(record, "verdict", ""),
        reason=_text(record, "reason", ""),
        spans=tuple(_span(s, i) for i, s in enumerate(_list(record, "spans", []))),
        local=local,
        local_scored="local" not in record or local is not None,
        metrics={name: _number(value, f"metrics.{name}") for name, value in metrics.items()},
        seconds=_number(record.get("seconds", 0.0), "seconds"),
    )


def read_records(path: str | Path, convert: Callable[[Any], T]) -> list[T]:
    """Lines of a file, or of standard input for "-", each converted.

    Raises `ConfigError` with the number of the first line that `convert` refuses.
    """
    where = "standard input" if str(path) == "-" else str(path)
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {where}: {error.strerror}") from error
    records: list[T] = []
    first_line: dict[str, int] = {}
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = convert(_parse(line))
            if record.id in first_line:
                raise ConfigError(
                    f"got the id {record.id!r} again, first on line {first_line[record.id]}; "
                    "ids are unique within a file"
                )
        except ConfigError as error:
            raise ConfigError(f"{where}, line {number}: {error}") from error
        first_line[record.id] = number
        records.append(record)
    return records


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"not JSON: {error}; one JSON object a line") from error


def _no_constant(name: str) -> NoReturn:
    raise ConfigError(f"got {name}, which is no JSON; write null for an unknown number")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        _wrong("a record", value, "an object")
    return dict(value)


def _text(record: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key, default)
    if not isinstance(value, str):
        _wrong(key, value, "text")
    return value


def _list(record: Mapping[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    value = record.get(key, default)
    if not isinstance(value, list):
        _wrong(key, value, "a list")
    return value


def _number(value: Any, what: str, also: str = "") -> float:
    # bool is an int in Python, and 1e999 reads as infinity.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _wrong(what, value, f"a finite number{also}")
    return float(value)


def _prompt(record: Mapping[str, Any]) -> str | list[Mapping[str, str]]:
    prompt = record.get("prompt")
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not all(
        isinstance(m, dict) and all(isinstance(v, str) for v in m.values()) for m in prompt
    ):
        _wrong("prompt", prompt, "text or a list of chat messages")
    return prompt


def _span_pair(pair: Any, what: str, length: int) -> tuple[int, int]:
    if not isinstance(pair, list) or len(pair) != 2 or any(type(p) is not int for p in pair):
        _wrong(what, pair, "[start, end] in code points")
    if not 0 <= pair[0] <= pair[1] <= length:
        _wrong(what, pair, f"0 <= start <= end <= {length}, the completion's code points")
    return pair[0], pair[1]


def _span(value: Any, index: int) -> Span:
    record = _object(value)
    start, end = record.get("start"), record.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        _wrong(f"spans[{index}]", [start, end], "whole numbers 0 <= start <= end")
    number = _number(record.get("value"), f"spans[{index}].value")
    return Span(start, end, number, _text(record, "label", ""))


def _wrong(what: str, got: Any, allowed: str) -> NoReturn:
    shown = repr(got)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise ConfigError(f"got {what} = {shown}; allowed: {allowed}")
