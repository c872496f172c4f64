"""An engine of our own that is killed in mid-run and comes back: nothing lost, nothing scored 0."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from botgrpo.rewards import Rollout, Score
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.sandbox import docker, usage
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler


class Engine:
    """A second engine with nothing in common with the first but the machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.host = f"unix://{folder}/sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder = self._folder
        (folder / "pid").unlink(missing_ok=True)
        places = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
        places += ["--pidfile", f"{folder}/pid", "--host", self.host]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["dockerd", "--iptables=false", "--bridge=none", *places],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _ in range(300):
            try:
                docker.connect().close()
                return
            except SandboxUnavailable:
                time.sleep(0.1)
        pytest.fail("no second engine: " + (folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        # Dies with it; where init reaps late, the next engine would wait for the dead one.
        (self._folder / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Also what outlives an engine that was killed: shims, their workers, mounts."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self._folder) in (entry / "cmdline").read_text():
                    for pid in (*usage.descendants(int(entry.name)), int(entry.name)):
                        os.kill(pid, signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted(mounts, reverse=True):
            if mount.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    if os.getuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("starting an engine needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))  # a socket's path must be short
    made = Engine(folder)
    monkeypatch.setenv("DOCKER_HOST", made.host)
    monkeypatch.setattr("botgrpo.sandbox.pool._COOL_DOWN_S", 0.5)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def rollouts(count: int, mark: str) -> list[Rollout]:
    code = "```tsx\nexport default () => <p>{mark}</p>;\n```\n"
    return [Rollout(f"{i}", "g", "", code.replace("{mark}", f"{mark}{i}")) for i in range(count)]


@pytest.mark.docker
@pytest.mark.kill
@pytest.mark.slow
def test_what_an_engine_takes_with_it_is_unscored_and_judged_when_it_is_back(
    engine: Engine,
) -> None:
    compiler = ReactCompiler("docker", workers=2)
    reward = ReactCompile("docker", compiler=compiler)

    async def main() -> tuple[list[Score], list[Score]]:
        await reward.score(rollouts(4, "before "))  # the image is built, the workers are warm
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, engine.kill)
        during: list[Score] = []
        for wave in range(50):
            during += await reward.score(rollouts(20, f"wave {wave} "))
            if any(score.outcome is None for score in during):
                break
        await asyncio.to_thread(engine.start)
        await asyncio.sleep(1)
        return during, await reward.score(rollouts(20, "after "))

    try:
        during, after = asyncio.run(main())
        unscored = [score for score in during if score.outcome is None]
        assert unscored and len(during) % 20 == 0
        assert {score.outcome for score in during} <= {1.0, None}
        assert all("docker" in score.reason for score in unscored)
        assert [score.outcome for score in after] == [1.0] * 20
        client = docker.connect()
        running = [each for each in docker.own_containers(client) if each.status == "running"]
        assert len(running) <= 2
        compiler.close()
        assert docker.own_containers(client) == []
        client.close()
    finally:
        compiler.close()


@pytest.mark.docker
@pytest.mark.kill
@pytest.mark.slow
def test_an_absent_engine_costs_no_runtime_no_container_and_may_lose_its_images(
    engine: Engine,
) -> None:
    made = Docker(DEFAULT_LIMITS)
    made.check()
    made._runtimes = ["runc", "spare"]
    link = made.start()
    engine.kill()
    link.close()  # cannot be removed now
    with pytest.raises(SandboxUnavailable, match="docker"):
        made.start()
    assert made._runtimes == ["runc", "spare"]
    engine.start()
    client: Any = docker.connect()
    assert len(docker.own_containers(client)) == 1
    made.start().close()
    assert docker.own_containers(client) == []
    client.images.remove(made._image, force=True)
    made.start().close()  # builds it again
    assert docker.own_containers(client) == []
    client.close()
    made.close()


@pytest.mark.docker
def test_a_runtime_that_cannot_start_is_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Docker(DEFAULT_LIMITS)
    try:
        made.check()
    except SandboxUnavailable as error:
        pytest.skip(f"docker: {error}")
    made._runtimes = ["runtime-that-is-not-there", "runc"]
    made.start().close()
    assert made._runtimes == ["runc"]
    made.close()
