"""Groups that teach nothing are dropped by their outcomes; length is punished in the outcome."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from botgrpo.rewards.base import Rollout
from botgrpo.trainer.sampling_rules import keep_group, soft_overlong
from botgrpo.trainer.steps import step_ends, step_means


def test_groups_whose_outcomes_are_all_alike_are_dropped() -> None:
    outcomes = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.3, 0.1 + 0.2])
    groups = [0, 0, 1, 1, 5, 5, 6, 6]
    kept = keep_group(outcomes, groups)
    assert kept.tolist() == [False, False, True, True, False, False, False, False]


def test_unscored_rollouts_neither_keep_nor_drop_a_group() -> None:
    nan = np.nan
    outcomes = np.array([1.0, nan, 0.0, 1.0, nan, 1.0, nan, nan])
    kept = keep_group(outcomes, [0, 0, 0, 1, 1, 1, 2, 2])
    assert kept.tolist() == [True] * 3 + [False] * 5


def test_soft_overlong_worked_by_hand() -> None:
    # equation 13 at the paper's lengths
    lengths = np.array([0, 16384, 18432, 20480, 30000])
    assert soft_overlong(lengths, 20480, 4096).tolist() == [0.0, 0.0, -0.5, -1.0, -1.0]
    with pytest.raises(ValueError, match="cache_tokens is 0"):
        soft_overlong(lengths, 20480, 0)


def rollout(*tokens: str) -> Rollout:
    edges = np.cumsum([0, *map(len, tokens)]).tolist()
    spans = tuple(itertools.pairwise(edges))
    return Rollout("r", "g", "p", "".join(tokens), token_ids=(1,) * len(tokens), token_spans=spans)


@pytest.mark.parametrize(
    ("tokens", "ends"),
    [
        (("a", " b\n", "c", "\n"), [0, 1, 0, 1]),
        (("a", "\n", "\n", "\n  c", ";", ""), [0, 1, 0, 0, 0, 1]),  # blank lines are no steps
        (("a\nb\nc",), [1]),
        (("a\nb", "\nc"), [1, 1]),  # where a line breaks inside a token
        (("\n", "\n"), [0, 1]),
        (("a", "", ""), [0, 0, 1]),
        ((), []),
    ],
)
def test_a_step_is_a_line_that_is_not_blank(tokens: tuple[str, ...], ends: list[int]) -> None:
    assert step_ends(rollout(*tokens)).astype(int).tolist() == ends


def test_without_spans_a_rollout_is_one_step() -> None:
    assert step_ends(Rollout("r", "g", "p", "a\nb", token_ids=(1, 2))).tolist() == [False, True]


def test_a_steps_value_is_its_mean_at_its_end() -> None:
    ends = np.array([False, True, True, False, True])
    values = np.array([1.0, 3.0, 5.0, 0.0, -1.0])
    assert step_means(values, ends).tolist() == [0.0, 2.0, 5.0, 0.0, -0.5]
    assert step_means(np.zeros(0), np.zeros(0, bool)).tolist() == []
