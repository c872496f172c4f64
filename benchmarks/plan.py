"""What `botgrpo train CONFIG --plan` prints: the run, its memory, its time, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botgrpo.benchmarks import assemble, shipped
from botgrpo.benchmarks.memory import (
    GIB,
    LIBRARIES_GIB,
    USABLE,
    machine_gib,
    needed_gib,
    refusal,
)
from botgrpo.benchmarks.progress import duration
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import Config

if TYPE_CHECKING:
    from botgrpo.benchmarks.suite import CellPlan, Suite
    from botgrpo.trainer.footprint import Footprint
    from botgrpo.trainer.pace import Pace

# NVIDIA's data sheet of the H100 SXM: dense bfloat16 products, bandwidth; and what is reached
H100_PRODUCTS, H100_BYTES_S = 989e12, 3.35e12
COMPUTE_SHARE, BANDWIDTH_SHARE = 0.4, 0.5


def write(config: Config, memory_gib: float | None = None) -> str:
    """The plan, from the configuration and the model's config.json alone.

    Args:
        memory_gib: of the machine that is planned for; None for this one, whose pace is measured.

    Raises:
        ConfigError: it cannot fit; says what would have to change.
    """
    from botgrpo.trainer.footprint import footprint

    folder, remark = model_shape(config)
    tokens, counted = prompt_tokens(config, folder)
    found = footprint(config, folder, tokens)
    has = memory_gib or machine_gib(config)
    lines = [
        *_run_lines(config, folder, remark, f"{tokens} tokens ({counted})"),
        *_memory_lines(config, found, has),
    ]
    if needed_gib(found) > has * USABLE:
        lines += ["", refusal(config, folder, tokens, found, has)]
        raise ConfigError("\n".join(["this run cannot fit:", *lines]))
    if memory_gib is None:
        lines += _time_lines(config, folder, found)
    return "\n".join(lines)


def of_suite(
    suite: Suite, plans: Sequence[CellPlan], out: Path, workers: int | None, effect: float | None
) -> list[str]:
    """How long a suite takes on this machine, and what its seeds can show.

    Raises ConfigError where an effect is asked about that nothing measured can be held against.
    """
    from botgrpo.benchmarks import power
    from botgrpo.benchmarks.report.analysis import analyse
    from botgrpo.benchmarks.results import load_suite

    analysis = analyse(load_suite(out)) if (out / "suite.toml").is_file() else None
    return [
        at_most(suite_s(plans, workers), workers),
        *power.plan_lines(len(suite.arms) - 1, analysis, effect),
    ]


def suite_s(plans: Sequence[CellPlan], workers: int | None) -> float:
    """Seconds of a suite's cells on this machine, `workers` at a time; each arm is measured now."""
    from botgrpo.trainer.footprint import footprint

    arms: dict[str, float] = {}
    for cell in plans:
        if cell.arm not in arms:
            config = alone(cell.config)
            folder, _ = model_shape(config)
            found = footprint(config, folder, prompt_tokens(config, folder)[0])
            arms[cell.arm] = run_s(config, folder, found)
    return sum(arms[cell.arm] for cell in plans) / min(slots(workers), len(plans))


def slots(workers: int | None) -> int:
    """Cells at a time: as asked, or as many as this machine has room for."""
    from botgrpo.benchmarks import executors

    return workers or executors.Local().slots


def at_most(seconds: float, workers: int | None) -> str:
    """A time as `suite_s` has it, with what it leaves out."""
    return (
        f"at most {duration(seconds)} here, {slots(workers)} cells at a time: measured now on one "
        "core, completions at the cap, scoring left out"
    )


def of_accelerator(plans: Sequence[CellPlan], memory_gib: float) -> list[str]:
    """Memory, tokens, judge calls and hours of a suite on one GPU that is not here.

    Raises ConfigError where a cell cannot fit.
    """
    from botgrpo.rewards.judges.provenance import judges_of
    from botgrpo.trainer.footprint import footprint

    memory: dict[str, list[str]] = {}  # what is needed -> the arms that need it
    hours, tokens, calls = 0.0, 0, 0
    arms: dict[str, Footprint] = {}
    for cell in plans:
        config = cell.config
        if cell.arm not in arms:
            folder, remark = model_shape(config)
            count = prompt_tokens(config, folder)[0]
            found = arms[cell.arm] = footprint(config, folder, count)
            if needed_gib(found) > memory_gib * USABLE:
                raise ConfigError(refusal(config, folder, count, found, memory_gib))
            told = (
                f"{needed_gib(found):.1f} of {memory_gib:g} GiB at the peak, "
                f"{found.parameters:,} parameters{f' ({remark})' if remark else ''}"
            )
            memory.setdefault(told, []).append(cell.arm)
        found = arms[cell.arm]
        pace = roofline(config, found)
        hours += whole_s(config, found, pace) / 3600
        tokens += config.run.steps * found.rows * config.sampling.max_new_tokens
        calls += config.run.steps * found.rows * len(judges_of(assemble.reward(config)))
    return [
        *(f"{', '.join(names)}: {told}" for told, names in memory.items()),
        f"{tokens:,} tokens to sample at most, {calls:,} calls of judges",
        f"about {hours:.0f} GPU hours on an H100 by arithmetic alone, nothing measured: "
        f"completions at the cap, {COMPUTE_SHARE:.0%} of its products and {BANDWIDTH_SHARE:.0%} of "
        "its bandwidth, scoring beside it",
    ]


def roofline(config: Config, found: Footprint) -> Pace:
    """A step's seconds on an H100 from its products and bytes.

    A token costs 2 products a parameter forward and 4 backward (Kaplan et al. 2020, 2001.08361),
    and the forward again where layers are computed twice; decoding reads the weights and half of
    the full cache for every token of the longest completion.
    """
    from botgrpo.trainer.pace import Pace

    products = H100_PRODUCTS * COMPUTE_SHARE
    passes = 8 if config.policy.gradient_checkpointing else 6
    learned = found.update_tokens * config.optim.epochs
    read = (found.decoding or found.weights) + found.cache / 2
    decode_s = config.sampling.max_new_tokens * read / (H100_BYTES_S * BANDWIDTH_SHARE)
    drawn = found.rows * config.sampling.max_new_tokens
    return Pace(
        generate_s=decode_s + 2 * found.parameters * drawn / products,
        update_s=passes * found.parameters * learned / products,
    )


def alone(config: Config) -> Config:
    """The configuration as a suite runs it: one thread a cell."""
    return config.model_copy(update={"run": config.run.model_copy(update={"threads": 1})})


def model_shape(config: Config) -> tuple[Path, str]:
    """The folder whose config.json is read: the model's own, or the shape shipped for it."""
    try:
        return assemble.model_folder(config), ""
    except ConfigError:
        name = config.policy.model.rpartition("/")[2].lower()
        shape = shipped.ROOT / "shapes" / name
        if not (shape / "config.json").is_file():
            raise
        return shape, "not here: planned from its shape; a run needs its weights"


def prompt_tokens(config: Config, folder: Path) -> tuple[int, str]:
    """Tokens of the longest prompt of the training set, and how they were counted."""
    prompts = [item.prompt for item in assemble.task(config.task).train_items(config.run.seed)]
    longest = sorted(prompts, key=len)[-8:]
    if (folder / "tokenizer.json").is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        counts = [len(tokenizer.encode(text).ids) for text in longest]
        return max(counts) + 16, "by its tokenizer, and 16 for the template"
    return len(longest[-1]) // 3 + 48, "assumed: 3 characters a token, and 48 for the template"


def _run_lines(config: Config, folder: Path, remark: str, prompt: str) -> list[str]:
    sampling, run = config.sampling, config.run
    rollouts = sampling.prompts * sampling.group_size
    caution = assemble.caution(config)
    return [
        f"{config.name}: {config.algorithm} on the task {config.task}",
        f"model        {config.policy.model} {f'({remark})' if remark else f'at {folder}'}",
        f"reward       w_g {config.reward.w_g:g} x {config.reward.outcomes}"
        f" + w_s {config.reward.w_s:g} x {config.reward.locals}",
        f"each step    {sampling.prompts} prompts x {sampling.group_size} rollouts = {rollouts}, "
        f"at most {rollouts * sampling.max_new_tokens:,} tokens after prompts of at most {prompt}",
        f"steps        {run.steps}, {evaluations(config)} evaluations of {run.eval_prompts} "
        f"prompts, a checkpoint every {run.checkpoint_every}",
        f"sandbox      {config.sandbox if assemble.needs_sandbox(config) else 'none is needed'}",
        *([f"caution      {caution}"] if caution else []),
    ]


def evaluations(config: Config) -> int:
    run = config.run
    return 1 + run.steps // run.eval_every + (run.steps % run.eval_every > 0)


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    size: int
    what: str

    def __str__(self) -> str:
        return f"  {self.label:12} {self.size / GIB:7.2f} GiB  {self.what}"


def _memory_lines(config: Config, found: Footprint, has: float) -> list[str]:
    policy = config.policy
    recomputed = ", layers computed again" if policy.gradient_checkpointing else ""
    lines = [
        _Line("weights", found.weights, f"{found.parameters:,} parameters"),
        _Line("gradients", found.gradients, f"of {found.trained:,} that learn"),
        _Line("optimizer", found.optimizer, "AdamW: two moments"),
        _Line("reference", found.reference, "the run's first weights, for optim.kl"),
        _Line("beside", found.beside, "PRIME's model and its reference, or a critic"),
        _Line(
            "decoding",
            found.decoding,
            f"a copy of the weights in {policy.generate_dtype}"
            + (", and vLLM's KV cache" if config.engine.kind == "vllm" else ""),
        ),
        _Line("KV cache", found.cache, f"{found.rows} rollouts x {found.width} tokens, generation"),
        _Line("drawing", found.drawing, "one token's probabilities in all rollouts, generation"),
        _Line(
            "activations",
            found.activations,
            f"{found.micro_rows} rollouts, {found.micro_tokens} tokens, update{recomputed}",
        ),
        _Line("logits", found.logits, "of their completions, in pieces, update"),
    ]
    return [
        "memory       on one device, at the longest prompt and completion",
        *(str(line) for line in lines if line.size),
        f"  peak         {needed_gib(found):7.2f} GiB  the larger of generation and update, and "
        f"{LIBRARIES_GIB} for the libraries",
        f"  there is     {has:7.2f} GiB  of which {USABLE:.0%} may be used",
    ]


def _time_lines(config: Config, folder: Path, found: Footprint) -> list[str]:
    from botgrpo.trainer.pace import measure

    pace = measure(config, folder, found)
    return [
        "time         measured now, on two layers of its width; completions at the cap, scoring "
        "left out" + ("" if config.engine.kind == "native" else "; drawn by the native engine"),
        f"  a step       at most {duration(pace.generate_s + pace.update_s)}: "
        f"{duration(pace.generate_s)} to generate, {duration(pace.update_s)} to update",
        f"  the run      at most {duration(whole_s(config, found, pace))} on this machine",
    ]


def run_s(config: Config, folder: Path, found: Footprint) -> float:
    """Seconds of a whole run at most, measured now."""
    from botgrpo.trainer.pace import measure

    return whole_s(config, found, measure(config, folder, found))


def whole_s(config: Config, found: Footprint, pace: Pace) -> float:
    """Seconds of all steps and evaluations at a pace; scoring left out."""
    share = config.run.eval_prompts / found.rows
    steps_s = config.run.steps * (pace.generate_s + pace.update_s)
    return steps_s + evaluations(config) * share * pace.generate_s
