"""How long a run takes on this machine, measured on two layers of a model's real width.

A model of two layers and of one, with random weights, draws tokens and learns; the difference is
what a layer costs, the rest what a model costs without layers. The rest is scaled by the
vocabulary, which is cut for the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from botgrpo.trainer.algorithms import entry
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.base import Sampling
from botgrpo.trainer.engines.generic import engine_for
from botgrpo.trainer.footprint import (
    Footprint,
    build,
    computed_tokens,
    read_config,
    with_layers,
)
from botgrpo.trainer.logps import Row, token_logps
from botgrpo.trainer.policy import DTYPES, device

VOCABULARY = 4096  # ids of the measured models, at most
TOKENS = 8  # drawn in the measurement
MICRO_TOKENS = 256  # learned from in the measurement, at most


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of one step whose completions all reach the cap; scoring is not in them."""

    generate_s: float
    update_s: float


def measure(config: Config, folder: Path, found: Footprint) -> Pace:
    """Time the two halves of a step; some seconds for a model of billions of parameters."""
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    model_config = with_layers(read_config(folder), 2)
    share = min(1.0, VOCABULARY / found.vocabulary)
    model_config.vocab_size = min(VOCABULARY, found.vocabulary)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(model_config, name, None)
    with torch.random.fork_rng(devices=[]):
        model = build(model_config, config, str(device(config.policy.device)))
    draw_s, learn_s = [], []
    for layers in (2, 1):
        model.base_model.layers = model.base_model.layers[:layers]
        model.config.num_hidden_layers = layers
        draw_s.append(_draw(model, config, found))
        learn_s.append(_learn(model, config, found))

    def whole(two_s: float, one_s: float) -> float:
        layer_s = max(0.0, two_s - one_s)
        return max(0.0, one_s - layer_s) / share + layer_s * found.layers

    passes = config.optim.epochs
    # a pass without a gradient is about a third of one with it
    extra = (config.optim.epochs * config.optim.minibatches > 1) + (config.optim.kl > 0)
    if config.prime:  # its reference and, after its step, itself; and the step
        extra += 5
    if entry(config.algorithm).critic:  # its values, and its passes
        extra += 1 + 3 * passes
    return Pace(
        generate_s=config.sampling.max_new_tokens * whole(*draw_s),
        update_s=found.update_tokens * (passes + extra / 3) * whole(*learn_s),
    )


def _draw(model: Any, config: Config, found: Footprint) -> float:
    """Seconds of one token in all rows, the cache as full as it is half way."""
    engine = engine_for(model, end_ids=[], pad_id=0, dtype=DTYPES[config.policy.generate_dtype])
    half = max(1, min(found.width - TOKENS, found.width // 2))
    prompts = [[1] * half for _ in range(config.sampling.prompts)]
    k = config.sampling.group_size

    def draw(tokens: int) -> Callable[[], object]:
        return lambda: engine.generate(prompts, k, range(found.rows), Sampling(tokens))

    # the difference leaves the prompts out
    return max(0.0, _timed(draw(TOKENS + 1)) - _timed(draw(1))) / TOKENS


def _learn(model: Any, config: Config, found: Footprint) -> float:
    """Seconds of one computed token, prompt or completion, forward and backward."""
    width = min(found.width, MICRO_TOKENS)
    new = max(1, width * config.sampling.max_new_tokens // found.width)
    zeros = np.zeros(new)
    row = Row([1] * max(1, width - new), [1] * new, zeros, zeros)
    rows = [row] * max(1, min(found.micro_rows, MICRO_TOKENS // width))
    dtype = config.policy.update_dtype

    def learn() -> None:
        logps_N, _ = token_logps(
            model,
            rows,
            pad_id=0,
            temperature=1.0,
            autocast=None if dtype == "float32" else DTYPES[dtype],
        )
        logps_N.sum().backward()  # type: ignore[no-untyped-call]
        model.zero_grad()

    return _timed(learn) / computed_tokens(model, rows)


def _timed(work: Callable[[], object]) -> float:
    """Seconds of the second time: the first warms up."""
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds[1]
