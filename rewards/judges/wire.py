"""One call to an OpenAI-compatible endpoint, and what may be wrong with what it answers."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import math
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, NoReturn, Self

import httpx2

from botgrpo.rewards.judges.budget import NoVerdict
from botgrpo.rewards.judges.fence import remark
from botgrpo.rewards.judges.question import Reply
from botgrpo.rewards.judges.settings import Settings

_LONGEST_ANSWER = 4 * 2**20  # bytes; an endpoint that never stops is cut here
_EACH_CLIENT = 32  # connections, about
_MOST_TOKENS = 10**9  # no count of one call's tokens is larger


class Transient(Exception):
    """Worth another try. `pause_s`: how long the endpoint asks to wait."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class Wire:
    """An endpoint's connections; open as a context manager, within one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open = AsyncExitStack()
        self._turns: Iterator[httpx2.AsyncClient] = iter(())

    async def __aenter__(self) -> Self:
        # A client looks through all of its connections at every call, so there are several. How
        # many calls there are at once is the caller's to bound.
        clients = [
            httpx2.AsyncClient(
                verify=_ssl_context(),
                timeout=self._settings.timeout_s,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            )
            for _ in range(math.ceil(self._settings.concurrency / _EACH_CLIENT))
        ]
        for client in clients:
            await self._open.enter_async_context(client)
        self._turns = itertools.cycle(clients)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    async def post(self, request: bytes) -> Reply:
        """The model's reply. Raises `Transient`, or `NoVerdict` for what stays refused."""
        settings = self._settings
        try:
            # httpx times each read; this bounds them all, so that a trickle ends too
            async with asyncio.timeout(settings.timeout_s):
                response, content = await self._exchange(request)
        except (TimeoutError, httpx2.TimeoutException):
            raise Transient(f"no answer within {settings.timeout_s:g} s") from None
        except httpx2.ConnectError:
            raise Transient(f"no connection to {settings.url}") from None
        except httpx2.HTTPError as error:
            raise Transient(f"the connection broke: {type(error).__name__}") from None
        if response.status_code != 200:
            self._refused(response, content)
        return _reply(content, settings)

    async def _exchange(self, request: bytes) -> tuple[httpx2.Response, bytes]:
        headers = {"Content-Type": "application/json"}
        if (key := self._settings.key()) is not None:
            headers["Authorization"] = f"Bearer {key}"
        url = f"{self._settings.url}/chat/completions"
        content = bytearray()
        async with next(self._turns).stream(
            "POST", url, content=request, headers=headers
        ) as response:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _LONGEST_ANSWER:
                    raise Transient(f"the answer exceeds {_LONGEST_ANSWER} bytes")
        return response, bytes(content)

    def _refused(self, response: httpx2.Response, content: bytes) -> NoReturn:
        status, settings = response.status_code, self._settings
        if status in (408, 409, 425, 429) or status >= 500:
            raise Transient(f"HTTP {status}", _retry_after(response.headers.get("retry-after")))
        said = remark(settings.without_key(content.decode("utf-8", "replace")))
        hint = {
            401: f"; set the key in {settings.key_env}",
            403: f"; set the key in {settings.key_env}",
            404: "; the url ends before /chat/completions, and the model must be one it serves",
        }.get(status, "")
        raise NoVerdict("infra_error", f"the judge answered HTTP {status}{hint}: {said}")


@functools.cache  # takes longer than a local call
def _ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from seconds or a date; None where the header says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _reply(content: bytes, settings: Settings) -> Reply:
    """The model's reply in an endpoint's envelope."""
    try:
        record = json.loads(content)
        choice = record["choices"][0]
        text, usage = choice["message"].get("content"), record.get("usage") or {}
        reply = Reply(
            settings.without_key(text) if isinstance(text, str) else "",
            str(choice.get("finish_reason")),
            _first_token(choice.get("logprobs")),
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
        )
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        raise Transient("the answer is no chat completion") from None
    return reply


def _first_token(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """(token, log-probability) of the likeliest first tokens; raises for another form."""
    if not logprobs or not logprobs.get("content"):
        return ()
    likeliest = logprobs["content"][0]["top_logprobs"]
    found = tuple((str(entry["token"]), float(entry["logprob"])) for entry in likeliest)
    if not all(logprob <= 1e-6 for _, logprob in found):  # false for NaN as well
        raise ValueError("no log-probability")
    return found


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
