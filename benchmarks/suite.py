"""A suite: arms (a design with an algorithm) x seeds on one task, with the question named first.

name = "quickstart"
config = "react_micro"              # the configuration that every arm starts from
baseline = "grpo"                   # the arm that the others are compared with
seeds = [0, 1, 2]                   # paired: same start, same prompts, same test draws

[primary]                           # decided before anything runs
metric = "complete"
threshold = 0.5

[run]                               # for all arms
steps = 24

[[arms]]
name = "bot_grpo"
set = { algorithm = "bot_grpo" }
needs = []                          # "browser", "judge": where it lacks, "not measured"
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from botgrpo.benchmarks import assemble, shipped
from botgrpo.rewards.judges.settings import MODEL_ENV, URL_ENV
from botgrpo.sandbox.chromium import find_chromium
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.trainer import config as configs
from botgrpo.trainer.config import Config


class Primary(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    threshold: float = Field(gt=0, le=1)


class Arm(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    summary: str = ""
    set: dict[str, Any] = {}
    needs: tuple[Literal["browser", "judge"], ...] = ()


class Suite(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=configs.NAME)
    summary: str = ""
    config: str
    baseline: str
    seeds: list[int] = Field(min_length=1)
    primary: Primary
    run: dict[str, Any] = {}
    set: dict[str, Any] = {}
    arms: list[Arm] = Field(min_length=1)
    not_measured: dict[str, str] = Field({}, description="arms left out here, and why; found out")


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One run of a suite: its arm, its seed, its whole configuration."""

    arm: str
    seed: int
    config: Config

    def folder(self, out: Path) -> Path:
        return out / "cells" / self.arm / f"seed{self.seed}"


def load(name_or_path: str) -> Suite:
    """Read and check a suite; raises ConfigError before anything runs."""
    path = shipped.find("suites", name_or_path)
    try:
        suite = Suite.model_validate(configs.read_toml(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {configs.explain(error, Suite)}") from None
    names = [arm.name for arm in suite.arms]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: two arms have the same name; got {', '.join(names)}")
    for name in names:
        if not re.fullmatch(configs.NAME, name):
            raise ConfigError(f"{path}: arm {name!r}: use letters, digits and . _ + -")
    if len(set(suite.seeds)) < len(suite.seeds) or min(suite.seeds) < 0:
        raise ConfigError(f"{path}: seeds must be different and not negative; got {suite.seeds}")
    if suite.baseline not in names:
        raise ConfigError(
            f"{path}: baseline {suite.baseline!r} is no arm; arms: {', '.join(names)}"
        )
    lacks = {arm.name: why for arm in suite.arms if (why := _lacks(arm))}
    if suite.baseline in lacks:
        raise ConfigError(f"{path}: baseline {suite.baseline!r}: {lacks[suite.baseline]}")
    suite = suite.model_copy(
        update={"arms": [a for a in suite.arms if a.name not in lacks], "not_measured": lacks}
    )
    beside = path.parent / suite.config
    if suite.config not in shipped.names("configs") and beside.is_file():
        return suite.model_copy(update={"config": str(beside)})
    return suite


def _lacks(arm: Arm) -> str:
    """What the arm needs and is not here, in a sentence; "" where nothing is missing."""
    if "judge" in arm.needs and not (os.environ.get(URL_ENV) and os.environ.get(MODEL_ENV)):
        return f"no judge is configured: set {URL_ENV} and {MODEL_ENV}"
    if "browser" in arm.needs:
        try:
            find_chromium()
        except SandboxUnavailable as error:
            return str(error).replace("\n", ". ")
    return ""


def cells(suite: Suite, *, weights: bool = True) -> list[CellPlan]:
    """Every arm under every seed, seed by seed so that early results are already paired.

    `weights`: whether the models have to be here; a plan reads their shapes alone.

    Raises ConfigError where an arm's configuration is wrong, naming the arm, or where the primary
    metric is none that the task's judge gives.
    """
    base = configs.read_toml(shipped.find("configs", suite.config))
    planned = []
    for arm in suite.arms:
        data = configs.override(base, ())
        for key, value in _flat({"run": suite.run, **suite.set, **arm.set}):
            configs.set_key(data, key, value)
        for seed in suite.seeds:
            data = configs.override(data, ())
            configs.set_key(data, "run.seed", seed)
            config = configs.parse(data, f"suite {suite.name!r}, arm {arm.name!r}")
            planned.append(CellPlan(arm.name, seed, config))
        where = f"suite {suite.name!r}, arm {arm.name!r}"
        assemble.check(planned[-1].config, where=where, weights=weights)
    known = assemble.eval_metrics(planned[0].config)
    if suite.primary.metric not in known:
        raise ConfigError(
            f"suite {suite.name!r}: primary.metric is {suite.primary.metric!r}; the task "
            f"{planned[0].config.task!r} measures {', '.join(known)}"
        )
    order = {seed: i for i, seed in enumerate(suite.seeds)}
    return sorted(planned, key=lambda cell: order[cell.seed])


def resolved(suite: Suite, plans: Sequence[CellPlan]) -> dict[str, Any]:
    """The suite as it is written beside its results."""
    data = suite.model_dump(exclude={"arms", "not_measured"})
    data["arms"] = [arm.model_dump(exclude={"needs"}) for arm in suite.arms]
    if suite.not_measured:
        data["not_measured"] = suite.not_measured
    run = plans[0].config.run.model_dump()
    run.pop("seed")
    return {**data, "task": plans[0].config.task, "run": run}


def plan_text(suite: Suite, plans: Sequence[CellPlan]) -> str:
    """What the suite would run, without running it."""
    config = plans[0].config
    rollouts = config.sampling.prompts * config.sampling.group_size
    lines = [f"{suite.name}: {suite.summary}".rstrip(": ")]
    lines += [f"  arm {arm.name:20} {arm.summary}" for arm in suite.arms]
    lines += [f"  arm {name:20} not measured: {why}" for name, why in suite.not_measured.items()]
    steps = sum(plan.config.run.steps for plan in plans)
    lines += [
        f"seeds {', '.join(map(str, suite.seeds))}; compared with {suite.baseline}",
        f"primary metric {suite.primary.metric}, threshold {suite.primary.threshold:g}",
        f"{len(plans)} cells, {steps} steps of {rollouts} rollouts in all",
    ]
    if len(suite.seeds) < 6:
        lines.append("fewer than 6 paired seeds: whatever comes out is a lead, not proof")
    return "\n".join(lines)


def _flat(tables: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Dotted keys of nested tables; a `reward.locals`-like table is replaced whole, not merged."""
    pairs = []
    for key, value in tables.items():
        whole = key.split(".")[-1] in ("outcomes", "locals", "algorithm_options")
        if isinstance(value, Mapping) and not whole:
            pairs += [(f"{key}.{inner}", v) for inner, v in _flat(value)]
        else:
            pairs.append((key, value))
    return pairs
