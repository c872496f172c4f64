"""Which Chromium is taken, and what goes into the walls with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from botgrpo.sandbox import chromium
from botgrpo.sandbox.errors import SandboxUnavailable

ELF = b"\x7fELF"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any browser; its folder for those that `playwright install` brings."""
    monkeypatch.delenv("BOTGRPO_CHROMIUM", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.setattr(chromium, "_FOLDERS", (str(tmp_path / "lib"),))
    monkeypatch.setattr(chromium.shutil, "which", lambda name: None)
    return tmp_path


def put(path: Path, content: bytes = ELF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_without_any_it_says_how_to_get_one(bare: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"apt-get install[^;]*; .*playwright install"):
        chromium.find_chromium()


def test_the_one_that_playwright_installed_comes_before_the_systems(bare: Path) -> None:
    system = put(bare / "lib" / "chromium")
    assert chromium.find_chromium() == system
    ours = put(bare / "browsers" / "chromium_headless_shell-1255" / "linux64" / "headless_shell")
    assert chromium.find_chromium() == ours


def test_a_headless_shell_comes_before_the_whole_browser(bare: Path) -> None:
    put(bare / "lib" / "chromium")
    shell = put(bare / "lib" / "chromium-headless-shell")
    assert chromium.find_chromium() == shell


def test_the_named_one_wins_and_a_script_leads_to_what_it_starts(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = put(bare / "lib" / "chromium")
    named = put(bare / "mine" / "my-build")
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(named))
    assert chromium.find_chromium() == named
    named.write_bytes(b"#!/bin/sh\n")
    assert chromium.find_chromium() == system
    beside = put(bare / "mine" / "chrome")
    assert chromium.find_chromium() == beside


def test_a_named_one_that_is_not_there_is_not_passed_over(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bare / "lib" / "chromium")
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(bare / "none"))
    with pytest.raises(SandboxUnavailable, match="BOTGRPO_CHROMIUM names it"):
        chromium.find_chromium()


@pytest.mark.browser
def test_only_what_chromium_needs_goes_into_the_walls() -> None:
    files = dict(chromium.files())
    assert files[chromium.CHROMIUM] == chromium.find_chromium()
    assert (files[chromium.PLAYWRIGHT] / "package.json").is_file()
    assert all(here.exists() for here in files.values())
    homes = (Path.home(), Path("/etc"), Path("/usr"), Path("/var"))
    assert not {*files, *files.values()} & {*homes}
    assert not any(where.is_relative_to("/home") for where in files)
