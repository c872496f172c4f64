"""vLLM in this process: the only file that imports it.

Each rollout is a request with a seed of its own; a prompt's K requests share its prefix. After an
update the weights are written into the running engine. What differs from `native`: vLLM computes
in other kernels, so its log-probabilities are not quite the trainer's (the difference is in every
step's metrics, and `optim.correction` corrects it), and a batch of another size may round
otherwise, so a resumed run is like the one that was not killed, and not the same to the bit.

On a GPU it gives back its memory while the policy learns (vLLM's sleep mode); that branch has not
been run, since no GPU with vLLM was at hand. On a CPU there is nothing to give back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.engines.base import (
    Ended,
    Sample,
    Sampling,
    checked,
    request_seed,
    require_room,
)
from botgrpo.trainer.engines.vllm_worker import EXTENSION
from botgrpo.trainer.engines.weights import merged

GIB = 2**30
BLOCK = 32  # tokens that are shared together or not; the CPU build's 128 would share little

# read by vLLM when it is imported or starts: one process, quiet, and no word to its makers
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


class VllmEngine:
    """Generation by vLLM on the device of the policy.

    Args:
        model: the policy; its weights go to vLLM at construction and at each `sync`.
        folder: its configuration, as a transformers folder.
        end_ids: ids that end a completion.
        dtype: of vLLM's weights and cache.
        memory_gib: of the cache. More rollouts than fit wait for their turn.

    Raises:
        ConfigError: vLLM is not installed, or refuses the model.
    """

    name = "vllm"

    def __init__(
        self,
        model: Any,
        folder: Path,
        *,
        end_ids: Sequence[int],
        dtype: torch.dtype,
        memory_gib: float,
    ) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            import vllm
        except ImportError as error:
            raise missing(str(error)) from error
        self.model = model
        self.sleeps = torch.cuda.is_available()
        self._vllm = vllm
        self._end_ids = sorted(set(end_ids))
        set_threads = torch.set_num_threads
        try:
            self.llm = vllm.LLM(
                str(folder),
                dtype=str(dtype).removeprefix("torch."),
                skip_tokenizer_init=True,  # ids go in, ids come out
                max_model_len=-1,  # as far as the model and the cache reach
                kv_cache_memory_bytes=int(memory_gib * GIB),
                block_size=BLOCK,
                enable_prefix_caching=True,
                # a prompt in pieces makes seeded requests step their generator back, which a CPU's
                # generator cannot
                enable_chunked_prefill=False,
                logprobs_mode="processed_logprobs",  # after the temperature, as the update has them
                enforce_eager=not self.sleeps,  # compiling for a CPU takes longer than it saves
                enable_sleep_mode=self.sleeps,
                worker_extension_cls=EXTENSION,
            )
        except (ValueError, NotImplementedError) as error:
            raise ConfigError(f"vLLM refuses {folder}: {error}") from error
        finally:
            torch.set_num_threads = set_threads  # which the CPU build replaces
        self.sync()
        self._rest()

    def sync(self) -> None:
        self._wake()
        weights = iter(merged(self.model))
        self.llm.collective_rpc("take_weights", args=(weights,))
        self.llm.reset_prefix_cache()

    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        k: int,
        keys: Sequence[int],
        sampling: Sampling,
        ended: Ended = lambda places, samples: None,
    ) -> list[Sample]:
        """See `base.Engine`."""
        engine, found = self.llm.llm_engine, dict[int, Sample]()
        limit = engine.vllm_config.model_config.max_model_len
        require_room(prompt_ids, sampling.max_new_tokens, limit)
        self._wake()
        for i, key in enumerate(keys):
            prompt = {"prompt_token_ids": list(prompt_ids[i // k])}
            engine.add_request(str(i), prompt, self._parameters(sampling, key))
        while engine.has_unfinished_requests():
            done = [o for o in engine.step() if o.finished]
            if done:
                new = {int(o.request_id): _sample(o.outputs[0]) for o in done}
                found.update(new)
                ended(list(new), list(new.values()))
        self._rest()
        return [found[i] for i in range(len(keys))]

    def _parameters(self, sampling: Sampling, key: int) -> Any:
        return self._vllm.SamplingParams(
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            seed=request_seed(sampling.seed, key),
            stop_token_ids=self._end_ids,
            logprobs=0,  # of the token that was drawn
            detokenize=False,
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )

    def _wake(self) -> None:
        if self.sleeps:
            self.llm.wake_up()

    def _rest(self) -> None:
        if self.sleeps:
            self.llm.sleep(level=1)  # the cache is dropped, the weights wait in the host's memory


def _sample(output: Any) -> Sample:
    ids = tuple(int(i) for i in output.token_ids)
    steps: Sequence[Mapping[int, Any]] = output.logprobs
    logps = np.array([step[i].logprob for i, step in zip(ids, steps, strict=True)], np.float32)
    return Sample(ids, checked(logps), "stop" if output.finish_reason == "stop" else "length")


def missing(why: str) -> ConfigError:
    """What to do where vLLM cannot be imported."""
    return ConfigError(
        f"engine.kind is vllm, which cannot be imported here ({why}). Next: on a GPU pip install "
        "'botgrpo[vllm]'; on a CPU make env-vllm in the checkout, then .envs/vllm/bin/botgrpo "
        "train ...; or engine.kind=native"
    )
