"""A Llama-type GGUF file -> a Hugging Face folder in bf16, without a detour over llama.cpp.

`transformers` can read GGUF too, but refuses to save what it read and takes half a minute; the
format is plain enough to read it directly. Three things differ between the two forms:

- names: `blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`;
- rotary layout: llama.cpp stores each head's rows of q and k interleaved (0, h/2, 1, h/2+1, ...),
  Hugging Face stores the two halves one after the other;
- pre-tokenizer: GGUF only names it. `smollm` means that every digit is a token of its own and the
  rest is GPT-2's byte-level split. Without the digit rule, spaces before a number group otherwise.

The same file gives the same bytes every time: no library version is written into the folder.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from botgrpo.sandbox.errors import ConfigError

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",  # absent where input and output embeddings are tied
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3  # GGUF's token type of special tokens


def convert(gguf: Path, folder: Path) -> None:
    """Writes config, weights and tokenizer of `gguf` into the new folder `folder`.

    ConfigError where the file is not a Llama-type model with a `smollm` byte-level tokenizer:
    guessing another pre-tokenizer would give silently different tokens.
    """
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    kind = (fields["general.architecture"], fields.get("tokenizer.ggml.pre"))
    if kind != ("llama", "smollm"):
        raise ConfigError(f"{gguf.name} holds {kind}; only ('llama', 'smollm') can be converted.")
    folder.mkdir(parents=True)
    config = _config(fields, tied=all(t.name != "output.weight" for t in reader.tensors))
    special = _special_ids(fields)
    _write_json(folder / "config.json", config | special)
    _write_json(folder / "generation_config.json", special)
    _save_weights(reader.tensors, config, folder)
    _save_tokenizer(fields, folder)


def library_versions() -> dict[str, str]:
    """Versions of the libraries that had a hand in the folder, for its manifest."""
    return {name: version(name) for name in ("gguf", "torch", "tokenizers", "safetensors")}


def _config(fields: dict[str, Any], tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": fields["llama.vocab_size"],
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "hidden_act": "silu",
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_type": "default", "rope_theta": fields["llama.rope.freq_base"]},
        "tie_word_embeddings": tied,
    }


def _special_ids(fields: dict[str, Any]) -> dict[str, int]:
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{ours}_token_id": fields[f"tokenizer.ggml.{g}_token_id"] for ours, g in names.items()}


def _save_weights(tensors: Any, config: dict[str, Any], folder: Path) -> None:
    from gguf import dequantize
    from safetensors.torch import save_file

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for tensor in tensors:
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if part in heads:
            values = _halves(values, heads[part])
        weights[_hf_name(tensor.name)] = torch.from_numpy(values).to(torch.bfloat16)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _hf_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    prefix, block, part, leaf = name.split(".")
    if prefix != "blk" or part not in _BLOCK:
        raise ConfigError(f"tensor {name!r} has no place in a Llama-type model.")
    return f"model.layers.{block}.{_BLOCK[part]}.{leaf}"


def _halves(weight_O_I: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from interleaved to two halves. O output rows, I inputs."""
    rows, inputs = weight_O_I.shape
    pairs = weight_O_I.reshape(heads, rows // heads // 2, 2, inputs)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, inputs))


def _save_tokenizer(fields: dict[str, Any], folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    fast = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    fast.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    fast.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    fast.save(str(folder / "tokenizer.json"))
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    special = {
        f"{ours}_token": tokens[fields[f"tokenizer.ggml.{g}_token_id"]] for ours, g in names.items()
    }
    _write_json(
        folder / "tokenizer_config.json",
        special
        | {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": fields["llama.context_length"],
            "clean_up_tokenization_spaces": False,
        },
    )
    (folder / "chat_template.jinja").write_text(fields["tokenizer.chat_template"], "utf-8")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", "utf-8")
