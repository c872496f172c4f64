"""A policy's weights as another program takes them: by a checkpoint's names, adapters merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from botgrpo.trainer.engines.llama import weight

ADAPTED = ".base_layer."  # PEFT's name for the layer that it wraps


def merged(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Name and value of every parameter, tied ones once, one at a time."""
    for name, parameter in model.named_parameters():
        if ADAPTED in name:
            layer, kind = name.split(ADAPTED)
            value = weight(model.get_submodule(layer)) if kind == "weight" else parameter
            yield f"{layer}.{kind}", value.detach()
        elif ".lora_" not in name:
            yield name, parameter.detach()
