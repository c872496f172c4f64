"""The span property of every diagnostic tool, and that the check of it can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from botgrpo.benchmarks.planted_spans import FAULTS, Counts, count, planted
from botgrpo.rewards.spans import TextMap
from botgrpo.sandbox.checker import ReactChecker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler

Tools = tuple[ReactCompiler, ReactChecker]


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    made = ReactCompiler("bubblewrap"), ReactChecker("bubblewrap", types=True)
    try:
        for each in made:
            asyncio.run(each.ready())
        yield made
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    finally:
        for each in made:
            each.close()


def counted(tools: Tools, programs: int, first: int = 0) -> Counts:
    return asyncio.run(count([planted(first + seed) for seed in range(programs)], *tools))


def test_a_program_holds_its_token_where_it_says() -> None:
    programs = [planted(seed) for seed in range(300)]
    assert {each.fault for each in programs} == set(FAULTS)
    tokens = {each.completion[each.start : each.end] for each in programs}
    assert tokens == {";", ")", "und", "плохо", "é漢", "$_é", "Fire", "Füße"}
    assert planted(3) == planted(3)


def test_every_tool_blames_the_planted_token_in_random_unicode_programs(tools: Tools) -> None:
    counts = counted(tools, 100)
    assert counts.missed == []
    assert {tool for tool, _ in counts.programs} == {"esbuild", "typescript", "eslint"}


@pytest.mark.slow
def test_every_tool_blames_the_planted_token_in_a_thousand_programs(tools: Tools) -> None:
    assert counted(tools, 1000).missed == []


@pytest.mark.parametrize(
    ("unit", "hurt"),
    [
        ("utf16", {"esbuild"}),  # columns of bytes read as UTF-16
        ("utf8", {"typescript", "eslint"}),
        ("codepoint", {"esbuild", "typescript", "eslint"}),
    ],
)
def test_the_check_notices_one_wrong_unit(
    tools: Tools, unit: str, hurt: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TextMap.span

    def span(self: TextMap, line: int, column: int, length: int, _: Any) -> tuple[int, int]:
        return right(self, line, column, length, unit)  # type: ignore[arg-type]

    monkeypatch.setattr(TextMap, "span", span)
    assert {tool for tool, _, _ in counted(tools, 60).missed} == hurt


def test_the_check_notices_a_token_that_is_elsewhere(tools: Tools) -> None:
    program = planted(0)
    moved = replace(program, start=program.start - 1, end=program.end - 1)
    found = asyncio.run(count([moved], *tools))
    assert len(found.missed) == len(FAULTS[program.fault])
