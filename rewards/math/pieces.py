r"""A step's text, masked and cut into pieces: numbers, words, operators, signs.

*Masking* keeps every place: code points that only dress a formula (`$`, `\(`, bold marks, bullets)
become blanks, and words that mean a sign ("equals", "modulo") become that sign, one for one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from botgrpo.rewards.math.tokens import FUNCTIONS


class Piece(NamedTuple):
    """`kind` is num, letter, word, func, op, sign, text, cut or line."""

    kind: str
    text: str
    start: int
    end: int


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


_WORD_SIGNS = {
    "equals": "=",
    "equal": "=",
    "simplifies": "≐",
    "congruent": "≡",
    "modulo": "mod",
    "divides": "∣",
    "divisible": "⋮",
    "multiple": "⋮",
    "factor": "∣",
    "divisor": "∣",
}
_PHRASE = re.compile(
    r"\b(?:(?:which|that)\s+)?(?:is\s+|are\s+)?(?:"
    r"(?P<a>equals|divides|equal\s+to|simplifies\s+to|congruent\s+to|divisible\s+by"
    r"|(?:a\s+)?(?:multiple|factor|(?<!common )divisor)\s+of)|"
    r"(?P<b>modulo))(?=\s)"
)
_DRESS = re.compile(
    r"\\\$|\$|\\[()\[\]]|\\(?:displaystyle|textstyle|left(?=[.\s])|right(?=[.\s]))(?![A-Za-z])"
    r"|\\(?:begin|end)\{(?:align|aligned|equation|gather|split|cases)\*?\}|&|(?<!\S)\*\*(?=\S)"
    r"|(?<=\S)\*\*(?!\S)|(?<=\S)\*\*(?=[.,;:)])|`|\\tag\{[^{}]{0,20}\}|\\label\{[^{}]{0,40}\}"
)
# Two formulas side by side are two: a semicolon cuts them.
_ADJACENT = re.compile(r"\$(?=\s{0,9}\$)|\\\)(?=\s{0,9}\\\()|\\\](?=\s{0,9}\\\[)")
_BULLET = re.compile(r"^[ \t]*(?:[-*•–]\s+|\(?[0-9]{1,3}[.)]\s+|\([a-z]\)\s+)", re.MULTILINE)
_OF = re.compile(r"(?<=[%0-9}])(?:\s|\\)+of(?=\s+(?:the\s+)?\$?[0-9(\\])")
_STARRED = re.compile(r"\\\*")


def mask(text: str) -> str:
    """The text, one code point for one, with dress blanked and words for signs replaced."""
    text = _BULLET.sub(_blank, text)
    text = _STARRED.sub(" *", text)
    text = _ADJACENT.sub(lambda m: ";".ljust(len(m[0])), text)
    text = _DRESS.sub(_blank, text)
    text = _PHRASE.sub(_sign_for_phrase, text)
    return _OF.sub(lambda m: "*".center(len(m[0])), text)


def _sign_for_phrase(match: re.Match[str]) -> str:
    word = (match["a"] or match["b"]).removeprefix("a ").split()[0]
    return _WORD_SIGNS[word].ljust(len(match[0]))


_PIECE = re.compile(
    r"""
    (?P<space> [^\S\n]+ | ~ )
  | (?P<num> [0-9]{1,3} (?: (?: , | \{,\} | \\, | ,\\! ) [0-9]{3} )+ (?![0-9]) (?: \.[0-9]+ )?
           | [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ )
  | \\(?P<text> (?:text|textrm|textbf|textit|mathrm|mathbf|operatorname|mbox)\s*\{ [^{}\\]* \} )
  | (?P<word> [A-Za-z]+ (?: ['’][a-z]{1,2} (?![A-Za-z]) )? )
  | (?P<line> \\\\ (?: \[[^\]\n]{0,9}\] )? | \n )
  | (?P<cmd> \\(?: [A-Za-z]+ | [^A-Za-z\n] ) )
  | (?P<sign> <= | >= | != | == | [=≠<>≤≥≈≡∣⋮≐] )
  | (?P<op> \.\.\. | … | [:](?=[0-9]) | [.](?=\\)
          | [-+*/^!%°_(){}\[\]|±√∑∏⌊⌋⌈⌉∪∞#@⊕⊗⊙∘★△∇⋆◊−–×·⋅∗✕÷∕⁄⁰¹²³⁴⁵⁶⁷⁸⁹⁻'′] )
  | (?P<greek> [\u0370-\u03ff] )
  | (?P<cut> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SIGN_OF = {"<=": "≤", ">=": "≥", "!=": "≠", "==": "="}
_COMMAND_SIGNS = {
    **dict.fromkeys((r"\le", r"\leq", r"\leqslant"), "≤"),
    **dict.fromkeys((r"\ge", r"\geq", r"\geqslant"), "≥"),
    **dict.fromkeys((r"\ne", r"\neq"), "≠"),
    **dict.fromkeys((r"\approx", r"\simeq", r"\thickapprox"), "≈"),
    **dict.fromkeys((r"\mid", r"\divides"), "∣"),
    r"\equiv": "≡",
    r"\lt": "<",
    r"\gt": ">",
}
_CUTS = (
    "implies Rightarrow rightarrow to Longrightarrow iff in Leftrightarrow therefore because land "
    "lor quad qquad hline item forall exists subset subseteq notin"
)
_CUTTING = frozenset("\\" + name for name in _CUTS.split())
_SPACES = frozenset((r"\,", r"\;", r"\!", r"\:", r"\ ", r"\left", r"\right", r"\big", r"\Big"))
# Words of two or three letters that are no products of letters.
_SHORT = (
    "a i is it to of so we in on at by an as be or if no do up us he me my go am pm the and for "
    "are was has its one two six ten per sum now get let all can how who but not you our out see "
    "say use any may had him her she did due yes too via add set put cm mm km kg ft mph lb oz hr "
    "min sec ml mi yd day way men mod gcd lcm new old top end odd age each cup box red row day"
)
_NO_PRODUCT = frozenset(_SHORT.split())
MAX_PIECES = 3000  # of one step; what follows is not read


def cut_pieces(masked: str, start: int, end: int) -> list[Piece]:
    pieces: list[Piece] = []
    for match in _PIECE.finditer(masked, start, end):
        kind = match.lastgroup or "cut"
        if kind == "space":
            continue
        text = match[0]
        if kind == "cmd":
            if text in _SPACES:
                continue
            kind = "sign" if text in _COMMAND_SIGNS else "cut" if text in _CUTTING else "op"
            text = _COMMAND_SIGNS.get(text, text)
        elif kind == "sign":
            text = _SIGN_OF.get(text, text)
        elif kind == "greek":
            kind = "letter"
        elif kind == "word":
            kind = _word_kind(masked, match)
        pieces.append(Piece(kind, text, match.start(), match.end()))
        if len(pieces) >= MAX_PIECES:
            break
    return pieces


def _word_kind(masked: str, match: re.Match[str]) -> str:
    word = match[0]
    if len(word) == 1:
        return "letter"
    lower = word.lower()
    if lower in FUNCTIONS or lower == "mod":
        return "func"
    if lower == "pi":
        return "letter"
    if len(word) <= 3 and lower not in _NO_PRODUCT and word.isalpha():
        return "letters"
    return "word"
