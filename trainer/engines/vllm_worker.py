"""What vLLM's worker must do beside `reload_weights`; it runs inside vLLM, and imports nothing.

A server gets it by `--worker-extension-cls botgrpo.trainer.engines.vllm_worker.NewWeights`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

EXTENSION = "botgrpo.trainer.engines.vllm_worker.NewWeights"


class NewWeights:
    """Becomes a base class of vLLM's worker, and one of its methods a remote call."""

    def take_weights(
        self, weights: Iterable[tuple[str, Any]] | None = None, weights_path: str | None = None
    ) -> None:
        """New weights into the running model, from memory or from a folder.

        The CPU build keeps a packed copy of each matrix. `reload_weights` packs all of them anew
        but an output layer that is tied to the embedding: vLLM 0.32 goes on with its first copy.
        """
        worker: Any = self
        worker.reload_weights(weights_iterator=weights, weights_path=weights_path)
        head = getattr(worker.get_model(), "lm_head", None)
        if head is not None:
            head.quant_method.process_weights_after_loading(head)
