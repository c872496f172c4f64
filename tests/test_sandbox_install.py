"""The worker's packages: pinned, from no named host, installed once however many ask."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo.sandbox import backends, install
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.doctor import report
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


def test_the_doctor_gives_a_reason_for_all_and_advice_for_what_is_missing() -> None:
    found = report()
    assert [check.name for check in found.checks][-1] == "auto"
    assert all(check.why for check in found.checks)
    assert all(check.next for check in found.checks if not check.ok)
    assert found.backend in ("docker", "bubblewrap", None)
