"""One optimiser step: log-probabilities of the sampled tokens, loss, gradient, step.

Logits are made for completion tokens only, a micro-batch at a time. Rows whose every advantage is 0
have no gradient and are not computed; they still count in the loss's denominator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botgrpo.sandbox.errors import RunFailed
from botgrpo.trainer.algorithms import Algorithm
from botgrpo.trainer.losses import AGGREGATIONS, LOSSES


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout in the update: prompt, completion, and T advantages and sampler log-probs."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    advantages_T: np.ndarray
    sampler_logps_T: np.ndarray


def microbatches(rows: Sequence[Row], budget_tokens: int) -> Iterator[list[int]]:
    """Indices of rows of like length, at most `budget_tokens` padded tokens together."""
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
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [N] float32 of all completion tokens, row after row, and their row [N].

    Rows are padded on the right, so a causal model needs no mask: no token sees the padding.
    """
    device = next(model.parameters()).device
    sequences = [[*r.prompt_ids, *r.completion_ids] for r in rows]
    width = max(len(s) for s in sequences)
    ids_R_S = torch.tensor([s + [pad_id] * (width - len(s)) for s in sequences], device=device)
    row_N = torch.cat([torch.full((len(r.completion_ids),), i) for i, r in enumerate(rows)])
    # the logits at a position predict the next token
    at_N = torch.cat([torch.arange(len(r.completion_ids)) + len(r.prompt_ids) - 1 for r in rows])
    row_N, at_N = row_N.to(device), at_N.to(device)
    with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
        hidden = model.model(input_ids=ids_R_S[:, :-1], use_cache=False).last_hidden_state
        logits_N_V = model.lm_head(hidden[row_N, at_N])
    logps_N_V = torch.log_softmax(logits_N_V.float() / temperature, -1)
    return logps_N_V.gather(1, ids_R_S[row_N, at_N + 1][:, None])[:, 0], row_N


def update(
    model: Any,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    algorithm: Algorithm,
    *,
    pad_id: int,
    temperature: float,
    grad_clip: float,
    budget_tokens: int,
    max_tokens: int,
    autocast: torch.dtype | None = None,
) -> dict[str, float]:
    """One on-policy step over `rows` (the kept rollouts that have a token).

    Args:
        max_tokens: the generation cap, by which the aggregation "constant" divides.

    Returns:
        loss, grad_norm, and how far the trainer's log-probabilities are from the sampler's.

    Raises:
        RunFailed: the loss or the gradient is not finite; the weights are as before.
    """
    optimizer.zero_grad(set_to_none=True)
    lengths = torch.tensor([len(r.completion_ids) for r in rows], dtype=torch.int64)
    all_rows_N = torch.repeat_interleave(torch.arange(len(rows)), lengths)
    weights_N = AGGREGATIONS[algorithm.aggregation](all_rows_N, len(rows), max_tokens)
    weights_R = list(torch.split(weights_N, lengths.tolist())) if rows else []
    active = [i for i, r in enumerate(rows) if np.any(r.advantages_T)]
    total, gaps = 0.0, []
    for picked in microbatches([rows[i] for i in active], budget_tokens):
        indices = [active[i] for i in picked]
        batch = [rows[i] for i in indices]
        logps_N, row_N = token_logps(
            model, batch, pad_id=pad_id, temperature=temperature, autocast=autocast
        )
        advantages_N = _flat([r.advantages_T for r in batch], logps_N)
        loss_N = LOSSES[algorithm.loss](
            logps_N,
            logps_N.detach(),  # on-policy: one step a batch, so the ratio is 1
            advantages_N,
            row_N,
            clip_low=algorithm.clip_low,
            clip_high=algorithm.clip_high,
        )
        loss = (loss_N * torch.cat([weights_R[i] for i in indices]).to(loss_N)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
        gaps.append((logps_N.detach() - _flat([r.sampler_logps_T for r in batch], logps_N)).abs())
    norm = 0.0
    if active:
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip))
        if not math.isfinite(total) or not math.isfinite(norm):
            raise RunFailed(
                f"loss {total} and gradient norm {norm}: not finite; no step was taken. The last "
                "checkpoint is intact: lower optim.learning_rate and go on with --resume"
            )
        optimizer.step()
    gap_N = torch.cat(gaps) if gaps else torch.zeros(1)
    return {
        "loss": total,
        "grad_norm": norm,
        "sampling/sampling_logp_difference/mean": float(gap_N.mean()),
        "sampling/sampling_logp_difference/max": float(gap_N.max()),
    }


def _flat(pieces: Sequence[np.ndarray], like: Tensor) -> Tensor:
    return torch.from_numpy(np.concatenate(pieces)).to(like)
