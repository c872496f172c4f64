r"""Mathematical text, LaTeX or plain, into tokens with exact places.

One pass with one linear regular expression. Spacing and sizing commands vanish; synonyms (`\leq`,
`\le`, `<=`, `≤`) become one sign.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from botgrpo.rewards.math.tree import Budget, OverBudget, ParseError

MAX_TOKENS = 400
MAX_DIGITS = 1000  # of one printed number


class Token(NamedTuple):
    """`kind` is num, name, func, text, sup, end, or an operator itself; `value` its form."""

    kind: str
    value: str
    start: int
    end: int


class Cursor:
    """A place in a list of tokens; `next` is the token there."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.go(0)

    @property
    def last_end(self) -> int:
        return self.tokens[self.at - 1].end

    def go(self, at: int) -> None:
        self.at = at
        self.next = self.tokens[at]

    def take(self) -> Token:
        token = self.next
        self.at += 1
        self.next = self.tokens[self.at]
        return token

    def accept(self, *kinds: str) -> Token | None:
        return self.take() if self.next.kind in kinds else None

    def expect(self, *kinds: str) -> Token:
        if self.next.kind not in kinds:
            got = self.next.value or "the end"
            raise ParseError(f"got {got[:20]!r}, expected {' or '.join(kinds)}")
        return self.take()


# One code point for one, so that places stay; full-width forms, and signs that look alike.
_ONE_TO_ONE = str.maketrans(
    {
        **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)},
        **dict.fromkeys("−‒–﹣", "-"),
        **dict.fromkeys("×·⋅∗✕•", "*"),
        **dict.fromkeys("÷∕⁄", "/"),
        **dict.fromkeys("\u00a0\u2009\u202f\u2002\u2003", " "),
        "≦": "≤",
        "≧": "≥",
        "≅": "≈",
        "ϕ": "φ",
    }
)

_FUNCTIONS = (
    "sqrt cbrt abs floor ceil gcd lcm max min log ln lg exp sin cos tan cot sec csc arcsin arccos "
    "arctan sinh cosh tanh binom"
)
_GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "rho sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell"
)
_SPACING = (
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle quad qquad "
    "displaystyle textstyle limits nolimits thinspace hfill"
)
FUNCTIONS = frozenset(_FUNCTIONS.split())
_GREEK_COMMANDS = frozenset(_GREEK.split())
_WORDS = {"pi": "pi", "infinity": "oo", "inf": "oo"}
_WORDS |= {word: word for word in ("alpha", "beta", "gamma", "delta", "lambda", "omega", "theta")}
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_OPS = {
    **dict.fromkeys(("cdot", "times", "ast", "cdotp"), "*"),
    **dict.fromkeys(("le", "leq", "leqslant"), "≤"),
    **dict.fromkeys(("ge", "geq", "geqslant"), "≥"),
    **dict.fromkeys(("ne", "neq"), "≠"),
    **dict.fromkeys(("approx", "thickapprox", "simeq", "cong"), "≈"),
    **dict.fromkeys(("mid", "divides"), "∣"),
    **dict.fromkeys(("lvert", "rvert", "vert"), "|"),
    **dict.fromkeys(("mod", "bmod"), "mod"),
    **dict.fromkeys(("dfrac", "tfrac", "frac", "cfrac"), "frac"),
    **dict.fromkeys(("binom", "dbinom", "tbinom"), "binom"),
    **dict.fromkeys(("boxed", "fbox"), "boxed"),
    "div": "/",
    "lt": "<",
    "gt": ">",
    "equiv": "≡",
    "pm": "±",
    "sqrt": "√",
    "pmod": "pmod",
    "sum": "∑",
    "prod": "∏",
    "lfloor": "⌊",
    "rfloor": "⌋",
    "lceil": "⌈",
    "rceil": "⌉",
    "cup": "∪",
    "lbrace": r"\{",
    "rbrace": r"\}",
    "circ": "°",
}
_TOKEN = re.compile(
    r"(?P<space>[\s~&]+|\\[,;:!>\ ]|\\(?:" + "|".join(_SPACING.split()) + r")(?![A-Za-z]))"
    r"""
  | (?P<num> [0-9]{1,3} (?: (?: , | \{,\} | \\, | ,\\! | ,\\, | ,\\;)[ ]?[0-9]{3} )+ (?![0-9])
             (?: \.[0-9]+ )?
           | [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ )
  | \\(?:text|textrm|textbf|textit|mathrm|mathbf|mathit|mathsf|operatorname|mbox)\s*
       \{ (?P<text> [^{}\\]* ) \}
  | (?P<sup> [⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+ )
  | (?P<word> [A-Za-z]+ | [\u0370-\u03ff∞] )
  | \\(?P<cmd> [A-Za-z]+ )\*?
  | (?P<op> \\[{}|%] | <= | >= | != | <> | == | \*\* | \.\.\. | … | \^\\circ
          | [-+*/^!%°_=<>≤≥≠≈≡∣|(){}\[\],;±√∑∏⌊⌋⌈⌉∪:.] )
  | (?P<prime> ['′]+ )
  | (?P<bad> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SAME = {"<=": "≤", ">=": "≥", "!=": "≠", "<>": "≠", "==": "=", "**": "^", "…": "..."}
_SAME |= {r"\%": "%", r"\|": "|", r"^\circ": "°"}
_PAIR_OPEN, _PAIR_CLOSE = ("(", "[", r"\{"), (")", "]", r"\}")


def tokenize(text: str, budget: Budget) -> list[Token]:
    """The tokens of `text`, with an "end" token after the last.

    Raises `ParseError` for a character that no formula holds, `OverBudget` for more than
    `MAX_TOKENS` tokens or `MAX_DIGITS` digits.
    """
    if not text.isascii():
        text = text.translate(_ONE_TO_ONE)
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            continue
        if kind == "op":
            sign = match[0]
            tokens.append(_sign(_SAME.get(sign, sign), match.start(), match.end()))
        elif kind == "num" and len(match[0]) <= 20 and match[0].isdigit():
            tokens.append(Token("num", match[0], match.start(), match.end()))
        else:
            _append(tokens, match, text)
        if len(tokens) > MAX_TOKENS:
            raise OverBudget(f"more than {MAX_TOKENS} tokens")
    budget.spend(1 + 2 * len(tokens))
    end = Token("end", "", len(text), len(text))
    return [*tokens, end, end]  # two, so that one token may always be looked ahead


def _append(tokens: list[Token], match: re.Match[str], text: str) -> None:
    kind, (start, end) = match.lastgroup or "", match.span()
    value = match[kind]
    if kind == "num":
        _append_number(tokens, value, start, text)
    elif kind == "text":
        _append_text(tokens, value.strip(), start, end)
    elif kind == "word":
        _append_word(tokens, value, start)
    elif kind == "cmd":
        tokens.append(_command(value, start, end))
    elif kind == "sup":
        digits = "".join("-" if c == "⁻" else str(_SUPERSCRIPTS.index(c)) for c in value)
        tokens.append(Token("sup", digits, start, end))
    elif kind == "prime" and tokens and tokens[-1].kind == "name":
        last = tokens.pop()
        tokens.append(Token("name", last.value + "'" * len(value), last.start, end))
    else:
        raise ParseError(f"{value[:1]!r} is no part of a formula here")


def _sign(sign: str, start: int, end: int) -> Token:
    return Token(sign, sign, start, end)


def _append_number(tokens: list[Token], value: str, start: int, text: str) -> None:
    if len(value) > MAX_DIGITS:
        raise OverBudget(f"a number of more than {MAX_DIGITS} digits")
    end = start + len(value)
    closing = text[end : end + 2].lstrip()
    # (1,234) is a pair: nobody encloses one number in brackets and groups its digits.
    if value.count(",") == 1 and "\\" not in value and "{" not in value and tokens:
        before = tokens[-1]
        if before.value in _PAIR_OPEN and closing.startswith(_PAIR_CLOSE):
            left, _, right = value.partition(",")
            middle = start + len(left)
            tokens.append(Token("num", left, start, middle))
            tokens.append(_sign(",", middle, middle + 1))
            tokens.append(Token("num", right.strip(), end - len(right.strip()), end))
            return
    if ", " in value:  # "1, 234" is a list, "1,234" one number
        _append_list(tokens, value, start)
        return
    tokens.append(Token("num", re.sub(r"[^0-9.]", "", value), start, end))


def _append_list(tokens: list[Token], value: str, start: int) -> None:
    for match in re.finditer(r"[0-9]+(?:\.[0-9]+)?|,", value):
        kind = "," if match[0] == "," else "num"
        tokens.append(Token(kind, match[0], start + match.start(), start + match.end()))


def _append_text(tokens: list[Token], value: str, start: int, end: int) -> None:
    if value in ("mod", "and", "or"):
        tokens.append(_sign("mod" if value == "mod" else ",", start, end))
    elif value.lower() in FUNCTIONS:
        tokens.append(Token("func", value.lower(), start, end))
    elif len(value) == 1 and value.isalpha():
        tokens.append(Token("name", value, start, end))
    elif value.isdigit() and value.isascii() and len(value) <= MAX_DIGITS:
        tokens.append(Token("num", value, start, end))
    elif value:
        tokens.append(Token("text", value, start, end))


def _append_word(tokens: list[Token], word: str, start: int) -> None:
    """A function, a constant, one letter, or up to three letters side by side: a product."""
    end = start + len(word)
    lower = word.lower()
    if word == "mod":
        tokens.append(_sign("mod", start, end))
    elif word in ("or", "and"):
        tokens.append(_sign(",", start, end))
    elif lower in FUNCTIONS:
        tokens.append(Token("func", lower, start, end))
    elif lower in _WORDS:
        tokens.append(Token("name", _WORDS[lower], start, end))
    elif word in "πΠ∞":
        tokens.append(Token("name", "oo" if word == "∞" else "pi", start, end))
    elif len(word) <= 3:
        tokens += [Token("name", c, start + i, start + i + 1) for i, c in enumerate(word)]
    else:
        raise ParseError(f"the word {word[:20]!r}")


def _command(name: str, start: int, end: int) -> Token:
    if name in _OPS:
        return _sign(_OPS[name], start, end)
    if name in FUNCTIONS:
        return Token("func", name, start, end)
    if name == "pi":
        return Token("name", "pi", start, end)
    if name == "infty":
        return Token("name", "oo", start, end)
    if name in _GREEK_COMMANDS:
        return Token("name", name, start, end)
    if name in ("ldots", "dots", "cdots", "dotsb", "dotsc"):
        return _sign("...", start, end)
    raise ParseError(f"the command \\{name[:20]}")
