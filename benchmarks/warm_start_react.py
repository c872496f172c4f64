"""The warm start of `react_micro`: outlines of components first, then whole files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from botgrpo.benchmarks.tasks.react import CORRUPTION_RATE, ReactTask
from botgrpo.benchmarks.warm_start import Say, Stage, make_checkpoint, sample, texts
from botgrpo.trainer.task import Item


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a micro checkpoint is made.

    First *outlines*, in which a quarter of the tokens is copied from the request; then whole files,
    about seven in ten with a fault. Without outlines copying comes late: whole files alone, a tenth
    copied, gave the right name to 1 of 128 prompts after 300 steps of 64 files.
    """

    outline_steps: int = 500
    outline_batch: int = 64
    outline_lr: float = 3e-3
    files: int = 40_000
    file_steps: int = 1600
    file_batch: int = 32
    file_lr: float = 2e-3
    corruption_rate: float = CORRUPTION_RATE
    eval_prompts: int = 512


def react_micro(
    folder: Path, *, seed: int, recipe: Recipe = Recipe(), say: Say = print, backend: str = "auto"
) -> Mapping[str, Any]:
    """Make micro checkpoint `seed` in `folder`, measure it, and return its manifest.

    The tokenizer is the same for every seed; weights, corpus and order of batches are the seed's.
    One torch thread, so that the sums come out alike whatever the machine has.
    """
    from botgrpo.trainer.micro import build_tokenizer

    task = ReactTask()
    reading = texts(task.corpus(4000, 0))
    outlines = texts(task.outlines(recipe.outline_steps * recipe.outline_batch // 2, seed))
    files = texts(task.corpus(recipe.files, seed, recipe.corruption_rate))
    return make_checkpoint(
        folder,
        command=f"botgrpo sft react_micro --set run.seed={seed}",
        seed=seed,
        recipe=asdict(recipe),
        tokenizer=build_tokenizer((text for pair in reading for text in pair), words=task.words()),
        stages=(
            Stage(
                "outlines", outlines, recipe.outline_steps, recipe.outline_batch, recipe.outline_lr
            ),
            Stage("files", files, recipe.file_steps, recipe.file_batch, recipe.file_lr),
        ),
        measured=lambda made: measure(made, task.eval_items(recipe.eval_prompts), backend=backend),
        say=say,
    )


def measure(
    folder: Path, items: Sequence[Item], *, seed: int = 0, backend: str = "auto"
) -> dict[str, Any]:
    """What a checkpoint writes at temperature 1: rates in 0..1 over one completion a prompt.

    `compile` and `complete` as `react.complete` judges them; `name`, `elements` and `props` are
    read from the text, so that they count for files that do not build as well.
    """
    from botgrpo.rewards.registry import build
    from botgrpo.trainer.rollouts import evaluation

    rollouts, samples = sample(folder, items, seed=seed)
    scores = asyncio.run(build("react.complete", backend=backend).score(rollouts))
    followed = [
        follows(item, rollout.completion) for item, rollout in zip(items, rollouts, strict=True)
    ]
    rates = {key: sum(f[key] for f in followed) / len(followed) for key in followed[0]}
    return {**evaluation(scores, samples), **rates}


def follows(item: Item, text: str) -> dict[str, bool]:
    """Whether `text` holds the name, every element and every prop that `item` asks for."""
    reference = item.reference
    head = re.search(r"function (\w+)\(([^\n]*)", text)
    name, parameters = head.groups() if head else ("", "")
    found = {
        "name": name == reference["name"],
        "elements": all(re.search(rf"<{tag}\b", text) for tag in reference["elements"]),
        "props": set(reference["props"]) <= set(re.findall(r"\w+", parameters)),
    }
    return {**found, "all_followed": all(found.values())}
