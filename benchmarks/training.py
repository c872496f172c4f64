"""One run from the command line: its folder, its warm start, its progress, its resumption."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from botgrpo.benchmarks import assemble, shipped
from botgrpo.benchmarks.hacking import Watch
from botgrpo.benchmarks.progress import Progress
from botgrpo.rewards.base import Reward
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs
from botgrpo.trainer.config import Config
from botgrpo.trainer.task import Item, Task


def load_config(name_or_path: str, assignments: Iterable[str], *, weights: bool = True) -> Config:
    """A shipped or own configuration with overrides, checked before a model is loaded.

    `weights` asks that the model be here.
    """
    path = shipped.find("configs", name_or_path)
    config = configs.parse(configs.override(configs.read_toml(path), assignments), str(path))
    assemble.check(config, where=str(path), weights=weights)
    return config


def train(config: Config, out: Path, *, resume: bool) -> None:
    """Run `config` into `out`; with `resume`, go on from its last checkpoint."""
    text = configs.to_toml(config.model_dump())
    written = out / "config.toml"
    started = (out / "metrics.jsonl").exists() or (out / "eval.jsonl").exists()
    if started and not resume:
        raise ConfigError(
            f"{out} holds a run already: add --resume to go on with it, or choose another folder "
            "with --out"
        )
    if resume and written.exists() and started:
        _require_same(written, config)
    out.mkdir(parents=True, exist_ok=True)
    lock = only_writer(out)
    written.write_text(text)
    caution = assemble.caution(config)
    if caution:
        _say(f"{config.name}: {caution}")
    run = _run(config, out, caution)
    # after _run, which brings torch
    from botgrpo.trainer import checkpoint
    from botgrpo.trainer.trackers import Trackers

    newest = checkpoint.latest(out / "checkpoints") if resume else None
    with (
        Progress(total=config.run.steps, label=config.name) as bar,
        Trackers(
            config.trackers, out, config.name, config.model_dump(), checkpoint.step_of(newest)
        ) as trackers,
    ):
        watch = Watch(out, run.task.metrics)

        def show(kind: str, numbers: dict[str, Any]) -> None:
            _show(bar, kind, numbers, run.task.metrics)
            trackers.log(kind, numbers)
            for sign in watch.news() if kind == "eval" else ():
                bar.say(f"look at rollouts: {sign.text}")

        run.progress = show
        run.train(resume=resume)
    lock.close()


def only_writer(out: Path) -> IO[str]:
    """The lock of a results folder, held until it is closed or the process ends.

    Raises ConfigError where another process writes there: two would mix their lines.
    """
    lock = (out / ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(
            f"another run writes to {out} right now; wait for it, or choose another --out"
        ) from None
    return lock


def _run(config: Config, out: Path, caution: str) -> Any:
    # torch and transformers arrive here, after everything that can be checked without them
    from botgrpo.rewards.judges.provenance import judges_of
    from botgrpo.trainer import manifest
    from botgrpo.trainer.loop import Run
    from botgrpo.trainer.models import model_hash

    folder = warm_start(config) if config.policy.warm_start else assemble.model_folder(config)
    reward: Reward = assemble.reward(config)
    judges = judges_of(reward)
    if config.run.scoring == "ray":
        from botgrpo.benchmarks.spread import Spread

        reward = Spread(config)
    judge = assemble.judge(config)
    run = Run(
        config=config,
        policy=assemble.policy(folder, config),
        task=assemble.task(config.task),
        reward=reward,
        judge=judge,
        out=out,
    )
    manifest.write(
        out / "manifest.json",
        seed=config.run.seed,
        model={
            "name": config.policy.model,
            "sha256": model_hash(folder),
            "parameters": sum(p.numel() for p in run.policy.model.parameters()),
        },
        data=_data_hashes(run.task, config),
        algorithm=dataclasses.asdict(run.algorithm),
        reward={"version": reward.spec.version, "judges": judges},
        sandbox=assemble.describe_sandbox(config),
        caution=caution,
    )
    return run


def _data_hashes(task: Task, config: Config) -> dict[str, str]:
    """Hashes of the prompts and references that the run learns on and is tested on."""

    def digest(items: Iterable[Item]) -> str:
        lines = (json.dumps([i.id, i.prompt, i.reference], sort_keys=True) for i in items)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    return {
        "train_sha256": digest(task.train_items(config.run.seed)),
        "eval_sha256": digest(task.eval_items(config.run.eval_prompts)),
    }


def warm_start(config: Config, out: Path | None = None) -> Path:
    """The model after its supervised steps, from the cache where the same was made before."""
    from botgrpo.benchmarks import warm_start as warm

    path: Path = warm.warm_started(config, out, say=_say)
    return path


def make_start(config: Config, out: Path | None) -> Path:
    """What `botgrpo sft` makes: a warm start, or a shipped checkpoint of the micro policy anew."""
    if config.policy.warm_start is not None:
        return warm_start(config, out)
    makers = {"react_micro": _react_micro, "aime_micro": _aime_micro}
    if config.policy.model not in makers:
        raise ConfigError(
            f"configuration {config.name!r} has no [policy.warm_start]; add one, for example "
            "--set policy.warm_start.steps=100"
        )
    folder = out or Path("runs") / f"{config.policy.model}-seed{config.run.seed}"
    makers[config.policy.model](config, folder)
    return folder


def _react_micro(config: Config, folder: Path) -> None:
    from botgrpo.benchmarks.warm_start_react import react_micro

    react_micro(folder, seed=config.run.seed, say=_say, backend=config.sandbox)


def _aime_micro(config: Config, folder: Path) -> None:
    from botgrpo.benchmarks.warm_start_aime import aime_micro

    aime_micro(folder, seed=config.run.seed, say=_say)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def evaluate_run(folder: Path, prompts: int) -> dict[str, Any]:
    """Held-out rates of a run's newest checkpoint."""
    return _evaluated(*run_for_eval(folder, prompts))


def evaluate_config(config: Config, prompts: int) -> dict[str, Any]:
    """Held-out rates of a configuration's first weights."""
    return _evaluated(*run_for_eval(config, prompts))


def run_for_eval(target: Config | Path, prompts: int) -> tuple[Any, int]:
    """(a run ready to sample held-out prompts, the step that its weights are of).

    A configuration has its first weights, a run's folder those of its newest checkpoint.
    """
    from botgrpo.trainer import checkpoint

    if not isinstance(target, Path):
        return _fresh_run(target, prompts), 0
    config = configs.parse(configs.read_toml(target / "config.toml"), str(target / "config.toml"))
    found = checkpoint.latest(target / "checkpoints")
    if found is None:
        raise ConfigError(f"{target} has no checkpoint yet; run `botgrpo train` into it first")
    run = _fresh_run(config, prompts)
    state = checkpoint.restore(found, run.policy.model, run.optimizer)
    run.engine.sync()
    return run, int(state["step"])


def _fresh_run(config: Config, prompts: int) -> Any:
    from botgrpo.trainer.loop import Run

    data = configs.override(config.model_dump(), [f"run.eval_prompts={prompts}"])
    config = configs.parse(data, config.name)
    folder = warm_start(config) if config.policy.warm_start else assemble.model_folder(config)
    judge = assemble.judge(config)
    return Run(
        config=config,
        policy=assemble.policy(folder, config),
        task=assemble.task(config.task),
        reward=judge,
        judge=judge,
        out=Path(),
    )


def _evaluated(run: Any, step: int) -> dict[str, Any]:
    from botgrpo.trainer.scoring import Scorer

    with Scorer() as scorer:
        record: dict[str, Any] = run.evaluate(step, scorer)
        scorer.close(run.judge)
    return record


def _require_same(written: Path, config: Config) -> None:
    """A run is resumed under the configuration that it began with, but may be made longer."""
    # through the model: what was written before an option existed has its default
    before = configs.parse(configs.read_toml(written), str(written)).model_dump()
    now = config.model_dump()
    for data in (before, now):
        data["run"].pop("steps")
        data["run"].pop("scoring")  # a score is the same wherever it is made
        data.pop("trackers")
    if before != now:
        changed = sorted(k for k in {*before, *now} if before.get(k) != now.get(k))
        raise ConfigError(
            f"{written.parent} was begun with another configuration (it differs in "
            f"{', '.join(changed)}); resume it with the same one, or choose another --out"
        )


def _show(bar: Progress, kind: str, numbers: dict[str, Any], rates: tuple[str, ...]) -> None:
    step = int(numbers["step"])
    if kind == "step":
        seconds = sum(numbers[f"time/{part}_s"] for part in ("generate", "score", "update"))
        reward = f"reward {numbers['reward']:.3f}" if "reward" in numbers else "nothing was scored"
        lost = f", {numbers['bot/unscored']:.0f} unscored" if numbers["bot/unscored"] else ""
        bar.update(step, f"{reward}{lost}, {seconds:.1f} s a step")
        return
    shown = ", ".join(f"{name} {numbers[name]:.2f}" for name in rates if name in numbers)
    bar.say(f"step {step}: {shown}, {numbers['mean_length']:.0f} tokens")
