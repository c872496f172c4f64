"""What memory a run needs, from a model's config.json: no weights are read, none are made.

Parameters are counted on a model without storage; activations are what autograd keeps in a forward
pass on tensors without storage, so that every architecture of transformers counts itself.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from botgrpo.trainer import shared_prompt
from botgrpo.trainer.algorithms import entry
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.llama import supports
from botgrpo.trainer.logps import CHUNK_ELEMENTS, Row, hidden_states, microbatches
from botgrpo.trainer.models import locate
from botgrpo.trainer.policy import DTYPES, checkpoint_layers

# of one logit in an update: in the products' type, as float32, by temperature, log-probability
LOGIT_BYTES = 14
# of one logit when a token is drawn: in its type, as float32, by temperature, log, value, in blocks
DRAWN_BYTES = 22
COUNTED_LAYERS = (4, 8)  # of a deep model only so many are walked through: all cost the same


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes by what holds them, and the shapes that they come from.

    `weights` to `decoding` are there all the time; `cache` and `drawing` while rollouts are drawn,
    `activations` and `logits` while the policy learns.
    """

    parameters: int
    trained: int
    layers: int
    vocabulary: int
    rows: int  # rollouts in a step
    width: int  # tokens of the longest prompt and completion
    micro_rows: int  # rollouts in one forward pass of the update
    micro_tokens: int  # tokens that it computes, padding included
    update_tokens: int  # in all passes of an epoch
    weights: int
    gradients: int
    optimizer: int
    reference: int
    beside: int
    decoding: int
    cache: int
    drawing: int
    activations: int
    logits: int

    @property
    def steady(self) -> int:
        learning = self.weights + self.gradients + self.optimizer
        return learning + self.reference + self.beside + self.decoding

    @property
    def peak(self) -> int:
        return self.steady + max(self.cache + self.drawing, self.activations + self.logits)


def footprint(config: Config, folder: Path, prompt_tokens: int) -> Footprint:
    """Of `config` on the model in `folder`, with prompts of at most so many tokens."""
    model_config = read_config(folder)
    shape = model_config.get_text_config()
    sampling, policy = config.sampling, config.policy
    model = build(model_config, config)
    parameters = sum(p.numel() for p in model.parameters())
    trained = [p for p in model.parameters() if p.requires_grad]
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    learned = sum(p.numel() * p.element_size() for p in trained)
    decode_bytes = DTYPES[policy.generate_dtype].itemsize
    in_place = model.get_input_embeddings().weight.dtype == DTYPES[policy.generate_dtype]
    rows = sampling.prompts * sampling.group_size
    width = prompt_tokens + sampling.max_new_tokens
    longest = longest_rows(config, prompt_tokens)
    passes = list(microbatches(model, longest, config.optim.microbatch_tokens))
    tokens = [computed_tokens(model, [longest[i] for i in picked]) for picked in passes]
    micro = [longest[i] for i in passes[0]]  # all are alike, and the last may be smaller
    head = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    kv_heads = getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads
    kind, copied = config.engine.kind, parameters * decode_bytes
    cache = 2 * rows * width * shape.num_hidden_layers * kv_heads * head * decode_bytes
    drawing = rows * shape.vocab_size * DRAWN_BYTES
    if kind == "vllm":  # its cache is taken once and stays
        copied, cache = copied + int(config.engine.memory_gib * 2**30), 0
    elif kind == "vllm-server":
        copied = cache = drawing = 0
    elif in_place and not supports(model):
        copied = 0
    logits = min(
        len(micro) * sampling.max_new_tokens * shape.vocab_size,
        max(CHUNK_ELEMENTS, shape.vocab_size),
    )
    return Footprint(
        parameters=parameters,
        trained=sum(p.numel() for p in trained),
        layers=shape.num_hidden_layers,
        vocabulary=shape.vocab_size,
        rows=rows,
        width=width,
        micro_rows=len(micro),
        micro_tokens=tokens[0],
        update_tokens=sum(tokens),
        weights=weights,
        gradients=learned,
        optimizer=2 * learned,
        reference=weights if config.optim.kl and policy.lora is None else 0,
        beside=beside(config, model),
        decoding=copied,
        cache=cache,
        drawing=drawing,
        activations=activations(model_config, config, micro),
        logits=logits * LOGIT_BYTES,
    )


def beside(config: Config, policy: Any) -> int:
    """Bytes of what learns beside the policy: weights, gradients, two moments; PRIME's reference.

    Each is as large as the policy, unless the configuration names another model.
    """
    total = 0
    if entry(config.algorithm).critic:  # the policy's body; its head is a few numbers
        weights, learned = _bytes(policy.base_model.parameters())
        total += weights + 3 * learned
    if config.prime:
        model, fixed = policy, config.prime.reference
        if config.prime.model:
            model = build(read_config(locate(config.prime.model)), config)
        weights, learned = _bytes(model.parameters())
        total += weights + 3 * learned
        if fixed:
            total += _bytes(build(read_config(locate(fixed)), config).parameters())[0]
        elif not config.policy.lora:
            total += weights
    return total


def _bytes(parameters: Iterable[Any]) -> tuple[int, int]:
    """Of weights, and of those that learn."""
    sizes = [(p.numel() * p.element_size(), p.requires_grad) for p in parameters]
    return sum(size for size, _ in sizes), sum(size for size, learns in sizes if learns)


def read_config(folder: Path) -> Any:
    """The model's configuration; raises ConfigError where transformers does not know it."""
    from transformers import AutoConfig

    from botgrpo.sandbox.errors import ConfigError

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder}: {error}") from None


def build(model_config: Any, config: Config, device: str = "meta") -> Any:
    """The model as a run would load it, its weights without storage or random."""
    from transformers import AutoModelForCausalLM

    policy = config.policy
    dtype = DTYPES[policy.update_dtype] if policy.lora else torch.float32
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(model_config, dtype=dtype).eval()
    shared_prompt.install(model)
    if policy.lora:
        from botgrpo.trainer import lora

        with torch.device(device):
            lora.add(model, policy.lora, seed=0)
    if policy.gradient_checkpointing:
        checkpoint_layers(model)
    return model


def longest_rows(config: Config, prompt_tokens: int) -> list[Row]:
    """Rollouts of a step whose prompts and completions all are as long as they can be."""
    nothing, sampling = np.zeros(0), config.sampling
    completion = [0] * sampling.max_new_tokens
    return [
        Row([p] * prompt_tokens, completion, nothing, nothing)
        for p in range(sampling.prompts)
        for _ in range(sampling.group_size)
    ]


def computed_tokens(model: Any, rows: Sequence[Row]) -> int:
    """Tokens of one pass of the update over rows of one length."""
    new = sum(len(r.completion_ids) for r in rows)
    if shared_prompt.packs(model, rows):
        return new + sum(map(len, {tuple(r.prompt_ids) for r in rows}))
    return new + sum(len(r.prompt_ids) for r in rows)


def activations(model_config: Any, config: Config, rows: Sequence[Row]) -> int:
    """Bytes that autograd keeps for one micro-batch, parameters left out."""
    layers: int = model_config.get_text_config().num_hidden_layers
    few, more = COUNTED_LAYERS
    if layers <= more:
        kept = _kept(model_config, config, rows)
    else:
        low = _kept(with_layers(model_config, few), config, rows)
        high = _kept(with_layers(model_config, more), config, rows)
        kept = low + (high - low) // (more - few) * (layers - few)
    if not config.policy.gradient_checkpointing:
        return kept
    # the layer that is computed again is there whole
    plain = config.model_copy(
        update={"policy": config.policy.model_copy(update={"gradient_checkpointing": False})}
    )
    count = min(layers, few)
    return kept + activations(with_layers(model_config, count), plain, rows) // count


def with_layers(model_config: Any, count: int) -> Any:
    """The same architecture with fewer layers."""
    cut = copy.deepcopy(model_config)
    layers = cut.num_hidden_layers
    for name, value in vars(cut).items():
        if isinstance(value, list) and len(value) == layers:  # one entry a layer
            setattr(cut, name, value[:count])
    cut.num_hidden_layers = count
    return cut


def _kept(model_config: Any, config: Config, rows: Sequence[Row]) -> int:
    from torch._subclasses.fake_tensor import FakeTensorMode

    dtype = config.policy.update_dtype
    autocast = None if dtype == "float32" else DTYPES[dtype]
    model = build(model_config, config)
    with FakeTensorMode():
        _pretend(model)
        with kept_bytes(model) as kept, torch.autocast("cpu", autocast, enabled=bool(autocast)):
            hidden_states(model, rows, pad_id=0)
    total: int = sum(kept.values())
    return total


def _pretend(model: Any) -> None:
    """Put the model on a CPU that is not there: its tensors know their type, and hold nothing."""
    made: dict[int, torch.Tensor] = {}  # tied weights stay one
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, value in held.items():
                if value is None:
                    continue
                if id(value) not in made:
                    new = torch.empty(value.shape, dtype=value.dtype, device="cpu")
                    learns = value.requires_grad
                    made[id(value)] = (
                        torch.nn.Parameter(new, learns) if held is module._parameters else new
                    )
                held[name] = made[id(value)]


@contextmanager
def kept_bytes(model: Any) -> Iterator[dict[int, int]]:
    """Bytes of each storage that autograd keeps in the block, the model's own left out."""
    own = {p.untyped_storage()._cdata for p in (*model.parameters(), *model.buffers())}
    kept: dict[int, int] = {}
    alive = []  # so that no storage is freed and its address counted for another

    def pack(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage.nbytes()
            alive.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        yield kept
