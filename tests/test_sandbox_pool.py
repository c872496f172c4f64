"""Warm workers: lost ones are replaced, nobody's fault is nobody's verdict, nothing leaks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox import cgroup
from botgrpo.sandbox.base import DEFAULT_LIMITS, Limits, Link, Loss
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.pool import Pool
from botgrpo.sandbox.react import ReactCompiler

GOOD = "export default () => <p>x</p>;"


class FakeLink:
    """A worker that follows a script: for each source it answers, hangs, or is lost."""

    def __init__(self, script: list[str]) -> None:
        self.script = script
        self.closed = 0
        self.loss: Loss = "crash"
        self.nonce = ""
        self.outbox = b""
        self.seen: list[str] = []

    def write(self, data: bytes, deadline: float) -> None:
        message = json.loads(data[4:])
        if "nonce" in message:
            self.nonce = message["nonce"]
            self._reply({"nonce": self.nonce, "id": message["id"], "versions": {"node": "fake"}})
            return
        self.seen.append(message["source"])
        act = self.script.pop(0) if self.script else "ok"
        right = {"nonce": self.nonce, "id": message["id"], "status": "ok"}
        if act == "ok":
            self._reply(right)
        elif act == "forged nonce":
            self._reply({**right, "nonce": "0" * 32})
        elif act == "old id":
            self._reply({**right, "id": "0" * 16})
        elif act == "not json":
            self.outbox += struct.pack(">I", 2) + b"{]"
        elif act == "endless":
            self.outbox += struct.pack(">I", 2**31)
        elif act in ("oom", "crash"):
            self.loss = act  # type: ignore[assignment]
            self.outbox = b"EOF"
        elif act == "grown":
            self._reply({**right, "peak_mib": 0.8 * DEFAULT_LIMITS.memory_mib})
        elif act == "slow":
            time.sleep(0.2)
            self._reply(right)
        elif act != "hang":
            raise AssertionError(act)

    def read(self, deadline: float) -> bytes:
        if self.outbox == b"EOF":
            raise EOFError
        if not self.outbox:
            raise TimeoutError
        data, self.outbox = self.outbox, b""
        return data

    def alive(self) -> bool:
        return not self.closed

    def last_words(self) -> str:
        return ""

    def close(self) -> Loss:
        self.closed += 1
        return self.loss

    def _reply(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        self.outbox += struct.pack(">I", len(body)) + body


class FakeBackend:
    name = "fake"

    def __init__(self, *scripts: list[str]) -> None:
        self.scripts = list(scripts)
        self.links: list[FakeLink] = []
        self.refuse = 0

    def check(self) -> None: ...

    def start(self) -> Link:
        if self.refuse:
            self.refuse -= 1
            raise SandboxUnavailable("no room")
        self.links.append(FakeLink(self.scripts.pop(0) if self.scripts else []))
        return self.links[-1]

    def launch(self, command: Sequence[str]) -> Link:
        raise NotImplementedError

    def close(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.fixture
def pools() -> Iterator[list[Pool]]:
    made: list[Pool] = []
    yield made
    for pool in made:
        pool.close()


def pool_of(pools: list[Pool], backend: FakeBackend, workers: int = 1, **limits: Any) -> Pool:
    pools.append(Pool(lambda: backend, workers, Limits(**limits)))
    return pools[-1]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("hang", "ok", ""),
        ("oom", "ok", ""),
        ("crash", "ok", ""),
        ("hang", "hang", "timeout"),
        ("oom", "oom", "oom"),
        ("crash", "crash", "crash"),
        ("oom", "crash", "infra_error"),
        ("hang", "oom", "infra_error"),
        ("forged nonce", "ok", ""),
        ("old id", "ok", ""),
        ("not json", "ok", ""),
        ("endless", "ok", ""),
    ],
)
def test_a_loss_counts_only_if_a_fresh_worker_repeats_it(
    pools: list[Pool], first: str, second: str, verdict: str
) -> None:
    backend = FakeBackend([first], [second])
    attempted = pool_of(pools, backend).submit({"source": "x"}).result(10)
    assert attempted.loss == verdict
    assert (attempted.reply is None) == bool(verdict)
    assert len(backend.links) == 2 and backend.links[0].closed


def test_a_worker_is_replaced_after_so_many_candidates(pools: list[Pool]) -> None:
    backend = FakeBackend()
    pool = pool_of(pools, backend, candidates=3)
    for i in range(7):
        pool.submit({"source": str(i)}).result(10)
    assert [link.seen for link in backend.links] == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


def test_a_worker_that_has_grown_is_replaced_before_it_fails_a_candidate(pools: list[Pool]) -> None:
    backend = FakeBackend(["ok", "grown"])
    pool = pool_of(pools, backend)
    for name in "abc":
        assert pool.submit({"source": name}).result(10).loss == ""
    assert [link.seen for link in backend.links] == [["a", "b"], ["c"]]


def test_a_forked_child_is_refused_and_does_not_wait(pools: list[Pool]) -> None:
    pool = pool_of(pools, FakeBackend())
    pool.submit({"source": "a"}).result(10)
    child = os.fork()
    if child == 0:
        try:
            pool.submit({"source": "b"})
        except SandboxUnavailable:
            os._exit(3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert pool.submit({"source": "c"}).result(10).loss == ""


def test_a_worker_that_died_while_idle_is_not_handed_out(pools: list[Pool]) -> None:
    backend = FakeBackend()
    pool = pool_of(pools, backend)
    pool.submit({"source": "a"}).result(10)
    backend.links[0].closed = 1
    assert pool.submit({"source": "b"}).result(10).loss == ""
    assert [link.seen for link in backend.links] == [["a"], ["b"]]


def test_waiting_in_the_queue_costs_no_deadline(pools: list[Pool]) -> None:
    backend = FakeBackend(["slow"] * 5)
    pool = pool_of(pools, backend, wall_s=0.3)
    results = [each.result(10) for each in [pool.submit({"source": str(i)}) for i in range(5)]]
    assert [each.loss for each in results] == [""] * 5
    assert len(backend.links) == 1


def test_workers_that_do_not_start_are_unavailable_and_may_come_back(
    pools: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botgrpo.sandbox.pool._COOL_DOWN_S", 0.05)
    backend = FakeBackend()
    backend.refuse = 1
    pool = pool_of(pools, backend)
    with pytest.raises(SandboxUnavailable, match="no room"):
        pool.submit({"source": "a"}).result(10)
    with pytest.raises(SandboxUnavailable, match="no room"):  # at once, without another attempt
        pool.submit({"source": "a"}).result(10)
    time.sleep(0.1)
    assert pool.submit({"source": "a"}).result(10).loss == ""


def test_a_closed_pool_refuses_and_has_killed_its_workers(pools: list[Pool]) -> None:
    backend = FakeBackend()
    pool = pool_of(pools, backend)
    pool.submit({"source": "a"}).result(10)
    pool.close()
    assert backend.links[0].closed
    with pytest.raises(SandboxUnavailable):
        pool.submit({"source": "b"})


# Real workers from here on.


@pytest.fixture
def real() -> Iterator[ReactCompiler]:
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    compiler = ReactCompiler("bubblewrap", workers=2)
    yield compiler
    compiler.close()


def children() -> list[int]:
    found = []
    for listing in Path("/proc/self/task").glob("*/children"):
        found += [int(pid) for pid in listing.read_text().split()]
    return found


@pytest.mark.kill
def test_a_worker_killed_in_mid_run_is_replaced_and_the_candidate_judged(
    real: ReactCompiler,
) -> None:
    async def main() -> list[str]:
        before = set(children())
        await real.compile(GOOD)
        (worker,) = set(children()) - before
        threading.Timer(0.05, os.kill, (worker, signal.SIGKILL)).start()
        jobs = [real.compile(f"{GOOD}//{i}") for i in range(60)]
        return [each.status for each in await asyncio.gather(*jobs)]

    assert asyncio.run(main()) == ["ok"] * 60


@pytest.mark.kill
def test_a_worker_that_hangs_is_killed_at_the_deadline() -> None:
    compiler = ReactCompiler("bubblewrap", limits=Limits(wall_s=0.5))

    async def main() -> str:
        before = set(children())
        await compiler.compile(GOOD)
        (worker,) = set(children()) - before
        stopped = [worker]
        while stopped:
            pid = stopped.pop()
            stopped += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            os.kill(pid, signal.SIGSTOP)
        return (await compiler.compile(f"{GOOD}//again")).status

    try:
        started = time.monotonic()
        assert asyncio.run(main()) == "ok"  # by the second, fresh worker
        assert time.monotonic() - started < 10
    finally:
        compiler.close()


def test_a_cancelled_call_leaves_the_next_one_unharmed(real: ReactCompiler) -> None:
    async def main() -> str:
        jobs = [asyncio.create_task(real.compile(f"{GOOD}//{i}")) for i in range(20)]
        await asyncio.sleep(0.01)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        return (await real.compile(f"{GOOD}//after")).status

    assert asyncio.run(main()) == "ok"


def test_calls_for_one_source_share_the_work(
    real: ReactCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[Any] = []
    submit = real._pool.submit
    monkeypatch.setattr(real._pool, "submit", lambda s: (submitted.append(s), submit(s))[1])
    source = "export default () => <p>asked by two rewards</p>;"

    async def main() -> None:
        results = await asyncio.gather(*(real.compile(source) for _ in range(5)))
        assert {r.status for r in results} == {"ok"}

    asyncio.run(main())
    assert submitted == [{"source": source}]


def test_who_waits_for_anothers_work_is_not_cancelled_with_it(real: ReactCompiler) -> None:
    async def main() -> None:
        source = "export default () => <p>asked first by one who gives up</p>;"
        busy = asyncio.create_task(real.compile("export default () => <p>before it</p>;"))
        first = asyncio.create_task(real.compile(source))
        second = asyncio.create_task(real.compile(source))
        third = asyncio.create_task(real.compile(source))
        await asyncio.sleep(0)
        first.cancel()
        third.cancel()
        assert (await second).status == "ok"
        assert (await busy).status == "ok"
        for gone in (first, third):
            with pytest.raises(asyncio.CancelledError):
                await gone

    asyncio.run(main())


def test_two_hundred_candidates_on_two_workers_each_get_their_own_verdict(
    real: ReactCompiler,
) -> None:
    sources = {
        "ok": GOOD,
        "syntax": "export default () => <p>;",
        "resolve": "import x from 'x'; export default () => <p>{x}</p>;",
        "no_default_export": "const a = 1;",
    }

    async def main() -> list[tuple[str, str]]:
        wanted = [name for _ in range(50) for name in sources]
        jobs = [real.compile(f"{sources[name]}//{i}") for i, name in enumerate(wanted)]
        return list(zip(wanted, [each.status for each in await asyncio.gather(*jobs)], strict=True))

    pairs = asyncio.run(main())
    assert len(pairs) == 200
    assert all(wanted == got for wanted, got in pairs)


def test_descriptors_children_and_cgroups_do_not_grow() -> None:
    def count() -> tuple[int, int, int]:
        own = f"botgrpo-{os.getpid()}-*"
        groups = len(list(Path("/sys/fs/cgroup").glob(own)))
        groups += len(list(Path("/sys/fs/cgroup/memory").glob(own)))
        return len(os.listdir("/proc/self/fd")), len(children()), groups

    def cycle() -> None:
        compiler = ReactCompiler("bubblewrap", limits=Limits(candidates=2))
        for i in range(5):
            assert asyncio.run(compiler.compile(f"{GOOD}//{i}")).status == "ok"
        compiler.close()

    cycle()
    before = count()
    for _ in range(3):
        cycle()
    assert count() == before


def test_groups_of_a_dead_maker_are_swept() -> None:
    group = cgroup.make(64, 64)
    if group is None:
        pytest.skip("no cgroup can be made here")
    stale = []
    for folder in group.folders:
        _, _, _, number = folder.name.split("-")
        stale.append(folder.rename(folder.with_name(f"botgrpo-1-0-{number}")))
    cgroup.sweep()
    assert not any(folder.exists() for folder in stale)
