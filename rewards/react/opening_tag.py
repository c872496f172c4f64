"""Where a JSX element's opening tag ends, without a parser; linear."""

from __future__ import annotations

import re

_NAME = re.compile(r"<[A-Za-z_$][\w$.:-]*")
_LONGEST = 2000
# What may hold a bracket or an angle that is none: text in quotes on one line, comments, an arrow.
_SKIPPED = re.compile(r'"[^"\n\r]*"|\'[^\'\n\r]*\'|`(?:[^`\\]|\\[\s\S])*`|/\*[\s\S]*?\*/|=>|[{}>]')


def opening_tag(text: str, start: int) -> tuple[int, int] | None:
    """[start, end) of the opening tag whose `<` is at `start`, in code points; None if none is.

    A tag whose end is not found within 2,000 characters is its name alone.
    """
    name = _NAME.match(text, start)
    if name is None:
        return None
    depth = 0
    for found in _SKIPPED.finditer(text, name.end(), name.end() + _LONGEST):
        match found[0]:
            case "{":
                depth += 1
            case "}":
                depth -= 1
            case ">" if depth == 0:
                return start, found.end()
        if depth < 0:
            break
    return start, name.end()
