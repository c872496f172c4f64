"""What a device does, in under ten minutes:  python -m botgrpo.benchmarks.device

1. `micro`: the paper's first figure on the micro policy, five methods, one seed: the policy on the
   device, compilers in the sandbox on this machine's own cores.
2. Models of the published shapes with random weights draw tokens and make an update of them:
   SmolLM2-135M, then Qwen2.5-3B in a whole step of the paper's size, as its configuration has it.

Printed beside what `--plan` says: seconds of generation and of the update (the plan's are an H100's
by arithmetic), peak memory; for the small model how far its log-probabilities are from the CPU's,
both in float32. Name parts to run them alone; nothing depends on it.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from botgrpo.benchmarks import plan, runner, shipped, training
from botgrpo.benchmarks import suite as suites
from botgrpo.benchmarks.memory import GIB, LIBRARIES_GIB
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.results import load_suite
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
SMALL, PAPER, MICRO = "smollm2-135m", "qwen2.5-3b", "micro"
CONFIGS = {PAPER: "react_qwen2.5_3b"}  # its step is measured whole; the others take --tokens


def settings(name: str, arguments: argparse.Namespace) -> Config:
    """A configuration of bf16 products in which the policy learns whole."""
    sets = [f"policy.device={arguments.device}", "policy.generate_dtype=bfloat16"]
    sets += ["policy.update_dtype=bfloat16", "policy.gradient_checkpointing=true"]
    sizes = {
        "sampling.prompts": arguments.prompts,
        "sampling.group_size": arguments.group,
        "sampling.max_new_tokens": arguments.tokens or (None if name in CONFIGS else 256),
    }
    sets += [f"{key}={size}" for key, size in sizes.items() if size]
    return training.load_config(CONFIGS.get(name, "react_micro"), sets, weights=False)


def micro(arguments: argparse.Namespace) -> None:
    """The first figure's methods side by side on the device, one seed, judged in the sandbox."""
    suite = suites.load("paper_f1")
    run = {"steps": arguments.steps, "eval_every": max(1, arguments.steps // 5)}
    run |= {"eval_prompts": arguments.eval_prompts, "checkpoint_every": arguments.steps}
    suite = suite.model_copy(
        update={
            "seeds": [0],
            "run": run,
            "set": {**suite.set, "policy.device": arguments.device},
        }
    )
    with tempfile.TemporaryDirectory(prefix="botgrpo-device-") as folder:
        began = time.perf_counter()
        runner.require_all(runner.Bench(suite, Path(folder)).run())
        wall_s = time.perf_counter() - began
        analysis = analyse(load_suite(folder))
    where = policies.device(arguments.device)
    print(
        f"micro F1 on {where}: {len(suite.arms)} methods, {arguments.steps} steps, {wall_s:.0f} s"
    )
    for arm in analysis.arms:
        print(f"  {arm.name:32} compile {arm.finals['compile']:.2f}, {arm.step_s:.2f} s a step")


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
    pace = plan.roofline(config, found)
    samples, seconds = timed(lambda: engine.generate(prompts, k, range(rows), sampling), device)
    report(f"{engine.name} engine", rows * sampling.max_new_tokens, seconds, pace.generate_s)
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
    report("update, prompt and completion", rows * found.width, seconds, pace.update_s)
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


def report(what: str, tokens: int, seconds: float, planned_s: float) -> None:
    print(
        f"  {what:32} {tokens / seconds:9,.0f} tokens/s, {seconds:.2f} s; an H100 by the plan "
        f"{planned_s:.2f} s",
        flush=True,
    )


def peak_gib(device: torch.device) -> float:
    """Most memory that was in use: of the device, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.device", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("parts", nargs="*", default=[MICRO, SMALL, PAPER], metavar="micro|SHAPE")
    made.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    made.add_argument("--prompts", type=int, help="a step (default: the configuration's, 8)")
    made.add_argument("--group", type=int, help="rollouts a prompt (default: 8)")
    made.add_argument("--tokens", type=int, help="of each completion (default: 256; 3B 1,024)")
    made.add_argument("--steps", type=int, default=30, help="of the micro policy (default 30)")
    made.add_argument("--eval-prompts", type=int, default=96, help="held out (default 96)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    for name in arguments.parts:
        if name == MICRO:
            micro(arguments)
            continue
        measure(name, settings(name, arguments))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
