"""A process of its own that asks math-verify; run as a file, never imported.

It reads and writes the frames of `botgrpo.sandbox.channel` on its standard streams. Limits are set
before anything is read; its parent kills it when an answer takes too long. Only the LaTeX reader
is used, which evaluates no text (the other one ends in sympy's `parse_expr`).
"""

from __future__ import annotations

import json
import logging
import os
import resource
import struct
import sys
from typing import Any, BinaryIO

MEMORY_MIB = 2048
CPU_S = 600  # of its whole life, in case nobody is left to kill it


def main() -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_MIB << 20),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    logging.disable()  # nobody drains what a library logs
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import math_verify

    nonce = None
    while (request := _read(sys.stdin.buffer)) is not None:
        reply: dict[str, Any] = {"status": "pong"}
        if nonce is None:
            nonce = request["nonce"]
            reply = {"versions": {"math-verify": _version()}}
        elif "answer" in request:
            reply = {"status": _judge(math_verify, request["answer"], request["accepted"])}
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        body = {"nonce": nonce, "id": request["id"], "peak_mib": peak_mib, **reply}
        _write(frames, body)


def _judge(math_verify: Any, answer: str, accepted: list[str]) -> str:
    """correct, wrong, unreadable (the answer) or unknown (an accepted one, or a failure)."""
    config = [math_verify.LatexExtractionConfig(boxed_match_priority=0)]

    def read(text: str) -> list[Any]:
        found: list[Any] = math_verify.parse(
            f"\\boxed{{{text}}}",
            extraction_config=config,
            fallback_mode="no_fallback",
            parsing_timeout=None,
        )
        return found

    answer_read = read(answer)
    golds = [read(gold) for gold in accepted]
    if not answer_read:
        return "unreadable"
    try:
        if any(math_verify.verify(g, answer_read, timeout_seconds=None) for g in golds if g):
            return "correct"
    except Exception:
        return "unknown"
    return "wrong" if all(golds) else "unknown"


def _version() -> str:
    from importlib import metadata

    return metadata.version("math-verify")


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    request: dict[str, Any] = json.loads(stream.read(*struct.unpack(">I", head)))
    return request


def _write(stream: BinaryIO, reply: dict[str, Any]) -> None:
    body = json.dumps(reply).encode("ascii")
    stream.write(struct.pack(">I", len(body)) + body)
    stream.flush()


if __name__ == "__main__":
    main()
