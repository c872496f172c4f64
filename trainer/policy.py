"""The model that learns, its tokenizer, and the bytes behind each of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from botgrpo.rewards.base import Prompt
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import shared_prompt
from botgrpo.trainer.config import PolicyConfig

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(slots=True)
class Policy:
    """A causal language model in float32 with what is needed to talk to it.

    Attributes:
        model: transformers model in training precision.
        tokenizer: its fast tokenizer, with a chat template.
        token_bytes: decodes sampled ids to text and code-point spans.
        end_ids: ids that end a completion.
        pad_id: a valid id to fill with; never seen by the loss.
        chat_options: further variables of the chat template.
    """

    model: Any
    tokenizer: Any
    token_bytes: TokenBytes
    end_ids: tuple[int, ...]
    pad_id: int
    chat_options: Mapping[str, Any] = field(default_factory=dict)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt in the model's chat form, up to where the completion begins."""
        messages = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        )
        encoded = self.tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            **self.chat_options,
        )
        return list(encoded["input_ids"])


def load_policy(folder: Path, config: PolicyConfig | None = None, *, seed: int = 0) -> Policy:
    """Read a transformers folder; raises ConfigError where it cannot be a policy.

    `config` says where it lives and which of its weights learn (default: all, on the CPU or the
    GPU that is there); `seed` is that of new adapters.
    """
    import transformers

    config = config or PolicyConfig(model=str(folder))
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} holds no config.json: not a transformers model folder")
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.chat_template is None:
        raise ConfigError(f"the tokenizer in {folder} has no chat template")
    # weights that learn are float32, since bf16 would lose small steps; frozen ones need not be
    dtype = DTYPES[config.update_dtype] if config.lora else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True
    ).to(device(config.device))
    shared_prompt.install(model)
    model.config.use_cache = False
    _require_plain_head(model)
    model.eval()  # no dropout: on-policy ratios are then exactly 1
    if config.lora:
        from botgrpo.trainer import lora

        lora.add(model, config.lora, seed=seed)
    if config.gradient_checkpointing:
        checkpoint_layers(model)
    end_ids = _end_ids(model, tokenizer)
    if not end_ids:
        raise ConfigError(f"the tokenizer in {folder} names no end-of-sequence token")
    pad_id = tokenizer.pad_token_id
    return Policy(
        model,
        tokenizer,
        TokenBytes.from_tokenizer(tokenizer),
        end_ids,
        end_ids[0] if pad_id is None else pad_id,
        config.chat_options,
    )


def device(name: str) -> torch.device:
    """The device that a configuration names; raises ConfigError where there is none."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "policy.device is cuda, but this torch finds no GPU; set policy.device=auto, or see "
            "the README for CUDA"
        )
    return torch.device(name)


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    configured = model.generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({i for i in (*ends, tokenizer.eos_token_id) if i is not None}))


@torch.no_grad()
def _require_plain_head(model: Any) -> None:
    """The update makes its logits with the output layer alone: a model must not scale them later.

    Some cap or multiply them (Gemma 2, Cohere, Granite); one short forward pass tells.
    """
    ids = torch.arange(4, device=model.device)[None]
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    ours, theirs = model.get_output_embeddings()(hidden), model(input_ids=ids).logits
    if not torch.allclose(ours.float(), theirs.float(), rtol=1e-2, atol=1e-2):
        raise ConfigError(
            f"{type(model).__name__} changes its logits after the output layer, which the update "
            "does not do; choose a model without such a cap or scale"
        )


def checkpoint_layers(model: Any) -> None:
    """Have each layer computed again in the backward pass instead of kept."""
    # renamed in transformers 5
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)()
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            # layers are recomputed only "in training": set on them and not on what is inside them,
            # so that dropout stays off
            module.training = True
