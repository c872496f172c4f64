"""What a reward may pay for beside what it means: length, form, repetition; and how well it works.

Correlations are taken within groups, since that is where advantages are made, and within equal
labels where there are labels, so that what truth explains is not held against the reward.
"""

from __future__ import annotations

import re

import numpy as np

from botgrpo.benchmarks.audit.estimate import Estimate, estimate, point, ratio, unknown
from botgrpo.benchmarks.audit.figure import Figure
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.audit.truth import correlation
from botgrpo.benchmarks.stats import Floats
from botgrpo.trainer.dominance import report

_FENCE = re.compile(r"^ {0,3}```", re.MULTILINE)
_COST = "judge/cost"
FROM_CACHE_S = 1e-4  # no sandbox and no judge answers so fast


def confound_figures(seen: Observed) -> list[Figure]:
    """Correlations of the outcome with what it should not pay for."""
    rollouts = [item.rollout for item in seen.items]
    length = np.log([1.0 + (len(r.token_spans or ()) or len(r.completion)) for r in rollouts])
    form = np.array(
        [
            float(r.finish_reason == "stop" and len(_FENCE.findall(r.completion)) % 2 == 0)
            for r in rollouts
        ]
    )
    again = np.array([_repetition(r.completion) for r in rollouts])
    labelled = not np.isnan(seen.truth_R).all()
    rest = ", labels being equal" if labelled else ""
    return [
        Figure(key, f"correlation with {what}{rest}", "confounds", _within(seen, x), "zero", note)
        for key, what, x, note in (
            ("length", "length", length, "of the outcome with log tokens, within groups"),
            ("form", "form", form, "with ending by itself and with closed fences, within groups"),
            ("repetition", "repetition", again, "with the share of lines that stood before"),
        )
    ]


def health_figures(seen: Observed) -> list[Figure]:
    """Missing scores, time, money, and what weight makes the outcome decide."""
    table = seen.outcome_N_R
    missing = np.isnan(table).mean(axis=0)
    unknown_R = np.array(
        [np.nan if v is None or not v.size else float(np.isnan(v).mean()) for v in seen.local_R]
    )
    known = (~np.isnan(unknown_R)).astype(float)
    timed = _times(seen)
    costs = [s.metrics[_COST] for row in seen.passes for s in row if _COST in s.metrics]
    total = len(seen.items) * len(seen.passes)
    return [
        Figure("missing", "unscored rollouts", "health",
               estimate(ratio(seen.sums_P(missing), seen.sums_P(np.ones(len(missing)))), "empty"),
               "low", "share that nobody could score; none of them counts as 0"),
        Figure("unknown_tokens", "tokens without a value", "health",
               estimate(ratio(seen.sums_P(unknown_R), seen.sums_P(known)), "no token values"),
               "low"),
        Figure("latency_p50", "time of a rollout, median", "health",
               timed if isinstance(timed, Estimate)
               else point(float(np.quantile(timed, 0.5)), "measured here"), "low",
               "as the reward itself reports it", "s"),
        Figure("latency_p95", "time of a rollout, 95th percentile", "health",
               timed if isinstance(timed, Estimate)
               else point(float(np.quantile(timed, 0.95)), "measured here"), "low", "", "s"),
        Figure("throughput", "rollouts a second, all passes", "health",
               timed if isinstance(timed, Estimate)
               else point(total / max(seen.seconds, 1e-9), "measured here"), "high"),
        Figure("cost", "cost of 1,000 rollouts", "health",
               point(1000 * sum(costs) / total, "as its prices say") if costs
               else unknown("it reports no cost"), "low"),
        Figure("weight_needed", "w_g / w_s for the outcome to decide", "health",
               _weight(seen), "low",
               "above it a failing rollout of a mixed group is pushed down whatever S says"),
    ]  # fmt: skip


def _times(seen: Observed) -> Floats | Estimate:
    """Seconds of every score, or why they say nothing of the reward."""
    seconds = np.array([s.seconds for row in seen.passes for s in row])
    if seen.spec.needs and np.median(seconds) < FROM_CACHE_S:
        return unknown("answered from a cache, since another reward asked before: audit it alone")
    return seconds


def _within(seen: Observed, x_R: Floats) -> Estimate:
    labelled = not np.isnan(seen.truth_R).all()
    outcome = seen.centred_R(seen.outcome_N_R[0], by_truth=labelled)
    x = seen.centred_R(np.where(np.isnan(seen.outcome_N_R[0]), np.nan, x_R), by_truth=labelled)
    if np.nan_to_num(np.abs(x)).max(initial=0.0) < 1e-9:
        return unknown("it does not differ within groups")
    if np.nan_to_num(np.abs(outcome)).max(initial=0.0) < 1e-9:
        return unknown(
            "nothing is left to explain: outcomes follow the labels"
            if labelled
            else "no group whose outcomes differ"
        )
    return estimate(correlation(outcome, x, seen), "too few groups whose outcomes differ")


def _repetition(text: str) -> float:
    """Share of lines of eight code points or more that stood before."""
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if len(line) >= 8]
    return 1 - len(set(lines)) / len(lines) if lines else 0.0


def _weight(seen: Observed) -> Estimate:
    spec = seen.spec
    (low, high), k = spec.outcome_range, max(seen.group_size, 2)
    if spec.local_range is None:
        return unknown("no local signal: the outcome decides alone")
    span = spec.local_range[1] - spec.local_range[0]
    if not np.isfinite([low, high, span]).all() or high <= low:
        return unknown("its ranges are not finite: no weight makes sure of it")
    needed = span * (k - 1) / (high - low)
    bounds = report(
        w_g=needed * (1 + 1e-9) + 1e-12,
        w_s=1.0,
        outcome_gap=high - low,
        local_range=spec.local_range,
        group_size=k,
    )
    assert bounds.rollout_sign or span == 0
    return point(needed, f"from the declared ranges, for groups of {k}")
