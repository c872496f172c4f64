"""Batched decoding in this process: prompt computed once for its K rollouts, rows that have ended
are dropped from the batch, and every draw depends on (seed, rollout) alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.engines.base import Sample, Sampling, uniforms
from botgrpo.trainer.engines.llama import MASKED, LlamaDecoder, supports

# copying the cache costs about two steps: compact when it saves at least a tenth of the rows
COMPACT_BELOW = 0.9
COMPACT_EVERY = 8
CDF_BLOCK = 256  # two-level search in the cumulative distribution: no full-vocabulary cumsum


class NativeEngine:
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
        self.model = model
        self.end_ids = torch.tensor(sorted(set(end_ids)))
        self.pad_id = pad_id
        self.decoder = LlamaDecoder(model, dtype)

    def sync(self) -> None:
        self.decoder.load(self.model)

    @torch.no_grad()
    def generate(
        self, prompt_ids: Sequence[Sequence[int]], k: int, keys: Sequence[int], sampling: Sampling
    ) -> list[Sample]:
        n_rows = len(prompt_ids) * k
        if len(keys) != n_rows:
            raise ValueError(f"{len(keys)} keys for {n_rows} rollouts")
        device = self.decoder.embedding.device
        draws_B_T = torch.from_numpy(uniforms(keys, sampling.max_new_tokens, sampling.seed))
        draws_B_T = draws_B_T.to(device)
        logits, cache, pad_B, width = self._prefill(prompt_ids, k, sampling.max_new_tokens)
        ids_B_T = torch.full((n_rows, sampling.max_new_tokens), -1, device=device)
        logps_B_T = torch.zeros((n_rows, sampling.max_new_tokens), device=device)
        end_ids = self.end_ids.to(device)
        row_A = torch.arange(n_rows, device=device)  # A: rows still active, by their place in B
        columns = torch.arange(width + sampling.max_new_tokens, device=device)
        mask = torch.where(columns[None] < pad_B[:, None], MASKED, 0.0)[:, None, None]
        mask = mask.to(self.decoder.dtype)
        ended_A = torch.zeros(n_rows, dtype=torch.bool, device=device)
        for t in range(sampling.max_new_tokens):
            chosen_A, logp_A = sample(logits, draws_B_T[row_A, t], sampling.temperature)
            running_A = ~ended_A
            ids_B_T[row_A[running_A], t] = chosen_A[running_A]
            logps_B_T[row_A[running_A], t] = logp_A[running_A]
            ended_A = ended_A | torch.isin(chosen_A, end_ids)
            if t + 1 == sampling.max_new_tokens or bool(ended_A.all()):
                break
            if t % COMPACT_EVERY == 0:
                keep = (~ended_A).nonzero()[:, 0]
                if len(keep) < COMPACT_BELOW * len(row_A):
                    row_A, chosen_A, ended_A = row_A[keep], chosen_A[keep], ended_A[keep]
                    pad_B, mask = pad_B[keep], mask[keep]
                    used = width + t
                    cache = [_rows(keys, values, keep, used) for keys, values in cache]
            column = width + t
            logits = self.decoder.forward(
                chosen_A[:, None], (column - pad_B)[:, None], cache, column, mask[..., : column + 1]
            )
        return _samples(ids_B_T, logps_B_T, end_ids)

    def _prefill(
        self, prompt_ids: Sequence[Sequence[int]], k: int, new_tokens: int
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor, int]:
        """Logits, cache and left padding for P * k rows; each prompt is computed once."""
        width = max(len(ids) for ids in prompt_ids)
        device = self.decoder.embedding.device
        limit = self.decoder.cos.shape[0]
        if width + new_tokens > limit:
            raise ConfigError(
                f"prompt of {width} tokens and {new_tokens} new ones exceed the model's {limit} "
                "positions; lower sampling.max_new_tokens"
            )
        pad_P = torch.tensor([width - len(ids) for ids in prompt_ids], device=device)
        ids_P_S = torch.tensor(
            [[self.pad_id] * (width - len(ids)) + list(ids) for ids in prompt_ids], device=device
        )
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
        return logits_P.repeat_interleave(k, 0), cache, pad_P.repeat_interleave(k), width


def _rows(keys: Tensor, values: Tensor, keep: Tensor, used: int) -> tuple[Tensor, Tensor]:
    """The cache of the rows that go on; only the columns in use are worth copying."""
    new_keys = keys.new_empty((len(keep), *keys.shape[1:]))
    new_values = values.new_empty((len(keep), *values.shape[1:]))
    new_keys[..., :used] = keys[keep, :, :, :used]
    new_values[:, :, :used] = values[keep, :, :used]
    return new_keys, new_values


def sample(logits_B_V: Tensor, draw_B: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Inverse-CDF sampling: id and its log-probability at `temperature`, one draw a row.

    The search is in float64 over blocks and then within one block; a draw beyond the last sum
    (rounding) takes the last id that has any probability in that block.
    """
    logp_B_V = torch.log_softmax(logits_B_V.float() / temperature, -1)
    probs = logp_B_V.exp()
    rows, size = probs.shape
    padding = -size % CDF_BLOCK
    blocks = torch.nn.functional.pad(probs, (0, padding)).view(rows, -1, CDF_BLOCK)
    upto = blocks.sum(-1, dtype=torch.float64).cumsum(-1)
    target = draw_B.to(torch.float64) * upto[:, -1]
    block = torch.searchsorted(upto, target[:, None], right=True).clamp(max=upto.shape[1] - 1)
    before = torch.where(block > 0, upto.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = blocks[torch.arange(rows, device=probs.device), block[:, 0]]
    within = inside.cumsum(-1, dtype=torch.float64)
    offset = torch.searchsorted(within, target[:, None] - before, right=True)
    last = CDF_BLOCK - 1 - (inside.flip(-1) > 0).int().argmax(-1, keepdim=True)
    chosen = block * CDF_BLOCK + torch.minimum(offset, last)
    return chosen[:, 0], logp_B_V.gather(1, chosen)[:, 0]


def _samples(ids_B_T: Tensor, logps_B_T: Tensor, end_ids: Tensor) -> list[Sample]:
    ids, logps = ids_B_T.cpu().numpy(), logps_B_T.float().cpu().numpy()
    ends = set(end_ids.tolist())
    samples = []
    for row, logp in zip(ids, logps, strict=True):
        length = int(np.argmax(row < 0)) if (row < 0).any() else len(row)
        tokens = tuple(int(x) for x in row[:length])
        stopped = bool(tokens) and tokens[-1] in ends
        samples.append(Sample(tokens, logp[:length].copy(), "stop" if stopped else "length"))
    return samples
