"""The same suite on a real cluster of two nodes, on this machine. Runs where Ray is: .envs/verl."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("ray") is None:
    pytest.skip(
        "Ray is an extra; next: make env-verl, then "
        ".envs/verl/bin/python -m pytest tests/test_benchmarks_ray.py",
        allow_module_level=True,
    )

import ray
from ray.cluster_utils import Cluster

from botgrpo.benchmarks import assemble, executors, runner, shipped, suite, training
from botgrpo.benchmarks.results import load_suite
from botgrpo.benchmarks.spread import Spread
from botgrpo.rewards.base import Rollout
from botgrpo.rewards.training_step import at_step
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs
from botgrpo.trainer.config import Config, to_toml

pytestmark = pytest.mark.filterwarnings("ignore")

SUITE: dict[str, Any] = {
    "name": "spread",
    "config": "aime_micro",
    "baseline": "grpo",
    "seeds": [0],
    "primary": {"metric": "correct", "threshold": 0.5},
    "run": {"steps": 2, "eval_every": 2, "eval_prompts": 4},
    "set": {"sampling": {"prompts": 2, "group_size": 2}},
    "arms": [{"name": "bot_grpo"}, {"name": "grpo", "set": {"algorithm": "grpo"}}],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one core each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = made.address
    try:
        yield made
    finally:
        del os.environ["RAY_ADDRESS"]
        ray.shutdown()
        made.shutdown()


def loaded(tmp_path: Path) -> suite.Suite:
    path = tmp_path / "spread.toml"
    path.write_text(to_toml(SUITE))
    return suite.load(str(path))


def records(cell: Path) -> list[dict[str, Any]]:
    """What a cell measured, without what the clock decides."""
    files = ("metrics.jsonl", "eval.jsonl", "rollouts.jsonl")
    rows = [json.loads(line) for name in files for line in (cell / name).read_text().splitlines()]
    return [{k: v for k, v in r.items() if k != "seconds" and "time/" not in k} for r in rows]


def test_a_cluster_gives_the_numbers_of_one_machine(tmp_path: Path, cluster: Cluster) -> None:
    spread = executors.Ray()
    assert spread.slots == 2
    assert runner.Bench(loaded(tmp_path), tmp_path / "ray", executor=spread).run() == []
    assert runner.Bench(loaded(tmp_path), tmp_path / "local").run() == []
    there, here = load_suite(tmp_path / "ray"), load_suite(tmp_path / "local")
    assert {cell.status for cell in there.cells.values()} == {"finished"}
    for key, cell in there.cells.items():
        assert records(cell.folder) == records(here.cells[key].folder)


def test_a_cell_whose_node_is_lost_goes_on_elsewhere(tmp_path: Path, cluster: Cluster) -> None:
    second = cluster.add_node(num_cpus=1, resources={"doomed": 1})

    class Losing(executors.Ray):
        """Puts its first cell on a node that then dies."""

        doomed: int = 1

        def start(self, folder: Path) -> executors.Job:
            if not self.doomed:
                return super().start(folder)
            self.doomed = 0
            reference = self._cell.options(resources={"doomed": 1}).remote(str(folder.resolve()))
            while not (folder / "log.txt").exists():
                time.sleep(0.05)
            cluster.remove_node(second)
            return executors._Task(reference, folder)

    bench = runner.Bench(loaded(tmp_path), tmp_path / "out", executor=Losing())
    assert bench.run() == []
    assert sorted(cell.attempts for cell in bench.cells) == [1, 2]
    assert "lost by the cluster" in (bench.cells[0].folder / "log.txt").read_text()


def test_a_folder_that_a_node_does_not_see_is_refused(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = executors.Ray()
    monkeypatch.setattr(executors, "_look", lambda probe: ("", executors.version("botgrpo")))
    with pytest.raises(ConfigError, match=r"does not see .* storage that all nodes share"):
        spread.check(tmp_path)
    assert os.listdir(tmp_path) == []


def test_another_version_on_a_node_is_refused(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = executors.Ray()
    monkeypatch.setattr(executors, "_look", lambda probe: (Path(probe).read_text(), "0.0.0"))
    with pytest.raises(ConfigError, match=r"has botgrpo 0\.0\.0, this one"):
        spread.check(tmp_path)


# ---- scoring ----


def noisy(**changes: Any) -> Config:
    """A run whose scores differ by step and attempt, on problems that need no sandbox."""
    data = configs.read_toml(shipped.find("configs", "aime_micro"))
    noise = {"noise.gaussian(math.answer, sigma=0.3)": 1.0}
    data["reward"] |= {
        "outcomes": {"math.answer": 1.0},
        "locals": {"math.steps_sympy": 1.0} | noise,
    }
    return configs.parse(configs.override(data, [f"{k}={v}" for k, v in changes.items()]), "test")


def solutions(count: int) -> list[Rollout]:
    words = "so 2 + 2 = {} and that is it"
    return [
        Rollout(f"r{n}", "g", "How many?", words.format(n), {"accepted": [4]}, *tokens(n, words))
        for n in range(count)
    ]


def tokens(n: int, words: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    size = len(words.format(n))
    return tuple(range(size)), tuple((i, i + 1) for i in range(size))


def scored(reward: Any, rollouts: list[Rollout], step: int) -> list[Any]:
    async def run() -> list[Any]:
        with at_step(step):
            found = await reward.score(rollouts)
        return [replace(score, seconds=0.0) for score in found]  # what the clock decides

    return asyncio.run(run())


def test_scores_are_the_same_wherever_they_are_made(cluster: Cluster) -> None:
    here, there = assemble.reward(noisy()), Spread(noisy())
    assert there.spec == here.spec
    for step in (1, 2):
        assert scored(there, solutions(40), step) == scored(here, solutions(40), step)
    asyncio.run(there.aclose())


def test_a_group_whose_actor_dies_is_scored_by_another(cluster: Cluster) -> None:
    there = Spread(noisy(), actors=2)
    scored(there, solutions(2), 1)
    ray.kill(there._actors[0], no_restart=False)
    found = scored(there, solutions(24), 1)
    assert found == scored(assemble.reward(noisy()), solutions(24), 1)


def test_what_is_lost_twice_is_unscored_and_not_zero(cluster: Cluster) -> None:
    there = Spread(noisy(), actors=1)
    scored(there, solutions(2), 1)
    ray.kill(there._actors[0])
    found = scored(there, solutions(3), 1)
    assert [s.outcome for s in found] == [None] * 3
    assert all("lost by the cluster" in s.reason for s in found)


def test_a_run_scored_by_the_cluster_learns_the_same(tmp_path: Path, cluster: Cluster) -> None:
    for where in ("local", "ray"):
        sizes = {"sampling.prompts": 2, "sampling.group_size": 2, "run.eval_prompts": 4}
        config = noisy(**sizes, **{"run.steps": 2, "run.scoring": where, "run.threads": 1})
        training.train(config, tmp_path / where, resume=False)
    assert records(tmp_path / "ray") == records(tmp_path / "local")
