"""What a reader must know before relying on a suite's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from botgrpo.benchmarks.hacking import signs
from botgrpo.benchmarks.report.arms import Arm, Comparison
from botgrpo.benchmarks.results import Eval, SuiteResult
from botgrpo.benchmarks.stats import seeds_needed

SHORTER_FILES = 0.9  # below this share of the baseline's length a gain may be bought by brevity
COLLAPSE = 0.15  # peak-to-final drop that is worth a warning
FEW_PROMPTS = 30  # below this one held-out prompt is worth more than most differences
TRUTHS = ("complete", "compile", "match")


def warnings(
    suite: SuiteResult, arms: Sequence[Arm], comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """A sentence each."""
    for name, why in suite.suite.get("not_measured", {}).items():
        yield f"{name}: not measured, since {why}."
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
    prompts = min((e.n for cell in compared for e in cell.evals if e.n), default=FEW_PROMPTS)
    if prompts < FEW_PROMPTS:
        yield f"{prompts} held-out prompts: one of them is worth {1 / prompts:.2f} of a rate."
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


def _cautions(suite: SuiteResult) -> Iterator[str]:
    """What a design does not guarantee, as its runs noted it; arms that share it in one line."""
    arms: dict[str, list[str]] = {}
    for arm in suite.arms:
        notes = (str(cell.manifest.get("caution") or "") for cell in suite.finished(arm))
        if note := next((n for n in notes if n), ""):
            arms.setdefault(note, []).append(arm)
    for note, names in arms.items():
        yield f"{', '.join(names)}: {note[0].lower()}{note[1:]}"


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
