"""The warm start of `aime_micro`: the micro policy on worked solutions, some with slips."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from botgrpo.benchmarks.tasks.aime_micro import CORRUPTION_RATE, AimeMicroTask
from botgrpo.benchmarks.warm_start import Say, Stage, make_checkpoint, sample, texts
from botgrpo.trainer.task import Item

TAGS = (
    *(f"<{slash}step {i}>" for i in range(1, 10) for slash in ("", "/")),
    *("<final>", "</final>"),
)


@dataclass(frozen=True, slots=True)
class AimeRecipe:
    """How a micro checkpoint is made.

    First *drills*, in which half of the tokens is copied and the rest worked out; then whole
    solutions, some of whose claims are slips. Solutions alone, digit by digit, taught neither
    copying nor arithmetic in 600 steps of 64.
    """

    drill_steps: int = 1000
    drill_batch: int = 64
    drill_lr: float = 3e-3
    solutions: int = 80_000
    solution_steps: int = 3000
    solution_batch: int = 32
    solution_lr: float = 3e-3
    corruption_rate: float = CORRUPTION_RATE
    eval_prompts: int = 256


def aime_micro(
    folder: Path,
    *,
    seed: int,
    recipe: AimeRecipe = AimeRecipe(),
    say: Say = print,
) -> Mapping[str, Any]:
    """Make micro checkpoint `seed` in `folder`, measure it, and return its manifest.

    The tokenizer is the same for every seed; weights, corpus and order of batches are the seed's.
    """
    from botgrpo.trainer.micro import build_tokenizer

    task = AimeMicroTask()
    items = task.eval_items(recipe.eval_prompts)  # too many are refused before the training
    reading = texts(task.corpus(4000, 0))
    drills = task.drills(recipe.drill_steps * recipe.drill_batch // 2, seed)
    solutions = task.corpus(recipe.solutions, seed, recipe.corruption_rate)
    return make_checkpoint(
        folder,
        command=f"botgrpo sft aime_micro --set run.seed={seed}",
        seed=seed,
        recipe=asdict(recipe),
        tokenizer=build_tokenizer(
            (text for pair in reading for text in pair), tags=TAGS, bare_numbers=True
        ),
        stages=(
            Stage("drills", drills, recipe.drill_steps, recipe.drill_batch, recipe.drill_lr),
            Stage(
                "solutions",
                texts(solutions),
                recipe.solution_steps,
                recipe.solution_batch,
                recipe.solution_lr,
            ),
        ),
        measured=lambda made: measure_answers(made, items),
        say=say,
    )


def measure_answers(folder: Path, items: Sequence[Item]) -> dict[str, Any]:
    """Rates in 0..1 of one completion a prompt at temperature 1, as `math.answer` judges them."""
    from botgrpo.rewards.registry import build
    from botgrpo.trainer.rollouts import evaluation

    rollouts, samples = sample(folder, items)
    return evaluation(asyncio.run(build("math.answer").score(rollouts)), samples)
