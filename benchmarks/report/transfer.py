"""Does the ranking of designs hold for a policy of another size?

The designs that both suites finished are ranked by mean area in each. Spearman's and Kendall's rank
correlations (Kendall's tau-b) are measured on the mean areas; their intervals resample the seeds of
each suite, all designs of a suite together, since its seeds are paired. The designs themselves are
not resampled: it is a statement about these designs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from botgrpo.benchmarks.report.analysis import Analysis
from botgrpo.benchmarks.report.charts import clip, colour
from botgrpo.benchmarks.report.svg import Frame, figure, tag
from botgrpo.benchmarks.stats import Floats, Interval, percentile_interval
from botgrpo.sandbox.errors import ConfigError

FEWEST_DESIGNS = 4  # with three, one order in six agrees by chance
REPS = 2000
LONGEST_NAME = 24
UNKNOWN = "the policy that was trained"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A design in both suites: mean areas over the seeds that all designs of a suite finished."""

    name: str
    index: int
    here: float
    there: float


@dataclass(frozen=True, slots=True)
class Correlation:
    """A rank correlation; None without an interval: a suite with a single common seed."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Two suites' rankings; correlations are None with a reason in `why`."""

    here: str
    there: str
    designs: tuple[Ranked, ...] = ()
    left_out: tuple[str, ...] = ()
    seeds: tuple[int, int] = (0, 0)
    spearman: Correlation | None = None
    kendall: Correlation | None = None
    why: str = ""


def transfer(here: Analysis, there: Analysis) -> Transfer:
    """Hold one suite's ranking against another's.

    Raises ConfigError where they measure other things, or trained the same policy.
    """
    if here.suite.metric != there.suite.metric:
        raise ConfigError(
            f"{there.suite.folder} ranks by {there.suite.metric!r} and {here.suite.folder} by "
            f"{here.suite.metric!r}; a ranking transfers only where both measure the same"
        )
    names = policy_of(here), policy_of(there)
    if names[0] == names[1] != UNKNOWN:
        raise ConfigError(
            f"{here.suite.folder} and {there.suite.folder} both trained {names[0]}; --transfer "
            "takes a suite with a policy of another size"
        )
    common, left_out = _common(here, there)
    if len(common) < FEWEST_DESIGNS:
        why = f"{len(common)} designs are in both suites; a ranking needs {FEWEST_DESIGNS}"
        return Transfer(*names, left_out=tuple(left_out), why=why)
    tables = _table(here, common), _table(there, common)
    sizes = tables[0].shape[0], tables[1].shape[0]
    if not all(sizes):
        why = f"in one suite no seed was finished by all {len(common)} designs"
        return Transfer(*names, left_out=tuple(left_out), why=why)
    means = [table.mean(axis=0) for table in tables]
    designs = tuple(
        Ranked(name, here.arm(name).index, float(a), float(b))
        for name, a, b in zip(common, *means, strict=True)
    )
    measured = _correlations(means[0][None], means[1][None])[:, 0]
    if not np.isfinite(measured).all():
        why = "all designs learned alike in one suite, so it ranks nothing"
        return Transfer(*names, designs, tuple(left_out), sizes, why=why)
    bounds = _bounds(*tables) if min(sizes) > 1 else (None, None)
    spearman, kendall = (
        Correlation(float(value), bound) for value, bound in zip(measured, bounds, strict=True)
    )
    return Transfer(*names, designs, tuple(left_out), sizes, spearman, kendall)


def sentences(found: Transfer | None, analysis: Analysis) -> list[str]:
    """What the page and the terminal say; where nothing was measured, whose ranking this is."""
    if found is None:
        return [
            f"Not measured: this ranking is a claim about {policy_of(analysis)}, a cheap test of "
            "the rewards and not of a larger model. `botgrpo report DIR --transfer OTHER` holds it "
            "against a suite of the same designs with another policy."
        ]
    left_out = [f"Left out: {line}." for line in found.left_out]
    if found.spearman is None or found.kendall is None:
        return [f"Not measured: {found.why}.", *left_out]
    rho, tau = found.spearman, found.kendall
    figures = f"Spearman {_told(rho)}, Kendall {_told(tau)}"
    if rho.interval is None:
        verdict = "One common seed says nothing of how sure that is"
    elif rho.interval.low > 0:
        verdict = f"The ranking with {found.here} holds with {found.there}"
    elif rho.interval.high < 0:
        verdict = f"The ranking with {found.here} is turned around with {found.there}"
    else:
        verdict = f"Whether the ranking with {found.here} holds with {found.there} is not separated"
    told = [
        f"{verdict}: {figures}, over {len(found.designs)} designs; seeds {found.seeds[0]} and "
        f"{found.seeds[1]}."
    ]
    best = max(found.designs, key=lambda d: d.here)
    place = 1 + sum(other.there > best.there for other in found.designs)
    told.append(
        f"The design that learned most with {found.here}, {best.name}, is "
        f"{'the best' if place == 1 else f'number {place}'} of {len(found.designs)} with "
        f"{found.there}."
    )
    return [*told, *left_out]


def transfer_chart(found: Transfer, *, width: int, id: str) -> Markup:
    """A point a design: to the right what it learned here, upwards what it learned there."""
    xs, ys = [d.here for d in found.designs], [d.there for d in found.designs]
    frame = Frame(width, 400 if width > 500 else 300, 52, 24, 24, 46, _range(xs), _range(ys))
    parts = [frame.x_axis(f"area with {clip(found.here, 40)}", grid=True), frame.y_axis()]
    label = f"area with {clip(found.there, 40)}"
    parts.append(tag("text", label, class_="note", x=frame.left + 4.0, y=14.0))
    for each in found.designs:
        x, y = frame.x(each.here), frame.y(each.there)
        note = tag("title", f"{each.name}: {each.here:.3f} and {each.there:.3f}")
        parts.append(tag("circle", note, class_=f"arrived {colour(each.index)}", cx=x, cy=y, r=6.0))
        left = x > width * 0.7
        parts.append(
            tag("text", clip(each.name, LONGEST_NAME), class_="note", x=x + (-11 if left else 11),
                y=y + 4, text_anchor="end" if left else "start")
        )  # fmt: skip
    told = "; ".join(f"{d.name}: {d.here:.3f} and {d.there:.3f}" for d in found.designs)
    return figure(frame, id, "The same designs with two policies", told, *parts)


def policy_of(analysis: Analysis) -> str:
    """What was trained, with its size where the runs noted it."""
    for cell in analysis.suite.cells.values():
        model = cell.manifest.get("model")
        model = model if isinstance(model, Mapping) else {}
        name = model.get("name") or _setting(cell.config, "policy", "model")
        if name:
            count = model.get("parameters")
            return f"{name} ({count:,} parameters)" if isinstance(count, int) else str(name)
    return UNKNOWN


def _common(here: Analysis, there: Analysis) -> tuple[list[str], list[str]]:
    """Names of designs that are the same in both suites, and why others are left out."""
    common, left_out = [], []
    other = {arm.name: arm for arm in there.arms}
    for arm in here.arms:
        if arm.name not in other:
            left_out.append(f"{arm.name} is not in {there.suite.folder}")
        elif not (arm.auc and other[arm.name].auc):
            left_out.append(f"{arm.name} finished no seed in one of the suites")
        elif _design(here, arm.name) != _design(there, arm.name):
            left_out.append(f"{arm.name} has another algorithm or reward in {there.suite.folder}")
        else:
            common.append(arm.name)
    return common, left_out


def _design(analysis: Analysis, name: str) -> Any:
    config = next((c.config for c in analysis.suite.finished(name) if c.config), {})
    return config.get("algorithm"), config.get("reward")


def _setting(config: Mapping[str, Any], section: str, key: str) -> str:
    table = config.get(section)
    return str(table.get(key, "")) if isinstance(table, Mapping) else ""


def _table(analysis: Analysis, names: list[str]) -> Floats:
    """Areas [seeds, designs] of the seeds that all these designs finished."""
    areas = [analysis.arm(name).auc for name in names]
    seeds = [s for s in analysis.suite.seeds if all(s in area for area in areas)]
    return np.array([[area[s] for area in areas] for s in seeds]).reshape(len(seeds), len(names))


def _correlations(a_R_D: Floats, b_R_D: Floats) -> Floats:
    """Spearman's rho and Kendall's tau-b of each of R pairs of rows: [2, R].

    Both follow from who is above whom: the row sums of these signs are twice the centred ranks.
    nan where a row ranks nothing.
    """
    a_R_D_D, b_R_D_D = (np.sign(x[:, :, None] - x[:, None, :]) for x in (a_R_D, b_R_D))
    ranks = a_R_D_D.sum(axis=2), b_R_D_D.sum(axis=2)
    with np.errstate(invalid="ignore"):
        rho = _cosine(*ranks, axis=1)
        return np.stack([rho, _cosine(a_R_D_D, b_R_D_D, axis=(1, 2))])


def _cosine(a: Floats, b: Floats, axis: int | tuple[int, ...]) -> Floats:
    size = np.sqrt((a * a).sum(axis=axis) * (b * b).sum(axis=axis))
    return np.asarray((a * b).sum(axis=axis) / size)


def _bounds(a_N_D: Floats, b_N_D: Floats, seed: int = 0) -> tuple[Interval, Interval]:
    rng = np.random.default_rng(seed)
    means = [t[rng.integers(0, len(t), (REPS, len(t)))].mean(axis=1) for t in (a_N_D, b_N_D)]
    drawn = np.nan_to_num(_correlations(*means))  # a draw that ranks nothing agrees on nothing
    return percentile_interval(drawn[0]), percentile_interval(drawn[1])


def _told(found: Correlation) -> str:
    if found.interval is None:
        return f"{found.value:+.2f}"
    return f"{found.value:+.2f} [{found.interval.low:+.2f}, {found.interval.high:+.2f}]"


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.1
    return low - room, high + room


def transfer_rows(found: Transfer) -> Iterator[tuple[str, float, float]]:
    """The points, for a table."""
    return ((d.name, d.here, d.there) for d in found.designs)
