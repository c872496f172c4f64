"""The compile ladder: the verdict, the place of the fault in the source, the facts."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from pathlib import Path

import pytest

from botgrpo.sandbox.attempt import attempting
from botgrpo.sandbox.errors import ConfigError
from botgrpo.sandbox.react import CompileResult, ReactCompiler, shared_compiler

GOOD = 'export default function App() {\n  return <p className="a">hello</p>;\n}\n'
CASES = Path(os.environ.get("BOTGRPO_CASES", Path(__file__).parents[2] / "shared" / "cases"))


def judge(compiler: ReactCompiler, source: str) -> CompileResult:
    return asyncio.run(compiler.compile(source))


def at(source: str, result: CompileResult, index: int = 0) -> str:
    """The text that a diagnostic points at, cut out of the source by its own numbers."""
    found = result.diagnostics[index]
    assert found.unit == "utf8"
    line = re.split("\r\n|[\n\r\u2028\u2029]", source)[found.line - 1].encode(
        "utf-8", "surrogatepass"
    )
    return line[found.column : found.column + found.length].decode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (GOOD, "ok"),
        ("export default () => <p>x</p>;", "ok"),
        ("function P() { return <p/>; }\nexport { P as default };", "ok"),
        ("import { memo } from 'react';\nconst R = () => <li/>;\nexport default memo(R);", "ok"),
        ("const wrap = (C) => (p) => <C {...p}/>;\nexport default wrap(() => <p/>);", "ok"),
        ("let A = {};\nA = () => <p/>;\nexport default A;", "ok"),
        ("function d(x) { return x; }\n@d class A {}\nexport default () => <p/>;", "ok"),
        ("import type { Row } from './types';\nexport default (r: Row) => <p>{r.a}</p>;", "ok"),
        ("const r = require('react');\nexport default () => <r.Fragment/>;", "ok"),
        ("export default () => <p>x<p>;", "syntax"),
        ("export default function A() { const k = 1; k = 2; return <p>{k}</p>; }", "syntax"),
        ("import C from 'charts';\nexport default () => <C/>;", "resolve"),
        ("import './App.css';\nexport default () => <p/>;", "resolve"),
        ("import { Fire } from 'react';\nexport default () => <Fire/>;", "link"),
        (
            "import { Fire } from 'react';\nimport C from 'c';\nexport default <C a={Fire}/>;",
            "resolve",
        ),
        ("", "no_default_export"),
        ("function App() { return <p/>; }", "no_default_export"),
        ("module.exports = function App() { return null; };", "no_default_export"),
        ("```tsx\nexport default () => <p/>\n```", "no_default_export"),
        ("export default { name: 'App' };", "not_a_component"),
        ("const a = [1];\nconst b = a;\nexport default b;", "not_a_component"),
        ("export default <p/>;", "not_a_component"),
        ("import React from 'react';\nexport default React.createElement('p');", "not_a_component"),
        ("export default `x`;", "not_a_component"),
        ("export default undefined;", "not_a_component"),
        ("export default 1 ? null : 'x';", "not_a_component"),
    ],
)
def test_the_first_rung_that_applies_is_the_verdict(
    compiler: ReactCompiler, source: str, status: str
) -> None:
    assert judge(compiler, source).status == status


def _cases() -> list[dict[str, object]]:
    file = CASES / "react_verdicts.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_shared_cases_get_one_of_their_verdicts(
    compiler: ReactCompiler, case: dict[str, str]
) -> None:
    if case["compile"] == ["no_code"]:
        pytest.skip("whether a completion holds code is for the reward to say")
    blocks = re.findall(r"```\w*\r?\n(.*?)(?:```|$)", case["completion"], re.DOTALL)
    source = blocks[-1] if blocks else case["completion"]
    assert judge(compiler, source).status in case["compile"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('const a = "🤨é漢"; const b = ;\nexport default () => <p/>;', ";"),
        ('\ufeffconst a = "é"; const b = ;\nexport default () => <p/>;', ";"),
        ("const a = '\ud83e'; const b = ;\nexport default () => <p/>;", ";"),
        ("const a = 1;\r\nconst b = ;\r\nexport default () => <p/>;", ";"),
        ("const a = 1;\u2028const b = ;\nexport default () => <p/>;", ";"),
        ("const a = '\0'; const b = ;\nexport default () => <p/>;", ";"),
        ("const \u202e = 1;\nexport default () => <p/>;", "\u202e"),
        ("/* 漢 */ import c from 'charts';\nexport default () => <p>{c}</p>;", "'charts'"),
        (
            "import {\n useState, Fire } from 'react';\nexport default () => <Fire a={useState}/>;",
            "Fire",
        ),
        ("const é = 1;\n\té = 2;\nexport default () => <p>{é}</p>;", "é"),
    ],
)
def test_a_diagnostic_points_at_the_fault_in_utf8_bytes(
    compiler: ReactCompiler, source: str, text: str
) -> None:
    assert at(source, judge(compiler, source)) == text


def test_planted_faults_are_found_behind_any_text(compiler: ReactCompiler) -> None:
    rng = random.Random(20)
    letters = "aé漢🤨\ud83e\u202e\u00a0\t \u0301"
    for _ in range(200):
        text = "".join(rng.choices(letters, k=rng.randrange(12)))
        before = "".join(rng.choices(["\n", "\r\n", "\u2029", f"// {text}\n"], k=rng.randrange(4)))
        source = f'{before}const a = "{text}"; /* {text} */ const b = ;\nexport default () => a;'
        result = judge(compiler, source)
        assert (result.status, at(source, result)) == ("syntax", ";"), repr(source)


def test_a_fault_may_reach_over_several_lines(compiler: ReactCompiler) -> None:
    found = judge(compiler, "export default 1;\nconst a `x\ny`;").diagnostics[0]
    assert (found.line, found.column, found.length) == (2, 8, 5)


def test_the_emoji_case_has_the_documented_column(compiler: ReactCompiler) -> None:
    result = judge(compiler, 'export default 1\nconst a = "🤨é漢"; const b = ;')
    assert (result.diagnostics[0].line, result.diagnostics[0].column) == (2, 33)


def test_notes_carry_the_other_place(compiler: ReactCompiler) -> None:
    result = judge(compiler, "export default () => <div><b>x</div>;")
    assert at("export default () => <div><b>x</div>;", result) == "div"
    assert [(note.line, note.column, note.length) for note in result.diagnostics[0].notes] == [
        (1, 27, 1)
    ]


def test_every_unresolved_name_and_every_missing_export_is_told(compiler: ReactCompiler) -> None:
    source = (
        "import a from 'x';\nimport b from './y';\nimport { Fire, Ice } from 'react';\n"
        "export default () => <p>{a}{b}{Fire}{Ice}</p>;"
    )
    result = judge(compiler, source)
    assert [found.kind for found in result.diagnostics] == ["resolve"] * 2 + ["link"] * 2
    assert [at(source, result, i) for i in range(4)] == ["'x'", "'./y'", "Fire", "Ice"]


def test_facts_are_read_from_the_tree(compiler: ReactCompiler) -> None:
    source = """
import { useState, memo } from "react";
function Card({ children }) { return <section>{children}</section>; }
function Tally({ title, step = 2 }: { title: string; step?: number }) {
  const [n, setN] = useState(0);
  const body = <Card><button>Add</button><button>Drop</button>{n}</Card>;
  return body;
}
export default memo(Tally);
"""
    facts = judge(compiler, source).facts
    assert facts["component"] == "Tally"
    assert facts["returns_jsx"] is True
    assert facts["tags"] == {"Card": 1, "button": 2, "section": 1}
    assert facts["props"] == ["title", "step"]
    assert sorted(facts["text"]) == ["Add", "Drop"]


@pytest.mark.parametrize(
    ("source", "name", "props"),
    [
        ("export default () => <p/>;", None, []),
        ("export default function () { return <p/>; }", None, []),
        (
            "const Row = (props) => <p>{props.a}{props.b}</p>;\nexport default Row;",
            "Row",
            ["a", "b"],
        ),
        (
            "export default class Box extends X { render() { return <p>{this.props.c}</p>; } }",
            "Box",
            ["c"],
        ),
        (
            "import { forwardRef } from 'react';\n"
            "export default forwardRef(function Btn(p, ref) { return <b ref={ref}>{p.d}</b>; });",
            "Btn",
            ["d"],
        ),
        (
            "import React from 'react';\nfunction Old({ e }) { return React.createElement('i'); }\n"
            "export default React.memo(Old);",
            "Old",
            ["e"],
        ),
    ],
)
def test_a_component_is_named_as_in_the_source(
    compiler: ReactCompiler, source: str, name: str | None, props: list[str]
) -> None:
    result = judge(compiler, source)
    assert (result.status, result.facts["component"]) == ("ok", name)
    assert result.facts["props"] == props
    assert result.facts["returns_jsx"] is True


def test_returning_null_returns_no_jsx(compiler: ReactCompiler) -> None:
    source = "const spare = <p/>;\nexport default function App() { return null; }"
    assert judge(compiler, source).facts["returns_jsx"] is False


@pytest.mark.parametrize(
    "pragma", ["@jsxRuntime classic", "@jsx evil", "@jsxImportSource ../../etc"]
)
@pytest.mark.parametrize("form", ["/** {} */", "// {}"])
def test_pragmas_change_nothing(compiler: ReactCompiler, pragma: str, form: str) -> None:
    result = judge(compiler, f"{form.format(pragma)}\n{GOOD}")
    assert (result.status, result.facts) == ("ok", judge(compiler, GOOD).facts)


def test_a_result_is_the_same_the_second_time_and_on_another_worker(
    compiler: ReactCompiler,
) -> None:
    source = "import { Fire } from 'react';\nexport default () => <p a={Fire}>漢</p>;"
    other = ReactCompiler("bubblewrap")
    first, again, fresh = (judge(each, source) for each in (compiler, compiler, other))
    other.close()
    assert first.diagnostics == again.diagnostics == fresh.diagnostics
    assert first.status == again.status == fresh.status == "link"


def test_a_second_attempt_at_a_source_is_work_and_not_the_cache(compiler: ReactCompiler) -> None:
    source, sent = f"{GOOD}// attempts", []
    submit = compiler._pool.submit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler._pool, "submit", lambda job: sent.append(job) or submit(job))
        first, again = judge(compiler, source), judge(compiler, source)
        assert len(sent) == 1
        with attempting(1):
            second = judge(compiler, source)
        assert len(sent) == 2
    assert first.status == again.status == second.status == "ok"


def test_one_compiler_serves_several_event_loops(compiler: ReactCompiler) -> None:
    assert [judge(compiler, f"{GOOD}//{i}").status for i in range(3)] == ["ok"] * 3


def test_the_shared_compiler_is_one() -> None:
    assert shared_compiler("unsafe") is shared_compiler("unsafe")


def test_an_unknown_backend_is_refused_with_the_ones_that_exist() -> None:
    with pytest.raises(ConfigError, match="auto, docker, bubblewrap"):
        ReactCompiler("podman")


def test_the_manifest_says_what_isolates(compiler: ReactCompiler) -> None:
    described = compiler.describe()
    assert described["backend"] == "bubblewrap"
    assert {"node", "esbuild", "react", "lucide-react", "recharts"} <= set(described["versions"])
    assert "namespaces" in described["isolation"]
    json.dumps(described)
