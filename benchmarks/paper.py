"""The paper's figures F1 to F10: what it says, what it leaves open, what we run, and what came out.

A figure is a file of `figures/`: its claim, the marks that belong on ours, and for each tier a
suite, or the reason why it is not measured there. A claim is a list of expectations about two arms;
it agrees only where paired seeds separate them.

Source: Yang et al. 2026 (2610.09804), section and figure as the file names them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from botgrpo.benchmarks import shipped
from botgrpo.benchmarks.curves import peak_to_final_drop
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.report.words import bounds, signed
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Verdict, judge, seeds_needed
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs

Tier = Literal["micro", "small", "paper"]
Word = Literal["agrees", "disagrees", "not separated", "not measured"]
ALIKE = 0.02  # in area: within this, two arms are called alike


class Place(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str = ""
    note: str = ""


class Expectation(BaseModel):
    """`arm` learns faster than `than` (better) or as fast (alike), by area under the curve, or
    falls less from its peak to its end (steadier)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: str
    than: str
    kind: Literal["better", "alike", "steadier"] = Field(alias="is")


class Figure(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    paper: str
    marks: list[str] = []
    open: list[str] = []
    chosen: list[str] = []
    tiers: dict[Tier, Place]
    pass_at: list[int] = []  # pass@k of the last checkpoints, for these k
    pages: list[str] = []  # arms whose last pages are photographed
    expects: list[Expectation] = []


@dataclass(frozen=True, slots=True)
class Finding:
    """One expectation held against what was measured."""

    text: str
    word: Word
    brief: str = ""  # the claim with its figure alone


def names() -> list[str]:
    """F1 to F10, in their order."""
    return sorted(shipped.names("figures"), key=lambda name: int(name[1:]))


def load(name: str) -> Figure:
    """Raises ConfigError for a figure that the paper does not have, or a file that is malformed."""
    if name.upper() not in names():
        near = difflib.get_close_matches(name.upper(), names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(f"no figure {name!r}.{hint} The paper's: {', '.join(names())}")
    path = shipped.find("figures", name.upper())
    try:
        return Figure.model_validate({"name": name.upper(), **configs.read_toml(path)})
    except ValidationError as error:
        raise ConfigError(f"{path}: {configs.explain(error, Figure)}") from None


def findings(figure: Figure, result: SuiteResult) -> list[Finding]:
    """Each expectation on the seeds that both arms finished; Holm over those of the figure."""
    analysis = analyse(result)

    def measured(arm: str, seed: int, kind: str) -> float:
        if kind == "steadier":
            return -peak_to_final_drop(result.cells[arm, seed].curve(result.metric)[1])
        return analysis.arm(arm).auc[seed]

    pairs = {}
    for number, each in enumerate(figure.expects):
        if each.arm not in result.arms or each.than not in result.arms:
            continue
        if seeds := result.paired_seeds(each.arm, each.than):
            one, other = (
                np.array([measured(arm, seed, each.kind) for seed in seeds])
                for arm in (each.arm, each.than)
            )
            pairs[str(number)] = (one, other)
    verdicts = judge(pairs) if pairs else {}
    return [_finding(each, verdicts.get(str(number))) for number, each in enumerate(figure.expects)]


def overall(found: Sequence[Finding]) -> Word:
    """One word for a figure: the worst that is known."""
    words = {finding.word for finding in found}
    order: tuple[Word, ...] = ("disagrees", "not separated", "agrees")
    return next((word for word in order if word in words), "not measured")


def _finding(expected: Expectation, verdict: Verdict | None) -> Finding:
    relation, measure = {
        "better": ("faster than", "area"),
        "alike": ("as fast as", "area"),
        "steadier": ("falls less than", "spared of the peak"),
    }[expected.kind]
    claim = f"{expected.arm} {relation} {expected.than}"
    if verdict is None:
        return Finding(
            f"{claim}: an arm is missing, or no seed is finished in both", "not measured"
        )
    brief = f"{claim}: {measure} {signed(verdict.difference)} {bounds(verdict.interval)}"
    said = f"{brief}, {verdict.sentence}"
    if expected.kind == "alike":
        interval = verdict.interval if verdict.n_seeds >= seeds_needed() else None
        if interval and interval.low >= -ALIKE and interval.high <= ALIKE:
            return Finding(f"{said}; within {ALIKE:g}", "agrees", brief)
        apart = verdict.word in ("better", "worse") and abs(verdict.difference) > ALIKE
        return Finding(said, "disagrees" if apart else "not separated", brief)
    words: dict[str, Word] = {"better": "agrees", "worse": "disagrees"}
    return Finding(said, words.get(verdict.word, "not separated"), brief)
