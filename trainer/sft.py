"""Warm start: supervised fine-tuning on prompts and completions, for any causal LM with a chat
template.

The loss is the mean cross-entropy of the completion's tokens and of the end token; prompt tokens
give none. Logits are made for completion positions of one micro-batch only, never tokens x
vocabulary of the batch.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from botgrpo.sandbox.errors import ConfigError

Progress = Callable[[Mapping[str, float]], None]
BUCKET = 32  # batches that are sorted by length together
WIDTH_STEP = 8


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of one pair: `prompt` tokens that are given, then those to be learned."""

    ids: tuple[int, ...]
    prompt: int


def encode(tokenizer: Any, prompt: str, completion: str) -> Encoded:
    """Ids of the prompt as the chat template writes it, of the completion and of the end token."""
    messages = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    given = tokenizer.encode(text, add_special_tokens=False)
    learned = tokenizer.encode(completion, add_special_tokens=False)
    return Encoded((*given, *learned, tokenizer.eos_token_id), len(given))


def sft(
    model: Any,
    tokenizer: Any,
    pairs: Sequence[tuple[str, str]],
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
    warmup_steps: int = 20,
    weight_decay: float = 0.01,
    max_grad_norm: float = 1.0,
    micro_batch: int | None = None,
    autocast: bool = True,
    progress: Progress | None = None,
) -> list[float]:
    """Train `model` in place and return the loss of every step (nats a token).

    AdamW (0.9, 0.95), linear warm-up, then a cosine down to a tenth of `lr`. Pairs are shuffled
    anew every epoch and batched with others of like length. The same arguments, weights and number
    of threads give the same losses.

    Args:
        pairs: prompts and completions, without template or end token.
        batch_size: pairs a step; one step is one mean over all their completion tokens.
        micro_batch: pairs a forward pass, None for the whole batch: bounds memory, not the result.
        autocast: bf16 matrix products (faster on CPUs with AVX512-BF16), weights stay as they are.
        progress: called after every step with step, loss, lr, grad_norm, tokens, seconds.

    Raises:
        ConfigError: no pairs, fewer pairs than a batch, or no step.
    """
    if steps < 1 or not 1 <= batch_size <= len(pairs):
        raise ConfigError(
            f"got steps={steps}, batch_size={batch_size} and {len(pairs)} pairs; allowed are "
            "steps >= 1 and 1 <= batch_size <= number of pairs; lower batch_size or add pairs"
        )
    data = [encode(tokenizer, prompt, completion) for prompt, completion in pairs]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay
    )
    batches = _batches(data, batch_size, random.Random(f"sft/{seed}"))
    started = time.perf_counter()
    losses: list[float] = []
    model.train()
    torch.manual_seed(seed)  # dropout, where a model has it
    for step in range(1, steps + 1):
        batch = next(batches)
        for group in optimizer.param_groups:
            group["lr"] = lr * _schedule(step, steps, warmup_steps)
        loss = _accumulate(
            model, batch, micro_batch or batch_size, tokenizer.pad_token_id, autocast
        )
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss)
        if progress is not None:
            progress(
                {
                    "step": step,
                    "loss": loss,
                    "lr": optimizer.param_groups[0]["lr"],
                    "grad_norm": float(norm),
                    "tokens": sum(len(each.ids) for each in batch),
                    "seconds": time.perf_counter() - started,
                }
            )
    model.eval()
    return losses


def _schedule(step: int, steps: int, warmup_steps: int) -> float:
    """Share of the peak learning rate at `step` (1-based)."""
    if step <= warmup_steps:
        return step / warmup_steps
    done = (step - warmup_steps) / max(1, steps - warmup_steps)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def _batches(
    data: Sequence[Encoded], batch_size: int, rng: random.Random
) -> Iterator[list[Encoded]]:
    """Endless batches of `batch_size`; a pair that is left over waits for the next epoch."""
    while True:
        order = rng.sample(data, len(data))
        chunks: list[list[Encoded]] = []
        for start in range(0, len(order), batch_size * BUCKET):
            bucket = sorted(
                order[start : start + batch_size * BUCKET], key=lambda each: len(each.ids)
            )
            chunks += [bucket[i : i + batch_size] for i in range(0, len(bucket), batch_size)]
        chunks = [chunk for chunk in chunks if len(chunk) == batch_size]
        rng.shuffle(chunks)
        yield from chunks


def _accumulate(
    model: Any, batch: Sequence[Encoded], micro_batch: int, pad: int, autocast: bool
) -> float:
    """Add the gradient of the batch's mean loss and return that loss."""
    total = sum(len(each.ids) - each.prompt for each in batch)
    loss_sum = 0.0
    loss: Any
    for start in range(0, len(batch), micro_batch):
        loss = _loss_sum(model, batch[start : start + micro_batch], pad, autocast) / total
        loss.backward()
        loss_sum += loss.item()
    return loss_sum


def _loss_sum(model: Any, batch: Sequence[Encoded], pad: int, autocast: bool) -> torch.Tensor:
    """Summed cross-entropy of the completion tokens of one micro-batch, in nats."""
    device = model.get_input_embeddings().weight.device
    # Few different widths: the CPU's matrix library keeps buffers for every shape it has met.
    longest = -(-max(len(each.ids) for each in batch) // WIDTH_STEP) * WIDTH_STEP + 1
    ids_B_T = torch.full((len(batch), longest), pad, dtype=torch.long)
    learned_B_T = torch.zeros((len(batch), longest), dtype=torch.bool)
    for row, each in enumerate(batch):
        ids_B_T[row, : len(each.ids)] = torch.tensor(each.ids)
        learned_B_T[row, each.prompt : len(each.ids)] = True
    ids_B_T, learned_B_T = ids_B_T.to(device), learned_B_T.to(device)
    bf16 = torch.autocast(device.type, torch.bfloat16) if autocast else nullcontext()
    with bf16:
        # Padding lies to the right and attention is causal, so no learned token sees it and the
        # attention mask, which would forbid the fast kernel, can stay away.
        hidden_B_T_D = model.base_model(input_ids=ids_B_T[:, :-1], use_cache=False)[0]
        logits_N_V = model.get_output_embeddings()(hidden_B_T_D[learned_B_T[:, 1:]])
    return functional.cross_entropy(
        logits_N_V.float(), ids_B_T[:, 1:][learned_B_T[:, 1:]], reduction="sum"
    )
