"""From scores to token rewards: what is unscored moves nothing."""

from __future__ import annotations

import numpy as np
import pytest

from botgrpo.rewards.base import Rollout, Score
from botgrpo.trainer import batch as batches
from botgrpo.trainer.algorithms import ALGORITHMS, PORTS


def rollout(i: int, group: str, length: int) -> Rollout:
    return Rollout(f"r{i}", group, "p", "x" * length, token_ids=(1,) * length)


def scored(i: int, outcome: float | None, local: tuple[float | None, ...] | None) -> Score:
    return Score(f"r{i}", outcome, local=local)


def advantages_of(
    rollouts: list[Rollout], scores: list[Score], name: str = "bot_grpo", **options: object
) -> list[list[float]]:
    batch = batches.make_batch(rollouts, scores, w_g=1.0, w_s=1.0)
    flat, _ = batches.advantages(batch, ALGORITHMS[name], options, w_g=1.0)
    return [piece.tolist() for piece in batch.split(flat)]


def test_token_reward_worked_by_hand() -> None:
    rollouts = [rollout(0, "a", 2), rollout(1, "a", 1)]
    scores = [scored(0, 1.0, (0.0, -0.5)), scored(1, 0.0, (-1.0,))]
    batch = batches.make_batch(rollouts, scores, w_g=2.0, w_s=0.5)
    np.testing.assert_allclose(batch.reward_N, [2.0, 1.75, -0.5])


def test_an_unscored_rollout_leaves_the_others_as_if_it_were_not_there() -> None:
    rollouts = [rollout(i, "a", n) for i, n in enumerate((2, 3, 1))]
    scores = [scored(0, 1.0, (0.0, -0.5)), scored(1, 0.0, (-1.0, 0.0, 0.0))]
    alone = advantages_of(rollouts[:2], scores)
    for lost in (Score.unscored("r2", "engine gone"), scored(2, None, (9.0,))):
        assert advantages_of(rollouts, [*scores, lost]) == [*alone, [0.0]]


def test_unknown_local_tokens_move_nothing() -> None:
    # all outcomes alike: what is left is local, and unknown tokens must have none
    rollouts = [rollout(0, "a", 4), rollout(1, "a", 2), rollout(2, "a", 3)]
    scores = [
        scored(0, 0.0, (None, -1.0, None, 0.0)),
        scored(1, 0.0, (0.0, None)),
        Score("r2", 0.0, local_scored=False),
    ]
    batch = batches.make_batch(rollouts, scores, w_g=1.0, w_s=1.0)
    assert batch.unknown_N.sum() == 6
    first, second, third = advantages_of(rollouts, scores)
    assert [first[0], first[2], second[1], *third] == pytest.approx([0.0] * 6, abs=1e-12)
    assert first[1] < 0 < first[3]


def test_a_group_that_knows_no_local_value_learns_from_outcomes_alone() -> None:
    rollouts = [rollout(0, "a", 2), rollout(1, "a", 2)]
    scores = [Score("r0", 1.0, local_scored=False), Score("r1", 0.0, local_scored=False)]
    assert advantages_of(rollouts, scores) == advantages_of(
        rollouts, [scored(0, 1.0, None), scored(1, 0.0, None)]
    )


def test_grpo_reads_the_outcome_and_grpo_mean_the_same_information() -> None:
    rollouts = [rollout(0, "a", 2), rollout(1, "a", 2)]
    scores = [scored(0, 0.0, (-1.0, 0.0)), scored(1, 0.0, (0.0, 0.0))]
    assert advantages_of(rollouts, scores, "grpo") == [[0.0, 0.0], [0.0, 0.0]]
    low, high = advantages_of(rollouts, scores, "grpo_mean")
    assert low == pytest.approx([-1.0, -1.0], abs=1e-4)
    assert high == pytest.approx([1.0, 1.0], abs=1e-4)


def test_options_reach_the_advantage() -> None:
    rollouts = [rollout(0, "a", 2), rollout(1, "a", 2)]
    scores = [scored(0, 0.0, (-1.0, 0.0)), scored(1, 0.0, (0.0, 0.0))]
    assert advantages_of(rollouts, scores, uniform_group="zero") == [[0.0, 0.0], [0.0, 0.0]]


def test_metrics_count_what_was_not_scored() -> None:
    rollouts = [rollout(0, "a", 2), rollout(1, "a", 1), rollout(2, "b", 1), rollout(3, "b", 1)]
    scores = [
        Score("r0", 1.0, "ok", local=(0.0, 0.0), metrics={"rewards/x": 1.0, "compile": 1.0}),
        Score("r1", 0.0, "syntax", local=(-1.0,), metrics={"rewards/x": 0.0, "compile": 0.0}),
        Score.unscored("r2", "engine gone"),
        Score("r3", 0.0, "syntax", local=(None,), metrics={"rewards/x": 0.0}),
    ]
    batch = batches.make_batch(rollouts, scores, w_g=1.0, w_s=1.0)
    flat, stats = batches.advantages(batch, ALGORITHMS["bot_grpo"], {}, w_g=1.0)
    metrics = batches.reward_metrics(batch, stats, flat, scores)
    assert metrics["bot/unscored"] == 1
    assert metrics["bot/local_unscored_tokens"] == 1
    assert metrics["rewards/x/mean"] == pytest.approx(1 / 3)
    assert metrics["rewards/compile/mean"] == pytest.approx(1 / 2)
    assert metrics["sandbox/verdict/syntax"] == 0.5
    assert metrics["sandbox/verdict/infra_error"] == 0.25
    assert metrics["outcome"] == pytest.approx(1 / 3)


def test_a_step_in_which_nothing_was_scored_learns_nothing() -> None:
    rollouts = [rollout(0, "a", 2), rollout(1, "a", 1)]
    lost = [Score.unscored(r.id, "engine gone") for r in rollouts]
    assert advantages_of(rollouts, lost) == [[0.0, 0.0], [0.0]]
    batch = batches.make_batch(rollouts, lost, w_g=1.0, w_s=1.0)
    flat, stats = batches.advantages(batch, ALGORITHMS["bot_grpo"], {}, w_g=1.0)
    metrics = batches.reward_metrics(batch, stats, flat, lost)
    assert metrics["bot/unscored"] == 2
    assert not {"reward", "outcome", "reward_std", "bot/local_mean"} & set(metrics)


def test_local_values_that_do_not_fit_the_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="3 local values for 2 tokens"):
        batches.make_batch([rollout(0, "a", 2)], [scored(0, 1.0, (0, 0, 0))], w_g=1, w_s=1)


def lines_batch() -> batches.Batch:
    """Two rollouts of two lines, the second rollout's second line blamed; w_g 2, w_s 1/2."""
    text, spans = "a\nbc", ((0, 1), (1, 2), (2, 3), (3, 4), (4, 4))
    rollouts = [
        Rollout(f"r{i}", "a", "p", text, token_ids=(1,) * 5, token_spans=spans) for i in range(2)
    ]
    scores = [scored(0, 1.0, (0.0,) * 5), scored(1, 0.0, (0.0, 0.0, -1.0, -1.0, 0.0))]
    return batches.make_batch(rollouts, scores, w_g=2.0, w_s=0.5)


def test_each_port_gives_what_its_name_says() -> None:
    batch = lines_batch()
    expected = {
        "token": [2] * 5 + [0, 0, -0.5, -0.5, 0],
        "mean": [2] * 5 + [0, 0, -0.5, -0.5, 0],  # methods of one number read the row's mean
        "outcome": [2] * 5 + [0] * 5,
        "outcome_last": [0, 0, 0, 0, 2] + [0] * 5,
        "step": [0, 2, 0, 0, 2, 0, 0, 0, 0, -1 / 3],
        "token_and_outcome": [0] * 5 + [0, 0, -0.5, -0.5, 0],
        "step_and_outcome": [0] * 5 + [0, 0, 0, 0, -1 / 3],
    }
    assert set(expected) == set(PORTS)
    for name, values in expected.items():
        rewards, extra = batches.port(batch, name, 2.0)
        np.testing.assert_allclose(rewards, values, err_msg=name)
        assert ("outcomes_K" in extra) == name.endswith("_and_outcome")
        assert ("step_ends_K_T" in extra) == name.startswith("step")
        if "outcomes_K" in extra:
            assert extra["outcomes_K"].tolist() == [2.0, 0.0]
        if "step_ends_K_T" in extra:
            assert extra["step_ends_K_T"].astype(int).tolist() == [[0, 1, 0, 0, 1]] * 2


def test_dynamic_sampling_drops_groups_by_outcome_and_length_is_punished_in_it() -> None:
    rollouts = [rollout(i, "ab"[i // 2], n) for i, n in enumerate((2, 10, 3, 9))]
    scores = [scored(0, 1.0, (0.0,) * 2), scored(1, 1.0, (-1.0,) * 10)]
    scores += [scored(2, 1.0, (0.0,) * 3), scored(3, 0.0, (0.0,) * 9)]
    made = batches.make_batch(rollouts, scores, w_g=2.0, w_s=1.0)
    batch = batches.apply_rules(made, ALGORITHMS["dapo"], w_g=2.0, max_tokens=10)
    assert batch.kept_R.tolist() == [False, False, True, True]
    assert batch.penalty_R.tolist() == [0.0, -0.5, 0.0, -0.25]  # cache of 2 tokens, half the gap
    flat, stats = batches.advantages(batch, ALGORITHMS["dapo"], {}, w_g=2.0)
    a, b, c, d = batch.split(flat)
    assert not a.any() and not b.any()
    np.testing.assert_allclose(c, 1.0, atol=1e-5)
    np.testing.assert_allclose(d, -1.0, atol=1e-5)
    assert batches.reward_metrics(batch, stats, flat, scores)["bot/dropped"] == 2
    same = batches.apply_rules(made, ALGORITHMS["bot_grpo"], w_g=2.0, max_tokens=10)
    assert same is made


def test_damping_knows_the_weight_of_the_outcome() -> None:
    rollouts = [rollout(0, "a", 1), rollout(1, "a", 1)]
    scores = [scored(0, 0.0, (-1.0,)), scored(1, 0.0, (0.0,))]
    batch = batches.make_batch(rollouts, scores, w_g=4.0, w_s=1.0)
    flat, _ = batches.advantages(batch, ALGORITHMS["bot_grpo"], {"uniform_group": "damp"}, w_g=4.0)
    expected = 0.5 / (np.sqrt(0.5**2 + 2.0**2) + 1e-6)
    np.testing.assert_allclose(flat, [-expected, expected])
