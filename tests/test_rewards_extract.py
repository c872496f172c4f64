from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards.react.extract import extract

APP = "export default () => <p/>;\n"


@pytest.mark.parametrize("tag", ["tsx", "TSX", "jsx", "ts", "js", "react", "", "javascript"])
def test_blocks_that_may_hold_react_are_taken(tag):
    found = extract(f"Here:\n```{tag}\n{APP}```\nDone.")
    assert found is not None and found.code == APP and not found.truncated


@pytest.mark.parametrize("tag", ["css", "html", "python", "bash", "json", "tsxx"])
def test_other_blocks_are_not(tag):
    assert extract(f"```{tag}\n{APP}```") is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```tsx\nA\n```\n```tsx\nB\n```", "B\n"),
        ("```tsx\nA\n```\n```css\nB\n```", "A\n"),
        ("```tsx title=App.tsx\nA\n```", "A\n"),
        ("```tsx:src/App.tsx\nA\n```", "A\n"),
        ("```{tsx}\nA\n```", "A\n"),
        ("~~~jsx\nA\n```\n~~~", "A\n```\n"),
        ("````tsx\nA\n```\nB\n````", "A\n```\nB\n"),
        ("```tsx\nA\n`````", "A\n"),
        ("  ```tsx\n  A\n  ```", "  A\n"),
        ("1. ```tsx\n   A\n   ```", "   A\n"),
        ("```tsx\r\nA\r\n```\r\n", "A\r\n"),
        ("```tsx\rA\r```\r", "A\r"),
        ("```tsx\nA\u2028```\n```", "A\u2028```\n"),
        ("```tsx\nA\n```\n```tsx\n\n```\n", "A\n"),
        ("```not a fence``` and\n```tsx\nA\n```", "A\n"),
    ],
)
def test_fences_are_read_as_markdown_reads_them(text, code):
    found = extract(text)
    assert found is not None and found.code == code and not found.truncated


def test_an_unclosed_fence_counts_up_to_the_end_and_is_truncated():
    found = extract("Code:\n```tsx\nexport default function")
    assert found is not None and found.truncated and found.code == "export default function"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"<think>```tsx\nA\n```</think>```tsx\n{APP}```", APP),
        (f"<think>\n```tsx\nA\n</think>\n\n```tsx\n{APP}```", APP),
        (f"thinking\n```tsx\nA\n```\n</think>\n```tsx\n{APP}```", APP),
        (f"```tsx\n{APP}```\n<think>```tsx\nA\n```", APP),
        ("```tsx\nconst t = '<think>';\n```", "const t = '<think>';\n"),
        (f"<think>export default x</think>{APP}", APP),
        (f"{APP}<think>export default x", APP),
    ],
)
def test_thinking_is_dropped_closed_or_not(text, code):
    found = extract(text)
    assert found is not None and found.code == code


@pytest.mark.parametrize("text", ["", "prose", "<think>export default 1</think>", "```tsx\n```"])
def test_there_may_be_no_code(text):
    assert extract(text) is None


def test_bare_code_needs_a_default_export_and_no_fence_anywhere():
    found = extract("export default 1")
    assert found is not None and not found.fenced
    assert extract("export default 1\n```css\na\n```") is None


@given(
    st.lists(
        st.sampled_from(
            ["```", "~~~", "````", "tsx", "css", "\n", "\r\n", "\r", "<think>", "</think>", " ",
             "export default 1", "`", "- ", "🤨", "\u2028", "x"]
        ),
        max_size=40,
    ).map("".join)
)  # fmt: skip
@settings(max_examples=1000, deadline=None)
def test_the_code_is_always_the_slice_that_it_says(text):
    found = extract(text)
    if found is not None:
        assert found.code == text[found.start : found.end] and found.code.strip()


@pytest.mark.parametrize(
    "piece",
    ["`", "```", "```tsx\n", "~~~\n", "<think>", "</think>", "<think></think>", "```</think>", " ",
     "\t- ", "1. ", "\n", "```tsx\n```\n", "`~", "{", "```{"],
)  # fmt: skip
def test_a_million_characters_of_hostile_text_are_answered(piece):
    # a quadratic scan would take hours here, and be noticed
    extract(piece * (1_000_000 // len(piece)))
