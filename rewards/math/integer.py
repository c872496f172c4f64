r"""An answer of a competition that asks for an integer 0..999, read exactly and without a CAS.

What is dropped is dress: `$`, spacing, `\text{}`, brackets, degrees and other units, a full stop,
"the answer is" or `n =` before the number, `\pmod{1000}` after it. What must be left is the number
itself: `64+37`, `\frac{408}{2}` and `2.04 \times 10^2` still have to be worked out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from string import ascii_letters

from botgrpo.rewards.math.verdict import CORRECT, Judged, quoted

LARGEST = 999
_LONGEST = 300  # code points; what is longer is no number in its dress
_LAYERS = 10

_SIGNS = {**dict.fromkeys("−﹣－", "-"), "＋": "+", "．": ".", "，": ",", "＝": "=", "°": r"^\circ"}
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
_SPACING = re.compile(
    r"(?:\\(?:[,;:! ()\[\]$]|(?:displaystyle|left|right|q?quad|thinspace)(?![A-Za-z]))|[\s$~*])+"
)
_WRAPPED = re.compile(
    r"(?:\\(?:text\w{0,2}|math\w{2}|mbox|boxed|fbox|boldsymbol|underline))?\s*\{(.*)\}|\((.*)\)",
    re.DOTALL,
)
_LEAD = re.compile(r"(?:the )?(?:final )?answer(?: is)?[ :=]*", re.IGNORECASE)
_MODULUS = re.compile(r"\\pmod\s*\{?\s*1000\s*\}?\Z|\(?\s*\\?b?mod\s*\{?\s*1000\s*\}?\s*\)?\Z")
_DEGREES = re.compile(r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?\Z|\\degree\Z")
_UNIT = re.compile(
    r"degrees?|square|sq|cubic|units?|ways|[mck]m|inch(es)?|foot|feet|ft|miles?|met(er|re)s?|"
    r"days?|hours?|minutes?|seconds?"
)
_DRESSED_UNIT = re.compile(r"\\(?:text|mathrm|mbox|rm)\s*\{([A-Za-z .]*)\}\s*(?:\^\{?[23]\}?)?\Z")
_NUMBER = re.compile(r"([+-]?) *([0-9]+)(?:\.([0-9]*))?")
GROUPED = re.compile(
    r"[+-]?[1-9][0-9]{0,2}(?:(?:,|\{,\}) *[0-9]{3})+|[1-9][0-9]{0,2}(?: [0-9]{3})+"
)


def judge_integer(text: str, accepted: Collection[int]) -> Judged:
    """The verdict on an answer where one of the integers `accepted` is right.

    Never raises, linear in the text.
    """
    plain = text.strip("$ ").rstrip(".")
    if len(plain) <= 3 and plain.isdecimal():
        return _compared(int(plain), accepted)
    if len(text) > _LONGEST:
        return Judged("invalid", f"{len(text)} characters are no integer 0..{LARGEST}")
    bare = _undress(_ascii(text))
    if not bare:
        return Judged("unparsed", "an empty answer")
    if GROUPED.fullmatch(bare):
        bare = re.sub(r"[^0-9+-]", "", bare)
    number = _NUMBER.fullmatch(bare)
    if number is None:
        return Judged("invalid", f"{quoted(text)} is not the number itself")
    sign, whole, fraction = number.groups()
    if (fraction or "").strip("0"):
        return Judged("invalid", f"{quoted(text)} is not an integer")
    digits = whole.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST)) or (sign == "-" and digits != "0"):
        return Judged("invalid", f"{quoted(text)} lies outside 0..{LARGEST}")
    return _compared(int(digits), accepted)


def _compared(value: int, accepted: Collection[int]) -> Judged:
    if value in accepted:
        return CORRECT
    return Judged("wrong", f"{value}, accepted: {', '.join(map(str, sorted(accepted)))}")


def _ascii(text: str) -> str:
    """The same with decimal digits of any script and signs that look alike written in ASCII."""
    if text.isascii():
        return text
    text = text.translate(_INVISIBLE)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else _SIGNS.get(c, c) for c in text)


def _undress(text: str) -> str:
    """What is left without the dress."""
    for _ in range(_LAYERS):
        before = text
        text = _SPACING.sub(" ", text).strip()
        text = _value_side(_LEAD.sub("", text, count=1) if _LEAD.match(text) else text)
        wrapped = _WRAPPED.fullmatch(text)
        if wrapped is not None:
            text = wrapped[1] if wrapped[1] is not None else wrapped[2]
        for suffix in (_MODULUS, _DEGREES):
            text = suffix.sub("", text)
        text, _ = split_unit(text)
        if text.endswith(".") and text[:-1].strip():
            text = text[:-1]
        text = text.strip()
        if text == before:
            break
    return text


def _value_side(text: str) -> str:
    r"""The right side of `name = value`; anything else as it is.

    The left side has to hold a letter: of `203 = 204` no side is the answer.
    """
    left, sign, right = text.replace(r"\equiv", "=").partition("=")
    named = re.search("[A-Za-z]", left) and not re.search(r"[,;<>!]", left)
    return right if sign and named and "=" not in right else text


def split_unit(text: str) -> tuple[str, str]:
    """(`text` without the known units after its number, those units); other words stay."""
    dressed = _DRESSED_UNIT.search(text)
    rest = text.rstrip(ascii_letters + ". ") if dressed is None else text[: dressed.start()]
    words = (text[len(rest) :] if dressed is None else dressed[1]).lower().replace(".", " ").split()
    known = rest and words and all(map(_UNIT.fullmatch, words))
    return (rest, " ".join(words)) if known else (text, "")
