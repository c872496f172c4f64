"""The checkpoint that a run starts from, kept to measure how far the policy has moved."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Reference:
    """A frozen copy of the model as it is now; where only adapters learn, the model without them.

    Make it before a checkpoint is restored: a resumed run is held to the same start.
    """

    def __init__(self, model: Any) -> None:
        adapted = not all(parameter.requires_grad for parameter in model.parameters())
        self._adapted = model if adapted else None
        self._copy = None if adapted else copy.deepcopy(model).requires_grad_(False)

    @contextmanager
    def model(self) -> Iterator[Any]:
        """The model to compute with."""
        if self._adapted is None:
            yield self._copy
        else:
            from botgrpo.trainer import lora

            with lora.without(self._adapted) as start:
                yield start
