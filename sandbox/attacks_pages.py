"""Hostile pages: what a candidate can do once a browser runs it, looks at it and clicks on it."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from botgrpo.sandbox.attacks import Canary, Outcome
from botgrpo.sandbox.browser import PageResult, ReactBrowser
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.inspection import Action, Inspection, Wish

_HEAD = "import { useState, useEffect, useRef } from 'react';"
_PAGES_FILE = Path(__file__).with_name("hostile_pages.toml")
_MOST_ROLES, _LONGEST_NAME, _LONGEST_TEXT = 600, 100, 20_000  # 300 roles at rest and after a click


@dataclass(frozen=True, slots=True)
class _Page:
    """One entry of `hostile_pages.toml`."""

    id: str
    name: str
    defence: str
    want: tuple[str, ...] = ("ok",)
    body: str = "return <p>shown</p>;"
    top: str = ""
    note: str = ""
    shows: str = "shown"
    look: bool = False  # and of such a page:
    click: str = ""  # a button that is pressed
    bad: Mapping[str, int] = field(default_factory=dict)  # faults that must be counted
    reads: str = ""  # all the text that may be read
    lacks: str = ""  # what must not be
    complete: bool = True  # False for one that is too large

    def source(self) -> str:
        return f"{_HEAD}\n{self.top}\nexport default function App() {{ {self.body} }}\n"

    def wish(self) -> Wish | None:
        steps = ((Action("click", "button", self.click),),) if self.click else ()
        return Wish(True, steps) if self.look else None


# Whatever an earlier page kept would be read here.
_KEPT = "{typeof localStorage.left} {document.cookie} {window.name}"
_GOLDEN = _Page("", "", "", body=f"return <p>{{Math.random()}} {{Date.now()}} {_KEPT}</p>;")
_EGRESS = """
const dare = (what) => { try { what(); } catch {} };
for (const u of %s) for (const s of ["", "s"]) {
  dare(() => fetch(`http${s}://${u}`).catch(() => {}));
  dare(() => { new Image().src = `http${s}://${u}`; });
  dare(() => new WebSocket(`ws${s}://${u}`));
  dare(() => navigator.sendBeacon(`http${s}://${u}`));
  dare(() => new EventSource(`http${s}://${u}`));
  dare(() => {
    const urls = `stun${s}:${u.slice(0, -1)}`;
    const pc = new RTCPeerConnection({ iceServers: [{ urls }] });
    pc.createDataChannel("x");
    pc.createOffer().then((o) => pc.setLocalDescription(o));
  });
}
"""


def pages() -> tuple[_Page, ...]:
    """The list, in its order."""
    entries = tomllib.loads(_PAGES_FILE.read_text("utf-8"))["page"]
    return tuple(_Page(**entry) for entry in entries)


def run(backend: str, canary: Canary) -> Iterator[Outcome]:
    """Every page in one browser; all are named though none could be tried where there is none."""
    if backend == "unsafe":
        yield Outcome("B", "hostile pages", "none", None, "nothing isolates here")
        return
    browser = ReactBrowser(backend)
    try:
        yield from _pages(browser, canary)
    except SandboxUnavailable as error:
        why = " ".join(str(error).split())
        for page in pages():
            yield Outcome(page.id, page.name, page.defence, None, why)
    finally:
        browser.close()


def _pages(browser: ReactBrowser, canary: Canary) -> Iterator[Outcome]:
    want = _golden(browser, 0)
    for number, page in enumerate(pages(), 1):
        seen = _fault(page, _render(browser, page.source(), page.wish()), canary)
        if _golden(browser, number) != want:
            seen += " the next page was judged otherwise"
        yield Outcome(page.id, page.name, page.defence, not seen, seen)
    yield _egress(browser)


def _fault(page: _Page, result: PageResult, canary: Canary) -> str:
    if result.status not in page.want:
        return f"{result.status}: {result.reason}"
    if page.note and page.note not in result.notes:
        return f"no note {page.note!r} among {result.notes}"
    if canary.leaked((result.text, result.console, result.errors, result.notes)):
        return "the page holds a secret"
    if result.status == "ok" and page.shows not in result.text:
        return f"the page shows {result.text[:100]!r}"
    return _misread(page, result.inspection) if page.look and result.status == "ok" else ""


def _misread(page: _Page, seen: Inspection | None) -> str:
    """What of a page that was looked at is not as it is."""
    if seen is None or seen.complete != page.complete:
        return "it was not looked at" if page.complete else "it was looked at, large as it is"
    counted = {name: seen.checks[name].bad for name in page.bad}
    if counted != page.bad:
        return f"counted {counted}, and there are {dict(page.bad)}"
    if (page.reads and seen.now.text != page.reads) or (page.lacks and page.lacks in seen.now.text):
        return f"it reads {seen.now.text[:100]!r}"
    lines = page.source().split("\n")
    for check in seen.checks.values():
        for line, column in filter(None, (blemish.place for blemish in check.blemishes)):
            if not (0 < line <= len(lines) and 0 < column <= len(lines[line - 1])):
                return f"it blames {line}:{column}, which is nowhere"
    told = (*seen.now.roles, *(role for state in seen.states for role in state.roles))
    if len(told) > _MOST_ROLES or any(len(name) > _LONGEST_NAME for _, name in told):
        return "its names have no end"
    return "" if len(seen.now.text) <= _LONGEST_TEXT else "its text has no end"


def _egress(browser: ReactBrowser) -> Outcome:
    """A listener of ours, which a page tries to reach in every way that it has."""
    with socket.create_server(("0.0.0.0", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        port = tcp.getsockname()[1]
        udp.bind(("0.0.0.0", port))
        hosts = ["127.0.0.1", socket.gethostname(), "169.254.169.254", "172.17.0.1"]
        page = _Page("B5", "", "", top=_EGRESS % json.dumps([f"{host}:{port}/" for host in hosts]))
        result = _render(browser, page.source())
        seen = "" if result.status == "ok" else f"{result.status}: {result.reason}"
        if select.select([tcp, udp], [], [], 0.2)[0]:
            seen = "something came"
    name, defence = "reaching a listener on this machine", "no network; every request refused"
    return Outcome("B5", name, defence, not seen, seen)


def _render(browser: ReactBrowser, source: str, wish: Wish | None = None) -> PageResult:
    compiled, page = asyncio.run(browser.render(source, wish))
    return page or PageResult(compiled.status, compiled.reason)


def _golden(browser: ReactBrowser, number: int) -> tuple[object, ...]:
    result = _render(browser, _GOLDEN.source() + f"// {number}")  # the number passes our own cache
    return result.status, result.text, result.png
