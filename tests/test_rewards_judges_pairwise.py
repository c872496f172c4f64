"""Pages judged in pairs: both orders, gates before opinions, rates with intervals."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.benchmarks import win_rates
from botgrpo.benchmarks.cli import main
from botgrpo.rewards.judges.budget import Usage
from botgrpo.rewards.judges.pairwise import Match, Pairwise, gate, is_blank, majority
from botgrpo.sandbox.errors import ConfigError
from judge_server import FAULTS, JudgeServer

QUICK = {"cache": False, "timeout_s": 5.0, "backoff_s": 0.01, "retries": 1}


def png(pixels: np.ndarray, kinds: list[int] | None = None) -> bytes:
    """An 8-bit PNG of [H, W, 3] pixels, each line stored by a filter of 0, 1, 2 or 4."""
    height, width, step = pixels.shape
    above, lines = np.zeros((width, step), np.uint8), []
    for y, row in enumerate(pixels.astype(np.uint8)):
        kind = kinds[y % len(kinds)] if kinds else 0
        left = np.vstack([np.zeros((1, step), np.uint8), row[:-1]])
        corner = np.vstack([np.zeros((1, step), np.uint8), above[:-1]])
        guess = {0: np.zeros_like(row), 1: left, 2: above}.get(kind, paeth(left, above, corner))
        lines.append(bytes([kind]) + (row - guess).astype(np.uint8).tobytes())
        above = row
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"".join(lines)))
        + chunk(b"IEND", b"")
    )


def paeth(left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    a, b, c = (each.astype(int) for each in (left, above, corner))
    guess = a + b - c
    da, db, dc = abs(guess - a), abs(guess - b), abs(guess - c)
    found = np.where((da <= db) & (da <= dc), a, np.where(db <= dc, b, c))
    return found.astype(np.uint8)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def page(seed: int) -> bytes:
    return png(np.random.default_rng(seed).integers(0, 255, (4, 5, 3)))


GOOD, POOR = page(1), page(2)
WHITE = png(np.full((4, 5, 3), 255))


def prefers(wanted: bytes) -> Any:
    """A judge that sees what it likes, wherever it stands."""
    import base64

    mark = base64.b64encode(wanted).decode()

    def answer(request: Mapping[str, Any]) -> str:
        parts = [
            p for m in request["messages"] if isinstance(m["content"], list) for p in m["content"]
        ]
        urls = [p["image_url"]["url"] for p in parts if "image_url" in p]
        which = ["first", "second"][[mark in url for url in urls].index(True)]
        return json.dumps({"remark": "so it is", "better": which})

    return answer


def always(which: str) -> Any:
    return lambda request: json.dumps({"remark": "by place", "better": which})


def compare(answer: Any, a: bytes | None, b: bytes | None, **options: Any) -> tuple[Match, int]:
    async def run(judge: Pairwise) -> Match:
        async with judge.client.session() as session:
            return await judge.compare(session, "A page, please.", a, b, Usage())

    with JudgeServer(answer) as server:
        match = asyncio.run(run(Pairwise(server.url, "stand-in", **{**QUICK, **options})))
        return match, len(server.requests)


def test_the_better_page_wins_in_either_place() -> None:
    for a, b, winner in ((GOOD, POOR, "a"), (POOR, GOOD, "b")):
        match, calls = compare(prefers(GOOD), a, b)
        assert (match.winner, match.votes, calls) == (winner, (winner,) * 4, 4)
        assert match.consistent


def test_a_judge_that_goes_by_place_finds_a_tie_and_is_found_out() -> None:
    match, calls = compare(always("first"), GOOD, POOR)
    assert (match.winner, match.votes, calls) == ("tie", ("a", "b", "b", "a"), 4)
    assert match.consistent is False


def test_a_cache_answers_no_two_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path))
    with JudgeServer(prefers(GOOD)) as server:
        judge = Pairwise(server.url, "stand-in", backoff_s=0.01)

        async def run() -> Match:
            async with judge.client.session() as session:
                return await judge.compare(session, "A page.", GOOD, POOR, Usage())

        assert asyncio.run(run()).winner == "a" and len(server.requests) == 4
        assert asyncio.run(run()).winner == "a" and len(server.requests) == 4  # all kept


@pytest.mark.parametrize(
    ("a", "b", "winner"),
    [
        (WHITE, POOR, "b"),
        (GOOD, WHITE, "a"),
        (None, POOR, "b"),
        (GOOD, None, "a"),
        (None, None, "tie"),
        (WHITE, None, "tie"),
        (GOOD, GOOD, "tie"),
    ],
)
def test_what_needs_no_opinion_costs_no_call(a: bytes, b: bytes, winner: str) -> None:
    match, calls = compare(always("first"), a, b)
    assert (match.winner, match.votes, match.consistent, calls) == (winner, (), None, 0)
    assert match.reason


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_judge_that_fails_gives_no_winner(fault: str) -> None:
    async def run(judge: Pairwise) -> Match:
        async with judge.client.session() as session:
            return await judge.compare(session, "A page.", GOOD, POOR, Usage())

    with JudgeServer(always("first"), plan=lambda call: fault, slow_s=20.0) as server:
        options: dict[str, Any] = {**QUICK, "timeout_s": 0.5}
        assert asyncio.run(run(Pairwise(server.url, "stand-in", **options))).winner is None


@pytest.mark.parametrize(
    ("votes", "winner"),
    [("aaab", "a"), ("aabb", "tie"), ("attt", "a"), ("abbt", "b"), ("tttt", "tie")],
)
def test_a_majority_decides_and_two_against_two_is_a_tie(votes: str, winner: str) -> None:
    assert majority([{"a": "a", "b": "b", "t": "tie"}[v] for v in votes]) == winner  # type: ignore[misc]


@given(
    st.integers(0, 255), st.integers(1, 6), st.integers(1, 6),
    st.lists(st.sampled_from([0, 1, 2, 4]), min_size=1, max_size=4), st.booleans(),
)  # fmt: skip
def test_blank_is_one_colour_whatever_the_filters(
    shade: int, height: int, width: int, kinds: list[int], spoilt: bool
) -> None:
    pixels = np.full((height, width, 3), shade, np.uint8)
    pixels[..., 1] = 255 - shade
    if spoilt and height * width > 1:
        pixels[-1, -1, 0] ^= 255
    assert is_blank(png(pixels, kinds)) == (not spoilt or height * width == 1)


@pytest.mark.parametrize("data", [b"", b"\x89PNG", GOOD[:40], b"\xff\xd8\xff" + bytes(60)])
def test_what_cannot_be_read_is_not_called_blank(data: bytes) -> None:
    assert is_blank(data) is False
    assert gate(data, GOOD) is None


def matches(words: str) -> dict[str, Match]:
    winners: Any = {"a": "a", "b": "b", "t": "tie", "?": None}
    return {
        f"p{i}": Match(winners[w], ("a", "b", "b", "a") if w == "t" else ())
        for i, w in enumerate(words)
    }


def test_a_win_rate_counts_ties_as_half_and_leaves_out_what_nobody_could_tell() -> None:
    rate = win_rates.win_rate("new", "old", matches("aaabt?"))
    assert (rate.prompts, rate.unscored, rate.settled) == (6, 1, 4)
    assert rate.rate == pytest.approx(3.5 / 5) and rate.ties == pytest.approx(0.2)
    assert rate.consistent == 0.0 and rate.interval and rate.interval.holds(0.7)
    nothing = win_rates.win_rate("new", "old", matches("??"))
    assert nothing.rate is None and nothing.interval is None
    assert win_rates.win_rate("new", "old", matches("a?")).interval is None


@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        ("aa", 0.025**0.5, 1.0),  # two of two: 0.158
        ("aaaaaa", 0.025 ** (1 / 6), 1.0),  # six of six: 0.541, the first to separate
        ("bbb", 0.0, 1 - 0.025 ** (1 / 3)),
        ("tttt", 0.5 * 0.025**0.25, 1 - 0.5 * 0.025**0.25),
    ],
)
def test_matches_that_are_all_alike_are_no_certainty(words: str, low: float, high: float) -> None:
    found = win_rates.win_rate("new", "old", matches(words)).interval
    assert found == pytest.approx((low, high))


def test_what_cannot_be_told_is_said_with_its_reason() -> None:
    lost = {f"p{i}": Match(None, (), "no answer") for i in range(2)}
    for found, said in (
        (lost, "nobody could tell in any of 2 prompts (no answer)"),
        ({**lost, "p2": Match("a")}, "(no interval: 1 told)"),
        ({**lost, "p2": Match("a")}, "2 unscored (no answer)"),
        ({**matches("aaaaa")}, "[0.478, 1.000], not separated"),
        ({**matches("aaaaaa")}, "[0.541, 1.000]; 6 prompts"),
    ):
        rate = asdict(win_rates.win_rate("new", "old", found))
        record = {"new against old": {name: asdict(match) for name, match in found.items()}}
        told = win_rates.told({"rates": [rate], "strengths": {}, "matches": record})
        assert said in told


def test_strengths_by_hand_and_in_order() -> None:
    # 30 of 40 games won, half a game of prior: odds of 30.25 to 10.25
    wins = np.array([[0.0, 10.0], [30.0, 0.0]])
    assert win_rates.bradley_terry(wins) == pytest.approx([0.0, np.log(30.25 / 10.25)], abs=1e-6)
    names = ("one", "two", "three")
    found = {
        ("three", "two"): matches("aaaaaaab"),
        ("three", "one"): matches("aaaaaaaa"),
        ("two", "one"): matches("aaaaaabb"),
    }
    placed = win_rates.strengths(names, found)
    values = [placed[name][0] for name in names]
    assert values[0] == 0 and values[0] < values[1] < values[2]
    assert placed["one"][1] is None and all(placed[n][1] for n in names[1:])


def folder(path: Path, pages: Mapping[str, bytes], prompts: int = 6) -> Path:
    return win_rates.write(path, pages, {f"p{i}": f"Page {i}." for i in range(prompts)})


def test_one_command_judges_folders_and_keeps_every_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = folder(tmp_path / "old", {f"p{i}": POOR for i in range(6)})
    new = folder(tmp_path / "new", {f"p{i}": GOOD for i in range(5)})  # one was not rendered
    with JudgeServer(prefers(GOOD)) as server:
        monkeypatch.setenv("BOTGRPO_JUDGE_URL", server.url)
        monkeypatch.setenv("BOTGRPO_JUDGE_MODEL", "stand-in")
        monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
        out = tmp_path / "found.json"
        assert main(["eval", str(new), "--against", str(old), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "new against old: win rate 0.833" in told and "1 settled without a judge" in told
    record = json.loads(out.read_text())
    assert record["judge"]["model"] == "stand-in" and len(record["judge"]["prompt_sha256"]) == 64
    assert record["matches"]["new against old"]["p5"]["winner"] == "b"
    assert "Page 3." in json.dumps([r["messages"] for r in server.requests])


def test_folders_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--pictures"):
        win_rates.read(tmp_path)
    (tmp_path / "a.png").write_bytes(GOOD)
    with pytest.raises(ConfigError, match=r"requests\.json"):
        win_rates.read(tmp_path)
    one = folder(tmp_path / "one", {"p0": GOOD})
    with pytest.raises(ConfigError, match="two or more that differ"):
        win_rates.run([one, one], Pairwise("http://localhost:1/v1", "m"))


@given(st.text(max_size=150), st.text(max_size=150))
def test_a_prompt_s_id_cannot_leave_its_folder_or_meet_another_one(one: str, other: str) -> None:
    names = [win_rates.file_name(each) for each in (one, other)]
    assert all(name and not set(name) & set("/\\.\0") and len(name) < 120 for name in names)
    assert (names[0] == names[1]) == (one == other)


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = win_rates.write(tmp_path / "x", {"../../etc/p": GOOD}, {"../../etc/p": "?", "q": "!"})
    (found,) = win_rates.read(made).pages
    assert found.startswith("______etc_p-") and list(tmp_path.iterdir()) == [made]
    assert win_rates.read(made).requests == {found: "?", "q": "!"}


def test_the_evaluating_judge_takes_its_options_where_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "old", {"p0": POOR})
    folder(tmp_path / "new", {"p0": GOOD})
    words = ["eval", str(tmp_path / "new"), "--against", str(tmp_path / "old"), "--judge"]
    with JudgeServer(prefers(GOOD)) as server:
        judge = f"url='{server.url}', model='m', temperature=0.5, cache=False"
        assert main([*words, judge]) == 0
        assert {request["temperature"] for request in server.requests} == {0.5}
    capsys.readouterr()
    for wrong, said in (("temprature=1", "options are url, model"), ("0.5", "name=value")):
        given = f"{wrong}, url='http://h/v1', model='m'"
        assert main([*words, given]) == 2
        assert said in capsys.readouterr().err
