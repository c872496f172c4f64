"""The attack suite, for this machine: what candidates might try, and whether the walls hold.

Sources go through the compiler (`attacks_sources`) and pages through the browser (`attacks_pages`),
with a golden candidate before and after each that must come out byte for byte the same. Candidates
are never run by the compiler, so `attacks_inside` assumes the worst: that one broke into a worker.
Canaries are planted in our environment and beside the project; no output may hold them.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from botgrpo.sandbox.backends import chooser


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attack.

    Attributes:
        id: its number in the list: A1 to A16 aim at the compiler, B1 to B16 at the browser.
        name: what was tried.
        defence: what should stop it.
        held: True or False; None where this backend has no such defence or nothing could be tried.
        seen: what was seen where it did not hold, or why it could not be tried.
    """

    id: str
    name: str
    defence: str
    held: bool | None
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret that stands in our environment and in a file; `leaked` looks for it in an output."""

    secret: str
    file: Path

    def leaked(self, output: object) -> bool:
        """Whether the secret, or the machine's list of users, occurs in an output."""
        text = repr(output)
        return self.secret in text or "root:" in text


def run(backend: str = "auto", sides: str = "AB") -> Iterator[Outcome]:
    """Attack `backend`, sparing `unsafe` what would do harm here. Raises SandboxUnavailable.

    `sides` names those attacked: A, the compiler, and B, the browser.
    """
    from botgrpo.sandbox import attacks_inside, attacks_pages, attacks_sources

    name = _name(backend)
    with _planted() as canary:
        if "A" in sides:
            yield from attacks_sources.run(name, canary)
            yield from attacks_inside.run(name, canary)
        if "B" in sides:
            yield from attacks_pages.run(name, canary)


def main(backend: str = "auto") -> int:
    """Print a table; returns 0 if no attack succeeded, else 1."""
    words = {True: "held", False: "FAIL", None: "-"}
    counts = dict.fromkeys(words.values(), 0)
    for outcome in run(backend):
        word = words[outcome.held]
        counts[word] += 1
        print(f"{word:<5} {outcome.id:<4} {outcome.name:<52} {outcome.defence}", flush=True)
        if outcome.seen:
            print(f"           {outcome.seen}", flush=True)
    print(
        f"\n{backend}: {counts['held']} attacks held, {counts['FAIL']} succeeded, "
        f"{counts['-']} that this backend does not cover or that could not be tried here (marked -)"
    )
    return 1 if counts["FAIL"] else 0


def _name(backend: str) -> str:
    """What `auto` takes here."""
    walls = chooser(backend)()
    walls.close()
    return walls.name


@contextmanager
def _planted() -> Iterator[Canary]:
    secret = f"canary-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "canary.txt"
        file.write_text(secret)
        os.environ["BOTGRPO_CANARY"] = secret
        try:
            yield Canary(secret, file)
        finally:
            del os.environ["BOTGRPO_CANARY"]
