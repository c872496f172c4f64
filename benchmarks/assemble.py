"""From a configuration to a run: the task, the policy, the reward and the judge by their names."""

from __future__ import annotations

import difflib
import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo.benchmarks import shipped
from botgrpo.rewards.base import Reward
from botgrpo.rewards.mix import Composite, Design
from botgrpo.rewards.reference import parse
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import Config
from botgrpo.trainer.task import Task

if TYPE_CHECKING:
    from botgrpo.trainer.policy import Policy

TASKS = {
    "react": "botgrpo.benchmarks.tasks.react:ReactTask",
    "react_apps": "botgrpo.benchmarks.tasks.react_apps:ReactAppsTask",
    "aime": "botgrpo.benchmarks.tasks.aime:AimeTask",
    "aime_micro": "botgrpo.benchmarks.tasks.aime_micro:AimeMicroTask",
    "prompts": "botgrpo.benchmarks.tasks.prompts:PromptsTask",
}


def task(reference: str) -> Task:
    """The task of a reference, `NAME` or `NAME(arguments)`: react, aime_micro(difficulty=2).

    Raises ConfigError for an unknown name or wrong arguments, naming what exists.
    """
    parsed = parse(reference)
    if parsed.name not in TASKS:
        near = difflib.get_close_matches(parsed.name, TASKS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"no task {parsed.name!r}.{hint} Known: {', '.join(TASKS)}")
    module, _, name = TASKS[parsed.name].partition(":")
    factory = getattr(importlib.import_module(module), name)
    try:
        inspect.signature(factory).bind(*parsed.args, **parsed.options)
    except TypeError as error:
        takes = inspect.signature(factory)
        raise ConfigError(f"task {reference}: {error}; it takes {takes}") from error
    made: Task = factory(*parsed.args, **parsed.options)
    return made


def reward(config: Config) -> Composite:
    """The reward design of a run, on the run's sandbox."""
    importlib.import_module("botgrpo.benchmarks.synthetic_judges")  # registers its two by name
    parts = config.reward
    design = Design(
        outcomes=parts.outcomes,
        locals=parts.locals,
        w_g=parts.w_g,
        w_s=parts.w_s,
        decay_lines=parts.decay_lines,
        clip_local=parts.clip_local,
        renormalise=parts.renormalise,
    )
    return Composite(design, backend=config.sandbox)


def judge(config: Config) -> Reward:
    """The task's own judge, without noise, for the learning curve."""
    from botgrpo.benchmarks.tasks.prompts import OUTCOME, Judged

    made = task(config.task)
    built = build(made.judge, defaults={"backend": config.sandbox})
    return Judged(built) if OUTCOME in made.metrics else built


def needs_sandbox(config: Config) -> bool:
    """Whether what a model wrote is run to be judged: exact arithmetic on an answer is not."""
    return "sandbox" in {*reward(config).spec.needs, *judge(config).spec.needs}


def describe_sandbox(config: Config) -> dict[str, Any]:
    """Backend, runtime, isolation and versions, for the manifest; empty where none is needed."""
    if not needs_sandbox(config):
        return {}
    from botgrpo.sandbox.react import shared_compiler

    return shared_compiler(config.sandbox).describe()


def caution(config: Config) -> str:
    """What the design does not guarantee, in a sentence; "" where the method sees no local reward
    or the outcome decides every rollout."""
    from botgrpo.trainer import dominance
    from botgrpo.trainer.algorithms import algorithm

    if algorithm(config.algorithm).port.startswith("outcome"):
        return ""
    spec = reward(config).spec
    local_range = spec.local_range
    if config.prime:
        from botgrpo.trainer.prime import LOCAL_RANGE

        local_range = config.reward.clip_local or LOCAL_RANGE
    option = str(config.algorithm_options.get("uniform_group", "keep"))
    return dominance.warning(
        dominance.of_design(
            config.reward,
            local_range,
            spec.outcome_range,
            config.sampling.group_size,
            uniform_group=option,
        )
    )


def model_folder(config: Config) -> Path:
    """Where the run's first weights lie; raises ConfigError with the next step."""
    from botgrpo.trainer.models import locate

    return shipped.checkpoint(config.policy.model, config.run.seed) or locate(config.policy.model)


def policy(folder: Path, config: Config) -> Policy:
    """The model in `folder`, ready to learn."""
    from botgrpo.trainer.policy import load_policy

    return load_policy(folder, config.policy, seed=config.run.seed)


def check(config: Config, *, where: str, weights: bool = True) -> None:
    """Everything that can be known to be wrong before a model is loaded; `weights`: its place."""
    from botgrpo.trainer.algorithms import algorithm
    from botgrpo.trainer.engines import choice

    try:
        task(config.task)
        algorithm(config.algorithm, config.algorithm_options)
        reward(config)
        judge(config)
        rollouts = config.sampling.prompts * config.sampling.group_size
        if config.optim.minibatches > rollouts:
            raise ConfigError(
                f"optim.minibatches is {config.optim.minibatches}; a step has {rollouts} rollouts, "
                "and each minibatch needs one"
            )
        choice.require(config)
        if config.policy.lora:
            from botgrpo.trainer import lora

            lora.require()
        if config.prime:
            from botgrpo.trainer import prime

            prime.require(config, reward(config).spec.outcome_range)
        if config.critic:
            from botgrpo.trainer import value_head

            value_head.require(config)
        if config.trackers:
            from botgrpo.trainer import trackers

            trackers.require(config.trackers)
        if weights:
            model_folder(config)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def eval_metrics(config: Config) -> list[str]:
    """What the task's judge measures on held-out prompts."""
    return sorted(task(config.task).metrics)
