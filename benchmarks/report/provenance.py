"""What was run: settings in which the arms differ, the state of every cell, versions and hashes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botgrpo.benchmarks.question import number
from botgrpo.benchmarks.results import STEP_TIMES, SuiteResult
from botgrpo.rewards.judges.provenance import in_words

LONGEST_VALUE = 400


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and values as text."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            yield f"{prefix}{key}", text[:LONGEST_VALUE]


def config_differences(suite: SuiteResult) -> list[tuple[str, list[str]]]:
    """Settings that differ between arms: key and one value an arm ("" where it is absent).

    A key whose value changes within one arm (seed, output folder) is not a setting of the arm.
    Without any cell's config.toml the arms' tables in suite.toml are compared.
    """
    per_arm: list[dict[str, str]] = []
    for arm in suite.arms:
        configs = [dict(flatten(suite.cells[arm, s].config)) for s in suite.seeds]
        configs = [config for config in configs if config]
        if not configs:
            per_arm.append(_declared(suite, arm))
            continue
        shared = configs[0].items()
        steady = {k: v for k, v in shared if all(c.get(k) == v for c in configs[1:])}
        per_arm.append({k: v for k, v in steady.items() if not _names_the_cell(k)})
    keys = dict.fromkeys(key for config in per_arm for key in config)
    rows = [(key, [config.get(key, "") for config in per_arm]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _names_the_cell(key: str) -> bool:
    """With a single seed nothing shows that these vary, so they are known by name."""
    return key.rsplit(".", 1)[-1] in ("seed", "out", "name")


def _declared(suite: SuiteResult, arm: str) -> dict[str, str]:
    for table in suite.suite["arms"]:
        if isinstance(table, Mapping) and table.get("name") == arm:
            return {k: v for k, v in flatten(table) if not _names_the_cell(k)}
    return {}


def judge_lines(suite: SuiteResult) -> list[str]:
    """Who judged, or that nobody did; of cells without a manifest nothing is known."""
    judges: dict[str, Mapping[str, str]] = {}
    for (arm, _), cell in suite.cells.items():
        reward = cell.manifest.get("reward")
        found = reward.get("judges") if isinstance(reward, Mapping) else None
        if isinstance(found, Mapping):
            judges |= {f"{name} of {arm}": each for name, each in found.items()}
    return in_words(judges)


def total_hours(suite: SuiteResult) -> float | None:
    """Wall time logged by all cells together, in hours; cells side by side count one by one."""
    seconds = [
        value
        for cell in suite.cells.values()
        for row in cell.metrics
        for key in (*STEP_TIMES, "time/evaluate_s")
        if (value := number(row.get(key))) is not None
    ]
    return sum(seconds) / 3600 if seconds else None


def manifest_rows(suite: SuiteResult) -> list[tuple[str, str]]:
    """The suite's manifest, and what the first cell that has one adds (model, sandbox, hashes)."""
    first = next((c.manifest for c in suite.cells.values() if c.manifest), {})
    return list((dict(flatten(suite.manifest)) | _added(first, suite.manifest)).items())


def _added(more: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    have = dict(flatten(known))
    return {key: text for key, text in flatten(more) if key not in have}
