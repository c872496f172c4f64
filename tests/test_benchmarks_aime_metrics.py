"""pass@k, avg@n, maj@k and efficiency against numbers worked by hand, and what must hold of all."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.benchmarks.math_metrics import (
    Samples,
    clustered,
    counts,
    maj_at_k,
    outcome_efficiency,
    paired,
    pass_at_k,
    summary,
)
from botgrpo.sandbox.errors import ConfigError


def sampled(answers: str, right: str, name: str = "p") -> Samples:
    """One letter a sample; `-` for no answer."""
    read = tuple(None if a == "-" else a for a in answers)
    return Samples(name, read, tuple(a in right for a in answers))


@st.composite
def some_samples(draw: st.DrawFn) -> Samples:
    answers = draw(st.text("abc-", min_size=1, max_size=7))
    return sampled(answers, draw(st.sampled_from(["", "a", "ab", "abc"])))


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (4, 1, 1, 1 / 4),
        (4, 1, 2, 1 / 2),
        (4, 2, 2, 5 / 6),  # one of six pairs holds none
        (10, 3, 4, 1 - 35 / 210),
        (4, 3, 2, 1.0),
        (4, 0, 4, 0.0),
        (64, 64, 64, 1.0),
    ],
)
def test_pass_at_k_is_what_counting_subsets_gives(n: int, c: int, k: int, value: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(value, abs=1e-15)


def test_pass_at_k_is_unbiased_where_the_simple_formula_is_not() -> None:
    """Its mean over all outcomes of n throws with chance p is 1 - (1-p)^k, exactly."""
    n, k, p = 6, 3, Fraction(1, 5)
    chance = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    mean = sum(float(w) * pass_at_k(n, c, k) for c, w in enumerate(chance))
    simple = sum(float(w) * (1 - (1 - c / n) ** k) for c, w in enumerate(chance))
    truth = float(1 - (1 - p) ** k)
    assert mean == pytest.approx(truth, abs=1e-12)
    assert abs(simple - truth) > 0.03


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_rises_with_k_ever_less(case: tuple[int, int]) -> None:
    n, c = case
    values = [pass_at_k(n, c, k) for k in range(1, n + 1)]
    assert values[0] == pytest.approx(c / n)
    assert values[-1] == (1.0 if c else 0.0)
    steps = [b - a for a, b in pairwise(values)]
    assert all(step >= -1e-12 for step in steps)
    assert all(later <= step + 1e-12 for step, later in pairwise(steps))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 5, 1), (4, 1, 0), (0, 0, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_it_cannot_estimate(n: int, c: int, k: int) -> None:
    with pytest.raises(ConfigError):
        pass_at_k(n, c, k)


@pytest.mark.parametrize(
    ("answers", "right", "k", "value"),
    [
        ("aab", "a", 3, 1.0),
        ("abb", "a", 3, 0.0),
        ("ab", "a", 2, 1 / 2),  # a tie of two
        ("abc", "a", 3, 1 / 3),
        ("aabbc", "a", 5, 1 / 2),
        ("aab", "a", 2, 2 / 3),  # aa, ab, ab: 1 + 1/2 + 1/2
        ("a--", "a", 3, 1.0),  # silence does not vote
        ("a-", "a", 1, 1 / 2),  # but it is drawn
        ("---", "a", 2, 0.0),
        ("ab", "ab", 2, 1.0),  # two accepted answers
        ("abcc", "ab", 4, 0.0),  # which do not add up
    ],
)
def test_majority_of_k_worked_by_hand(answers: str, right: str, k: int, value: float) -> None:
    assert maj_at_k(sampled(answers, right), k) == pytest.approx(value, abs=1e-15)


def by_listing(samples: Samples, k: int) -> float:
    values = []
    right = {a for a, ok in zip(samples.answers, samples.correct, strict=True) if ok}
    for drawn in combinations(samples.answers, k):
        votes = [a for a in drawn if a is not None]
        top = max((votes.count(a) for a in votes), default=0)
        best = {a for a in votes if votes.count(a) == top}
        values.append(len(best & right) / len(best) if best else 0.0)
    return sum(values) / len(values)


@given(some_samples(), st.integers(1, 7))
def test_majority_is_the_mean_over_every_subset(samples: Samples, k: int) -> None:
    k = min(k, samples.n)
    assert maj_at_k(samples, k) == pytest.approx(by_listing(samples, k), abs=1e-12)


@given(some_samples(), st.randoms())
def test_majority_does_not_depend_on_the_order_of_samples(samples: Samples, rng: object) -> None:
    pairs = list(zip(samples.answers, samples.correct, strict=True))
    rng.shuffle(pairs)  # type: ignore[attr-defined]
    again = Samples("p", tuple(a for a, _ in pairs), tuple(c for _, c in pairs))
    assert maj_at_k(again, samples.n) == maj_at_k(samples, samples.n)


@given(some_samples())
def test_one_vote_is_one_sample(samples: Samples) -> None:
    assert maj_at_k(samples, 1) == pytest.approx(samples.c / samples.n, abs=1e-12)
    assert maj_at_k(samples, 1) == pytest.approx(pass_at_k(samples.n, samples.c, 1), abs=1e-12)


def test_summary_takes_means_over_problems_and_intervals_over_problems() -> None:
    problems = [sampled("aaaa", "a", "p1"), sampled("abbb", "a", "p2"), sampled("bbbb", "a", "p3")]
    rates = summary(problems, (1, 2))
    assert list(rates) == ["avg@4", "pass@1", "maj@1", "pass@2", "maj@2"]
    assert rates["avg@4"].value == pytest.approx((1 + 1 / 4 + 0) / 3)
    assert rates["pass@2"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert rates["maj@2"].value == pytest.approx((1 + 1 / 4 + 0) / 3)
    interval = rates["avg@4"].interval
    assert interval is not None and interval.low == 0.0 and interval.high == 1.0


def test_more_samples_do_not_narrow_an_interval_over_problems() -> None:
    few = clustered([sampled("ab", "a").c / 2, 1.0, 0.0])
    many = clustered([sampled("ab" * 32, "a").c / 64, 1.0, 0.0])
    assert few == many
    assert clustered([0.5]).interval is None


def test_difference_is_paired_by_problem() -> None:
    one = [sampled("aaaa", "a", "p1"), sampled("aabb", "a", "p2")]
    other = [sampled("aabb", "a", "p2"), sampled("abbb", "a", "p1"), sampled("aa", "a", "p9")]
    difference = paired(one, other)
    assert difference.value == pytest.approx((0.75 + 0.0) / 2)
    with pytest.raises(ConfigError, match="share no problem"):
        paired(one, [sampled("a", "a", "elsewhere")])


def test_what_was_not_scored_is_counted_and_not_wrong() -> None:
    problems = [
        Samples("p1", ("a", None), (True, False), truncated=1, unscored=2),
        Samples("p2", (), (), unscored=4),
    ]
    assert summary(problems, (1,))["avg@2"].value == 0.5
    assert counts(problems) == {
        "problems": 2,
        "samples": 2,
        "truncated": 1,
        "no_answer": 1,
        "unscored": 6,
    }
    with pytest.raises(ConfigError, match="no sample was scored"):
        summary(problems[1:], (1,))
    with pytest.raises(ConfigError, match="8 scored samples"):
        summary(problems, (8,))


def test_efficiency_is_the_share_up_to_the_first_right_answer() -> None:
    assert outcome_efficiency([50, None, 100], [100, 80, 100]) == pytest.approx((0.5 + 0 + 1) / 3)
    assert outcome_efficiency([10], [10]) == 1.0
    assert outcome_efficiency([None], [10]) == 0.0


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(0, 99)), min_size=1, max_size=9))
def test_efficiency_lies_in_the_unit_interval_and_falls_with_padding(
    cases: list[tuple[int, int]],
) -> None:
    first = [f for f, _ in cases]
    lengths = [f + more for f, more in cases]
    value = outcome_efficiency(first, lengths)
    assert 0 < value <= 1
    assert outcome_efficiency(first, [length + 1 for length in lengths]) < value


@pytest.mark.parametrize(
    ("first", "lengths"), [([5], [4]), ([0], [4]), ([1, 2], [4]), ([], []), ([None], [0])]
)
def test_efficiency_refuses_what_cannot_be(first: list[int | None], lengths: list[int]) -> None:
    with pytest.raises(ConfigError):
        outcome_efficiency(first, lengths)
