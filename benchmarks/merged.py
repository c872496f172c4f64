"""Several suites' folders as one result: arms run another day, elsewhere, or with other code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from botgrpo.benchmarks.results import SuiteResult, load_suite
from botgrpo.sandbox.errors import ConfigError


def load(folders: Sequence[str | Path]) -> SuiteResult:
    """One folder as it is; of several the arms side by side, named `FOLDER: ARM`.

    Seeds that not all folders have are left out and said. The baseline is that of the first folder.

    Raises:
        ConfigError: a folder is not a suite's, is given twice, or asks another question: another
            task, primary metric or threshold, or another number of steps.
    """
    suites = [load_suite(folder) for folder in folders]
    if len(suites) == 1:
        return suites[0]
    first = suites[0]
    for other in suites[1:]:
        for what, read in _QUESTION.items():
            if read(first) != read(other):
                raise ConfigError(
                    f"{first.folder} and {other.folder} cannot be compared: {what} is "
                    f"{read(first)!r} in one and {read(other)!r} in the other"
                )
    names = _names(suites)
    seeds = tuple(s for s in first.seeds if all(s in each.seeds for each in suites))
    if not seeds:
        raise ConfigError(
            f"{', '.join(str(each.folder) for each in suites)}: no seed is in all of them, so "
            "nothing is paired; run one of them with the seeds of another"
        )
    tables, cells = [], {}
    for name, each in zip(names, suites, strict=True):
        for arm in each.arms:
            tables.append({"name": f"{name}: {arm}", "summary": each.summary_of(arm)})
            for seed in seeds:
                cells[f"{name}: {arm}", seed] = replace(each.cells[arm, seed], arm=f"{name}: {arm}")
    return replace(
        first,
        name=" and ".join(names),
        baseline=f"{names[0]}: {first.baseline}",
        arms=tuple(str(table["name"]) for table in tables),
        seeds=seeds,
        cells=cells,
        suite={**first.suite, "arms": tables},
        problems=(*_differences(names, suites, seeds), *(p for s in suites for p in s.problems)),
    )


_QUESTION: Mapping[str, Any] = {
    "the task": lambda suite: suite.suite.get("task", ""),
    "the primary metric": lambda suite: suite.metric,
    "the threshold": lambda suite: suite.threshold,
    "the number of steps": lambda suite: suite.last_step,
}


def _names(suites: Sequence[SuiteResult]) -> list[str]:
    """The folders' own names, with as many parents as it takes to tell them apart."""
    parts = [suite.folder.resolve().parts for suite in suites]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise ConfigError(f"{suites[0].folder}: a folder is given twice; a comparison needs two")


def _differences(
    names: Sequence[str], suites: Sequence[SuiteResult], seeds: Sequence[int]
) -> Iterator[str]:
    """What a reader must know before believing a difference."""
    for name, suite in zip(names, suites, strict=True):
        if left_out := [seed for seed in suite.seeds if seed not in seeds]:
            shown = ", ".join(map(str, left_out))
            yield f"{name}: seeds {shown} are not in every folder; they are left out."
    commits = [str(suite.manifest.get("git_commit") or "unknown")[:12] for suite in suites]
    if len(set(commits)) > 1:
        told = ", ".join(f"{commit} in {name}" for name, commit in zip(names, commits, strict=True))
        yield f"The folders were not run with the same code: {told}."
