"""Models that judge from inside: what torch computes for `math.prm` and `implicit.prime`.

The one file of the rewards that imports torch, and it is imported when such a reward is constructed
and not before. Weights are read from safetensors alone, never from pickles, and no code that a
checkpoint brings along is run: a head that transformers does not know is a few matrices, applied
here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from torch import Tensor

from botgrpo.sandbox.errors import ConfigError

_FILES = ("*.json", "*.safetensors", "*.jinja", "merges.txt", "tokenizer.model")
_CHUNK_ELEMENTS = 1 << 26  # logits at once: 256 MiB in float32
Layer = tuple[Tensor, Tensor | None]  # weight [out, in] and bias [out], float32


@dataclass(frozen=True, slots=True)
class Sequenced:
    """Token ids of one text, and the places in it that are read."""

    ids: Sequence[int]
    places: Sequence[int]


def folder_of(name: str) -> Path:
    """A transformers folder, or a hub's `owner/model` fetched into its cache; else ConfigError."""
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    failures = (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError)
    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except failures as error:
        raise ConfigError(
            f"no model {name!r}: not a folder with a config.json, and no hub gave it "
            f"({str(error).splitlines()[0]}); give a path, or OWNER/MODEL where a hub is reachable"
        ) from None


def tokenizer_of(folder: Path) -> Any:
    """The folder's fast tokenizer; no code of the checkpoint is run."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer in {folder} has no fast form; places in a text need one. Save it with "
            "a tokenizer.json"
        )
    return tokenizer


class Network:
    """A causal transformer without its head, in the precision of its checkpoint, on the GPU if
    there is one. Computes for one caller at a time."""

    def __init__(self, folder: Path, *, language_model: bool) -> None:
        auto = transformers.AutoModelForCausalLM if language_model else transformers.AutoModel
        if not any(folder.glob("*.safetensors")):
            raise ConfigError(
                f"{folder} holds no *.safetensors; pickled weights are not read, save them again"
            )
        transformers.utils.logging.disable_progress_bar()
        verbosity = transformers.logging.get_verbosity()
        transformers.logging.set_verbosity_error()  # a head that is not the library's is expected
        try:
            model = auto.from_pretrained(folder, dtype="auto", trust_remote_code=False)
        finally:
            transformers.logging.set_verbosity(verbosity)
        self.model = model.eval().requires_grad_(False)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.device = next(self.model.parameters()).device
        self._lock = threading.Lock()

    def hidden(
        self, sequences: Sequence[Sequenced], budget_tokens: int
    ) -> Iterator[tuple[int, Tensor]]:
        """(index, last hidden states [places, width] in float32) of each sequence, in any order.

        Sequences of like length share a batch of at most `budget_tokens` padded tokens; padding is
        to the right, where no causal model sees it.
        """
        backbone = self.model.base_model
        for batch in _batches([len(s.ids) for s in sequences], budget_tokens):
            width = max(len(sequences[i].ids) for i in batch)
            rows = [[*sequences[i].ids, *[0] * (width - len(sequences[i].ids))] for i in batch]
            ids_B_T = torch.tensor(rows, device=self.device)
            with self._lock, torch.inference_mode():
                states = backbone(input_ids=ids_B_T, use_cache=False).last_hidden_state
                for row, i in enumerate(batch):
                    places = torch.tensor(sequences[i].places, device=self.device, dtype=torch.long)
                    yield i, states[row, places].float()


def _batches(lengths: Sequence[int], budget_tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and (len(batch) + 1) * lengths[i] > budget_tokens:  # sorted: the newest is longest
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


class StepModel:
    """A process reward model: a network and a head whose last layer tells wrong (0) from right (1).

    `head` says where the head's matrices are: "score" (a token classifier of two classes, one
    linear layer or several with ReLU between), "v_head" (one value, whose sigmoid is meant), or
    two ids of the vocabulary (wrong, right), whose output rows are the head.
    """

    def __init__(self, folder: Path, head: str | tuple[int, int]) -> None:
        self.network = Network(folder, language_model=not isinstance(head, str))
        if isinstance(head, str):
            layers = _stored_layers(folder, head)
        else:
            out = self.network.model.get_output_embeddings()
            rows = list(head)
            bias = getattr(out, "bias", None)
            layers = [(out.weight[rows].float(), None if bias is None else bias[rows].float())]
        if head == "v_head":  # sigmoid(v) is the softmax of (0, v)
            layers = [_with_zero(*layers[0])]
        if layers[-1][0].shape[0] != 2:
            raise ConfigError(
                f"the head {head!r} in {folder} has {layers[-1][0].shape[0]} outputs, expected 2; "
                "it was made for another reading"
            )
        device = self.network.device
        self._layers = [(w.to(device), None if b is None else b.to(device)) for w, b in layers]

    def right(self, sequences: Sequence[Sequenced], budget_tokens: int) -> list[list[float]]:
        """Probability of "right" at each place of each sequence; NaN where the model gave NaN."""
        found: list[list[float]] = [[] for _ in sequences]
        for i, hidden in self.network.hidden(sequences, budget_tokens):
            for at, (weight, bias) in enumerate(self._layers):
                hidden = torch.nn.functional.linear(hidden.relu() if at else hidden, weight, bias)
            found[i] = torch.softmax(hidden, -1)[:, 1].tolist()
        return found


def _stored_layers(folder: Path, head: str) -> list[Layer]:
    """The linear layers stored under `head`, in the order of their names."""
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118 - not a mapping
                if name.startswith(f"{head}."):
                    tensors[name] = stored.get_tensor(name).float()
    weights = sorted(name for name in tensors if name.endswith("weight"))
    if not weights:
        raise ConfigError(f"{folder} stores no weights {head}.*; the reading is another model's")
    return [(tensors[name], tensors.get(f"{name[:-6]}bias")) for name in weights]


def _with_zero(weight: Tensor, bias: Tensor | None) -> Layer:
    two = torch.cat([torch.zeros_like(weight), weight])
    return two, None if bias is None else torch.cat([torch.zeros_like(bias), bias])


class LanguageModel:
    """A causal language model that tells how likely it finds the tokens of others."""

    def __init__(self, folder: Path) -> None:
        self.network = Network(folder, language_model=True)
        self._head = self.network.model.get_output_embeddings()
        self.vocabulary = int(self._head.weight.shape[0])
        self._require_plain_head(folder)

    def logps(self, sequences: Sequence[Sequenced], budget_tokens: int) -> list[list[float]]:
        """Log-probability (nats, float32) of the token at each place, given all before it."""
        before = [Sequenced(s.ids, [at - 1 for at in s.places]) for s in sequences]
        found: list[list[float]] = [[] for _ in sequences]
        for i, hidden in self.network.hidden(before, budget_tokens):
            ids = torch.tensor([sequences[i].ids[at] for at in sequences[i].places])
            size = max(1, _CHUNK_ELEMENTS // self.vocabulary)
            targets_N = ids.to(hidden.device)
            pieces = zip(torch.split(hidden, size), torch.split(targets_N, size), strict=True)
            for states, targets in pieces:
                logits = self._head(states.to(self._head.weight.dtype)).float()
                logps = torch.log_softmax(logits, -1).gather(1, targets[:, None])[:, 0]
                found[i] += logps.tolist()
        return found

    @torch.inference_mode()
    def _require_plain_head(self, folder: Path) -> None:
        """Some models cap or scale their logits after the output layer; a short pass tells."""
        ids = torch.arange(4, device=self.network.device)[None]
        model = self.network.model
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        ours, theirs = self._head(hidden).float(), model(input_ids=ids).logits.float()
        if not bool(torch.isfinite(theirs).all()):
            raise ConfigError(f"the logits of {folder} are not finite; its weights are broken")
        if not torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2):
            raise ConfigError(
                f"{type(model).__name__} in {folder} changes its logits after the output layer, "
                "which is not read here; choose a model without such a cap or scale"
            )
