"""Our advantages and dense token rewards in verl: `register()` makes them known by name.

verl asks for them in three places, each in other processes, and imports what the environment
variable VERL_USE_EXTERNAL_MODULES names in all of them:

    export VERL_USE_EXTERNAL_MODULES=botgrpo.trainer.adapters.verl_plugin
    algorithm.adv_estimator=bot_grpo
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean
    reward.reward_manager.name=botgrpo
    +reward.reward_kwargs.botgrpo_config=/shared/config.toml
    actor_rollout_ref.rollout.agent.default_agent_loop=botgrpo_single_turn

`botgrpo export verl CONFIG` writes all of it. verl carries one number from a reward to the agent
loop and puts it on the last token; our reward manager sends the token rewards along, and our agent
loop puts them on their tokens.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botgrpo.rewards.base import Rollout, Score
from botgrpo.rewards.mix import Composite, Design, token_rewards
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs
from botgrpo.trainer.advantages import ADVANTAGES

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
    from verl.experimental.agent_loop.agent_loop import register as register_agent_loop
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
    from verl.experimental.reward_loop.reward_manager import register as register_reward_manager
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
    from verl.trainer.ppo.core_algos import AdvantageEstimator, register_adv_est
except ImportError as error:
    raise ConfigError(
        f"verl cannot be imported ({error}): install verl 0.9.1 with what it needs, or in a "
        "checkout: make env-verl"
    ) from error

AGGREGATION = "seq-mean-token-mean"
AGENT_LOOP = "botgrpo_single_turn"
REWARD_MANAGER = "botgrpo"
TOKEN_REWARDS = "botgrpo_token_rewards"

# advantages that need nothing but token rewards, a mask and groups; the others (grpo_process, pure,
# prime) read steps, or G and S apart, and verl hands neither to an estimator
SERVED = (
    "bot_grpo",
    "grpo",
    "dr_grpo",
    "rloo",
    "hapo",
    "grpo_lambda",
    "reinforce_pp",
    "reinforce_pp_baseline",
)
Estimator = Callable[..., tuple[Tensor, Tensor]]


def name_in_verl(advantage: str) -> str:
    """Our name, with a prefix where verl has an estimator of that name that adds up tokens."""
    taken = {member.value for member in AdvantageEstimator}
    return f"botgrpo_{advantage}" if advantage in taken else advantage


@functools.cache
def estimator(advantage: str) -> Estimator:
    """verl's calling convention around one of our advantages.

    A row with a NaN inside its mask is a rollout that nobody could score: it leaves the statistics
    and gets 0. Methods that know one number a rollout read the row's mean. Keywords of the
    advantage come from `algorithm.botgrpo_options`.
    """

    def compute(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any = None,
        config: Any = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        mask_R_T = response_mask.bool()
        lost_R = (torch.isnan(token_level_rewards) & mask_R_T).any(1)
        mask_R_T = mask_R_T & ~lost_R[:, None]
        rewards_R_T = torch.where(mask_R_T, token_level_rewards, 0.0)
        if advantage == "reinforce_pp":
            rewards_R_T = _mean_on_last(rewards_R_T, mask_R_T)
        groups = None if index is None else np.unique(index, return_inverse=True)[1]
        options = {} if config is None else dict(config.get("botgrpo_options") or {})
        with torch.no_grad():
            found = ADVANTAGES[advantage](rewards_R_T, mask_R_T, groups_K=groups, **options)
        return found, found

    compute.__name__ = f"botgrpo_{advantage}"
    return compute


def _mean_on_last(rewards_R_T: Tensor, mask_R_T: Tensor) -> Tensor:
    """Each row's mean on its last token: a return-to-go of the rewards would add up tokens."""
    mean_R = rewards_R_T.sum(1) / mask_R_T.sum(1).clamp(min=1)
    left_R_T = mask_R_T.flip(1).cumsum(1).flip(1)
    return torch.where(mask_R_T & (left_R_T == 1), mean_R[:, None], 0.0)


class DenseOutput(AgentLoopOutput):
    """An agent loop's output whose reward lies on its tokens."""

    def as_dict(self) -> dict[str, Any]:
        """As verl's, with `rm_scores` [T] from what the reward manager sent along."""
        fields: dict[str, Any] = super().as_dict()
        info = fields["extra_fields"].get("reward_extra_info", {})
        if TOKEN_REWARDS in info:
            rest = {key: value for key, value in info.items() if key != TOKEN_REWARDS}
            fields["extra_fields"] = {**fields["extra_fields"], "reward_extra_info": rest}
            fields["rm_scores"] = torch.tensor(info[TOKEN_REWARDS], dtype=torch.float32)
        return fields


class SingleTurn(SingleTurnAgentLoop):
    """verl's single turn, with room for token rewards."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> DenseOutput:
        output = await super().run(sampling_params, **kwargs)
        return DenseOutput(**{name: getattr(output, name) for name in output.model_fields_set})


class TokenRewardManager(RewardManagerBase):
    """Scores each rollout with the design of a botgrpo configuration and returns token rewards.

    Rollouts arrive one by one, so a token whose S is unknown gets its own rollout's mean S, and 0
    where nothing of it is known (our loop takes the group's mean). An unscored rollout is NaN
    throughout: its advantage is 0, and verl's mean score of that step is NaN.

    Raises ConfigError where verl would add the token rewards up or weigh them by length.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        check_config(config)
        path = Path(config.reward.reward_kwargs.botgrpo_config)
        run = configs.parse(configs.read_toml(path), str(path))
        self.design = Design(**run.reward.model_dump())
        self.reward = Composite(self.design, backend=run.sandbox)
        self.token_bytes = TokenBytes.from_tokenizer(tokenizer)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Outcome and token rewards of the last sequence of `data`."""
        rollout = self._rollout(data[-1:][0])
        (score,) = await self.reward.score([rollout])
        rewards_T, unknown = dense(score, self.design, len(rollout.token_ids or ()))
        outcome = math.nan if score.outcome is None else score.outcome
        return {
            "reward_score": outcome,
            "reward_extra_info": {
                TOKEN_REWARDS: rewards_T.tolist(),
                "acc": outcome,
                "bot_unscored": float(score.outcome is None),
                "bot_local_unscored_tokens": unknown,
            },
        }

    def _rollout(self, item: Any) -> Rollout:
        columns = item.non_tensor_batch
        width = item.batch["responses"].shape[-1]
        length = int(item.batch["attention_mask"][-width:].sum())
        ids = tuple(item.batch["responses"][:length].tolist())
        text, spans = self.token_bytes.decode(ids)
        group = str(columns.get("uid", ""))
        return Rollout(
            f"{group}/{hashlib.sha256(repr(ids).encode()).hexdigest()[:12]}",
            group,
            list(columns.get("raw_prompt", ())),
            text,
            json.loads(columns["reward_model"]["ground_truth"]),
            ids,
            spans,
            "stop" if ids and ids[-1] == self.tokenizer.eos_token_id else "length",
        )


def dense(score: Score, design: Design, n_tokens: int) -> tuple[np.ndarray[Any, Any], int]:
    """Token rewards [T] of one rollout, and how many of them had an unknown S."""
    rewards_T = token_rewards(score, design, n_tokens)
    unknown_T = np.isnan(rewards_T)
    if score.outcome is None or not unknown_T.any():
        return rewards_T, 0
    known = rewards_T[~unknown_T]
    stand_in = known.mean() if known.size else design.w_g * score.outcome
    return np.where(unknown_T, stand_in, rewards_T), int(unknown_T.sum())


def check_config(config: Any) -> None:
    """Refuse settings of verl under which token rewards would become something else."""
    ours = {name_in_verl(name) for name in SERVED}
    name = str(config.algorithm.adv_estimator)
    if name not in ours:
        raise ConfigError(
            f"got algorithm.adv_estimator={name}: verl's own estimators add a rollout's token "
            "rewards up, and with w_g G on every token that sum is a reward for length. Allowed: "
            f"{', '.join(sorted(ours))}"
        )
    if config.algorithm.use_kl_in_reward:
        raise ConfigError(
            "got algorithm.use_kl_in_reward=True: the KL term would enter the token rewards' "
            "statistics. Set False, and actor_rollout_ref.actor.use_kl_loss=True for a KL term"
        )
    if not config.trainer.use_v1:
        raise ConfigError(
            "got trainer.use_v1=False: verl's older trainer puts one number on the last token. "
            "Set True"
        )
    if not config.reward.get("reward_kwargs", {}).get("botgrpo_config"):
        raise ConfigError(
            "got no reward.reward_kwargs.botgrpo_config; set it to a botgrpo configuration that "
            "every node can read, with a + before the key"
        )
    loop = config.actor_rollout_ref.rollout.agent.default_agent_loop
    if loop != AGENT_LOOP:
        raise ConfigError(
            f"got actor_rollout_ref.rollout.agent.default_agent_loop={loop}: it would put one "
            f"number on the last token. Set {AGENT_LOOP}"
        )
    mode = config.actor_rollout_ref.actor.loss_agg_mode
    if name == "bot_grpo" and mode != AGGREGATION:
        raise ConfigError(
            f"got actor_rollout_ref.actor.loss_agg_mode={mode}: bot_grpo's advantages sum to zero "
            f"under {AGGREGATION} and under no other. Set {AGGREGATION}"
        )


def register() -> dict[str, str]:
    """Make everything here known to verl in this process; can be called again.

    Returns:
        Our advantages and their names in verl.
    """
    names = {advantage: name_in_verl(advantage) for advantage in SERVED}
    for advantage, name in names.items():
        register_adv_est(name)(estimator(advantage))
    register_reward_manager(REWARD_MANAGER)(TokenRewardManager)
    register_agent_loop(AGENT_LOOP)(SingleTurn)
    return names
