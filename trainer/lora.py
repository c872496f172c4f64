"""Low-rank adapters through PEFT: the only file that imports it.

Adapters are put into the model in place, so that it keeps its class and its layers' names; all
other weights are frozen.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import LoraConfig


def require() -> None:
    """Raise ConfigError where PEFT is not installed."""
    if importlib.util.find_spec("peft") is None:
        raise ConfigError(
            "policy.lora needs PEFT, which is not installed; next: pip install 'botgrpo[lora]'"
        )


def add(model: Any, config: LoraConfig, *, seed: int) -> None:
    """Put adapters into `model`: zero at the start, so that it begins as it was.

    Raises ConfigError without PEFT, and for layers that the model does not have.
    """
    require()
    import peft

    wanted = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=list(config.targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            peft.inject_adapter_in_model(wanted, model)
        except ValueError as error:
            raise ConfigError(f"policy.lora.targets: {error}") from None
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # steps would be lost in bf16


@contextmanager
def without(model: Any) -> Iterator[Any]:
    """The model as it was before `add`."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield model
    finally:
        for layer in layers:
            layer.enable_adapters(True)
