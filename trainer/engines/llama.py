"""The Llama forward pass for decoding, on weights read from a transformers model.

Minus everything that generation does not need: query, key and value are one matrix, so are gate and
up; the cache is allocated once; the prompt is computed once for its K rollouts. Parity with the
transformers model is a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MASKED = -1e9  # added to a score: finite, so that a row that sees nothing yet is not NaN


@dataclass(slots=True)
class Layer:
    norm_attention: Tensor
    qkv: Tensor  # [(H + 2 Hkv) Dh, D]
    out: Tensor
    norm_mlp: Tensor
    gate_up: Tensor  # [2 I, D]
    down: Tensor


def supports(model: Any) -> bool:
    """True for plain Llama models: no attention or MLP bias, default rotary embedding."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type == "llama"
        and not getattr(config, "attention_bias", False)
        and not getattr(config, "mlp_bias", False)
        and rope.get("rope_type", "default") == "default"
    )


class LlamaDecoder:
    """Weights fused for decoding; `load` again after each update of the model.

    Letters: B rows, S positions of the prompt, C columns of the cache, H query heads, J key heads,
    E numbers a head.
    """

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        config = model.config
        self.dtype = dtype
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        rope = getattr(config, "rope_parameters", None) or {}
        theta = float(rope.get("rope_theta", getattr(config, "rope_theta", 10_000.0)))
        exponent = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        angle = torch.outer(
            torch.arange(config.max_position_embeddings, dtype=torch.float32), theta**-exponent
        )
        self.cos = torch.cat((angle.cos(), angle.cos()), -1).to(dtype)
        self.sin = torch.cat((angle.sin(), angle.sin()), -1).to(dtype)
        self.load(model)

    @torch.no_grad()
    def load(self, model: Any) -> None:
        def cast(x: Tensor) -> Tensor:
            # a copy even where the type is the same: what decodes must not be half updated
            return x.detach().to(self.dtype, copy=True)

        self.layers = [
            Layer(
                cast(layer.input_layernorm.weight),
                cast(
                    torch.cat(
                        [
                            weight(layer.self_attn.q_proj),
                            weight(layer.self_attn.k_proj),
                            weight(layer.self_attn.v_proj),
                        ]
                    )
                ),
                cast(weight(layer.self_attn.o_proj)),
                cast(layer.post_attention_layernorm.weight),
                cast(torch.cat([weight(layer.mlp.gate_proj), weight(layer.mlp.up_proj)])),
                cast(weight(layer.mlp.down_proj)),
            )
            for layer in model.model.layers
        ]
        self.embedding = cast(model.model.embed_tokens.weight)
        self.norm = cast(model.model.norm.weight)
        tied = model.lm_head.weight is model.model.embed_tokens.weight
        self.head = self.embedding if tied else cast(model.lm_head.weight)
        device = self.embedding.device
        self.cos, self.sin = self.cos.to(device), self.sin.to(device)

    def new_cache(self, rows: int, columns: int) -> list[tuple[Tensor, Tensor]]:
        """Keys [B, J, E, C] and values [B, J, C, E] of each layer: both products of one query
        then run along contiguous columns."""
        new, lead = self.embedding.new_empty, (rows, self.kv_heads)
        keys, values = (*lead, self.head_dim, columns), (*lead, columns, self.head_dim)
        return [(new(keys), new(values)) for _ in self.layers]

    def forward(
        self,
        ids_B_S: Tensor,
        positions_B_S: Tensor,
        cache: list[tuple[Tensor, Tensor]],
        column: int,
        scores_mask: Tensor,
    ) -> Tensor:
        """Logits after the last position, [B, V]; writes columns column..column+S of the cache.

        `scores_mask` is added to the scores, [B, 1, S or 1, column + S].
        """
        rows, width = ids_B_S.shape
        end = column + width
        cos, sin = self.cos[positions_B_S][:, None], self.sin[positions_B_S][:, None]
        x = self.embedding[ids_B_S]
        q_size, kv_size = self.heads * self.head_dim, self.kv_heads * self.head_dim
        share = self.heads // self.kv_heads
        scale = self.head_dim**-0.5
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            h = F.rms_norm(x, (x.shape[-1],), layer.norm_attention, self.eps)
            q, k, v = F.linear(h, layer.qkv).split((q_size, kv_size, kv_size), -1)  # type: ignore[no-untyped-call]
            q = _rotate(q.view(rows, width, self.heads, -1).transpose(1, 2), cos, sin)
            k = _rotate(k.view(rows, width, self.kv_heads, -1).transpose(1, 2), cos, sin)
            keys[:rows, :, :, column:end] = k.transpose(-1, -2)
            values[:rows, :, column:end] = v.view(rows, width, self.kv_heads, -1).transpose(1, 2)
            # queries that share a key head are stacked, so that keys are never copied
            q = q.reshape(rows, self.kv_heads, share * width, self.head_dim)
            scores = torch.matmul(q, keys[:rows, :, :, :end]) * scale
            scores = scores.view(rows, self.kv_heads, share, width, end)
            scores = scores + scores_mask[:, :, None]
            weights = torch.softmax(scores, -1).view(rows, self.kv_heads, share * width, end)
            h = torch.matmul(weights, values[:rows, :, :end])
            h = h.view(rows, self.heads, width, self.head_dim).transpose(1, 2)
            x = x + F.linear(h.reshape(rows, width, q_size), layer.out)
            h = F.rms_norm(x, (x.shape[-1],), layer.norm_mlp, self.eps)
            gate, up = F.linear(h, layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        x = F.rms_norm(x[:, -1], (x.shape[-1],), self.norm, self.eps)
        return F.linear(x, self.head)


def weight(linear: Any) -> Tensor:
    """A linear layer's weight, with what a low-rank adapter adds to it."""
    if not hasattr(linear, "get_delta_weight"):
        found: Tensor = linear.weight
        return found
    merged: Tensor = linear.get_base_layer().weight + linear.get_delta_weight("default")
    return merged


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin
