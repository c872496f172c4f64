"""From a suite's cells to the numbers of the report: arms, comparisons, curves, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from botgrpo.benchmarks.curves import (
    Crossing,
    KaplanMeier,
    area_under_curve,
    first_crossing,
    kaplan_meier,
    peak_to_final_drop,
    restricted_steps,
)
from botgrpo.benchmarks.hacking import signs
from botgrpo.benchmarks.results import STEP_TIMES, Cell, Eval, SuiteResult
from botgrpo.benchmarks.stats import (
    Floats,
    Interval,
    Verdict,
    band,
    bootstrap_interval,
    iqm,
    judge,
    probability_of_improvement,
    seeds_needed,
)

SHORTER_FILES = 0.9  # below this share of the baseline's length a gain may be bought by brevity
COLLAPSE = 0.15  # peak-to-final drop that is worth a warning
TRUTHS = ("complete", "compile", "match")
EVAL_METRICS = (*TRUTHS, "mean_length")


@dataclass(frozen=True, slots=True)
class Arm:
    """One design over its finished seeds; mappings are by seed, None where nothing finished."""

    name: str
    summary: str
    index: int
    is_baseline: bool
    planned: int
    auc: Mapping[int, float]
    auc_interval: Interval | None
    crossings: Mapping[int, Crossing]
    survival: KaplanMeier | None
    restricted_mean: float | None
    finals: Mapping[str, float]
    drop: float | None
    unscored: int
    local_unscored_tokens: int
    step_s: float | None

    @property
    def auc_mean(self) -> float | None:
        return float(np.mean(list(self.auc.values()))) if self.auc else None

    @property
    def auc_iqm(self) -> float | None:
        values = np.array(list(self.auc.values()))
        return float(iqm(values[:, None])) if values.size else None

    @property
    def reached(self) -> int:
        return sum(c.reached for c in self.crossings.values())

    @property
    def median_steps(self) -> float | None:
        return self.survival.median if self.survival else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against the baseline on the seeds that both finished.

    `auc` is arm minus baseline; `saved` is baseline minus arm in steps to the threshold, each
    run counting for at most the budget (paired difference in restricted means).
    """

    arm: str
    seeds: tuple[int, ...]
    auc: Verdict
    auc_by_seed: tuple[float, ...]
    saved: Verdict
    win_probability: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean and bounds over the finished seeds at the steps they share; `lines` is every seed."""

    arm: str
    index: int
    steps: tuple[int, ...]
    rows: Floats  # [3, S]: mean, low, high
    n_seeds: int
    lines: tuple[tuple[int, bool, tuple[int, ...], tuple[float, ...]], ...]  # seed, finished, x, y


@dataclass(frozen=True, slots=True)
class Analysis:
    suite: SuiteResult
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]

    @property
    def baseline(self) -> Arm:
        return next(arm for arm in self.arms if arm.is_baseline)

    @property
    def best(self) -> Arm | None:
        """The arm with the largest mean area, None where nothing finished."""
        scored = [arm for arm in self.arms if arm.auc_mean is not None]
        return max(scored, key=lambda a: a.auc_mean or 0.0, default=None)

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def comparison(self, name: str) -> Comparison | None:
        return next((c for c in self.comparisons if c.arm == name), None)


def analyse(suite: SuiteResult) -> Analysis:
    """Everything that the report and the terminal say about a suite."""
    arms = tuple(_arm(suite, name) for name in suite.arms)
    comparisons = tuple(_compare(suite, arms))
    return Analysis(suite, arms, comparisons, tuple(_warnings(suite, arms, comparisons)))


def colour_index(suite: SuiteResult, name: str) -> int:
    """Place of an arm's colour: 0 (grey) is always the baseline."""
    return [suite.baseline, *(a for a in suite.arms if a != suite.baseline)].index(name)


def _arm(suite: SuiteResult, name: str) -> Arm:
    cells = suite.finished(name)
    curves = {cell.seed: cell.curve(suite.metric) for cell in cells}
    auc = {seed: area_under_curve(*curve) for seed, curve in curves.items()}
    crossings = {s: first_crossing(*curve, suite.threshold) for s, curve in curves.items()}
    survival = kaplan_meier(list(crossings.values())) if cells else None
    everything = [suite.cells[name, seed] for seed in suite.seeds]
    return Arm(
        name=name,
        summary=suite.summary_of(name),
        index=colour_index(suite, name),
        is_baseline=name == suite.baseline,
        planned=len(suite.seeds),
        auc=auc,
        auc_interval=bootstrap_interval(list(auc.values())) if auc else None,
        crossings=crossings,
        survival=survival,
        restricted_mean=survival.restricted_mean(suite.last_step) if survival else None,
        finals=_finals(cells),
        drop=float(np.mean([peak_to_final_drop(y) for _, y in curves.values()])) if cells else None,
        unscored=_total(everything, "bot/unscored")
        + sum(e.unscored for cell in everything for e in cell.evals),
        local_unscored_tokens=_total(everything, "bot/local_unscored_tokens"),
        step_s=_step_s(everything),
    )


def _finals(cells: Sequence[Cell]) -> dict[str, float]:
    """Mean over seeds of each metric at the last eval, for metrics that every seed scored there."""
    last = [cell.evals[-1].values for cell in cells]
    names = sorted({name for values in last for name in values})
    return {
        name: float(np.mean([v for values in last if (v := values.get(name)) is not None]))
        for name in names
        if all(values.get(name) is not None for values in last)
    }


def _total(cells: Sequence[Cell], name: str) -> int:
    return int(sum(sum(cell.training_curve(name)[1]) for cell in cells))


def _step_s(cells: Sequence[Cell]) -> float | None:
    """Mean wall time of a training step, without evaluation."""
    seconds = [
        sum(row[name] for name in STEP_TIMES)
        for cell in cells
        for row in cell.metrics
        if all(name in row for name in STEP_TIMES)
    ]
    return float(np.mean(seconds)) if seconds else None


def _compare(suite: SuiteResult, arms: Sequence[Arm]) -> Iterator[Comparison]:
    base = next(arm for arm in arms if arm.is_baseline)
    seeds = {
        arm.name: suite.paired_seeds(arm.name, base.name) for arm in arms if not arm.is_baseline
    }
    seeds = {name: common for name, common in seeds.items() if common}
    by_name = {arm.name: arm for arm in arms}

    def auc(arm: Arm, common: list[int]) -> Floats:
        return np.array([arm.auc[s] for s in common])

    def steps(arm: Arm, common: list[int]) -> Floats:
        return restricted_steps([arm.crossings[s] for s in common], suite.last_step)

    areas = judge({n: (auc(by_name[n], c), auc(base, c)) for n, c in seeds.items()})
    saved = judge({n: (steps(base, c), steps(by_name[n], c)) for n, c in seeds.items()})
    for name, common in seeds.items():
        mine, theirs = auc(by_name[name], common), auc(base, common)
        yield Comparison(
            arm=name,
            seeds=tuple(common),
            auc=areas[name],
            auc_by_seed=tuple(float(d) for d in mine - theirs),
            saved=saved[name],
            win_probability=probability_of_improvement(mine, theirs),
        )


def curve_of(suite: SuiteResult, arm: str, metric: str, *, training: bool = False) -> Curve | None:
    """One arm's curve of an eval metric, or of a training metric; None where there is no value."""
    cells = [suite.cells[arm, seed] for seed in suite.seeds]
    lines = []
    for cell in cells:
        steps, values = cell.training_curve(metric) if training else cell.curve(metric)
        if steps:
            lines.append((cell.seed, cell.status == "finished", tuple(steps), tuple(values)))
    if not lines:
        return None
    whole = [dict(zip(x, y, strict=True)) for _, finished, x, y in lines if finished]
    shared = sorted(set.intersection(*(set(line) for line in whole))) if whole else []
    table = np.array([[line[s] for s in shared] for line in whole])
    rows = band(table) if shared else np.zeros((3, 0))
    return Curve(arm, colour_index(suite, arm), tuple(shared), rows, len(whole), tuple(lines))


def eval_metrics(suite: SuiteResult) -> list[str]:
    """Held-out metrics that some cell has: the primary first, then the usual ones, then others."""
    found = {k for cell in suite.cells.values() for e in cell.evals for k in e.values}
    order = [suite.metric, *EVAL_METRICS, *sorted(found)]
    return [name for name in dict.fromkeys(order) if name in found]


def _cautions(suite: SuiteResult) -> Iterator[str]:
    """What a design does not guarantee, as its runs noted it; arms that share it in one line."""
    arms: dict[str, list[str]] = {}
    for arm in suite.arms:
        notes = (str(cell.manifest.get("caution") or "") for cell in suite.finished(arm))
        if note := next((n for n in notes if n), ""):
            arms.setdefault(note, []).append(arm)
    for note, names in arms.items():
        yield f"{', '.join(names)}: {note[0].lower()}{note[1:]}"


def _warnings(
    suite: SuiteResult, arms: Sequence[Arm], comparisons: Sequence[Comparison]
) -> Iterator[str]:
    for (name, seed), cell in suite.cells.items():
        if cell.status != "finished":
            why = f": {cell.note}" if cell.note else ""
            drawn = ", only drawn" if cell.evals else ""
            yield f"{name}, seed {seed}: {cell.status}{why}. It is not compared{drawn}."
    compared = [cell for arm in arms for cell in suite.finished(arm.name)]
    holes = sum(e.values.get(suite.metric) is None for cell in compared for e in cell.evals)
    if holes:
        yield f"{suite.metric} was not scored in {holes} evaluations; curves go straight across."
    needed, m = seeds_needed(len(suite.arms) - 1), len(suite.arms) - 1
    few = [c for c in comparisons if c.auc.n_seeds < needed]
    if few:
        n = min(c.auc.n_seeds for c in few)
        many = f" over {m} comparisons" if m > 1 else ""
        yield (
            f"Few seeds: {n} paired, while p < .05{many} needs at least {needed}. "
            "Intervals from so few seeds are too narrow."
        )
    yield from _cautions(suite)
    for arm in arms:
        if arm.crossings and arm.reached == 0:
            yield f"{arm.name}: no finished run reached {suite.metric} {suite.threshold:g}."
        if any(c.reached and c.step == 0 for c in arm.crossings.values()):
            yield f"{arm.name}: over the threshold before training in some seed; set it higher."
        if arm.unscored:
            yield f"{arm.name}: {arm.unscored} rollouts could not be scored; they count nowhere."
        if arm.local_unscored_tokens:
            yield f"{arm.name}: {arm.local_unscored_tokens} tokens without a local score (neutral)."
        if arm.drop is not None and arm.drop > COLLAPSE:
            yield f"{arm.name}: ends {arm.drop:.2f} below its own peak; look at its curve."
    yield from _bought(arms)
    yield from _signs(suite)
    yield from suite.problems


def _signs(suite: SuiteResult) -> Iterator[str]:
    """Where a run's reward and its held-out truth part; see `hacking.py`."""
    for arm in suite.arms:
        found: dict[str, list[str]] = {}
        for cell in suite.finished(arm):
            evals = [_row(e) for e in cell.evals]
            truths = [name for name in (suite.metric, *TRUTHS) if name in evals[0]]
            for sign in signs(cell.metrics, evals, list(dict.fromkeys(truths))):
                found.setdefault(sign.kind, []).append(sign.text)
        for texts in found.values():
            seeds = f"{len(texts)} of {len(suite.finished(arm))} seeds"
            yield f"{arm}: look at its rollouts: {texts[0]} ({seeds})."


def _row(e: Eval) -> Mapping[str, object]:
    return {**e.values, "n": e.n, "unscored": e.unscored, "verdicts": e.verdicts}


def _bought(arms: Sequence[Arm]) -> Iterator[str]:
    """Where files got much shorter or match the request less: a gain may be bought that way."""
    base = next(arm for arm in arms if arm.is_baseline)
    for arm in arms:
        length, usual = arm.finals.get("mean_length"), base.finals.get("mean_length")
        if length and usual and length < SHORTER_FILES * usual:
            yield (
                f"{arm.name}: files end at {length:.0f} tokens against {usual:.0f}; part of a gain "
                "may be bought with shorter files."
            )
        match, other = arm.finals.get("match"), base.finals.get("match")
        if match is not None and other is not None and match < other - 0.05:
            yield f"{arm.name}: match ends at {match:.2f} against {other:.2f} of {base.name}."
