"""A run's numbers to TensorBoard, wandb, trackio or mlflow: the only file that imports them.

Names are those of metrics.jsonl, evaluations under `eval/`. A tracker that fails is dropped with a
line on standard error: nobody loses a run to a dashboard. metrics.jsonl has everything anyway.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from botgrpo.sandbox.errors import ConfigError

Log = Callable[[int, Mapping[str, float]], None]
Close = Callable[[], None]
PROJECT = "botgrpo"


def require(names: Sequence[str] | None) -> None:
    """Raise ConfigError where a tracker that a configuration names is not installed."""
    for name in names or ():
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"trackers names {name}, which is not installed; next: pip install {name}, or "
                "leave it out (metrics.jsonl has every number)"
            )


@dataclass(slots=True)
class Trackers:
    """All trackers of one run; use as a context.

    Args:
        names: those that are asked for; None for TensorBoard where it is installed.
        out: the run's folder; TensorBoard writes to `tensorboard` in it.
        name: the run's name.
        config: what the run depends on, to be shown beside it.
        after: the last step that is already there; what a resumed run writes again replaces it.
    """

    names: Sequence[str] | None
    out: Path
    name: str
    config: Mapping[str, Any]
    after: int = 0
    open: dict[str, tuple[Log, Close]] = field(default_factory=dict)

    def __enter__(self) -> Trackers:
        names = self.names
        if names is None:
            names = ["tensorboard"] if importlib.util.find_spec("tensorboard") else []
        for name in names:
            self._try(name, partial(self._open, name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, (_log, close) in list(self.open.items()):
            self._try(name, close)

    def log(self, kind: str, numbers: Mapping[str, Any]) -> None:
        """The numbers of a step, or of an evaluation, at `numbers["step"]`."""
        prefix = "eval/" if kind == "eval" else ""
        shown = {
            prefix + key: float(value)
            for key, value in numbers.items()
            if key != "step" and isinstance(value, int | float)
        }
        for name, (log, _close) in list(self.open.items()):
            self._try(name, partial(log, int(numbers["step"]), shown))

    def _open(self, name: str) -> None:
        self.open[name] = _OPEN[name](self)

    def _try(self, name: str, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self.open.pop(name, None)
            print(f"tracker {name} dropped: {type(error).__name__}: {error}", file=sys.stderr)


def _tensorboard(run: Trackers) -> tuple[Log, Close]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(run.out / "tensorboard"), purge_step=run.after + 1)

    def log(step: int, numbers: Mapping[str, float]) -> None:
        for key, value in numbers.items():
            writer.add_scalar(key, value, step)
        writer.flush()

    return log, writer.close


def _wandb(run: Trackers) -> tuple[Log, Close]:
    import wandb

    made = wandb.init(
        project=PROJECT,
        name=run.name,
        id=hashlib.sha256(str(run.out.resolve()).encode()).hexdigest()[:16],
        resume="allow",  # the same folder is the same run
        dir=str(run.out),
        config=dict(run.config),
    )
    return lambda step, numbers: made.log(dict(numbers), step=step), made.finish


def _trackio(run: Trackers) -> tuple[Log, Close]:
    import trackio

    made = trackio.init(project=PROJECT, name=run.name, config=dict(run.config), resume="allow")
    return lambda step, numbers: made.log(dict(numbers), step=step), made.finish


def _mlflow(run: Trackers) -> tuple[Log, Close]:
    import mlflow

    mlflow.set_experiment(PROJECT)
    mlflow.start_run(run_name=run.name)
    mlflow.log_params({key: str(value)[:500] for key, value in run.config.items()})

    def log(step: int, numbers: Mapping[str, float]) -> None:
        # it allows no parentheses, which rewards made of rewards have in their names
        plain = {re.sub(r"[^\w./ :-]", "_", key): value for key, value in numbers.items()}
        mlflow.log_metrics(plain, step=step)

    return log, mlflow.end_run


_OPEN: dict[str, Callable[[Trackers], tuple[Log, Close]]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
    "mlflow": _mlflow,
}
