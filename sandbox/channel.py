"""The conversation with one worker: framed JSON, a nonce for the worker, an id for each request.

A frame is four bytes of length (big-endian) and as many bytes of ASCII JSON. A reply that is too
long, is no JSON object, or lacks the nonce or the id is a lost worker, not a result.
"""

from __future__ import annotations

import json
import secrets
import struct
import time
from collections.abc import Mapping
from typing import Any

from botgrpo.sandbox.base import Limits, Link, Loss


class Lost(Exception):
    """The worker hung (`timeout`), ran out of memory (`oom`) or ended (`crash`). Internal."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class Conversation:
    """One worker and its state: what it said about itself and how many candidates it has seen."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self._nonce = secrets.token_hex(16)
        self._buffer = bytearray()
        self.judged = 0
        self.peak_mib = 0.0
        self.last_used = time.monotonic()
        self.versions: dict[str, str] = {}

    def greet(self) -> None:
        """Hand over the nonce and learn the versions. Raises Lost."""
        versions = self._exchange({"nonce": self._nonce}, self._limits.start_s).get("versions")
        if not isinstance(versions, dict):
            self._link.close()
            raise Lost("crash", "a greeting without versions")
        self.versions = {str(key): str(value) for key, value in versions.items()}

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request, at most `wall_s` seconds after the call. Raises Lost."""
        self.judged += 1
        reply = self._exchange(request, self._limits.wall_s)
        peak_mib = reply.pop("peak_mib", None)
        if isinstance(peak_mib, int | float):
            self.peak_mib = peak_mib
        return reply

    def worn(self) -> bool:
        """Whether it has judged or grown enough to be replaced before it fails a candidate."""
        limits = self._limits
        return self.judged >= limits.candidates or self.peak_mib > 0.75 * limits.memory_mib

    def healthy(self) -> bool:
        """Alive, and answers if it has been idle long enough for something to have happened."""
        if not self._link.alive():
            return False
        if time.monotonic() - self.last_used < 10.0:
            return True
        try:
            return self._exchange({}, 2.0).get("status") == "pong"
        except Lost:
            return False

    def last_words(self) -> str:
        """The end of the worker's stderr."""
        return self._link.last_words()

    def close(self) -> Loss:
        """Kill the worker."""
        return self._link.close()

    def _exchange(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        request_id = secrets.token_hex(8)
        body = json.dumps({"id": request_id, **message}).encode("ascii")
        try:
            self._link.write(struct.pack(">I", len(body)) + body, deadline)
            reply = self._frame(deadline)
        except TimeoutError:
            self._link.close()
            raise Lost("timeout", f"no answer within {timeout_s:g} s") from None
        except EOFError:
            words = self._link.last_words()
            raise Lost(self._link.close(), words or "the worker ended") from None
        if reply.pop("nonce", None) != self._nonce or reply.pop("id", None) != request_id:
            self._link.close()
            raise Lost("crash", "a reply without this worker's nonce or this request's id")
        self.last_used = time.monotonic()
        return reply

    def _frame(self, deadline: float) -> dict[str, Any]:
        self._fill(4, deadline)
        (size,) = struct.unpack(">I", self._buffer[:4])
        if size > self._limits.reply_kib * 1024:
            raise EOFError
        self._fill(4 + size, deadline)
        body = bytes(self._buffer[4 : 4 + size])
        del self._buffer[: 4 + size]
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            raise EOFError from None
        if not isinstance(reply, dict):
            raise EOFError
        return reply

    def _fill(self, size: int, deadline: float) -> None:
        while len(self._buffer) < size:
            self._buffer += self._link.read(deadline)
