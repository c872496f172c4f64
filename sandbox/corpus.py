"""Candidates as policies write them, generated: good ones, bad ones, and hostile ones.

For speed and endurance, and no measure of any model. Each says what the compiler must answer and
what its page must come to, so that a run which is fast and wrong is seen to be wrong.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CALM = frozenset(("ok", "syntax", "too_large", "no_default_export", "not_a_component"))
"""What a hostile source may come to: judged, and no worker lost over it."""

_BAD_SHARE = 0.5
_NOUNS = ("Order", "Invoice", "Task", "Player", "Recipe", "Ticket", "Song", "Flight", "Plant")
_WORDS = ("Weekly", "Open", "Recent", "Shared", "Saved", "Global", "Quiet", "Bright")
_COLOURS = ("slate", "sky", "emerald", "amber", "rose", "violet", "indigo")
_ICONS = (
    *("Activity", "ArrowRight", "Bell", "Calendar", "Check", "ChevronDown", "Heart", "Mail"),
    *("Plus", "Search", "Settings", "Star", "Trash", "Trophy", "User", "Zap"),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source of some `kind`, and what must be said of it.

    `status` is the compiler's, "" where any of `CALM` will do; `page` the page's, "" where there is
    none or any verdict will do.
    """

    kind: str
    source: str
    status: str
    page: str = ""


@functools.cache
def _parts() -> dict[str, str]:
    text = Path(__file__).with_name("corpus.tsx").read_text("utf-8")
    words = re.split(r"^// --- (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(words[1::2], words[2::2], strict=True))


def good(rng: random.Random, title: str) -> str:
    """A page of one to six parts, 30 to 200 lines, with `title` as its heading."""
    names = [name for name in _parts() if name != "App"]
    icons: set[str] = set()
    bodies, uses = [], []
    for number in range(rng.randint(1, 6)):
        name, noun, icon = rng.choice(names), f"{rng.choice(_NOUNS)}{number}", rng.choice(_ICONS)
        rows = (
            f'    {{ name: "{each}", price: {rng.uniform(1, 99):.2f}, count: {i} }},'
            for i, each in enumerate(rng.sample(_NOUNS, rng.randint(2, 6)))
        )
        body = _parts()[name]
        if "ICON" in body:
            icons.add(icon)
        body = body.replace("NUMBERS", ", ".join(str(rng.randint(1, 99)) for _ in range(12)))
        body = body.replace("ROWS", "\n".join(rows)).replace("SIZE", str(rng.randint(2, 9)))
        body = body.replace("COLOUR", rng.choice(_COLOURS)).replace("ICON", icon)
        bodies.append(body.replace("NOUN", noun))
        uses.append(f"      <{noun}{name} />")
    app = _parts()["App"].replace("TITLE", title).replace("PARTS", "\n".join(uses))
    bodies.append(app.replace("COLOUR", rng.choice(_COLOURS)))
    hooks = sorted(set(re.findall(r"\buse[A-Z]\w+", "".join(bodies))))
    imports = f'import React, {{ {", ".join(hooks)} }} from "react";\n'
    if icons:
        imports += f'import {{ {", ".join(sorted(icons))} }} from "lucide-react";\n'
    return "\n".join([imports, *bodies])


def _swap(old: str, new: str) -> Callable[[str], str]:
    def change(source: str) -> str:
        before, found, after = source.rpartition(old)
        assert found, f"the page has no {old!r}"
        return before + new + after

    return change


def _using(line: str) -> Callable[[str], str]:
    name = line.replace("{", "").split()[1]
    return lambda source: f"{line};\nconst used = {name};\n{source}"  # unused, it would be dropped


_STATE = "const [open, setOpen] = useState(true);"
_BAD: dict[str, tuple[Callable[[str], str], str, str]] = {
    "a wrong closing tag": (_swap("</h1>", "</h2>"), "syntax", ""),
    "an unclosed tag": (_swap("</main>", ""), "syntax", ""),
    "cut off": (lambda source: source[: source.rindex("</h1>")], "syntax", ""),
    "a missing brace": (lambda source: source.rstrip().removesuffix("}"), "syntax", ""),
    "an open string": (_swap('bold">', "bold>"), "syntax", ""),
    "a name twice": (_swap(_STATE, _STATE * 2), "syntax", ""),
    "prose before it": (lambda source: f"Here is the page you asked for:\n{source}", "syntax", ""),
    "an unknown package": (_using('import axios from "axios"'), "resolve", ""),
    "an unknown file": (_using('import Card from "./Card"'), "resolve", ""),
    "an unknown icon": (_using('import { Fire } from "lucide-react"'), "link", ""),
    "no default export": (_swap("export default ", ""), "no_default_export", ""),
    "no component": (
        lambda source: _swap("export default ", "")(source) + "export default { App };\n",
        "not_a_component",
        "",
    ),
    "an exception": (_swap(_STATE, f'{_STATE} throw new Error("none");'), "ok", "runtime_error"),
    "an undefined name": (_swap("</h1>", "{grandTotal}</h1>"), "ok", "runtime_error"),
    "an object as a child": (_swap("</h1>", "{{ total: 1 } as any}</h1>"), "ok", "runtime_error"),
    "endless rendering": (_swap(_STATE, f"{_STATE} setOpen(!open);"), "ok", "runtime_error"),
    "an empty page": (
        _swap("  return (\n    <main", "  if (open) return <div />;\n  return (\n    <main"),
        "ok",
        "blank",
    ),
}
# {n} is a size that varies, so that no two are alike.
_BOMBS: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" * n,
    "parentheses": lambda n: "export default () => " + "(" * n + ")" * n,
    "nested tags": lambda n: "export default () => <p>" + "x<a>" * n,
    "a long sum": lambda n: "export default () => <p>{" + "1+" * n + "1}</p>",
    "calls of calls": lambda n: "export default () => <p>{a" + "()" * n + "}</p>",
    "arrows to arrows": lambda n: "export default " + "a=>" * n + "1",
    "templates in templates": lambda n: "export default () => " + "`${" * n,
    "a long line": lambda n: "export default () => <p>" + "x" * (4 * n) + "</p>",
    "many lines": lambda n: "\n" * (4 * n) + "export default () => <p/>",
    "attributes": lambda n: "export default () => <p " + "a={1} " * (n // 2) + "/>",
    "a huge source": lambda n: "// " + "x" * (200 * n) + "\nexport default () => <p/>",
}
_PAGES: dict[str, tuple[str, str]] = {
    "an endless loop": ("while (true) {}", "hang"),
    "an endless effect": ("React.useEffect(() => { for (;;) {} }, []);", "hang"),
    "endless alerts": ("React.useEffect(() => { for (;;) alert(1); }, []);", ""),
    "a memory bomb": ("const all = []; for (;;) all.push(new Array(1e6).fill(1.5));", ""),
    "leaving": ("React.useEffect(() => { location.href = 'https://example.com/'; }, []);", ""),
    "a crowd": ("const all = Array.from({ length: 1e5 }, (_, i) => <i key={i}>x</i>);", ""),
}


def candidates(seed: int, hostile: float = 0.0) -> Iterator[Candidate]:
    """Endless, no two alike, the same for a seed: a share that is hostile, half of the rest bad."""
    rng = random.Random(seed)
    number = 0
    while True:
        number += 1
        if rng.random() < hostile:
            name = rng.choice(list(_BOMBS))
            text = _BOMBS[name](rng.randint(20_000, 60_000))
            yield Candidate(f"hostile: {name}", f"{text}\n// {seed}-{number}", "")
            continue
        source = good(rng, f"{rng.choice(_WORDS)} {seed}-{number}")
        if rng.random() < _BAD_SHARE:
            name = rng.choice(list(_BAD))
            change, status, page = _BAD[name]
            yield Candidate(f"bad: {name}", change(source), status, page)
        else:
            yield Candidate("good", source, "ok", "ok")


def hostile_pages(seed: int) -> Iterator[Candidate]:
    """Endless: pages that compile, and then hang, swell or leave."""
    rng = random.Random(seed)
    number = 0
    while True:
        number += 1
        name = rng.choice(list(_PAGES))
        line, page = _PAGES[name]
        source = 'import React from "react";\nexport default function App() {\n  '
        source += f"{line}\n  return <p>{{String(typeof all)}} {seed}-{number}</p>;\n}}\n"
        if name == "a crowd":
            source = source.replace("{String(typeof all)}", "{all}")
        yield Candidate(f"hostile page: {name}", source, "ok", page)
