"""Which attempt at the same work this is, so that no cache hides that a second one differs.

Scoring the same rollouts again shows whether a reward agrees with itself, unless a cache answers.
So whatever keeps results has `attempt()` in its key: everyday work is attempt 0, and what attempt 3
came to yesterday is found again by attempt 3 today.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NUMBER: ContextVar[int] = ContextVar("botgrpo_attempt", default=0)


def attempt() -> int:
    """Number of the attempt under way; tasks and `asyncio.to_thread` inherit it."""
    return _NUMBER.get()


@contextmanager
def attempting(number: int) -> Iterator[None]:
    """Work inside belongs to attempt `number`, from 0."""
    token = _NUMBER.set(number)
    try:
        yield
    finally:
        _NUMBER.reset(token)
