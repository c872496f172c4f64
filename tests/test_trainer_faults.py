"""Real faults: each ends in RunFailed that says what to do, and the run goes on to the same end."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from botgrpo.sandbox.errors import RunFailed
from botgrpo.trainer import checkpoint
from botgrpo.trainer.loop import Run
from botgrpo.trainer.policy import load_policy
from botgrpo.trainer.stopping import Stop
from test_trainer_loop import lines
from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder

SETS = {"run__steps": 5, "run__eval_every": 2, "run__checkpoint_every": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing happens to."""
    run = make(folder, tmp_path_factory.mktemp("whole"))
    run.train(resume=False)
    return run


def make(folder: Path, out: Path, reward: Any = None, **sets: Any) -> Run:
    config = tiny_config(**{**SETS, **sets})
    return Run(config, load_policy(folder), StubTask(), reward or StubReward(), StubReward(), out)


class AtStep(StubReward):
    """Does `what` when it is asked to score the first rollout of a step."""

    def __init__(self, step: int, what: Callable[[], object]) -> None:
        super().__init__()
        self.at, self.what = f"0/{step}/", what

    async def score(self, rollouts: Any) -> Any:
        if rollouts[0].id.startswith(self.at) and rollouts[0].group.endswith("/0"):
            self.what()
        return await super().score(rollouts)


def fail() -> None:
    raise ZeroDivisionError("a bug in a reward")


def steps(out: Path) -> list[int]:
    return [m["step"] for m in lines(out / "metrics.jsonl")]


def require_same_end(folder: Path, out: Path, whole: Run) -> None:
    """Resumed, the run ends like the one that nothing happened to."""
    resumed = make(folder, out)
    resumed.train(resume=True)
    for name in ("metrics.jsonl", "eval.jsonl", "rollouts.jsonl"):
        assert lines(out / name) == lines(whole.out / name)
    for a, b in zip(
        whole.policy.model.parameters(), resumed.policy.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)


def test_a_reward_that_raises_is_named_and_nothing_is_learned_from_it(
    folder: Path, tmp_path: Path, whole: Run
) -> None:
    run = make(folder, tmp_path, AtStep(3, fail))
    with pytest.raises(RunFailed, match=r"reward stub raised ZeroDivisionError: a bug") as error:
        run.train(resume=False)
    assert "test_trainer_faults.py:" in str(error.value) and "--resume" in str(error.value)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert steps(tmp_path) == [1, 2] and run.reward.closed  # type: ignore[attr-defined]
    require_same_end(folder, tmp_path, whole)


def test_a_reward_that_mixes_up_its_rollouts_is_refused(folder: Path, tmp_path: Path) -> None:
    class Shuffled(StubReward):
        async def score(self, rollouts: Any) -> Any:
            return list(reversed(await super().score(rollouts)))

    with pytest.raises(RunFailed, match="in its order"):
        make(folder, tmp_path, Shuffled()).train(resume=False)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_an_engine_that_dies_stops_the_run_and_a_new_one_goes_on(
    folder: Path, tmp_path: Path, whole: Run
) -> None:
    run = make(folder, tmp_path)
    run.reward = AtStep(2, lambda: delattr(run.engine.decoder, "embedding"))  # type: ignore[attr-defined]
    run.engine.sync = lambda: None  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match=r"the engine native failed: \w+.*--resume"):
        run.train(resume=False)
    assert steps(tmp_path) == [1]
    newest = checkpoint.latest(tmp_path / "checkpoints")
    assert newest is not None and newest.name == "step-000001"
    require_same_end(folder, tmp_path, whole)


def test_weights_that_overflow_never_become_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    run = make(folder, tmp_path, optim__learning_rate=1e30)
    with pytest.raises(RunFailed, match=r"not finite.*--resume"):
        run.train(resume=False)
    for saved in checkpoint.complete(tmp_path / "checkpoints"):
        weights = torch.load(saved / "weights.pt", weights_only=True)["model"]
        assert all(bool(w.isfinite().all()) for w in weights.values())


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to write past `size` bytes of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_a_checkpoint_leaves_the_one_before(
    folder: Path, tmp_path: Path, whole: Run
) -> None:
    make(folder, tmp_path, run__steps=2).train(resume=False)
    good = checkpoint.latest(tmp_path / "checkpoints")
    assert good is not None
    before = (good / "weights.pt").read_bytes()
    with largest_file(20_000), pytest.raises(RunFailed, match=r"checkpoint of step 3.*make room"):
        make(folder, tmp_path).train(resume=True)
    assert (good / "weights.pt").read_bytes() == before
    assert checkpoint.latest(tmp_path / "checkpoints") == good
    assert not list((tmp_path / "checkpoints").glob(".partial*"))
    require_same_end(folder, tmp_path, whole)


def test_a_disk_that_refuses_a_line_stops_the_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunFailed, match=r"step 1 to .*metrics\.jsonl.*No space left"):
        make(folder, tmp_path).train(resume=False)


def test_three_steps_without_a_score_end_the_run(folder: Path, tmp_path: Path) -> None:
    lost = StubReward(lose="")
    with pytest.raises(RunFailed, match=r"last 3 steps could be scored \(up to step 3\)"):
        make(folder, tmp_path, lost).train(resume=False)
    assert steps(tmp_path) == [1, 2]
    assert all("outcome" not in m for m in lines(tmp_path / "metrics.jsonl"))


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGINT as a terminal has it: in a shell's background job it would be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_step_saves_it_and_the_run_goes_on(
    folder: Path, tmp_path: Path, whole: Run, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    run = make(
        folder,
        tmp_path,
        AtStep(3, lambda: os.kill(os.getpid(), number)),
        run__checkpoint_every=5,
    )
    with pytest.raises(RunFailed, match=rf"stopped by {number.name} after step 3"):
        run.train(resume=False)
    assert signal.getsignal(number) is before
    newest = checkpoint.latest(tmp_path / "checkpoints")
    assert newest is not None and newest.name == "step-000003"
    require_same_end(folder, tmp_path, whole)


@pytest.mark.usefixtures("heard")
def test_a_second_signal_stops_at_once(folder: Path, tmp_path: Path) -> None:
    def again(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "step" and numbers["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    run = make(folder, tmp_path, AtStep(3, lambda: os.kill(os.getpid(), signal.SIGINT)))
    run.progress = again
    with pytest.raises(KeyboardInterrupt):
        run.train(resume=False)
    newest = checkpoint.latest(tmp_path / "checkpoints")
    assert newest is not None and newest.name == "step-000002"  # step 3 was not saved any more
    assert run.reward.closed  # type: ignore[attr-defined]


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.asked == ""
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.asked == "SIGTERM"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
