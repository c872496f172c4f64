"""One side of `speed_trl`, in a process of its own so that its peak memory is its own.

    python -m botgrpo.benchmarks.speed_sides SIDE '{"rollouts": 32, "tokens": 64, ...}'

Prints one line of JSON: seconds by the wall and by the process's own clock (`_cpu_s`, which counts
every thread, and other programs on the machine less), peak memory. All sides take the same prompts
of the React task and the same folder, draw the same number of tokens whatever a completion says,
and warm up with `WARM` tokens first.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botgrpo.benchmarks.speed_job import (
    GROUP,
    MICRO_ROWS,
    MICRO_TOKENS,
    WARM,
    Job,
    Letters,
    Prompts,
    letters,
    now,
    since,
    step,
)

GIB = 2**30


def ours(job: Job) -> dict[str, float]:
    """A whole step of our loop: draw, score, update."""
    from botgrpo.trainer import config as configs
    from botgrpo.trainer.loop import Run

    policy = dataclasses.replace(job.policy(), end_ids=())
    found: dict[str, float] = {}
    written: dict[str, float] = {}
    for tokens in (WARM, job.tokens):
        config = configs.parse(
            {
                "name": "speed",
                "task": "react",
                "algorithm": "grpo",
                "policy": {
                    "model": job.model,
                    "generate_dtype": job.dtype,
                    "update_dtype": job.dtype,
                },
                "reward": {"outcomes": {"speed.letters": 1.0}},
                "sampling": {"prompts": job.rollouts // GROUP, "max_new_tokens": tokens},
                "optim": {"learning_rate": 1e-6, "microbatch_tokens": MICRO_TOKENS},
                "run": {"steps": 1, "eval_prompts": 1, "log_rollouts": 0},
            },
            "speed",
        )
        with tempfile.TemporaryDirectory() as folder:
            run = Run(config, policy, Prompts(job), Letters(), Letters(), Path(folder))
            found = _timed(run)
            written = json.loads((run.out / "metrics.jsonl").read_text())
    if written["num_tokens"] != job.rollouts * job.tokens or not written["grad_norm"]:
        raise RuntimeError(f"our step was no whole step: {written}")
    return found


def _timed(run: Any) -> dict[str, float]:
    """Train one step, from the draw to the engine's new weights; the evaluations are left out."""
    draw, sync = run.engine.generate, run.engine.sync
    found: dict[str, float] = {}
    calls: list[tuple[float, float]] = []

    def generate(*arguments: Any) -> Any:
        calls.append(now())
        samples = draw(*arguments)
        if len(calls) == 2:  # before it and after it comes an evaluation
            found.update(since("generate", calls[1]))
        return samples

    def synced() -> None:
        sync()
        found.update(since("step", calls[1]))

    run.engine.generate, run.engine.sync = generate, synced
    run.train(resume=False)
    return step(found)


def trl(job: Job) -> dict[str, float]:
    """A whole step of TRL's GRPOTrainer, its optimiser's step included."""
    import trl
    from datasets import Dataset
    from transformers import TrainerCallback

    found: dict[str, float] = {}
    began = now()

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            tokens = WARM if state.global_step == 0 else job.tokens
            for name in ("max_new_tokens", "min_new_tokens"):
                setattr(trainer.generation_config, name, tokens)
            nonlocal began
            began = now()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            found.update(since("step", began))

    def reward(completions: Any, completion_ids: Any, **_: Any) -> list[float]:
        found["tokens"] = sum(map(len, completion_ids))
        return [letters(c[0]["content"]) for c in completions]

    chats = [{"prompt": [{"role": "user", "content": item.prompt}]} for item in job.items]
    with tempfile.TemporaryDirectory() as folder:
        args = trl.GRPOConfig(
            folder,
            per_device_train_batch_size=MICRO_ROWS,
            gradient_accumulation_steps=job.rollouts // MICRO_ROWS,
            num_generations=GROUP,
            max_completion_length=job.tokens,
            generation_kwargs={"min_new_tokens": job.tokens},
            model_init_kwargs={"dtype": "float32"},
            gradient_checkpointing=False,  # slower with it, and ours goes without
            bf16=job.dtype == "bfloat16",
            use_cpu=True,
            beta=0.0,
            loss_type="grpo",
            learning_rate=1e-6,
            max_steps=2,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer: Any = trl.GRPOTrainer(
            job.model,
            reward_funcs=reward,
            args=args,
            train_dataset=Dataset.from_list(chats),
            callbacks=[Clock()],
        )
        generate = trainer._generate

        def timed(*arguments: Any) -> Any:
            start = now()
            result = generate(*arguments)
            found.update(since("generate", start))
            return result

        trainer._generate = timed
        trainer.train()
    if found["tokens"] != job.rollouts * job.tokens:
        raise RuntimeError(f"TRL's step was no whole step: {found}")
    return step(found)


def drawn(job: Job, generate: Callable[[int], int]) -> dict[str, float]:
    """Seconds and tokens of one generation, after one that warms up."""
    generate(WARM)
    began = now()
    tokens = generate(job.tokens)
    return {**since("generate", began), "tokens": float(tokens)}


def engine(job: Job, kind: str) -> dict[str, float]:
    """One of our engines by itself."""
    from botgrpo.trainer import config as configs
    from botgrpo.trainer.engines.base import Sampling
    from botgrpo.trainer.engines.choice import engine_of

    policy = dataclasses.replace(job.policy(), end_ids=())
    data = {
        "name": "speed",
        "task": "react",
        "policy": {"model": job.model, "generate_dtype": job.dtype},
        "reward": {"outcomes": {"speed.letters": 1.0}},
        "engine": {"kind": kind, "memory_gib": 2.0},
    }
    made = engine_of(configs.parse(data, "speed"), policy)
    prompts = [policy.prompt_ids(item.prompt) for item in job.items]

    def generate(tokens: int) -> int:
        samples = made.generate(prompts, GROUP, range(job.rollouts), Sampling(tokens))
        return sum(len(s.token_ids) for s in samples)

    return drawn(job, generate)


def native(job: Job) -> dict[str, float]:
    """Our own decoding."""
    return engine(job, "native")


def vllm(job: Job) -> dict[str, float]:
    """vLLM through our engine, log-probabilities included; runs in .envs/vllm."""
    return engine(job, "vllm")


def transformers(job: Job) -> dict[str, float]:
    """`generate` of transformers in the job's type, without log-probabilities."""
    import torch

    policy = job.policy()
    model = policy.model.to(getattr(torch, job.dtype))
    model.config.use_cache = True
    tokenizer = policy.tokenizer
    tokenizer.padding_side = "left"
    prompts = [{"input_ids": policy.prompt_ids(item.prompt)} for item in job.items]
    batch = tokenizer.pad(prompts, return_tensors="pt")

    def generate(tokens: int) -> int:
        with torch.no_grad():
            ids = model.generate(
                **batch,
                do_sample=True,
                top_k=0,
                top_p=1.0,
                temperature=1.0,
                num_return_sequences=GROUP,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
            )
        return int(ids.shape[0] * (ids.shape[1] - batch["input_ids"].shape[1]))

    return drawn(job, generate)


SIDES = {f.__name__: f for f in (ours, trl, native, transformers, vllm)}


def main() -> None:
    side, job = SIDES[sys.argv[1]], Job(**json.loads(sys.argv[2]))
    # what libraries print on the way is not the answer
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    found = side(job)
    found["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    print(json.dumps(found), file=answer, flush=True)


if __name__ == "__main__":
    main()
