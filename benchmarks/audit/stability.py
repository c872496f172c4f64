"""Does a reward say the same twice, and does it tell the rollouts of a group apart?

Sources: ICC(2,1): Shrout and Fleiss 1979 (`benchmarks/stability.py` holds the plain form); reward
variance within a prompt as what a policy can learn from: arXiv 2503.15477.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from botgrpo.benchmarks.audit.bounded import bounded_figures
from botgrpo.benchmarks.audit.estimate import (
    Estimate,
    Statistic,
    divide,
    estimate,
    point,
    ratio,
    unknown,
)
from botgrpo.benchmarks.audit.figure import NO_LABELS, NO_TOKENS, ONE_PASS, Figure, Good
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.stability import disagreement
from botgrpo.benchmarks.stats import Floats

ALL_EQUAL = "all values are equal"
MOST_VERDICTS = 16  # an outcome with more values is graded, and differs in a last digit


def stability_figures(seen: Observed, earlier: Mapping[str, float] | None = None) -> list[Figure]:
    """All figures of this axis, computed or with the reason why not.

    `earlier` holds the outcomes of the same rollouts in an earlier audit, by id.
    """
    return [
        _figure("outcome_icc", "outcome: test-retest ICC(2,1)", _outcome_icc(seen), "high",
                "share of the variance of one outcome that lies between rollouts"),
        _figure("flip_rate", "outcome: flip rate", _flip_rate(seen), "low",
                "chance that two passes disagree; of graded outcomes, on which side of the median"),
        _figure("local_icc", "token values: test-retest ICC(2,1)", _local_icc(seen), "high",
                "the same for the value of a token"),
        _figure("signal_share", "signal within groups", _signal_share(seen), "high",
                "variance between the rollouts of a group, as a share of it and the noise"),
        _figure("dead_groups", "groups with equal outcomes", _dead(seen), "",
                "groups from which an outcome-only method learns nothing"),
        _figure("dead_kept_alive", "of these, alive by token values", _kept_alive(seen), "",
                "groups with equal outcomes in which token values differ"),
        _figure("groups_waking", "groups that die or wake between passes", _waking(seen), "low",
                "dead in one pass and alive in another"),
        _figure("false_life", "truly equal groups that it tells apart", _life(seen, alive=True),
                "low", "groups whose labels are equal and outcomes are not: noise at full size"),
        _figure("lost_life", "truly mixed groups that it leaves dead", _life(seen, alive=False),
                "low", "groups whose labels differ and outcomes do not"),
        _figure("drift_outcome", "outcome: drift", _drift(seen, seen.outcome_N_R), "zero",
                "last pass minus first, in deviations of the outcome; frozen rollouts"),
        _figure("drift_since", "outcome: drift since the earlier audit", _since(seen, earlier),
                "zero", "mean change of the same rollouts, in deviations of the outcome"),
        _figure("drift_local", "token values: drift", _local_drift(seen), "zero",
                "the same for the mean value of a rollout's tokens"),
        *bounded_figures(seen),
    ]  # fmt: skip


def _figure(key: str, title: str, value: Estimate, good: Good, note: str) -> Figure:
    return Figure(key, title, "stability", value, good, note)


def icc_statistic(tables: list[tuple[int, Floats]], n_prompts: int) -> Statistic:
    """ICC(2,1) of tables [N, rows], each with its prompt, whose values are all known."""
    passes = tables[0][1].shape[0]
    everything = np.concatenate([t.ravel() for _, t in tables])
    centre, scale = everything.mean(), float((everything**2).mean())
    rows_P_M = np.zeros((n_prompts, passes + 3))
    for prompt, table in tables:
        x = table - centre
        rows_P_M[prompt, 0] += x.shape[1]
        rows_P_M[prompt, 1 : passes + 1] += x.sum(axis=1)
        rows_P_M[prompt, passes + 1] += (x.mean(axis=0) ** 2).sum()
        rows_P_M[prompt, passes + 2] += (x**2).sum()
    return Statistic(rows_P_M, _icc_of(passes, 1e-12 * max(1.0, scale)))


def _icc_of(n: int, floor: float) -> Callable[[Floats], Floats]:
    def icc(s: Floats) -> Floats:
        r, columns_n = s[..., 0], s[..., 1 : n + 1]
        squares, total = s[..., n + 1], s[..., n + 2]
        mean = divide(columns_n.sum(axis=-1), r * n)
        middle = r * n * mean**2
        rows = n * squares - middle
        columns = divide((columns_n**2).sum(axis=-1), r) - middle
        rest = np.maximum(0.0, total - middle - rows - columns)
        ms_rows, ms_columns = divide(rows, r - 1), columns / (n - 1)
        ms_rest = divide(rest, (r - 1) * (n - 1))
        below = ms_rows + (n - 1) * ms_rest + n * divide(ms_columns - ms_rest, r)
        return np.where(below > floor, divide(ms_rows - ms_rest, below), np.nan)

    return icc


def _outcome_icc(seen: Observed) -> Estimate:
    if len(seen.passes) < 2:
        return unknown(ONE_PASS)
    table = seen.outcome_N_R
    whole = ~np.isnan(table).any(axis=0)
    if whole.sum() < 2:
        return unknown("fewer than two rollouts were scored in every pass")
    tables = [(int(seen.prompt_R[i]), table[:, i : i + 1]) for i in np.flatnonzero(whole)]
    statistic = icc_statistic(tables, seen.n_prompts)
    return estimate(statistic, ALL_EQUAL)


def _local_icc(seen: Observed) -> Estimate:
    if not seen.has_tokens:
        return unknown(NO_TOKENS)
    if len(seen.passes) < 2:
        return unknown(ONE_PASS)
    tables = [
        (int(p), local[:, ~np.isnan(local).any(axis=0)])
        for p, local in zip(seen.prompt_R, seen.local_R, strict=True)
        if local is not None
    ]
    tables = [(p, t) for p, t in tables if t.shape[1]]
    if not tables:
        return unknown("no token has a value in every pass")
    statistic = icc_statistic(tables, seen.n_prompts)
    return estimate(statistic, ALL_EQUAL)


def _flip_rate(seen: Observed) -> Estimate:
    if len(seen.passes) < 2:
        return unknown(ONE_PASS)
    table = seen.outcome_N_R
    told = table[~np.isnan(table)]
    if len(np.unique(told)) > MOST_VERDICTS:  # graded: which side of the middle it falls on
        table = np.where(np.isnan(table), np.nan, table > np.median(told))
    columns = [column[~np.isnan(column)].tolist() for column in table.T]
    rates = np.array([disagreement(c) if len(c) > 1 else np.nan for c in columns])
    return estimate(
        ratio(seen.sums_P(rates), seen.sums_P((~np.isnan(rates)).astype(float))),
        "no rollout was scored twice",
    )


def _signal_share(seen: Observed) -> Estimate:
    """B / (B + W): B between rollouts of a group beyond the noise of their means, W in one pass."""
    if len(seen.passes) < 2:
        return unknown(ONE_PASS)
    table, n = seen.outcome_N_R, len(seen.passes)
    whole = ~np.isnan(table).any(axis=0)
    mean_R = np.where(whole, np.nan_to_num(table).mean(axis=0), np.nan)
    noise_R = np.where(whole, np.nan_to_num(table).var(axis=0, ddof=1), np.nan)
    centred = seen.centred_R(mean_R, by_truth=False)
    group_n = np.bincount(seen.prompt_R, weights=whole, minlength=seen.n_prompts)
    free_P = np.maximum(group_n - 1, 0)
    several_R = ~np.isnan(centred)
    rows = np.stack(
        [
            seen.sums_P(centred**2),
            free_P,
            seen.sums_P(np.where(several_R, noise_R, np.nan)),
            seen.sums_P(several_R.astype(float)),
        ],
        axis=1,
    )

    def share(s: Floats) -> Floats:
        noise = divide(s[..., 2], s[..., 3])
        between = np.maximum(0.0, divide(s[..., 0], s[..., 1]) - noise / n)
        return divide(between, between + noise)

    return estimate(Statistic(rows, share), "no group whose outcomes differ")


def alive_P(seen: Observed, values_R: Floats) -> tuple[Floats, Floats]:
    """For each prompt whether its known values differ (1 or 0), and whether it has two of them."""
    several, alive = np.zeros(seen.n_prompts), np.zeros(seen.n_prompts)
    for prompt, members in enumerate(seen.members_P):
        values = values_R[members]
        values = values[~np.isnan(values)]
        several[prompt] = len(values) > 1
        alive[prompt] = len(values) > 1 and np.ptp(values) > 1e-9
    return alive, several


def _dead(seen: Observed) -> Estimate:
    alive, several = alive_P(seen, seen.outcome_N_R[0])
    return estimate(ratio(several - alive, several), "no group of two scored rollouts or more")


def _kept_alive(seen: Observed) -> Estimate:
    if not seen.has_tokens:
        return unknown(NO_TOKENS)
    alive, several = alive_P(seen, seen.outcome_N_R[0])
    varied = np.zeros(seen.n_prompts)
    for prompt, members in enumerate(seen.members_P):
        values = [
            local[0][~np.isnan(local[0])] for i in members if (local := seen.local_R[i]) is not None
        ]
        pooled = np.concatenate(values) if values else np.zeros(0)
        varied[prompt] = pooled.size > 0 and np.ptp(pooled) > 1e-9
    dead = several - alive
    return estimate(ratio(dead * varied, dead), "no group has equal outcomes")


def _waking(seen: Observed) -> Estimate:
    if len(seen.passes) < 2:
        return unknown(ONE_PASS)
    each = [alive_P(seen, row) for row in seen.outcome_N_R]
    alive_N_P = np.stack([a for a, _ in each])
    several = np.stack([s for _, s in each]).min(axis=0)
    changes = (alive_N_P.max(axis=0) != alive_N_P.min(axis=0)) * several
    return estimate(ratio(changes, several), "no group of two scored rollouts or more")


def _life(seen: Observed, *, alive: bool) -> Estimate:
    if np.isnan(seen.truth_R).all():
        return unknown(NO_LABELS)
    known = ~np.isnan(seen.truth_R)
    if alive and len(np.unique(seen.outcome_N_R[0][~np.isnan(seen.outcome_N_R[0])])) > 2:
        return unknown("outcomes are graded and may know more than the labels")
    outcome_alive, several = alive_P(seen, np.where(known, seen.outcome_N_R[0], np.nan))
    truth_alive, _ = alive_P(seen, np.where(np.isnan(seen.outcome_N_R[0]), np.nan, seen.truth_R))
    if alive:
        base, hits = several * (1 - truth_alive), several * (1 - truth_alive) * outcome_alive
        return estimate(ratio(hits, base), "no group has equal labels")
    base, hits = several * truth_alive, several * truth_alive * (1 - outcome_alive)
    return estimate(ratio(hits, base), "no group has labels that differ")


def _drift(seen: Observed, table_N_R: Floats) -> Estimate:
    if len(seen.passes) < 2:
        return unknown(ONE_PASS)
    return _change(seen, table_N_R[0], table_N_R[-1])


def _change(seen: Observed, before_R: Floats, after_R: Floats) -> Estimate:
    """Mean of after - before in deviations of before."""
    known = ~np.isnan(before_R) & ~np.isnan(after_R)
    spread = float(before_R[known].std()) if known.any() else 0.0
    change = np.where(known, after_R - before_R, np.nan)
    if spread < 1e-9:
        if known.any() and np.nanmax(np.abs(change)) < 1e-9:
            return point(0.0, "nothing moved, and nothing varies to measure it by")
        spread = 1.0
    return estimate(
        ratio(seen.sums_P(change / spread), seen.sums_P(known.astype(float))),
        "no rollout was scored both times",
    )


def _since(seen: Observed, earlier: Mapping[str, float] | None) -> Estimate:
    if earlier is None:
        return unknown("no earlier audit: name its folder with --since")
    before = np.array([earlier.get(item.id, np.nan) for item in seen.items])
    if np.isnan(before).all():
        return unknown("the earlier audit scored none of these rollouts with this reward")
    return _change(seen, before, seen.mean_outcome_R)


def _local_drift(seen: Observed) -> Estimate:
    if not seen.has_tokens:
        return unknown(NO_TOKENS)
    means = np.full((len(seen.passes), len(seen.items)), np.nan)
    for i, local in enumerate(seen.local_R):
        if local is not None and (known := ~np.isnan(local).any(axis=0)).any():
            means[:, i] = local[:, known].mean(axis=1)
    return _drift(seen, means)
