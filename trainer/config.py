"""A run's configuration: frozen, validated before anything heavy starts, written out whole.

TOML in, defaults are the vetted setting. `--set a.b=c` overrides one value; an unknown key or a
value out of range is a `ConfigError` that names the key, what was got and what is allowed.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from botgrpo.sandbox.errors import ConfigError

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"  # fit to be a folder's name
Dtype = Literal["float32", "bfloat16"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PolicyConfig(_Frozen):
    """Which model, and in which precision it decodes and learns."""

    model: str = Field(description="shipped checkpoint, cached model name, or folder")
    generate_dtype: Dtype = "float32"
    update_dtype: Dtype = Field("float32", description="autocast; weights stay float32")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where it is")
    gradient_checkpointing: bool = Field(
        False, description="layers are computed again in the backward pass: less memory, more time"
    )
    lora: LoraConfig | None = Field(None, description="train low-rank adapters only; needs peft")
    chat_options: dict[str, Any] = Field(
        {}, description="passed to the chat template, for example enable_thinking"
    )
    warm_start: WarmStartConfig | None = Field(
        None, description="supervised steps before the run, cached by content"
    )


class LoraConfig(_Frozen):
    """Low-rank adapters on linear layers; the other weights stay as they are, in update_dtype."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1, description="adapters count alpha / rank")
    targets: tuple[str, ...] = Field(
        (), description="names of layers; empty for every linear layer but the output"
    )


class WarmStartConfig(_Frozen):
    """Supervised training on the task's own corpus."""

    examples: int = Field(4096, ge=1)
    steps: int = Field(100, ge=1)
    batch_size: int = Field(16, ge=1)
    learning_rate: float = Field(1e-4, gt=0)
    corruption_rate: float = Field(0.1, ge=0, le=1)
    seed: int = Field(0, ge=0)


class SamplingConfig(_Frozen):
    """One step's rollouts: P prompts of K rollouts each."""

    prompts: int = Field(8, ge=1)
    group_size: int = Field(8, ge=2)
    max_new_tokens: int = Field(192, ge=1)
    temperature: float = Field(1.0, gt=0)


class RewardConfig(_Frozen):
    """A reward design as data: r_kt = w_g G_k + w_s S_kt."""

    outcomes: dict[str, float] = Field(min_length=1)
    locals: dict[str, float] = {}
    w_g: float = Field(1.0, ge=0)
    w_s: float = Field(1.0, ge=0)
    decay_lines: int = Field(3, ge=0, description="linear decay around a span's lines; 0 for none")
    clip_local: tuple[float, float] | None = Field(
        None, description="bounds of S on a token; without it, the ranges that the locals declare"
    )
    renormalise: bool = Field(False, description="divide a file's local values by their number")


class PrimeConfig(_Frozen):
    """An implicit reward model phi that learns beside the policy and gives the local rewards."""

    beta: float = Field(0.05, gt=0, description="a token's reward for a nat of log-ratio")
    learning_rate: float | None = Field(
        None, gt=0, description="of phi; unset: twice optim.learning_rate, as in PRIME"
    )
    model: str | None = Field(
        None, description="what phi begins as: cached model name or folder; unset: as the policy"
    )
    reference: str | None = Field(
        None, description="what phi is compared with, likewise; unset: what phi began as"
    )


class CriticConfig(_Frozen):
    """The value model of an algorithm that has one: vapo."""

    learning_rate: float | None = Field(
        None, gt=0, description="of the critic; unset: twice optim.learning_rate"
    )
    pretrain_steps: int = Field(
        4, ge=0, description="first steps, in which the critic learns and the policy does not"
    )


class OptimConfig(_Frozen):
    """AdamW, and how one batch of rollouts becomes steps of it."""

    learning_rate: float = Field(3e-4, gt=0)
    warmup_steps: int = Field(0, ge=0, description="steps over which the rate rises to its value")
    weight_decay: float = Field(0.0, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    grad_clip: float = Field(1.0, gt=0)
    microbatch_tokens: int = Field(8192, ge=1, description="tokens in one forward pass")
    epochs: int = Field(1, ge=1, description="passes over a batch of rollouts; TRL: num_iterations")
    minibatches: int = Field(1, ge=1, description="optimiser steps in a pass, over its shares")
    kl: float = Field(0.0, ge=0, description="weight of k3 to the start in the loss; TRL: beta")
    correction: Literal["token", "sequence", "icepop"] | None = Field(
        None, description="importance weights for a sampler that differs from the trainer"
    )


class EngineConfig(_Frozen):
    """What draws the completions."""

    kind: Literal["native", "vllm", "vllm-server"] = Field(
        "native", description="this process's own decoding, vLLM in this process, a vLLM server"
    )
    memory_gib: float = Field(1.0, gt=0, description="of the KV cache of vLLM in this process")
    url: str | None = Field(None, description="of the server, such as http://localhost:8000/v1")
    weights_dir: str | None = Field(
        None, description="folder for new weights, seen by the server too; unset: a temporary one"
    )


class RunConfig(_Frozen):
    """How long, how often to look, and with which seed."""

    steps: int = Field(30, ge=1)
    seed: int = Field(0, ge=0, lt=2**63)
    eval_every: int = Field(4, ge=1)
    eval_prompts: int = Field(96, ge=1)
    checkpoint_every: int = Field(10, ge=1)
    log_rollouts: int = Field(2, ge=0, description="groups written to rollouts.jsonl an evaluation")
    threads: int = Field(0, ge=0, description="torch threads; 0 leaves torch's choice")
    scoring: Literal["local", "ray"] = Field(
        "local", description="where rewards are computed: here, or on all nodes of a Ray cluster"
    )


class Config(_Frozen):
    """Everything that one run of training depends on."""

    name: str = Field(pattern=NAME, description="also the run's folder below runs/")
    task: str
    policy: PolicyConfig
    algorithm: str = "bot_grpo"
    algorithm_options: dict[str, Any] = Field(
        {}, description="keywords of the advantage, for example uniform_group"
    )
    reward: RewardConfig
    prime: PrimeConfig | None = Field(
        None, description="PRIME: local rewards from a reward model that learns along; off if unset"
    )
    critic: CriticConfig | None = Field(
        None, description="how the critic of vapo learns; unset: the defaults"
    )
    sandbox: Literal["auto", "docker", "bubblewrap", "unsafe"] = "auto"
    sampling: SamplingConfig = SamplingConfig()
    engine: EngineConfig = EngineConfig()
    optim: OptimConfig = OptimConfig()
    run: RunConfig = RunConfig()
    trackers: tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...] | None = Field(
        None, description="where numbers go besides metrics.jsonl; unset: TensorBoard if installed"
    )


def parse(data: Mapping[str, Any], source: str) -> Config:
    """Validate `data`; `source` is named in the error."""
    try:
        return Config.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error, Config)}") from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Each problem as `key: what is wrong (got ...)`, with the nearest known key."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = _fields_at(model, problem["loc"][:-1])
            near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            lines.append(f"unknown key {key!r}.{hint} Allowed here: {', '.join(known)}")
        else:
            got = problem.get("input")
            shown = "" if problem["type"] == "missing" else f" (got {got!r})"
            lines.append(f"{key}: {problem['msg'].lower()}{shown}")
    return "; ".join(lines)


def _fields_at(model: type[BaseModel], path: Iterable[Any]) -> list[str]:
    for part in path:
        field = model.model_fields.get(str(part))
        options = getattr(field.annotation, "__args__", (field.annotation,)) if field else ()
        nested = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if not nested:
            return []
        model = nested[0]
    return sorted(model.model_fields)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary; raises ConfigError with the place of a mistake."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"no such file: {path}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; a TOML file is asked for") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def parse_text(text: str) -> dict[str, Any]:
    """TOML text that we wrote ourselves."""
    return tomllib.loads(text)


def override(data: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`data` with each `a.b=c` applied; c is a TOML value, or text where it is none.

    A key of one section alone may be written without it: `steps=3` is `run.steps=3`.
    """
    result: dict[str, Any] = json.loads(json.dumps(data))
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {assignment!r}: write it as key.subkey=value")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        set_key(result, _full_key(key.strip()), value)
    return result


def _full_key(key: str) -> str:
    """`steps` -> `run.steps`, where just one section has that key and the top level has not."""
    if "." in key or key in Config.model_fields:
        return key
    sections = {
        name: field.annotation
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
    homes = [name for name, section in sections.items() if key in section.model_fields]
    return f"{homes[0]}.{key}" if len(homes) == 1 else key


def set_key(data: dict[str, Any], dotted: str, value: Any) -> None:
    """Set one value in nested dictionaries, making the levels that are missing."""
    *path, last = dotted.split(".")
    for part in path:
        nested = data.setdefault(part, {})
        if not isinstance(nested, dict):
            raise ConfigError(f"{dotted!r}: {part!r} is a value, not a table")
        data = nested
    data[last] = value


def to_toml(data: Mapping[str, Any]) -> str:
    """TOML of nested dictionaries; None is left out, since TOML has no word for it."""
    return tomli_w.dumps(_without_none(data))


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in data.items()
        if value is not None
    }


PolicyConfig.model_rebuild()
