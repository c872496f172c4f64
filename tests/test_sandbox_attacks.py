"""The attack suite on the backends of this machine, and that it can fail."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from botgrpo.sandbox import attacks, cgroup
from botgrpo.sandbox.base import DEFAULT_LIMITS, Backend, Limits
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler

BOMB = "const hold = []; for (;;) hold.push(Buffer.alloc(1 << 24, 1));"


def backend(name: str, limits: Limits = DEFAULT_LIMITS) -> Backend:
    made: Backend = Docker(limits) if name == "docker" else Bubblewrap(limits)
    try:
        made.check()
    except SandboxUnavailable as error:
        made.close()
        pytest.skip(f"{name}: {error}")
    return made


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def walls(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    backend(name).close()
    return name


def test_no_attack_on_the_compiler_succeeds(walls: str) -> None:
    outcomes = list(attacks.run(walls, "A"))
    assert {outcome.id for outcome in outcomes} == {f"A{n}" for n in range(1, 17)}
    assert [outcome for outcome in outcomes if outcome.held is False] == []
    # What bubblewrap has no means against is said, and docker has no such gap.
    gaps = {outcome.id for outcome in outcomes if outcome.held is None}
    assert gaps == ({"A3", "A15"} if walls == "bubblewrap" else set())


@pytest.mark.browser
def test_no_hostile_page_succeeds(walls: str) -> None:
    outcomes = list(attacks.run(walls, "B"))
    assert {outcome.id for outcome in outcomes} >= {f"B{n}" for n in range(1, 16) if n != 13}
    assert [outcome for outcome in outcomes if outcome.held is not True] == []


def test_the_attack_suite_can_fail() -> None:
    outcomes = list(attacks.run("unsafe"))
    assert [outcome.name for outcome in outcomes if outcome.held is False] == [
        "reading secrets, from inside"
    ]
    assert {outcome.seen for outcome in outcomes if outcome.held is None} == {
        "nothing isolates here"
    }


@pytest.mark.parametrize(("held", "status"), [(True, 0), (None, 0), (False, 1)])
def test_one_attack_that_succeeds_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    held: bool | None,
    status: int,
) -> None:
    outcome = attacks.Outcome("A1", "a fork bomb", "a limit", held, "seen")
    monkeypatch.setattr(attacks, "run", lambda backend: iter([outcome]))
    assert attacks.main("docker") == status
    assert "A1   a fork bomb" in capsys.readouterr().out


def test_a_source_map_comment_opens_nothing(walls: str, tmp_path: Path) -> None:
    canary = tmp_path / "map.json"
    canary.write_text("canary-5e1f0c")
    compiler = ReactCompiler(walls)
    source = f"export default () => <p/>;\n//# sourceMappingURL={canary}"
    result = asyncio.run(compiler.compile(source))
    compiler.close()
    assert result.status == "ok" and "5e1f0c" not in repr(result)


def test_a_worker_has_no_capability_and_can_gain_none(walls: str) -> None:
    made = backend(walls)
    link = made.launch(["node", "-e", "console.log(1); setTimeout(() => {}, 20000)"])
    try:
        link.read(time.monotonic() + 20)
        found = 0
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                command = (status.parent / "cmdline").read_bytes()
                text = status.read_text()
                if command.startswith(b"node\0-e\0console.log(1)"):
                    found += 1
                    assert "CapEff:\t0000000000000000" in text
                    assert "CapBnd:\t0000000000000000" in text
                    assert "NoNewPrivs:\t1" in text
        assert found == 1
    finally:
        link.close()
        made.close()


def test_a_memory_bomb_is_called_oom(walls: str) -> None:
    if walls == "bubblewrap":
        group = cgroup.make(64, 64)
        if group is None:
            pytest.skip("no cgroup can be made here: see the test of limits without them")
        group.remove()
    made = backend(walls, Limits(memory_mib=200))
    link = made.launch(["node", "-e", BOMB])
    try:
        with pytest.raises(EOFError):
            link.read(time.monotonic() + 20)
    finally:
        assert link.close() == "oom"
        made.close()


def test_without_cgroups_each_process_is_bounded_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "make", lambda memory_mib, pids: None)
    made = backend("bubblewrap", Limits(memory_mib=400))
    assert "each process" in made.describe()["limits"]
    link = made.launch(["node", "-e", f"console.log(1); setTimeout(() => {{ {BOMB} }}, 500)"])
    deadline = time.monotonic() + 20
    try:
        link.read(deadline)
        with pytest.raises(EOFError):
            link.read(deadline)
    finally:
        assert link.close() == "crash"
        made.close()
    compiler = ReactCompiler("bubblewrap", limits=Limits(memory_mib=400))
    result = asyncio.run(compiler.compile("export default () => <p/>;"))
    compiler.close()
    assert result.status == "ok"
