"""Does a candidate that compiles also run? Mounted in Chromium, photographed, and told apart.

Status, the first that applies: `too_large` (elements), `not_a_component`, `runtime_error` (an error
that nobody caught, a page that left, a renderer that died), `hang`, `blank` (no text, image or
control that differs from its background), then `ok`; `infra_error` means that nobody could tell. A
page that hangs or dies counts only if a second try in a fresh browser repeats it.

The page has no network, and a context and a clock of its own. The clock is paused and moved in
steps, and the page is looked at when three seconds have passed on it; `Math.random` is seeded, and
animations are brought to their end. So a page that depends on nothing else gives the same picture
each time; two pictures that differ are noted. Blank is a page that looks the same without its text,
images and controls.

Chromium's own sandbox is off: the walls around the whole worker (see `base.py`) stand in for it. A
page that breaks out of its renderer reaches the worker's process and nothing beyond; the worker is
replaced after every few hundred pages.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from botgrpo.sandbox import chromium, inspection
from botgrpo.sandbox.answers import Answers
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.base import Limits, Program
from botgrpo.sandbox.inspection import Inspection, Wish
from botgrpo.sandbox.pool import Attempted, Pool
from botgrpo.sandbox.pooled import Pooled, once_a_process
from botgrpo.sandbox.react import Bundle, CompileResult, ReactCompiler, shared_compiler
from botgrpo.sandbox.replies import plain, whole

BROWSER = Program(
    "browser",
    "browser.mjs",
    chromium.files,
    (str(chromium.PLAYWRIGHT), str(chromium.CHROMIUM)),
    proc=True,
)
BROWSER_LIMITS = Limits(
    wall_s=20.0,
    memory_mib=1024,
    cpus=2,
    pids=256,
    disk_mib=64,
    open_files=1024,
    reply_kib=8192,
    candidates=200,
)
VIEWPORT = 1280, 800
_PNG_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_CACHED_PAGES = 512
_JUDGED = frozenset(
    ("ok", "blank", "hang", "runtime_error", "not_a_component", "too_large", "timeout", "oom")
)
_TRY_AGAIN = frozenset(("hang", "crash"))


@dataclass(frozen=True, slots=True)
class PageResult:
    """What a mounted page came to.

    Attributes:
        status: see above.
        reason: the first error, or what is wrong, in words.
        png: the 1280 x 800 picture; None where there is none.
        text: of the document, as `innerText` has it, at most 20,000 characters.
        nodes: elements of the document.
        height_px: of the whole document; the picture shows the first 800.
        errors: messages of uncaught errors, in their order.
        console: what the page logged, each line with its kind.
        notes: what was refused or noticed: "dialog dismissed", "popup closed", "navigation
            blocked", "request blocked", "rejected: ...", "download refused", "an error in a
            frame", "nondeterministic".
        seconds: from the call, waiting included.
        inspection: what it looks like, where that was asked for and the page did not fail.
    """

    status: str
    reason: str = ""
    png: bytes | None = None
    text: str = ""
    nodes: int = 0
    height_px: int = 0
    errors: tuple[str, ...] = ()
    console: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    inspection: Inspection | None = None


class ReactBrowser(Pooled):
    """Compiles untrusted React sources and mounts what compiles, in isolated warm workers.

    Nothing starts before the first call. Serves any number of event loops and tasks. `compiler`
    replaces the process's shared one. Raises ConfigError for a backend that does not exist.
    """

    def __init__(
        self,
        backend: str = "auto",
        workers: int = 1,
        limits: Limits = BROWSER_LIMITS,
        compiler: ReactCompiler | None = None,
    ) -> None:
        self._compiler = compiler or shared_compiler(backend)
        super().__init__(Pool(chooser(backend, limits, BROWSER), workers, limits))
        self._answers = Answers(_page, lambda page: page.status in _JUDGED, _CACHED_PAGES)
        self._wished: dict[str, list[Wish]] = {}  # of those who will ask about a source
        self._lock = threading.Lock()
        self.pages = 0  # that a worker was asked for so far

    async def render(
        self, source: str, wish: Wish | None = None
    ) -> tuple[CompileResult, PageResult | None]:
        """What the compiler says of a source and, where it says `ok`, what the page came to.

        With a wish the page is also looked at, and acted on (see `inspection.py`).

        Raises SandboxUnavailable when nothing can be isolated here or there is no Chromium.
        """
        if wish is None and (wished := self._wished.get(source)):
            compiled, page = await self.render(source, wished[0])
            if page is None or _untouched(page):
                return compiled, page and replace(page, inspection=None)
        places = wish is not None
        compiled = await self._compiler.compile(source, bundle=True, places=places)
        if compiled.bundle is None:
            return compiled, None
        return compiled, await self.mount(compiled.bundle, wish)

    @contextmanager
    def expecting(self, wishes: Iterable[tuple[str, Wish]]) -> Iterator[None]:
        """Meanwhile one page of each of these sources serves those without a wish as well.

        So rewards that are scored at once share it, though only one of them wishes anything of it.
        Enter before anything is awaited, or others will have asked already.
        """
        kept = list(wishes)
        with self._lock:
            for source, wish in kept:
                self._wished[source] = [*self._wished.get(source, ()), wish]
        try:
            yield
        finally:
            with self._lock:
                for source, wish in kept:
                    left = list(self._wished.pop(source))
                    left.remove(wish)
                    if left:
                        self._wished[source] = left

    def _submit(self, request: Mapping[str, Any]) -> Future[Attempted]:
        self.pages += 1
        return self._pool.submit(request)

    async def mount(self, bundle: Bundle, wish: Wish | None = None) -> PageResult:
        """What the page of one bundle came to. Raises SandboxUnavailable as `render` does."""
        started = time.perf_counter()
        request = {
            "code": bundle.code,
            "packages": list(bundle.packages),
            "classes": list(bundle.classes),
            **({} if wish is None else {"inspect": wish.request()}),
        }
        key = hashlib.sha256(json.dumps(request).encode()).digest()
        page = await self._answers.get(key + b"1", lambda: self._submit(request))
        if page.status in _TRY_AGAIN:
            page = _agreed(page, await self._answers.get(key + b"2", lambda: self._submit(request)))
        return replace(page, seconds=time.perf_counter() - started)


def _untouched(page: PageResult) -> bool:
    """Whether it would be this without a wish too: it failed, if at all, before it was looked at.

    A click may hang, kill or leave a page that is fine as long as nobody touches it.
    """
    return page.png is not None and (page.status in ("ok", "blank") or page.inspection is None)


def _agreed(first: PageResult, second: PageResult) -> PageResult:
    """A page that died twice has failed; one that did something else the second time has not."""
    if second.status == "crash" == first.status:
        return replace(second, status="runtime_error")
    if second.status in _TRY_AGAIN and second.status != first.status:
        return PageResult("infra_error", f"first {first.status}, then {second.status}")
    return second


def _page(attempted: Attempted) -> PageResult:
    reply = attempted.reply
    if reply is None:
        return PageResult(attempted.loss, attempted.detail)
    try:
        if reply["status"] not in (*_JUDGED, *_TRY_AGAIN, "infra_error"):
            raise ValueError("no such status")
        return PageResult(
            reply["status"],
            plain(reply["reason"]) or ("" if reply["status"] in _JUDGED else "no reason was given"),
            None if reply["png"] is None else _picture(reply["png"]),
            plain(reply["text"]),
            whole(reply["nodes"]),
            whole(reply["height"]),
            errors=tuple(map(plain, reply["errors"])),
            console=tuple(map(plain, reply["console"])),
            notes=tuple(map(plain, reply["notes"])),
            inspection=inspection.read(looked) if (looked := reply.get("inspection")) else None,
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        return PageResult("infra_error", "the worker's reply has another form")


def _picture(text: str) -> bytes:
    """A PNG of our size: of anything else those who show it would choke. Raises ValueError."""
    png = base64.b64decode(text, validate=True)
    if png[:16] != _PNG_HEAD or png[16:24] != struct.pack(">II", *VIEWPORT):
        raise ValueError("no picture of the page")
    return png


@once_a_process
def shared_browser(backend: str = "auto", workers: int = 1) -> ReactBrowser:
    """The process's one browser for this backend and number of workers; lives as long as it."""
    return ReactBrowser(backend, workers)
