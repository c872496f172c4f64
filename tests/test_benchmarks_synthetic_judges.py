"""Synthetic judges: their faults are those that were put in, and no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.benchmarks.synthetic_judges import PageJudge, Steps, ruled
from botgrpo.rewards.base import Rollout, Score
from botgrpo.rewards.math.steps_sympy import StepsSympy
from botgrpo.rewards.registry import build
from botgrpo.rewards.training_step import at_step
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.errors import ConfigError

FILE = """export default function Tally() {
  return (
    <main>
      <h2>Tally</h2>
      <button>Add</button>
    </main>
  );
}
"""
ASKED = {"name": "Tally", "elements": ["h2", "button"]}


def page(number: int = 0, code: str = FILE) -> Rollout:
    return Rollout(f"r{number}", "g", "Write it.", f"```tsx\n{code}```\n", ASKED)


def scores(judge: PageJudge, rollouts: list[Rollout], step: int = 1) -> list[Score]:
    with at_step(step):
        return asyncio.run(judge.score(rollouts))


def test_without_faults_the_score_is_the_share_of_what_was_asked() -> None:
    half = FILE.replace("button", "span")  # name and h2 are there: 2 of 3
    broken = FILE.replace("</h2>", "</h3>")
    given = scores(PageJudge(), [page(), page(1, half), page(2, broken)])
    assert [s.outcome for s in given] == [1.0, 0.7, -0.3]
    assert [s.verdict for s in given] == ["judged", "judged", "syntax"]
    assert not any(s.spans for s in given)


def test_noise_scatters_the_scores_of_pages_and_never_of_failures() -> None:
    half = FILE.replace("button", "span").replace("h2", "h3")  # 1 of 3: noise has room
    judge = PageJudge(noise=1.0)
    pages = [page(n, half) for n in range(40)]
    shown = [s.outcome for s in scores(judge, pages)]
    assert 0.05 < np.std([o for o in shown if o is not None]) < 0.2
    assert shown == [s.outcome for s in scores(judge, pages)]
    assert shown != [s.outcome for s in scores(judge, pages, step=2)]
    failed = [page(n, "export default (") for n in range(5)]
    assert {s.outcome for s in scores(judge, failed)} == {-0.3}


def test_only_the_protocol_that_shows_the_code_can_be_paid_for_its_length() -> None:
    bare = FILE.replace("button", "span")
    long = bare.replace("</main>", f"  <p>{'word ' * 80}</p>\n    </main>")
    judge = PageJudge("one_turn", leak=3.0)
    short, longer = (s.outcome or 0 for s in scores(judge, [page(0, bare), page(1, long)]))
    assert short == pytest.approx(0.5) and longer == pytest.approx(0.9)
    with pytest.raises(ConfigError, match="settled before the code is shown"):
        PageJudge("two_turn", leak=1.0)


def test_one_turn_always_blames_three_lines_and_two_turns_what_the_score_lacks() -> None:
    half = FILE.replace("button", "span")  # 7 points: three lack, one line
    full, some = page(), page(1, half)
    one = scores(PageJudge("one_turn"), [full, some])
    two = scores(PageJudge("two_turn"), [full, some])
    assert [len(s.spans) for s in one] == [3, 3]
    assert [len(s.spans) for s in two] == [0, 1]
    for score, rollout in zip((*one, *two), (full, some) * 2, strict=True):
        for span in score.spans:
            assert rollout.completion[span.start : span.end].strip()
            assert span.value in (-0.1, -0.2, -0.3)
    assert [s.outcome for s in two] == [s.outcome for s in scores(PageJudge(), [full, some])]


@pytest.mark.parametrize("wrong", [{"variant": "three_turn"}, {"noise": -1.0}])
def test_a_judge_that_is_none_of_the_paper_s_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        PageJudge(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reference",
    [
        "synthetic.page_judge",
        "synthetic.page_judge('two_turn', noise=1.0)",
        "synthetic.steps(math.steps_sympy, window=3)",
    ],
)
def test_they_pass_the_test_that_every_reward_has_to_pass(reference: str) -> None:
    checks = asyncio.run(validate(build(reference)))
    assert all(check.ok for check in checks), checks


@pytest.mark.parametrize(
    ("propagation", "window", "told"),
    [
        ("independent", 1, [1, -1, 1, 0, 1]),
        ("error_propagation", 1, [1, -1, 0, 0, 0]),
        ("context_aware", 1, [1, -1, 0, -1, 0]),
        ("error_propagation", 3, [-1, -1, -1, 0, 0]),
        ("independent", 2, [-1, -1, 0, 0, 1]),
        ("error_propagation", 5, [-1, -1, -1, -1, -1]),
    ],
)
def test_verdicts_are_carried_on_as_worked_out_by_hand(
    propagation: str, window: int, told: list[float]
) -> None:
    assert ruled([1, -1, 1, 0, 1], propagation, window) == told  # type: ignore[arg-type]


@given(st.lists(st.sampled_from([0.0, 1.0])), st.integers(1, 6))
def test_where_no_step_is_wrong_no_propagation_changes_anything(
    values: list[float], window: int
) -> None:
    kinds = ("error_propagation", "independent", "context_aware")
    assert len({tuple(ruled(values, kind, window)) for kind in kinds}) == 1  # type: ignore[arg-type]
    assert ruled(values, "independent", 1) == values


def test_tokens_are_paid_for_carried_verdicts_as_the_checker_pays() -> None:
    text = "<step 1>1+1=3</step 1>\n<step 2>5*5=25</step 2>\n<final>25</final>"
    spans = tuple((i, i + 1) for i in range(len(text)))
    rollout = Rollout("r", "g", "?", text, token_ids=tuple(range(len(text))), token_spans=spans)
    right = text.index("25<")
    paid = {}
    for kind in ("error_propagation", "independent"):
        judge = Steps(StepsSympy(verified=1.0), kind)  # type: ignore[arg-type]
        (score,) = asyncio.run(judge.score([rollout]))
        paid[kind] = judge.project_local(rollout, score, 0)
        assert paid[kind][text.index("1+1")] == -1.0 and score.outcome == -1.0
    assert paid["independent"][right] == 0.5 and paid["error_propagation"][right] == 0.0


def test_a_window_of_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        Steps("math.steps_sympy", window=0)
    assert replace(Steps("math.steps_sympy").spec).name == "synthetic.steps(math.steps_sympy)"
