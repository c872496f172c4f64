"""PRIME's reward model learns from outcomes, says token rewards, and resumes with the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from botgrpo.benchmarks import assemble, kills
from botgrpo.benchmarks.training import load_config
from botgrpo.rewards.base import Score
from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import checkpoint
from botgrpo.trainer.engines.base import Sample
from botgrpo.trainer.footprint import footprint
from botgrpo.trainer.loop import Run
from botgrpo.trainer.policy import load_policy
from botgrpo.trainer.prime import Prime, prime_of, require
from botgrpo.trainer.reference import Reference
from test_trainer_loop import lines
from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder

ON = {"algorithm": "prime", "prime": "{}"}
LN2 = math.log(2)


class Coin(nn.Module):
    """A language model of two tokens whose logits are the same two numbers everywhere."""

    config = SimpleNamespace(_attn_implementation="eager")
    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2, bias=False)
        nn.init.zeros_(self.head.weight)

    def get_output_embeddings(self) -> nn.Linear:
        return self.head

    def base_model(self, input_ids: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=torch.ones(*input_ids.shape, 1))


def coin(learning_rate: float = 1.0, budget_tokens: int = 100) -> Prime:
    model = Coin()
    return Prime(
        model=model,
        reference=Reference(model),
        optimizer=torch.optim.SGD(model.parameters(), lr=learning_rate),
        beta=0.05,
        bounds=(-1.0, 1.0),
        pad_id=0,
        budget_tokens=budget_tokens,
        autocast=None,
    )


def drawn(*completions: Sequence[int], k: int = 2) -> Any:
    """What `Prime.step` reads of rollouts of these tokens."""
    return SimpleNamespace(
        samples=[Sample(tuple(c), np.zeros(len(c), np.float32), "stop") for c in completions],
        prompt_ids=[[0]] * (len(completions) // k),
    )


def scores(*outcomes: float | None) -> list[Score]:
    return [
        Score.unscored(str(i), "lost") if g is None else Score(str(i), g)
        for i, g in enumerate(outcomes)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


def make(folder: Path, out: Path, reward: Any = None, **sets: object) -> Run:
    out.mkdir(exist_ok=True)
    return Run(
        config=tiny_config(**(ON | sets)),
        policy=load_policy(folder),
        task=StubTask(),
        reward=reward or StubReward(),
        judge=StubReward(),
        out=out,
    )


def test_a_step_worked_by_hand() -> None:
    # right: 1 1 0, wrong: 0. At w = (0, 0) each token's log-probability is -ln 2 and q = 0, so the
    # loss is ln 2. d sum q / d w_1 = 3 tokens x (1 - 1/2, 1 - 1/2, -1/2) = 1/2 and -1/2; times
    # beta (1/2 - y) / 2 rollouts: -0.0125 / 2 and -0.0125 / 2 = -0.0125 in all, w_0 the opposite.
    prime = coin()
    told, numbers = prime.step(drawn([1, 1, 0], [0]), scores(1.0, 0.0))
    gradient = prime.model.head.weight.grad[:, 0].tolist()
    assert gradient == pytest.approx([0.0125, -0.0125])
    assert numbers["bot/prime/loss"] == pytest.approx(LN2)
    assert numbers["bot/prime/grad_norm"] == pytest.approx(0.0125 * math.sqrt(2))
    # the token rewards are those of w = (-0.0125, 0.0125): after the step
    one = 0.05 * (LN2 - math.log1p(math.exp(-0.025)))
    nil = 0.05 * (LN2 - math.log1p(math.exp(0.025)))
    assert told[0].local == pytest.approx([one, one, nil], rel=1e-3)
    assert told[1].local == pytest.approx([nil], rel=1e-3)
    # before the step both sums were 0: "right" at a half, and the pair is a tie
    assert numbers["bot/prime/accuracy"] == 0.5 and numbers["bot/prime/pair_accuracy"] == 0.5
    _, after = prime.step(drawn([1, 1, 0], [0]), scores(1.0, 0.0))
    assert after["bot/prime/accuracy"] == after["bot/prime/pair_accuracy"] == 1.0
    assert after["bot/prime/loss"] < LN2


def test_forward_passes_of_any_size_give_the_same_step() -> None:
    whole, small = coin(), coin(budget_tokens=1)
    for prime in (whole, small):
        prime.step(drawn([1, 1, 0], [0], [1], [0, 1]), scores(1.0, 0.0, 0.0, 1.0))
    torch.testing.assert_close(whole.model.head.weight, small.model.head.weight)


def test_what_nobody_could_score_teaches_nothing_and_stays_unscored() -> None:
    asked, without = coin(), coin()
    told, numbers = asked.step(drawn([1, 1], [0], [0, 0], [1]), scores(1.0, 0.0, None, 1.0))
    without.step(drawn([1, 1], [0], [1], k=1), scores(1.0, 0.0, 1.0))
    assert torch.equal(asked.model.head.weight, without.model.head.weight)
    assert told[2] == scores(None, None, None)[2]
    assert numbers["bot/prime/pair_accuracy"] == 0.5  # one pair: the second group has one outcome


def test_nothing_scored_and_empty_completions_make_no_step() -> None:
    prime = coin()
    told, numbers = prime.step(drawn([1], [0]), scores(None, None))
    assert [s.outcome for s in told] == [None, None] and "bot/prime/loss" not in numbers
    told, _ = prime.step(drawn([], []), scores(1.0, 0.0))
    assert [s.local for s in told] == [None, None]
    assert not prime.model.head.weight.any()


def test_token_rewards_are_held_within_their_bounds_and_counted() -> None:
    prime = coin(learning_rate=1e5)
    told, numbers = prime.step(drawn([1, 1, 0], [0]), scores(1.0, 0.0))
    assert told[1].local == (-1.0,) and numbers["bot/prime/held"] == 2


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    prime = coin()
    with torch.no_grad():
        prime.model.head.weight[0] = math.inf
    with pytest.raises(RunFailed, match=r"not finite.*prime\.learning_rate.*--resume"):
        prime.step(drawn([1], [0]), scores(1.0, 0.0))


def test_a_reward_model_learns_which_rollouts_succeed(folder: Path, tmp_path: Path) -> None:
    sets = {"run__steps": 16, "run__eval_every": 16, "sampling__prompts": 4}
    sets |= {"optim__learning_rate": 1e-5, "prime__learning_rate": 0.01}  # the policy stays
    make(folder, tmp_path, **sets).train(resume=False)
    numbers = lines(tmp_path / "metrics.jsonl")
    for name in ("accuracy", "pair_accuracy"):
        values = [m[f"bot/prime/{name}"] for m in numbers]
        assert np.mean(values[-4:]) > np.mean(values[:4]) + 0.2
    assert np.mean([m["bot/prime/loss"] for m in numbers[-4:]]) < 0.67 < LN2
    assert numbers[0]["bot/prime/loss"] == pytest.approx(LN2, abs=1e-6)


def test_logged_rollouts_carry_the_implicit_rewards(folder: Path, tmp_path: Path) -> None:
    run = make(folder, tmp_path, StubReward(lose="/0"), run__steps=1)
    run.train(resume=False)
    records = lines(tmp_path / "rollouts.jsonl")
    assert len(records) == 8
    for r in records:
        if r["outcome"] is None:
            assert r["local"] is None and r["token_rewards"] is None
        else:
            assert len(r["local"]) == len(r["token_ids"])
            assert r["token_rewards"] == pytest.approx(
                [r["outcome"] + s for s in r["local"]], abs=1e-5
            )
            assert any(r["local"])  # phi has moved before it was asked


def test_a_resumed_run_gives_the_same_numbers_weights_and_reward_model(
    folder: Path, tmp_path: Path
) -> None:
    make(folder, tmp_path / "whole").train(resume=False)
    make(folder, tmp_path / "cut", run__steps=2).train(resume=False)
    metrics = tmp_path / "cut/metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"step": 3, "rew')  # as a kill leaves it
    make(folder, tmp_path / "cut").train(resume=True)
    assert kills.differences(tmp_path / "whole", tmp_path / "cut") == []
    saved = [
        torch.load(tmp_path / run / "checkpoints/step-000004/weights.pt", weights_only=True)
        for run in ("whole", "cut")
    ]
    assert saved[0].keys() == {"model", "optimizer", "prime"}
    moved = saved[0]["prime"]["model"]
    start = load_policy(folder).model.state_dict()
    assert any(not torch.equal(start[name], moved[name]) for name in start)


def test_a_reward_model_that_was_lost_is_noticed(folder: Path, tmp_path: Path) -> None:
    make(folder, tmp_path, run__steps=2).train(resume=False)
    at = checkpoint.complete(tmp_path / "checkpoints")[-1] / "weights.pt"
    weights = torch.load(at, weights_only=True)
    del weights["prime"]
    torch.save(weights, at)
    with pytest.raises(RunFailed, match="holds no prime"):
        make(folder, tmp_path).train(resume=True)


def test_without_the_table_there_is_no_reward_model(folder: Path, tmp_path: Path) -> None:
    run = make(folder, tmp_path, prime__beta=0.05, run__steps=1)
    config = run.config.model_copy(update={"prime": None})
    assert prime_of(config, run.policy) is None
    assert tiny_config().prime is None


def test_models_of_its_own_and_a_reference(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    policy = load_policy(folder)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight.mul_(50.0)
    policy.model.save_pretrained(other)
    policy.tokenizer.save_pretrained(other)
    config = tiny_config(**ON, prime__model=str(other), prime__reference=str(folder))
    prime = prime_of(config, load_policy(folder))
    assert prime is not None
    same = {"samples": [Sample((5, 6), np.zeros(2, np.float32), "stop")] * 2, "prompt_ids": [[1]]}
    _, numbers = prime.step(SimpleNamespace(**same), scores(1.0, 0.0))  # type: ignore[arg-type]
    assert numbers["bot/prime/loss"] != pytest.approx(LN2, abs=1e-4)  # phi and reference differ
    with prime.reference.model() as fixed:
        assert not any(p.requires_grad for p in fixed.parameters())


def test_a_model_with_another_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    from botgrpo.trainer.micro import build_model, build_tokenizer, save

    tokenizer = build_tokenizer(["zzz yyy xxx zyx"], vocab_size=300)
    save(build_model(tokenizer, seed=0, layers=1, width=16), tokenizer, tmp_path / "z")
    config = tiny_config(**ON, prime__model=str(tmp_path / "z"))
    with pytest.raises(ConfigError, match="another tokenizer than the policy"):
        prime_of(config, load_policy(folder))


@pytest.mark.parametrize(
    ("sets", "outcomes", "words"),
    [
        ({"reward__locals": "{'react.compile' = 1.0}"}, (0, 1), r"set reward\.locals=\{\}"),
        ({"algorithm": "grpo"}, (0, 1), "reads the outcome alone"),
        ({}, (-1, 1), r"within 0 and 1: change reward\.outcomes"),
    ],
)
def test_what_does_not_go_together_is_refused(
    sets: dict[str, object], outcomes: tuple[float, float], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        require(tiny_config(**(ON | sets)), outcomes)


def test_a_plan_counts_the_reward_model_its_optimiser_and_its_reference(folder: Path) -> None:
    without = footprint(tiny_config(), folder, prompt_tokens=10)
    found = footprint(tiny_config(**ON), folder, prompt_tokens=10)
    assert without.beside == 0 and found.beside == 5 * 4 * found.parameters
    assert found.steady == without.steady + found.beside
    named = footprint(
        tiny_config(**ON, prime__model=str(folder), prime__reference=str(folder)), folder, 10
    )
    assert named.beside == found.beside


def test_a_configuration_is_checked_before_a_model_is_loaded() -> None:
    sets = ["algorithm=prime", "prime={}"]
    with pytest.raises(ConfigError, match=r"aime_micro\.toml: \[prime\] gives the local rewards"):
        load_config("aime_micro", sets)
    config = load_config("aime_micro", [*sets, "reward.locals={}"])
    assert "local span 1 x 7" in assemble.caution(config)  # w_s 0.5 over -1 to 1
    with pytest.raises(ConfigError, match=r"unknown key 'prime\.bta'\. Did you mean 'beta'"):
        load_config("aime_micro", ["prime.bta=1"])


def test_with_adapters_the_reference_is_the_model_without_them(folder: Path) -> None:
    pytest.importorskip("peft")
    config = tiny_config(**ON, policy__lora__rank=2)
    prime = prime_of(config, load_policy(folder, config.policy))
    assert prime is not None
    _, numbers = prime.step(drawn([5, 6], [7, 8, 9]), scores(1.0, 0.0))
    assert numbers["bot/prime/loss"] == pytest.approx(LN2)
    told, _ = prime.step(drawn([5, 6], [7, 8, 9]), scores(1.0, 0.0))
    assert any(told[0].local or ())
    found = footprint(config, folder, prompt_tokens=10)
    assert found.beside == found.weights + 3 * found.gradients  # and no second copy
