"""The generated corpus gets the verdicts it promises; the bench counts what it says it counts."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from botgrpo.sandbox import bench, chromium, corpus
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.bench import Measured, Row
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.corpus import CALM, Candidate, candidates
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler


def first(seed: int, count: int, hostile: float = 0.0) -> list[Candidate]:
    return list(itertools.islice(candidates(seed, hostile), count))


@pytest.fixture
def isolated() -> None:
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")


def test_a_seed_gives_the_same_corpus_and_no_candidate_twice() -> None:
    some = first(1, 300, 0.1)
    assert some == first(1, 300, 0.1)
    assert len({each.source for each in (*some, *first(2, 300, 0.1))}) == 600


def test_the_corpus_has_the_shares_and_the_lengths_it_promises() -> None:
    some = first(3, 2000, 0.05)
    hostile = [each for each in some if each.kind.startswith("hostile")]
    good = [each for each in some if each.kind == "good"]
    assert 60 <= len(hostile) <= 140  # 100 expected, 4 deviations either way
    assert 860 <= len(good) <= 1040  # 950 expected
    lines = sorted(len(each.source.splitlines()) for each in good)
    assert lines[0] < 40 and lines[-1] > 150
    assert {each.kind for each in some} >= {f"bad: {name}" for name in corpus._BAD}
    whole = "".join(each.source for each in good)
    for shape in ("useState", "useReducer", "<ul", "<form", "<svg", "lucide-react", "className="):
        assert shape in whole
    assert not any(word in whole for word in ("NOUN", "ICON", "COLOUR", "SIZE", "ROWS", "PARTS"))


def test_the_compiler_says_of_every_kind_what_the_corpus_promises(isolated: None) -> None:
    some = {each.kind: each for each in (*first(4, 400, 0.2), *first(5, 60))}
    pages = {each.kind: each for each in itertools.islice(corpus.hostile_pages(1), 60)}
    assert len(pages) == len(corpus._PAGES)
    assert len(some) == 1 + len(corpus._BAD) + len(corpus._BOMBS)

    async def main() -> None:
        compiler = ReactCompiler("bubblewrap", workers=2)
        try:
            for each in (*some.values(), *pages.values()):
                got = (await compiler.compile(each.source)).status
                allowed = {each.status} if each.status else CALM
                assert got in allowed, each.kind
        finally:
            await compiler.aclose()

    asyncio.run(main())


def test_quantiles_are_times_that_were_measured() -> None:
    row = Row("x", [float(ms) for ms in range(100, 0, -1)])
    assert [row.quantile_ms(share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert Row("x", [7.0]).quantile_ms(0.99) == 7.0
    assert Row("x", [1.0, 9.0]).quantile_ms(0.95) == 9.0


def test_at_most_so_many_are_under_way_and_each_is_counted_once() -> None:
    under_way, most = 0, 0

    async def work(candidate: Candidate) -> float:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 0.002

    times_ms, per_s = asyncio.run(bench._timed(work, first(1, 50), 2))
    assert times_ms == [2.0] * 50 and most == 2 and per_s > 0


def test_backends_stand_side_by_side_and_a_missing_browser_is_said() -> None:
    rows = [Row("cold", [100.0], 1.0), Row("page and picture", note="no Chromium: install one")]
    other = [Row("cold", [300.0], 0.5), rows[1]]
    text = bench.table(
        [Measured("a", rows, {"memory": "1 MiB"}), Measured("b", other, {"memory": "2 MiB"})]
    )
    lines = text.splitlines()
    assert lines[0].split() == ["a", "b"]
    assert lines[2].split()[1:] == ["1.0", *3 * ["100.0"], "0.5", *3 * ["300.0"]]
    assert lines[3].count("no browser: see below") == 2
    assert lines[4].split() == ["memory", "1", "MiB", "2", "MiB"]
    assert lines[5] == "no Chromium: install one" and len(lines) == 6


def test_a_wrong_verdict_ends_the_bench_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measured(name: str, *args: object, scaling: bool) -> Measured:
        return Measured(name, [Row("cold", [1.0], 1.0)], wrong=["good: syntax, not ok"])

    monkeypatch.setattr(bench, "_working", lambda backend: ["bubblewrap"])
    monkeypatch.setattr(bench.machine, "facts", lambda backend: "2 cores")
    monkeypatch.setattr(bench, "measure", measured)
    assert bench.main() == 1
    assert "WRONG VERDICTS: good: syntax, not ok" in capsys.readouterr().out


def test_a_wrong_call_and_a_machine_without_isolation_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="candidates=0"):
        bench.main(candidates=0)
    with pytest.raises(ConfigError, match="no sandbox backend 'dokcer'"):
        bench.main("dokcer")

    def refuse(name: str) -> object:
        raise SandboxUnavailable(f"no {name}")

    monkeypatch.setattr(bench, "chooser", refuse)
    with pytest.raises(SandboxUnavailable, match="no bubblewrap\nno docker"):
        bench.main()


@pytest.mark.slow
def test_the_bench_fills_every_row_of_a_backend(
    isolated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise SandboxUnavailable("no Chromium")

    monkeypatch.setattr(chromium, "find_chromium", none)
    monkeypatch.setattr(bench, "_SCALES", (20, 30))
    monkeypatch.setattr(bench, "_COLD", 2)
    monkeypatch.setattr(bench, "_WEIGHED", 100)
    found = asyncio.run(bench.measure("bubblewrap", 2, 30, scaling=True))
    assert found.wrong == []
    assert [len(row.times_ms) for row in found.rows] == [2, 30, 30, 0]
    assert found.rows[-1].note == "no Chromium"
    assert all(row.per_s > 0 for row in found.rows[:3])
    assert float(found.notes["ms a candidate, of 30"]) > 0
    mib = float(found.notes["memory of 2 compile workers"].split()[0])
    assert 30 < mib < 1024
    assert 0.2 < float(found.notes["processor time of a warm verdict"].split()[0]) < 200
