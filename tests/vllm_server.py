"""A real vLLM on the CPU, from the environment that `make env-vllm` makes."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1] / ".envs/vllm/bin/python"
START_S = 600
# Under a schema that allows white space a small model writes nothing else, up to its length limit.
NO_BLANKS = '{"backend": "xgrammar", "disable_any_whitespace": true}'


@contextmanager
def serving(model: Path, name: str, folder: Path, options: Sequence[str] = ()) -> Iterator[str]:
    """The url of a server of the model in `model`, called `name`; its log goes into `folder`."""
    if not PYTHON.exists():
        pytest.skip("no vLLM in .envs/vllm; next: make env-vllm")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", name, "--host", "127.0.0.1", "--port", port]
    command += ["--dtype", "bfloat16", "--enforce-eager"]
    command += ["--structured-outputs-config", NO_BLANKS, *options]
    environment = {
        **os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }  # fmt: skip
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        try:
            _wait(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(60)


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(1)
    pytest.fail(f"vLLM did not start: {log.read_text(errors='replace')[-2000:]}")
