"""The model that learns, its tokenizer, and the bytes behind each of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from botgrpo.rewards.base import Prompt
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.sandbox.errors import ConfigError

SMALL_WIDTH = 256
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
    """

    model: Any
    tokenizer: Any
    token_bytes: TokenBytes
    end_ids: tuple[int, ...]
    pad_id: int

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt in the model's chat form, up to where the completion begins."""
        messages = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        )
        encoded = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True
        )
        return list(encoded["input_ids"])


def load_policy(folder: Path) -> Policy:
    """Read a transformers folder; raises ConfigError where it cannot be a policy."""
    import transformers

    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} holds no config.json: not a transformers model folder")
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.chat_template is None:
        raise ConfigError(f"the tokenizer in {folder} has no chat template")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    )
    if model.config.hidden_size <= SMALL_WIDTH and model.device.type == "cpu":
        # the fused kernel's backward pass is slower than plain products at this size on a CPU
        model.set_attn_implementation("eager")
    model.config.use_cache = False
    configured = model.generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    end_ids = {i for i in (*ends, tokenizer.eos_token_id) if i is not None}
    if not end_ids:
        raise ConfigError(f"the tokenizer in {folder} names no end-of-sequence token")
    pad_id = tokenizer.pad_token_id
    return Policy(
        model.eval(),  # no dropout: on-policy ratios are then exactly 1
        tokenizer,
        TokenBytes.from_tokenizer(tokenizer),
        tuple(sorted(end_ids)),
        min(end_ids) if pad_id is None else pad_id,
    )
