"""The React task: disjoint by construction, clean files that build, faults that all break them."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import pytest

from botgrpo.benchmarks.tasks import react_families as parts
from botgrpo.benchmarks.tasks.react import CORRUPTION_RATE, ReactTask
from botgrpo.benchmarks.tasks.react_corpus import (
    MAX_ELEMENTS,
    Request,
    corrupt,
    draw_request,
    requests,
    sites,
    write,
)
from botgrpo.benchmarks.tasks.react_faults import RULES, faults
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import CompileResult, ReactCompiler

TASK = ReactTask()


def drawn(n: int, seed: int = 0) -> list[tuple[Request, str]]:
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        request = draw_request(rng, held_out=False)
        found.append((request, write(request, rng)))
    return found


def compiled(sources: Sequence[str]) -> list[CompileResult]:
    async def run() -> list[CompileResult]:
        compiler = ReactCompiler()
        try:
            return list(await asyncio.gather(*map(compiler.compile, sources)))
        finally:
            await compiler.aclose()

    try:
        results = asyncio.run(run())
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox: {error}")
    assert not [r.reason for r in results if r.status == "infra_error"]
    return results


def test_no_held_out_request_is_ever_trained_on() -> None:
    held_out = {item.prompt for item in TASK.eval_items(1000)}
    trained = {item.prompt for seed in range(4) for item in TASK.train_items(seed)}
    warm = {item.prompt for seed in range(3) for item, _ in TASK.corpus(2000, seed)}
    assert len(held_out) == 1000
    assert not held_out & trained
    assert not held_out & warm


def test_both_sides_of_the_split_hold_every_family_and_name() -> None:
    for held_out in (True, False):
        some = list(islice(requests(0, held_out=held_out), 1500))
        assert {r.family for r in some} == set(parts.FAMILIES)
        assert {r.name for r in some} == set(parts.NAMES)


def test_task_is_deterministic_and_its_seeds_differ() -> None:
    again = ReactTask()
    assert TASK.train_items(3) == again.train_items(3)
    assert TASK.train_items(3) != TASK.train_items(4)
    assert TASK.corpus(50, 3) == again.corpus(50, 3)
    assert TASK.corpus(50, 3) != TASK.corpus(50, 4)
    assert TASK.eval_items(20) == again.eval_items(60)[:20]
    assert len({item.id for item in TASK.train_items(0)}) == len(TASK.train_items(0))


def test_a_request_asks_for_two_to_four_kinds_and_its_prompt_names_everything() -> None:
    for request, _ in drawn(300):
        assert 2 <= len(set(request.elements)) == len(request.elements) <= MAX_ELEMENTS
        words = set(re.findall(r"\w+", request.prompt))
        assert {request.name, request.family, *request.elements, *request.props} <= words


def test_no_prop_meets_a_variable_of_a_file() -> None:
    text = "\n".join(
        "\n".join(variant.state)
        for family in parts.FAMILIES.values()
        for variant in family.variants
    )
    declared = set(re.findall(r"(?:const|function) \[?(\w+)", text))
    assert declared
    assert not declared & set(parts.PROPS)


def test_every_file_has_its_dozen_sites_and_families_are_alike() -> None:
    files = drawn(600)
    counts = [sites(source) for _, source in files]
    assert min(counts) >= 10 and max(counts) <= 16
    assert 12 <= sum(counts) / len(counts) <= 15
    for name in parts.FAMILIES:
        own = [sites(source) for request, source in files if request.family == name]
        assert 11 <= sum(own) / len(own) <= 16, name


def test_corruption_rate_is_the_chance_of_each_site() -> None:
    rng = random.Random(7)
    files = drawn(800)
    hit = sum(corrupt(source, 0.1, rng)[1] for _, source in files)
    total = sum(sites(source) for _, source in files)
    sigma = (0.1 * 0.9 / total) ** 0.5
    assert abs(hit / total - 0.1) < 4 * sigma
    assert corrupt(files[0][1], 0.0, rng) == (files[0][1], 0)


def test_every_rule_of_the_faults_is_used() -> None:
    kinds = Counter(
        fault.kind
        for _, source in drawn(400)
        for line in source.split("\n")
        for fault in faults(line)
    )
    assert {kind for kind, *_ in RULES} <= set(kinds)
    assert {"tag_mismatch", "hook_misspelt", "package_unknown"} <= set(kinds)


def test_clean_files_compile_and_hold_what_was_asked() -> None:
    files = drawn(500)
    for (request, source), result in zip(files, compiled([s for _, s in files]), strict=True):
        assert result.status == "ok", (result.reason, source)
        assert result.facts["component"] == request.name
        assert result.facts["returns_jsx"]
        assert set(request.elements) <= set(result.facts["tags"])
        assert set(request.props) <= set(result.facts["props"])


def test_every_single_fault_breaks_the_build() -> None:
    broken: dict[str, list[str]] = {}
    for _, source in drawn(120):
        lines = source.split("\n")
        for i, line in enumerate(lines):
            for fault in faults(line):
                text = "\n".join([*lines[:i], fault.line, *lines[i + 1 :]])
                if fault.rename:
                    text = re.sub(rf"\b{fault.rename[0]}\b", fault.rename[1], text)
                broken.setdefault(fault.kind, []).append(text)
    rng = random.Random(0)
    chosen = [
        (kind, text)
        for kind, texts in sorted(broken.items())
        for text in rng.sample(texts, min(60, len(texts)))
    ]
    statuses: dict[str, set[str]] = {}
    for (kind, text), result in zip(chosen, compiled([t for _, t in chosen]), strict=True):
        assert result.status != "ok", (kind, text)
        statuses.setdefault(kind, set()).add(result.status)
    assert statuses["hook_misspelt"] == {"link"}
    assert statuses["package_unknown"] == {"resolve"}
    assert statuses["export_dropped"] >= {"no_default_export"}


def test_a_file_of_the_corpus_compiles_exactly_when_it_has_no_fault() -> None:
    rng = random.Random(11)
    corrupted = [corrupt(source, CORRUPTION_RATE, rng) for _, source in drawn(400)]
    results = compiled([source for source, _ in corrupted])
    for (source, count), result in zip(corrupted, results, strict=True):
        assert (result.status == "ok") == (count == 0), source
    share = sum(count == 0 for _, count in corrupted) / len(corrupted)
    assert 0.15 < share < 0.35
