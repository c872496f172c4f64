"""`botgrpo score`: files to files, several passes, and what they say of a reward's stability."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.scoring import records, score, with_tokens
from botgrpo.benchmarks.stability import (
    disagreement,
    icc,
    share_interval,
    stability,
    stability_text,
)
from botgrpo.rewards import RewardSpec, Rollout, Score, Span, attempt
from botgrpo.rewards.records import read_scores
from botgrpo.sandbox.errors import ConfigError

ROLLOUTS = [Rollout(f"r{i}", "g", "p", "some text") for i in range(4)]
# Shrout and Fleiss 1979, table 2: four judges on six targets
RATINGS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]

MOODY = """
from botgrpo.rewards import RewardSpec, Score, attempt


class Moody:
    spec = RewardSpec("test.moody", "1", (0, 1))

    async def score(self, rollouts):
        return [self.one(r) for r in rollouts]

    def one(self, rollout):
        if "lost" in rollout.id and attempt() == 2:
            return Score.unscored(rollout.id, "the judge was asleep")
        flips = "flips" in rollout.id and attempt() == 1
        return Score(rollout.id, float(not flips), verdict="bad" if flips else "ok")
"""


def write_rollouts(path: Path, *ids: str) -> Path:
    rows = [{"id": i, "group": "g", "prompt": "p", "completion": "c"} for i in ids]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*argv: object) -> int:
    return cli.main([str(word) for word in argv])


def constant(outcomes: Sequence[float | None]) -> list[Score]:
    return [
        Score.unscored(r.id, "nobody") if g is None else Score(r.id, g, verdict=f"v{g}")
        for r, g in zip(ROLLOUTS, outcomes, strict=True)
    ]


def test_the_first_pass_is_the_record_and_repeats_holds_them_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "moody.py").write_text(MOODY)
    source = write_rollouts(tmp_path / "r.jsonl", "calm", "flips", "lost")
    out = tmp_path / "s.jsonl"
    reference = f"{tmp_path / 'moody.py'}:Moody"
    assert run("score", "--reward", reference, "--in", source, "--out", out, "--repeat", 3) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["outcome"]) for row in rows] == [
        ("calm", 1.0),
        ("flips", 1.0),
        ("lost", 1.0),
    ]
    assert [row["repeats"] for row in rows] == [[1, 1, 1], [1, 0, 1], [1, 1, None]]
    assert len(read_scores(out)) == 3  # still score records
    printed = capsys.readouterr()
    assert "3 passes over 3 rollouts: 1 changed their outcome" in printed.err
    assert "1 were scored in some passes only" in printed.err
    assert "declared deterministic and is not" in printed.err
    assert printed.out == ""


def test_one_pass_writes_no_repeats_and_says_nothing_of_stability(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "moody.py").write_text(MOODY)
    source = write_rollouts(tmp_path / "r.jsonl", "calm")
    assert run("score", "--reward", f"{tmp_path / 'moody.py'}:Moody", "--in", source) == 0
    printed = capsys.readouterr()
    assert "repeats" not in json.loads(printed.out)
    assert "passes" not in printed.err


def test_no_passes_at_all_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "moody.py").write_text(MOODY)
    source = write_rollouts(tmp_path / "r.jsonl", "calm")
    words = ["--reward", f"{tmp_path / 'moody.py'}:Moody", "--in", source, "--repeat", 0]
    assert run("score", *words) == 2
    assert "got 0 passes; allowed: 1 or more" in capsys.readouterr().err


def test_each_pass_is_an_attempt_of_its_own() -> None:
    seen: list[int] = []

    class Watches:
        spec = RewardSpec("test.watches", "1", (0, 1))

        async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
            seen.append(attempt())
            return [Score(r.id, 0.0) for r in rollouts]

    passes = score(Watches(), ROLLOUTS, passes=3)
    assert seen == [0, 1, 2] and attempt() == 0
    assert [len(each) for each in passes] == [4, 4, 4]
    assert records(passes)[0]["repeats"] == [0, 0, 0]


def test_stability_counts_each_kind_of_change_apart() -> None:
    first = constant([1.0, 0.0, 0.0, None])
    second = [
        Score("r0", 0.0, verdict="v1.0"),  # the outcome flips, the verdict stays
        Score("r1", 0.0, verdict="other"),
        Score("r2", 0.0, verdict="v0.0", spans=(Span(0, 2, -1.0),)),
        Score("r3", 0.0),
    ]
    found = stability([first, second])
    assert found.outcome == {"r0"}
    assert found.verdict == {"r1"}
    assert found.local == {"r2"}
    assert found.lost == {"r3"}
    assert found.changed == {"r0", "r1", "r2", "r3"}
    assert found.complete == 3 and found.flip_rate == pytest.approx(1 / 3)


def test_a_label_that_is_worded_anew_is_no_change_of_the_signal() -> None:
    one, two = (Score("r", 1.0, spans=(Span(0, 2, -1.0, label),)) for label in ("a", "b"))
    assert not stability([[one], [two]]).changed


def test_token_values_count_where_there_are_any_and_unknown_ones_are_no_zeros() -> None:
    known, unknown = (Score("r", 1.0, local=(0.0, value)) for value in (0.0, None))
    assert stability([[known], [unknown]]).local == {"r"}
    missing = Score("r", 1.0, local_scored=False)
    assert not stability([[known], [missing]]).local


def test_the_icc_is_that_of_shrout_and_fleiss() -> None:
    assert icc(RATINGS) == pytest.approx(0.2898, abs=5e-5)  # 0.29 in their table 4


def test_the_icc_is_undefined_where_nothing_varies_and_0_where_passes_say_nothing() -> None:
    assert icc([[1.0, 1.0], [1.0, 1.0]]) is None
    rng = np.random.default_rng(0)
    assert icc(rng.random((4000, 3))) == pytest.approx(0.0, abs=0.05)
    assert icc([[0.0, 0.0], [1.0, 1.0]]) == 1.0
    with pytest.raises(ConfigError, match="rollouts, passes"):
        icc([[1.0, 0.0]])


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=2, max_size=6),
    st.floats(-3, 3),
)
def test_the_icc_is_at_most_1_and_minds_no_common_shift(rows: list[list[float]], by: float) -> None:
    values = np.round(np.array(rows), 3)
    before, after = icc(values), icc(values + round(by, 3))
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert before <= 1 + 1e-9
        assert after == pytest.approx(before, abs=1e-6)


def test_the_flip_rate_is_the_chance_that_two_passes_disagree() -> None:
    assert disagreement([1, 1, 1]) == 0
    assert disagreement([1, 0]) == 1
    assert disagreement([1, 1, 1, 0]) == pytest.approx(0.5)  # 3 of 6 pairs


def test_no_change_in_seven_rollouts_leaves_room_for_many() -> None:
    low, high = share_interval(0, 7)
    assert low == 0 and high == pytest.approx(1 - 0.025 ** (1 / 7))  # 0.41
    assert share_interval(7, 7).high == 1
    assert share_interval(5, 10) == pytest.approx((0.187, 0.813), abs=5e-4)


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [([1.0, 1.0, 1.0, 1.0], "all outcomes are equal"), ([1.0, None, None, None], "too few")],
)
def test_an_icc_that_cannot_be_is_said_with_its_reason(
    outcomes: list[float | None], says: str
) -> None:
    found = stability([constant(outcomes)] * 2)
    assert found.icc is None
    assert says in " ".join(stability_text(found, "x", deterministic=True))


def test_what_is_said_of_determinism_depends_on_the_promise() -> None:
    steady = stability([constant([1.0, 0.0, 0.0, 1.0])] * 2)
    shaky = stability([constant([1.0, 0.0, 0.0, 1.0]), constant([0.0, 0.0, 0.0, 1.0])])
    promised = {"steady": (steady, True), "shaky": (shaky, True), "free": (shaky, False)}
    said = {k: stability_text(f, "x", deterministic=d)[-1] for k, (f, d) in promised.items()}
    assert said["steady"].startswith("x is declared deterministic, and was")
    assert said["shaky"].startswith("x is declared deterministic and is not")
    assert said["free"] == "x does not claim to repeat itself."


def test_nothing_to_score_is_no_error() -> None:
    found = stability([[], []])
    assert (found.rollouts, found.flip_rate, found.icc) == (0, None, None)
    assert stability_text(found, "x", deterministic=True)


def test_what_a_tokenizer_takes_for_no_text_is_scored_without_tokens() -> None:
    transformers = pytest.importorskip("transformers")
    folder = Path(cli.__file__).parent / "checkpoints/react_micro/seed0"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["const a = 1;", "a \ud800 b", "\ud83e", "a\0b", ""]
    found = with_tokens([Rollout(f"r{i}", "g", "p", t) for i, t in enumerate(texts)], tokenizer)
    assert [each.completion for each in found] == texts
    assert [each.token_spans is None for each in found][:3] == [False, True, True]
