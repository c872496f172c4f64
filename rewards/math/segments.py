"""From pieces to stretches of mathematics: what to read, and what stands beside it.

The text is cut wherever no formula goes on: at words, at commas outside brackets, at the end of a
sentence or of a line. Extraction decides how often a refutation is right (see `claims.py`), so
every doubtful edge is kept with the stretch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from botgrpo.rewards.math.pieces import Piece, cut_pieces
from botgrpo.rewards.math.tokens import FUNCTIONS

_BINARY = frozenset("+-*/^−–×·⋅∗✕÷∕⁄±_") | {r"\cdot", r"\times", r"\div", r"\pm", r"\ast"}
_WORDS = ("word", "letters", "letter", "func", "text")
_STRUCTURE = (
    "and or of times more less than plus minus is are was were equals gives which so then we where "
    "with from by to for if since because as the a an this that it thus hence therefore when while "
    "but not be can has have had get gets only each every both all also into on at in out about "
    "divided multiplied squared cubed hundred thousand million billion percent choose factorial "
    "dozen over remainder"
)
_NO_UNIT = frozenset(_STRUCTURE.split())


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


def segments(masked: str, start: int, end: int) -> list[Segment]:
    """The stretches of `masked[start:end]` that hold a sign, in order."""
    builder = _Builder(masked)
    pieces = cut_pieces(masked, start, end)
    builder.read(pieces)
    return builder.found


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
            elif piece.kind in _WORDS and not self.is_math(piece, following):
                skipped = self.unit(pieces, i)
                if skipped:
                    i += skipped
                    continue
                self.close(_bare(piece))
                applied = following is not None and following.text == "("
                glued = following is not None and following.start == piece.end
                # atan(1/1) = π/4: the bracket is an argument of a function that we do not know
                self.last_word = "of" if applied and glued else _bare(piece)
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
        if piece.kind == "text":
            word = _bare(piece)
            return word in FUNCTIONS or word == "mod" or len(word) == 1 or word.isdigit()
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
        """How many pieces from i on are a unit, with its power, after a number inside a formula."""
        if not self.open or not (self.open[-1].kind == "num" or self.open[-1].text in (")", "}")):
            return 0
        end = i
        while end < len(pieces) and end < i + 4 and pieces[end].kind in _WORDS:
            end += 1
        words = [_bare(piece) for piece in pieces[i:end]]
        after = end + _power_length(pieces, end)
        following = pieces[after] if after < len(pieces) else None
        goes_on = following is not None and (
            following.kind == "sign" or following.text in _BINARY or following.text == ")"
        )
        if not words or not (goes_on or after > end):
            return 0
        glued = self.open[-1].end == pieces[i].start and pieces[i].kind != "text"
        if glued and len(words[0]) > 3:
            return 0  # 5cm is five of a unit, 4Papillon is anything
        if any(word in _NO_UNIT and word != "per" for word in words):
            return 0
        self.blanks.append((pieces[i].start, pieces[after - 1].end))
        self.units.add(words[0].rstrip("s") if len(words) == 1 else " ".join(words))
        return after - i

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
        if not self.open:  # between two words, most of the time
            self.listing = self.listing and after in ("or", "and", ",")
            return
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
        self.listing = after in ("or", "and", ",") and bool(signs)
        self.blanks.clear()

    def unblanked(self, start: int, end: int) -> str:
        text, at = "", start
        for first, last in self.blanks:
            if first >= at:
                text += self.masked[at:first] + " " * (last - first)
                at = last
        return text + self.masked[at:end]


def _bare(piece: Piece) -> str:
    r"""The words of a piece, of \text{ cm} those inside."""
    if piece.kind != "text":
        return piece.text.lower()
    return piece.text.partition("{")[2].strip("{} .").lower()


def _power_length(pieces: list[Piece], at: int) -> int:
    """How many pieces the power of a unit takes: cm^2, cm^{3}, cm²."""
    texts = [piece.text for piece in pieces[at : at + 4]]
    if texts[:1] in (["²"], ["³"]):
        return 1
    if texts[:2] in (["^", "2"], ["^", "3"]):
        return 2
    return 4 if texts in (["^", "{", "2", "}"], ["^", "{", "3", "}"]) else 0


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
