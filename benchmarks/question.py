"""What a suite's folder was asked: its suite.toml, checked key by key before anything is read."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.sandbox.errors import ConfigError

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """Arms, paired seeds, the primary metric with its threshold; `steps` None: not planned."""

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    metric: str
    threshold: float
    baseline: str
    steps: int | None


def read_question(suite: Json, path: Path) -> Question:
    """Raises ConfigError for a key that is absent or of another form, naming the file."""
    arms, (metric, threshold) = _arms(suite, path), _primary(suite, path)
    baseline = str(suite.get("baseline", arms[0]))
    if baseline not in arms:
        raise ConfigError(f"{path}: baseline {baseline!r} is not an arm; arms: {', '.join(arms)}")
    return Question(arms, _seeds(suite, path), metric, threshold, baseline, _steps(suite, path))


def number(value: Any) -> float | None:
    """A finite number, or None: absent, null, NaN or text is unknown, never 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond any float
        return None


def _need(table: Json, key: str, path: Path) -> Any:
    if key not in table or table[key] in ([], {}, ""):
        raise ConfigError(
            f"{path}: {key!r} is absent; a report needs arms, seeds, primary.metric and "
            "primary.threshold"
        )
    return table[key]


def _arms(suite: Json, path: Path) -> tuple[str, ...]:
    names: list[str] = []
    for table in _list(suite, "arms", path):
        name = table.get("name") if isinstance(table, Mapping) else table
        if not isinstance(name, str) or not name or {"/", "\\", "\0"} & {*name} or name == "..":
            raise _wrong(path, "an arm's name", name, "text without slashes, as it names a folder")
        names.append(name)
    return tuple(names)


def _seeds(suite: Json, path: Path) -> tuple[int, ...]:
    seeds = _list(suite, "seeds", path)
    if wrong := [seed for seed in seeds if type(seed) is not int]:
        raise _wrong(path, "a seed", wrong[0], "a whole number")
    return tuple(seeds)


def _primary(suite: Json, path: Path) -> tuple[str, float]:
    primary = _need(suite, "primary", path)
    if not isinstance(primary, Mapping):
        raise _wrong(path, "primary", primary, "a table with metric and threshold")
    metric, threshold = _need(primary, "metric", path), _need(primary, "threshold", path)
    level = number(threshold)
    if not isinstance(metric, str):
        raise _wrong(path, "primary.metric", metric, "the name of a metric")
    if level is None:
        raise _wrong(path, "primary.threshold", threshold, "a finite number")
    return metric, level


def _steps(suite: Json, path: Path) -> int | None:
    run = suite.get("run", {})
    if not isinstance(run, Mapping):
        raise _wrong(path, "run", run, "a table")
    planned = run.get("steps", suite.get("steps"))
    if planned is not None and type(planned) is not int:
        raise _wrong(path, "run.steps", planned, "a whole number")
    return planned


def _list(table: Json, key: str, path: Path) -> list[Any]:
    value = _need(table, key, path)
    if not isinstance(value, list):
        raise _wrong(path, key, value, "a list")
    return value


def _wrong(path: Path, what: str, got: object, allowed: str) -> ConfigError:
    return ConfigError(f"{path}: {what} is {str(got)[:60]!r}; allowed: {allowed}")


def read_toml(path: Path) -> Json:
    """A TOML file. Raises ConfigError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
