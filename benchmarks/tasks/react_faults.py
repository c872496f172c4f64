"""Faults that one line of a clean React file can carry; every single one breaks the build.

A rule is a kind, a pattern and a replacement. No two faults may make up for each other (`return`
without its parenthesis and `;` for `);` together would be valid), so that a file compiles exactly
when it has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Fault:
    """A line with a fault.

    Attributes:
        kind: name of the rule.
        line: what stands there in place of the clean line.
        rename: (old, new) identifier to replace in the whole file, so that a misspelt import is
            really used: TypeScript drops an import that nobody uses, and its fault with it.
    """

    kind: str
    line: str
    rename: tuple[str, str] | None = None


OTHER_TAG = {
    "h1": "h2",
    "h2": "h3",
    "h3": "h2",
    "p": "span",
    "span": "p",
    "strong": "small",
    "small": "strong",
    "em": "strong",
    "button": "nav",
    "ul": "li",
    "li": "ul",
    "ol": "li",
    "a": "span",
    "td": "tr",
    "tr": "td",
    "table": "td",
    "nav": "button",
    "time": "span",
    "form": "div",
    "div": "p",
    "section": "div",
    "main": "div",
    "article": "section",
    "aside": "main",
}
HOOKS = {"useState": "useStat", "useEffect": "useEffects", "useRef": "useReference"}
PACKAGES = ("react-hooks", "react-state")

RULES: tuple[tuple[str, str, str], ...] = (
    ("export_dropped", r"^export default function", "function"),
    ("brace_missing", r"^(export default function \w+\(\{ .*) \}\) \{$", r"\1 ) {"),
    ("paren_missing", r"^(export default function \w+\(.*)\) \{$", r"\1 {"),
    ("brace_missing", r"^import \{ (.*) \} from", r"import { \1 from"),
    ("quote_missing", r'from "react";$', 'from "react;'),
    ("quote_missing", r'="(\w+)"', r'="\1'),
    ("equals_missing", r'className="', 'className"'),
    ("equals_missing", r"onClick=\{", "onClick{"),
    ("equals_missing", r"^( *const [^=]*) = ", r"\1 "),
    ("arrow_broken", r"\(\) =>", "() ="),
    ("paren_missing", r"\((\w+)\) =>", r"(\1 =>"),
    ("bracket_missing", r"\] = ", " = "),
    ("bracket_missing", r"\];$", ";"),
    ("paren_missing", r"\(([^()]*)\);$", r"(\1;"),
    ("paren_doubled", r"\(([^()]*)\);$", r"(\1));"),
    ("paren_swapped", r"return \($", "return {"),
    ("paren_swapped", r"^( *)\);$", r"\1};"),
    ("paren_doubled", r"^( *)\);$", r"\1));"),
    ("paren_swapped", r"^( *)\)\)\}$", r"\1)}"),
    ("const_reassigned", r"\((count|tab|value|now) \+ ", r"(\1 += "),
    ("const_reassigned", r"\(!open\)", "(open = !open)"),
    ("brace_missing", r"\{(\w+)\}</", r"{\1</"),
    ("brace_doubled", r"\{(\w+)\}</", r"{\1}}</"),
    ("brace_missing", r"=\{(\w+)\}", r"={\1"),
    ("brace_doubled", r"^\}$", "}}"),
    ("brace_swapped", r"^\}$", ")"),
    ("brace_swapped", r"^  \}$", "  )"),
    ("brace_swapped", r"^  \}, \[", "  ), ["),
    ("brace_missing", r"^(  function .*\)) \{$", r"\1"),
    ("tag_unclosed", r"</(\w+)>$", r"<\1>"),
    ("slash_missing", r" />$", ">"),
    ("angle_missing", r"^( *<\w+)>", r"\1 "),
)


@lru_cache(maxsize=65536)
def faults(line: str) -> tuple[Fault, ...]:
    """Every fault that a clean `line` can carry, in a fixed order; () for a line without a site."""
    found = [
        Fault(kind, re.sub(pattern, new, line, count=1))
        for kind, pattern, new in RULES
        if re.search(pattern, line)
    ]
    if closing := re.search(r"</(\w+)>$", line):
        other = OTHER_TAG.get(closing.group(1), "div")
        found.append(Fault("tag_mismatch", line[: closing.start()] + f"</{other}>"))
    if line.startswith("import "):
        found += [
            Fault("hook_misspelt", line, (good, bad)) for good, bad in HOOKS.items() if good in line
        ]
        found += [Fault("package_unknown", line.replace('"react"', f'"{p}"')) for p in PACKAGES]
    return tuple(found)
