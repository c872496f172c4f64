"""Many rollouts in one forward pass without padding, each prompt computed once for all of its own.

All tokens lie in one row of the model's input: the distinct prompts, then the completions (but for
their last tokens, which predict nothing). Every layer but attention works token by token, so only
attention has to know: a prompt sees itself, a completion its prompt and itself. Gradients of a
prompt's keys and values are summed over its rollouts, as if each had computed it.

Letters: N tokens of the pass, P prompts of at most S tokens, R rollouts of at most T, H heads of E
numbers, J of keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "botgrpo_shared_prompt"
# Architectures whose tokens meet in attention alone and through transformers' interface of it, each
# compared with its own padded pass in a test; others are padded.
MODEL_TYPES = frozenset(("llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3"))
# Up to this width two plain products are faster than the fused kernel on a CPU, backward above all
SMALL_WIDTH = 256


class Ids(Protocol):
    """What a pass needs of a rollout."""

    @property
    def prompt_ids(self) -> Sequence[int]: ...
    @property
    def completion_ids(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the tokens of one pass lie.

    Attributes:
        ids_1_N, positions_1_N: what the model reads.
        predicts_M: for all M completion tokens, rollout by rollout, the place that predicts them.
        prompt_P_S, own_R_T: places of each prompt's and completion's tokens, a valid place beyond
            their ends.
        prompt_R: each rollout's prompt.
        earlier_S_S: True where a prompt's token may look.
        sees_R_T_C: True where a completion's token may look, of its prompt and its own tokens.
        back_N: for each place, its row in the prompts' and then the completions' padded results.
    """

    ids_1_N: Tensor
    positions_1_N: Tensor
    predicts_M: Tensor
    prompt_P_S: Tensor
    own_R_T: Tensor
    prompt_R: Tensor
    earlier_S_S: Tensor
    sees_R_T_C: Tensor
    back_N: Tensor


def install(model: Any) -> None:
    """Let `model` take packed passes, where its architecture is one that can; else nothing."""
    if model.config.model_type in MODEL_TYPES:
        model.set_attn_implementation(NAME)


def packs(model: Any, rows: Sequence[Ids]) -> bool:
    """True where `model` has been prepared, and none of `rows` is longer than it can look back."""
    config = model.config
    if config._attn_implementation != NAME:
        return False
    window = getattr(config, "sliding_window", None) or 0
    longest = max((len(r.prompt_ids) + len(r.completion_ids) for r in rows), default=0)
    return not window or longest <= window


def batches(rows: Sequence[Ids], budget_tokens: int) -> Iterator[list[int]]:
    """Indices of rows by prompt, at most `budget_tokens` together; a prompt counts once in each."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(tuple(row.prompt_ids), []).append(i)
    batch: list[int] = []
    used = 0
    for prompt, group in groups.items():
        shared = False  # the prompt lies in this batch already
        for i in group:
            cost = len(rows[i].completion_ids)
            if batch and used + cost + len(prompt) * (not shared) > budget_tokens:
                yield batch
                batch, used, shared = [], 0, False
            batch.append(i)
            used += cost + len(prompt) * (not shared)
            shared = True
    if batch:
        yield batch


def pack(rows: Sequence[Ids], device: torch.device) -> Packing:
    """Lay out one pass over `rows`, each with a prompt and a completion of a token or more."""
    prompts: dict[tuple[int, ...], int] = {}
    prompt_R = [prompts.setdefault(tuple(r.prompt_ids), len(prompts)) for r in rows]
    fed = [list(r.completion_ids[:-1]) for r in rows]
    sizes_P, sizes_R = list(map(len, prompts)), list(map(len, fed))
    starts_P, starts_R = _starts(sizes_P, 0), _starts(sizes_R, sum(sizes_P))
    positions: list[int] = [i for size in sizes_P for i in range(size)]
    predicts: list[int] = []
    for p, size, start in zip(prompt_R, sizes_R, starts_R, strict=True):
        positions += range(sizes_P[p], sizes_P[p] + size)
        predicts += [starts_P[p] + sizes_P[p] - 1, *range(start, start + size)]
    prompt_P_S, real_P_S = _places(starts_P, sizes_P)
    own_R_T, _ = _places(starts_R, sizes_R)
    width = own_R_T.shape[1]
    prompt_index_R = torch.tensor(prompt_R)
    sees = torch.cat(
        (
            real_P_S[prompt_index_R][:, None].expand(-1, width, -1),
            _earlier(width)[None].expand(len(rows), -1, -1),
        ),
        -1,
    )
    back = [p * prompt_P_S.shape[1] + i for p, size in enumerate(sizes_P) for i in range(size)]
    back += [prompt_P_S.numel() + r * width + i for r, n in enumerate(sizes_R) for i in range(n)]
    tokens = [token for ids in (*prompts, *fed) for token in ids]
    return Packing(
        ids_1_N=torch.tensor([tokens], device=device),
        positions_1_N=torch.tensor([positions], device=device),
        predicts_M=torch.tensor(predicts, device=device),
        prompt_P_S=prompt_P_S.to(device),
        own_R_T=own_R_T.to(device),
        prompt_R=prompt_index_R.to(device),
        earlier_S_S=_earlier(prompt_P_S.shape[1]).to(device),
        sees_R_T_C=sees.to(device),
        back_N=torch.tensor(back, device=device),
    )


def hidden_states(model: Any, packing: Packing) -> Tensor:
    """The last layer's state at each of the M places that predict a completion token, [M, D]."""
    states = model.base_model(
        input_ids=packing.ids_1_N,
        position_ids=packing.positions_1_N,
        # four dimensions: transformers takes it for a mask that is ready and makes none
        attention_mask=torch.empty(1, 1, 1, 1, device=packing.ids_1_N.device),
        use_cache=False,
        packing=packing,
    ).last_hidden_state
    found: Tensor = states[0].index_select(0, packing.predicts_M)
    return found


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packing: Packing | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: plain SDPA, or over a packing [1, H or J, N, E]."""
    if packing is None:
        plain: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        return plain
    # rotary embeddings leave float32 under autocast; the products are in the values' type
    q_N, k_N, v_N = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
    attend = _products if query.shape[1] * query.shape[-1] <= SMALL_WIDTH else _fused
    scale = options["scaling"]
    prompt_q, prompt_k, prompt_v = (_take(x, packing.prompt_P_S) for x in (q_N, k_N, v_N))
    earlier = packing.earlier_S_S[None, None]
    results = [_flat(attend(prompt_q, prompt_k, prompt_v, earlier, scale))]
    if packing.own_R_T.shape[1]:
        keys, values = (
            torch.cat((prompt.index_select(0, packing.prompt_R), _take(x, packing.own_R_T)), 2)
            for prompt, x in ((prompt_k, k_N), (prompt_v, v_N))
        )
        sees = packing.sees_R_T_C[:, None]
        results.append(_flat(attend(_take(q_N, packing.own_R_T), keys, values, sees, scale)))
    return torch.cat(results).index_select(0, packing.back_N)[None], None


def _products(q: Tensor, k: Tensor, v: Tensor, sees: Tensor, scale: float) -> Tensor:
    k, v = _shared(k, q), _shared(v, q)
    # added and not filled in, and before the products: the backward pass then has less to do
    bias = torch.zeros(sees.shape, dtype=q.dtype, device=q.device)
    bias = bias.masked_fill_(~sees, torch.finfo(q.dtype).min)
    scores = torch.matmul(q * scale, k.transpose(-1, -2)) + bias
    return torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(v.dtype), v)


def _fused(q: Tensor, k: Tensor, v: Tensor, sees: Tensor, scale: float) -> Tensor:
    k, v = _shared(k, q), _shared(v, q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=sees, scale=scale)


def _shared(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values [B, J, C, E] for each of the query's heads."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def _take(x_N: Tensor, places: Tensor) -> Tensor:
    """[N, H, E] at [B, T] as [B, H, T, E]."""
    taken = x_N.index_select(0, places.reshape(-1))
    return taken.view(*places.shape, *x_N.shape[1:]).transpose(1, 2)


def _flat(x: Tensor) -> Tensor:
    """[B, H, T, E] as [B T, H, E]."""
    return x.transpose(1, 2).flatten(0, 1)


def _earlier(size: int) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).tril()


def _starts(sizes: Sequence[int], first: int) -> list[int]:
    starts = []
    for size in sizes:
        starts.append(first)
        first += size
    return starts


def _places(starts: Sequence[int], sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Places of each run of tokens, padded with its first [B, T], and which are its own."""
    columns = torch.arange(max(sizes, default=0))
    real = columns[None] < torch.tensor(sizes)[:, None]
    return torch.where(real, torch.tensor(starts)[:, None] + columns[None], 0), real


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
