"""Requests for small React components, clean files that fulfil them, and files with faults.

A *request* is a family (counter, list, ...), a component name, the kinds of element asked for and
0 to 2 props. `write` turns one into a clean file of about 14 lines; `corrupt` gives every line of
it the same chance of one fault, and each single fault breaks the build. A fixed hash decides which
requests are held out, so that training and evaluation cannot meet whatever seeds are used.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botgrpo.benchmarks.tasks.react_families import (
    DISPLAY,
    FAMILIES,
    LABELS,
    NAMES,
    NUMBERS,
    PROPS,
    ROOTS,
    Variant,
)
from botgrpo.benchmarks.tasks.react_faults import faults

HELD_OUT_ONE_IN = 8
MAX_ELEMENTS = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What a component has to be: the part of a prompt that can be checked.

    Attributes:
        family: a key of `FAMILIES`.
        name: name of the component.
        elements: kinds of HTML element it must hold, in the order in which a file opens them.
        props: names of the props that it takes and shows.
    """

    family: str
    name: str
    elements: tuple[str, ...]
    props: tuple[str, ...]

    @property
    def key(self) -> str:
        """The same text for the same request in every process and version."""
        return "|".join((self.family, self.name, ",".join(self.elements), ",".join(self.props)))

    @property
    def held_out(self) -> bool:
        """Whether the request belongs to evaluation (one in `HELD_OUT_ONE_IN`)."""
        digest = hashlib.sha256(self.key.encode()).digest()
        return int.from_bytes(digest[:4], "big") % HELD_OUT_ONE_IN == 0

    @property
    def prompt(self) -> str:
        *first, last = self.elements
        kinds = f"{', '.join(first)} and {last}" if first else last
        props = ", ".join(self.props) or "none"
        return f"Write a React {self.family} named {self.name} with {kinds}. Props: {props}."

    @property
    def reference(self) -> Mapping[str, Any]:
        """What `react.complete` checks: name, kinds of element, props."""
        return {"name": self.name, "elements": list(self.elements), "props": list(self.props)}


def draw_request(rng: random.Random, *, held_out: bool) -> Request:
    """A random request from the wished side of the split."""
    while True:
        request = _draw(rng)
        if request.held_out == held_out:
            return request


def requests(seed: int, *, held_out: bool) -> Iterator[Request]:
    """An endless stream of different requests; its first n are the same for every n."""
    rng = random.Random(f"requests/{seed}/{held_out}")
    seen: set[str] = set()
    while True:
        request = draw_request(rng, held_out=held_out)
        if request.key not in seen:
            seen.add(request.key)
            yield request


def write(request: Request, rng: random.Random) -> str:
    """A clean file that fulfils `request`; `rng` picks among its structures, texts and numbers."""
    family = FAMILIES[request.family]
    variant = rng.choice(family.variants)
    head = request.elements[: len(request.elements) - len(family.core)]
    # Without a root in the request the file is wrapped in a div, which nobody asked for.
    wrapped = head[0] in (*ROOTS, family.root)
    root, shown = (head[0], head[1:]) if wrapped else ("div", head)
    lines = [
        *_imports(variant),
        f"export default function {request.name}({_parameters(request.props)}) {{",
        *(f"  {line}" for line in variant.state),
        "  return (",
        f'    <{root} className="{request.family}"{variant.root}>',
    ]
    for line in variant.body:
        if line == "@":
            lines += [f"      {each}" for each in _display(shown, request.props)]
        else:
            lines.append(f"      {line}")
    lines += [f"    </{root}>", "  );", "}"]
    return _fill("\n".join(lines), rng) + "\n"


def outline(request: Request) -> str:
    """Only what a file copies from its request: the head and the kinds of element, in order.

    Text to learn copying on: in a whole file a tenth of the tokens is copied, here a quarter.
    """
    opened = "".join(f"\n      <{tag}>" for tag in request.elements)
    return f"export default function {request.name}({_parameters(request.props)}) {{{opened}"


def corrupt(source: str, rate: float, rng: random.Random) -> tuple[str, int]:
    """`source` with a fault on each of its sites with probability `rate`, and their number."""
    lines = source.split("\n")
    renamed: list[tuple[str, str]] = []
    count = 0
    for i, line in enumerate(lines):
        found = faults(line)
        if not found or rng.random() >= rate:
            continue
        fault = rng.choice(found)
        lines[i] = fault.line
        count += 1
        if fault.rename:
            renamed.append(fault.rename)
    text = "\n".join(lines)
    for old, new in renamed:
        text = re.sub(rf"\b{old}\b", new, text)
    return text, count


def sites(source: str) -> int:
    """How many lines of `source` can carry a fault."""
    return sum(bool(faults(line)) for line in source.split("\n"))


def fenced(source: str) -> str:
    """The file as a completion writes it."""
    return f"```tsx\n{source}```"


def _draw(rng: random.Random) -> Request:
    name = rng.choice(sorted(FAMILIES))
    family = FAMILIES[name]
    root = [family.root] if family.root else rng.choice(([], [rng.choice(ROOTS)]))
    room = MAX_ELEMENTS - len(family.core) - len(root)
    if room == 0:
        root, room = [], 1
    shown = rng.sample(DISPLAY, rng.randint(1, min(3, room)))
    props = rng.sample(PROPS, rng.choice((0, 1, 1, 2, 2)))
    return Request(name, rng.choice(NAMES), (*root, *shown, *family.core), tuple(props))


def _imports(variant: Variant) -> list[str]:
    if not variant.hooks:
        return []
    return [f'import {{ {", ".join(variant.hooks)} }} from "react";', ""]


def _parameters(props: Sequence[str]) -> str:
    return f"{{ {', '.join(props)} }}" if props else ""


def _display(shown: Sequence[str], props: Sequence[str]) -> list[str]:
    """One line for each element that only shows something: props first, else a text."""
    held: list[list[str]] = [[] for _ in shown]
    for i, prop in enumerate(props):
        held[min(i, len(shown) - 1)].append(f"{{{prop}}}")
    return [
        f"<{tag}>{' '.join(inner) or '%w'}</{tag}>" for tag, inner in zip(shown, held, strict=True)
    ]


def _fill(text: str, rng: random.Random) -> str:
    """Replace %w by a label and %n by a number, each drawn anew."""

    def pick(match: re.Match[str]) -> str:
        return rng.choice(LABELS if match.group() == "%w" else NUMBERS)

    return re.sub("%[wn]", pick, text)
