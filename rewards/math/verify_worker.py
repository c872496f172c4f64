"""math-verify for answers that our own arithmetic leaves open, in processes that can be killed.

Its alarm does not fire inside one long C call and not off the main thread, so each question goes
to a child of ours with a memory limit; the deadline counts from the start of the work, and a child
that misses it is killed and replaced. No model text is evaluated in this process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from botgrpo.rewards.math.verdict import CORRECT, Judged, quoted
from botgrpo.rewards.math.verify_child import MEMORY_MIB
from botgrpo.sandbox.base import Limits, Link
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.pool import Attempted, Pool
from botgrpo.sandbox.process import ProcessLink

LIMITS = Limits(wall_s=5.0, start_s=60.0, memory_mib=MEMORY_MIB, candidates=500)
_WORKERS = 2
_INSTALL = (
    'to have it judged, install math-verify: pip install "math-verify>=0.8" (the extra "math")'
)


class MathVerify:
    """Asks math-verify about one answer at a time, `_WORKERS` at once."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._pool = Pool(_OwnPython, _WORKERS, limits)

    async def judge(self, text: str, accepted: Sequence[str]) -> Judged:
        """The verdict; unscored where math-verify is missing, fails, or cannot read `accepted`.

        `budget` where two workers in turn did not come to an end within time and memory.
        """
        try:
            request = {"answer": text, "accepted": list(accepted)}
            attempted = await asyncio.wrap_future(self._pool.submit(request))
        except SandboxUnavailable as error:
            return Judged("unparsed", f"{quoted(text)} is left open: {error}", scored=False)
        return _judged(text, accepted, attempted)

    def close(self) -> None:
        """Kill the workers."""
        self._pool.close()


def _judged(text: str, accepted: Sequence[str], attempted: Attempted) -> Judged:
    if attempted.reply is None:
        reason = f"{quoted(text)}: math-verify: {attempted.detail or attempted.loss}"
        return Judged("budget", reason, scored=attempted.loss != "infra_error")
    status = attempted.reply.get("status")
    golds = ", ".join(map(quoted, accepted))
    if status == "correct":
        return CORRECT
    if status == "wrong":
        return Judged("wrong", f"{quoted(text)}, accepted: {golds} (math-verify)")
    if status == "unreadable":
        return Judged("unparsed", f"{quoted(text)} is no expression that can be read")
    return Judged("unparsed", f"math-verify cannot compare {quoted(text)} with {golds}", False)


class _OwnPython:
    """See `sandbox.base.Backend`: this Python, with a memory limit and no environment."""

    name = "math-verify"

    def __init__(self) -> None:
        self.check()

    def check(self) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise SandboxUnavailable(_INSTALL)

    def start(self) -> Link:
        return self.launch([sys.executable, "-I", str(Path(__file__).with_name("verify_child.py"))])

    def launch(self, command: Sequence[str]) -> Link:
        return ProcessLink(command, None, lambda: None)

    def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name, "limits": f"{MEMORY_MIB} MiB of address space"}


@lru_cache(maxsize=1)
def shared_math_verify() -> MathVerify:
    """The process's one set of workers; none starts before the first question."""
    return MathVerify()


# A forked child has none of its parent's threads: it must make workers of its own.
os.register_at_fork(after_in_child=shared_math_verify.cache_clear)
