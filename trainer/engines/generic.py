"""Decoding in this process for any causal language model of transformers, with its own cache.

Slower than `native`, which knows Llama, and otherwise the same: the prompt is computed once for its
K rollouts, rows that have ended leave, and every draw depends on (seed, rollout) alone.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botgrpo.trainer.engines.base import Engine
from botgrpo.trainer.engines.decode import InProcess
from botgrpo.trainer.engines.llama import supports
from botgrpo.trainer.engines.native import NativeEngine


def engine_for(model: Any, *, end_ids: Sequence[int], pad_id: int, dtype: torch.dtype) -> Engine:
    """The fastest engine of this process that can decode the model."""
    kind = NativeEngine if supports(model) else GenericEngine
    return kind(model, end_ids=end_ids, pad_id=pad_id, dtype=dtype)


class GenericEngine(InProcess):
    """Generation with the policy's own weights, or a copy of them in another type.

    Args:
        model: a transformers causal LM whose logits are its output layer's.
        end_ids: ids that end a completion.
        pad_id: any valid id, for the left of shorter prompts.
        dtype: of the decoding weights; where the model's are of this type they are used in place.
    """

    name = "generic"

    def __init__(
        self, model: Any, *, end_ids: Sequence[int], pad_id: int, dtype: torch.dtype
    ) -> None:
        super().__init__(end_ids, pad_id)
        self.source = model
        in_place = model.get_input_embeddings().weight.dtype == dtype
        self.model = model if in_place else copy.deepcopy(model).to(dtype)

    @torch.no_grad()
    def sync(self) -> None:
        if self.model is not self.source:
            mine, new = self.model.parameters(), self.source.parameters()
            for parameter, value in zip(mine, new, strict=True):
                parameter.copy_(value)

    def _prefill(
        self, prompt_ids: Sequence[Sequence[int]], k: int, new_tokens: int
    ) -> tuple[Tensor, _Decoding]:
        from transformers import DynamicCache

        limit = getattr(self.model.config, "max_position_embeddings", None)
        device = self.model.get_input_embeddings().weight.device
        ids_P_S, pad_P = self._padded(prompt_ids, new_tokens, limit, device)
        seen_P_S = torch.arange(ids_P_S.shape[1], device=device)[None] >= pad_P[:, None]
        state = _Decoding(self.model, DynamicCache(config=self.model.config), pad_P, seen_P_S)
        logits_P = state.logits(ids_P_S)
        state.cache.batch_repeat_interleave(k)
        state.pad_A = pad_P.repeat_interleave(k)
        state.seen_A_C = seen_P_S.repeat_interleave(k, 0)
        return logits_P.repeat_interleave(k, 0), state


@dataclass(slots=True)
class _Decoding:
    """Cache and left padding of the active rows; `seen_A_C` is False for columns of padding."""

    model: Any
    cache: Any
    pad_A: Tensor
    seen_A_C: Tensor

    def forward(self, ids_A: Tensor) -> Tensor:
        one = self.seen_A_C.new_ones((len(ids_A), 1))
        self.seen_A_C = torch.cat((self.seen_A_C, one), 1)
        return self.logits(ids_A[:, None])

    def logits(self, ids_A_S: Tensor) -> Tensor:
        """Logits [A, V] after the last of S new ids, which end where `seen_A_C` does."""
        end = self.seen_A_C.shape[1]
        columns = torch.arange(end - ids_A_S.shape[1], end, device=ids_A_S.device)
        hidden_A_S_D = self.model.base_model(
            input_ids=ids_A_S,
            attention_mask=self.seen_A_C.long(),
            position_ids=(columns[None] - self.pad_A[:, None]).clamp(min=0),
            use_cache=True,
            **{_cache_name(self.model): self.cache},
        )[0]
        logits: Tensor = self.model.get_output_embeddings()(hidden_A_S_D[:, -1])
        return logits

    def keep(self, rows: Tensor) -> None:
        self.cache.batch_select_indices(rows)
        self.pad_A, self.seen_A_C = self.pad_A[rows], self.seen_A_C[rows]


def _cache_name(model: Any) -> str:
    """The argument that takes the cache, which transformers 5 renamed on its way."""
    names = inspect.signature(type(model.base_model).forward).parameters
    return "cache" if "cache" in names else "past_key_values"
