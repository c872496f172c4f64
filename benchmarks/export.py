"""Launch files that take a configuration to another trainer: one Python file for TRL, one shell
script for verl. Each carries the resolved configuration and says at its top what is lost."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo.benchmarks.export_trl import trl_script
from botgrpo.benchmarks.export_verl import verl_script
from botgrpo.trainer.config import Config

# trainer: its script, made from a configuration and the name of the file, and the file's suffix
EXPORTS: dict[str, tuple[Callable[[Config, str], str], str]] = {
    "trl": (trl_script, ".py"),
    "verl": (verl_script, ".sh"),
}


def export(trainer: str, config: Config, file: str | None) -> str:
    """The launch file for one of `EXPORTS`, which names itself `file`."""
    script, suffix = EXPORTS[trainer]
    return script(config, file or f"train{suffix}")
