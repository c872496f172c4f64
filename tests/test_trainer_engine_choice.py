"""The engine that a configuration names; a vLLM server's refusals, against a stub of one."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import lora
from botgrpo.trainer.config import LoraConfig
from botgrpo.trainer.engines import choice, vllm_server
from botgrpo.trainer.engines.base import Sampling, request_seed
from botgrpo.trainer.engines.vllm_server import VllmServerEngine
from botgrpo.trainer.engines.weights import merged
from botgrpo.trainer.micro import build_model, build_tokenizer
from tiny import TEXTS, tiny_config

INFO: dict[str, Any] = {
    "model_config": {"logprobs_mode": "processed_logprobs"},
    "device_config": {"device": "cuda"},
    "parallel_config": {},
    "scheduler_config": {},
}


@pytest.fixture(scope="module")
def model() -> Any:
    return build_model(build_tokenizer(TEXTS, vocab_size=300), seed=0, layers=2, width=64)


class StubServer:
    """Stands in for vLLM's server: answers as told, remembers what it was asked."""

    def __init__(self) -> None:
        self.info: dict[str, Any] | None = INFO
        self.weights_status = 200
        self.completions: list[tuple[int, Any]] = []  # answers to come; then a good one
        self.asked: list[tuple[str, Any]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.answer(self, None)

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                stub.answer(self, json.loads(self.rfile.read(size) or "null"))

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        path = handler.path.partition("?")[0]
        self.asked.append((path, body))
        status, record = 200, {}
        if path == "/v1/models":
            record = {"data": [{"id": "tiny", "max_model_len": 64}]}
        elif path == "/server_info":
            status, record = (200, {"vllm_config": self.info}) if self.info else (404, {})
        elif path == "/collective_rpc":
            status = self.weights_status
        elif path == "/v1/completions":
            status, record = self.completions.pop(0) if self.completions else (200, completion())
        text = json.dumps(record).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)


def completion(**changes: Any) -> dict[str, Any]:
    choice = {
        "token_ids": [7, 8],
        "logprobs": {"token_logprobs": [-0.5, -1.5]},
        "finish_reason": "stop",
    }
    return {"choices": [choice | changes]}


@pytest.fixture
def server() -> Iterator[StubServer]:
    made = StubServer()
    yield made
    made.close()


def engine(server: StubServer, model: Any, **more: Any) -> VllmServerEngine:
    return VllmServerEngine(model, server.url, end_ids=[2], dtype=torch.float32, **more)


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ({"engine__kind": "vllm-server"}, "engine.url is None; set it to the server's"),
        ({"engine__kind": "vllm-server", "engine__url": "localhost"}, "engine.url=http://local"),
        ({"engine__url": "http://localhost:8000"}, "did you mean engine.kind=vllm-server"),
    ],
)
def test_a_wrong_engine_is_known_before_anything_is_loaded(sets: dict[str, str], says: str) -> None:
    quoted = {key: f"'{value}'" for key, value in sets.items()}
    with pytest.raises(ConfigError, match=says):
        choice.require(tiny_config(**quoted))


def test_without_vllm_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"make env-vllm .* or engine\.kind=native"):
        choice.require(tiny_config(engine__kind="vllm"))
    assert "vllm" not in sys.modules


def test_requests_have_seeds_of_their_own_that_a_resumed_run_repeats() -> None:
    seeds = {request_seed(seed, key) for seed in range(20) for key in range(200)}
    assert len(seeds) == 4000 and all(0 <= seed < 2**63 for seed in seeds)
    assert request_seed(3, 5) == request_seed(3, 5)


def test_weights_go_out_by_a_checkpoint_s_names_with_adapters_merged(model: Any) -> None:
    plain = dict(merged(model))
    assert set(plain) == {name for name, _ in model.named_parameters()}
    pytest.importorskip("peft")
    inner = build_model(build_tokenizer(TEXTS, vocab_size=300), seed=0, layers=2, width=64)
    lora.add(inner, LoraConfig(rank=2, targets=("q_proj",)), seed=0)
    with torch.no_grad():
        for name, parameter in inner.named_parameters():
            if ".lora_B." in name:
                parameter.fill_(0.5)
    after = dict(merged(inner))
    assert set(after) == set(plain)
    name = "model.layers.0.self_attn.q_proj.weight"
    layer = inner.get_submodule("model.layers.0.self_attn.q_proj")
    expected = plain[name] + layer.get_delta_weight("default")
    assert torch.allclose(after[name], expected, atol=1e-6)
    assert torch.equal(after["model.embed_tokens.weight"], plain["model.embed_tokens.weight"])


def test_a_server_gets_weights_prompts_as_ids_and_all_that_a_sampler_can_be_told(
    server: StubServer, model: Any, tmp_path: Path
) -> None:
    made = engine(server, model, weights_dir=tmp_path)
    samples = made.generate([[4, 5], [6]], 2, range(4), Sampling(8, temperature=0.7, seed=1))
    assert [s.token_ids for s in samples] == [(7, 8)] * 4
    assert samples[0].logps.tolist() == [-0.5, -1.5]
    saved = load_file(tmp_path / "model.safetensors")
    assert set(saved) == {name for name, _ in merged(model)}
    bodies = [body for path, body in server.asked if path == "/v1/completions"]
    assert sorted(b["prompt"] for b in bodies) == [[4, 5], [4, 5], [6], [6]]
    assert {b["seed"] for b in bodies} == {request_seed(1, key) for key in range(4)}
    assert all(b["top_k"] == 0 and b["temperature"] == 0.7 and b["logprobs"] == 0 for b in bodies)


@pytest.mark.parametrize(
    ("info", "says"),
    [
        (None, "VLLM_SERVER_DEV_MODE=1"),
        (INFO | {"model_config": {"logprobs_mode": "raw_logprobs"}}, "before the temperature"),
        (INFO | {"device_config": {"device": "cpu"}}, "--no-enable-chunked-prefill"),
    ],
)
def test_a_server_that_was_started_otherwise_is_refused_with_what_to_start(
    server: StubServer, model: Any, info: Any, says: str
) -> None:
    server.info = info
    with pytest.raises(ConfigError, match=says):
        engine(server, model)


def test_a_server_that_cannot_read_the_folder_is_refused(server: StubServer, model: Any) -> None:
    server.weights_status = 500
    with pytest.raises(ConfigError, match=r"could not read weights .* engine\.weights_dir"):
        engine(server, model)


def test_a_request_that_failed_is_made_again_and_the_finished_ones_are_kept(
    server: StubServer, model: Any
) -> None:
    made = engine(server, model)
    server.completions = [(503, {}), (200, completion(token_ids=[9], finish_reason="stop"))]
    told: list[int] = []
    samples = made.generate([[4]], 2, range(2), Sampling(8), lambda places, _: told.extend(places))
    assert len(samples) == 2 and sorted(told) == [0, 1]


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((400, {"message": "no"}), ConfigError, "refused /v1/completions with HTTP 400"),
        ((200, {"choices": [{"text": "hi"}]}), ConfigError, "no token_ids"),
        ((200, completion(token_ids=[7])), RunFailed, r"failed 3 times \(1 ids, 2 log-prob"),
        ((429, {}), RunFailed, "failed 3 times"),
    ],
)
def test_an_answer_that_cannot_be_learned_from_is_never_made_up(
    server: StubServer, model: Any, answer: Any, error: Any, says: str
) -> None:
    made = engine(server, model)
    server.completions = [answer] * 6
    with pytest.raises(error, match=says):
        made.generate([[4]], 1, [0], Sampling(8))


def test_a_server_that_stays_away_ends_the_run_with_its_checkpoint(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_server, "PATIENCE_S", 0.2)
    gone = StubServer()
    gone.close()
    with pytest.raises(RunFailed, match=r"did not come back .* checkpoint is intact"):
        engine(gone, model)
