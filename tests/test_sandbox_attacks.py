"""The attack suite on the backends of this machine, and that it can fail."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox import attacks, attacks_pages, cgroup
from botgrpo.sandbox.base import DEFAULT_LIMITS, Backend, Limits
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.inspection import CHECKS, Blemish, Check, Inspection, State
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
    assert {outcome.id for outcome in outcomes} >= {f"B{n}" for n in range(1, 17) if n != 13}
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


SEEN = {name: Check(0, 2) for name in CHECKS}
FORGED = attacks_pages._Page(
    "B16", "n", "d", look=True, bad={"contrast": 1}, reads="seen", lacks="secret"
)


def looked(text: str = "seen", place: tuple[int, int] | None = None, **changed: Any) -> Inspection:
    checks = {**SEEN, "contrast": Check(1, 2, (Blemish("pale", place),))}
    return Inspection(True, State(text, changed.get("roles", ())), {}, checks)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (looked(), ""),
        (looked(place=(1, 1)), ""),
        (None, "not looked at"),
        (Inspection(False), "not looked at"),
        (Inspection(True, State("seen"), {}, SEEN), "counted {'contrast': 0}"),
        (looked("seen secret"), "it reads 'seen secret'"),
        (looked(place=(99, 1)), "it blames 99:1, which is nowhere"),
        (looked(place=(1, 999)), "it blames 1:999, which is nowhere"),
        (looked(roles=(("button", "x" * 101),)), "no end"),
    ],
)
def test_a_forged_look_is_found_out(seen: Inspection | None, said: str) -> None:
    found = attacks_pages._misread(FORGED, seen)
    assert said in found and bool(found) == bool(said)


def test_what_react_visual_meets_is_in_the_list() -> None:
    looks = [page for page in attacks_pages.pages() if page.look]
    assert len(looks) >= 20 and {page.id for page in looks} == {"B16"}
    assert sum(bool(page.click) for page in looks) >= 5
    assert sum(bool(page.bad) for page in looks) >= 9
