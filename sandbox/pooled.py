"""What all that judges through a pool of workers has in common."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from botgrpo.sandbox.pool import Pool

P = ParamSpec("P")
T = TypeVar("T")


class Pooled:
    """The end of a pool, and words about it for the manifest."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def aclose(self) -> None:
        """Kill the workers. Calls that still wait raise SandboxUnavailable or are cancelled."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """As `aclose`, for callers without an event loop."""
        self._pool.close()

    async def ready(self) -> None:
        """Return once a worker has answered. Raises SandboxUnavailable if none can."""
        if not self._pool.versions:
            await asyncio.wrap_future(self._pool.warm())

    def describe(self) -> dict[str, Any]:
        """For the manifest: backend, runtime, isolation and limits in words, versions.

        Starts a worker if none has run yet. Raises SandboxUnavailable.
        """
        if not self._pool.versions:
            self._pool.warm().result()
        return {**self._pool.backend().describe(), "versions": dict(self._pool.versions)}


def once_a_process(make: Callable[P, T]) -> Callable[P, T]:
    """What `make` gives for these arguments, made once and kept as long as the process lives.

    A forked child has none of its parent's threads, so it makes its own.
    """
    made: dict[Any, T] = {}
    lock = threading.Lock()
    signature = inspect.signature(make)

    @functools.wraps(make)
    def given(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        key = tuple(bound.arguments.items())
        with lock:
            if key not in made:
                made[key] = make(*args, **kwargs)
            return made[key]

    os.register_at_fork(after_in_child=made.clear)
    return given
