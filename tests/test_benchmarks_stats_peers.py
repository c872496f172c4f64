"""Our statistics against those of rliable, lifelines and pingouin. Runs in .envs/stats."""

from __future__ import annotations

import importlib.util
import warnings

import pytest

if any(importlib.util.find_spec(name) is None for name in ("rliable", "lifelines", "pingouin")):
    pytest.skip(
        "the core lacks them; next: make env-stats, then "
        ".envs/stats/bin/python -m pytest tests/test_benchmarks_stats_peers.py",
        allow_module_level=True,
    )

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pingouin
    from lifelines import KaplanMeierFitter
    from lifelines.utils import restricted_mean_survival_time
    from rliable import library, metrics

from botgrpo.benchmarks.curves import Crossing, kaplan_meier
from botgrpo.benchmarks.stats import (
    bootstrap_interval,
    holm,
    iqm,
    performance_profile,
    probability_of_improvement,
)

pytestmark = pytest.mark.filterwarnings("ignore")
SHAPES = [(3, 1), (4, 2), (10, 1), (7, 5), (20, 3)]


def scores(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).gamma(2.0, 0.2, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_interquartile_mean_is_rliable_s(shape: tuple[int, int]) -> None:
    values = scores(shape)
    assert float(iqm(values)) == pytest.approx(metrics.aggregate_iqm(values), abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_probability_of_improvement_is_rliable_s(shape: tuple[int, int]) -> None:
    a, b = scores(shape).round(1), scores(shape, 1).round(1)  # with ties
    theirs = metrics.probability_of_improvement(a, b)
    assert probability_of_improvement(a, b) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_performance_profile_is_rliable_s(shape: tuple[int, int]) -> None:
    values, levels = scores(shape), np.linspace(0, 1.5, 31)
    theirs, _ = library.create_performance_profile({"a": values}, levels, reps=2)
    assert np.allclose(performance_profile(values, levels), theirs["a"], atol=1e-12)


def test_the_stratified_bootstrap_is_rliable_s_up_to_chance() -> None:
    values = scores((10, 3))
    ours = bootstrap_interval(values, iqm, reps=20_000)
    _, theirs = library.get_interval_estimates(
        {"a": values}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=4_000
    )
    assert ours is not None
    spread = ours.high - ours.low
    assert np.allclose([ours.low, ours.high], theirs["a"].ravel(), atol=0.06 * spread)


@pytest.mark.parametrize("seed", range(6))
def test_survival_and_restricted_means_are_those_of_lifelines(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 13, 15) * 4
    reached = rng.random(15) < 0.7
    steps[~reached] = 48  # watched to the end
    ours = kaplan_meier([Crossing(float(s), bool(r)) for s, r in zip(steps, reached, strict=True)])
    theirs = KaplanMeierFitter().fit(steps, reached)
    for time, level in zip(ours.times, ours.survival, strict=True):
        assert level == pytest.approx(float(theirs.predict(time)), abs=1e-12)
    restricted = restricted_mean_survival_time(theirs, t=48)
    assert ours.restricted_mean(48) == pytest.approx(restricted, abs=1e-9)
    median = theirs.median_survival_time_
    assert ours.median == (None if np.isinf(median) else pytest.approx(median))


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_holm_is_pingouin_s(count: int) -> None:
    p_values = list(np.random.default_rng(count).uniform(0, 0.2, count))
    _, theirs = pingouin.multicomp(p_values, method="holm")
    assert holm(p_values) == pytest.approx(list(theirs), abs=1e-12)
