"""Containers: hardened as read back from the engine, replaced when lost, never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox import docker
from botgrpo.sandbox.base import DEFAULT_LIMITS, Limits
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler

pytestmark = pytest.mark.docker
GOOD = "export default () => <p>x</p>;"
LABEL = "botgrpo.worker"


@pytest.fixture
def engine() -> Iterator[Any]:
    try:
        client = docker.connect()
    except SandboxUnavailable as error:
        pytest.skip(f"docker: {error}")
    yield client
    client.close()


def workers(engine: Any, pid: int) -> list[Any]:
    found = engine.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    return [each for each in found if f"/{pid}-" in each.labels[LABEL]]


def held(engine: Any) -> set[str]:
    """Containers of this process; other tests' shared compiler may hold one until its end."""
    return {each.id for each in workers(engine, os.getpid())}


def test_the_engine_confirms_every_wall(engine: Any) -> None:
    others = held(engine)
    compiler = ReactCompiler("docker")
    assert asyncio.run(compiler.compile(GOOD)).status == "ok"
    (worker,) = (w for w in workers(engine, os.getpid()) if w.id not in others)
    host, config = worker.attrs["HostConfig"], worker.attrs["Config"]
    compiler.close()
    assert host["NetworkMode"] == "none" and not host["Binds"] and not host["Privileged"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == DEFAULT_LIMITS.memory_mib << 20
    assert host["PidsLimit"] == DEFAULT_LIMITS.pids
    assert host["LogConfig"]["Type"] == "none" and host["IpcMode"] == "private" and host["Init"]
    assert config["User"] == "65534:65534" and not config["Tty"]
    named = {entry.split("=")[0] for entry in config["Env"]}
    assert named <= {"PATH", "NODE_VERSION", "YARN_VERSION"}
    assert held(engine) == others


@pytest.mark.kill
def test_a_container_killed_in_mid_run_is_replaced_and_the_candidate_judged(engine: Any) -> None:
    others = held(engine)
    compiler = ReactCompiler("docker")

    async def main() -> list[str]:
        await compiler.compile(GOOD)
        (worker,) = (w for w in workers(engine, os.getpid()) if w.id not in others)
        threading.Timer(0.05, worker.kill).start()
        jobs = [compiler.compile(f"{GOOD}//{i}") for i in range(60)]
        return [each.status for each in await asyncio.gather(*jobs)]

    try:
        assert asyncio.run(main()) == ["ok"] * 60
    finally:
        compiler.close()
    assert held(engine) == others


def test_closing_returns_though_nobody_reads_a_flood(engine: Any) -> None:
    made = Docker(DEFAULT_LIMITS)
    made.check()
    link = made.launch(["node", "-e", "for (;;) process.stdout.write('x'.repeat(65536))"])
    time.sleep(0.5)
    started = time.monotonic()
    link.close()
    made.close()
    assert time.monotonic() - started < 5


def test_containers_of_a_dead_process_are_swept(engine: Any) -> None:
    code = (
        "import asyncio, sys, time\nfrom botgrpo.sandbox.react import ReactCompiler\n"
        f"asyncio.run(ReactCompiler('docker').compile({GOOD!r}))\nprint('up', flush=True)\n"
        "time.sleep(60)"
    )
    dev = str(Path(__file__).parents[1] / ".dev")
    env = {**os.environ, "PYTHONPATH": dev}
    maker = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
    assert maker.stdout is not None and maker.stdout.readline() == b"up\n"
    assert len(workers(engine, maker.pid)) == 1
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    made = Docker(DEFAULT_LIMITS)
    made.check()
    made.close()
    assert workers(engine, maker.pid) == []


def test_descriptors_do_not_grow_with_containers(engine: Any) -> None:
    def cycle() -> int:
        compiler = ReactCompiler("docker", limits=Limits(candidates=1))
        for i in range(3):
            assert asyncio.run(compiler.compile(f"{GOOD}//{i}")).status == "ok"
        compiler.close()
        return len(os.listdir("/proc/self/fd"))

    before = cycle()
    assert cycle() <= before


def test_connections_do_not_grow_with_the_containers_of_one_pool(engine: Any) -> None:
    compiler = ReactCompiler("docker", limits=Limits(candidates=1))

    def after(first: int, last: int) -> int:
        for i in range(first, last):
            assert asyncio.run(compiler.compile(f"{GOOD}//{i}")).status == "ok"
        return len(os.listdir("/proc/self/fd"))

    before = after(0, 2)
    assert after(2, 8) <= before
    compiler.close()
