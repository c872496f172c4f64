"""Whether a run fits into a machine's memory, and what would have to change where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from botgrpo.trainer import config as configs
from botgrpo.trainer.config import Config

if TYPE_CHECKING:
    from botgrpo.trainer.footprint import Footprint

GIB = 2**30
# Python, torch and transformers; and what allocators do not give back: a tenth
LIBRARIES_GIB = 0.7
USABLE = 0.9
# in this order: what costs nothing first
CHANGES = (
    "policy.generate_dtype=bfloat16",
    "policy.update_dtype=bfloat16",
    "optim.microbatch_tokens=2048",
    "policy.gradient_checkpointing=true",
    "policy.lora.rank=16",
)


def needed_gib(found: Footprint) -> float:
    """At the peak, libraries included."""
    return found.peak / GIB + LIBRARIES_GIB


def machine_gib(config: Config) -> float:
    """Memory of the device that the run would learn on."""
    import os

    import torch

    from botgrpo.trainer.policy import device

    if device(config.policy.device).type == "cuda":
        return torch.cuda.get_device_properties(0).total_memory / GIB
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    text = limit.read_text().strip() if limit.is_file() else "max"
    return (min(total, int(text)) if text.isdigit() else total) / GIB


def refusal(config: Config, folder: Path, tokens: int, found: Footprint, has: float) -> str:
    """What to change, each change alone and then as many together as it takes."""
    lines = [f"It needs {needed_gib(found):.1f} GiB of {has:.1f} GiB. What would help:"]
    together: list[str] = []
    for change in remedies(config):
        alone = changed(config, [change], folder, tokens)
        if needed_gib(alone) < 0.99 * needed_gib(found):
            lines.append(f"  --set {change:38} {needed_gib(alone):6.1f} GiB")
            together.append(change)
            both = changed(config, together, folder, tokens)
            if len(together) > 1 and needed_gib(both) <= has * USABLE:
                sets = " ".join(f"--set {each}" for each in together)
                return "\n".join([*lines, f"Together {needed_gib(both):.1f} GiB: {sets}"])
            if needed_gib(both) <= has * USABLE:
                return "\n".join(lines)
    lines.append(
        "  fewer sampling.prompts or sampling.max_new_tokens, a smaller model, or a larger machine"
    )
    return "\n".join(lines)


def remedies(config: Config) -> Iterator[str]:
    """Changes that this configuration has not made yet."""
    data = config.model_dump()
    for change in CHANGES:
        key, _, value = change.partition("=")
        section, name, *_ = key.split(".")
        now = data[section][name]
        if name == "microbatch_tokens" and now <= int(value):
            continue
        if (name == "lora" and now) or now == value or now is True:
            continue
        yield change


def changed(config: Config, sets: Sequence[str], folder: Path, tokens: int) -> Footprint:
    """The footprint with these settings."""
    from botgrpo.trainer.footprint import footprint

    written = configs.parse_text(configs.to_toml(config.model_dump()))
    data = configs.override(written, sets)
    return footprint(configs.parse(data, "the plan"), folder, tokens)
