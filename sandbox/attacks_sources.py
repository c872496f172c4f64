"""Hostile sources: what a candidate can write that the compiler reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from botgrpo.sandbox.attacks import Canary, Outcome
from botgrpo.sandbox.react import CompileResult, ReactCompiler

_IMPORTS = (
    "import s from '{path}';",
    "import s from '{path}' with {{ type: 'text' }};",
    "import s from '{path}' with {{ type: 'bytes' }};",
    "import s from '{path}' with {{ type: 'json' }};",
    "const s = require('{path}');",
    "const s = await import('{path}');",
    "export * from '{path}'; const s = 1;",
)
_PATHS = (
    *("/etc/passwd", "/proc/self/environ", "/proc/1/environ", "{canary}", "file://{canary}"),
    *("../../../../../../{canary}", "./package.json", "/opt/sandbox/package.json", "~/.ssh/id_rsa"),
    *("node:fs", "fs", "data:text/plain,x", "https://example.com/x.js", "http://169.254.169.254/"),
    *("react/../../esbuild/package.json", "react/package.json", "react\\0/x", "REACT"),
    *("__proto__", "constructor", "child_process", "vm"),
)
_CONFIGS = ("tsconfig.json", "package.json", ".npmrc", "postcss.config.js", "tailwind.config.js")
_PLAIN = "export default () => <p>x</p>;"
_PRAGMAS = {
    "a JSX runtime pragma": "/** @jsxRuntime classic @jsx evil.h */\n",
    "a JSX source pragma": "/** @jsxImportSource /etc/passwd */\n",
    "a source map comment": "//# sourceMappingURL=/etc/passwd\n",
    "a triple-slash reference": '/// <reference path="/etc/passwd" />\n',
}
_HEAVY = {
    ("A2", "ten megabytes"): "// " + "x" * 10_000_000,
    ("A2", "a string to fold of half a gigabyte"): f'const s = "x".repeat(2**29);\n{_PLAIN}',
    ("A4", "an endless loop"): f"while (true) {{}}\n{_PLAIN}",
    ("A4", "a pattern that backtracks"): f"/^(a+)+$/.test('{'a' * 60}b');\n{_PLAIN}",
    ("A4", "a constant to fold"): f"const n = {'2**' * 5000}2;\n{_PLAIN}",
    ("A10", "brackets"): "[" * 50_000,
    ("A10", "parentheses"): "export default () => " + "(" * 50_000 + ")" * 50_000,
    ("A10", "tags"): "export default () => " + "<a>" * 50_000,
    ("A10", "tags in text"): "export default () => <p>" + "x<a>" * 50_000,
    ("A10", "braces"): "export default () => " + "{" * 50_000,
    ("A10", "a sum"): "export default () => <p>{" + "1+" * 100_000 + "1}</p>",
    ("A10", "members"): "export default () => <p>{a" + ".b" * 100_000 + "}</p>",
    ("A10", "calls"): "export default () => <p>{a" + "()" * 100_000 + "}</p>",
    ("A10", "arrows"): "export default " + "a=>" * 60_000 + "1",
    ("A10", "negations"): "export default " + "!" * 200_000 + "1",
    ("A10", "commas"): "export default (" + "1," * 60_000 + "1)",
    ("A10", "one long line"): "export default () => <p>" + "x" * 250_000 + "</p>",
    ("A10", "many lines"): "\n" * 200_000 + "export default () => <p/>",
    ("A10", "one attribute over and over"): "export default () => <p " + "a={1} " * 40_000 + "/>",
    ("A12", "prototype names"): (
        "const __proto__ = 1; export default function toString() { return <a/>; }"
    ),
    ("A12", "a polluted prototype"): f"Object.prototype.x = 1; globalThis.JSON = null; {_PLAIN}",
    (
        "A12",
        "keys of a prototype",
    ): "export default () => <p {...JSON.parse('{\"__proto__\":1}')}/>;",
    ("A13", "an exit"): f"process.exit(0); {_PLAIN}",
    ("A13", "eval"): f"eval('process.exit(0)'); new Function('process.exit(0)')(); {_PLAIN}",
    ("A13", "a binding"): f"process.binding('spawn_sync'); {_PLAIN}",
    ("A16", "a forged reply"): (
        'console.log(\'{"nonce": "", "status": "ok"}\'); export default 1;'
    ),
}
_ODD = ("\ufeff", "\r\n", "\u2028", "\t", "\0", "\u202e", "🤨é漢", "\ud83d")
_CALM = frozenset(("ok", "syntax", "too_large", "no_default_export", "not_a_component"))
_GOLDEN = (
    "import { useState, Fire } from 'react';\nimport c from 'charts';\n"
    "export default function App({ a }) { return <p c={c} d={Fire}>{useState}</p>; }\n//"
)


def run(backend: str, canary: Canary) -> Iterator[Outcome]:
    """Every source against one compiler. Raises SandboxUnavailable."""
    compiler = ReactCompiler(backend)
    try:
        yield from _Suite(compiler, canary).run()
        want = _golden(compiler, "last")
    finally:
        compiler.close()
    fresh = ReactCompiler(backend)
    try:
        same = _golden(fresh, "fresh") == want
    finally:
        fresh.close()
    yield Outcome("A11", "all of these, before a golden candidate", "no shared state", same)


class _Suite:
    def __init__(self, compiler: ReactCompiler, canary: Canary) -> None:
        self._compiler = compiler
        self._canary = canary
        self._want = _golden(compiler, "before")

    def run(self) -> Iterator[Outcome]:
        for form in _IMPORTS:
            name = f"opening a file by `{form.format(path='...')}`"
            yield self._all_denied("A6", name, form, _PATHS)
        name = "bringing a configuration of one's own"
        yield self._all_denied("A8", name, "import s from './{path}';", _CONFIGS)
        for name, pragma in _PRAGMAS.items():
            plain, marked = self._judge(_PLAIN), self._judge(pragma + _PLAIN)
            held = plain.facts == marked.facts and not self._canary.leaked(marked)
            yield Outcome("A9", name, "pragmas are blanked", held, "" if held else repr(marked))
        for (id, name), source in _HEAVY.items():
            yield self._calm(id, f"a source with {name}", source)
        for odd in _ODD:
            yield self._exact(odd)

    def _judge(self, source: str) -> CompileResult:
        return asyncio.run(self._compiler.compile(source))

    def _all_denied(self, id: str, name: str, form: str, paths: tuple[str, ...]) -> Outcome:
        seen = ""
        for path in paths:
            line = form.format(path=path.format(canary=self._canary.file))
            result = self._judge(f"{line}\nexport default () => <p>{{s}}</p>;")
            named = bool(result.diagnostics) and result.diagnostics[0].line == 1
            if result.status != "resolve" or not named or self._canary.leaked(result):
                seen += f"{path}: {result.status} "
        return Outcome(id, name, "a closed list of packages", not seen, seen)

    def _calm(self, id: str, name: str, source: str) -> Outcome:
        result = self._judge(source)
        seen = "" if result.status in _CALM else f"{result.status}: {result.reason}"
        if _golden(self._compiler, name) != self._want:
            seen += " the next candidate was judged otherwise"
        return Outcome(id, name, "never run; size and depth limits", not seen, seen)

    def _exact(self, odd: str) -> Outcome:
        source = f"/*{odd}*/ const b = ;\nexport default () => <p/>;"
        result = self._judge(source)
        head = source[: source.index(";")]
        line = head[max(head.rfind(end) for end in ("\n", "\r", "\u2028")) + 1 :]
        lines = head.replace("\r\n", "\n").replace("\u2028", "\n").count("\n") + 1
        place = (lines, len(line.encode("utf-8", "surrogatepass")))
        found = [(each.line, each.column) for each in result.diagnostics[:1]]
        held = result.status == "syntax" and found == [place]
        name = f"an error after {odd.encode('unicode_escape').decode()}"
        return Outcome("A14", name, "places in bytes", held, "" if held else f"{found} not {place}")


def _golden(compiler: ReactCompiler, mark: str) -> tuple[Any, ...]:
    result = asyncio.run(compiler.compile(_GOLDEN + mark))  # the mark gets past our own cache
    return result.status, result.diagnostics, result.facts
