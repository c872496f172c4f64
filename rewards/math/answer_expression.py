r"""An answer that is an expression: the same words, or the same value by our own exact arithmetic.

What neither our grammar reads nor our arithmetic decides stays open (None); the caller may ask a
library, in a process of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from botgrpo.rewards.math.equality import equal
from botgrpo.rewards.math.expression import parse
from botgrpo.rewards.math.integer import GROUPED, split_unit
from botgrpo.rewards.math.tree import Budget, Expr, OverBudget, ParseError, Text
from botgrpo.rewards.math.verdict import CORRECT, Judged, quoted

LONGEST = 2000  # code points of an answer that is looked at
_TEXT = re.compile(r"\\(?:text\w{0,2}|mathrm|mathbf|mbox)\s*\{([^{}\\]*)\}")
_DRESS = re.compile(r"\\[()\[\]]|\\?\$|\\(?:displaystyle|left|right)(?![A-Za-z])|\.\s*\Z")
_BOLD = re.compile(r"\s*\*\*(.*)\*\*\s*", re.DOTALL)
_BLANK = r"(?:(?<!\\)\\[,;:! ]|[\s~])+"
_SPACE = re.compile(rf"(?<![0-9]){_BLANK}|{_BLANK}(?![0-9])")  # "2 3" is not 23
_CIRCULAR = re.compile("sin|cos|tan|cot|sec|csc")  # there a degree sign changes the value
_DEGREES = re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\}|\\degree)|\\degree|°")
_MEMBER = re.compile(r"\A[A-Za-z]\s*\\in(?![A-Za-z])")
_UNIT = re.compile(
    r"\\(?:text|textrm|mathrm|mbox)\s*\{(?!\s*(?:hundred|thousand|[mb]illion|dozen|percent))"
    r"\s*([A-Za-z][A-Za-z .]*)\}(?:\s*\^\{?[23]\}?)?\s*\Z"
)
_WORDS = re.compile(r"\s*[A-Za-z]+(?:[\s.,;:'’!?-]+[A-Za-z]+)*\s*[.!?]?\s*")
_LABEL = re.compile(
    r"[A-Za-z]|[0-9]{1,2}:[0-9]{2}"
)  # a choice or a time: one only if written alike
_CODE = re.compile(r"__|[\"`@#]|\(\s*'|\bimport\b|\.[A-Za-z_]+\(")
_SET = re.compile(r"\{([^{}]*)\}")
_REPEATING = re.compile(r"([0-9]{0,20})\.([0-9]{0,20})\\(?:overline|bar) ?\{([0-9]{1,20})\}")
_NAMED = re.compile(
    r"(\A|[,;]|\\(?:text|mbox)\{\s*(?:or|and)\s*\}|\b(?:or|and)\b)\s*[A-Za-z](?:_\w)?\s*=\s*"
)


def judge_expression(text: str, accepted: Sequence[str]) -> Judged | None:
    """The verdict on an answer where one of the expressions `accepted` is right; None is open.

    Never raises; bounded by counted operations.
    """
    if len(text) > LONGEST:
        return Judged("budget", f"an answer of {len(text)} characters")
    if (bold := _BOLD.fullmatch(text)) is not None:
        text = bold[1]
    literal = _literal(text)
    if not literal.strip("{}"):
        return Judged("unparsed", "an empty answer")
    if any(literal == _literal(gold) for gold in accepted):
        return CORRECT
    difference = f"{quoted(text)}, accepted: {', '.join(map(quoted, accepted))}"
    if all(map(_LABEL.fullmatch, (literal, *map(_literal, accepted)))):
        return Judged("wrong", difference)
    if _CODE.search(text) is not None or not _balanced(text):
        return Judged("invalid", f"{quoted(text)} is no expression")
    words = _is_words(text)
    if words or all(map(_is_words, accepted)):
        return Judged("wrong" if words and any(map(_is_words, accepted)) else "invalid", difference)
    results: list[bool | None] = []
    too_much = ""
    for gold in accepted:
        try:
            results.append(_same(text, gold))
        except OverBudget as error:
            too_much = f"{quoted(text)}: {error}"
    if True in results:
        return CORRECT
    if too_much:
        return Judged("budget", too_much)
    return None if None in results else Judged("wrong", difference)


def _same(text: str, gold: str) -> bool | None:
    """Whether both are one value; None where one is unreadable or it cannot be told."""
    (bare, unit), (gold_bare, gold_unit) = _bare(text), _bare(gold)
    if ("=" in bare) != ("=" in gold_bare):
        bare, gold_bare = _NAMED.sub(r"\1", bare), _NAMED.sub(r"\1", gold_bare)
    answer, wanted = _read(bare), _read(gold_bare)
    if answer is None or wanted is None or (unit and gold_unit and unit != gold_unit):
        return None
    return equal(wanted, answer, Budget())


@lru_cache(maxsize=1024)
def _read(text: str) -> Expr | None:
    try:
        return parse(text, budget=Budget())
    except ParseError:
        return None


def _bare(text: str) -> tuple[str, str]:
    """(the expression without dress, degrees and unit, the unit)."""
    text = _MEMBER.sub("", " ".join(_DRESS.sub(" ", text).split()))
    if _CIRCULAR.search(text) is None:
        text = _DEGREES.sub("", text).strip()
    bare, unit = split_unit(_REPEATING.sub(_repeating, text))
    if not unit and (named := _UNIT.search(text)) is not None and named.start() > 0:
        bare, unit = text[: named.start()], named[1].lower().strip()
    if GROUPED.fullmatch(bare):
        bare = re.sub("[^0-9+-]", "", bare)
    elif (braced := _SET.fullmatch(bare)) is not None:
        bare = braced[1]
    return bare, unit


def _repeating(decimal: re.Match[str]) -> str:
    """0.1(6) as a quotient of whole numbers."""
    whole, fixed, cycle = decimal.groups()
    top = int(whole + fixed + cycle) - int(whole + fixed or 0)
    return f"({top}/{(10 ** len(cycle) - 1) * 10 ** len(fixed)})"


def _literal(text: str) -> str:
    """What two answers share that are written alike; words regardless of case."""
    text = _SPACE.sub("", _TEXT.sub(r"\1", _DRESS.sub(" ", text))).rstrip(".")
    if len(text) == 3 and text[0] == "(" and text[2] == ")":  # a choice, (C)
        text = text[1]
    return text.casefold() if len(text) > 1 and text.isalpha() else text


def _balanced(text: str) -> bool:
    """As many brackets open as close, whatever their kind: [0, 1) is an interval."""
    return sum(map(text.count, "([{")) == sum(map(text.count, ")]}")) or r"\right." in text


def _is_words(text: str) -> bool:
    """Words where our grammar sees no formula: Sunday, no solution."""
    if _WORDS.fullmatch(_TEXT.sub(r"\1", _DRESS.sub("", text))) is None:
        return False
    try:
        tree = _read(text)
    except OverBudget:
        return False
    return tree is None or isinstance(tree, Text)
