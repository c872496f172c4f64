"""Pages of candidates in a real Chromium behind the walls."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import threading
import time
import zlib
from pathlib import Path

import pytest

from botgrpo.rewards import Rollout
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.extract import extract
from botgrpo.rewards.validate import validate
from botgrpo.sandbox import browser as browser_module
from botgrpo.sandbox import chromium, install
from botgrpo.sandbox.browser import PageResult, ReactBrowser
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.pool import Attempted

CASES = Path(os.environ.get("BOTGRPO_CASES") or Path(__file__).parents[2] / "shared" / "cases")
HEAD = "import { useState, useEffect, useLayoutEffect } from 'react';\n"
# the head of a picture of one pixel
TINY = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA="


def page(browser: ReactBrowser, body: str, top: str = "") -> PageResult:
    source = f"{HEAD}{top}\nexport default function App() {{ {body} }}\n"
    compiled, result = asyncio.run(browser.render(source))
    assert result is not None, compiled
    return result


def cases() -> list[object]:
    path = CASES / "react_verdicts.jsonl"
    if not path.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no shared cases at {path}"))]
    read = map(json.loads, path.read_text("utf-8").splitlines())
    return [pytest.param(case, id=case["id"]) for case in read if extract(case["completion"])]


@pytest.mark.browser
@pytest.mark.parametrize("case", cases())
def test_shared_cases_get_their_mounted_verdict(browser: ReactBrowser, case: dict) -> None:
    reward = ReactCompile(browser=browser)
    rollout = Rollout(case["id"], "g", "p", case["completion"])
    (judged,) = asyncio.run(reward.score([rollout]))
    assert judged.verdict in case.get("mounted", case["compile"])
    assert judged.outcome == float(judged.verdict == "ok")


@pytest.mark.browser
def test_a_page_says_what_it_shows_and_logs(browser: ReactBrowser) -> None:
    result = page(
        browser, "console.warn('careful'); return <main><h1>Hello</h1><p>漢🤨</p></main>;"
    )
    assert result.status == "ok" and result.text.split() == ["Hello", "漢🤨"]
    assert "warning: careful" in result.console and result.errors == () and result.notes == ()
    assert result.png is not None
    assert struct.unpack(">II", result.png[16:24]) == (1280, 800)
    assert result.nodes > 5 and result.height_px == 800


@pytest.mark.browser
@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("return <Foo />;", "runtime_error", "Foo is not defined"),
        ("return <p>{{}}</p>;", "runtime_error", "Objects are not valid as a React child"),
        ("const [n, s] = useState(0); s(n + 1); return n;", "runtime_error", "re-renders"),
        (
            "const [n, s] = useState(0); useLayoutEffect(() => s(n + 1)); return n;",
            "runtime_error",
            "Maximum update depth exceeded",
        ),
        (
            "useEffect(() => { throw new Error('late') }, []); return <p>x</p>;",
            "runtime_error",
            "late",
        ),
        (
            "useEffect(() => { setTimeout(() => { null.x }, 50) }, []); return <p>x</p>;",
            "runtime_error",
            "Cannot read properties of null",
        ),
        (
            "useEffect(() => { requestAnimationFrame(() => missing()) }, []); return <p>x</p>;",
            "runtime_error",
            "missing is not defined",
        ),
        (
            "useEffect(() => { setTimeout(() => { location = 'about:blank' }, 300) }, []);"
            " return <p>x</p>;",
            "runtime_error",
            "navigated away",
        ),
        (
            "useEffect(() => { setTimeout(() => document.documentElement.remove(), 300) }, []);"
            " return <p>x</p>;",
            "blank",
            "",
        ),
        ("return <div />;", "blank", ""),
        ("return <hr />;", "blank", ""),
        (
            "return <div style={{ background: 'linear-gradient(red, blue)', height: 300 }}>"
            "<p style={{ opacity: 0 }}>x</p></div>;",
            "blank",
            "",
        ),
        (
            "return <div style={{ border: '9px solid' }}><p style={{ color: '#fff' }}>x</p></div>;",
            "blank",
            "",
        ),
        ("return <canvas style={{ border: '1px solid' }} />;", "blank", ""),
        ("return <audio controls />;", "ok", ""),
        ("return <><style>{'p::before { content: \"shown\" }'}</style><p /></>;", "ok", ""),
        (
            "history.back(); return <p>{process.env.NODE_ENV} {String(isSecureContext)}</p>;",
            "ok",
            "",
        ),
        ("return <p style={{ opacity: 0 }}>x</p>;", "blank", ""),
        ("return <p style={{ visibility: 'hidden' }}>x</p>;", "blank", ""),
        ("return <p style={{ position: 'absolute', left: -999 }}>x</p>;", "blank", ""),
        ("return <button />;", "ok", ""),
        ("return <svg><circle r='9' cx='9' cy='9' /></svg>;", "ok", ""),
        ("return <div style={{ paddingTop: 2000 }}>far below</div>;", "ok", ""),
        ("return <p style={{ color: '#eee' }}>pale, and legible</p>;", "ok", ""),
        ("const end = Date.now() + 1000; while (Date.now() < end); return <p>x</p>;", "ok", ""),
        ("useEffect(() => { setInterval(() => {}, 0) }, []); return <p>x</p>;", "ok", ""),
        ("useEffect(() => { fetch('/api') }, []); return <p>x</p>;", "ok", ""),
    ],
)
def test_a_page_is_what_it_comes_to(
    browser: ReactBrowser, body: str, status: str, reason: str
) -> None:
    result = page(browser, body)
    assert result.status == status
    assert reason in result.reason


@pytest.mark.browser
def test_each_step_of_a_chain_of_timers_is_waited_for(browser: ReactBrowser) -> None:
    body = (
        "const [n, s] = useState(0);"
        " useEffect(() => { if (n < 5) setTimeout(() => s(n + 1), 100) }, [n]);"
        " return <p>{n}</p>;"
    )
    assert page(browser, body).text == "5"


@pytest.mark.browser
def test_what_a_page_does_after_a_while_is_waited_for(browser: ReactBrowser) -> None:
    body = (
        "const [s, set] = useState('loading');"
        " useEffect(() => { setTimeout(() => set('ready'), 2000) }, []);"
    )
    assert page(browser, body + " return <p>{s}</p>;").text == "ready"


@pytest.mark.browser
def test_clock_chance_and_animation_give_the_same_picture_in_another_browser(
    browser: ReactBrowser,
) -> None:
    top = (
        "const style = '@keyframes a { to { margin-left: 300px } } p { animation: a 2s infinite }';"
    )
    body = (
        "const [t, s] = useState(0);"
        " useEffect(() => { const i = setInterval(() => s(Date.now()), 50);"
        " return () => clearInterval(i); }, []);"
        " return <><style>{style}</style><p>{t} {Math.random()} {new Date().toISOString()}</p></>;"
    )
    first = page(browser, body, top)
    other = ReactBrowser("bubblewrap")
    try:
        second = page(other, body, top)
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    finally:
        other.close()
    assert first.status == "ok" and first.notes == ()
    assert (first.png, first.text) == (second.png, second.text)


@pytest.mark.browser
def test_tailwind_classes_are_styled_without_a_network(browser: ReactBrowser) -> None:
    plain = page(browser, "return <p className='x'>styled</p>;")
    styled = page(browser, "return <p className='text-5xl font-bold text-red-600 p-8'>styled</p>;")
    assert plain.status == styled.status == "ok"
    assert plain.png != styled.png and styled.notes == ()


@pytest.mark.browser
@pytest.mark.parametrize(
    "classes",
    [
        "{`p-8 text-5xl${n ? ' mt-2' : ''}`}",
        "{['p-8', 'text-5xl'].join(' ')}",
        "{n ? 'p-8' : \"p-8 text-5xl\"}",
    ],
)
def test_classes_are_found_however_they_are_put_together(
    browser: ReactBrowser, classes: str
) -> None:
    data = "const rows = [" + "'some words of data', " * 900 + "];"
    body = f"const n = 0; return <p className={classes}>styled</p>;"
    want = page(browser, "return <p className='p-8 text-5xl'>styled</p>;")
    assert page(browser, body, data).png == want.png


@pytest.mark.browser
@pytest.mark.parametrize(
    "source",
    [
        "import { Trophy, Flag } from 'lucide-react';\n"
        "export default () => <><Trophy /><Flag /></>;",
        "import * as Icons from 'lucide-react';\nexport default () => <Icons.Trophy />;",
        "import { motion } from 'framer-motion';\n"
        "export default () => <motion.p animate={{ x: 9 }}>x</motion.p>;",
        "import clsx from 'clsx';\nexport default () => <p>{clsx('a', { b: true })}</p>;",
        "import { LineChart, Line, XAxis } from 'recharts';\nconst data = [{ n: 1 }, { n: 3 }];\n"
        "export default () => <LineChart width={300} height={200} data={data}>"
        "<XAxis /><Line dataKey='n' /></LineChart>;",
        "import React, { lazy, Suspense } from 'react';\n"
        "const Late = lazy(async () => ({ default: () => <p>late</p> }));\n"
        "export default () => <Suspense fallback='...'><Late /></Suspense>;",
        "import { createPortal } from 'react-dom';\n"
        "export default () => createPortal(<p>elsewhere</p>, document.body);",
        "import React from 'react';\nexport default class extends React.Component {\n"
        "  render() { return <p>a class</p>; }\n}",
    ],
)
def test_what_generated_apps_use_mounts(browser: ReactBrowser, source: str) -> None:
    compiled, result = asyncio.run(browser.render(source))
    assert compiled.status == "ok", compiled.reason
    assert result is not None and (result.status, result.errors) == ("ok", ())


@pytest.mark.browser
@pytest.mark.kill
def test_a_browser_killed_in_mid_run_is_replaced_and_every_page_judged() -> None:
    made = ReactBrowser("bubblewrap")
    try:
        asyncio.run(made.ready())
    except SandboxUnavailable as error:
        made.close()
        pytest.skip(f"bubblewrap: {error}")

    async def main() -> list[str]:
        threading.Timer(0.6, made._pool.kill_workers).start()
        sources = [f"export default () => <p>page {i}</p>;" for i in range(8)]
        rendered = await asyncio.gather(*map(made.render, sources))
        return [result.status for _, result in rendered if result is not None]

    try:
        assert asyncio.run(main()) == ["ok"] * 8
        assert made._pool.started == 2
    finally:
        made.close()


@pytest.mark.browser
def test_nothing_of_a_browser_is_left_when_it_is_closed() -> None:
    before = _chromiums()
    made = ReactBrowser("bubblewrap")
    try:
        assert page(made, "return <p>x</p>;").status == "ok"
        assert _chromiums() > before
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    finally:
        made.close()
    for _ in range(100):
        if _chromiums() <= before:
            break
        time.sleep(0.05)
    assert _chromiums() <= before


def _chromiums() -> int:
    count = 0
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += command.read_bytes().startswith(b"/opt/chromium/browser")
        except OSError:
            continue
    return count


@pytest.mark.browser
def test_mounting_accepts_its_gold_and_refuses_what_fails_only_when_it_runs(
    browser: ReactBrowser,
) -> None:
    checks = asyncio.run(validate(ReactCompile(browser=browser)))
    assert [check for check in checks if not check.ok] == []
    assert any("13 examples" in str(check) for check in checks)


def test_where_no_browser_is_nothing_is_scored_not_even_what_does_not_compile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(tmp_path / "none"))
    chromium.files.cache_clear()
    reward = ReactCompile(browser=ReactBrowser("unsafe"))
    assert reward.spec.needs == ("sandbox", "browser")
    broken, fine = (
        Rollout(str(i), "g", "p", f"```tsx\n{code}\n```")
        for i, code in enumerate(["export default (", "export default () => <p>x</p>;"])
    )
    scores = asyncio.run(reward.score([broken, fine]))
    monkeypatch.undo()
    chromium.files.cache_clear()
    assert [score.outcome for score in scores] == [None, None]
    assert all("no Chromium" in score.reason for score in scores)


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        ("hang", "hang", "hang"),
        ("hang", "ok", "ok"),
        ("crash", "crash", "runtime_error"),
        ("crash", "blank", "blank"),
        ("hang", "crash", "infra_error"),
        ("crash", "hang", "infra_error"),
    ],
)
def test_a_page_that_hangs_or_dies_counts_only_if_it_does_so_again(
    first: str, second: str, want: str
) -> None:
    agreed = browser_module._agreed(PageResult(first), PageResult(second))
    assert agreed.status == want


@pytest.mark.parametrize(
    "broken",
    [
        *({}, {"status": "splendid"}, {"png": "no base64!"}, {"nodes": "many"}, {"errors": None}),
        *({"nodes": float("inf")}, {"height": -1}, {"nodes": True}, {"text": 5}, {"notes": [1]}),
        *({"png": "aGk="}, {"png": TINY}, {"png": "PHN2Zz4="}),  # no picture of the page
    ],
)
def test_a_reply_of_another_form_is_no_verdict(broken: dict) -> None:
    right = {"status": "ok", "reason": "", "png": None, "text": "", "nodes": 1, "height": 1}
    right |= {"errors": [], "console": [], "notes": []}
    assert browser_module._page(Attempted(right)).status == "ok"
    reply = {**right, **broken} if broken else {}
    assert browser_module._page(Attempted(reply)).status == "infra_error"


def test_text_of_a_page_can_always_be_written_down() -> None:
    right = {"status": "ok", "reason": "\ud83d", "png": None, "text": "a\udc00", "nodes": 1}
    right |= {"height": 1, "errors": ["\ud83d"], "console": [], "notes": []}
    result = browser_module._page(Attempted(right))
    assert (result.reason, result.text, result.errors) == ("?", "a?", ("?",))


def test_pictures_are_read_whatever_filter_their_lines_have(tmp_path: Path) -> None:
    width, height, step = 7, 10, 3
    pixels = bytes(
        (x * 37 + y * 101 + x * y) % 256 for y in range(height) for x in range(width * step)
    )
    lines, above = b"", bytes(width * step)
    for y in range(height):
        line = pixels[y * width * step : (y + 1) * width * step]
        lines += bytes([y % 5]) + _filtered(line, above, y % 5, step)
        above = line
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines))
    (tmp_path / "x.png").write_bytes(png + _chunk(b"IEND", b""))
    script = (
        f"import {{ lines }} from {json.dumps(str(install.WORKER / 'png.mjs'))};\n"
        "import { readFileSync } from 'node:fs';\n"
        "process.stdout.write(Buffer.concat([...lines(readFileSync(process.argv[2]))]));"
    )
    (tmp_path / "read.mjs").write_text(script)
    command = [str(install.find_node()), str(tmp_path / "read.mjs"), str(tmp_path / "x.png")]
    assert subprocess.run(command, capture_output=True, check=True).stdout == pixels


def _filtered(line: bytes, above: bytes, kind: int, step: int) -> bytes:
    """As the PNG specification, section 9.2, defines the five filters."""
    out = bytearray()
    for x, value in enumerate(line):
        a = line[x - step] if x >= step else 0
        b, c = above[x], above[x - step] if x >= step else 0
        paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
        out.append((value - [0, a, b, (a + b) // 2, paeth][kind]) % 256)
    return bytes(out)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
