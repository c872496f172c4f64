"""How fast each part is, on this machine, now:  python -m botgrpo.benchmarks.speed [PART ...]

Prints medians with the range over repeats; nothing is asserted. Parts: startup, projection,
estimator, update (of the micro policy and the 135M model, prompts computed once and padded), micro
(a step of 64 rollouts through the sandbox), small (the same with the 135M model).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def report(name: str, values: Sequence[float], unit: str) -> None:
    """One line: median, and the range behind it."""
    middle = statistics.median(values)
    print(f"{name:42} {middle:9.3f} {unit:12} ({min(values):.3f} to {max(values):.3f})", flush=True)


def timed(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Seconds of each repeat, after one that is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        began = clock()
        work()
        seconds.append(clock() - began)
    return seconds


def startup(repeats: int) -> None:
    """What a user waits for before anything happens."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for name, code in (
        ("python starts", "pass"),
        ("import botgrpo.rewards", "import botgrpo.rewards"),
        ("botgrpo --help", "from botgrpo.benchmarks.cli import parser; parser().format_help()"),
    ):
        run = functools.partial(
            subprocess.run, [sys.executable, "-c", code], env=environment, check=True
        )
        report(name, timed(run, repeats), "s")


def projection(repeats: int) -> None:
    """Sampled ids -> text, spans and local values for the 64 rollouts of a step."""
    from botgrpo.benchmarks import assemble, shipped
    from botgrpo.rewards import Span, TokenBytes, project

    folder = shipped.checkpoint("react_micro", 0)
    assert folder is not None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    token_bytes = TokenBytes.from_tokenizer(tokenizer)
    pairs = assemble.task("react").corpus(64, 0, 0.1)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids[:128] for _, text in pairs]

    def work() -> None:
        for row in ids:
            text, spans = token_bytes.decode(row)
            project([Span(40, 44, -1.0), Span(90, 91, -1.0)], spans, text, decay_lines=3)

    report("project 64 rollouts", [1000 * s for s in timed(work, repeats)], "ms")


def estimator(repeats: int) -> None:
    """BoT-GRPO on ragged rollouts of 16 to 4,096 tokens, on one core: flat, padded, linear or not.

    The padded form is what a trainer computes that keeps [R, T] tensors and masks; it gives the
    same advantages. Both run in this process, one after the other; what is timed is the core's
    work, so that other programs on the machine count less.
    """
    import torch

    from botgrpo.trainer.bot_grpo import bot_grpo_ragged

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    reward_N, length_R, group_R = ragged_rewards(1024)
    mask_R_T = torch.arange(int(length_R.max()))[None] < length_R[:, None]
    reward_R_T = torch.zeros(mask_R_T.shape)
    reward_R_T[mask_R_T] = reward_N
    clock = time.process_time
    flat = timed(lambda: bot_grpo_ragged(reward_N, length_R, group_R), repeats, clock)
    padded = timed(lambda: padded_bot_grpo(reward_R_T, mask_R_T, 8), repeats, clock)
    tokens = f"bot_grpo, {len(reward_N):,} tokens"
    report(f"{tokens}, flat", [1000 * s for s in flat], "ms")
    report(f"{tokens}, padded", [1000 * s for s in padded], "ms")
    print(f"{'padded / flat':42} {statistics.median(padded) / statistics.median(flat):9.1f} times")
    one = bot_grpo_ragged(reward_N, length_R, group_R)[0]
    other = padded_bot_grpo(reward_R_T, mask_R_T, 8)[mask_R_T]
    print(f"{'largest difference of the two':42} {float((one - other).abs().max()):9.1e}")
    for rollouts in (104, 1024, 10240):
        arguments = ragged_rewards(rollouts)
        seconds = timed(functools.partial(bot_grpo_ragged, *arguments), repeats, clock)
        per_token = [1e9 * s / len(arguments[0]) for s in seconds]
        report(f"bot_grpo, {len(arguments[0]):,} tokens", per_token, "ns a token")
    torch.set_num_threads(threads)


def ragged_rewards(rollouts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards [N], lengths [R], groups of 8 [R]: 16 to 4,096 tokens a rollout, 1,000 on average."""
    import torch

    generator = torch.Generator().manual_seed(0)
    length_R = (16 + 4080 * torch.rand(rollouts, generator=generator) ** 3).long()
    length_R[0] = 4096  # the width of the padded form
    reward_N = torch.randn(int(length_R.sum()), generator=generator)
    return reward_N, length_R, torch.arange(rollouts) // 8


def padded_bot_grpo(reward_R_T: Tensor, mask_R_T: Tensor, k: int) -> Tensor:
    """The same estimator as plain masked float64 on [R, T], rows of a group side by side."""
    import torch

    mask = mask_R_T.double()
    length_R = mask.sum(1).clamp(min=1)
    reward = torch.where(mask_R_T, reward_R_T.double(), 0.0)
    mean_R = reward.sum(1) / length_R
    mean_P = mean_R.view(-1, k).mean(1)
    deviation = (reward - mean_P.repeat_interleave(k)[:, None]) * mask
    variance_P = ((deviation**2).sum(1) / length_R).view(-1, k).mean(1)
    return deviation / (variance_P.sqrt() + 1e-6).repeat_interleave(k)[:, None]


def steps(config_name: str, count: int, sets: Sequence[str]) -> None:
    """Whole steps of a shipped configuration; the first, which warms up, is not counted."""
    from botgrpo.benchmarks import training

    assignments = [f"run.steps={count + 1}", f"run.eval_every={count + 1}", "run.eval_prompts=8"]
    config = training.load_config(config_name, [*assignments, *sets])
    with tempfile.TemporaryDirectory() as folder:
        training.train(config, Path(folder), resume=False)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()[1:]
    rows = [json.loads(line) for line in lines]
    parts = ("generate", "score", "update")
    for part in parts:
        report(f"{config_name}: {part}", [r[f"time/{part}_s"] for r in rows], "s")
    whole = [sum(r[f"time/{p}_s"] for p in parts) for r in rows]
    report(f"{config_name}: step", whole, "s")
    report(f"{config_name}: completion", [r["completions/mean_length"] for r in rows], "tokens")
    print(f"{config_name}: {60 / statistics.mean(whole):.1f} steps a minute")


def micro(repeats: int) -> None:
    """The micro policy on one thread, as a benchmark's cells run it."""
    steps("react_micro", max(repeats, 10), ["run.threads=1"])


def small(repeats: int) -> None:
    """The 135M model on all cores."""
    steps("react_small", 3, [])


def update(repeats: int) -> None:
    """The passes of one update: each prompt once and no padding, beside rows that are padded.

    Seconds are the process's own, on one thread, the two forms in turns.
    """
    import numpy as np
    import torch

    from botgrpo.benchmarks import assemble, shipped
    from botgrpo.trainer import shared_prompt
    from botgrpo.trainer.logps import Row, microbatches, token_logps
    from botgrpo.trainer.models import locate
    from botgrpo.trainer.policy import load_policy

    torch.set_num_threads(1)
    for name, prompts, tokens, plain in (
        ("react_micro", 8, 111, "eager"),
        ("smollm2-135m", 2, 64, "sdpa"),
    ):
        policy = load_policy(shipped.checkpoint(name, 0) or locate(name))
        items = assemble.task("react").train_items(0)[:prompts]
        lengths = np.random.default_rng(0).integers(tokens // 2, tokens + 1, 8 * prompts)
        rows = [
            Row(policy.prompt_ids(items[i // 8].prompt), [9] * n, np.zeros(0), np.zeros(0))
            for i, n in enumerate(lengths.tolist())
        ]

        def work(model: object = policy.model, rows: list[Row] = rows) -> None:
            for picked in microbatches(model, rows, 8192):
                batch = [rows[i] for i in picked]
                logps_N, _ = token_logps(
                    model, batch, pad_id=0, temperature=1.0, autocast=torch.bfloat16
                )
                logps_N.sum().backward()  # type: ignore[no-untyped-call]

        seconds: dict[str, list[float]] = {plain: [], shared_prompt.NAME: []}
        for _ in range(max(1, repeats // 3)):
            for form, into in seconds.items():
                policy.model.set_attn_implementation(form)
                into += timed(work, 1, time.process_time)
        report(f"{name}: update, padded", seconds[plain], "s")
        report(f"{name}: update, prompts once", seconds[shared_prompt.NAME], "s")


PARTS = {f.__name__: f for f in (startup, projection, estimator, update, micro, small)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.speed", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    for name in arguments.parts or [p for p in PARTS if p != "small"]:
        PARTS[name](arguments.repeats)


if __name__ == "__main__":
    main()
