"""The packages that may be imported link, their missing names do not; styles cannot be abused."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

from botgrpo.sandbox import install
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import CompileResult, ReactCompiler

COMMON = {
    "react": "default useState useEffect useMemo useRef useCallback memo forwardRef Suspense lazy",
    "react-dom": "default createPortal flushSync",
    "react-dom/client": "createRoot hydrateRoot",
    "lucide-react": "Home Search Trophy ArrowRight ChevronDown Trash2 LoaderCircle XIcon LucideX",
    "recharts": "LineChart BarChart PieChart Line Bar XAxis YAxis Tooltip ResponsiveContainer Cell",
    "framer-motion": "motion AnimatePresence useScroll useTransform LayoutGroup",
    "motion/react": "motion AnimatePresence useReducedMotion stagger",
    "clsx": "default clsx",
    "tailwind-merge": "twMerge twJoin",
}


def judge(compiler: ReactCompiler, source: str, *, bundle: bool = False) -> CompileResult:
    return asyncio.run(compiler.compile(source, bundle=bundle))


def node(script: str) -> str:
    """What a script of ours prints, run in the worker's folder."""
    command = ["node", "--disallow-code-generation-from-strings", "--input-type=module"]
    command.append("--max-old-space-size=256")
    home = install.worker_home()
    done = subprocess.run(
        command, input=script, cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("package", COMMON)
def test_an_allowed_package_links_by_its_common_names(
    compiler: ReactCompiler, package: str
) -> None:
    names = COMMON[package].split()
    clause = ", ".join(f"{name} as n{i}" for i, name in enumerate(names))
    use = ", ".join(f"n{i}" for i in range(len(names)))
    source = f'import {{ {clause} }} from "{package}";\nexport default () => [{use}];'
    result = judge(compiler, source, bundle=True)
    assert (result.status, result.reason) == ("ok", "")
    assert result.bundle is not None
    for name in names:
        assert f'__botgrpo("{package}", "{name}")' in result.bundle.code


def test_every_export_of_every_vendored_script_is_really_there() -> None:
    # What candidates import by name must not turn out to be undefined in the page.
    script = """
    import { readFileSync } from "node:fs";
    import { Script, createContext } from "node:vm";
    const { scripts, modules } = JSON.parse(readFileSync("vendor/names.json", "utf8"));
    const page = { console, setTimeout, clearTimeout, queueMicrotask, performance };
    createContext(page);
    for (const name of Object.keys(scripts))
      new Script(readFileSync(`vendor/${name}.js`, "utf8")).runInContext(page);
    const gone = [];
    for (const [module, names] of Object.entries(modules))
      for (const name of names)
        if (page.__botgrpo(module, name) === undefined) gone.push(`${module} ${name}`);
    process.stdout.write(JSON.stringify({ gone, modules: Object.keys(modules) }));
    """
    said = json.loads(node(script))
    assert set(COMMON) <= set(said["modules"])
    assert said["gone"] == []


@pytest.mark.parametrize(
    ("clause", "missing"),
    [
        ("{ Trophy, Flag, Fire }", ["Fire"]),
        ("{ Run, Fire as Flame, Home }", ["Run", "Fire"]),
        ("Icons", ["Icons"]),
    ],
)
def test_a_hallucinated_icon_is_a_link_error_on_its_own_name(
    compiler: ReactCompiler, clause: str, missing: list[str]
) -> None:
    local = re.findall(r"\w+(?=,| \}|$)", clause)
    uses = "".join(f"<{name} />" for name in local)
    source = f"/* 漢🤨 */ import {clause} from 'lucide-react';\nexport default () => <p>{uses}</p>;"
    result = judge(compiler, source)
    assert result.status == "link"
    line = source.splitlines()[0].encode()
    found = [line[d.column : d.column + d.length].decode() for d in result.diagnostics]
    assert found == missing
    assert all(d.kind == "link" and d.line == 1 for d in result.diagnostics)


def test_a_missing_member_of_a_namespace_is_left_to_run_time(compiler: ReactCompiler) -> None:
    source = "import * as I from 'lucide-react';\nexport default () => <p><I.Home /><I.Fire /></p>;"
    result = judge(compiler, source)
    assert result.status == "ok"
    assert result.facts["tags"]["Home"] == 1


@pytest.mark.parametrize(
    "source",
    [
        "import * as I from 'lucide-react';\nexport default ({ n }) => I[n];",
        "const I = require('lucide-react');\nexport default ({ n }) => I[n];",
        "import { icons } from 'lucide-react';\nexport default ({ n }) => icons[n];",
        "import { \\u0048ome } from 'lucide-react';\nexport default () => <Home />;",
    ],
)
def test_names_that_the_source_does_not_spell_out_are_there_too(
    compiler: ReactCompiler, source: str
) -> None:
    result = judge(compiler, source, bundle=True)
    assert result.status == "ok" and result.bundle is not None
    assert "lucide-react.js" in result.bundle.packages
    assert len(result.bundle.code) < 10_000  # and do not swell the bundle


@pytest.mark.parametrize(
    "specifier",
    [
        "lucide-react/dynamic",
        "recharts/es6",
        "react-dom/server",
        "motion",
        "./App.css",
        "__proto__",
    ],
)
def test_what_is_not_on_the_list_does_not_resolve(compiler: ReactCompiler, specifier: str) -> None:
    source = f"import x from '{specifier}';\nexport default () => <p>{{x}}</p>;"
    assert judge(compiler, source).status == "resolve"


def test_a_bundle_says_which_scripts_it_needs_in_their_order(compiler: ReactCompiler) -> None:
    source = (
        "import { Line, LineChart } from 'recharts';\nimport { Home } from 'lucide-react';\n"
        "import clsx from 'clsx';\nimport { Unused } from 'framer-motion';\n"
        "export default () => <LineChart className={clsx('p-4 md:p-8', `bg-red-500`)}>"
        "<Line /><Home /></LineChart>;"
    )
    bundle = judge(compiler, source, bundle=True).bundle
    assert bundle is not None
    assert bundle.packages == [
        "react.js",
        "react-dom.js",
        "clsx.js",
        "lucide-react.js",
        "recharts.js",
    ]
    assert {"p-4", "md:p-8", "bg-red-500"} <= set(bundle.classes)


def test_the_tags_of_facts_have_the_names_of_the_source(compiler: ReactCompiler) -> None:
    source = (
        "import { motion } from 'motion/react';\nimport { Home } from 'lucide-react';\n"
        "import React, { StrictMode } from 'react';\nexport default () => <StrictMode>"
        "<motion.div><Home /><React.Fragment /></motion.div></StrictMode>;"
    )
    tags = judge(compiler, source).facts["tags"]
    assert tags == {"StrictMode": 1, "motion.div": 1, "Home": 1}


def test_a_bundle_too_long_for_a_reply_is_too_large_and_no_lost_worker(
    compiler: ReactCompiler,
) -> None:
    source = f"export default () => <p>{'é' * 70_000}{'<a/>' * 9_000}</p>;"
    assert judge(compiler, source, bundle=True).status == "too_large"
    assert judge(compiler, source).status == "ok"


EVERYTHING = """
import { useState } from "react";
import { createPortal } from "react-dom";
import { Home } from "lucide-react";
import * as Icons from "lucide-react";
import { AnimatePresence, motion } from "framer-motion";
import { motion as moving } from "motion/react";
import { Bar, BarChart, Cell, Line, LineChart, Pie, PieChart, XAxis, YAxis } from "recharts";
import clsx from "clsx";
import { twMerge } from "tailwind-merge";

const data = [{ name: "alpha", v: 1 }, { name: "beta", v: 3 }];

export default function App() {
  const [name] = useState("Sea" + "rch");
  const Icon = Icons[name];
  return (
    <main className={twMerge(clsx("p-4 text-2xl", "p-8"))}>
      <Home /><Icon />
      <AnimatePresence><motion.div animate={{ opacity: 1 }}>moved</motion.div></AnimatePresence>
      <moving.p layout>laid out</moving.p>
      <LineChart width={300} height={100} data={data}>
        <XAxis dataKey="name" /><YAxis /><Line dataKey="v" />
      </LineChart>
      <BarChart width={300} height={100} data={data}><Bar dataKey="v" /></BarChart>
      <PieChart width={90} height={90}>
        <Pie data={data} dataKey="v">{data.map((d) => <Cell key={d.name} fill="green" />)}</Pie>
      </PieChart>
      {createPortal(<aside>portal</aside>, document.body)}
    </main>
  );
}
"""


@pytest.mark.browser
def test_a_page_with_every_package_runs() -> None:
    browser = ReactBrowser("bubblewrap")
    try:
        compiled, page = asyncio.run(browser.render(EVERYTHING))
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    finally:
        browser.close()
    assert compiled.status == "ok" and page is not None
    assert (page.status, page.errors) == ("ok", ())
    assert {"moved", "alpha", "beta", "portal"} <= set(page.text.split())


def sheets(*lists: list[str]) -> list[str]:
    """The style sheet for each list of classes, one after the other in one process."""
    script = (
        'import { css } from "./tailwind.mjs";\nconst made = [];\n'
        f"for (const each of {json.dumps(lists)}) made.push(await css(each));\n"
        "process.stdout.write(JSON.stringify(made));"
    )
    made: list[str] = json.loads(node(script))
    return made


def test_tailwind_gives_a_rule_for_each_class_that_it_knows() -> None:
    known = ["p-4", "md:hover:m-1", "w-[calc(100%-2rem)]", "[&>p]:mt-4", "grid-cols-[1fr_auto]"]
    sheet, empty = sheets([*known, "no-such-class", "Button"], [])
    for rule in ("padding: calc(var(--spacing) * 4)", "calc(100% - 2rem)", "1fr auto", ">p"):
        assert rule in sheet and rule not in empty
    assert "no-such-class" not in sheet and "box-sizing: border-box" in empty


def test_a_candidate_leaves_nothing_for_the_next() -> None:
    first, _, again = sheets(["p-4"], ["m-8", "text-[#0ff]", "from-indigo-500"], ["p-4"])
    assert first == again


HOSTILE = [
    "bg-[url(http://x.test/a.png)]",
    "bg-[URL(//x.test)]",
    "bg-[\\75rl(http://x.test)]",
    "bg-[image-set('a'_1x)]",
    "[@import_'x.css']:p-1",
    "[@font-face]:p-1",
    "content-['</style><script>alert(1)</script>']",
    "[--x:<!--]",
    "p-[1px;}body{background:red]",
    "before:content-['}']",
    'before:content-["a"]',
    "w-[" + "9" * 100_000 + "px]",
    "[&,&,&]:" * 12 + "p-1",
    "marker:" * 20 + "p-1",
    "not-hover:" * 18 + "p-1",
    "__proto__",
    "constructor",
    "\0",
    "\ud83e",
]


def test_a_hostile_class_adds_nothing() -> None:
    plain, *made = sheets(["p-4"], *([token, "p-4"] for token in HOSTILE))
    added = [token[:40] for token, sheet in zip(HOSTILE, made, strict=True) if sheet != plain]
    assert added == []


def test_a_flood_of_classes_is_bounded() -> None:
    widths = [f"w-[{'1' * 150}{i}px]" for i in range(5000)]
    repeated = ["marker:" * 3 + f"p-[{'1' * 100}{i}px]" for i in range(3000)]
    assert all(len(sheet) <= 512 * 1024 for sheet in sheets(widths, repeated))


def test_the_readme_lists_what_may_be_imported() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    listed = text.partition("from a closed list and from nowhere else:")[2].partition("with Tail")[
        0
    ]
    assert set(re.split(r",?\s+(?:and\s+)?", listed.strip(" ,\n"))) == set(COMMON)
    names = json.loads((install.worker_home() / "vendor" / "names.json").read_text())
    assert {name for name in names["modules"] if "jsx" not in name} == set(COMMON)
