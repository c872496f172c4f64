"""Inside verl's own dispatch, reward manager and agent loop. Runs in .envs/verl."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("verl") is None:
    pytest.skip(
        "verl has pins of its own; next: make env-verl, then "
        ".envs/verl/bin/python -m pytest tests/test_adapters_verl.py",
        allow_module_level=True,
    )

import numpy as np
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # verl names the engines that are not installed
    import verl
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.ray_trainer import compute_advantage
    from verl.trainer.ppo.reward import resolve_reward_manager_cls
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
    from verl.utils.config import omega_conf_to_dataclass

    from botgrpo.trainer.adapters import verl as adapter
from botgrpo.benchmarks import parity
from botgrpo.benchmarks.export_verl import verl_script
from botgrpo.benchmarks.training import load_config
from botgrpo.rewards.base import Score
from botgrpo.rewards.mix import Design
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.advantages import ADVANTAGES
from botgrpo.trainer.micro import build_tokenizer
from tiny import TEXTS

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]

ALGORITHM = OmegaConf.create({"gamma": 1.0, "lam": 1.0})


@pytest.fixture(autouse=True)
def names() -> dict[str, str]:
    return adapter.register()


def batch(case: parity.Case, rewards_R_T: torch.Tensor) -> DataProto:
    uids = np.array([f"uid-{int(g)}" for g in case.groups_R], dtype=object)
    return DataProto.from_dict(
        tensors={
            "token_level_rewards": rewards_R_T.float(),
            "response_mask": case.mask_R_T.long(),
        },
        non_tensors={"uid": uids},
    )


def dispatched(case: parity.Case, rewards_R_T: torch.Tensor, name: str, config: Any) -> Any:
    """Advantages as verl's own `compute_advantage` finds them."""
    data = compute_advantage(batch(case, rewards_R_T), adv_estimator=name, config=config)
    assert torch.equal(data.batch["advantages"], data.batch["returns"])
    return data.batch["advantages"]


def test_every_served_advantage_answers_to_its_name_through_verls_own_dispatch(
    names: dict[str, str],
) -> None:
    case = parity.case(0)
    assert names["bot_grpo"] == "bot_grpo" and names["grpo"] == "botgrpo_grpo"
    for advantage, name in names.items():
        rewards_R_T = case.reward_R_T.float()
        if advantage == "reinforce_pp":  # the mean on the last token, never the sum
            mean_R = rewards_R_T.sum(1) / case.mask_R_T.sum(1)
            rewards_R_T = case.last(mean_R)
        mine = ADVANTAGES[advantage](rewards_R_T, case.mask_R_T, groups_K=case.groups_R)
        found = dispatched(case, case.reward_R_T, name, ALGORITHM)
        assert torch.allclose(found, mine, atol=1e-6), advantage
        assert found.abs().max() > 0.1 and not found[~case.mask_R_T].any()


def test_the_dispatch_of_verls_newer_trainer_finds_it_as_well() -> None:
    case = parity.case(1)
    keys = [f"uid-{int(g)}_{i}_0" for i, g in enumerate(case.groups_R)]
    data = compute_advantage_for_multi_trajectories(
        batch(case, case.reward_R_T), keys, "bot_grpo", config=ALGORITHM
    )
    mine = ADVANTAGES["bot_grpo"](case.reward_R_T.float(), case.mask_R_T, groups_K=case.groups_R)
    assert torch.allclose(data.batch["advantages"], mine, atol=1e-6)


def test_verls_own_names_keep_verls_own_functions() -> None:
    for name in ("grpo", "rloo", "reinforce_plus_plus"):
        assert get_adv_estimator_fn(name).__module__ == "verl.trainer.ppo.core_algos"


def test_a_rollout_of_nan_leaves_the_statistics_and_gets_zero() -> None:
    case = parity.case(2)
    rewards_R_T = case.reward_R_T.clone()
    rewards_R_T[3] = torch.nan
    found = dispatched(case, rewards_R_T, "bot_grpo", ALGORITHM)
    kept = case.mask_R_T.clone()
    kept[3] = False
    mine = ADVANTAGES["bot_grpo"](case.reward_R_T.float(), kept, groups_K=case.groups_R)
    assert torch.allclose(found, mine, atol=1e-6)
    assert not found[3].any() and found[2].any()


def test_options_come_from_the_algorithm_section() -> None:
    case = parity.case(3)
    config = OmegaConf.merge(ALGORITHM, {"botgrpo_options": {"ddof": 1}})
    found = dispatched(case, case.reward_R_T, "bot_grpo", config)
    mine = ADVANTAGES["bot_grpo"](
        case.reward_R_T.float(), case.mask_R_T, groups_K=case.groups_R, ddof=1
    )
    assert torch.allclose(found, mine, atol=1e-6)
    assert not torch.allclose(found, dispatched(case, case.reward_R_T, "bot_grpo", ALGORITHM))


CONFIG = """
name = "dense"
task = "react"
sandbox = "unsafe"
policy = { model = "none" }
[reward]
outcomes = { "PATH:even" = 1.0 }
locals = { "PATH:Letters" = 1.0 }
w_g = 2.0
"""
REWARDS = """
from botgrpo.rewards.base import RewardSpec, Score, Span


def even(completions, **columns):
    texts = [messages[0]["content"] for messages in completions]  # chat in, chat out
    return [None if text == "lost" else float(len(text) % 2 == 0) for text in texts]


class Letters:
    spec = RewardSpec("letters", "1", (0, 1), (-1, 0))

    async def score(self, rollouts):
        return [
            Score(r.id, 0.0, "ok", spans=tuple(
                Span(i, i + 1, -1.0) for i, c in enumerate(r.completion) if c == "a"
            ))
            for r in rollouts
        ]
"""


@pytest.fixture
def config(tmp_path: Path) -> Any:
    rewards = tmp_path / "rewards.py"
    rewards.write_text(REWARDS)
    run = tmp_path / "config.toml"
    run.write_text(CONFIG.replace("PATH", str(rewards)))
    return OmegaConf.create(
        {
            "algorithm": {"adv_estimator": "bot_grpo", "use_kl_in_reward": False},
            "trainer": {"use_v1": True},
            "reward": {"reward_kwargs": {"botgrpo_config": str(run)}},
            "actor_rollout_ref": {
                "actor": {"loss_agg_mode": "seq-mean-token-mean"},
                "rollout": {"agent": {"default_agent_loop": "botgrpo_single_turn"}},
            },
        }
    )


def scored(config: Any, text: str, width: int = 12) -> tuple[dict[str, Any], list[int]]:
    """What the reward manager returns for one completion, and its ids."""
    tokenizer = build_tokenizer(TEXTS, vocab_size=300)
    ids = [*tokenizer.encode(text), tokenizer.eos_token_id]
    manager = adapter.TokenRewardManager(config, tokenizer, None)
    data = DataProto.from_dict(
        tensors={
            "responses": torch.tensor([ids + [0] * (width - len(ids))]),
            "attention_mask": torch.tensor([[1, 1] + [1] * len(ids) + [0] * (width - len(ids))]),
        },
        non_tensors={
            "uid": np.array(["u"], dtype=object),
            "raw_prompt": np.array([[{"role": "user", "content": "x"}]], dtype=object),
            "reward_model": np.array([{"ground_truth": json.dumps({"k": 1})}], dtype=object),
        },
    )
    return asyncio.run(manager.run_single(data)), ids


def test_the_reward_manager_gives_token_rewards_on_the_sampled_ids(config: Any) -> None:
    result, ids = scored(config, "b ab")
    rewards = result["reward_extra_info"][adapter.TOKEN_REWARDS]
    assert result["reward_score"] == 1.0 and len(rewards) == len(ids)
    assert set(rewards) == {1.0, 2.0} and rewards[-1] == 2.0  # 2 G, and -1 where an a is


def test_an_unscored_rollout_is_nan_throughout(config: Any) -> None:
    result, _ = scored(config, "lost")
    assert np.isnan(result["reward_score"])
    assert np.isnan(result["reward_extra_info"][adapter.TOKEN_REWARDS]).all()
    assert result["reward_extra_info"]["bot_unscored"] == 1.0


def test_the_agent_loop_puts_token_rewards_on_their_tokens(config: Any) -> None:
    result, ids = scored(config, "b ab")
    output = adapter.DenseOutput(
        prompt_ids=[1, 2],
        response_ids=ids,
        response_mask=[1] * len(ids),
        metrics={},
        extra_fields={"turn_scores": []},
    )
    output.reward_score = result["reward_score"]  # as the agent loop worker does
    output.extra_fields["reward_extra_info"] = result["reward_extra_info"]
    fields = output.as_dict()
    expected = result["reward_extra_info"][adapter.TOKEN_REWARDS]
    assert fields["rm_scores"].tolist() == expected
    assert adapter.TOKEN_REWARDS not in fields["extra_fields"]["reward_extra_info"]
    assert fields["extra_fields"]["reward_extra_info"]["acc"] == 1.0
    assert adapter.TOKEN_REWARDS in result["reward_extra_info"]  # the original is left alone


def test_the_agent_loop_keeps_everything_that_verls_own_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {
        "prompt_ids": [1],
        "response_ids": [2, 3],
        "response_mask": [1, 1],
        "response_logprobs": [-0.5, -0.25],
        "num_turns": 2,
        "metrics": {"generate_sequences": 1.5},
        "extra_fields": {"turn_scores": [], "tool_rewards": []},
    }

    async def run(self: Any, sampling_params: Any, **kwargs: Any) -> Any:
        return AgentLoopOutput(**fields)

    monkeypatch.setattr(adapter.SingleTurnAgentLoop, "run", run)
    loop = adapter.SingleTurn.__new__(adapter.SingleTurn)
    output = asyncio.run(loop.run({}, raw_prompt=[]))
    assert isinstance(output, adapter.DenseOutput)
    theirs, ours = AgentLoopOutput(**fields).as_dict(), output.as_dict()
    assert theirs.keys() == ours.keys()
    assert str(theirs) == str(ours)  # tensors compare element by element


def test_an_unknown_token_gets_its_rollouts_mean_and_is_counted() -> None:
    design = Design({"g": 1.0}, {"s": 1.0}, w_g=2.0)
    part, unknown = adapter.dense(Score("r", 1.0, local=(-1.0, None, 0.0)), design, 3)
    assert part.tolist() == [1.0, 1.5, 2.0] and unknown == 1
    nothing, unknown = adapter.dense(Score("r", 1.0, local=(None, None)), design, 2)
    assert nothing.tolist() == [2.0, 2.0] and unknown == 2


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("algorithm.adv_estimator", "grpo", "reward for length"),
        ("algorithm.adv_estimator", "gae", "reward for length"),
        ("algorithm.use_kl_in_reward", True, "use_kl_loss"),
        ("trainer.use_v1", False, "Set True"),
        ("actor_rollout_ref.actor.loss_agg_mode", "token-mean", "Set seq-mean-token-mean"),
        ("actor_rollout_ref.rollout.agent.default_agent_loop", "tool_agent", "last token"),
        ("reward.reward_kwargs.botgrpo_config", None, "botgrpo_config"),
    ],
)
def test_settings_that_would_collapse_token_rewards_are_refused(
    config: Any, key: str, value: Any, says: str
) -> None:
    OmegaConf.update(config, key, value)
    with pytest.raises(ConfigError, match=says):
        adapter.check_config(config)


def test_verl_registers_us_in_every_process_that_imports_it() -> None:
    code = (
        "import verl\n"
        "from verl.experimental.agent_loop.agent_loop import _agent_loop_registry as loops\n"
        "from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls\n"
        "from verl.trainer.ppo.core_algos import get_adv_estimator_fn\n"
        "print(get_adv_estimator_fn('bot_grpo').__name__)\n"
        "print(get_reward_manager_cls('botgrpo').__name__)\n"
        "print(loops['botgrpo_single_turn']['_target_'])\n"
    )
    environment = {
        **os.environ,
        "VERL_USE_EXTERNAL_MODULES": "botgrpo.trainer.adapters.verl_plugin",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "botgrpo_bot_grpo",
        "TokenRewardManager",
        "botgrpo.trainer.adapters.verl.SingleTurn",
    ]


@pytest.mark.parametrize("method", ["bot_grpo", "gspo_token", "dr_grpo", "reinforce_pp"])
def test_verls_own_configuration_takes_every_setting_of_an_exported_script(
    tmp_path: Path, method: str
) -> None:
    chosen = load_config("react_micro", [f"algorithm={method}"])
    script = verl_script(chosen, "mine.sh").replace("\\\n", " ")
    (line,) = [line for line in script.splitlines() if "verl.trainer.main_ppo" in line]
    shared = {"$SHARED": str(tmp_path), "$MODEL": "m", "$GPUS": "8", '"$@"': ""}
    for name, value in shared.items():
        line = line.replace(name, value)
    overrides = shlex.split(line)[3:]
    folder = Path(verl.__file__).parent / "trainer/config"
    with initialize_config_dir(str(folder), version_base=None):
        composed = compose("ppo_trainer", overrides=overrides)
    adapter.check_config(composed)
    assert Path(composed.reward.reward_kwargs.botgrpo_config) == tmp_path / "config.toml"
    actor = omega_conf_to_dataclass(composed.actor_rollout_ref.actor)
    assert actor.clip_ratio_c > 1e6 and actor.optim.lr == chosen.optim.learning_rate
    assert resolve_reward_manager_cls(composed) is adapter.TokenRewardManager


@pytest.mark.parametrize("seed", range(5))
def test_advantages_and_losses_agree_with_verls_own_code(seed: int) -> None:
    found = parity.compare("verl", seed)
    assert len(found) == 17
    assert [c for c in found if not c.error <= parity.TOLERANCE] == []


def test_the_example_runs() -> None:
    example = Path(__file__).parents[1] / "examples/verl_bot_grpo.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(example)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "'bot_grpo': 'bot_grpo'" in done.stdout and "nan" not in done.stdout
