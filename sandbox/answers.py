"""Answers by content: remembered, and joined where the same question is under way already."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from botgrpo.sandbox.attempt import attempt
from botgrpo.sandbox.pool import Attempted

Answer = TypeVar("Answer")


class Answers(Generic[Answer]):
    """The last `size` answers that `keep` allows; rewards often ask about one candidate at once."""

    def __init__(
        self, read: Callable[[Attempted], Answer], keep: Callable[[Answer], bool], size: int
    ) -> None:
        self._read = read
        self._keep = keep
        self._size = size
        self._known: OrderedDict[bytes, Answer] = OrderedDict()
        self._flying: dict[bytes, Future[Attempted]] = {}

    async def get(self, key: bytes, submit: Callable[[], Future[Attempted]]) -> Answer:
        """The answer to `key`, from memory, from work under way, or from `submit()`.

        Another attempt (see `attempt.py`) is another question.
        """
        key += b"%d" % attempt()
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        answer = self._read(await self._attempted(key, submit))
        if self._keep(answer):
            self._known[key] = answer
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        return answer

    async def _attempted(self, key: bytes, submit: Callable[[], Future[Attempted]]) -> Attempted:
        while True:
            flying = self._flying.get(key)
            if flying is None:
                flying = submit()
                self._flying[key] = flying
                flying.add_done_callback(lambda _: self._flying.pop(key, None))
                return await asyncio.wrap_future(flying)
            try:
                return await asyncio.shield(asyncio.wrap_future(flying))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not flying.cancelled() or (task is not None and task.cancelling()):
                    raise
                # whoever asked first gave up while it was queued: ask again
