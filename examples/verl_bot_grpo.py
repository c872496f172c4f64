"""BoT-GRPO through verl's own dispatch: what its trainer calls with a batch, on four rollouts.

    make env-verl
    .envs/verl/bin/python examples/verl_bot_grpo.py

A launch script for a cluster, with data and reward: botgrpo export verl CONFIG.
"""

from __future__ import annotations

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage

from botgrpo.trainer.adapters.verl import register


def main() -> None:
    print("registered:", register())
    # two prompts of two rollouts: r = G + S on every token, NaN for a rollout that nobody scored
    nan = float("nan")
    rewards = torch.tensor([[1.0, 1.0, 0.5], [0.0, -1.0, 0.0], [1.0, 1.0, 1.0], [nan, nan, nan]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]])
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": np.array(["a", "a", "b", "b"], dtype=object)},
    )
    data = compute_advantage(data, adv_estimator="bot_grpo", config=OmegaConf.create({}))
    print(data.batch["advantages"])


if __name__ == "__main__":
    main()
