"""Asks a judge: cached, bounded, retried, and with an answer only where one can be read.

    client = JudgeClient(settings("react.code_judge", url, model, {}))
    async with client.session() as session:
        verdict = await session.ask(question, CodeVerdict, usage)

Whatever goes wrong ends in `NoVerdict`, for the caller to turn into `Score.unscored`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from botgrpo.rewards.judges.budget import Budget, NoVerdict, Usage
from botgrpo.rewards.judges.cache import Cache
from botgrpo.rewards.judges.question import (
    Form,
    Question,
    Reply,
    Unreadable,
    body,
    read_expected,
    read_form,
)
from botgrpo.rewards.judges.settings import Settings
from botgrpo.rewards.judges.wire import Transient, Wire
from botgrpo.sandbox.attempt import attempt

T = TypeVar("T")


class JudgeClient:
    """A judge for one reward. Holds nothing open outside its sessions; serves any event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.budget = Budget(settings)
        self._cache = Cache(settings.cache_dir) if settings.cache_dir is not None else None
        # a semaphore belongs to the loop that waits on it
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Connections for a batch of questions, closed at its end, also where it is cancelled."""
        gate = self._gates.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(self.settings.concurrency)
        )
        async with Wire(self.settings) as wire:
            yield Session(self.settings, self.budget, self._cache, gate, wire)


class Session:
    """Asks questions, at most `concurrency` at a time over all sessions of its client."""

    def __init__(
        self,
        settings: Settings,
        budget: Budget,
        cache: Cache | None,
        gate: asyncio.Semaphore,
        wire: Wire,
    ) -> None:
        self._settings = settings
        self._budget = budget
        self._cache = cache
        self._gate = gate
        self._wire = wire

    async def ask(
        self,
        question: Question,
        form: type[Form],
        usage: Usage,
        *,
        check: Callable[[Form], None] = lambda answer: None,
    ) -> Form:
        """The judge's answer in `form`. Raises `NoVerdict`.

        `check` raises `Unreadable` for an answer of the right form that cannot be meant, such as a
        line that does not exist. `usage` is added to.
        """

        def read(reply: Reply) -> Form:
            answer = read_form(reply, form)
            check(answer)
            return answer

        return await self._answer(body(question, self._settings, form), read, usage)

    async def expect(self, question: Question, values: Mapping[str, float], usage: Usage) -> float:
        """Expected value of an answer of one token, by the model's own probabilities.

        `values` maps each answer, one token long, to its value; see `read_expected`. Raises
        `NoVerdict`.
        """
        request = body(question, self._settings, None, words=False)
        return await self._answer(request, lambda reply: read_expected(reply, values), usage)

    async def _answer(
        self, request: Mapping[str, Any], read: Callable[[Reply], T], usage: Usage
    ) -> T:
        # unsorted: a server that decodes by the schema writes the fields in its order
        payload = json.dumps(request).encode("ascii")
        # another attempt at the same question is there to see whether the judge agrees with itself
        key = hashlib.sha256(b"%d %s" % (attempt(), payload)).hexdigest()
        if self._cache is not None and (kept := self._cache.get(key)) is not None:
            try:
                answer = read(_reply_from(kept))
            except Unreadable:
                pass  # damaged, or kept under other rules: ask again
            else:
                usage.cache_hits += 1
                return answer
        async with self._gate:
            reply, answer = await self._insist(payload, key, read, usage)
        if self._cache is not None:
            self._cache.put(key, json.dumps(asdict(reply)))
        return answer

    async def _insist(
        self, payload: bytes, key: str, read: Callable[[Reply], T], usage: Usage
    ) -> tuple[Reply, T]:
        """Call until an answer can be read, within the budget and the number of retries."""
        failed = unread = 0
        while True:
            self._budget.start_call(usage)
            asked_s = None
            try:
                reply = await self._wire.post(payload)
                # an endpoint that does not count is taken at four bytes a token
                read_tokens = reply.tokens_in or len(payload) // 4
                written = reply.tokens_out or len(reply.content) // 4
                self._budget.spend(read_tokens, written, usage)
                return reply, read(reply)
            except Transient as error:
                failed, asked_s, said = failed + 1, error.pause_s, str(error)
                if failed > self._settings.retries:
                    raise NoVerdict("infra_error", f"{said}, {failed} times") from None
            except Unreadable as error:
                unread, said = unread + 1, str(error)
                if unread > 1:
                    raise NoVerdict("unreadable", f"{said}, twice") from None
            usage.retries += 1
            await asyncio.sleep(self._pause_s(key, failed + unread, asked_s, said))

    def _pause_s(self, key: str, tries: int, asked_s: float | None, said: str) -> float:
        """Seconds to wait: twice as long each time, and never less than the endpoint asks for.

        The jitter comes from the seed and the question, so that the order of calls changes nothing.
        Raises `NoVerdict` where the endpoint asks for longer than `longest_pause_s`.
        """
        settings = self._settings
        if asked_s is not None and asked_s > settings.longest_pause_s:
            raise NoVerdict(
                "infra_error",
                f"{said}, and asks to wait {asked_s:g} s; longest_pause_s is "
                f"{settings.longest_pause_s:g}",
            )
        jitter = random.Random(f"{settings.seed}/{key}/{tries}").uniform(0.5, 1.5)
        grown_s = min(settings.backoff_s * 2.0 ** min(tries - 1, 60), settings.longest_pause_s)
        return max(asked_s or 0.0, grown_s * jitter)


def _reply_from(text: str) -> Reply:
    """A kept reply. Raises `Unreadable` for anything else."""
    try:
        record = json.loads(text)
        first = tuple((str(token), float(logprob)) for token, logprob in record["first_token"])
        return Reply(str(record["content"]), str(record["finish"]), first)
    except (ValueError, TypeError, LookupError, OverflowError):
        raise Unreadable("the cache holds something else") from None
