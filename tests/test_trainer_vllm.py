"""vLLM itself, in this process and as a server, on a tiny random policy. Runs in .envs/vllm."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

if importlib.util.find_spec("vllm") is None:
    pytest.skip(
        "vLLM has pins of its own; next: make env-vllm, then "
        ".envs/vllm/bin/python -m pytest tests/test_trainer_vllm.py",
        allow_module_level=True,
    )

from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer.engines import vllm_server
from botgrpo.trainer.engines.base import Sampling
from botgrpo.trainer.engines.vllm import VllmEngine
from botgrpo.trainer.engines.vllm_server import VllmServerEngine
from botgrpo.trainer.logps import Row, frozen_logps
from botgrpo.trainer.loop import Run
from botgrpo.trainer.micro import build_model, build_tokenizer, save
from botgrpo.trainer.policy import Policy, load_policy
from tiny import TEXTS, StubReward, StubTask, tiny_config

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]
PROMPTS = [list(range(5, 75)), list(range(30, 110))]  # longer than two blocks of the prefix cache
COLD = Sampling(12, temperature=0.7, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with heads of 32, the least that vLLM's attention for CPUs knows."""
    tokenizer = build_tokenizer(TEXTS, vocab_size=300)
    made = tmp_path_factory.mktemp("policy")
    save(build_model(tokenizer, seed=0, layers=2, width=128), tokenizer, made)
    return made


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    return load_policy(folder)


@pytest.fixture(scope="module")
def engine(folder: Path, policy: Policy) -> VllmEngine:
    return in_process(folder, policy)


def in_process(folder: Path, policy: Policy) -> VllmEngine:
    return VllmEngine(
        policy.model, folder, end_ids=policy.end_ids, dtype=torch.float32, memory_gib=0.1
    )


def gaps(policy: Policy, samples: Any, temperature: float) -> np.ndarray:
    """Engine's log-probabilities less the trainer's, token by token."""
    rows = [Row(PROMPTS[i // 4], s.token_ids, np.zeros(0), s.logps) for i, s in enumerate(samples)]
    logps = frozen_logps(
        policy.model, rows, pad_id=0, temperature=temperature, autocast=None, budget_tokens=4096
    )
    return np.concatenate([s.logps - x.numpy() for s, x in zip(samples, logps, strict=True)])


def check_engine(engine: Any, policy: Policy) -> None:
    """What every engine promises: seeds, ends, log-probabilities at the temperature."""
    heard: dict[int, Any] = {}

    def ended(places: Any, samples: Any) -> None:
        assert not heard.keys() & set(places)
        heard.update(zip(places, samples, strict=True))

    samples = engine.generate(PROMPTS, 4, range(8), COLD, ended)
    assert [heard[i] for i in range(8)] == samples
    again = engine.generate(PROMPTS, 4, range(8), COLD)
    assert [s.token_ids for s in again] == [s.token_ids for s in samples]
    assert len({s.token_ids for s in samples}) == 8  # a seed each
    other = engine.generate(PROMPTS, 4, range(8), Sampling(12, temperature=0.7, seed=4))
    assert [s.token_ids for s in other] != [s.token_ids for s in samples]
    assert np.abs(gaps(policy, samples, 0.7)).max() < 1e-3
    assert np.abs(gaps(policy, samples, 1.0)).max() > 0.1
    long = engine.generate(PROMPTS, 16, range(32), Sampling(200))
    assert {s.finish_reason for s in long} == {"stop", "length"}
    for s in long:
        assert not set(s.token_ids[:-1]) & set(policy.end_ids)
        assert (s.token_ids[-1] in policy.end_ids) == (s.finish_reason == "stop")
        assert s.finish_reason == "stop" or len(s.token_ids) == 200
    with pytest.raises(ConfigError, match="exceed the model's 512 positions"):
        engine.generate([[5] * 505], 1, [0], COLD)


def check_news(engine: Any, policy: Policy) -> None:
    """New weights are used after `sync`, and their log-probabilities are the trainer's."""
    before = engine.generate(PROMPTS, 4, range(8), COLD)
    kept = [p.detach().clone() for p in policy.model.parameters()]
    try:
        with torch.no_grad():
            torch.manual_seed(0)
            for p in policy.model.parameters():
                p.add_(0.05 * torch.randn_like(p))
        engine.sync()
        after = engine.generate(PROMPTS, 4, range(8), COLD)
        assert [s.token_ids for s in after] != [s.token_ids for s in before]
        assert np.abs(gaps(policy, after, 0.7)).max() < 1e-3
    finally:
        with torch.no_grad():
            for p, old in zip(policy.model.parameters(), kept, strict=True):
                p.copy_(old)
        engine.sync()
    assert [s.token_ids for s in engine.generate(PROMPTS, 4, range(8), COLD)] == [
        s.token_ids for s in before
    ]


def test_vllm_draws_what_it_says_from_the_policy(engine: VllmEngine, policy: Policy) -> None:
    check_engine(engine, policy)


def test_vllm_draws_with_the_weights_of_the_last_update(engine: VllmEngine, policy: Policy) -> None:
    check_news(engine, policy)


def test_prompts_share_their_prefix(engine: VllmEngine, policy: Policy) -> None:
    cached: list[int] = []
    step = engine.llm.llm_engine.step

    def spy() -> Any:
        done = step()
        cached.extend(o.num_cached_tokens for o in done if o.finished)
        return done

    engine.llm.llm_engine.step = spy
    try:
        engine.sync()  # nothing is cached
        engine.generate(PROMPTS, 4, range(8), COLD)
    finally:
        engine.llm.llm_engine.step = step
    assert sorted(cached) == [0, 0] + [64] * 6  # two whole blocks of each prompt, computed once


def test_vllm_leaves_the_trainer_its_threads(engine: VllmEngine) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)


def run_of(policy: Policy, out: Path, **sets: object) -> Run:
    config = tiny_config(sampling__temperature=0.8, **sets)
    return Run(config, policy, StubTask(), StubReward(), StubReward(), out)


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def check_run(folder: Path, out: Path, **sets: object) -> None:
    """The loop, through two updates and a resumption: what is drawn is what is learned from."""
    run_of(load_policy(folder), out, run__steps=2, **sets).train(resume=False)
    run_of(load_policy(folder), out, run__steps=4, **sets).train(resume=True)
    found = metrics(out)
    assert [m["step"] for m in found] == [1, 2, 3, 4]
    assert all(m["sampling/sampling_logp_difference/max"] < 1e-3 for m in found)
    assert all(m["sampling/importance_sampling_ratio/mean"] == 1 for m in found)
    assert any(m["grad_norm"] > 0 for m in found)


def test_the_loop_trains_on_what_vllm_draws(folder: Path, tmp_path: Path) -> None:
    sets = {"engine__kind": "vllm", "engine__memory_gib": 0.1, "optim__correction": "token"}
    check_run(folder, tmp_path, **sets)


class Server:
    """A vLLM server of the folder, which can be killed and started again on its port."""

    def __init__(self, folder: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.folder, self.log = folder, log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self.folder), "--dtype", "float32", "--enforce-eager"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--kv-cache-memory-bytes", str(1 << 27), "--no-enable-chunked-prefill"]
        command += ["--logprobs-mode", "processed_logprobs", "--worker-extension-cls"]
        command += ["botgrpo.trainer.engines.vllm_worker.NewWeights"]
        known = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        known |= {"VLLM_SERVER_DEV_MODE": "1", **environment}
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **known}, start_new_session=True
            )

    def wait(self) -> None:
        for _ in range(240):
            assert self.process and self.process.poll() is None, self.log.read_text()[-2000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.5)
        pytest.fail(f"vLLM did not start: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(folder, tmp_path_factory.mktemp("server") / "log")
    made.start()
    try:
        made.wait()
        yield made
    finally:
        made.kill()


def over_http(server: Server, policy: Policy) -> VllmServerEngine:
    return VllmServerEngine(policy.model, server.url, end_ids=policy.end_ids, dtype=torch.float32)


def test_a_server_draws_what_it_says_with_the_weights_that_it_is_given(
    server: Server, policy: Policy
) -> None:
    engine = over_http(server, policy)
    check_engine(engine, policy)
    check_news(engine, policy)


def test_the_loop_trains_on_what_a_server_draws(
    server: Server, folder: Path, tmp_path: Path
) -> None:
    sets = {"engine__kind": "vllm-server", "engine__url": f"'{server.url}'"}
    check_run(folder, tmp_path, optim__correction="icepop", **sets)


def test_a_server_that_comes_back_has_the_weights_again_and_one_that_stays_away_ends_the_run(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(folder)
    engine = over_http(server, policy)
    with torch.no_grad():
        for p in policy.model.parameters():
            p.mul_(1.3)
    engine.sync()
    before = engine.generate(PROMPTS, 4, range(8), COLD)
    server.kill()
    server.start()  # with the folder's weights, which are others
    after = engine.generate(PROMPTS, 4, range(8), COLD)  # waits for it
    assert [s.token_ids for s in after] == [s.token_ids for s in before]
    server.kill()
    monkeypatch.setattr(vllm_server, "PATIENCE_S", 0.5)
    with pytest.raises(RunFailed, match=r"did not come back .* go on with --resume"):
        engine.generate(PROMPTS, 4, range(8), COLD)
