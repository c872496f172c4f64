"""Statistics of the benchmark: hand-worked numbers, properties, and scipy as an oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import CensoredData, ecdf, permutation_test, trim_mean

from botgrpo.benchmarks import curves, stats
from botgrpo.benchmarks.curves import Crossing
from botgrpo.sandbox.errors import ConfigError

values = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3))
columns = st.integers(2, 8).flatmap(lambda n: arrays(np.float64, n, elements=values))
pairs = st.integers(2, 8).flatmap(
    lambda n: st.tuples(*[arrays(np.float64, n, elements=values)] * 2)
)
reached = st.lists(st.integers(1, 40), min_size=1, max_size=9)


def test_area_under_a_curve_is_the_mean_height_of_its_trapezoids() -> None:
    # (0+1)/2 * 2 + (1+.5)/2 * 8 = 1 + 6 = 7, over 10 steps
    assert curves.area_under_curve([0, 2, 10], [0, 1, 0.5]) == pytest.approx(0.7)


def test_peak_to_final_drop_is_zero_for_a_curve_that_ends_at_its_peak() -> None:
    assert curves.peak_to_final_drop([0.1, 0.9, 0.6]) == pytest.approx(0.3)
    assert curves.peak_to_final_drop([0.1, 0.6, 0.9]) == 0


def test_crossing_lies_on_the_straight_line_between_two_evals() -> None:
    # from .3 at step 4 to .7 at step 8: .5 is half-way
    assert curves.first_crossing([0, 4, 8], [0.1, 0.3, 0.7], 0.5) == (6.0, True)
    assert curves.first_crossing([0, 4], [0.5, 0.6], 0.5) == (0.0, True)
    assert curves.first_crossing([0, 4, 8], [0.1, 0.3, 0.4], 0.5) == (8.0, False)


def test_a_fall_below_the_threshold_does_not_undo_the_crossing() -> None:
    assert curves.first_crossing([0, 4, 8], [0.0, 0.8, 0.1], 0.4) == (2.0, True)


def test_kaplan_meier_by_hand_with_one_run_censored_in_between() -> None:
    km = curves.kaplan_meier([Crossing(2, True), Crossing(5, False), Crossing(6, True)])
    # 3 at risk at 2: 2/3 stay; at 6 only one is at risk: 0
    assert km.times == (0.0, 2, 6)
    assert km.survival == pytest.approx((1, 2 / 3, 0))
    assert km.median == 6
    assert km.restricted_mean(10) == pytest.approx(2 + 4 * 2 / 3)


def test_kaplan_meier_median_is_none_when_most_runs_never_arrive() -> None:
    km = curves.kaplan_meier([Crossing(10, False), Crossing(10, False), Crossing(4, True)])
    assert km.median is None
    assert km.restricted_mean(10) == pytest.approx(4 + 6 * 2 / 3)


@given(reached)
def test_kaplan_meier_without_censoring_is_the_empirical_curve(times: list[int]) -> None:
    km = curves.kaplan_meier([Crossing(t, True) for t in times])
    for time, survival in zip(km.times, km.survival, strict=True):
        assert survival == pytest.approx(np.mean([t > time for t in times]))
    assert km.restricted_mean(50) == pytest.approx(np.mean(times))


@given(reached, st.data())
def test_kaplan_meier_agrees_with_scipy(times: list[int], data: st.DataObject) -> None:
    seen = data.draw(st.lists(st.booleans(), min_size=len(times), max_size=len(times)))
    right = [t for t, ok in zip(times, seen, strict=True) if not ok]
    uncensored = [t for t, ok in zip(times, seen, strict=True) if ok]
    oracle = ecdf(CensoredData(uncensored=uncensored, right=right)).sf
    km = curves.kaplan_meier([Crossing(t, ok) for t, ok in zip(times, seen, strict=True)])
    for time, survival in zip(km.times, km.survival, strict=True):
        assert survival == pytest.approx(float(oracle.evaluate(time)), abs=1e-12)


@given(reached, st.integers(5, 40))
def test_mean_of_restricted_steps_is_the_restricted_mean(times: list[int], budget: int) -> None:
    crossings = [Crossing(min(t, budget), t <= budget) for t in times]
    expected = curves.kaplan_meier(crossings).restricted_mean(budget)
    assert curves.restricted_steps(crossings, budget).mean() == pytest.approx(expected)


def test_a_run_stopped_early_is_refused_rather_than_counted_as_arrived() -> None:
    with pytest.raises(ConfigError, match="before the budget"):
        curves.restricted_steps([Crossing(10, False)], 40)
    with pytest.raises(ConfigError, match="not to the budget"):
        curves.kaplan_meier([Crossing(10, False)]).restricted_mean(40)


def test_sign_flip_p_by_hand() -> None:
    # |sum| = 6 only for +++ and ---: 2 of 8
    assert stats.sign_flip_p([1, 2, 3]) == 0.25
    # sums of +-1 +-2 -+3: 0 is reached by every pattern
    assert stats.sign_flip_p([1, 2, -3]) == 1.0
    assert stats.sign_flip_p([1] * 5) == 2 / 32
    assert stats.sign_flip_p([1] * 6) == 2 / 64


@given(columns)
def test_identical_arms_have_p_one_and_no_difference(values_N: np.ndarray) -> None:
    verdict = stats.judge({"a": (values_N, values_N)}, reps=200)["a"]
    assert (verdict.p, verdict.difference, verdict.word) == (1.0, 0.0, "not separated")


@settings(max_examples=20, deadline=None)
@given(columns)
def test_sign_flip_p_agrees_with_scipy(values_N: np.ndarray) -> None:
    assert stats.sign_flip_p(values_N) == pytest.approx(_scipy_sign_flip(values_N))


def _scipy_sign_flip(values_N: np.ndarray) -> float:
    """Paired permutation against zeros swaps within pairs: the same as flipping signs."""
    result = permutation_test(
        (values_N, np.zeros_like(values_N)),
        lambda a, b: np.abs(np.round((a - b).sum(), 9)),
        permutation_type="samples",
        n_resamples=10_000,
        alternative="greater",
        vectorized=False,
    )
    return float(result.pvalue)


def test_sampled_sign_flip_p_is_close_to_the_exact_one_and_never_zero() -> None:
    differences = np.ones(13)
    assert 0 < stats.sign_flip_p(differences, draws=20_000) < 0.001


@given(pairs)
def test_swapping_the_arms_negates_the_verdict(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    one = stats.judge({"x": (a, b)}, reps=400)["x"]
    two = stats.judge({"x": (b, a)}, reps=400)["x"]
    opposite = {"better": "worse", "worse": "better", "leads": "trails", "trails": "leads"}
    assert two.difference == pytest.approx(-one.difference)
    assert two.p == one.p
    assert two.word == opposite.get(one.word, one.word)
    assert one.interval is not None and two.interval is not None
    assert two.interval.low == pytest.approx(-one.interval.high, abs=1e-9)


def test_three_agreeing_seeds_are_a_lead_and_say_how_many_are_needed() -> None:
    verdict = stats.judge({"x": ([0.3, 0.4, 0.5], [0.1, 0.1, 0.1])})["x"]
    assert verdict.word == "leads"
    assert verdict.sentence == (
        "leads in 3 of 3 paired seeds; a lead, not proof: "
        "at least 6 paired seeds are needed for p < .05"
    )


def test_two_agreeing_seeds_are_not_even_a_lead() -> None:
    assert stats.judge({"x": ([0.3, 0.4], [0.1, 0.1])})["x"].word == "not separated"


@given(pairs.filter(lambda p: p[0].size < 6))
def test_fewer_than_six_seeds_never_give_better_or_worse(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    assert stats.judge({"x": pair}, reps=200)["x"].word not in ("better", "worse")


def test_six_agreeing_seeds_are_better_alone_but_only_a_lead_among_three_arms() -> None:
    up, flat = np.linspace(0.2, 0.4, 6), np.zeros(6)
    assert stats.judge({"x": (up, flat)})["x"].word == "better"
    three = stats.judge({"x": (up, flat), "y": (flat, flat), "z": (-up, flat)})
    assert (three["x"].word, three["z"].word) == ("leads", "trails")
    assert "at least 7 paired seeds" in three["x"].sentence


def test_an_interval_that_holds_zero_is_not_separated() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, 10)
    verdict = stats.judge({"x": (noise - noise.mean(), np.zeros(10))})["x"]
    assert verdict.word == "not separated"
    assert verdict.interval is not None and verdict.interval.holds(0)


def test_holm_by_hand() -> None:
    # sorted .01 .03 .04 -> 3*.01, max(.03, 2*.03), max(.06, 1*.04)
    assert stats.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


def test_seeds_needed_grows_with_the_number_of_comparisons() -> None:
    assert [stats.seeds_needed(m) for m in (1, 2, 3, 7)] == [6, 7, 7, 9]


@given(st.integers(4, 30).flatmap(lambda n: arrays(np.float64, n, elements=values)))
def test_iqm_is_the_quarter_trimmed_mean(values_N: np.ndarray) -> None:
    assert float(stats.iqm(values_N[:, None])) == pytest.approx(trim_mean(values_N, 0.25))


def test_iqm_ignores_one_wild_seed_and_the_mean_does_not() -> None:
    table = np.array([[0.5], [0.5], [0.5], [0.5], [9.0]])
    assert float(stats.iqm(table)) == 0.5
    assert float(stats.mean(table)) == pytest.approx(2.2)


def test_stratified_bootstrap_keeps_the_tasks_apart() -> None:
    # two tasks at 0 and 1 without spread: mixing them would give a wide interval
    table = np.array([[0.0, 1.0]] * 5)
    assert stats.bootstrap_interval(table) == (0.5, 0.5)


def test_bootstrap_is_deterministic_by_seed_and_none_for_one_run() -> None:
    data = [0.1, 0.5, 0.4, 0.9]
    assert stats.bootstrap_interval(data, seed=1) == stats.bootstrap_interval(data, seed=1)
    assert stats.bootstrap_interval([0.3]) is None


def test_bootstrap_interval_of_20_normal_runs_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        interval = stats.bootstrap_interval(rng.normal(0.4, 0.1, 20), reps=400, seed=trial)
        assert interval is not None
        hits += interval.holds(0.4)
    # nominal .95; the percentile interval at n=20 runs a little short; +-3 binomial sd
    assert 0.88 < hits / 300 < 0.98


def test_band_is_the_bootstrap_of_the_mean_at_every_step() -> None:
    values_N_S = np.array([[0.1, 0.5], [0.2, 0.7], [0.4, 0.6]])
    rows = stats.band(values_N_S, reps=4000)
    alone = stats.bootstrap_interval(values_N_S[:, 0], reps=20_000)
    assert alone is not None
    assert rows[0] == pytest.approx(values_N_S.mean(axis=0))
    assert rows[1:, 0] == pytest.approx(list(alone), abs=0.02)


@given(pairs)
def test_probability_of_improvement_of_swapped_arms_sums_to_one(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    a, b = pair
    total = stats.probability_of_improvement(a, b) + stats.probability_of_improvement(b, a)
    assert total == pytest.approx(1)


def test_probability_of_improvement_by_hand() -> None:
    # 3 beats 1 and 2, 2 beats 1 and ties 2: (3 + .5) / 4
    assert stats.probability_of_improvement([3, 2], [1, 2]) == pytest.approx(0.875)


@pytest.mark.parametrize("bad", [[], [math.nan, 1.0], [[[1.0]]]])
def test_missing_or_misshapen_values_are_refused(bad: list[float]) -> None:
    with pytest.raises(ConfigError):
        stats.bootstrap_interval(bad)


def test_unequal_seed_lists_are_refused() -> None:
    with pytest.raises(ConfigError, match="equal seeds"):
        stats.judge({"x": ([1, 2, 3], [1, 2])})


def test_equal_arms_are_called_better_or_worse_in_at_most_one_of_twenty_suites() -> None:
    rng = np.random.default_rng(1)
    words = [
        stats.judge({"x": (rng.normal(size=10), rng.normal(size=10))}, reps=300)["x"].word
        for _ in range(400)
    ]
    wrong = sum(word != "not separated" for word in words) / len(words)
    assert wrong < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
