from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards.base import Span
from botgrpo.rewards.spans import TextMap, from_units, line_starts, project, to_units, unit_offsets
from botgrpo.rewards.tokens import TokenBytes

CHARS = st.one_of(
    st.sampled_from("abc;{} \t\n\r\u2028\u2029\x0b\x0c\x85\ufeffé漢🤨\ud83d\udc00"),
    st.characters(),
)
SOURCES = st.text(CHARS, max_size=60)
UNITS = ("codepoint", "utf8", "utf16")


def encode(text: str, unit: str) -> int:
    """Length in a unit, by encoding: the slow and obvious way."""
    if unit == "codepoint":
        return len(text)
    if unit == "utf8":
        return sum(len(c.encode("utf-8", "surrogatepass")) for c in text)
    return sum(len(c.encode("utf-16-le", "surrogatepass")) // 2 for c in text)


@given(SOURCES, st.sampled_from(UNITS), st.data())
@settings(max_examples=300, deadline=None)
def test_offsets_convert_there_and_back(text, unit, data):
    position = data.draw(st.integers(0, len(text)))
    offset = to_units(text, position, unit)
    assert offset == encode(text[:position], unit)
    assert from_units(text, offset, unit) == from_units(text, offset, unit, up=True) == position


@given(SOURCES, st.sampled_from(UNITS), st.data())
@settings(max_examples=300, deadline=None)
def test_lines_and_columns_convert_there_and_back(text, unit, data):
    position = data.draw(st.integers(0, len(text)))
    places = TextMap(text)
    line, column = places.place(position, unit)
    inside_crlf = text[position - 1 : position + 1] == "\r\n"
    before_end = position >= len(text) or text[position] not in "\n\r\u2028\u2029"
    if before_end and not inside_crlf:
        assert places.offset(line, column, unit) == position


@given(SOURCES)
@settings(max_examples=300, deadline=None)
def test_only_the_five_javascript_terminators_end_a_line(text):
    plain = text.replace("\r\n", "\n")
    for mark in "\r\u2028\u2029":
        plain = plain.replace(mark, "\n")
    assert len(line_starts(text)) == len(plain.split("\n"))


def test_a_form_feed_is_no_line_end_but_u2028_is():
    assert line_starts("a\x0cb\u2028c\r\nd").tolist() == [0, 4, 7]


@pytest.mark.parametrize(
    ("char", "utf8", "utf16"), [("\ufeff", 3, 1), ("\ud800", 3, 1), ("🤨", 4, 2), ("é", 2, 1)]
)
def test_widths_of_marks_surrogates_and_astral_characters(char, utf8, utf16):
    assert unit_offsets(char, "utf8").tolist() == [0, utf8]
    assert unit_offsets(char, "utf16").tolist() == [0, utf16]


def test_the_documented_esbuild_case_lands_on_the_semicolon():
    text = 'x\nconst a = "🤨é漢"; const b = ;'
    assert TextMap(text).span(2, 33, 1, "utf8") == TextMap(text).span(2, 28, 1, "utf16")
    start, end = TextMap(text).span(2, 33, 1, "utf8")
    assert text[start:end] == ";" and start == len(text) - 1


def test_an_offset_within_a_character_takes_the_whole_character():
    assert TextMap("a🤨b").span(1, 2, 1, "utf8") == (1, 2)
    assert TextMap("a🤨b").span(1, 2, 1, "utf16") == (1, 2)


def test_places_past_the_end_stop_at_the_end():
    places = TextMap("ab\ncd")
    assert places.span(3, 0, 0, "utf8") == (5, 5)
    assert places.offset(1, 99, "utf8") == 2


@given(
    st.text(CHARS, max_size=40),
    st.text(CHARS.filter(lambda c: c not in "\n\r\u2028\u2029"), max_size=10),
)
@settings(max_examples=300, deadline=None)
def test_an_emoji_before_an_error_shifts_it_by_one_two_and_four(before, same_line):
    source = before + "\n" + same_line + "@" + "\ntail"
    shifted = before + "\n" + "🤨" + same_line + "@" + "\ntail"
    at, at_shifted = source.rindex("@\ntail"), shifted.rindex("@\ntail")
    for unit, shift in zip(UNITS, (1, 4, 2), strict=True):
        line, column = TextMap(source).place(at, unit)
        assert TextMap(shifted).place(at_shifted, unit) == (line, column + shift)
        assert TextMap(shifted).span(line, column + shift, 1, unit) == (at_shifted, at_shifted + 1)


@given(
    st.text(CHARS, max_size=60),
    st.text(CHARS, max_size=60),
    st.text(st.sampled_from("X🤨é"), min_size=1, max_size=4),
    st.data(),
)
@settings(max_examples=1000, deadline=None)
def test_the_projected_tokens_cover_the_planted_error_in_any_unicode_program(
    before, after, planted, data
):
    program = (before + planted + after).encode("utf-8", "replace").decode()
    start = len(before)
    raw = program.encode()
    cuts = sorted(set(data.draw(st.lists(st.integers(0, len(raw)), max_size=20))))
    edges = [0, *cuts, len(raw)]
    parts = [raw[a:b] for a, b in itertools.pairwise(edges)]
    text, token_spans = TokenBytes.from_pieces(parts).decode(range(len(parts)))
    for unit in UNITS:
        line, column = TextMap(text).place(start, unit)
        length = encode(planted, unit)
        place = TextMap(text).span(line, column, length, unit)
        assert text[slice(*place)] == planted
        values = project([Span(*place, -1.0)], token_spans, text)
        covered = {
            c
            for (a, b), v in zip(token_spans, values, strict=True)
            if v == -1.0
            for c in range(a, b)
        }
        assert set(range(*place)) <= covered
        clean = [(a, b) for (a, b), v in zip(token_spans, values, strict=True) if v == 0.0]
        assert all(b <= place[0] or a >= place[1] or a == b for a, b in clean)


def test_contributions_of_overlapping_spans_add_up():
    spans = [Span(0, 2, -1.0), Span(1, 4, -0.5)]
    assert project(spans, [(0, 1), (1, 2), (2, 4)], "abcd").tolist() == [-1.0, -1.5, -0.5]


def test_a_span_without_length_counts_for_its_enclosing_token():
    assert project([Span(2, 2, -1.0)], [(0, 2), (2, 4)], "abcd").tolist() == [0.0, -1.0]
    assert project([Span(1, 1, -1.0)], [(0, 2), (2, 4)], "abcd").tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("decay_lines", [0, 1, 3])
def test_a_span_at_or_past_the_end_counts_for_the_last_token_with_text(decay_lines):
    tokens = [(0, 2), (2, 3), (3, 3)]
    for place in ((3, 3), (9, 9), (9, 12)):
        values = project([Span(*place, -1.0)], tokens, "ab\n", decay_lines=decay_lines)
        assert values[1] == -1.0 and values[2] == 0.0


def test_tokens_without_text_and_texts_without_tokens_get_nothing():
    assert project([Span(0, 1, -1.0)], [(0, 0), (0, 0)], "").tolist() == [0.0, 0.0]
    assert project([Span(0, 1, -1.0)], [], "a").tolist() == []
    assert project([], [(0, 1)], "a").tolist() == [0.0]


def test_decay_over_lines_is_the_papers_hat_function():
    text = "a\nb\nc\nd\ne\n"
    tokens = [(i, i + 1) for i in range(len(text))]
    values = project([Span(4, 5, -1.0)], tokens, text, decay_lines=3)
    assert values.tolist() == [-0.5, -0.5, -0.75, -0.75, -1, -1, -0.75, -0.75, -0.5, -0.5]
    far = project([Span(0, 1, -1.0)], tokens, text, decay_lines=3)
    assert far.tolist() == [-1, -1, -0.75, -0.75, -0.5, -0.5, -0.25, -0.25, 0, 0]


def test_a_token_belongs_to_the_line_of_its_first_character_that_is_no_line_end():
    text = "a\n\n  b\r\nc"
    tokens = [(0, 1), (1, 5), (5, 7), (7, 8), (8, 9)]
    values = project([Span(5, 6, -1.0)], tokens, text, decay_lines=1)
    assert values.tolist() == [0.0, -1.0, -1.0, -1.0, -0.5]


def test_a_span_over_several_lines_counts_fully_on_each():
    text = "a\nb\nc\nd"
    values = project([Span(0, 3, -1.0)], [(0, 1), (2, 3), (4, 5), (6, 7)], text, decay_lines=1)
    assert values.tolist() == [-1.0, -1.0, -0.5, 0.0]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.floats(-2, 2)), max_size=6))
@settings(max_examples=200, deadline=None)
def test_projection_equals_the_obvious_double_loop(raw_spans):
    text = "abcdefghijklmnopqrst"
    edges = [0, 1, 4, 4, 9, 12, 20]
    tokens = list(itertools.pairwise(edges))
    spans = [Span(a, min(a + n, 20), v) for a, n, v in raw_spans if a + n > a and a < 20]
    expected = [
        sum(s.value for s in spans if max(a, s.start) < min(b, s.end)) if a < b else 0.0
        for a, b in tokens
    ]
    np.testing.assert_allclose(project(spans, tokens, text), expected)
