"""The audited key: one false claim a mutant, where and of the kind that it says; and what is made
of a reward's answers to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest

from botgrpo.benchmarks import math_mutants
from botgrpo.benchmarks.math_mutants import clean_solutions, mutant_report
from botgrpo.benchmarks.tasks.aime_micro import Problem
from botgrpo.benchmarks.tasks.aime_mutants import Mutant, mutant, mutants
from botgrpo.benchmarks.tasks.aime_work import (
    KINDS,
    Congruence,
    Equation,
    Listing,
    Statement,
    slip,
)
from botgrpo.rewards.base import RewardSpec, Rollout, Score, Span

KEY = [m for level in (1, 3, 5) for m in mutants(40, seed=1, difficulty=level)]


def true_by_hand(text: str) -> bool | None:
    """Whether an equation or a congruence is true, read sign by sign; None for a listing."""
    found = re.fullmatch(r"(.+?)≡(-?\d+) \(mod (\d+)\)", text)
    if found:
        return (int(found[1]) - int(found[2])) % int(found[3]) == 0
    left, equals, right = text.rpartition("=")
    return None if not equals else worked_out(left) == int(right)


def worked_out(left: str) -> Fraction:
    """Powers, then products, then sums; a bracket holds one number, or what is chosen from what."""
    left = re.sub(r"C\((\d+),(\d+)\)", lambda m: str(choose(int(m[1]), int(m[2]))), left)
    total = Fraction(0)
    for sign, product in re.findall(r"(^-|[-+]|^)((?:\(-\d+\)|[\d*/^])+)", left):
        value = Fraction(1)
        for operator, factor in re.findall(r"([*/]|^)(\(-\d+\)|[\d^]+)", product):
            base, _, exponent = factor.strip("()").partition("^")
            power = Fraction(int(base) ** int(exponent or 1))
            value = value / power if operator == "/" else value * power
        total += -value if sign == "-" else value
    return total


def choose(n: int, k: int) -> int:
    row = [1]
    for _ in range(n):
        row = [1, *(a + b for a, b in pairwise(row)), 1]
    return row[k] if k < len(row) else 0


def test_every_mutant_has_one_false_claim_at_its_place_and_no_other() -> None:
    assert Counter(m.kind for m in KEY).keys() == set(KINDS)
    for m in KEY:
        for claim in m.solution.claims:
            text = m.solution.text[claim.start : claim.end]
            assert text == claim.statement.text
            truth = true_by_hand(text)
            if truth is not None:
                assert truth == (claim != m.claim), (text, m.solution.text)
        start, end = m.solution.steps[m.claim.step]
        assert start < m.claim.start < m.claim.end <= end
        if isinstance(m.claim.statement, Listing):
            assert set(m.claim.statement.cases) < set(m.claim.statement.complete)


def test_a_mutant_is_the_clean_solution_up_to_its_error() -> None:
    for m in KEY:
        clean = m.problem.solve()
        place = m.solution.claims.index(m.claim)
        assert m.solution.text[: m.claim.start] == clean.text[: m.claim.start]
        assert m.solution.claims[:place] == clean.claims[:place]
        assert m.solution.text != clean.text


def test_kinds_are_what_they_are_called() -> None:
    for m in KEY:
        clean = m.problem.solve().claims[m.solution.claims.index(m.claim)].statement
        false = m.claim.statement
        if m.kind == "operator":
            assert isinstance(clean, Equation) and isinstance(false, Equation)
            assert false.right == clean.right
            assert len(false.left) == len(clean.left)
            assert sum(a != b for a, b in zip(false.left, clean.left, strict=True)) == 1
        elif m.kind == "wrong_modulus":
            assert isinstance(clean, Congruence) and isinstance(false, Congruence)
            assert abs(false.modulus - clean.modulus) == 1
            assert (false.left, false.right) == (clean.left, clean.right)
        elif m.kind == "dropped_case":
            assert isinstance(clean, Listing) and isinstance(false, Listing)
            assert len(false.cases) == len(clean.cases) - 1
        else:
            assert not isinstance(clean, Listing) and not isinstance(false, Listing)
            if m.kind == "sign":
                assert false.right == -clean.right
            elif m.kind == "off_by_one":
                assert abs(false.right - clean.right) == 1
            else:
                one, other = str(clean.right), str(false.right)
                assert len(one) == len(other)
                assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (Equation("0*5", 0), "sign"),
        (Equation("2*2", 4), "operator"),  # 2+2 is 4 as well
        (Equation("1+1", 2), "wrong_modulus"),
        (Congruence(12, 0, 6), "sign"),
        (Listing((5,), (5,)), "dropped_case"),
        (Listing((2, 3), (2, 3)), "digit"),
    ],
)
def test_a_change_that_leaves_the_claim_true_is_no_error(statement: Statement, kind: str) -> None:
    assert slip(statement, kind, Random(0)) is None


def test_mutants_are_of_held_out_problems_all_different_and_the_seeds_own() -> None:
    assert all(m.problem.held_out for m in KEY)
    first = mutants(30, seed=1)
    assert first == mutants(30, seed=1) != mutants(30, seed=2)
    assert len({(m.kind, m.problem.key, m.solution.text) for m in first}) == len(first)
    assert Counter(m.kind for m in first) == dict.fromkeys(KINDS, 30)


def test_a_problem_without_a_claim_of_the_kind_has_no_such_mutant() -> None:
    assert mutant(Problem("pair", (12, 6)), "wrong_modulus", Random(0)) is None


# ---- the report


class Blames:
    """A step reward that blames the steps that `choose` names."""

    spec = RewardSpec("test.blames", "1", (-1.0, 0.0), (-1.0, 0.0))

    def __init__(self, places: dict[str, Sequence[tuple[int, int]]], unscored: int = 0) -> None:
        self.places, self.unscored = places, unscored

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        scores = []
        for i, rollout in enumerate(rollouts):
            spans = tuple(Span(a, b, -1.0) for a, b in self.places.get(rollout.completion, ()))
            score = Score(rollout.id, 0.0, spans=spans)
            scores.append(Score.unscored(rollout.id, "?") if i < self.unscored else score)
        return scores


def places(key: Sequence[Mutant]) -> dict[str, Sequence[tuple[int, int]]]:
    return {m.solution.text: [(m.claim.start, m.claim.end)] for m in key}


def test_a_reward_that_knows_the_key_is_perfect_and_one_that_knows_nothing_is_not() -> None:
    key, clean = mutants(10), clean_solutions(20, 1)
    report = mutant_report(Blames(places(key)), key, clean)
    assert report.recall == (60, 60)
    assert report.precision == (60, 60)
    assert report.clean.solutions == 20 and report.clean.blamed == 0
    nothing = mutant_report(Blames({}), key, clean)
    assert nothing.recall == (0, 60) and nothing.precision == (0, 0)
    assert "precision of -1       none" in math_mutants.text(nothing)


def test_blame_elsewhere_and_on_clean_solutions_costs_precision() -> None:
    key = [m for m in mutants(10) if len(m.solution.steps) > 1]
    wrong = {
        m.solution.text: [m.solution.steps[i] for i in (m.claim.step, m.claim.step - 1)]
        for m in key
    }
    clean = clean_solutions(5, 1)
    wrong |= {solution.text: solution.steps[:1] for _, solution in clean}
    report = mutant_report(Blames(wrong), key, clean)
    assert report.recall == (len(key), len(key))
    assert report.precision == (len(key), 2 * len(key) + 5)


def test_unscored_mutants_are_counted_apart_and_not_as_missed() -> None:
    key = mutants(10)
    report = mutant_report(Blames(places(key), unscored=7), key, ())
    assert report.recall == (53, 53)
    assert "unscored              7" in math_mutants.text(report)


def test_the_command_prints_counts_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert math_mutants.main(["--mutants", "5", "--reward", "math.steps_sympy"]) == 0
    printed = capsys.readouterr().out
    assert "on 30 mutants and 5 clean solutions" in printed
    for kind in KINDS:
        assert re.search(rf"^  {kind} +recall .* \([0-5] of 5\)", printed, re.MULTILINE)
