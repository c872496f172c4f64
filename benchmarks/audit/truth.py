"""Is a reward right, and does it point at the right place? All of it needs labels.

Sources: J = TPR - FPR decides whether training with a noisy verdict learns at all (arXiv
2601.04411); F1 of the first error as the harmonic mean of the accuracies on wrong and on right
solutions: ProcessBench (arXiv 2412.06559); expected calibration error with bins of equal mass:
Nixon et al. 2019.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from botgrpo.benchmarks.audit.estimate import (
    Estimate,
    Statistic,
    divide,
    estimate,
    ratio,
    unknown,
)
from botgrpo.benchmarks.audit.figure import NO_LABELS, NO_SPANS, NO_TOKENS, Figure
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.stats import Floats
from botgrpo.rewards.spans import line_starts

Flags = NDArray[np.bool_]

BINS = 10
MOST_THRESHOLDS = 64
HARDLY = 0.1  # of the largest value: less is no blame
CONSTANT = "outcomes or labels are all equal"


def truth_figures(seen: Observed) -> list[Figure]:
    """All figures of this axis, computed or with the reason why not."""
    return [
        Figure("spearman", "rank correlation with the labels", "truth", _spearman(seen), "high"),
        Figure("youden_j", "J: true minus false positives", "truth", _youden(seen), "high",
               "at the best threshold; 1 is always right, 0 says nothing"),
        Figure("right_order", "right order within groups", "truth", _right_order(seen), "high",
               "chance that a good rollout gets more than a bad one of its group; ties are half"),
        Figure("calibration_error", "calibration error", "truth", _calibration(seen), "low",
               "mean distance of outcome and share of good labels, over ten bins"),
        Figure("brier", "Brier score", "truth", _brier(seen), "low",
               "mean square distance of outcome and label"),
        Figure("token_auroc", "tokens: AUROC of the faults", "truth", _token_auroc(seen), "high",
               "chance that a faulty token is valued below a sound one of its rollout"),
        Figure("line_auroc", "lines: AUROC of the faults", "truth", _line_auroc(seen), "high",
               "the same for lines, each with the lowest value of its tokens"),
        Figure("first_error_f1", "first error: ProcessBench F1", "truth", _first_error(seen),
               "high", "harmonic mean: its line found in faulty rollouts, none in clean ones"),
        Figure("kinds_covered", "error kinds that it points at", "truth", _kinds(seen), "high",
               "mean over the labelled kinds of the share of faults valued below the rest"),
    ]  # fmt: skip


def correlation(x_R: Floats, y_R: Floats, seen: Observed) -> Statistic:
    """Pearson's correlation over rollouts where both are known."""
    known = ~np.isnan(x_R) & ~np.isnan(y_R)
    x, y = np.where(known, x_R, 0.0), np.where(known, y_R, 0.0)
    x = x - (x.sum() / max(known.sum(), 1)) * known
    y = y - (y.sum() / max(known.sum(), 1)) * known
    rows = np.stack([known.astype(float), x, y, x * x, y * y, x * y], axis=1)

    def pearson(s: Floats) -> Floats:
        n, sx, sy, sxx, syy, sxy = (s[..., i] for i in range(6))
        x_spread, y_spread = n * sxx - sx * sx, n * syy - sy * sy
        told = np.minimum(x_spread, y_spread) > 1e-12 * n**2  # less is rounding
        below = np.sqrt(np.where(told, x_spread * y_spread, 1.0))
        return np.where(told, (n * sxy - sx * sy) / below, np.nan)

    return Statistic(seen.rows_P(rows), pearson)


def _labelled(seen: Observed) -> Floats | None:
    """Outcomes of the first pass where there is a label; None without any label."""
    if np.isnan(seen.truth_R).all():
        return None
    return np.where(np.isnan(seen.truth_R), np.nan, seen.outcome_N_R[0])


def _spearman(seen: Observed) -> Estimate:
    outcome = _labelled(seen)
    if outcome is None:
        return unknown(NO_LABELS)
    known = ~np.isnan(outcome)
    said, true = np.full(len(outcome), np.nan), np.full(len(outcome), np.nan)
    said[known] = rankdata(outcome[known]) / max(known.sum(), 1)
    true[known] = rankdata(seen.truth_R[known]) / max(known.sum(), 1)
    return estimate(correlation(said, true, seen), CONSTANT)


def _youden(seen: Observed) -> Estimate:
    """At the best threshold, so that a graded outcome is not held to the middle of its range."""
    outcome = _labelled(seen)
    if outcome is None:
        return unknown(NO_LABELS)
    known, good = ~np.isnan(outcome), seen.truth_R > 0.5
    values = np.unique(outcome[known])
    if len(values) > MOST_THRESHOLDS:
        values = np.unique(np.quantile(values, np.linspace(0, 1, MOST_THRESHOLDS)))
    rates = [
        (outcome[known & good] > v).mean() - (outcome[known & ~good] > v).mean()
        for v in values
        if (known & good).any() and (known & ~good).any()
    ]
    if not rates:
        return unknown("labels are all good or all bad")
    says = outcome > values[int(np.argmax(rates))] if max(rates) > 0 else outcome > values.mean()
    rows = np.stack([known & good, known & good & says, known & ~good, known & ~good & says], 1)
    return estimate(
        Statistic(
            seen.rows_P(rows.astype(float)),
            lambda s: divide(s[..., 1], s[..., 0]) - divide(s[..., 3], s[..., 2]),
        ),
        "labels are all good or all bad",
    )


def _right_order(seen: Observed) -> Estimate:
    """All that advantages within groups can learn of the labels; offsets of a group cancel."""
    outcome = _labelled(seen)
    if outcome is None:
        return unknown(NO_LABELS)
    won, pairs = np.zeros(seen.n_prompts), np.zeros(seen.n_prompts)
    for prompt, members in enumerate(seen.members_P):
        known = [i for i in members if not np.isnan(outcome[i])]
        said, true = outcome[known], seen.truth_R[known]
        better = true[:, None] > true[None, :] + 1e-9
        order = (np.sign(said[:, None] - said[None, :]) + 1) / 2
        won[prompt], pairs[prompt] = order[better].sum(), better.sum()
    return estimate(ratio(won, pairs), "no group has labels that differ")


def _scaled(seen: Observed) -> Floats | str:
    """Outcomes as probabilities, or why they are none."""
    outcome = _labelled(seen)
    if outcome is None:
        return NO_LABELS
    low, high = seen.spec.outcome_range
    if not np.isfinite([low, high]).all() or high <= low:
        return "the outcome has no finite range, so it is no probability"
    known = seen.truth_R[~np.isnan(seen.truth_R)]
    if not np.isin(known, (0.0, 1.0)).all():
        return "labels are not 0 or 1"
    return np.asarray((outcome - low) / (high - low))


def _calibration(seen: Observed) -> Estimate:
    p = _scaled(seen)
    if isinstance(p, str):
        return unknown(p)
    known = ~np.isnan(p)
    if not known.any():
        return unknown("no labelled rollout was scored")
    edges = np.unique(np.quantile(p[known], np.linspace(0, 1, BINS + 1)[1:-1]))
    bin_R = np.searchsorted(edges, np.nan_to_num(p), "left")
    rows = np.zeros((len(p), 2 * BINS + 1))
    rows[np.arange(len(p)), bin_R] = np.where(known, p - seen.truth_R, 0.0)
    rows[:, -1] = known

    def error(s: Floats) -> Floats:
        return divide(np.abs(s[..., : 2 * BINS]).sum(axis=-1), s[..., -1])

    return estimate(Statistic(seen.rows_P(rows), error), CONSTANT)


def _brier(seen: Observed) -> Estimate:
    p = _scaled(seen)
    if isinstance(p, str):
        return unknown(p)
    known = (~np.isnan(p)).astype(float)
    square = seen.sums_P((p - seen.truth_R) ** 2)
    return estimate(ratio(square, seen.sums_P(known)), "no labelled rollout was scored")


def _placed(seen: Observed) -> str:
    """Why places cannot be compared; "" where they can."""
    if all(i.faults is None for i in seen.items):
        return NO_SPANS
    return "" if seen.has_tokens else NO_TOKENS


def _token_auroc(seen: Observed) -> Estimate:
    def pair(i: int, values_T: Floats) -> tuple[Floats, Flags]:
        known = ~np.isnan(values_T)
        return values_T[known], seen.fault_T(i)[known]

    return _auroc(seen, pair)


def _line_auroc(seen: Observed) -> Estimate:
    def pair(i: int, values_T: Floats) -> tuple[Floats, Flags]:
        rollout = seen.items[i].rollout
        starts_T = np.array([start for start, _ in rollout.token_spans or ()], dtype=np.int64)
        line_T = np.searchsorted(line_starts(rollout.completion), starts_T, "right") - 1
        known = ~np.isnan(values_T)
        lowest = np.full(int(line_T.max(initial=0)) + 1, np.inf)
        np.minimum.at(lowest, line_T[known], values_T[known])
        bad = np.bincount(line_T, weights=seen.fault_T(i), minlength=len(lowest)) > 0
        told = np.isfinite(lowest)
        return lowest[told], bad[told]

    return _auroc(seen, pair)


def _auroc(seen: Observed, pair: Callable[[int, Floats], tuple[Floats, Flags]]) -> Estimate:
    """Mean over rollouts of the chance that what is bad is valued below what is not."""
    if why := _placed(seen):
        return unknown(why)
    auroc = np.full(len(seen.items), np.nan)
    for i, (item, local) in enumerate(zip(seen.items, seen.local_R, strict=True)):
        if not item.faults or local is None:
            continue
        values, bad = pair(i, local[0])
        n, m = int(bad.sum()), int((~bad).sum())
        if n and m:
            auroc[i] = (rankdata(-values)[bad].sum() - n * (n + 1) / 2) / (n * m)
    return estimate(
        ratio(seen.sums_P(auroc), seen.sums_P((~np.isnan(auroc)).astype(float))),
        "no rollout has faulty and sound tokens with values",
    )


def _first_error(seen: Observed) -> Estimate:
    if why := _placed(seen):
        return unknown(why)
    rows = np.zeros((len(seen.items), 4))
    size = max(
        (float(np.nanmax(np.abs(v[0]))) for v in seen.local_R
         if v is not None and not np.isnan(v[0]).all()),
        default=0.0,
    )  # fmt: skip
    for i, (item, local) in enumerate(zip(seen.items, seen.local_R, strict=True)):
        if item.faults is None or local is None or np.isnan(local[0]).all():
            continue
        usual = float(np.nanmedian(local[0]))
        blamed = np.flatnonzero(local[0] < min(usual, 0.0) - HARDLY * size - 1e-9)
        if not item.faults:
            rows[i] = 0, 0, 1, len(blamed) == 0
            continue
        rows[i] = 1, len(blamed) > 0 and _in_first_fault(seen, i, int(blamed[0])), 0, 0

    def f1(s: Floats) -> Floats:
        wrong, right = divide(s[..., 1], s[..., 0]), divide(s[..., 3], s[..., 2])
        return np.where(wrong + right == 0, 0.0, divide(2 * wrong * right, wrong + right))

    return estimate(
        Statistic(seen.rows_P(rows), lambda s: np.where(s[..., 0] * s[..., 2] > 0, f1(s), np.nan)),
        "needs labelled rollouts with faults and without",
    )


def _in_first_fault(seen: Observed, i: int, token: int) -> bool:
    """Whether the token begins on a line of the first labelled fault."""
    rollout, faults = seen.items[i].rollout, seen.items[i].faults or ()
    starts = line_starts(rollout.completion)
    first, last = np.searchsorted(starts, [faults[0].start, faults[0].end - 1], "right")
    at = np.searchsorted(starts, (rollout.token_spans or ())[token][0], "right")
    return bool(first <= at <= last)


def _kinds(seen: Observed) -> Estimate:
    """Means over passes, beyond what accident explains, so that noise covers nothing."""
    if why := _placed(seen):
        return unknown(why)
    kinds = sorted({f.kind for i in seen.items for f in i.faults or ()})
    if not kinds or kinds == [""]:
        return unknown("no label names its kind of error")
    place = {kind: 2 * k for k, kind in enumerate(kinds)}
    rows = np.zeros((len(seen.items), 2 * len(kinds)))
    for i, (item, local) in enumerate(zip(seen.items, seen.local_R, strict=True)):
        if not item.faults or local is None:
            continue
        known = ~np.isnan(local).any(axis=0)
        mean_T = np.where(known, np.nan_to_num(local).mean(axis=0), np.nan)
        sound = known & ~seen.fault_T(i)
        spans = np.array(item.rollout.token_spans or (), dtype=np.int64).reshape(-1, 2)
        for fault in item.faults:
            here = known & (spans[:, 0] < fault.end) & (spans[:, 1] > fault.start)
            if here.any() and sound.any():
                lower = mean_T[sound].mean() - mean_T[here].mean() > seen.margin(int(here.sum()))
                rows[i, place[fault.kind] : place[fault.kind] + 2] += (1, lower)

    def mean_recall(s: Floats) -> Floats:
        recall = divide(s[..., 1::2], s[..., 0::2])
        there = np.isfinite(recall)
        return divide(np.where(there, recall, 0.0).sum(axis=-1), there.sum(axis=-1).astype(float))

    return estimate(Statistic(seen.rows_P(rows), mean_recall), "no fault has a token with a value")
