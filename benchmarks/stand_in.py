"""A stand-in for a model behind a real HTTP server: the wire is real, the opinions are canned.

For measurements and tests of the judge client where no model is at hand.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

Answer = Callable[[Mapping[str, Any]], str]


class StandIn:
    """Serves `/v1/chat/completions` in a thread of its own; a context manager.

    `answer` maps a request to the text that the "model" says; `latency_s` is how long it takes.
    """

    def __init__(self, answer: Answer, latency_s: float = 0.0) -> None:
        self.answer = answer
        self.latency_s = latency_s
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _stop(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._request(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client went away
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._connections.discard(task)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:])
        }
        content = await reader.readexactly(int(headers["content-length"]))
        return await self.respond(json.loads(content), headers, writer)

    async def respond(
        self, request: Mapping[str, Any], headers: Mapping[str, str], writer: asyncio.StreamWriter
    ) -> bool:
        """Write an answer; whether the connection stays open."""
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        await send(writer, 200, completion(self.answer(request)))
        return True


def completion(content: str, **changed: Any) -> bytes:
    """An OpenAI-compatible reply; `changed` replaces fields of its choice."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": "stop",
        "logprobs": None,
        **changed,
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


async def send(
    writer: asyncio.StreamWriter,
    status: int,
    content: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    """A whole HTTP response."""
    fields = {"Content-Type": "application/json", "Content-Length": str(len(content))}
    fields |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"HTTP/1.1 {status} .\r\n{head}\r\n".encode() + content)
    await writer.drain()
