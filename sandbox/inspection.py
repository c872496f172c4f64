"""What a mounted page looks like and how it answers: facts for a caller who asks for them.

The page's code does not run while it is looked at. What is drawn comes from Chromium's own snapshot
of boxes and from two pictures, one without text; roles and names from its accessibility tree;
contrast and further rules from axe-core, in a world of its own. A page that replaces its globals,
or has fields named like a form's properties, changes no fact. It can move its own blame, though:
where an element was written is said by an attribute that the page may rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from botgrpo.sandbox.replies import plain, whole

CHECKS = ("text", "contrast", "names", "overflow", "clipping", "overlap")
_ARROWS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")
KEYS = ("Enter", "Escape", "Tab", "Space", "Backspace", "Delete", "Home", "End", *_ARROWS)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a user does: `click` or `fill` an element, or `press` a key.

    Attributes:
        kind: see above.
        role, name: the element; the name is a part of its accessible name, in any case.
        text: what is filled in, or the key, one of `KEYS`.
    """

    kind: Literal["click", "fill", "press"]
    role: str = ""
    name: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to find out: roles and names if `roles`, and the states after each step of actions."""

    roles: bool = False
    steps: tuple[tuple[Action, ...], ...] = ()

    def request(self) -> dict[str, Any]:
        """As the worker gets it."""
        return {"roles": self.roles, "steps": [[asdict(a) for a in step] for step in self.steps]}


@dataclass(frozen=True, slots=True)
class Blemish:
    """One fault; `place` is the line from 1 and the column from 1, in UTF-16 units, of the `<`
    that opens the element in the source, or of the nearest one around it; None if none is known."""

    message: str
    place: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Check:
    """Of `total` things looked at `bad` are at fault; the first 30 are told one by one."""

    bad: int
    total: int
    blemishes: tuple[Blemish, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """What is there at one moment: the text that can be seen, (role, name) of what stands there.

    `problem` says what stood in a step's way; then nothing else is known of it.
    """

    text: str = ""
    roles: tuple[tuple[str, str], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """All of one page.

    Attributes:
        complete: False for a page of more than 3,000 elements, or of more than 500 in each other:
            nothing else is known of it.
        now: once the page has come to rest.
        tags: HTML tag to the number of its elements that take part in the layout.
        checks: for each of `CHECKS`. text: stretches that show nothing, or are set under 9 px (a
            page without any has 1 of 1); contrast, names: axe-core's; overflow: 1 of 1 where the
            page scrolls sideways; clipping: stretches cut through; overlap: elements in each
            other's way.
        states: after each step of the wish.
    """

    complete: bool
    now: State = State()
    tags: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)
    states: tuple[State, ...] = ()


def read(reply: Mapping[str, Any]) -> Inspection:
    """The worker's answer. Raises KeyError, TypeError or ValueError for one of another form."""
    if reply["complete"] is not True:
        return Inspection(False)
    return Inspection(
        True,
        State(plain(reply["text"]), _roles(reply["roles"])),
        {plain(tag): whole(count) for tag, count in reply["tags"]},
        {name: _check(reply["checks"][name]) for name in CHECKS},
        tuple(
            State(plain(state["text"]), _roles(state["roles"]), plain(state["problem"]))
            for state in reply["states"]
        ),
    )


def _roles(entries: Any) -> tuple[tuple[str, str], ...]:
    return tuple((plain(entry["role"]), plain(entry["name"])) for entry in entries)


def _check(entry: Mapping[str, Any]) -> Check:
    bad, total = whole(entry["bad"]), whole(entry["total"])
    if bad > total:
        raise ValueError("more at fault than looked at")
    return Check(bad, total, tuple(map(_blemish, entry["findings"])))


def _blemish(entry: Mapping[str, Any]) -> Blemish:
    line, _, column = plain(entry["place"] or "").partition(":")
    known = line.isdecimal() and column.isdecimal() and len(line) < 8 and len(column) < 8
    return Blemish(plain(entry["message"]), (int(line), int(column)) if known else None)
