"""The same suite on a real cluster of two nodes, on this machine. Runs where Ray is: .envs/verl."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator
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

from botgrpo.benchmarks import executors, runner, suite
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import to_toml

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


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two nodes of one core each."""
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    try:
        yield made
    finally:
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
