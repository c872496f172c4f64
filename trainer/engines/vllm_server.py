"""A vLLM server over HTTP: ids in, ids and their log-probabilities out, new weights by a folder.

    VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server --model FOLDER \\
        --logprobs-mode processed_logprobs
    on a CPU also:  --no-enable-chunked-prefill --worker-extension-cls \\
        botgrpo.trainer.engines.vllm_worker.NewWeights

Each rollout is a request of its own, with a seed of its own. Weights reach the server as a file in
a folder that both see, and the server is told to read it. A server that goes away is waited for; it
gets the weights again when it is back, also where it was restarted between two calls, and draws
what was not finished. One that stays away ends the run with the last checkpoint intact.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import numpy as np
import torch
from safetensors.torch import save_file

from botgrpo.sandbox.errors import ConfigError, RunFailed
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

T = TypeVar("T")

PATIENCE_S = 120.0  # until a server that went away must be back
TRIES = 3  # of one call, with a server that is healthy in between
ANSWER_S = 1800.0  # one request, most of it waiting for its turn
CONNECTIONS = 128
START = (
    "Start it with: VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server --model "
    "FOLDER --logprobs-mode processed_logprobs"
)


class Away(Exception):
    """No connection, or an answer that only a server in trouble gives."""


class VllmServerEngine:
    """Generation by a server that somebody else started.

    Args:
        model: the policy; its weights go to the server at construction and at each `sync`.
        url: such as http://localhost:8000/v1.
        end_ids: ids that end a completion.
        dtype: of the weights as they are sent.
        weights_dir: where they are written; the server must see the same path.

    Raises:
        ConfigError: the server cannot take new weights, or was started with other options than
            those above.
        RunFailed: there is no server.
    """

    name = "vllm-server"

    def __init__(
        self,
        model: Any,
        url: str,
        *,
        end_ids: Sequence[int],
        dtype: torch.dtype,
        weights_dir: Path | None = None,
    ) -> None:
        self.model = model
        self.root = url.rstrip("/").removesuffix("/v1")
        self._end_ids = sorted(set(end_ids))
        self._dtype = dtype
        self._folder = weights_dir or Path(tempfile.mkdtemp(prefix="botgrpo-weights-"))
        if weights_dir is None:
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._holds: str | None = None  # the start of the server that has our weights
        self._http = httpx2.Client(timeout=httpx2.Timeout(ANSWER_S, connect=10))
        self._served, self._limit, self._order = self._insist(self._examine)
        self.sync()

    def sync(self) -> None:
        self._holds = None
        self._insist(self._hand_over)

    def generate(
        self,
        prompt_ids: Sequence[Sequence[int]],
        k: int,
        keys: Sequence[int],
        sampling: Sampling,
        ended: Ended = lambda places, samples: None,
    ) -> list[Sample]:
        """See `base.Engine`. A rollout that was finished before a fault stays as it was."""
        require_room(prompt_ids, sampling.max_new_tokens, self._limit)
        found: dict[int, Sample] = {}

        def tell(place: int, sample: Sample) -> None:
            found[place] = sample
            ended([place], [sample])

        def draw() -> None:
            self._hand_over()
            left = {
                i: self._request(prompt_ids[i // k], sampling, key)
                for i, key in enumerate(keys)
                if i not in found
            }
            asyncio.run(self._complete(left, tell))

        self._insist(draw)
        return [found[i] for i in range(len(keys))]

    def _request(self, prompt: Sequence[int], sampling: Sampling, key: int) -> dict[str, Any]:
        """All that could be told a sampler: the server's own defaults come from its model."""
        return {
            "model": self._served,
            "prompt": list(prompt),
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": request_seed(sampling.seed, key),
            "stop_token_ids": self._end_ids,
            "logprobs": 0,  # of the token that was drawn
            "return_token_ids": True,
        }

    async def _complete(
        self, requests: Mapping[int, Mapping[str, Any]], tell: Callable[[int, Sample], None]
    ) -> None:
        limits = httpx2.Limits(max_connections=CONNECTIONS)
        patient = httpx2.Timeout(ANSWER_S, connect=10, pool=None)

        async def one(place: int, body: Mapping[str, Any]) -> None:
            try:
                answer = await http.post(f"{self.root}/v1/completions", json=body)
            except httpx2.TransportError as error:
                raise Away(f"{type(error).__name__} {error}") from error
            tell(place, _sample(_content(answer)))

        async with httpx2.AsyncClient(timeout=patient, limits=limits) as http:
            tasks = [asyncio.create_task(one(place, body)) for place, body in requests.items()]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _insist(self, work: Callable[[], T]) -> T:
        """Do it, and again after a fault when the server is back."""
        for _ in range(TRIES):
            try:
                return work()
            except Away as error:
                said = str(error)
                self._holds = None  # whoever answers next may have started with other weights
                self._wait(said)
        raise RunFailed(
            f"the server at {self.root} failed {TRIES} times ({said}). No step was made of it and "
            "the last checkpoint is intact: see its log, then go on with --resume"
        )

    def _wait(self, said: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._call("GET", "/health")
                return
            except Away:
                if time.monotonic() > until:
                    raise RunFailed(
                        f"the server at {self.root} went away ({said}) and did not come back "
                        f"within {PATIENCE_S:g} s. No step was made of it and the last checkpoint "
                        "is intact: start it again, then go on with --resume"
                    ) from None
                time.sleep(min(1.0, PATIENCE_S / 10))

    def _examine(self) -> tuple[str, int, str]:
        """Its model's name and longest sequence, and the call by which it takes new weights."""
        served = _content(self._call("GET", "/v1/models"))["data"][0]
        answer = self._call("GET", "/server_info", params={"config_format": "json"})
        if answer.status_code == 404:
            raise ConfigError(
                f"the server at {self.root} takes no new weights: it was not started with "
                f"VLLM_SERVER_DEV_MODE=1. {START}"
            )
        config = _content(answer)["vllm_config"]
        mode = config["model_config"].get("logprobs_mode")
        if mode != "processed_logprobs":
            raise ConfigError(
                f"the server at {self.root} gives {mode}: probabilities before the temperature, "
                f"with which no update can be made. {START}"
            )
        if config["device_config"]["device"] != "cpu":
            return served["id"], served["max_model_len"], "reload_weights"
        extended = config["parallel_config"].get("worker_extension_cls") == EXTENSION
        if config["scheduler_config"].get("enable_chunked_prefill") or not extended:
            raise ConfigError(
                f"the server at {self.root} runs on a CPU, where vLLM fails at seeded requests "
                "while it reads prompts in pieces, and forgets the output layer at new weights. "
                f"{START} --no-enable-chunked-prefill --worker-extension-cls {EXTENSION}"
            )
        return served["id"], served["max_model_len"], "take_weights"

    def _hand_over(self) -> None:
        """The policy's weights to the server, unless this very process of it has them."""
        started = self._started()
        if started == self._holds:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / ".partial"
        weights = {n: v.to("cpu", self._dtype).contiguous() for n, v in merged(self.model)}
        save_file(weights, partial)
        os.replace(partial, self._folder / "model.safetensors")
        order = {"method": self._order, "kwargs": {"weights_path": str(self._folder)}}
        answer = self._call("POST", "/collective_rpc", json=order, trouble=False)
        if answer.status_code != 200:
            raise ConfigError(
                f"the server at {self.root} could not read weights from {self._folder}: "
                f"{_remark(answer)}. It must see that folder under the same path (choose one with "
                "engine.weights_dir) and serve a model of the policy's shape"
            )
        self._call("POST", "/reset_prefix_cache")
        self._holds = started

    def _started(self) -> str:
        """When the server's process began; another one may not have our weights."""
        found = re.search(
            r"^process_start_time_seconds (\S+)", self._call("GET", "/metrics").text, re.MULTILINE
        )
        return found[1] if found else "unknown"

    def _call(self, method: str, path: str, *, trouble: bool = True, **how: Any) -> Any:
        """An answer; `trouble`: one that speaks of trouble in the server counts as none."""
        try:
            answer = self._http.request(method, f"{self.root}{path}", **how)
        except httpx2.TransportError as error:
            raise Away(f"{type(error).__name__} {error}") from error
        if trouble and answer.status_code >= 500:
            raise Away(f"HTTP {answer.status_code}: {_remark(answer)}")
        return answer


def _content(answer: Any) -> Any:
    """The JSON of an answer; raises Away or ConfigError for one that is a refusal."""
    if answer.status_code >= 500 or answer.status_code in (408, 429):
        raise Away(f"HTTP {answer.status_code}: {_remark(answer)}")
    if answer.status_code != 200:
        raise ConfigError(
            f"the server refused {answer.request.url.path} with HTTP {answer.status_code}: "
            f"{_remark(answer)}"
        )
    try:
        return answer.json()
    except ValueError:
        raise Away("its answer is not JSON") from None


def _remark(answer: Any) -> str:
    return " ".join(answer.text[:300].split())


def _sample(record: Any) -> Sample:
    try:
        choice = record["choices"][0]
        ids = tuple(int(i) for i in choice["token_ids"])
        logps = np.array(choice["logprobs"]["token_logprobs"], dtype=np.float32)
        reason = choice["finish_reason"]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ConfigError(
            "the server's completions hold no token_ids with log-probabilities: it must be vLLM "
            "0.20 or newer"
        ) from error
    if len(ids) != len(logps) or reason not in ("stop", "length"):
        raise Away(f"{len(ids)} ids, {len(logps)} log-probabilities, finish_reason {reason!r}")
    return Sample(ids, checked(logps), reason)
