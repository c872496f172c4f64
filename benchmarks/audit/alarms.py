"""Which figures are a reason not to train with a reward, and one sentence that says so.

An alarm fires only where the whole interval lies on the wrong side: what cannot be told is no
alarm, and is named as unchecked. How often they fire on known faults and on clean data is measured
by `python -m botgrpo.benchmarks.audit_power`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from botgrpo.benchmarks.audit.figure import Figure
from botgrpo.benchmarks.audit.probes import ADDED, EMPTY_HANDED

Side = Literal["below", "above", "off zero"]

SAME_UPDATE = 0.98  # cosine of two updates that differ in nothing that matters


@dataclass(frozen=True, slots=True)
class Rule:
    """Fires when `figure` is clearly below, above, or away from 0 by more than `limit`.

    Attributes:
        key: name of the alarm; several rules may share one.
        figure: key of the figure.
        side: which side is wrong.
        limit: where it begins.
        says: what is wrong, a clause after "it".
        point: whether a value without an interval suffices (a property of the file).
    """

    key: str
    figure: str
    side: Side
    limit: float
    says: str
    point: bool = False

    def fires(self, figures: Mapping[str, Figure]) -> bool:
        """Whether the interval, or where it suffices the value, lies on the wrong side."""
        found = figures.get(self.figure)
        if found is None or found.estimate.value is None:
            return False
        e = found.estimate
        low, high = (e.value, e.value) if self.point else (e.clearly_above, e.clearly_below)
        assert low is not None and high is not None
        if self.side == "below":
            return high < self.limit
        return low > self.limit or (self.side == "off zero" and high < -self.limit)


RULES = (
    Rule("unstable outcome", "outcome_icc", "below", 0.9, "does not repeat its outcomes"),
    Rule("unstable outcome", "flip_rate", "above", 0.02, "changes its outcomes when asked again"),
    Rule("unstable tokens", "local_icc", "below", 0.9, "does not repeat its token values"),
    Rule("wakes groups", "false_life", "above", 0.02, "tells rollouts apart that are alike"),
    Rule("wakes groups", "groups_waking", "above", 0.02,
         "makes groups die or wake from pass to pass"),
    Rule("loses groups", "lost_life", "above", 0.02, "does not tell apart what differs"),
    Rule("drifts", "drift_outcome", "off zero", 0.1, "drifts on frozen rollouts"),
    Rule("drifts", "drift_since", "off zero", 0.1, "has drifted since the earlier audit"),
    Rule("drifts", "drift_local", "off zero", 0.1, "drifts in its token values"),
    Rule("rare giants", "tail", "above", 4.0, "has rare token values that outweigh all others",
         point=True),
    Rule("disagrees", "right_order", "below", 0.9, "disagrees with the labels within groups"),
    Rule("misplaced", "line_auroc", "below", 0.6, "does not point at what is wrong"),
    Rule("cries wolf", "first_error_f1", "below", 0.1,
         "hits the first error hardly ever, or blames what is clean"),
    Rule("pays for length", "length", "off zero", 0.15, "pays for length"),
    Rule("pays for form", "form", "off zero", 0.15, "pays for form"),
    Rule("pays for repetition", "repetition", "off zero", 0.15, "pays for repetition"),
    Rule("loses scores", "missing", "above", 0.02, "leaves rollouts unscored"),
    Rule("loses scores", "unknown_tokens", "above", 0.02, "leaves tokens without a value"),
    *(Rule("can be fooled", f"paid_{name}", "above", 0.3, f"pays for {words}")
      for name, words in EMPTY_HANDED.items()),
    *(Rule("can be fooled", f"gain_{name}", "above", 0.05, f"pays for {words}")
      for name, words in ADDED.items()),
)  # fmt: skip

# (what it can say for itself, where the figure allows it)
_MERITS = (
    ("outcome_icc", "its outcomes repeat (ICC {:.2f})"),
    ("local_icc", "its token values repeat (ICC {:.2f})"),
    ("youden_j", "it agrees with the labels (J {:.2f})"),
    ("line_auroc", "it points at faulty lines (AUROC {:.2f})"),
)
_SHORT = {
    "outcome_icc": "ICC",
    "local_icc": "ICC",
    "flip_rate": "flips",
    "right_order": "right order",
    "line_auroc": "AUROC",
    "first_error_f1": "F1",
    "length": "r",
    "form": "r",
    "repetition": "r",
    "missing": "share",
    "unknown_tokens": "share",
    "false_life": "share of groups",
    "groups_waking": "share of groups",
    "lost_life": "share of groups",
}
_CHECKS = (
    ("repeatability", "outcome_icc"),
    ("truth", "spearman"),
    ("places", "line_auroc"),
    ("hackability", "paid_empty"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentence, its tone, and the alarms behind it."""

    sentence: str
    tone: Literal["bad", "good", "flat"]
    alarms: tuple[str, ...]


def verdict(name: str, figures: Sequence[Figure]) -> Verdict:
    """One plain sentence: what is wrong, or what speaks for it; then what nobody could tell."""
    by_key = {figure.key: figure for figure in figures}
    fired = [rule for rule in RULES if rule.fires(by_key)]
    if _updates_repeat(by_key):
        fired = [rule for rule in fired if not rule.key.startswith("unstable")]
    alarms = tuple(dict.fromkeys(rule.key for rule in fired))
    unchecked = [
        what for what, key in _CHECKS if key in by_key and by_key[key].estimate.value is None
    ]
    rest = f" Not checked: {', '.join(unchecked)}." if unchecked else ""
    if fired:
        clauses = [f"it {rule.says}{_told(by_key[rule.figure])}" for rule in _one_each(fired)]
        return Verdict(f"{name}: think twice; {_listed(clauses)}.{rest}", "bad", alarms)
    merits = [
        words.format(value)
        for key, words in _MERITS
        if key in by_key and (value := by_key[key].estimate.value) is not None
    ]
    if not merits:
        return Verdict(f"{name}: nothing speaks against it, and little is known.{rest}", "flat", ())
    return Verdict(f"{name}: no alarm; {_listed(merits)}.{rest}", "good", ())


def _updates_repeat(figures: Mapping[str, Figure]) -> bool:
    """Whether the update is the same every time: what a whole group shares cancels in it."""
    found = figures.get("advantage_repeat")
    return found is not None and found.estimate.clearly_above > SAME_UPDATE


def _one_each(fired: Sequence[Rule]) -> list[Rule]:
    """The first rule of each alarm: one clause a reason."""
    return list({rule.key: rule for rule in reversed(fired)}.values())[::-1]


def _told(figure: Figure) -> str:
    e, name = figure.estimate, _SHORT.get(figure.key, "")
    told = f"{name} {e.value:.2f}".strip()
    if e.interval is None:
        return f" ({told})"
    return f" ({told}, {e.interval.low:.2f} to {e.interval.high:.2f})"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
