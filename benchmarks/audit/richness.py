"""How much a reward says: bits of signal, tokens addressed, kinds of error named.

Noise has many distinct values and says nothing, so bits are the entropy of the values of one pass
times the share of their variance that repeats, at most what a channel of that signal to noise lets
through: 0.5 log2(1 + signal / noise), Shannon 1948, theorem 17. A figure to compare rewards with,
not a mutual information.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from botgrpo.benchmarks.audit.estimate import (
    Estimate,
    Statistic,
    divide,
    estimate,
    point,
    ratio,
    unknown,
)
from botgrpo.benchmarks.audit.figure import NO_TOKENS, ONE_PASS, Figure
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.stats import Floats

MOST_VALUES = 256


def richness_figures(seen: Observed) -> list[Figure]:
    """All figures of this axis, computed or with the reason why not."""
    outcome, token = _outcome_bits(seen), _token_bits(seen)
    return [
        Figure("outcome_bits", "bits of an outcome", "richness", outcome, "high",
               "entropy of its values, as far as they repeat"),
        Figure("token_bits", "bits of a token's value", "richness", token, "high",
               "the same for a token"),
        Figure("rollout_bits", "bits of a rollout", "richness",
               _rollout_bits(seen, outcome, token), "high",
               "outcome and tokens together, tokens taken as independent: an upper bound"),
        Figure("tokens_addressed", "tokens addressed", "richness", _addressed(seen), "high",
               "share whose value differs from the rollout's usual one by more than accident"),
        Figure("kinds_named", "kinds of finding that it names", "richness", _named(seen), "high",
               "distinct beginnings of its own labels, up to the first colon"),
    ]  # fmt: skip


def _outcome_bits(seen: Observed) -> Estimate:
    known = ~np.isnan(seen.outcome_N_R).any(axis=0)
    if not known.any():
        return unknown("no rollout was scored in every pass")
    if len(seen.passes) < 2 and not seen.spec.deterministic:
        return unknown(ONE_PASS)
    tables = [seen.outcome_N_R[:, i : i + 1] for i in np.flatnonzero(known)]
    return _bits(seen, tables, seen.prompt_R[known].tolist())


def _token_bits(seen: Observed) -> Estimate:
    if not seen.has_tokens:
        return unknown(NO_TOKENS)
    if len(seen.passes) < 2 and not seen.spec.deterministic:
        return unknown(ONE_PASS)
    tables, prompts = [], []
    for prompt, local in zip(seen.prompt_R, seen.local_R, strict=True):
        if local is not None:
            tables.append(local[:, ~np.isnan(local).any(axis=0)])
            prompts.append(int(prompt))
    return _bits(seen, tables, prompts)


def _bits(seen: Observed, tables: list[Floats], prompts: Sequence[int]) -> Estimate:
    """Entropy of tables [N, n] of values, as far as it repeats."""
    values = np.round(np.concatenate([t[0] for t in tables]), 9)
    if not values.size:
        return unknown("no value is known in every pass")
    distinct, code = np.unique(values, return_inverse=True)
    if len(distinct) > MOST_VALUES:
        edges = np.quantile(values, np.linspace(0, 1, MOST_VALUES + 1)[1:-1])
        code = np.searchsorted(edges, values)
    m, n = int(code.max()) + 1, len(tables[0])
    rows = np.zeros((seen.n_prompts, m + 4))
    ends = np.cumsum([t.shape[1] for t in tables])
    centre = float(np.mean(values))
    for prompt, table, piece in zip(prompts, tables, np.split(code, ends[:-1]), strict=True):
        rows[prompt, :m] += np.bincount(piece, minlength=m)
        mean = table.mean(axis=0) - centre
        noise = table.var(axis=0, ddof=1).sum() if n > 1 else 0.0
        rows[prompt, m:] += table.shape[1], mean.sum(), (mean**2).sum(), noise

    def bits(s: Floats) -> Floats:
        share = divide(s[..., :m], s[..., m : m + 1])
        entropy = -np.where(share > 0, share * np.log2(np.maximum(share, 1e-300)), 0).sum(axis=-1)
        noise = divide(s[..., m + 3], s[..., m])
        middle = divide(s[..., m + 1], s[..., m])
        signal = np.maximum(0.0, divide(s[..., m + 2], s[..., m]) - middle**2 - noise / n)
        repeated = divide(signal, signal + noise)
        capacity = 0.5 * np.log2(1 + signal / np.maximum(noise, 1e-12))
        capped = np.where(
            noise > 1e-12, np.minimum(entropy * np.nan_to_num(repeated), capacity), entropy
        )
        return np.asarray(capped, dtype=np.float64)

    return estimate(Statistic(rows, bits), "no value is known")


def _rollout_bits(seen: Observed, outcome: Estimate, token: Estimate) -> Estimate:
    if outcome.value is None:
        return unknown("no bits of an outcome")
    lengths = [v.shape[1] for v in seen.local_R if v is not None]
    tokens = (token.value or 0.0) * (float(np.mean(lengths)) if lengths else 0.0)
    return point(outcome.value + tokens, "a sum of two figures above")


def _addressed(seen: Observed) -> Estimate:
    if not seen.has_tokens:
        return unknown(NO_TOKENS)
    if len(seen.passes) < 2 and not seen.spec.deterministic:
        return unknown(ONE_PASS)
    hits, n = np.zeros(len(seen.items)), np.zeros(len(seen.items))
    margin = seen.margin()
    for i, local in enumerate(seen.local_R):
        if local is None:
            continue
        known = local[:, ~np.isnan(local).any(axis=0)]
        if known.shape[1]:
            mean_T = known.mean(axis=0)
            hits[i] = (np.abs(mean_T - np.median(mean_T)) > margin).sum()
            n[i] = known.shape[1]
    return estimate(ratio(seen.sums_P(hits), seen.sums_P(n)), "no token has a value in every pass")


def _named(seen: Observed) -> Estimate:
    names = {span.label.partition(":")[0].strip() for s in seen.passes[0] for span in s.spans} - {
        ""
    }
    if not any(s.spans for s in seen.passes[0]):
        return unknown("it gives no spans")
    return point(float(len(names)))
