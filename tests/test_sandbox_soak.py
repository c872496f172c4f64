"""Growth is found where there is some, and a run with hostile ones and killed workers has none."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import subprocess

import pytest

from botgrpo.sandbox import docker, soak, usage
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.corpus import Candidate
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler
from botgrpo.sandbox.soak import Soak
from botgrpo.sandbox.usage import Held

CALM = Held(20, 2, 8, 0, 6, 2, 50.0)


def test_what_stays_is_no_growth_and_neither_is_a_start_or_a_single_peak() -> None:
    helds = [dataclasses.replace(CALM, memory_mib=30.0)] * 10 + [CALM] * 40
    helds[-1] = dataclasses.replace(CALM, zombies=9, descriptors=90, memory_mib=500.0)
    assert soak.growth(helds) == []


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(Held)])
def test_each_count_that_grows_is_named(name: str) -> None:
    helds = [dataclasses.replace(CALM, **{name: getattr(CALM, name) + i}) for i in range(50)]
    (line,) = soak.growth(helds)
    assert line.startswith(f"{name} grew from")


@pytest.mark.parametrize(("candidates", "hostile"), [(10, 0.1), (100, 1.5)])
def test_a_wrong_call_is_refused(candidates: int, hostile: float) -> None:
    with pytest.raises(ConfigError, match="at least 50, and 0 to 1"):
        soak.main("unsafe", candidates, hostile)


def test_a_judged_candidate_is_right_wrong_or_lost() -> None:
    run = Soak("unsafe", 0.05, browser=False)
    good = Candidate("good", "", "ok")
    run._judge(good, "ok", "ok")
    run._judge(good, "crash", "ok")
    run._judge(Candidate("hostile: brackets", "", ""), "too_large", "")
    assert run.wrong == []
    run._judge(good, "syntax", "ok")
    run._judge(Candidate("hostile: brackets", "", ""), "link", "")
    assert run.wrong == ["good: syntax, not ok", "hostile: brackets: link, not calm"]
    assert run.counts == {"judged": 2, "lost twice (crash)": 1, "judged wrong": 2}


def test_a_zombie_is_counted_and_only_workers_that_are_not_spared_are_killed() -> None:
    others = set(usage.running())
    before = usage.held()
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    try:
        assert usage.held().processes == before.processes + 2
        spared, killed = children
        usage.kill_a_worker(random.Random(0), others | {spared.pid})
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        assert usage.held().zombies == before.zombies + 1
        assert set(usage.running()) - others == {spared.pid}
        usage.kill_a_worker(random.Random(0), others | {spared.pid})  # only the spared run
        assert spared.poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert usage.held().zombies == before.zombies


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.parametrize(
    "backend", ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)]
)
def test_hundreds_with_killed_workers_leave_nothing_behind(backend: str) -> None:
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    engine = docker.connect() if backend == "docker" else None
    bystander = ReactCompiler(backend, 1)
    bystander.describe()
    bystanders = set(usage.running(engine))
    before = usage.held(engine)
    run = Soak(backend, 0.1, browser=False)
    samples = asyncio.run(run.run(500))
    assert soak.growth([each.held for each in samples]) == [] and run.wrong == []
    assert samples[-1].candidates == 500 and run.counts["workers killed"] > 3
    done = sum(count for what, count in run.counts.items() if what != "workers killed")
    assert done == 500  # nothing is lost
    after = usage.held(engine)
    assert bystanders and bystanders <= set(usage.running(engine))  # nobody else's was killed
    asyncio.run(bystander.aclose())
    if engine:
        engine.close()
    assert (after.containers, after.processes, after.groups) == (
        before.containers,
        before.processes,
        before.groups,
    )
