"""One shell script that trains a configuration with verl."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from botgrpo.benchmarks.export_notes import bullets, cannot, lost
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs
from botgrpo.trainer.algorithms import ALGORITHMS, algorithm
from botgrpo.trainer.config import Config
from botgrpo.trainer.method import Algorithm

_LOSSES = {"clipped": "vanilla", "gspo": "gspo", "gspo_token": "gspo"}
_AGGREGATIONS = {
    "sequence_mean": "seq-mean-token-mean",
    "token_mean": "token-mean",
    "constant": "seq-mean-token-sum-norm",
}
_OWN_NAMES = {"grpo": "botgrpo_grpo", "rloo": "botgrpo_rloo"}  # verl's add up token rewards
_SERVED = {"bot_grpo", "grpo", "dr_grpo", "rloo", "hapo", "reinforce_pp"}

_VERL_SCRIPT = """#!/usr/bin/env bash
# Trains the botgrpo configuration {name!r} with verl 0.9.1.
#
#     bash {file} MODEL [further settings of verl]
#
# MODEL is a folder or a name on the Hub. botgrpo must be installed on every node, with its sandbox
# where a reward compiles; $SHARED must be a folder that every node sees. Lost on the way:
#
{lost}
set -euo pipefail
MODEL=${{1:?the first argument is the model}}
shift
SHARED=${{SHARED:-$PWD/{name}-verl}}
GPUS=${{GPUS:-8}}
mkdir -p "$SHARED"

cat > "$SHARED/config.toml" <<'TOML'
{toml}TOML

python - "$SHARED" <<'PYTHON'
import json
import sys
from pathlib import Path

from datasets import Dataset

from botgrpo.benchmarks import assemble
from botgrpo.trainer import config as configs

shared = Path(sys.argv[1])
config = configs.parse(configs.read_toml(shared / "config.toml"), "config.toml")
task = assemble.task(config.task)
items = {{
    "train": task.train_items(config.run.seed),
    "test": task.eval_items(config.run.eval_prompts),
}}
for split, found in items.items():
    Dataset.from_list([
        {{
            "data_source": config.task,
            "prompt": [{{"role": "user", "content": item.prompt}}],
            "reward_model": {{"style": "rule", "ground_truth": json.dumps(dict(item.reference))}},
            "extra_info": {{"index": i, "split": split}},
        }}
        for i, item in enumerate(found)
    ]).to_parquet(shared / f"{{split}}.parquet")
PYTHON

# verl imports what this names, in every one of its processes
export VERL_USE_EXTERNAL_MODULES=botgrpo.trainer.adapters.verl_plugin

python -m verl.trainer.main_ppo \\
  +ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES=$VERL_USE_EXTERNAL_MODULES \\
{settings}
  "$@"
"""


def verl_script(config: Config, file: str) -> str:
    """The shell script that trains `config` with verl; raises ConfigError
    for a method or an option that verl's estimators cannot serve."""
    chosen = algorithm(config.algorithm, config.algorithm_options)
    able = [a.name for a in ALGORITHMS.values() if _verl_can(a)]
    if not _verl_can(chosen):
        raise ConfigError(cannot("verl", chosen.name, able))
    unfit = sorted(set(config.algorithm_options) & {"uniform_group", "outcome_gap"})
    if unfit:
        raise ConfigError(
            f"algorithm_options ({', '.join(unfit)}): verl shows an estimator token rewards and no "
            "outcomes; leave them out"
        )
    settings = _verl_settings(config, chosen)
    missing = [
        *lost(config),
        "the judge: verl's held-out numbers are the design's own outcome",
        "a token whose local reward is unknown gets its own rollout's mean, here the group's",
        "verl's critic/score and critic/rewards add token rewards up; its `acc` is our outcome",
    ]
    if chosen.dynamic_sampling:
        missing.append(
            "dynamic sampling (algorithm.filter_groups is verl's) and the overlong penalty"
        )
    return _VERL_SCRIPT.format(
        name=config.name,
        file=file,
        lost=bullets(missing, "# "),
        toml=configs.to_toml(_verl_config(config, chosen)),
        settings="\n".join(f"  {line} \\" for line in settings),
    )


def _verl_can(method: Algorithm) -> bool:
    return (
        not method.unavailable
        and method.advantage in _SERVED
        and method.loss in _LOSSES
        and method.port in ("token", "mean", "outcome", "outcome_last")
    )


def _verl_config(config: Config, method: Algorithm) -> dict[str, object]:
    """The configuration with the reward that the method reads: without locals for an outcome."""
    data = config.model_dump()
    if method.port.startswith("outcome"):
        data["reward"]["locals"] = {}
    return data


def _verl_settings(config: Config, method: Algorithm) -> Sequence[str]:
    sampling, optim = config.sampling, config.optim
    rollouts = sampling.prompts * sampling.group_size
    options = [f"+algorithm.botgrpo_options.{k}={v}" for k, v in config.algorithm_options.items()]
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    lines = [
        f"algorithm.adv_estimator={_OWN_NAMES.get(method.advantage, method.advantage)}",
        *options,
        "algorithm.use_kl_in_reward=False",
        "reward.reward_manager.name=botgrpo",
        '+reward.reward_kwargs.botgrpo_config="$SHARED/config.toml"',
        'data.train_files="$SHARED/train.parquet"',
        'data.val_files="$SHARED/test.parquet"',
        f"data.train_batch_size={sampling.prompts}",
        "data.shuffle=False",
        f"data.max_response_length={sampling.max_new_tokens}",
        'actor_rollout_ref.model.path="$MODEL"',
        f"{actor}.policy_loss.loss_mode={_LOSSES[method.loss]}",
        f"{actor}.loss_agg_mode={_AGGREGATIONS[method.aggregation]}",
        f"{actor}.loss_scale_factor={sampling.max_new_tokens}" * (method.aggregation == "constant"),
        f"{actor}.clip_ratio_low={method.clip_low}",
        f"{actor}.clip_ratio_high={method.clip_high}",
        f"{actor}.clip_ratio_c=1e9",  # no dual clip, as here
        f"{actor}.use_kl_loss=False",
        f"{actor}.ppo_mini_batch_size={sampling.prompts}",
        f"{actor}.ppo_micro_batch_size_per_gpu={min(8, rollouts)}",
        f"{actor}.optim.lr={optim.learning_rate}",
        f"{actor}.optim.lr_warmup_steps={optim.warmup_steps}",
        f"{actor}.optim.weight_decay={optim.weight_decay}",
        f"'{actor}.optim.betas=[{optim.beta1},{optim.beta2}]'",
        f"{actor}.grad_clip={optim.grad_clip}",
        f"{rollout}.name=vllm",
        f"{rollout}.n={sampling.group_size}",
        f"{rollout}.temperature={sampling.temperature}",
        f"{rollout}.log_prob_micro_batch_size_per_gpu={min(8, rollouts)}",
        f"{rollout}.agent.default_agent_loop=botgrpo_single_turn",
        f"trainer.total_training_steps={config.run.steps}",
        f"trainer.total_epochs={config.run.steps}",  # no bound: an epoch is at least a step
        f"trainer.test_freq={config.run.eval_every}",
        f"trainer.save_freq={config.run.checkpoint_every}",
        f"trainer.project_name=botgrpo trainer.experiment_name={shlex.quote(config.name)}",
        'trainer.n_gpus_per_node="$GPUS" trainer.nnodes=1 trainer.logger=console',
    ]
    return [line for line in lines if line]
