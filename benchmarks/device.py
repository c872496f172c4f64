"""Engine and update on this device, without weights:  python -m botgrpo.benchmarks.device [SHAPE]

Models of the published shapes with random weights draw tokens and make an update of them. Printed:
tokens a second, peak memory beside what `--plan` says, and for the small model how far its
log-probabilities are from the CPU's, both in float32. Minutes on a GPU; nothing depends on it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from botgrpo.benchmarks import shipped, training
from botgrpo.benchmarks.plan import GIB, LIBRARIES_GIB
from botgrpo.trainer import policy as policies
from botgrpo.trainer.algorithms import ALGORITHMS
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.base import Sample, Sampling
from botgrpo.trainer.engines.generic import engine_for
from botgrpo.trainer.footprint import build, footprint, read_config
from botgrpo.trainer.logps import Row, frozen_logps
from botgrpo.trainer.update import Settings, update

T = TypeVar("T")
PROMPT = 64  # tokens, the same for all
SMALL = "smollm2-135m"


def settings(arguments: argparse.Namespace) -> Config:
    """A configuration of bf16 products in which the policy learns whole."""
    sets = [f"policy.device={arguments.device}", "policy.generate_dtype=bfloat16"]
    sets += ["policy.update_dtype=bfloat16", "policy.gradient_checkpointing=true"]
    sets += [f"sampling.prompts={arguments.prompts}", f"sampling.group_size={arguments.group}"]
    sets += [f"sampling.max_new_tokens={arguments.tokens}"]
    return training.load_config("react_micro", sets)


def measure(name: str, config: Config) -> None:
    """One model: generation, an update, memory."""
    device = policies.device(config.policy.device)
    folder = shipped.ROOT / "shapes" / name
    found = footprint(config, folder, PROMPT)
    print(f"{name}: {found.parameters:,} parameters, random weights, on {device}", flush=True)
    torch.manual_seed(0)
    model = build(read_config(folder), config, str(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    engine = engine_for(model, end_ids=[], pad_id=0, dtype=torch.bfloat16)
    rng = np.random.default_rng(0)
    prompts = rng.integers(1, found.vocabulary, (config.sampling.prompts, PROMPT)).tolist()
    k, rows = config.sampling.group_size, found.rows
    sampling = Sampling(config.sampling.max_new_tokens)
    # the first of each warms up: kernels are chosen, memory is taken
    engine.generate(prompts, k, range(rows), Sampling(2))
    samples, seconds = timed(lambda: engine.generate(prompts, k, range(rows), sampling), device)
    report(f"{engine.name} engine", rows * sampling.max_new_tokens / seconds)
    learned = [
        Row(prompts[i // k], s.token_ids, rng.normal(size=len(s.token_ids)), s.logps)
        for i, s in enumerate(samples)
    ]
    how = Settings(
        pad_id=0,
        temperature=1.0,
        max_tokens=sampling.max_new_tokens,
        budget_tokens=config.optim.microbatch_tokens,
        grad_clip=1.0,
        autocast=torch.bfloat16,
    )

    def learn() -> dict[str, float]:
        return update(model, optimizer, learned, ALGORITHMS["bot_grpo"], how)

    learn()
    _, seconds = timed(learn, device)
    report("update, prompt and completion", rows * found.width / seconds)
    peak = peak_gib(device)
    planned = found.peak / GIB + (LIBRARIES_GIB if device.type == "cpu" else 0)
    print(f"  {'peak memory':32} {peak:9.2f} GiB, planned {planned:.2f}")
    if name == SMALL:
        print(f"  {'largest difference to the CPU':32} {parity(model, prompts, samples):9.1e} nats")


def parity(model: Any, prompts: Sequence[Sequence[int]], samples: Sequence[Sample]) -> float:
    """Of two rollouts' log-probabilities, here and on the CPU, both in float32."""
    rows = [Row(prompts[0], s.token_ids, np.zeros(0), np.zeros(0)) for s in samples[:2]]
    found = []
    for where in (model.device.type, "cpu"):
        logps = frozen_logps(
            model.to(where), rows, pad_id=0, temperature=1.0, autocast=None, budget_tokens=4096
        )
        found.append(torch.cat(logps).cpu())
    return float((found[0] - found[1]).abs().max())


def timed(work: Callable[[], T], device: torch.device) -> tuple[T, float]:
    began = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - began


def report(what: str, tokens_per_s: float) -> None:
    print(f"  {what:32} {tokens_per_s:9,.0f} tokens/s", flush=True)


def peak_gib(device: torch.device) -> float:
    """Most memory that was in use: of the device, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.device", description=__doc__)
    made.add_argument("models", nargs="*", default=[SMALL, "qwen2.5-3b"], metavar="SHAPE")
    made.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    made.add_argument("--prompts", type=int, default=8)
    made.add_argument("--group", type=int, default=8)
    made.add_argument("--tokens", type=int, default=256, help="of each completion")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    for name in arguments.models:
        measure(name, settings(arguments))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
