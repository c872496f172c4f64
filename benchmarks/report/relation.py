"""Does what is known of a reward before training say what training does with it?

Each design of a suite is put on the plane of its audit, stability against richness, and the area
under its learning curve is regressed on both, each in standard deviations over the designs. Designs
and their seeds are resampled together for the intervals. It is a statement about these designs on
this task: ten noises of one judge are not ten judges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from botgrpo.benchmarks.report.analysis import Analysis
from botgrpo.benchmarks.report.arms import Arm
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Floats, Interval, percentile_interval
from botgrpo.rewards.reference import parse
from botgrpo.sandbox.errors import ConfigError

STABILITY, RICHNESS = "advantage_repeat", "rollout_bits"
FEWEST_DESIGNS = 6  # two slopes and a mean need more than a few points
REPS = 4000


@dataclass(frozen=True, slots=True)
class Placed:
    """A design on the plane: figures of its reward's audit, and its area by seed."""

    arm: Arm
    stability: float
    richness: float

    @property
    def areas(self) -> Floats:
        return np.array(list(self.arm.auc.values()))


@dataclass(frozen=True, slots=True)
class Slope:
    """Area that goes with one standard deviation more of a figure."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Relation:
    """Designs on the plane and what the plane says of learning; slopes are None with a reason."""

    placed: tuple[Placed, ...]
    left_out: tuple[str, ...]
    stability: Slope | None = None
    richness: Slope | None = None
    gap: Slope | None = None  # size of the first slope minus size of the second
    why: str = ""


def load_audit(path: str | Path) -> dict[str, dict[str, Any]]:
    """Figures of audited rewards by the text of their references, spelt in one way.

    Raises ConfigError for a file that `botgrpo audit` did not write.
    """
    file = Path(path)
    file = file / "audit.json" if file.is_dir() else file
    try:
        cards = json.loads(file.read_text(encoding="utf-8"))["rewards"]
        return {_spelt(card["name"]): card["figures"] for card in cards}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{file}: no audit there ({type(error).__name__}: {error}); give the folder that "
            "`botgrpo audit --out DIR` wrote"
        ) from None


def relate(analysis: Analysis, audit: Mapping[str, Mapping[str, Any]]) -> Relation:
    """Place every design whose reward was audited, and regress area on where it stands."""
    placed, left_out = [], []
    for arm in analysis.arms:
        found = _place(analysis.suite, arm, audit)
        if isinstance(found, Placed):
            placed.append(found)
        else:
            left_out.append(f"{arm.name}: {found}")
    if len(placed) < FEWEST_DESIGNS:
        why = f"{len(placed)} designs stand on the plane; two slopes need {FEWEST_DESIGNS}"
        return Relation(tuple(placed), tuple(left_out), why=why)
    table_D_2 = np.array([[each.stability, each.richness] for each in placed])
    if (table_D_2.std(axis=0) < 1e-9).any():
        why = "all designs are alike in stability or in richness"
        return Relation(tuple(placed), tuple(left_out), why=why)
    areas = [each.areas for each in placed]
    means_D = np.array([each.mean() for each in areas])
    measured = _slopes(table_D_2, means_D)
    drawn = _resampled(table_D_2, areas)
    drawn = np.column_stack([drawn, np.abs(drawn[:, 0]) - np.abs(drawn[:, 1])])
    values = (*measured, abs(measured[0]) - abs(measured[1]))
    stability, richness, gap = (
        Slope(float(value), percentile_interval(draws))
        for value, draws in zip(values, drawn.T, strict=True)
    )
    return Relation(tuple(placed), tuple(left_out), stability, richness, gap)


def sentences(relation: Relation) -> list[str]:
    """The relation in words, with its intervals."""
    if not (relation.stability and relation.richness and relation.gap):
        return [f"Nothing is said of stability and richness: {relation.why}."]
    told = []
    for name, slope in (("stability", relation.stability), ("richness", relation.richness)):
        word = "" if not slope.interval.holds(0) else " (not separated from none)"
        told.append(
            f"One standard deviation more {name} goes with {slope.value:+.3f} "
            f"[{slope.interval.low:+.3f}, {slope.interval.high:+.3f}] in area{word}."
        )
    low, high = relation.gap.interval
    if relation.gap.interval.holds(0):
        verdict = "Which of them matters more is not separated"
    else:
        verdict = f"{'Stability' if low > 0 else 'Richness'} matters more among these designs"
    return [*told, f"{verdict} (difference in size [{low:+.3f}, {high:+.3f}])."]


def _place(suite: SuiteResult, arm: Arm, audit: Mapping[str, Mapping[str, Any]]) -> Placed | str:
    """The design's place, or why it has none."""
    if not arm.auc:
        return "no seed is finished"
    config = next((c.config for c in suite.finished(arm.name) if c.config), {})
    reward = config.get("reward", {})
    names = [*reward.get("locals", {})] or [*reward.get("outcomes", {})]
    known = [name for name in names if _spelt(name) in audit]
    if len(names) != 1 or not known:
        return f"its reward ({', '.join(names) or 'unknown'}) was not audited as one"
    figures = audit[_spelt(known[0])]
    values = [figures.get(key, {}).get("value") for key in (STABILITY, RICHNESS)]
    if any(not isinstance(value, float | int) for value in values):
        return f"the audit could not tell how stable or how rich {known[0]} is"
    return Placed(arm, float(values[0]), float(values[1]))


def _spelt(reference: str) -> str:
    try:
        return repr(parse(reference))
    except ConfigError:  # a file's name and the like stand for themselves
        return reference


def _slopes(table_D_2: Floats, area_D: Floats) -> Floats:
    """Least squares on standardised columns with a mean: [2]."""
    spread = table_D_2.std(axis=0)
    standard = (table_D_2 - table_D_2.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    columns = np.column_stack([np.ones(len(area_D)), standard])
    return np.asarray(np.linalg.lstsq(columns, area_D, rcond=None)[0][1:])


def _resampled(table_D_2: Floats, areas: Sequence[Floats], seed: int = 0) -> Floats:
    """Slopes of resampled designs and, within each, resampled seeds: [reps, 2].

    Columns keep the scale of all designs, so that every draw answers the same question.
    """
    rng = np.random.default_rng(seed)
    spread, middle = table_D_2.std(axis=0), table_D_2.mean(axis=0)
    standard = (table_D_2 - middle) / spread
    found = []
    for _ in range(REPS):
        chosen = rng.integers(0, len(areas), len(areas))
        area_D = np.array([rng.choice(areas[i], areas[i].size).mean() for i in chosen])
        columns = np.column_stack([np.ones(len(chosen)), standard[chosen]])
        if np.linalg.matrix_rank(columns) == 3:
            found.append(np.linalg.lstsq(columns, area_D, rcond=None)[0][1:])
    return np.array(found)
