"""Log-probabilities of sampled tokens, a micro-batch of rollouts at a time.

Logits are made for completion tokens only. Where a micro-batch has more than `CHUNK_ELEMENTS` of
them, they are made piece by piece and again in the backward pass, so that no tensor of tokens x
vocabulary is ever whole. A model that can (see `shared_prompt`) computes each prompt once for all
of its rollouts and no padding; others are padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from botgrpo.trainer import shared_prompt

CHUNK_ELEMENTS = 1 << 24  # logits at once: 64 MiB in float32


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout in the update: prompt, completion, and T advantages and sampler log-probs."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantages_T: np.ndarray
    sampler_logps_T: np.ndarray


def microbatches(model: Any, rows: Sequence[Row], budget_tokens: int) -> Iterator[list[int]]:
    """Indices of the rows of each forward pass, at most `budget_tokens` tokens of input a pass.

    A model that packs gets rows of one prompt together, which counts once; others get rows of like
    length, and padding counts.
    """
    if shared_prompt.packs(model, rows):
        yield from shared_prompt.batches(rows, budget_tokens)
        return
    lengths = [len(r.prompt_ids) + len(r.completion_ids) for r in rows]
    batch: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: (lengths[i], i)):
        # sorted by length, so the newest row is the width of the padded batch
        if batch and (len(batch) + 1) * lengths[i] > budget_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def token_logps(
    model: Any,
    rows: Sequence[Row],
    *,
    pad_id: int,
    temperature: float,
    autocast: torch.dtype | None,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [N] float32 of all completion tokens, row after row, and their row [N]."""
    head = model.get_output_embeddings()
    device = head.weight.device
    row_N = torch.repeat_interleave(torch.tensor([len(r.completion_ids) for r in rows])).to(device)
    targets = [token for r in rows for token in r.completion_ids]
    target_N = torch.tensor(targets, dtype=torch.long, device=device)

    def picked(hidden_N_D: Tensor, target_N: Tensor) -> Tensor:
        with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
            logits_N_V = head(hidden_N_D)
        logps_N_V = torch.log_softmax(logits_N_V.float() / temperature, -1)
        return logps_N_V.gather(1, target_N[:, None])[:, 0]

    with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
        hidden_N_D = hidden_states(model, rows, pad_id=pad_id)
    size = max(1, chunk_elements // head.weight.shape[0])
    if len(row_N) <= size:
        return picked(hidden_N_D, target_N), row_N
    pieces = zip(torch.split(hidden_N_D, size), torch.split(target_N, size), strict=True)
    logps = [checkpoint(picked, h, t, use_reentrant=False) for h, t in pieces]
    return torch.cat(logps), row_N


def hidden_states(model: Any, rows: Sequence[Row], *, pad_id: int) -> Tensor:
    """The last layer's state before each completion token, row after row, [N, D]."""
    device = model.device
    if shared_prompt.packs(model, rows):
        return shared_prompt.hidden_states(model, shared_prompt.pack(rows, device))
    # Rows are padded on the right, so a causal model needs no mask: no token sees the padding.
    sequences = [[*r.prompt_ids, *r.completion_ids] for r in rows]
    width = max(len(s) for s in sequences)
    ids_R_S = torch.tensor([s + [pad_id] * (width - len(s)) for s in sequences], device=device)
    # the state at a position predicts the next token
    row_N = torch.repeat_interleave(torch.tensor([len(r.completion_ids) for r in rows]))
    at_N = torch.cat([torch.arange(len(r.completion_ids)) + len(r.prompt_ids) - 1 for r in rows])
    states = model.base_model(input_ids=ids_R_S[:, :-1], use_cache=False).last_hidden_state
    found: Tensor = states[row_N.to(device), at_N.to(device)]
    return found


@torch.no_grad()
def frozen_logps(
    model: Any,
    rows: Sequence[Row],
    *,
    pad_id: int,
    temperature: float,
    autocast: torch.dtype | None,
    budget_tokens: int,
) -> list[Tensor]:
    """Each row's log-probabilities [T] as `model` gives them now, without a gradient."""
    found: dict[int, Tensor] = {}
    for picked in microbatches(model, rows, budget_tokens):
        batch = [rows[i] for i in picked]
        logps_N, _ = token_logps(
            model, batch, pad_id=pad_id, temperature=temperature, autocast=autocast
        )
        lengths = [len(r.completion_ids) for r in batch]
        found.update(zip(picked, torch.split(logps_N, lengths), strict=True))
    return [found[i] for i in range(len(rows))]
