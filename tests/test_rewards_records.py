from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards import Rollout, Score, Span
from botgrpo.rewards.records import (
    read_rollouts,
    read_scores,
    rollout_from_json,
    rollout_to_json,
    score_from_json,
    score_to_json,
    write_rollouts,
    write_scores,
)
from botgrpo.sandbox.errors import ConfigError

# A high surrogate right before a low one is a character to JSON, so only lone ones round-trip.
TEXT = st.text(st.characters(exclude_categories=("Cs",)) | st.just("\ud800"), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def rollouts(draw):
    completion = draw(TEXT)
    point = st.integers(0, len(completion))
    pairs = draw(st.lists(st.tuples(point, point), max_size=5))
    spans = tuple((min(p), max(p)) for p in pairs)
    tokens = draw(st.booleans())
    return Rollout(
        draw(TEXT),
        draw(TEXT),
        draw(TEXT | st.just([{"role": "user", "content": "hi"}])),
        completion,
        draw(st.dictionaries(TEXT, st.integers() | TEXT | st.none(), max_size=3)),
        tuple(range(len(spans))) if tokens else None,
        spans if tokens else None,
        draw(st.sampled_from(["stop", "length"])),
    )


@st.composite
def scores(draw):
    local_scored = draw(st.booleans())
    values = draw(st.none() | st.lists(NUMBER | st.none(), max_size=4).map(tuple))
    return Score(
        draw(TEXT),
        draw(NUMBER | st.none()),
        draw(TEXT),
        draw(TEXT),
        tuple(Span(0, n, v, "x") for n, v in draw(st.lists(st.tuples(st.integers(0, 9), NUMBER)))),
        values if local_scored else None,
        local_scored,
        draw(st.dictionaries(TEXT, NUMBER, max_size=3)),
        abs(draw(NUMBER)),
    )


@given(rollouts())
@settings(deadline=None)
def test_rollouts_survive_json(rollout):
    assert rollout_from_json(json.loads(json.dumps(rollout_to_json(rollout)))) == rollout


@given(scores())
@settings(deadline=None)
def test_scores_survive_json(score):
    assert score_from_json(json.loads(json.dumps(score_to_json(score)))) == score


def test_the_three_states_of_the_local_signal_differ_in_json():
    assert "local" not in score_to_json(Score("a", 1.0))
    assert score_to_json(Score("a", 1.0, local_scored=False))["local"] is None
    assert score_to_json(Score("a", 1.0, local=(None, 0.5)))["local"] == [None, 0.5]


def test_files_round_trip_with_lone_surrogates_and_line_separators(tmp_path):
    kept = [Rollout("a", "g", "p", "x\ud800\u2028y\x85"), Rollout("b", "g", "p", "")]
    write_rollouts(tmp_path / "r.jsonl", kept)
    assert read_rollouts(tmp_path / "r.jsonl") == kept
    assert (tmp_path / "r.jsonl").read_bytes().isascii()
    judged = [Score("a", None, reason="down", local_scored=False), Score("b", 0.5)]
    write_scores(tmp_path / "s.jsonl", judged)
    assert read_scores(tmp_path / "s.jsonl") == judged


def test_a_dash_is_a_standard_stream(monkeypatch, capsys):
    write_rollouts("-", [Rollout("a", "g", "p", "c")])
    written = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
    assert read_rollouts("-") == [Rollout("a", "g", "p", "c")]


def test_blank_lines_crlf_and_a_byte_order_mark_are_passed_over(tmp_path):
    line = json.dumps(rollout_to_json(Rollout("a", "g", "p", "c"))).encode()
    (tmp_path / "r").write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\r\n")
    assert len(read_rollouts(tmp_path / "r")) == 1


GOOD = {"id": "a", "group": "g", "prompt": "p", "completion": "héy"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 3}, "id = 3; allowed: text"),
        ({"completion": None}, "completion = None"),
        ({"prompt": [1]}, "chat messages"),
        ({"token_spans": [[0, 4]]}, r"token_spans\[0\] = \[0, 4\]; allowed: .* <= 3"),
        ({"token_spans": [[2, 1]]}, "start <= end"),
        ({"token_spans": [[0, True]]}, "in code points"),
        ({"token_ids": [1, 2], "token_spans": [[0, 1]]}, "2 token_ids and 1 token_spans"),
        ({"token_ids": [-1]}, r"token_ids\[0\] = -1"),
        ({"token_ids": 3}, "a list"),
        ({"finish_reason": "eos"}, '"stop" or "length"'),
        ({"reference": []}, "an object"),
    ],
)
def test_a_wrong_rollout_is_named_by_line_with_what_is_allowed(tmp_path, change, message):
    lines = [json.dumps({**GOOD, "id": "first"}), "", json.dumps({**GOOD, **change})]
    (tmp_path / "r").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=f"line 3: .*{message}"):
        read_rollouts(tmp_path / "r")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", "an object"),
        (b'{"id": "\xff"}', "not UTF-8 at byte 8"),
        (b'{"id": "a", "outcome": NaN}', "got NaN"),
        (b'{"id": "a", "outcome": 1e999}', "finite number or null"),
        (b'{"id": "a", "outcome": true}', "finite number or null"),
        (b'{"id": "a"}', "outcome = None"),
        (b'{"id": "a", "outcome": 1, "local": [0, "x"]}', r"local\[1\]"),
        (b'{"id": "a", "outcome": 1, "spans": [{"start": 2, "end": 1}]}', r"spans\[0\]"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_wrong_score_line_is_refused(tmp_path, line, message):
    (tmp_path / "s").write_bytes(b'{"id": "ok", "outcome": null}\n' + line)
    with pytest.raises(ConfigError, match=f"line 2: .*{message}"):
        read_scores(tmp_path / "s")


def test_the_same_id_twice_is_refused_with_both_lines(tmp_path):
    write_rollouts(tmp_path / "r", [Rollout("a", "g", "p", "c")] * 2)
    with pytest.raises(ConfigError, match="line 2: got the id 'a' again, first on line 1"):
        read_rollouts(tmp_path / "r")


def test_nan_is_never_written_and_leaves_no_half_file(tmp_path):
    with pytest.raises(ConfigError, match="not NaN"):
        write_scores(tmp_path / "s", [Score("a", 1.0), Score("b", float("nan"))])
    assert not (tmp_path / "s").exists()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.jsonl: No such file"):
        read_rollouts(tmp_path / "none.jsonl")
