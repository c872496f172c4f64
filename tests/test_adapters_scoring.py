"""What the adapters share, without the trainers they are for."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from botgrpo.benchmarks import parity
from botgrpo.rewards.base import Rollout, Score
from botgrpo.rewards.mix import Composite, Design
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import batch as batches
from botgrpo.trainer.adapters.gathered import Scored, token_advantages
from botgrpo.trainer.adapters.scoring import as_trl_reward, composite, reference_of
from botgrpo.trainer.algorithms import algorithm
from tiny import StubReward

LENGTHS = [3, 5, 0, 4, 1, 6, 2, 5, 7, 3, 4, 4]
GROUP_SIZE = 4


def judged(seed: int) -> tuple[list[Rollout], list[Score]]:
    """Twelve rollouts in three groups: one empty, one unscored, some tokens unknown."""
    random = np.random.default_rng(seed)
    rollouts, scores = [], []
    for i, length in enumerate(LENGTHS):
        rollouts.append(Rollout(str(i), str(i // GROUP_SIZE), "", "", token_ids=(1,) * length))
        local: list[float | None] = list(-random.random(length))
        if i in (1, 9):
            local[0] = None
        if i == 6:
            scores.append(Score.unscored(str(i), "lost"))
        elif i == 8:
            scores.append(Score(str(i), 1.0, "ok", local_scored=False))
        else:
            scores.append(Score(str(i), float(random.integers(2)), "ok", local=tuple(local)))
    return rollouts, scores


def tensors(scores: list[Score], rows: slice) -> Scored:
    """The rows of one process, padded to their own longest."""
    lengths = LENGTHS[rows]
    width = max(lengths)
    local = torch.zeros(len(lengths), width, dtype=torch.float64)
    for i, score in enumerate(scores[rows]):
        if not score.local_scored:
            local[i] = torch.nan
        else:
            values = [np.nan if v is None else v for v in score.local or ()]
            local[i, : len(values)] = torch.tensor(values, dtype=torch.float64)
    outcome = [np.nan if s.outcome is None else s.outcome for s in scores[rows]]
    mask = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    outcome_B = torch.tensor(outcome, dtype=torch.float64)
    return Scored(local, outcome_B, mask, GROUP_SIZE, first=rows.start)


class Waits(Exception):
    """This process has asked, and the others have not yet."""


def on_processes(
    parts: list[Scored], **options: object
) -> list[tuple[torch.Tensor, dict[str, float]]]:
    """Every process's result. Each round runs all of them up to the first gather without answer."""
    answers: list[torch.Tensor] = []
    while True:
        asked: list[torch.Tensor] = []
        done = []
        for part in parts:
            replies = iter(answers)

            def gather(
                x: torch.Tensor,
                replies: Iterator[torch.Tensor] = replies,
                asked: list[torch.Tensor] = asked,
            ) -> torch.Tensor:
                reply = next(replies, None)
                if reply is None:
                    asked.append(x)
                    raise Waits
                return reply

            with contextlib.suppress(Waits):
                done.append(token_advantages(part, gather, w_g=2.0, w_s=0.5, **options))
        if not asked:
            return done
        answers.append(torch.cat(asked))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ddof": 1},
        {"leave_one_out": True},
        {"weight": "pooled"},
        {"uniform_group": "damp"},
        {"uniform_group": "zero"},
    ],
)
def test_groups_across_processes_are_those_of_the_whole_batch(
    seed: int, options: dict[str, object]
) -> None:
    rollouts, scores = judged(seed)
    whole = batches.make_batch(rollouts, scores, w_g=2.0, w_s=0.5)
    advantages_N, stats = batches.advantages(whole, algorithm("bot_grpo"), options, w_g=2.0)
    expected = whole.split(advantages_N)
    cuts = [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)]
    results = on_processes([tensors(scores, rows) for rows in cuts], **options)
    rows = [row for advantages, _ in results for row in advantages]
    for row, mine in zip(rows, expected, strict=True):
        assert row[: len(mine)].numpy() == pytest.approx(mine, abs=1e-6)
        assert not row[len(mine) :].any()
    metrics = results[0][1]
    assert all(found == metrics for _, found in results)
    assert metrics["bot/unscored"] == 1 and metrics["bot/local_unscored_tokens"] == 9
    if options.get("weight") != "pooled":  # our loop logs the paper's weights whatever it trains on
        live = stats.rollouts >= 2
        assert metrics["bot/sigma_within"] == pytest.approx(float(np.mean(stats.within[live])))


def test_a_group_of_one_and_a_batch_that_nobody_scored_get_zero() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    local = torch.rand(2, 3, dtype=torch.float64)
    alone = Scored(local, torch.ones(2, dtype=torch.float64), mask, group_size=1)
    lost = Scored(local, torch.full((2,), torch.nan, dtype=torch.float64), mask, group_size=2)
    for scored in (alone, lost):
        advantages, metrics = token_advantages(scored, lambda x: x, w_g=1.0, w_s=1.0)
        assert not advantages.any() and all(np.isfinite(v) for v in metrics.values())


def test_a_reward_becomes_a_function_of_prompts_and_completions() -> None:
    function = as_trl_reward("examples/plain_function.py:mentions_state")
    found = function(
        prompts=["p"] * 3,
        completions=["useState(0)", "", [{"role": "assistant", "content": "x"}]],
        trainer_state=object(),
        log_metric=print,
    )
    assert found == [1.0, None, 0.0]
    assert "mentions_state" in function.__name__


def test_the_function_works_where_an_event_loop_runs_already() -> None:
    function = as_trl_reward("examples/plain_function.py:mentions_state")

    async def inside() -> list[float | None]:
        return function(["p"], ["useState("])

    assert asyncio.run(inside()) == [1.0]


def test_a_reward_with_a_local_signal_is_taken_with_it_and_a_design_as_it_is() -> None:
    single = composite(StubReward())
    assert dict(single.design.outcomes) == dict(single.design.locals) == {"stub": 1.0}
    plain = composite("examples/plain_function.py:mentions_state")
    assert not plain.design.locals
    design = Design({"stub": 2.0}, w_g=3.0)
    mixed = Composite(design, {"stub": StubReward()})
    assert composite(mixed) is mixed
    with pytest.raises(ConfigError, match=r"Did you mean react\.compile"):
        composite("react.complie")


@pytest.mark.parametrize(
    ("columns", "reference"),
    [
        ({"accepted": [4], "level": 3}, {"accepted": [4], "level": 3}),
        ({"reference": '{"accepted": [4]}', "level": 3}, {"accepted": [4]}),
        ({"reference": {"accepted": [4]}}, {"accepted": [4]}),
    ],
)
def test_columns_are_the_reference(
    columns: dict[str, object], reference: dict[str, object]
) -> None:
    assert reference_of(columns) == reference


@pytest.mark.parametrize("name", ["trl", "verl"])
def test_without_its_library_an_adapter_says_what_to_install(name: str) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed here")
    with pytest.raises(ConfigError, match=f"make env-{name}"):
        importlib.import_module(f"botgrpo.trainer.adapters.{name}")


def test_the_parity_command_says_where_it_can_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parity, "installed", lambda: [])
    assert parity.main([]) == 2
    assert "make env-trl" in capsys.readouterr().err


def _comparisons(error: float) -> Callable[[str, int], list[parity.Comparison]]:
    return lambda peer, seed: [parity.Comparison(peer, "theirs", "ours", error * seed)]


@pytest.mark.parametrize(("error", "status"), [(1e-8, 0), (1e-3, 1), (float("nan"), 1)])
def test_the_parity_command_shows_the_worst_batch_and_fails_above_its_tolerance(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: float,
    status: int,
) -> None:
    monkeypatch.setattr(parity, "installed", lambda: ["peer"])
    monkeypatch.setattr(parity, "compare", _comparisons(error))
    assert parity.main(["--seeds", "3"]) == status
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == f"| peer | theirs | ours | {2 * error:.1e} | none |"
