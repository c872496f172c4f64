"""The task `react`: prompts for single-file React components, and the corpus of its warm start."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from itertools import islice

from botgrpo.benchmarks.tasks.react_corpus import (
    Request,
    corrupt,
    draw_request,
    fenced,
    outline,
    requests,
    write,
)
from botgrpo.benchmarks.tasks.react_families import DISPLAY, FAMILIES, NAMES, PROPS, ROOTS
from botgrpo.trainer.task import Item

TRAIN_PROMPTS = 1024
EVAL_SEED = 1_000_003
# A file has about 13 sites: .885 ** 13 leaves a fifth of the corpus without a fault. At .09 a
# quarter of the files compiles, hardly a group fails as a whole, and designs differ less.
CORRUPTION_RATE = 0.115


class ReactTask:
    """Prompts drawn from `react_corpus`; training and evaluation never share a request."""

    name = "react"
    judge = "react.complete"
    metrics = ("compile", "complete", "match")

    def train_items(self, seed: int) -> Sequence[Item]:
        """`TRAIN_PROMPTS` different prompts in the order of this seed."""
        return _items(requests(seed, held_out=False), TRAIN_PROMPTS)

    def eval_items(self, n: int) -> Sequence[Item]:
        """The first n held-out prompts, the same ones in every call."""
        return _items(requests(EVAL_SEED, held_out=True), n)

    def corpus(
        self, n: int, seed: int, corruption_rate: float = CORRUPTION_RATE
    ) -> Sequence[tuple[Item, str]]:
        """n pairs for a warm start; each site of each file has a fault with `corruption_rate`."""
        rng = random.Random(f"corpus/{seed}")
        pairs = []
        for _ in range(n):
            request = draw_request(rng, held_out=False)
            source, _faults = corrupt(write(request, rng), corruption_rate, rng)
            pairs.append((_item(request), fenced(source)))
        return pairs

    def outlines(self, n: int, seed: int) -> Sequence[tuple[Item, str]]:
        """n training prompts with `react_corpus.outline`: what is learned before whole files."""
        rng = random.Random(f"outlines/{seed}")
        drawn = [draw_request(rng, held_out=False) for _ in range(n)]
        return [(_item(request), outline(request)) for request in drawn]

    def words(self) -> tuple[str, ...]:
        """What a small model has to copy from the prompt: pieces to keep as single tokens."""
        tags = dict.fromkeys(
            tag for family in FAMILIES.values() for tag in (*family.core, family.root) if tag
        )
        copied = (*PROPS, *DISPLAY, *ROOTS, *tags)
        return (
            *(f" {name}" for name in (*NAMES, *FAMILIES)),
            *(prefix + word for word in copied for prefix in ("", " ")),
        )


def _items(stream: Iterator[Request], n: int) -> list[Item]:
    return [_item(request) for request in islice(stream, n)]


def _item(request: Request) -> Item:
    digest = hashlib.sha256(request.key.encode()).hexdigest()[:12]
    return Item(f"react-{digest}", request.prompt, request.reference)
