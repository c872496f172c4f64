"""The loop on a tiny random policy and a stub reward: files, resumption, failure."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from botgrpo.trainer.config import Config
from botgrpo.trainer.loop import Run
from botgrpo.trainer.policy import load_policy
from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


def make(folder: Path, out: Path, config: Config | None = None, reward: Any = None) -> Run:
    return Run(
        config=config or tiny_config(),
        policy=load_policy(folder),
        task=StubTask(),
        reward=reward or StubReward(),
        judge=StubReward(),
        out=out,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """Records without the clock, which no two runs share."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {k: v for k, v in r.items() if not k.startswith("time/") and k != "seconds"}
        for r in records
    ]


def test_a_run_writes_a_line_a_step_and_learns_what_is_rewarded(
    folder: Path, tmp_path: Path
) -> None:
    config = tiny_config(run__steps=30, run__eval_every=15, optim__learning_rate=0.02)
    run = make(folder, tmp_path, config)
    run.train(resume=False)
    metrics, evals = lines(tmp_path / "metrics.jsonl"), lines(tmp_path / "eval.jsonl")
    assert [m["step"] for m in metrics] == list(range(1, 31))
    assert [e["step"] for e in evals] == [0, 15, 30]
    assert evals[-1]["letters"] > evals[0]["letters"] + 0.2
    assert run.reward.closed and run.judge.closed  # type: ignore[attr-defined]
    assert max(m["sampling/sampling_logp_difference/max"] for m in metrics) < 1e-3


def test_rollouts_are_logged_with_rewards_and_advantages_for_each_token(
    folder: Path, tmp_path: Path
) -> None:
    make(folder, tmp_path, reward=StubReward(lose="/0")).train(resume=False)
    records = lines(tmp_path / "rollouts.jsonl")
    assert {r["step"] for r in records} == {1, 2, 4}
    for r in records:
        if r["outcome"] is None:
            assert r["token_rewards"] is None and r["advantages"] is None
        else:
            assert len(r["token_rewards"]) == len(r["advantages"]) == len(r["token_ids"])


def test_a_resumed_run_gives_the_same_numbers_and_weights(folder: Path, tmp_path: Path) -> None:
    whole = make(folder, tmp_path / "whole")
    (tmp_path / "whole").mkdir()
    whole.train(resume=False)

    (tmp_path / "cut").mkdir()
    make(folder, tmp_path / "cut", tiny_config(run__steps=3)).train(resume=False)
    # as if killed after step 3 with the checkpoint of step 2
    newest = tmp_path / "cut" / "checkpoints" / "step-000003"
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    resumed = make(folder, tmp_path / "cut")
    resumed.train(resume=True)
    for name in ("metrics.jsonl", "rollouts.jsonl"):
        expected = lines(tmp_path / "whole" / name)
        assert lines(tmp_path / "cut" / name) == expected
    # step 3 was the end of the shorter run, so it was evaluated there; nothing of it is left
    assert lines(tmp_path / "cut" / "eval.jsonl") == lines(tmp_path / "whole" / "eval.jsonl")
    for a, b in zip(
        whole.policy.model.parameters(), resumed.policy.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward": 9}\n{"step": 2, "rew')
    (tmp_path / "eval.jsonl").write_text('{"step": 0, "letters": 9}\n')
    make(folder, tmp_path).train(resume=True)
    assert [m["step"] for m in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4]
    assert all(e["letters"] <= 1 for e in lines(tmp_path / "eval.jsonl"))


def test_lost_rollouts_are_counted_and_change_no_other(folder: Path, tmp_path: Path) -> None:
    make(folder, tmp_path, tiny_config(run__steps=1), StubReward(lose="/0")).train(resume=False)
    (metrics,) = lines(tmp_path / "metrics.jsonl")
    assert metrics["bot/unscored"] == 2  # one of each of two groups
    assert metrics["sandbox/verdict/infra_error"] == 0.25


def test_a_step_in_which_nothing_could_be_scored_leaves_the_weights(
    folder: Path, tmp_path: Path
) -> None:
    run = make(folder, tmp_path, tiny_config(run__steps=2), StubReward(lose=""))
    before = [p.clone() for p in run.policy.model.parameters()]
    run.train(resume=False)
    for a, b in zip(before, run.policy.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [m["bot/unscored"] for m in lines(tmp_path / "metrics.jsonl")] == [8, 8]


def test_arms_with_the_same_seed_are_tested_with_the_same_draws(
    folder: Path, tmp_path: Path
) -> None:
    for name, algorithm in (("a", "bot_grpo"), ("b", "grpo")):
        (tmp_path / name).mkdir()
        config = tiny_config(run__steps=1, algorithm=algorithm)
        make(folder, tmp_path / name, config).train(resume=False)
    first = [lines(tmp_path / name / "eval.jsonl")[0] for name in ("a", "b")]
    assert first[0] == first[1]
    prompts = [
        [r["prompt"] for r in lines(tmp_path / name / "rollouts.jsonl")] for name in ("a", "b")
    ]
    assert prompts[0] == prompts[1]


def test_a_step_says_how_long_each_of_its_stages_took(folder: Path, tmp_path: Path) -> None:
    make(folder, tmp_path).train(resume=False)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    parts = {"time/generate_s", "time/score_s", "time/score_overlapped_s", "time/update_s"}
    for row in rows:
        assert all(row[part] >= 0 for part in parts)
        assert ("time/evaluate_s" in row) == (row["step"] in (2, 4))


def test_groups_are_scored_while_others_are_still_being_drawn(folder: Path, tmp_path: Path) -> None:
    scoring = threading.Event()

    class Watched(StubReward):
        async def score(self, rollouts: Any) -> Any:
            scoring.set()
            return await super().score(rollouts)

    run = make(folder, tmp_path, tiny_config(run__steps=1), Watched())
    whole = run.engine.generate
    waited: list[bool] = []

    def generate(prompt_ids: Any, k: int, keys: Any, sampling: Any, ended: Any) -> Any:
        samples = whole(prompt_ids, k, keys, sampling)
        if k > 1:
            ended([0, 1, 2], samples[:3])
            ended([3], samples[3:4])  # the first group is whole now, the second not begun
            waited.append(scoring.wait(timeout=30))
            ended(range(4, len(samples)), samples[4:])
        else:
            ended(range(len(samples)), samples)
        return samples

    run.engine.generate = generate  # type: ignore[method-assign]
    run.train(resume=False)
    assert waited == [True]
