"""The doctor: what is there, what is not, and for each lack what to do about it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox import chromium, docker, docker_image, doctor
from botgrpo.sandbox.base import COMPILE
from botgrpo.sandbox.errors import SandboxUnavailable


def seen(checks: tuple[doctor.Check, ...]) -> dict[str, doctor.Check]:
    return {check.name: check for check in checks}


def test_it_gives_a_reason_for_all_and_advice_for_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_pages", lambda backend: "not tried: it may build an image")
    found = doctor.report()
    assert [check.name for check in found.checks][-1] == "auto"
    assert all(check.why for check in found.checks)
    assert all(check.next for check in found.checks if not check.ok)
    assert {"browser", "fonts", "pages"} <= set(seen(found.checks))
    assert found.backend in ("docker", "bubblewrap", None)


@pytest.mark.parametrize(
    ("name", "kind", "advised"),
    [("headless_shell", "the fast kind", False), ("chrome", "a whole browser", True)],
)
def test_it_tells_the_fast_kind_of_browser_from_the_slow_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, kind: str, advised: bool
) -> None:
    (tmp_path / name).write_bytes(b"\x7fELF")
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(tmp_path / name))
    found = doctor._browser()
    assert found.ok and str(tmp_path / name) in found.why and kind in found.why
    assert bool(found.next) == advised and ("half the time" in found.next) == advised


def test_where_there_is_no_browser_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(tmp_path / "gone"))
    found = doctor._browser()
    assert not found.ok and "gone" in found.why and "BOTGRPO_CHROMIUM" in found.next
    monkeypatch.delenv("BOTGRPO_CHROMIUM")
    monkeypatch.setattr(chromium, "_bundled", list)
    monkeypatch.setattr(chromium, "_system", list)
    found = doctor._browser()
    assert not found.ok and "playwright install" in found.next and "apt-get" in found.next


def test_fonts_are_counted_in_folders_where_no_fc_list_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(chromium, "FONTS", (str(tmp_path), str(tmp_path / "gone")))
    found = doctor._check("fonts", doctor._fonts)
    assert not found.ok and "fonts-dejavu-core" in found.next
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "Inter.otf").touch()
    (tmp_path / "deep" / "readme.txt").touch()
    assert doctor._fonts() == "1 families, among them Inter"


def test_a_browser_that_does_not_come_up_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> dict[str, Any]:
        raise SandboxUnavailable("3 workers in turn did not come up")

    monkeypatch.setattr(doctor.ReactBrowser, "describe", refuse)
    found = doctor._check("pages", lambda: doctor._pages("unsafe"))
    assert not found.ok and "did not come up" in found.why and "BOTGRPO_CHROMIUM" in found.next


def test_images_of_other_content_are_named_and_nobody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Engine:
        tags = (docker_image.tag(COMPILE), "botgrpo-worker:0123", "node:22", "botgrpo-mine:1")
        images = property(lambda self: self)

        def list(self) -> list[Any]:
            return [type("Image", (), {"tags": [tag]})() for tag in self.tags]

        def close(self) -> None: ...

    monkeypatch.setattr(docker, "connect", Engine)
    (check,) = doctor._old_images()
    assert check.next == "To remove them: docker image rm botgrpo-worker:0123"
    monkeypatch.setattr(Engine, "tags", ("node:22",))
    assert doctor._old_images() == []


@pytest.mark.browser
def test_it_starts_a_browser_behind_the_walls() -> None:
    check = doctor._check("pages", lambda: doctor._pages("bubblewrap"))
    if not check.ok and "bubblewrap does not work" in check.why:
        pytest.skip(check.why)
    assert check.ok and "walls of bubblewrap" in check.why


def test_the_command_ends_with_one_where_nothing_isolates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "report", lambda backend: doctor.Report(None, ()))
    assert doctor.main() == 1
    monkeypatch.setattr(doctor, "report", lambda backend: doctor.Report("docker", ()))
    assert doctor.main() == 0
