"""How many paired seeds it takes to see an effect, before any are run.

Power of the two-sided paired t test (noncentral t; Cohen 1988, chapter 2), which the sign-flip test
of `stats.py` follows closely. Several arms share one level: each is planned at alpha over their
number, the first step of Holm's procedure.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats as scipy_stats

from botgrpo.benchmarks.report.analysis import Analysis
from botgrpo.benchmarks.stats import ALPHA, seeds_needed
from botgrpo.sandbox.errors import ConfigError

POWER = 0.8
EFFECTS_SD = (0.5, 0.8, 1.0, 1.5, 2.0)
MOST_SEEDS = 2000


def power(effect_sd: float, seeds: int, comparisons: int = 1) -> float:
    """Chance that `seeds` pairs show an effect, in standard deviations of a paired difference.

    0 below the number of pairs at which a sign-flip test can reach the level at all.
    """
    if seeds < max(2, seeds_needed(comparisons)):
        return 0.0
    freedom, shift = seeds - 1, abs(effect_sd) * math.sqrt(seeds)
    critical = scipy_stats.t.ppf(1 - ALPHA / max(1, comparisons) / 2, freedom)
    upper = scipy_stats.nct.sf(critical, freedom, shift)
    lower = scipy_stats.nct.cdf(-critical, freedom, shift)  # nan where it is far too small to count
    return float(upper + (0.0 if math.isnan(lower) else lower))


def seeds_for(effect_sd: float, comparisons: int = 1) -> int | None:
    """Fewest seeds that show the effect with a chance of 80%; None: more than 2,000."""
    candidates = range(seeds_needed(comparisons), MOST_SEEDS + 1)
    if abs(effect_sd) * math.sqrt(MOST_SEEDS) < 2:  # far below any critical value
        return None
    return next((n for n in candidates if power(effect_sd, n, comparisons) >= POWER), None)


def spread(analysis: Analysis) -> float | None:
    """Standard deviation of a paired difference in area, pooled over the arms; None: too few."""
    arms = [np.array(c.auc_by_seed) for c in analysis.comparisons if len(c.auc_by_seed) > 1]
    if not arms:
        return None
    squares = sum(float(((arm - arm.mean()) ** 2).sum()) for arm in arms)
    return math.sqrt(squares / sum(arm.size - 1 for arm in arms))


def plan_lines(comparisons: int, analysis: Analysis | None, effect: float | None) -> list[str]:
    """What a plan says of seeds; `effect`: in the area of the primary metric.

    Raises ConfigError for an effect where nothing measured says how much seeds vary.
    """
    sd = spread(analysis) if analysis else None
    if effect is None:
        cells = [f"{each:g} sd: {seeds_for(each, comparisons)}" for each in EFFECTS_SD]
        lines = [
            f"seeds for {POWER:.0%} power, by the effect in standard deviations (sd) of a paired "
            f"difference: {', '.join(cells)}"
        ]
        measured = f"{analysis.suite.folder}: one sd is {sd:.4f} in area" if analysis and sd else ""
        return [*lines, measured] if measured else lines
    if not sd:
        raise ConfigError(
            f"--effect {effect:g}: how far seeds differ is not known yet. Run two seeds or more "
            "into the suite's folder first, and give it with --out"
        )
    count = seeds_for(effect / sd, comparisons)
    return [
        f"an effect of {effect:g} in area is {effect / sd:.2f} sd of a paired difference "
        f"({sd:.4f}, as measured): {count or f'more than {MOST_SEEDS}'} seeds for {POWER:.0%} power"
    ]
