"""One Python file that trains a configuration with TRL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from botgrpo.benchmarks.export_notes import bullets, cannot, lost
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs
from botgrpo.trainer.algorithms import algorithm
from botgrpo.trainer.config import Config


@dataclass(frozen=True, slots=True)
class _Trl:
    """One method in TRL's words: trainer, its configuration, and what differs from ours."""

    settings: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


_COLLAPSED = (
    "local rewards: TRL's trainer reads the outcome alone",
    "statistics: TRL divides by the sample deviation + 1e-4, here population + 1e-6",
)
_TRL = {
    "bot_grpo": _Trl((), ("the loss divides by all rollouts, also those that nobody scored",)),
    "grpo": _Trl(('loss_type="grpo"',), _COLLAPSED),
    "dr_grpo": _Trl(('loss_type="dr_grpo"', 'scale_rewards="none"'), _COLLAPSED[:1]),
    "dapo": _Trl(
        ('loss_type="dapo"', "epsilon_high=0.28"),
        (*_COLLAPSED, "dynamic sampling and the penalty for nearly overlong rollouts"),
    ),
    "gspo": _Trl(
        (
            'loss_type="grpo"',
            'importance_sampling_level="sequence"',
            "epsilon=3e-4",
            "epsilon_high=4e-4",
        ),
        _COLLAPSED,
    ),
}

_OURS = """from botgrpo.benchmarks import assemble
from botgrpo.trainer import config as configs"""
_TRL_SCRIPT = '''"""Trains the botgrpo configuration {name!r} with TRL.

    accelerate launch {file} [MODEL]

Needs botgrpo, its TRL extra and, for a reward that compiles, botgrpo's sandbox on every node.
MODEL is a folder or a name on the Hub (default: the configuration's). Lost on the way:

{lost}
"""

import json
import os
import sys

import torch
from datasets import Dataset
from transformers import AutoTokenizer
{imports}

CONFIG = r"""
{toml}"""
MICRO_BATCH = 8  # rollouts in one forward pass, at most


def main() -> None:
    config = configs.parse(configs.parse_text(CONFIG), "the exported configuration")
    model = sys.argv[1] if len(sys.argv) > 1 else str(assemble.model_folder(config))
    rows = [
        {{
            "prompt": [{{"role": "user", "content": item.prompt}}],
            "reference": json.dumps(dict(item.reference)),
        }}
        for item in assemble.task(config.task).train_items(config.run.seed)
    ]
    sampling, optim = config.sampling, config.optim
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    rollouts = sampling.prompts * sampling.group_size
    share, rest = divmod(rollouts, processes)
    if rest:
        sys.exit(f"{{rollouts}} rollouts a step do not split between {{processes}} processes")
    micro = max(n for n in range(1, MICRO_BATCH + 1) if share % n == 0)
    args = {args}(
        output_dir=f"runs/{{config.name}}-trl",
        max_steps=config.run.steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=share // micro,
        num_generations=sampling.group_size,
        max_completion_length=sampling.max_new_tokens,
        temperature=sampling.temperature,
        shuffle_dataset=False,  # the prompts come in the order of the seed, as in botgrpo
        learning_rate=optim.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=optim.warmup_steps,
        weight_decay=optim.weight_decay,
        adam_beta1=optim.beta1,
        adam_beta2=optim.beta2,
        max_grad_norm=optim.grad_clip,
        bf16=config.policy.update_dtype == "bfloat16",
        use_cpu=not torch.accelerator.is_available(),
        seed=config.run.seed,
        save_steps=config.run.checkpoint_every,
        logging_steps=1,
        report_to="none",
        beta=0.0,{settings}
    )
    trainer = {trainer}
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
'''


def trl_script(config: Config, file: str) -> str:
    """The Python file that trains `config` with TRL.

    Raises ConfigError for a method that TRL does not have, and for options that it does not take.
    """
    chosen = algorithm(config.algorithm, config.algorithm_options)
    if chosen.name not in _TRL:
        raise ConfigError(cannot("TRL", chosen.name, list(_TRL)))
    ours = chosen.name == "bot_grpo"
    if config.algorithm_options and not ours:
        given = ", ".join(sorted(config.algorithm_options))
        raise ConfigError(
            f"algorithm_options ({given}): TRL's own {chosen.name} takes none of ours"
        )
    method = _TRL[chosen.name]
    others = [
        "train_dataset=Dataset.from_list(rows)",
        'processing_class=AutoTokenizer.from_pretrained(model, padding_side="left")',
    ]
    if ours:
        imports = (
            f"\n{_OURS}\nfrom botgrpo.trainer.adapters.trl import BoTGRPOConfig, BoTGRPOTrainer"
        )
        reward = "assemble.reward(config)"
        others.append("algorithm_options=config.algorithm_options")
    else:
        imports = (
            f"from trl import GRPOConfig, GRPOTrainer\n\n{_OURS}\n"
            "from botgrpo.trainer.adapters.scoring import as_trl_reward"
        )
        reward = "as_trl_reward(assemble.reward(config))"
    prefix = "BoT" if ours else ""
    return _TRL_SCRIPT.format(
        name=config.name,
        file=file,
        lost=bullets([*lost(config), "the held-out evaluation and its curve", *method.lost]),
        imports=imports,
        toml=configs.to_toml(config.model_dump()),
        args=f"{prefix}GRPOConfig",
        settings="".join(f"\n        {setting}," for setting in method.settings),
        trainer=_call(f"{prefix}GRPOTrainer", ["model", reward, "args", *others]),
    )


def _call(name: str, arguments: Sequence[str]) -> str:
    lines = "".join(f"        {argument},\n" for argument in arguments)
    return f"{name}(\n{lines}    )"
