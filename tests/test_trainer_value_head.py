"""VAPO's critic learns returns beside the policy, first alone, and resumes with the run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from botgrpo.benchmarks import kills
from botgrpo.benchmarks.training import load_config
from botgrpo.rewards.base import Rollout, Score
from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import loop
from botgrpo.trainer.batch import make_batch
from botgrpo.trainer.critic import vapo
from botgrpo.trainer.engines.base import Sample
from botgrpo.trainer.footprint import footprint
from botgrpo.trainer.logps import Row
from botgrpo.trainer.loop import Run
from botgrpo.trainer.policy import load_policy
from botgrpo.trainer.update import update
from botgrpo.trainer.value_head import Critic, ValueModel, critic_of, require
from test_trainer_loop import lines
from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder


class Constant(nn.Module):
    """A language model whose state is the number 2 before every token."""

    config = SimpleNamespace(_attn_implementation="eager")
    device = torch.device("cpu")

    @property
    def base_model(self) -> Body:
        return Body()

    def get_output_embeddings(self) -> nn.Linear:
        return nn.Linear(1, 5)


class Body(nn.Module):
    config = Constant.config

    def forward(self, input_ids: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=torch.full((*input_ids.shape, 1), 2.0))


def constant(**changed: Any) -> Critic:
    model = ValueModel(Constant())
    parts: dict[str, Any] = {
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "pretrain_steps": 0,
        "gamma": 1.0,
        "epochs": 1,
        "minibatches": 1,
        "grad_clip": 1e9,
        "pad_id": 0,
        "budget_tokens": 100,
        "autocast": None,
    }
    return Critic(model, **(parts | changed))


def taught(critic: Critic, *rollouts: tuple[int, float | None]) -> tuple[list[float], Any]:
    """Values and numbers of a step over rollouts of so many tokens with such outcomes."""
    made = [
        Rollout(str(i), "g", "", "a" * n, token_ids=(1,) * n) for i, (n, _) in enumerate(rollouts)
    ]
    scores = [
        Score.unscored(r.id, "lost") if g is None else Score(r.id, g)
        for r, (_, g) in zip(made, rollouts, strict=True)
    ]
    batch = make_batch(made, scores, w_g=2.0, w_s=0.0)
    samples = [Sample((1,) * n, np.zeros(n, np.float32), "stop") for n, _ in rollouts]
    drawn: Any = SimpleNamespace(samples=samples, prompt_ids=[[0]])
    values_N, numbers = critic.step(batch, drawn, 2.0, (0,))
    return values_N.tolist(), {k.rpartition("/")[2]: v for k, v in numbers.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy_folder(tmp_path_factory.mktemp("policy"))


def row(prompt: list[int], completion: list[int]) -> Row:
    nothing = np.zeros(len(completion))
    return Row(prompt, completion, nothing, nothing)


def make(folder: Path, out: Path, **sets: object) -> Run:
    out.mkdir(exist_ok=True)
    sets = {"algorithm": "vapo", "critic__pretrain_steps": 1} | sets
    return Run(
        tiny_config(**sets), load_policy(folder), StubTask(), StubReward(), StubReward(), out
    )


def test_a_step_worked_by_hand() -> None:
    # V = w 2 + b = 0. Returns are w_g G: 2 on each of 3 tokens, 0 on 1 token; the loss is
    # (3 x 4 + 0) / 4 = 3. d/db = mean of 2 (V - R) = -4 x 3 / 4 = -3, d/dw = 2 x that = -6.
    critic = constant()
    values, numbers = taught(critic, (3, 1.0), (1, 0.0))
    assert values == [0.0] * 4  # from before the step
    assert numbers["loss"] == pytest.approx(3.0)
    assert numbers["grad_norm"] == pytest.approx(math.sqrt(45))
    assert numbers["explained_variance"] == 0.0
    assert critic.model.head.bias.item() == pytest.approx(0.3)
    assert critic.model.head.weight.item() == pytest.approx(0.6)
    values, _ = taught(critic, (3, 1.0), (1, 0.0))
    assert values == pytest.approx([1.5] * 4)  # the mean return, to which all of it can come


def test_forward_passes_of_any_size_give_the_same_step() -> None:
    whole, small = constant(), constant(budget_tokens=1)
    for critic in (whole, small):
        taught(critic, (3, 1.0), (1, 0.0), (2, 0.5))
    torch.testing.assert_close(whole.model.state_dict(), small.model.state_dict())


def test_the_critic_makes_as_many_steps_as_the_policy_and_discounts_as_the_advantage() -> None:
    _, numbers = taught(constant(gamma=0.5), (2, 1.0))
    assert numbers["loss"] == pytest.approx((1 + 4) / 2)  # returns 1 and 2
    several = constant(epochs=3)
    taught(several, (3, 1.0), (1, 0.0))
    once = constant()
    for _ in range(3):
        taught(once, (3, 1.0), (1, 0.0))
    torch.testing.assert_close(several.model.state_dict(), once.model.state_dict())


def test_what_nobody_could_score_teaches_nothing() -> None:
    asked, without = constant(), constant()
    values, _ = taught(asked, (3, 1.0), (2, None), (0, 1.0), (1, 0.0))
    taught(without, (3, 1.0), (1, 0.0))
    assert len(values) == 6
    torch.testing.assert_close(asked.model.state_dict(), without.model.state_dict())
    lost = constant()
    assert taught(lost, (2, None))[0] == [0.0, 0.0] and not lost.model.head.weight.any()


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    critic = constant()
    with torch.no_grad():
        critic.model.head.bias.fill_(math.inf)
    with pytest.raises(RunFailed, match=r"not finite.*critic\.learning_rate.*--resume"):
        taught(critic, (1, 1.0))


def test_a_value_sees_what_is_before_its_token_and_nothing_after(folder: Path) -> None:
    critic = critic_of(tiny_config(algorithm="vapo"), load_policy(folder))
    assert critic is not None
    nn.init.ones_(critic.model.head.weight)
    one, other = critic.values([row([5, 6], [7, 8, 9]), row([5, 6], [7, 8, 10])])
    assert one.tolist() == pytest.approx(other.tolist(), abs=1e-5)  # they part at the last token
    (changed,) = critic.values([row([5, 6], [11, 8, 9])])
    assert changed[0] == pytest.approx(one[0], abs=1e-5)
    assert abs(changed[1] - one[1]) > 1e-4


def test_a_critic_learns_what_a_token_says_of_the_outcome(folder: Path) -> None:
    config = tiny_config(algorithm="vapo", critic__learning_rate=0.01)
    critic = critic_of(config, load_policy(folder))
    assert critic is not None
    rng = np.random.default_rng(0)

    def rollouts() -> tuple[list[Any], list[np.ndarray]]:
        """It succeeds if its second token is 10."""
        ids = rng.integers(10, 12, (32, 5)).tolist()
        rows = [row([5, 6], completion) for completion in ids]
        return rows, [np.full(5, float(completion[1] == 10)) for completion in ids]

    for _ in range(60):
        critic.learn(*rollouts(), (0,))
    rows, returns = rollouts()  # not seen before
    values_R_T, returns_R_T = np.stack(critic.values(rows)), np.stack(returns)
    error_T = ((values_R_T - returns_R_T) ** 2).mean(0)
    assert error_T[:2] == pytest.approx(0.25, abs=0.05)  # nobody could know yet
    assert error_T[2] < 0.1  # it has just been read


def test_the_critic_learns_alone_at_first(folder: Path, tmp_path: Path) -> None:
    run = make(folder, tmp_path, run__steps=2, critic__pretrain_steps=2)
    before = [p.clone() for p in run.policy.model.parameters()]
    run.train(resume=False)
    assert all(m["bot/critic/grad_norm"] > 0 for m in lines(tmp_path / "metrics.jsonl"))
    assert all(m["grad_norm"] == 0 for m in lines(tmp_path / "metrics.jsonl"))
    for a, b in zip(before, run.policy.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_policy_learns_from_the_values_once_the_critic_has_begun(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def spy(model: Any, optimizer: Any, rows: Any, *rest: Any, **options: Any) -> dict[str, float]:
        given.append(rows)
        return update(model, optimizer, rows, *rest, **options)

    monkeypatch.setattr(loop, "update", spy)
    run = make(folder, tmp_path, run__steps=2, critic__pretrain_steps=1)
    run.train(resume=False)
    numbers = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert given[0] == [] and numbers[0]["grad_norm"] == 0
    assert len(given[1]) == 8 and numbers[1]["grad_norm"] > 0
    # below 20 tokens lambda is 0: A_t = V_{t+1} - V_t, and no constant of all values remains
    advantages = np.concatenate([row.advantages_T[:-1] for row in given[1]])
    assert 0 < np.abs(advantages).max() < 0.5


def test_advantages_are_those_of_the_values_that_are_given() -> None:
    mask, rewards = np.ones((1, 2), bool), np.array([[0.0, 1.0]])
    found = vapo(rewards, mask, values_K_T=np.array([[0.25, 0.75]]))
    np.testing.assert_allclose(found, [[0.5, 0.25]])


def test_a_resumed_run_gives_the_same_numbers_weights_and_critic(
    folder: Path, tmp_path: Path
) -> None:
    sets = {"optim__epochs": 2, "optim__minibatches": 2}
    make(folder, tmp_path / "whole", **sets).train(resume=False)
    make(folder, tmp_path / "cut", run__steps=2, **sets).train(resume=False)
    make(folder, tmp_path / "cut", **sets).train(resume=True)
    assert kills.differences(tmp_path / "whole", tmp_path / "cut") == []
    at = "checkpoints/step-000004/weights.pt"
    saved = torch.load(tmp_path / "cut" / at, weights_only=True)
    assert saved.keys() == {"model", "optimizer", "critic"}
    assert saved["critic"]["model"]["head.weight"].any()


def test_other_algorithms_make_no_critic(folder: Path) -> None:
    assert critic_of(tiny_config(), load_policy(folder)) is None
    with pytest.raises(ConfigError, match=r"'bot_grpo' has none.*algorithm=vapo"):
        require(tiny_config(critic__pretrain_steps=1))
    with pytest.raises(ConfigError, match=r"aime_micro\.toml: \[critic\] is there"):
        load_config("aime_micro", ["critic.pretrain_steps=1"])
    require(tiny_config(algorithm="vapo", critic__pretrain_steps=1))


def test_a_plan_counts_the_critic(folder: Path) -> None:
    found = footprint(tiny_config(algorithm="vapo"), folder, prompt_tokens=10)
    body = load_policy(folder).model.base_model
    assert found.beside == 4 * 4 * sum(p.numel() for p in body.parameters())


def test_with_adapters_the_critic_learns_adapters_and_its_head(folder: Path) -> None:
    pytest.importorskip("peft")
    config = tiny_config(algorithm="vapo", policy__lora__rank=2)
    critic = critic_of(config, load_policy(folder, config.policy))
    assert critic is not None
    learned = [name for name, p in critic.model.named_parameters() if p.requires_grad]
    assert {"head.weight", "head.bias"} < set(learned)
    assert all("lora" in name or name.startswith("head.") for name in learned)
    loss, _ = critic.learn([row([5], [6, 7])], [np.ones(2)], (0,))
    assert loss == pytest.approx(1.0) and critic.values([row([5], [6, 7])])[0].min() > 0
