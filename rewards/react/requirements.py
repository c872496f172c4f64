"""What a task asks of a mounted page, as a record that a machine can check.

In a rollout's reference, under `page`, each part optional:

    {"texts": ["Total"],                                  can be seen once the page has come to rest
     "roles": [{"role": "button", "name": "Add"}],        stands there, with such a name
     "steps": [{"do": [{"fill": {"role": "textbox", "name": "Item"}, "with": "milk"},
                       {"click": {"role": "button", "name": "Add"}}, {"press": "Enter"}],
                "then": {"texts": ["milk"], "roles": [], "gone": ["Nothing yet"]}}]}

Texts and names are parts of what is there, in any case, blanks as one. Roles are ARIA's. Steps go
on from each other; one is met if nothing stood in its way and `then` holds after it but not before.
Beside it `elements`, the tags of `react.complete`'s reference, are asked of the page as well. Each
text, role, step and tag is one requirement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from botgrpo.rewards.base import Rollout
from botgrpo.rewards.react.complete import checks_of
from botgrpo.sandbox.errors import ConfigError
from botgrpo.sandbox.inspection import KEYS, Action, Inspection, State, Wish

_MOST = 20  # of each kind; of steps and of a step's actions 8, since each costs a browser's time
_MOST_STEPS = 8
_LONGEST = 200
_ROLE = re.compile("[a-z]{1,30}")
_SAME_ROLE = {"img": "image"}  # as Chromium calls it


@dataclass(frozen=True, slots=True)
class Expected:
    """What one moment must show: texts, (role, name) pairs, and texts that must not be there."""

    texts: tuple[str, ...] = ()
    roles: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()

    def holds(self, state: State) -> bool:
        """Whether all of it does; never for a state that a problem hides."""
        return not state.problem and (
            all(_shows(state, text) for text in self.texts)
            and all(_stands(state, *role) for role in self.roles)
            and not any(_shows(state, text) for text in self.gone)
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What a user does, and what must come of it."""

    actions: tuple[Action, ...]
    then: Expected


@dataclass(frozen=True, slots=True)
class Requirements:
    """All that one task asks of its page."""

    elements: tuple[str, ...] = ()
    at_rest: Expected = Expected()
    steps: tuple[Step, ...] = ()

    def wish(self) -> Wish:
        """What the browser has to find out."""
        return Wish(bool(self.at_rest.roles or self.steps), tuple(s.actions for s in self.steps))

    def unmet(self, seen: Inspection) -> tuple[list[str], int]:
        """(the requirements that are not met, in words; how many there are)."""
        asked = [(f"<{tag}>", bool(seen.tags.get(tag))) for tag in self.elements]
        asked += [(f'text "{text}"', _shows(seen.now, text)) for text in self.at_rest.texts]
        asked += [
            (_worded(role, name), _stands(seen.now, role, name))
            for role, name in self.at_rest.roles
        ]
        before = seen.now
        for number, step in enumerate(self.steps):
            after = seen.states[number] if number < len(seen.states) else State(problem="not done")
            met = step.then.holds(after) and not step.then.holds(before)
            asked.append((f"step {number + 1}" + f" ({after.problem})" * bool(after.problem), met))
            before = before if after.problem else after
        return [words for words, met in asked if not met], len(asked)


def requirements_of(rollout: Rollout) -> Requirements:
    """Those in a rollout's reference. Raises ConfigError, which names the part that is wrong."""
    page = rollout.reference.get("page", {})
    elements = checks_of(rollout).elements
    try:
        _keys(page, "page", "texts", "roles", "steps")
        steps = _list(page.get("steps", ()), "steps", _MOST_STEPS)
        at_rest = Expected(_texts(page, "texts"), _roles(page))
        return Requirements(elements, at_rest, tuple(map(_step, steps)))
    except ConfigError as error:
        raise ConfigError(f"reference of {rollout.id!r}: {error}") from None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shows(state: State, text: str) -> bool:
    return _plain(text) in _plain(state.text)


def _stands(state: State, role: str, name: str) -> bool:
    return any(role == r and _plain(name) in _plain(n) for r, n in state.roles)


def _worded(role: str, name: str) -> str:
    return f'{role} "{name}"' if name else role


def _step(entry: Any) -> Step:
    _keys(entry, "steps", "do", "then")
    then = entry.get("then")
    _keys(then, "then", "texts", "roles", "gone")
    expected = Expected(_texts(then, "texts"), _roles(then), _texts(then, "gone"))
    if expected == Expected():
        _wrong("then", then, "a text, a role or a text that is gone")
    actions = tuple(map(_action, _list(entry.get("do"), "do", _MOST_STEPS)))
    if not actions:
        _wrong("do", entry.get("do"), "at least one action")
    return Step(actions, expected)


def _action(entry: Any) -> Action:
    _keys(entry, "do", "click", "fill", "with", "press")
    match sorted(entry):
        case ["click"]:
            return Action("click", *_role(entry["click"]))
        case ["fill", "with"]:
            return Action("fill", *_role(entry["fill"]), text=_text(entry["with"], "with"))
        case ["press"] if entry["press"] in KEYS:
            return Action("press", text=entry["press"])
    _wrong("do", entry, f"click, fill and with, or press with one of {', '.join(KEYS)}")


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = tuple(_text(each, key) for each in _list(entry.get(key, ()), key, _MOST))
    if not all(map(_plain, found)):
        _wrong(key, entry[key], "texts that are not empty")
    return found


def _roles(entry: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(map(_role, _list(entry.get("roles", ()), "roles", _MOST)))


def _role(entry: Any) -> tuple[str, str]:
    _keys(entry, "roles", "role", "name")
    role = _text(entry.get("role"), "role")
    if not _ROLE.fullmatch(role):
        _wrong("role", role, "an ARIA role such as button")
    return _SAME_ROLE.get(role, role), _text(entry.get("name", ""), "name")


def _list(value: Any, key: str, most: int) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or len(value) > most:
        _wrong(key, value, f"a list of at most {most}")
    return value


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        _wrong(key, value, f"text of at most {_LONGEST} characters")
    return value


def _keys(value: Any, key: str, *allowed: str) -> None:
    if not isinstance(value, Mapping) or not set(value) <= set(allowed):
        _wrong(key, value, f"an object with the keys {', '.join(allowed)}")


def _wrong(key: str, got: object, allowed: str) -> NoReturn:
    shown = repr(got)
    raise ConfigError(f"got {key} = {shown[:80]}{'...' * (len(shown) > 80)}; allowed: {allowed}")
