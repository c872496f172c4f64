"""Numbers of a run in dashboards: TensorBoard for real, the others through stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from botgrpo.benchmarks import training
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import trackers
from botgrpo.trainer.trackers import Trackers


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show."""
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }


def test_tensorboard_gets_steps_and_evaluations_and_a_resumed_run_replaces_what_it_redoes(
    tmp_path: Path,
) -> None:
    pytest.importorskip("tensorboard")
    with Trackers(None, tmp_path, "mine", {}) as open_:
        for step in (1, 2, 3):
            open_.log("step", {"step": step, "reward": step / 2, "verdicts": {"ok": 1}})
        open_.log("eval", {"step": 2, "complete": 0.25})
    with Trackers(("tensorboard",), tmp_path, "mine", {}, after=2) as open_:
        open_.log("step", {"step": 3, "reward": 9.0})
    found = scalars(tmp_path / "tensorboard")
    assert found == {"reward": [(1, 0.5), (2, 1.0), (3, 9.0)], "eval/complete": [(2, 0.25)]}


class Recorder:
    """Stands in for a tracker's module: notes what is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Recorder:
            self.calls.append((name, (arguments, options)))
            return self

        return called

    def named(self, name: str) -> list[Any]:
        return [what for each, what in self.calls if each == name]


@pytest.mark.parametrize(
    ("name", "logs", "closes"),
    [
        ("wandb", "log", "finish"),
        ("trackio", "log", "finish"),
        ("mlflow", "log_metrics", "end_run"),
    ],
)
def test_each_tracker_is_opened_fed_by_step_and_closed(
    name: str, logs: str, closes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, name, recorder)
    with Trackers((name,), tmp_path, "mine", {"seed": 3}) as open_:
        open_.log("step", {"step": 7, "rewards/noise.flip(a.b)/mean": 0.5})
    (arguments, options) = recorder.named(logs)[0]
    assert options == {"step": 7}
    key = "rewards/noise.flip_a.b_/mean" if name == "mlflow" else "rewards/noise.flip(a.b)/mean"
    assert arguments == ({key: 0.5},)
    assert len(recorder.named(closes)) == 1


def test_a_tracker_that_fails_is_dropped_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def down(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    run = SimpleNamespace(log=down, finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: run))
    other = Recorder()
    monkeypatch.setitem(sys.modules, "trackio", other)
    with Trackers(("wandb", "trackio"), tmp_path, "mine", {}) as open_:
        for step in (1, 2):
            open_.log("step", {"step": step, "reward": 1.0})
    assert len(other.named("log")) == 2
    assert capsys.readouterr().err.count("tracker wandb dropped: ConnectionError: no route") == 1


def test_a_tracker_that_is_not_installed_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="trackers names wandb, which is not installed"):
        training.load_config("react_micro", ['trackers=["wandb"]'])
    with Trackers(None, Path(), "mine", {}) as open_:  # the default asks for nothing
        assert open_.open == {}
