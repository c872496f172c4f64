"""Which step of training a rollout is scored for, for rewards that change as training goes on.

A trainer says it (`at_step`), a reward asks (`training_step`); outside of training it is 0. Tasks
and threads started inside inherit it, so that workers cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_STEP: ContextVar[int] = ContextVar("botgrpo_training_step", default=0)


def training_step() -> int:
    """The optimiser step under way, from 1; 0 outside of training."""
    return _STEP.get()


@contextmanager
def at_step(step: int) -> Iterator[None]:
    """What is scored inside belongs to this step."""
    token = _STEP.set(step)
    try:
        yield
    finally:
        _STEP.reset(token)
