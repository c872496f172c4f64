"""The worker's packages: pinned, from no named host, installed once however many ask."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from botgrpo.sandbox import backends, install
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import SandboxUnavailable


def test_the_lock_file_pins_every_package_and_names_no_registry() -> None:
    text = (install.WORKER / "package-lock.json").read_text()
    assert "resolved" not in text and not re.search(r"https?://", text)
    packages = json.loads(text)["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)
    asked = json.loads((install.WORKER / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in asked.values())


def test_every_file_of_the_worker_decides_the_name_of_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(install.WORKER, tmp_path / "worker")
    before = install.content_hash()
    monkeypatch.setattr(install, "WORKER", tmp_path / "worker")
    assert install.content_hash() == before
    for file in sorted((tmp_path / "worker").iterdir()):
        kept = file.read_bytes()
        file.write_bytes(kept + b" ")
        assert install.content_hash() != before, file.name
        file.write_bytes(kept)


def test_the_cache_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path))
    assert install.cache_dir() == tmp_path


def test_a_new_worker_removes_old_folders_but_none_in_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fake(home: Path) -> None:
        (home / "node_modules").mkdir(parents=True)

    def aged(name: str, days: int) -> Path:
        fake(tmp_path / name)
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
        return tmp_path / name

    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path))
    monkeypatch.setattr(install, "_install", fake)
    monkeypatch.setattr(install, "_held", {})
    monkeypatch.setattr(install, "content_hash", lambda: "held")
    held = aged("worker-held", 40)
    assert install.worker_home() == held
    assert time.time() - held.stat().st_mtime < 60  # touched, since it is used
    os.utime(held, (0, 0))  # as long ago as can be: now only the lock speaks for it
    gone = [aged("worker-old", 31), aged("packages-old", 31), aged("worker-new-x", 31)]
    kept = [aged("worker-young", 29), aged("packages-young", 29), aged("models", 99), held]
    monkeypatch.setattr(install, "content_hash", lambda: "now")
    assert install.worker_home() == tmp_path / "worker-now"
    assert [each for each in gone if each.exists()] == []
    assert [each for each in kept if not each.exists()] == []


@pytest.mark.slow
def test_processes_that_install_at_once_get_one_whole_folder(tmp_path: Path) -> None:
    code = "from botgrpo.sandbox.install import worker_home; print(worker_home())"
    dev = str(Path(__file__).parents[1] / ".dev")
    path = str(Path(shutil.which("node") or "/usr/bin/node").parent)
    env = {"PYTHONPATH": dev, "PATH": f"{path}:/usr/bin:/bin", "BOTGRPO_CACHE": str(tmp_path)}
    env["HOME"] = str(Path.home())
    racers = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    homes = {racer.communicate()[0].strip() for racer in racers}
    assert len(homes) == 1
    assert (Path(homes.pop()) / "node_modules" / "esbuild").is_dir()
    assert not list(tmp_path.glob("worker-new-*"))


def test_without_node_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    install.find_node.cache_clear()
    with pytest.raises(SandboxUnavailable, match="Install Node"):
        install.find_node()
    install.find_node.cache_clear()


def test_where_nothing_isolates_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(words: str) -> None:
        raise SandboxUnavailable(words)

    monkeypatch.setattr(Docker, "check", lambda self: refuse("no engine: start Docker"))
    monkeypatch.setattr(Bubblewrap, "check", lambda self: refuse("allow user namespaces"))
    with pytest.raises(SandboxUnavailable) as caught:
        backends.auto(DEFAULT_LIMITS)
    assert "start Docker" in str(caught.value) and "user namespaces" in str(caught.value)
