"""Groups under cgroup v2, on a hierarchy that follows the kernel's rules, and the rules themselves.

The fake stands for kernels that this machine does not have; the last test holds it to the real one.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox import cgroup

LIMITS = {
    "memory": ("memory.max", "memory.swap.max", "memory.events"),
    "pids": ("pids.max", "pids.current"),
    "hugetlb": ("hugetlb.2MB.max",),
}
_mkdir, _rmdir, _write = Path.mkdir, Path.rmdir, Path.write_text


class Kernel:
    """A v2 hierarchy in a folder: what mkdir, rmdir and a write do there."""

    def __init__(self, root: Path, controllers: str) -> None:
        self.root = root
        _mkdir(root)
        self._files(root, controllers)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def inside(path: Path) -> bool:
            return path.is_relative_to(self.root)

        def mkdir(path: Path, *args: Any, exist_ok: bool = False, **kwargs: Any) -> None:
            _mkdir(path, *args, exist_ok=exist_ok, **kwargs)
            if inside(path) and not (path / "cgroup.procs").exists():
                self._files(path, (path.parent / "cgroup.subtree_control").read_text())

        def rmdir(path: Path) -> None:
            if not inside(path):
                return _rmdir(path)
            if (path / "cgroup.procs").read_text() or any(each.is_dir() for each in path.iterdir()):
                raise OSError(errno.EBUSY, "busy")
            return shutil.rmtree(path)

        def write(path: Path, text: str, *args: Any, **kwargs: Any) -> int:
            if not inside(path):
                return _write(path, text, *args, **kwargs)
            if not path.exists():
                raise PermissionError(errno.EACCES, "nobody makes a file here")
            if path.name == "cgroup.subtree_control":
                return self._control(path, text)
            if path.name == "cgroup.procs":
                return self._move(path, text)
            return _write(path, text)

        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(Path, "rmdir", rmdir)
        monkeypatch.setattr(Path, "write_text", write)

    def hold(self, group: Path, *pids: str) -> None:
        _write(group / "cgroup.procs", "".join(f"{pid}\n" for pid in pids))

    def _files(self, group: Path, controllers: str) -> None:
        _write(group / "cgroup.controllers", controllers)
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            _write(group / name, "")
        for controller in controllers.split() if group != self.root else ():
            for name in LIMITS[controller]:
                _write(group / name, "max")

    def _control(self, file: Path, text: str) -> int:
        names = [word.removeprefix("+") for word in text.split()]
        if not set(names) <= set((file.parent / "cgroup.controllers").read_text().split()):
            raise FileNotFoundError(errno.ENOENT, "no such controller here")
        if (file.parent / "cgroup.procs").read_text():  # the root of a container; see `_own_v2`
            raise OSError(errno.EBUSY, "no internal processes")
        _write(file, " ".join(sorted({*file.read_text().split(), *names})))
        for group in (each for each in file.parent.iterdir() if each.is_dir()):
            _write(group / "cgroup.controllers", file.read_text())
        return len(text)

    def _move(self, file: Path, pid: str) -> int:
        for procs in self.root.rglob("cgroup.procs"):
            _write(procs, "".join(f"{p}\n" for p in procs.read_text().split() if p != pid))
        _write(file, f"{file.read_text()}{pid}\n")
        return len(pid)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    def forget() -> None:
        cgroup._places.cache_clear()
        cgroup._own_v2.cache_clear()

    forget()
    yield
    forget()


def kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, controllers: str = "memory pids"
) -> Kernel:
    made = Kernel(tmp_path / "cgroup", controllers)
    made.install(monkeypatch)
    _write(tmp_path / "self", f"0::/{own}\n")
    monkeypatch.setattr(cgroup, "_ROOT", made.root)
    monkeypatch.setattr(cgroup, "_SELF", tmp_path / "self")
    return made


def delegated(made: Kernel, monkeypatch: pytest.MonkeyPatch, own: str) -> Path:
    """`own` is ours as systemd hands it over, with our process in it; what is above is root's."""
    here = made.root
    for part in own.split("/"):
        (here / "cgroup.subtree_control").write_text("+memory +pids")
        here = here / part
        here.mkdir()
    closed = [str(each / "cgroup.procs") for each in (made.root, *here.parents)]
    access = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: str(p) not in closed and access(p, mode))
    made.hold(here, "41", "42")
    return here


def test_root_gets_a_group_below_the_root_with_both_limits_and_no_swap(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = kernel(monkeypatch, tmp_path, "")
    group = cgroup.make(64, 10)
    assert group is not None and [each.parent for each in group.folders] == [made.root]
    (folder,) = group.folders
    assert (folder / "memory.max").read_text() == str(64 << 20)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "10"
    assert (made.root / "cgroup.subtree_control").read_text() == "memory pids"
    group.remove()
    assert not folder.exists()


def test_a_delegated_group_is_emptied_into_a_leaf_before_it_hands_limits_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = "user.slice/user-7.slice/run-1.scope"
    made = kernel(monkeypatch, tmp_path, own)
    here = delegated(made, monkeypatch, own)
    group = cgroup.make(64, 10)
    assert group is not None and group.folders[0].parent == here
    assert (here / "botgrpo-rest" / "cgroup.procs").read_text().split() == ["41", "42"]
    assert (here / "cgroup.procs").read_text() == ""
    assert (group.folders[0] / "pids.max").read_text() == "10"
    again = cgroup.make(64, 10)
    assert again is not None and again.folders[0].parent == here


def test_a_process_that_starts_in_the_leaf_makes_its_groups_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = "user.slice/user-7.slice/run-1.scope"
    made = kernel(monkeypatch, tmp_path, own)
    here = delegated(made, monkeypatch, own)
    assert cgroup.make(64, 10) is not None
    cgroup._places.cache_clear()
    cgroup._own_v2.cache_clear()
    _write(tmp_path / "self", f"0::/{own}/botgrpo-rest\n")
    group = cgroup.make(64, 10)
    assert group is not None and group.folders[0].parent == here


def test_the_writable_hierarchy_of_a_container_is_emptied_at_its_own_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = kernel(monkeypatch, tmp_path, "")
    made.hold(made.root, "1", "7")
    group = cgroup.make(64, 10)
    assert group is not None and group.folders[0].parent == made.root
    assert (made.root / "botgrpo-rest" / "cgroup.procs").read_text().split() == ["1", "7"]


def test_a_session_that_is_not_delegated_gets_no_group_and_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = "user.slice/user-7.slice/session-3.scope"
    made = kernel(monkeypatch, tmp_path, own)
    here = delegated(made, monkeypatch, own)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cgroup.make(64, 10) is None
    assert (here / "cgroup.procs").read_text().split() == ["41", "42"]
    assert [each for each in here.iterdir() if each.is_dir()] == []


def test_nothing_moves_where_a_controller_was_not_delegated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = kernel(monkeypatch, tmp_path, "", controllers="pids")
    made.hold(made.root, "1")
    assert cgroup.make(64, 10) is None
    assert (made.root / "cgroup.procs").read_text().split() == ["1"]
    assert [each for each in made.root.iterdir() if each.is_dir()] == []


def test_an_own_path_outside_the_mounted_hierarchy_is_not_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = kernel(monkeypatch, tmp_path, "../../other")
    made.hold(made.root, "1")  # somebody else's: a busy root that is not our group stays as it is
    assert cgroup.make(64, 10) is None
    assert not (tmp_path / "other").exists()


def test_the_kernels_count_of_kills_is_read_and_no_other_line(tmp_path: Path) -> None:
    lines = "low 0\nhigh 3\nmax 12\noom 2\noom_kill 1\noom_group_kill 9\n"
    (tmp_path / "memory.events").write_text(lines)
    assert cgroup.Cgroup((tmp_path,)).oom_kills() == 1


def test_only_groups_of_dead_makers_are_swept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = kernel(monkeypatch, tmp_path, "")
    mine = cgroup.make(64, 10)
    names = ("botgrpo-1-0-5", "botgrpo-rest", "botgrpo-a-b-c-d", "other-1-0-5")
    for name in names:
        (made.root / name).mkdir()
    assert cgroup.sweep() == 1
    assert mine is not None and mine.folders[0].exists()
    assert [name for name in names if (made.root / name).exists()] == list(names[1:])


def test_the_fake_follows_the_rules_of_the_real_kernel(tmp_path: Path) -> None:
    """On whatever v2 hierarchy there is, with a controller of it that nobody uses."""
    for root in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")):
        control = root / "cgroup.subtree_control"
        if control.exists() and os.access(control, os.W_OK):
            offered = set((root / "cgroup.controllers").read_text().split()) & set(LIMITS)
            break
    else:
        pytest.skip("no cgroup v2 that this user may write to: run as root")
    if not offered:
        pytest.skip("no controller of the v2 hierarchy is known here")
    name = sorted(offered)[0]
    before = name in control.read_text().split()
    here = root / f"botgrpo-test-{os.getpid()}"
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        cgroup._hand_down(root, (name,))
        here.mkdir()
        assert (here / LIMITS[name][0]).exists()
        (here / "cgroup.procs").write_text(str(sleeper.pid))
        known = {"memory", "pids", "cpu", "io", "hugetlb"}
        for absent in known - set((here / "cgroup.controllers").read_text().split()):
            with pytest.raises(FileNotFoundError):  # and not EBUSY, though here it is busy too
                (here / "cgroup.subtree_control").write_text(f"+{absent}")
        with pytest.raises(OSError) as busy:
            cgroup._hand_down(here, (name,))
        assert busy.value.errno == errno.EBUSY
        cgroup._empty(here)
        cgroup._hand_down(here, (name,))
        assert (here / "botgrpo-rest" / "cgroup.procs").read_text().split() == [str(sleeper.pid)]
        (here / "worker").mkdir()
        assert (here / "worker" / LIMITS[name][0]).exists()
    finally:
        sleeper.kill()
        sleeper.wait()
        cgroup.Cgroup((here / "worker", here / "botgrpo-rest", here)).remove()
        if not before:
            control.write_text(f"-{name}")
    assert not here.exists()
