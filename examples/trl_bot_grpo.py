"""BoT-GRPO in TRL, with a compiler as the reward: a few steps of the micro policy on the CPU.

    make env-trl
    .envs/trl/bin/python examples/trl_bot_grpo.py [STEPS]

The outcome says whether a component compiles and has what was asked for, the local signal lies on
the lines that the compiler blames. For a configuration of botgrpo: botgrpo export trl CONFIG.
"""

from __future__ import annotations

import json
import sys
import tempfile

from datasets import Dataset
from transformers import AutoTokenizer

from botgrpo.benchmarks import shipped
from botgrpo.benchmarks.tasks.react import ReactTask
from botgrpo.rewards import Design
from botgrpo.trainer.adapters.trl import BoTGRPOConfig, BoTGRPOTrainer


def main(steps: int) -> None:
    model = str(shipped.checkpoint("react_micro", 0))
    rows = [
        {
            "prompt": [{"role": "user", "content": item.prompt}],
            "reference": json.dumps(dict(item.reference)),
        }
        for item in ReactTask().train_items(0)[:64]
    ]
    design = Design(
        outcomes={"react.complete": 1.0},
        locals={"react.compile": 1.0},
        decay_lines=3,
    )
    with tempfile.TemporaryDirectory() as folder:
        args = BoTGRPOConfig(
            folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            num_generations=8,
            max_completion_length=192,
            learning_rate=3e-4,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
        )
        trainer = BoTGRPOTrainer(
            model,
            design,
            args,
            train_dataset=Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        )
        trainer.train()
    for line in trainer.state.log_history[:steps]:
        verdicts = {k: v for k, v in line.items() if k.startswith("sandbox/verdict/")}
        print(f"step {line['step']}: outcome {line['reward']:.2f}, "
              f"attenuation {line['bot/attenuation']:.2f}, {verdicts}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
