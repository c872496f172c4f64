"""Decoding in this process for Llama-type models: fused weights, a cache that is allocated once, a
prompt that is computed once for its K rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.engines.decode import InProcess
from botgrpo.trainer.engines.llama import MASKED, LlamaDecoder, supports

Cache = list[tuple[Tensor, Tensor]]


class NativeEngine(InProcess):
    """Generation with the policy's own weights.

    Args:
        model: a Llama-type transformers model; read at construction and at each `sync`.
        end_ids: ids that end a completion.
        pad_id: any valid id, for the left of shorter prompts.
        dtype: of the decoding weights and cache; the logits are read in float32.
    """

    name = "native"

    def __init__(
        self, model: Any, *, end_ids: Sequence[int], pad_id: int, dtype: torch.dtype
    ) -> None:
        if not supports(model):
            raise ConfigError(
                f"the native engine decodes Llama-type models; got {model.config.model_type!r}"
            )
        super().__init__(end_ids, pad_id)
        self.model = model
        self.decoder = LlamaDecoder(model, dtype)

    def sync(self) -> None:
        self.decoder.load(self.model)

    def _prefill(
        self, prompt_ids: Sequence[Sequence[int]], k: int, new_tokens: int
    ) -> tuple[Tensor, _Decoding]:
        device = self.decoder.embedding.device
        limit = self.decoder.cos.shape[0]
        ids_P_S, pad_P = self._padded(prompt_ids, new_tokens, limit, device)
        width = ids_P_S.shape[1]
        columns = torch.arange(width, device=device)
        positions_P_S = (columns[None] - pad_P[:, None]).clamp(min=0)
        hidden = (columns[None, None] > columns[None, :, None]) | (
            columns[None, None] < pad_P[:, None, None]
        )
        mask = torch.where(hidden, MASKED, 0.0)[:, None].to(self.decoder.dtype)
        small = self.decoder.new_cache(len(prompt_ids), width)
        logits_P = self.decoder.forward(ids_P_S, positions_P_S, small, 0, mask)
        cache = self.decoder.new_cache(len(prompt_ids) * k, width + new_tokens)
        for (keys, values), (keys_p, values_p) in zip(cache, small, strict=True):
            keys[..., :width] = keys_p.repeat_interleave(k, 0)
            values[:, :, :width] = values_p.repeat_interleave(k, 0)
        pad_B = pad_P.repeat_interleave(k)
        all_columns = torch.arange(width + new_tokens, device=device)
        mask = torch.where(all_columns[None] < pad_B[:, None], MASKED, 0.0)[:, None, None]
        state = _Decoding(self.decoder, cache, pad_B, mask.to(self.decoder.dtype), width)
        return logits_P.repeat_interleave(k, 0), state


@dataclass(slots=True)
class _Decoding:
    """Cache, left padding and additive mask of the active rows; `column` is the next one's."""

    decoder: LlamaDecoder
    cache: Cache
    pad_A: Tensor
    mask: Tensor
    column: int

    def forward(self, ids_A: Tensor) -> Tensor:
        positions = (self.column - self.pad_A)[:, None]
        mask = self.mask[..., : self.column + 1]
        logits = self.decoder.forward(ids_A[:, None], positions, self.cache, self.column, mask)
        self.column += 1
        return logits

    def keep(self, rows: Tensor) -> None:
        self.pad_A, self.mask = self.pad_A[rows], self.mask[rows]
        for i, (keys, values) in enumerate(self.cache):  # one layer at a time is there twice
            self.cache[i] = _rows(keys, values, rows, self.column)


def _rows(keys: Tensor, values: Tensor, keep: Tensor, used: int) -> tuple[Tensor, Tensor]:
    """The cache of the rows that go on; only the columns in use are worth copying."""
    new_keys = keys.new_empty((len(keep), *keys.shape[1:]))
    new_values = values.new_empty((len(keep), *values.shape[1:]))
    new_keys[..., :used] = keys[keep, :, :, :used]
    new_values[:, :, :used] = values[keep, :, :used]
    return new_keys, new_values
