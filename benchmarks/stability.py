"""Test-retest stability: the same rollouts scored several times, and what came out differently.

Axes: R rollouts, N passes. Sources: ICC(2,1), two-way random effects, absolute agreement, single
measurement: Shrout and Fleiss 1979 (also McGraw and Wong 1996, ICC(A,1)); the interval of a share:
Clopper and Pearson 1934.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from botgrpo.benchmarks.stats import LEVEL, Floats, Interval
from botgrpo.rewards import Score
from botgrpo.sandbox.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Stability:
    """What several passes over the same rollouts agreed on.

    Attributes:
        passes: N.
        rollouts: R.
        outcome, verdict, local: ids of rollouts whose outcome, verdict, or value of some token
            (without tokens: of some span) differs between passes that scored it.
        lost: ids of rollouts that some passes scored and others did not.
        flip_rate: chance that two passes which scored a rollout disagree on its outcome; None
            where no rollout was scored twice.
        complete: rollouts scored in every pass, those that the ICC is taken over.
        icc: ICC(2,1) of the outcomes; None where fewer than two are complete or all are equal.
    """

    passes: int
    rollouts: int
    outcome: frozenset[str]
    verdict: frozenset[str]
    local: frozenset[str]
    lost: frozenset[str]
    flip_rate: float | None
    complete: int
    icc: float | None

    @property
    def changed(self) -> frozenset[str]:
        """Ids of all rollouts that did not come out the same."""
        return self.outcome | self.verdict | self.local | self.lost


def stability(passes: Sequence[Sequence[Score]]) -> Stability:
    """Compare N passes, each with one score for each rollout in the same order."""
    rows = list(zip(*passes, strict=True))
    outcomes = [[s.outcome for s in row if s.outcome is not None] for row in rows]
    whole = [found for found in outcomes if len(found) == len(passes)]
    flips = [disagreement(found) for found in outcomes if len(found) > 1]

    def ids(differs: Sequence[bool]) -> frozenset[str]:
        return frozenset(row[0].id for row, told in zip(rows, differs, strict=True) if told)

    return Stability(
        passes=len(passes),
        rollouts=len(rows),
        outcome=ids([len(set(found)) > 1 for found in outcomes]),
        verdict=ids([len({s.verdict for s in row if s.outcome is not None}) > 1 for row in rows]),
        local=ids([len({_local(s) for s in row if s.local_scored}) > 1 for row in rows]),
        lost=ids([0 < len(found) < len(passes) for found in outcomes]),
        flip_rate=float(np.mean(flips)) if flips else None,
        complete=len(whole),
        icc=icc(whole) if len(whole) > 1 and len(passes) > 1 else None,
    )


def disagreement(values: Sequence[float]) -> float:
    """Chance that two of the values, drawn without replacement, differ; two or more are needed."""
    n = len(values)
    same = sum(count * (count - 1) for count in Counter(values).values())
    return 1 - same / (n * (n - 1))


def icc(values_R_N: Sequence[Sequence[float]] | Floats) -> float | None:
    """ICC(2,1): the share of the variance of one measurement that lies between rollouts.

    1 says that passes agree, 0 that they say nothing of the rollout; it can be negative. None
    where the values do not vary at all, since then nothing could be told apart.
    """
    values = np.asarray(values_R_N, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        raise ConfigError(f"got values of shape {values.shape}; allowed: [rollouts, passes], 2 up")
    r, n = values.shape
    centred = values - values.mean()
    rows = n * (centred.mean(axis=1) ** 2).sum()
    columns = r * (centred.mean(axis=0) ** 2).sum()
    rest = max(0.0, (centred**2).sum() - rows - columns)
    ms_rows, ms_columns, ms_rest = rows / (r - 1), columns / (n - 1), rest / ((r - 1) * (n - 1))
    total = ms_rows + (n - 1) * ms_rest + n * (ms_columns - ms_rest) / r
    if total <= 1e-12 * max(1.0, float((values**2).mean())):
        return None
    return float((ms_rows - ms_rest) / total)


def share_interval(hits: int, n: int) -> Interval:
    """Exact 95% interval of a share; of 0 in 7 it says that 41% are still possible."""
    tail = (1 - LEVEL) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(1 - tail, hits + 1, n - hits))
    return Interval(low, high)


def stability_text(found: Stability, name: str, *, deterministic: bool) -> list[str]:
    """The comparison in plain sentences, for the terminal and the page."""
    low, high = share_interval(len(found.outcome), found.rollouts) if found.rollouts else (0.0, 1.0)
    lines = [
        f"{found.passes} passes over {found.rollouts} rollouts: {len(found.outcome)} changed their "
        f"outcome (95% interval {low:.3f} to {high:.3f} of all), {len(found.verdict)} their "
        f"verdict, {len(found.local)} the value of a token or span, {len(found.lost)} were scored "
        "in some passes only."
    ]
    if found.flip_rate is not None:
        lines.append(f"Flip rate {found.flip_rate:.3f}: how often two passes disagree.")
    if found.icc is not None:
        lines.append(f"ICC(2,1) of the outcomes {found.icc:.3f}, over {found.complete} rollouts.")
    else:
        why = "all outcomes are equal" if found.complete > 1 else "too few rollouts scored"
        lines.append(f"No ICC: {why}.")
    if not deterministic:
        lines.append(f"{name} does not claim to repeat itself.")
    elif found.changed:
        lines.append(
            f"{name} is declared deterministic and is not: `botgrpo rewards validate` should fail; "
            "until that is mended, declare deterministic=False."
        )
    else:
        lines.append(
            f"{name} is declared deterministic, and was. Caches that count attempts did not answer "
            "for it; one inside the reward itself cannot be seen from here."
        )
    return lines


def _local(score: Score) -> tuple[object, ...]:
    if score.local is not None:
        return score.local
    return tuple((span.start, span.end, span.value) for span in score.spans)
