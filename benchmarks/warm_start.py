"""Warm starts: micro checkpoints, and any model on the corpus of a task, cached by content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo.benchmarks import assemble
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import Config, WarmStartConfig
from botgrpo.trainer.models import model_hash, models_dir
from botgrpo.trainer.task import Item

if TYPE_CHECKING:
    from botgrpo.rewards.base import Rollout
    from botgrpo.trainer.engines.base import Sample

Say = Callable[[str], None]
EVERY = 50  # steps between two lines of progress
MAX_NEW_TOKENS = 192


@dataclass(frozen=True, slots=True)
class Stage:
    """Some steps on one kind of text."""

    label: str
    pairs: Sequence[tuple[str, str]]
    steps: int
    batch_size: int
    lr: float


def make_checkpoint(
    folder: Path,
    *,
    command: str,
    seed: int,
    recipe: Mapping[str, Any],
    tokenizer: Any,
    stages: Sequence[Stage],
    measured: Callable[[Path], dict[str, Any]],
    say: Say,
) -> Mapping[str, Any]:
    """A fresh micro policy after its stages, in `folder` with a manifest, which is returned."""
    from botgrpo.trainer.micro import build_model, save
    from botgrpo.trainer.sft import sft

    with _one_thread(), _replacing(folder) as partial:
        model = build_model(tokenizer, seed=seed)
        losses: list[float] = []
        for stage in stages:
            losses = sft(
                model,
                tokenizer,
                stage.pairs,
                steps=stage.steps,
                batch_size=stage.batch_size,
                lr=stage.lr,
                seed=seed,
                progress=_reporter(stage.label, stage.steps, say),
            )
        save(model, tokenizer, partial)
        manifest = {
            "command": command,
            "seed": seed,
            "recipe": recipe,
            "parameters": sum(p.numel() for p in model.parameters()),
            "final_loss_nats": sum(losses[-20:]) / len(losses[-20:]),
            "sha256": {p.name: _sha256(p) for p in sorted(partial.iterdir())},
            "measured": measured(partial),
        }
        (partial / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    say(json.dumps(manifest["measured"]))
    return manifest


def warm_started(config: Config, out: Path | None, *, say: Say = print) -> Path:
    """Folder of the configuration's model after `[policy.warm_start]` on its task's corpus.

    Without `out` the result lies in the cache under a hash of all that it depends on, and is made
    once. Raises ConfigError for a configuration without `[policy.warm_start]`.
    """
    settings = config.policy.warm_start
    if settings is None:
        raise ConfigError(
            f"configuration {config.name!r} has no [policy.warm_start]; add one, or set "
            "policy.warm_start.steps"
        )
    base = assemble.model_folder(config)
    facts = {"task": config.task, "model_sha256": model_hash(base), **settings.model_dump()}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    folder = out or models_dir().parent / "warm_starts" / f"{config.name}-{key}"
    if out is None and (folder / "config.json").is_file():
        say(f"warm start of {config.policy.model}: in the cache, {folder}")
    else:
        _train_on_corpus(config, settings, base, folder, facts, say)
    return folder


def _train_on_corpus(
    config: Config,
    settings: WarmStartConfig,
    base: Path,
    folder: Path,
    facts: Mapping[str, Any],
    say: Say,
) -> None:
    """Supervised steps from the model in `base`, written to `folder` in bf16."""
    from botgrpo.trainer.policy import load_policy
    from botgrpo.trainer.sft import sft

    policy = load_policy(base)
    pairs = assemble.task(config.task).corpus(
        settings.examples, settings.seed, settings.corruption_rate
    )
    with _replacing(folder) as partial:
        sft(
            policy.model,
            policy.tokenizer,
            texts(pairs),
            steps=settings.steps,
            batch_size=settings.batch_size,
            lr=settings.learning_rate,
            seed=settings.seed,
            micro_batch=min(8, settings.batch_size),
            progress=_reporter(config.policy.model, settings.steps, say, every=5),
        )
        policy.model.bfloat16().save_pretrained(partial)
        policy.tokenizer.save_pretrained(partial)
        (partial / "manifest.json").write_text(json.dumps(facts, indent=2) + "\n")


def sample(
    folder: Path, items: Sequence[Item], *, seed: int = 0
) -> tuple[list[Rollout], list[Sample]]:
    """One completion of each prompt by the model in `folder`, at temperature 1."""
    import torch

    from botgrpo.rewards.base import Rollout
    from botgrpo.trainer.engines.base import Sampling
    from botgrpo.trainer.engines.native import NativeEngine
    from botgrpo.trainer.policy import load_policy

    policy = load_policy(folder)
    engine = NativeEngine(
        policy.model, end_ids=policy.end_ids, pad_id=policy.pad_id, dtype=torch.float32
    )
    samples = engine.generate(
        [policy.prompt_ids(item.prompt) for item in items],
        1,
        range(len(items)),
        Sampling(MAX_NEW_TOKENS, 1.0, seed),
    )
    rollouts = [
        Rollout(
            item.id,
            item.id,
            item.prompt,
            policy.token_bytes.decode(one.token_ids)[0],
            item.reference,
            finish_reason=one.finish_reason,
        )
        for item, one in zip(items, samples, strict=True)
    ]
    return rollouts, samples


def texts(pairs: Sequence[tuple[Item, str]]) -> list[tuple[str, str]]:
    """Prompts and completions."""
    return [(item.prompt, completion) for item, completion in pairs]


def _reporter(
    label: str, steps: int, say: Say, every: int = EVERY
) -> Callable[[Mapping[str, float]], None]:
    def progress(row: Mapping[str, float]) -> None:
        step = int(row["step"])
        if step % every == 0 or step == steps:
            left = row["seconds"] / step * (steps - step)
            say(f"{label}: step {step}/{steps}, loss {row['loss']:.3f}, {left:.0f} s left")

    return progress


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its place when the block ends well."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
