"""A plan says how many seeds an effect needs: checked on known values, and by chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.benchmarks.power import plan_lines, power, seeds_for, spread
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.results import load_suite
from botgrpo.benchmarks.stats import seeds_needed, sign_flip_p
from botgrpo.sandbox.errors import ConfigError
from synthetic_suite import write_synthetic_suite


@pytest.mark.parametrize(("effect_sd", "seeds"), [(0.5, 34), (0.8, 15), (1.0, 10)])
def test_seeds_are_those_of_published_tables(effect_sd: float, seeds: int) -> None:
    assert seeds_for(effect_sd) == seeds


def test_power_is_that_of_published_tables() -> None:
    assert power(0.8, 15) == pytest.approx(0.821, abs=5e-4)
    assert power(0.5, 34) == pytest.approx(0.808, abs=5e-4)


def test_the_sign_flip_test_has_the_power_that_the_plan_promises() -> None:
    draws = np.random.default_rng(3).normal(1.0, 1.0, (400, 10))
    found = np.mean([sign_flip_p(each) < 0.05 for each in draws])
    assert found == pytest.approx(power(1.0, 10), abs=0.06)


def test_no_effect_is_found_as_often_as_the_level_allows() -> None:
    assert power(0.0, 20) == pytest.approx(0.05, abs=1e-9)
    assert seeds_for(0.0) is None and seeds_for(0.001) is None


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(0.3, 3), st.integers(1, 12))
def test_fewer_seeds_than_planned_have_less_power(effect_sd: float, comparisons: int) -> None:
    seeds = seeds_for(effect_sd, comparisons)
    assert seeds is not None and seeds >= seeds_needed(comparisons)
    assert power(effect_sd, seeds, comparisons) >= 0.8
    assert power(effect_sd, seeds - 1, comparisons) < 0.8
    assert (seeds_for(effect_sd, comparisons + 1) or 10**6) >= seeds


def test_an_effect_is_put_into_seeds_by_what_was_measured(tmp_path: Path) -> None:
    analysis = analyse(
        load_suite(write_synthetic_suite(tmp_path, arms={"grpo": 1.0, "a": 1.5, "b": 1.2}))
    )
    sd = spread(analysis)
    assert sd
    pooled = [np.array(c.auc_by_seed) for c in analysis.comparisons]
    degrees = sum(len(each) - 1 for each in pooled)
    assert sd**2 == pytest.approx(sum(each.var() * each.size for each in pooled) / degrees)
    (line,) = plan_lines(len(pooled), analysis, sd)
    assert f"is 1.00 sd of a paired difference ({sd:.4f}" in line
    assert f"{seeds_for(1.0, len(pooled))} seeds for 80% power" in line


def test_an_effect_that_nothing_can_be_held_against_is_refused() -> None:
    with pytest.raises(ConfigError, match="not known yet"):
        plan_lines(2, None, 0.1)
    assert "0.8 sd:" in plan_lines(2, None, None)[0]
