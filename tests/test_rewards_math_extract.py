from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards.math import extract as extract_module
from botgrpo.rewards.math.extract import find_answer


def held(text: str, **options):
    found = find_answer(text, **options)
    return found and text[found.start : found.end]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so \\boxed{204}.", "204"),
        ("so \\fbox{204}.", "204"),
        ("so \\boxed {204}.", "204"),
        ("so \\boxed{ 204\n}.", "204"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("\\boxed{a \\} b}", "a \\} b"),
        ("\\boxed{1} then \\boxed{2}", "2"),
        ("\\boxed{1} then \\boxed{2", "1"),
        ("\\boxed{1} then \\boxed{2 \\fbox{3", "1"),
        ("\\boxed{x = \\boxed{7} + 1}", "x = \\boxed{7} + 1"),
        ("\\boxed{\\boxed{\\boxed{7}}}", "\\boxed{\\boxed{7}}"),
        ("\\boxed{1 \\boxed{7}", "7"),
        ("$\\frac{\\boxed{7}}{2}$", "7"),
        ("\\boxed{1} and the box{2} of boxes {3}", "1"),
        ("<final>204</final>", "204"),
        ("<final> $204$ </final>", "$204$"),
        ("<final>1</final> no, <final>2</final>", "2"),
        ("<final>1</final> no, <final>2", "1"),
        ("<final>1 <final>2</final>", "2"),
        ("<final>9</final> and later \\boxed{8}", "9"),
        ("\\boxed{8} <final>9</final>", "9"),
        ("<final>It is \\boxed{9}.</final>", "9"),
        ("<final></final> \\boxed{8}", ""),
        ("\\boxed{}", ""),
        ("\\\\boxed{7}", "7"),
    ],
)
def test_the_answer_is_what_final_holds_else_the_last_closed_box(text, answer):
    assert held(text) == answer


@pytest.mark.parametrize(
    "text",
    ["", "42", "Mark your solution with \\boxed ", "\\boxed{7", "boxed{7}", "\\boxed 7",
     "<final>7", "7</final>", "</final>7<final>", "\\Boxed{7}", "\\boxed{{7}", "The answer is 42."],
)  # fmt: skip
def test_there_may_be_no_answer(text):
    assert find_answer(text) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>maybe \\boxed{7}</think> I could not solve it.", None),
        ("<think>maybe \\boxed{7}", None),
        ("<think>maybe <final>7</final>", None),
        ("maybe \\boxed{7}</think> no", None),
        ("maybe \\boxed{7}</think> \\boxed{8}", "8"),
        ("\\boxed{8} <think>or \\boxed{7}?</think>", "8"),
        ("\\boxed{8} <think>or \\boxed{7}", "8"),
        ("<think>a</think>\\boxed{8}<think>\\boxed{7}</think> done", "8"),
        ("<final>8</final><think>\\boxed{7}</think>\\boxed{6}", "6"),
        ("<final>8</final><think>\\boxed{7}</think>no more", "8"),
        ("<final><think>7</think>8</final>", None),
        ("\\boxed{<think>7</think>8}", None),
        ("<think>a <think>b</think> \\boxed{8}", "8"),
        ("<thinking>\\boxed{8}</thinking>", "8"),
    ],
)
def test_thinking_is_dropped_closed_or_not(text, answer):
    assert held(text) == answer


def test_thinking_that_the_prompt_opened_lasts_until_it_is_closed():
    assert held("maybe \\boxed{7}") == "7"
    assert held("maybe \\boxed{7}", thinking=True) is None
    assert held("maybe \\boxed{7}</think>\\boxed{8}", thinking=True) == "8"


@pytest.mark.parametrize(
    ("text", "rival"),
    [
        ("It is \\boxed{41} or \\boxed{42}", "41"),
        ("$\\boxed{41}$ and $\\boxed{42}$.", "41"),
        ("\\[\\boxed{41} \\quad \\text{or} \\quad \\boxed{42}\\]", "41"),
        ("x = \\boxed{41}, or y = \\boxed{42}", "41"),
        ("**\\boxed{41}** or\n**\\fbox{42}**", "41"),
        ("\\boxed{\\boxed{41}} or \\boxed{42}", "41"),
        ("\\boxed{\\boxed{41} or \\boxed{42}}", "41"),
        ("<final>\\boxed{41} or \\boxed{42}</final>", "41"),
        ("\\boxed{40}, \\boxed{41} and \\boxed{42}", "41"),
        ("First \\boxed{41} no wait, \\boxed{42}", None),
        ("\\boxed{41}, \\boxed{42}", None),
        ("\\boxed{41} and then we correct this to \\boxed{42}", None),
        ("\\boxed{41} for \\boxed{42}", None),
        ("{41} or \\boxed{42}", None),
        ("\\boxed{41} or <think></think>\\boxed{42}", None),
        ("\\boxed{41}" + " " * 100 + "or \\boxed{42}", None),
    ],
)
def test_a_box_joined_by_or_and_and_is_named_as_the_rival(text, rival):
    found = find_answer(text)
    assert (found.rival and text[slice(*found.rival)]) == rival


PIECES = st.lists(
    st.sampled_from(
        ["\\boxed{", "\\fbox{", "}", "{", "\\", "\\{", "box", " or ", " and ", "$", "<", "</", ">",
         "<think>", "</think>", "<final>", "</final>", "7", " ", "\n", "🤨", "\ud83d", "x = "]
    ),
    max_size=40,
).map("".join)  # fmt: skip


def reference(text: str) -> str | None:
    """The same rules, written for reading: one pass over the text, forwards, with a stack."""
    parts = [""]
    for piece in re.split("(</?think>)", text):
        if piece == "<think>" and parts[-1] is not None:
            parts.append(None)
        elif piece == "</think>":
            parts = [*parts, ""] if parts[-1] is None else [""]
        elif parts[-1] is not None:
            parts[-1] += piece
    for part in reversed([part for part in parts if part is not None]):
        finals = re.findall("<final>((?:(?!</?final>).)*)</final>", part, re.DOTALL)
        part = finals[-1] if finals else part
        stack, outermost, last = [], [], None
        box = r"\\(?:boxed|fbox)\s*\{"  # also after a backslash too many
        for token in re.finditer(rf"{box}|\\(?!{box}).|[{{}}]", part, re.DOTALL):
            if token[0] == "}":
                opened = stack.pop() if stack else None
                if opened is not None:
                    last = (opened, token.start())
                    outermost = [*(b for b in outermost if b[0] < opened), last]
            elif token[0].startswith(("\\boxed", "\\fbox")):
                stack.append(token.end())
            elif token[0] == "{":
                stack.append(None)
        if last is not None:
            return part[slice(*max(outermost, key=lambda box: box[1]))].strip()
        if finals:
            return part.strip()
    return None


@given(PIECES)
@settings(max_examples=800, deadline=None)
def test_the_search_from_the_end_finds_what_a_plain_reading_finds(text):
    assert held(text) == reference(text)


@given(PIECES, st.booleans())
@settings(max_examples=300, deadline=None)
def test_where_thinking_ends_near_the_end_a_shortcut_finds_the_same(text, thinking):
    found = find_answer(text, thinking=thinking)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract_module, "_NEAR", 0)
        assert find_answer(text, thinking=thinking) == found


class Counted(str):
    """A text that counts the characters which are looked at."""

    looked = 0

    def rfind(self, wanted, low=0, high=None):
        high = len(self) if high is None else high
        at = super().rfind(wanted, low, high)
        Counted.looked += max(high - max(at, low), 0) + 1
        return at

    def find(self, wanted, low=0, high=None):
        high = len(self) if high is None else high
        at = super().find(wanted, low, high)
        Counted.looked += max((high if at < 0 else at) - low, 0) + 1
        return at


class CountedPattern:
    def __init__(self, pattern):
        self.pattern = pattern

    def finditer(self, text, low, high):
        for match in self.pattern.finditer(text, low, high):
            Counted.looked += match.end() - low
            low = match.end()
            yield match
        Counted.looked += max(high - low, 0)

    def match(self, text, *place):
        Counted.looked += 8
        return self.pattern.match(text, *place)


HOSTILE = [
    "\\boxed{", "\\boxed{}", "\\boxed{}}", "<", "</", "<think>", "</think>", "<final>", "</final>",
    "<final></final>", "box", "\\boxed ", "\\fbox{", "{", "}", "\\", "\\boxed{1} or ",
    "\\boxed{\\boxed{1}", "\\boxed{{", "}\\boxed{", "<final>\\boxed{1}</final>", "\\boxed{}} or ",
]  # fmt: skip


def looked_at(text: str) -> int:
    Counted.looked = 0
    find_answer(Counted(text))
    return Counted.looked


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("tail", ["", "}", "}}", "{"])
def test_hostile_texts_are_read_a_few_times_and_not_a_thousand(monkeypatch, piece, tail):
    for name in ("_TAG", "_BOX", "_BRACE"):
        monkeypatch.setattr(extract_module, name, CountedPattern(getattr(extract_module, name)))
    text = piece * (6000 // len(piece))
    text += tail * (text.count("{") if len(tail) == 1 else text.count("{") // 2)
    assert looked_at(text) <= 20 * len(text)


def test_the_count_of_looked_at_characters_can_be_quadratic():
    text = Counted("<" * 500)
    Counted.looked = 0
    for end in range(500):
        text.rfind("x", 0, end)
    assert Counted.looked > 100 * len(text)


def test_sixty_thousand_characters_of_thought_cost_one_look_for_tags():
    text = "<think>" + "We try $x + 12$ and get 7. " * 2500 + "</think>\n\\boxed{7}"
    assert looked_at(text) <= 1.01 * len(text)
