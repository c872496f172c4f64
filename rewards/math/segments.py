r"""From prose to stretches of mathematics: what to read, and what stands beside it.

The text is first *masked*: code points that only dress a formula (`$`, `\(`, bold marks, units)
become blanks, words that mean a sign ("equals", "modulo") become that sign, one for one, so that
every place stays what it was. Then it is cut wherever no formula goes on: at words, at
commas outside brackets, at the end of a sentence or of a line. Extraction decides how often a
refutation is right (see `claims.py`), so every doubtful edge is kept with the stretch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from botgrpo.rewards.math.tokens import FUNCTIONS

SIGNS = frozenset("=≠<>≤≥≈≡∣⋮≐")  # ⋮ "is divisible by", ≐ "is"


class Piece(NamedTuple):
    """`kind` is num, letter, word, func, op, sign, text, cut or line."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch [start, end) of the masked text with at least one sign outside brackets.

    Attributes:
        signs: (sign, start, end) of each, in order.
        before: the word right before it, lower case, or "".
        after: the word right after it.
        units: words that were blanked after a number, singular.
        joined: whether a comma, "or" or "and" and another value follow.
        text: the stretch with units blanked; its places are those of the stretch.
    """

    start: int
    end: int
    signs: tuple[tuple[str, int, int], ...]
    before: str
    after: str
    units: frozenset[str]
    joined: bool
    text: str


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


_WORD_SIGNS = {
    "equals": "=",
    "equal": "=",
    "simplifies": "=",
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
    r"(?P<a>equals|equal\s+to|simplifies\s+to|congruent\s+to|divisible\s+by"
    r"|(?:a\s+)?(?:multiple|factor|divisor)\s+of)|"
    r"(?P<b>modulo))(?=\s)"
)
_DRESS = re.compile(
    r"\\\$|\$|\\[()\[\]]|\\(?:displaystyle|textstyle|left(?=[.\s])|right(?=[.\s]))(?![A-Za-z])"
    r"|\\(?:begin|end)\{(?:align|aligned|equation|gather|split|cases)\*?\}|&|(?<!\S)\*\*(?=\S)"
    r"|(?<=\S)\*\*(?!\S)|(?<=\S)\*\*(?=[.,;:)])|`|\\tag\{[^{}]{0,20}\}|\\label\{[^{}]{0,40}\}"
)
_BULLET = re.compile(r"^[ \t]*(?:[-*•–]\s+|\(?[0-9]{1,3}[.)]\s+|\([a-z]\)\s+)", re.MULTILINE)
_OF = re.compile(r"(?<=[%0-9}])(?:\s|\\)+of(?=\s+(?:the\s+)?\$?[0-9(\\])")
_STARRED = re.compile(r"\\\*")


def mask(text: str) -> str:
    """The text, one code point for one, with dress blanked and words for signs replaced."""
    text = _BULLET.sub(_blank, text)
    text = _STARRED.sub(" *", text)
    text = _DRESS.sub(_blank, text)
    text = _PHRASE.sub(_sign_for_phrase, text)
    return _OF.sub(lambda m: "*".center(len(m[0])), text)


def _sign_for_phrase(match: re.Match[str]) -> str:
    word = (match["a"] or match["b"]).removeprefix("a ").split()[0]
    return _WORD_SIGNS[word].ljust(len(match[0]))


_PIECE = re.compile(
    r"""
    (?P<num> [0-9]{1,3} (?: (?: , | \{,\} | \\, | ,\\! ) [0-9]{3} )+ (?![0-9]) (?: \.[0-9]+ )?
           | [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ )
  | \\(?P<text> (?:text|textrm|textbf|textit|mathrm|mathbf|operatorname|mbox)\s*\{ [^{}\\]* \} )
  | (?P<word> [A-Za-z]+ (?: ['’][a-z]{1,2} (?![A-Za-z]) )? )
  | (?P<line> \\\\ (?: \[[^\]\n]{0,9}\] )? | \n )
  | (?P<cmd> \\(?: [A-Za-z]+ | [^A-Za-z\n] ) )
  | (?P<sign> <= | >= | != | == | [=≠<>≤≥≈≡∣⋮≐] )
  | (?P<op> \.\.\. | … | [:](?=[0-9]) | [.](?=\\)
          | [-+*/^!%°_(){}\[\]|±√∑∏⌊⌋⌈⌉∪∞−–×·⋅∗✕÷∕⁄⁰¹²³⁴⁵⁶⁷⁸⁹⁻'′] )
  | (?P<greek> [\u0370-\u03ff] )
  | (?P<space> [\s~] )
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
_OPEN, _CLOSE = "([", ")]"
_BINARY = frozenset("+-*/^−–×·⋅∗✕÷∕⁄±_") | {r"\cdot", r"\times", r"\div", r"\pm", r"\ast"}
# Words of two or three letters that are no products of letters.
_SHORT = (
    "a i is it to of so we in on at by an as be or if no do up us he me my go am pm the and for "
    "are was has its one two six ten per sum now get let all can how who but not you our out see "
    "say use any may had him her she did due yes too via add set put cm mm km kg ft mph lb oz hr "
    "min sec ml mi yd day way men mod gcd lcm new old top end odd age each cup box red row day"
)
_NO_PRODUCT = frozenset(_SHORT.split())
_STRUCTURE = (
    "and or of times more less than plus minus is are was were equals gives which so then we where "
    "with from by to for if since because as the a an this that it thus hence therefore when while "
    "but not be can has have had get gets only each every both all also into on at in out about "
    "divided multiplied squared cubed hundred thousand million billion percent choose factorial "
    "dozen over remainder"
)
_NO_UNIT = frozenset(_STRUCTURE.split())
MAX_PIECES = 4000  # of one step; what follows is not read


def segments(masked: str, start: int, end: int) -> list[Segment]:
    """The stretches of `masked[start:end]` that hold a sign, in order."""
    builder = _Builder(masked)
    pieces = _pieces(masked, start, end)
    builder.read(pieces)
    return builder.found


def _pieces(masked: str, start: int, end: int) -> list[Piece]:
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


class _Builder:
    """Walks over the pieces once; `open` are the pieces of the stretch that goes on."""

    def __init__(self, masked: str) -> None:
        self.masked = masked
        self.found: list[Segment] = []
        self.open: list[Piece] = []
        self.depth = 0
        self.units: set[str] = set()
        self.blanks: list[tuple[int, int]] = []
        self.before = ""
        self.last_word = ""
        self.listing = False

    def read(self, pieces: list[Piece]) -> None:
        i = 0
        while i < len(pieces):
            piece = pieces[i]
            following = pieces[i + 1] if i + 1 < len(pieces) else None
            if self.verb(piece, following):
                self.add(Piece("sign", "≐", piece.start, piece.end))
            elif piece.kind in ("word", "letters", "letter", "func") and not self.is_math(
                piece, following
            ):
                skipped = self.unit(pieces, i)
                if skipped:
                    i += skipped
                    continue
                self.close(piece.text.lower())
                self.last_word = piece.text.lower()
            elif piece.kind == "line":
                if self.goes_on(following):
                    self.blanks.append((piece.start, piece.end))
                else:
                    self.close("")
                    self.last_word = ""
            elif self.cuts(piece):
                self.close(piece.text if piece.text == "," else "")
                self.last_word = ""
            else:
                self.add(piece)
            i += 1
        self.close("")

    def verb(self, piece: Piece, following: Piece | None) -> bool:
        """Whether "is" stands between a formula and its value: 5^2 is 25."""
        if piece.text != "is" or not self.open or self.depth or following is None:
            return False
        last = self.open[-1]
        value = (
            following.kind == "num" or following.text in ("-", "−", "(") or "frac" in following.text
        )
        return value and (last.kind == "num" or last.text in (")", "}", "!"))

    def cuts(self, piece: Piece) -> bool:
        if piece.text in (")", "]") and not self.depth:
            return True
        return piece.kind == "cut" and not (piece.text in ",;" and self.depth)

    def add(self, piece: Piece) -> None:
        if not self.open:
            self.before = self.last_word
        if piece.kind == "sign" and self.depth:
            if self.in_braces():
                self.open.append(piece)
                return
            self.restart()
        self.open.append(piece)
        if piece.text in ("(", "[", "{"):
            self.depth += 1
        elif piece.text in (")", "]", "}") and self.depth:
            self.depth -= 1
        self.last_word = ""

    def in_braces(self) -> bool:
        """Whether a sign stands as in \\sum_{i=1}: inside a subscript's braces."""
        level = 0
        for piece in reversed(self.open):
            if piece.text in (")", "]", "}"):
                level += 1
            elif piece.text in ("(", "[", "{"):
                if level == 0:
                    return piece.text == "{"
                level -= 1
        return False

    def restart(self) -> None:
        """A sign inside a bracket: what stands in that bracket is a stretch of its own."""
        level = 0
        for i in range(len(self.open) - 1, -1, -1):
            text = self.open[i].text
            if text in (")", "]", "}"):
                level += 1
            elif text in ("(", "[", "{"):
                if level == 0:
                    inner = self.open[i + 1 :]
                    commas = [j for j, p in enumerate(inner) if p.kind == "cut"]
                    inner = inner[commas[-1] + 1 :] if commas else inner
                    self.open = self.open[:i]
                    self.depth = 0
                    self.close("(")
                    self.open, self.before = inner, ""
                    return
                level -= 1

    def is_math(self, piece: Piece, following: Piece | None) -> bool:
        nearby = following is not None and following.kind in ("op", "sign")
        if piece.kind == "letter":
            if piece.text not in ("a", "A", "I"):
                return True
            binary = self.open and (self.open[-1].text in _BINARY or self.open[-1].kind == "sign")
            glued = following is not None and (
                following.kind == "sign" or following.text in _BINARY or following.text == ")"
            )
            inside = bool(self.open) and self.open[-1].end == piece.start
            return bool(binary) or glued or inside
        if piece.kind == "func":
            return following is not None and (
                following.kind in ("num", "letter", "func") or following.text in "({_^\\" or nearby
            )
        if piece.kind == "letters":
            before = bool(self.open) and (
                self.open[-1].kind in ("sign", "op") or self.open[-1].end == piece.start
            )
            return before or nearby
        return False

    def unit(self, pieces: list[Piece], i: int) -> int:
        """How many words from i on are a unit: after a number and before an operator or a sign."""
        if not self.open or not (self.open[-1].kind == "num" or self.open[-1].text in (")", "}")):
            return 0
        words: list[str] = []
        while i + len(words) < len(pieces) and len(words) < 4:
            piece = pieces[i + len(words)]
            if piece.kind not in ("word", "letters", "letter"):
                break
            words.append(piece.text.lower())
        if not words or i + len(words) >= len(pieces):
            return 0
        following = pieces[i + len(words)]
        goes_on = following.kind == "sign" or following.text in _BINARY or following.text == ")"
        if not goes_on or any(w in _NO_UNIT and w != "per" for w in words):
            return 0
        first, last = pieces[i], pieces[i + len(words) - 1]
        self.blanks.append((first.start, last.end))
        self.units.add(words[0].rstrip("s") if len(words) == 1 else " ".join(words))
        return len(words)

    def goes_on(self, following: Piece | None) -> bool:
        """Whether a formula runs over the end of a line: an operator or sign on either side."""
        if following is None or not self.open:
            return False
        last = self.open[-1]
        return (
            following.kind == "sign"
            or last.kind == "sign"
            or last.text in _BINARY
            or following.text in _BINARY - set("-–*")
        )

    def close(self, after: str) -> None:
        """End the open stretch; `after` is the word or comma that ends it."""
        pieces, depth, units = self.open, self.depth, frozenset(self.units)
        self.open, self.depth, self.units = [], 0, set()
        while depth and pieces and pieces[-1].text in ("(", "["):
            pieces, depth = pieces[:-1], depth - 1
        if depth and pieces and pieces[0].text in ("(", "["):
            pieces = pieces[1:]
        signs = tuple((p.text, p.start, p.end) for p in _outer_signs(pieces))
        if pieces and not signs and self.listing and self.found:
            self.found[-1] = replace(self.found[-1], joined=True)
        if signs:
            start, end = pieces[0].start, pieces[-1].end
            text = self.unblanked(start, end)
            self.found.append(
                Segment(start, end, signs, self.before, after, units, after == "or", text)
            )
        self.listing = after in ("or", "and", ",") and bool(signs or (self.listing and not pieces))
        self.blanks.clear()

    def unblanked(self, start: int, end: int) -> str:
        text, at = "", start
        for first, last in self.blanks:
            if first >= at:
                text += self.masked[at:first] + " " * (last - first)
                at = last
        return text + self.masked[at:end]


def _outer_signs(pieces: list[Piece]) -> list[Piece]:
    signs, depth = [], 0
    for piece in pieces:
        if piece.text in ("(", "[", "{"):
            depth += 1
        elif piece.text in (")", "]", "}"):
            depth -= 1
        elif piece.kind == "sign" and depth <= 0:
            signs.append(piece)
    return signs
