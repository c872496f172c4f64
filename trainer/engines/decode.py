"""The loop that draws token after token for a batch, whatever computes its logits.

Rows that have ended leave the batch; every draw depends on (seed, rollout) alone, so neither the
batch's size nor its order changes a rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from botgrpo.trainer.engines.base import Ended, Sample, Sampling, checked, require_room, uniforms

# copying the cache costs about two steps: compact when it saves at least a tenth of the rows
COMPACT_BELOW = 0.9
COMPACT_EVERY = 8
CDF_BLOCK = 256  # two-level search in the cumulative distribution: no full-vocabulary cumsum


class InProcess:
    """What the engines of this process share; each adds `_prefill`, `sync` and its model.

    Args:
        end_ids: ids that end a completion.
        pad_id: any valid id, for the left of shorter prompts.
    """

    def __init__(self, end_ids: Sequence[int], pad_id: int) -> None:
        self.end_ids = torch.tensor(sorted(set(end_ids)))
        self.pad_id = pad_id

    @torch.no_grad()
    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        k: int,
        keys: Sequence[int],
        sampling: Sampling,
        ended: Ended = lambda places, samples: None,
    ) -> list[Sample]:
        """See `base.Engine`."""
        if len(keys) != len(prompt_ids) * k:
            raise ValueError(f"{len(keys)} keys for {len(prompt_ids) * k} rollouts")
        logits, state = self._prefill(prompt_ids, k, sampling.max_new_tokens)
        return decode(logits, state, keys, sampling, self.end_ids, ended)

    def _prefill(
        self, prompt_ids: Sequence[Sequence[int]], k: int, new_tokens: int
    ) -> tuple[Tensor, State]:
        """Logits and state of P * k rows; each prompt is computed once."""
        raise NotImplementedError

    def _padded(
        self,
        prompt_ids: Sequence[Sequence[int]],
        new_tokens: int,
        limit: int | None,
        device: torch.device,
    ) -> tuple[Tensor, Tensor]:
        """Prompts padded on the left [P, S], and how much of each is padding [P].

        Raises ConfigError where prompt and completion go beyond `limit` positions.
        """
        width = require_room(prompt_ids, new_tokens, limit)
        pads = [width - len(ids) for ids in prompt_ids]
        rows = [[self.pad_id] * n + list(ids) for n, ids in zip(pads, prompt_ids, strict=True)]
        return torch.tensor(rows, device=device), torch.tensor(pads, device=device)


class State(Protocol):
    """A batch in the middle of decoding: A rows that are still active, with their cache."""

    def forward(self, ids_A: Tensor) -> Tensor:
        """Logits [A, V] after one more token in each row."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        ...


def decode(
    logits: Tensor,
    state: State,
    keys: Sequence[int],
    sampling: Sampling,
    end_ids: Tensor,
    ended: Ended,
) -> list[Sample]:
    """Completions of all rows, from the logits [B, V] after their prompts."""
    n_rows, device = len(keys), logits.device
    draws_B_T = torch.from_numpy(uniforms(keys, sampling.max_new_tokens, sampling.seed))
    draws_B_T = draws_B_T.to(device)
    ids_B_T = torch.full((n_rows, sampling.max_new_tokens), -1, device=device)
    logps_B_T = torch.zeros((n_rows, sampling.max_new_tokens), device=device)
    end_ids = end_ids.to(device)
    row_A = torch.arange(n_rows, device=device)  # A: rows still active, by their place in B
    ended_A = torch.zeros(n_rows, dtype=torch.bool, device=device)
    found: dict[int, Sample] = {}

    def leave(rows: Tensor) -> None:
        samples = _samples(ids_B_T[rows], logps_B_T[rows], end_ids)
        places = rows.tolist()
        found.update(zip(places, samples, strict=True))
        ended(places, samples)

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
                leave(row_A[ended_A])
                row_A, chosen_A, ended_A = row_A[keep], chosen_A[keep], ended_A[keep]
                state.keep(keep)
        logits = state.forward(chosen_A)
    leave(row_A)
    return [found[i] for i in range(n_rows)]


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
    chosen = chosen.clamp(max=size - 1)  # past it only where nothing was a number
    return chosen[:, 0], logp_B_V.gather(1, chosen)[:, 0]


def _samples(ids_B_T: Tensor, logps_B_T: Tensor, end_ids: Tensor) -> list[Sample]:
    ids, logps = ids_B_T.cpu().numpy(), checked(logps_B_T.float().cpu().numpy())
    ends = set(end_ids.tolist())
    samples = []
    for row, logp in zip(ids, logps, strict=True):
        length = int(np.argmax(row < 0)) if (row < 0).any() else len(row)
        tokens = tuple(int(x) for x in row[:length])
        stopped = bool(tokens) and tokens[-1] in ends
        samples.append(Sample(tokens, logp[:length].copy(), "stop" if stopped else "length"))
    return samples
