"""From a configuration to a run: the task, the policy, the reward and the judge by their names."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo.benchmarks import shipped
from botgrpo.rewards.base import Reward
from botgrpo.rewards.mix import Composite, Design
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import Config
from botgrpo.trainer.task import Task

if TYPE_CHECKING:
    from botgrpo.trainer.policy import Policy

TASKS = ("react",)


def task(name: str) -> Task:
    """The task called `name`; raises ConfigError naming what exists."""
    if name == "react":
        from botgrpo.benchmarks.tasks.react import ReactTask

        return ReactTask()
    near = difflib.get_close_matches(name, TASKS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"no task {name!r}.{hint} Known: {', '.join(TASKS)}")


def reward(config: Config) -> Composite:
    """The reward design of a run, on the run's sandbox."""
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
    return build(task(config.task).judge, defaults={"backend": config.sandbox})


def describe_sandbox(backend: str) -> dict[str, Any]:
    """Backend, runtime, isolation and versions, for the manifest."""
    from botgrpo.sandbox.react import shared_compiler

    return shared_compiler(backend).describe()


def caution(config: Config) -> str:
    """What the design does not guarantee, in a sentence; "" where the method sees no local reward
    or the outcome decides every rollout."""
    from botgrpo.trainer import dominance
    from botgrpo.trainer.algorithms import algorithm

    if algorithm(config.algorithm).port.startswith("outcome"):
        return ""
    spec = reward(config).spec
    option = str(config.algorithm_options.get("uniform_group", "keep"))
    return dominance.warning(
        dominance.of_design(
            config.reward,
            spec.local_range,
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


def check(config: Config, *, where: str) -> None:
    """Everything that can be known to be wrong before a model is loaded."""
    from botgrpo.trainer.algorithms import algorithm

    try:
        task(config.task)
        algorithm(config.algorithm, config.algorithm_options)
        reward(config)
        model_folder(config)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def eval_metrics(config: Config) -> list[str]:
    """What the task's judge measures on held-out prompts."""
    return sorted(task(config.task).metrics)
