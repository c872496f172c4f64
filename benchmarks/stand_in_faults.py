"""A stand-in for a judge that fails in ten ways over real HTTP.

Every fault that carries an answer carries a wrong one, so that a client that takes it is found out.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from botgrpo.benchmarks.stand_in import Answer, StandIn, completion, send

WRONG = json.dumps({"react": True, "remark": "WRONG", "lines": [], "score": 10})
Plan = Callable[[int], str | None]
Fault = Callable[["JudgeServer", asyncio.StreamWriter], Awaitable[bool]]


class JudgeServer(StandIn):
    """`plan` maps the number of a call, from 0, to the name of a fault or None."""

    def __init__(self, answer: Answer, plan: Plan = lambda call: None, slow_s: float = 5.0) -> None:
        super().__init__(answer)
        self.plan = plan
        self.slow_s = slow_s
        self.requests: list[Mapping[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.faults: list[str] = []

    async def respond(
        self, request: Mapping[str, Any], headers: Mapping[str, str], writer: asyncio.StreamWriter
    ) -> bool:
        fault = self.plan(len(self.requests))
        self.requests.append(request)
        self.headers.append(headers)
        if fault is None:
            return await super().respond(request, headers, writer)
        self.faults.append(fault)
        return await FAULTS[fault](self, writer)

    @property
    def open_connections(self) -> int:
        return len(self._connections)


async def _too_many(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
    await send(writer, 429, completion(WRONG), {"Retry-After": "0"})
    return True


async def _error(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
    await send(writer, 500, completion(WRONG))
    return True


async def _slow(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
    """A byte now and then: no single read takes long."""
    content = completion(WRONG)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content))
    for byte in content:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(server.slow_s / len(content))
    return True


async def _cut(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
    content = completion(WRONG)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content))
    writer.write(content[: len(content) // 2])
    await writer.drain()
    return False


async def _refused(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
    """Reset before a byte came back; a port that nobody listens on has a test of its own."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def _saying(content: str, **changed: Any) -> Fault:
    async def fault(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
        await send(writer, 200, completion(content, **changed))
        return True

    return fault


def _sending(content: bytes) -> Fault:
    async def fault(server: JudgeServer, writer: asyncio.StreamWriter) -> bool:
        await send(writer, 200, content)
        return True

    return fault


FAULTS: Mapping[str, Fault] = {
    "429": _too_many,
    "500": _error,
    "slow": _slow,
    "cut": _cut,
    "malformed": _saying(f"My verdict: {WRONG}, or so I think"),
    "empty": _sending(b""),
    "schema": _saying(WRONG.replace("10", "11")),
    "length": _saying(WRONG, finish_reason="length"),
    "whitespace": _saying(" \n" * 4000, finish_reason="length"),
    "refused": _refused,
}
TEN = tuple(FAULTS)
