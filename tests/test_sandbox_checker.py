"""TypeScript and ESLint behind walls: exact places, no source touches another, losses are named."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from botgrpo.rewards.spans import TextMap
from botgrpo.sandbox import checker as module
from botgrpo.sandbox.base import DEFAULT_LIMITS, Limits
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.checker import CheckResult, Finding, ReactChecker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.pool import Attempted

GOOD = """import React, { useEffect, useRef, useState, type FC, type ReactNode } from "react";
import { Home, type LucideIcon } from "lucide-react";
import { motion, type Variants } from "framer-motion";
import { Line, LineChart, type TooltipProps } from "recharts";
import clsx, { type ClassValue } from "clsx";

interface Row { id: number; name: string; icon?: LucideIcon }
type Tip = TooltipProps<number, string>;
const fade: Variants = { hidden: { opacity: 0 } };
const cn = (...classes: ClassValue[]) => clsx(classes);

const Card: FC<{ children?: ReactNode }> = ({ children }) => <section>{children}</section>;

export default function App({ rows = [], tip }: { rows?: Row[]; tip?: Tip }) {
  const [name, setName] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const typed = (event: React.ChangeEvent<HTMLInputElement>) => setName(event.target.value);
  const keys: Record<string, Partial<Row>> = {};
  window.requestAnimationFrame(() => document.querySelectorAll<HTMLElement>("p"));
  return (
    <Card>
      <motion.div variants={fade} className={cn("p-4", name && "on")}>
        <input ref={field} value={name} onChange={typed} />
        {rows.map((row) => <p key={row.id}>{row.name}{Object.keys(keys).length}</p>)}
        <Home size={16} /><LineChart data={rows}><Line dataKey="id" /></LineChart>{tip && 1}
      </motion.div>
    </Card>
  );
}
"""


@pytest.fixture(scope="module")
def checker() -> Iterator[ReactChecker]:
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    made = ReactChecker("bubblewrap", types=True)
    yield made
    made.close()


def check(checker: ReactChecker, source: str) -> CheckResult:
    return asyncio.run(checker.check(source))


def check_all(checker: ReactChecker, sources: Sequence[str]) -> list[CheckResult]:
    async def together() -> list[CheckResult]:
        return list(await asyncio.gather(*map(checker.check, sources)))

    return asyncio.run(together())


def at(source: str, found: Finding) -> str:
    start, end = TextMap(source).span(found.line, found.column, found.length, "utf16")
    return source[start:end]


def told(source: str, result: CheckResult) -> list[tuple[str, str, str, str]]:
    return [(f.tool, f.rule, f.severity, at(source, f)) for f in result.findings]


def test_a_good_component_of_every_allowed_package_has_no_finding(checker: ReactChecker) -> None:
    result = check(checker, GOOD)
    assert result.status == "checked"
    assert told(GOOD, result) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("export default () => <Missing />;", ("eslint", "no-undef", "error", "Missing")),
        ("export default () => und;", ("typescript", "TS2304", "error", "und")),
        (
            'import { Fire } from "lucide-react";\nexport default Fire;',
            ("typescript", "TS2305", "error", "Fire"),
        ),
        (
            'import x from "charts";\nexport default x;',
            ("typescript", "TS2307", "error", '"charts"'),
        ),
        (
            'export default () => <p class="a">x</p>;',
            ("typescript", "TS2322", "error", "class"),
        ),
        ("const b = ;", ("eslint", "parse", "fatal", ";")),
        ("let a = 1;\nlet a = 2;", ("typescript", "TS2451", "error", "a")),
        (
            'import { useState } from "react";\n'
            "export default function A({ a }) { if (a) useState(1); return null; }",
            ("eslint", "react-hooks/rules-of-hooks", "error", "useState"),
        ),
        (
            'import { useEffect } from "react";\n'
            "export default function A({ a }) { useEffect(() => a(), []); return null; }",
            ("eslint", "react-hooks/exhaustive-deps", "warning", "[]"),
        ),
        ("export default 1;\nconst spare = 1;", ("eslint", "no-unused-vars", "warning", "spare")),
        ("const k = 1;\nk = 2;", ("eslint", "no-const-assign", "error", "k")),
    ],
)
def test_each_tool_points_at_the_fault(
    checker: ReactChecker, source: str, expected: tuple[str, str, str, str]
) -> None:
    assert expected in told(source, check(checker, source))


def test_typescript_tells_every_syntax_error_and_eslint_the_first(checker: ReactChecker) -> None:
    source = "const a = ;\nconst b = {;\nfunction f( { }\nexport default () => <p>漢</p>;"
    result = check(checker, source)
    fatal = [f for f in result.findings if f.severity == "fatal"]
    assert [f.line for f in fatal if f.tool == "eslint"] == [1]
    assert {f.line for f in fatal if f.tool == "typescript"} >= {1, 2}


@pytest.mark.parametrize(
    "order",
    [
        "/* eslint-disable */",
        "/* eslint no-undef: 0 */",
        "/* global und */",
        "// eslint-disable-next-line",
        "// @ts-ignore",
        "// @ts-nocheck",
        "// @ts-expect-error",
        "/** @jsxImportSource evil */",
    ],
)
def test_orders_in_comments_are_not_heard(checker: ReactChecker, order: str) -> None:
    source = f"{order}\nund();\nexport default () => <p>x</p>;"
    expected = [("eslint", "no-undef", "error", "und"), ("typescript", "TS2304", "error", "und")]
    assert told(source, check(checker, source)) == expected


def test_type_names_that_are_not_there_are_typescripts_to_tell(checker: ReactChecker) -> None:
    source = "type A = Gone;\nexport default ({ a }: { a: A }) => <p>{a as JSX.Element}</p>;"
    assert {f.tool for f in check(checker, source).findings} == {"typescript"}


def test_an_emoji_before_the_fault_moves_it_by_two_utf16_units(checker: ReactChecker) -> None:
    plain, moved = ('"a"; und();', '"a🤨"; und();')
    for one, other in zip(
        check(checker, plain).findings, check(checker, moved).findings, strict=True
    ):
        assert (other.line, other.column - one.column, other.length) == (1, 2, 3)


POISONS = [
    "declare global { interface Window { zork: number } interface Array<T> { bad: string } }\n"
    "export default 1;",
    'declare module "react" { export function useZork(): number }\nexport default 1;',
    "global { var zork: number }\nexport {};",
    "var zork = 1;\nfunction useZork() {}\ninterface Array<T> { bad: string }",
    '/// <reference lib="webworker" />\n/// <reference path="/candidate0.tsx" />\nexport {};',
    '/// <reference no-default-lib="true"/>\nexport {};',
    'declare module "zork" { const zork: number; export default zork }',
    "export as namespace zork;\nexport {};",
    'export * from "./candidate0";\nexport * from "/candidate1.tsx";',
    "namespace JSX { interface IntrinsicElements { zork: any } }",
    "Object.prototype.toString = null; Array.prototype.map = 1; export {};",
    "x = " + "[" * 700 + "]" * 700,
    "const __proto__ = 1; export const constructor = { __proto__: 2 };",
]
NEIGHBOURS = [
    GOOD,
    'import { useZork } from "react";\nexport default () => <zork a={zork}>{window.zork}</zork>;',
    'import zork from "zork";\nexport default () => <p>{[].bad}{zork}</p>;',
    "export default () => ({ documnt, consle });",
    *(f"export default () => {{ docment{i}; consol.log(Aray); return 1; }}" for i in range(3)),
    'let u: "b" | "a" | 3;\nu = "c";\nexport default u;',
    'let u: "a" | "c" | "b";\nu = 4;\nexport default u;',
]


def test_neighbours_of_hostile_sources_are_told_what_they_are_told_alone(
    checker: ReactChecker,
) -> None:
    def findings(results: Sequence[CheckResult]) -> list[tuple[str, tuple[Finding, ...]]]:
        return [(result.status, result.findings) for result in results]

    alone = findings([check(checker, source) for source in NEIGHBOURS])
    rng = random.Random(7)
    for i in range(0, len(POISONS), 5):
        # Other text behind them each time, so that no cache answers.
        marked = [f"{source}\n// {i}" for source in NEIGHBOURS]
        together = [*marked, *POISONS[i : i + 5]]
        rng.shuffle(together)
        results = dict(zip(together, check_all(checker, together), strict=True))
        assert findings([results[source] for source in marked]) == alone, POISONS[i : i + 5]
    after = [check(checker, f"{source}\n// after") for source in NEIGHBOURS[:3]]
    assert findings(after) == alone[:3]


def test_a_source_nested_too_deeply_is_said_to_be_so(checker: ReactChecker) -> None:
    for source in ("[" * 5000, "a" + ".b" * 20_000, "x" * 300 * 1024):
        assert check(checker, source).status == "too_large"
    # Within the limit it may still be too deep for a parser, which must not cost the worker.
    assert check(checker, "x = " + "[" * 950 + "]" * 950).status in ("checked", "too_large")
    assert check(checker, "export default 1;").status == "checked"


def test_findings_are_bounded_in_number_and_length(checker: ReactChecker) -> None:
    def flood(letter: str, end: str = "") -> str:
        return "".join(f"{letter * 400}{i}();" for i in range(100)) + end

    # A whole batch of them must fit into one reply, though each letter takes six bytes there.
    for result in check_all(checker, [flood("x"), *(flood("漢", f"// {i}") for i in range(16))]):
        assert (result.status, len(result.findings)) == ("checked", 50)
        assert all(len(found.message) <= 300 for found in result.findings)


class FakePool:
    """Stands for the workers: loses every batch that holds the word `bomb`."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.held: list[tuple[Future[Attempted], Mapping[str, Any]]] = []

    def submit(self, request: Mapping[str, Any]) -> Future[Attempted]:
        future: Future[Attempted] = Future()
        self.batches.append(list(request["sources"]))
        self.held.append((future, request))
        return future

    def work(self) -> None:
        while self.held:
            future, request = self.held.pop(0)
            if any("bomb" in source for source in request["sources"]):
                future.set_result(Attempted(None, "oom", "no memory"))
            else:
                empty = {"status": "checked", "findings": []}
                future.set_result(Attempted({"results": [empty] * len(request["sources"])}))


def test_a_lost_batch_goes_out_again_one_by_one_and_one_is_blamed() -> None:
    pool = FakePool()
    batches = module._Batches(pool, 1)  # type: ignore[arg-type]
    sources = ["first", "a", "bomb", "b"]
    futures = [batches.submit(source) for source in sources]
    assert pool.batches == [["first"]]  # the others wait while the only worker is busy
    pool.work()
    assert pool.batches == [["first"], ["a", "bomb", "b"], ["a"], ["bomb"], ["b"]]
    assert [future.result(0).loss for future in futures] == ["", "", "oom", ""]


BOMB = """type T<N extends unknown[]> = N["length"] extends 999 ? N : T<[...N, 1]>;
type U<A> = A extends [infer H, ...infer R] ? [...U<R>, H, ...U<R>] : [];
const v: U<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]> = 1;
const t: T<[]> = v;
export default t;
"""


@pytest.mark.slow
def test_a_bomb_of_types_is_named_and_its_neighbours_are_checked() -> None:
    limits = Limits(wall_s=10.0, start_s=90.0, memory_mib=768)
    bombed = ReactChecker("bubblewrap", limits=limits, types=True)
    sources = ["export default und;", *(f"export default und; // {i}" for i in range(3))]
    try:
        *results, bomb = check_all(bombed, [*sources, BOMB])
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    finally:
        bombed.close()
    assert bomb.status in ("timeout", "oom", "crash", "infra_error") and bomb.findings == ()
    assert [(result.status, len(result.findings)) for result in results] == [("checked", 2)] * 4


def test_batches_are_bounded_in_number_and_bytes() -> None:
    pool = FakePool()
    batches = module._Batches(pool, 1)  # type: ignore[arg-type]
    futures = [batches.submit(f"{i}") for i in range(40)]
    futures += [batches.submit("y" * 200_000) for _ in range(3)]
    pool.work()
    assert [len(batch) for batch in pool.batches] == [1, 16, 16, 8, 1, 1]
    assert all(future.done() for future in futures)


def test_a_caller_who_gave_up_is_passed_over() -> None:
    pool = FakePool()
    batches = module._Batches(pool, 1)  # type: ignore[arg-type]
    futures = [batches.submit(f"{i}") for i in range(3)]
    assert futures[1].cancel()
    pool.work()
    assert pool.batches == [["0"], ["2"]]


def test_where_nothing_can_isolate_everybody_is_told() -> None:
    class Closed(FakePool):
        def submit(self, request: Mapping[str, Any]) -> Future[Attempted]:
            raise SandboxUnavailable("no engine")

    batches = module._Batches(Closed(), 1)  # type: ignore[arg-type]
    for future in [batches.submit(f"{i}") for i in range(2000)]:
        with pytest.raises(SandboxUnavailable):
            future.result(0)


@pytest.mark.parametrize(
    "reply", [{}, {"status": "fine"}, {"status": "checked", "findings": [{"rule": 1}]}]
)
def test_a_reply_of_another_form_is_our_failure(reply: dict[str, Any]) -> None:
    assert module._result(Attempted(reply)).status == "infra_error"


def test_a_closed_checker_says_so() -> None:
    closed = ReactChecker("unsafe")
    closed.close()
    with pytest.raises(SandboxUnavailable):
        check(closed, "export default 1;")
