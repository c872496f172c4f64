"""What a test needs beside Python: asked for once, skipped with a reason, required where named.

`BOTGRPO_REQUIRE="docker browser small"` turns a missing one from a skip into a failure of the run:
a machine that installs them must not pass by skipping.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def _no_docker() -> str | None:
    if shutil.which("docker") is None:
        return "docker: no client is installed"
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "docker: `docker info` did not return within 20 s"
    return None if done.returncode == 0 else "docker: no engine answers; as root: .ci/start-docker"


def _no_browser() -> str | None:
    if any(shutil.which(name) for name in CHROMIUM):
        return None
    return "browser: no Chromium; Debian: apt install chromium fonts-dejavu-core"


def _no_small() -> str | None:
    from botgrpo.sandbox.errors import ConfigError
    from botgrpo.trainer.models import locate

    try:
        locate("smollm2-135m")
    except ConfigError:
        return "small: no 135M model in the cache; next: botgrpo models fetch smollm2-135m"
    return None


# Each says why what its mark needs is not here, or None.
WHY_MISSING: dict[str, Callable[[], str | None]] = {
    "docker": _no_docker,
    "browser": _no_browser,
    "small": _no_small,
}


@pytest.hookimpl(trylast=True)  # after -m and -k, so that nothing is asked for in vain
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    required = set(os.environ.get("BOTGRPO_REQUIRE", "").split())
    if unknown := required - set(WHY_MISSING):
        allowed = ", ".join(WHY_MISSING)
        raise pytest.UsageError(f"BOTGRPO_REQUIRE: unknown {sorted(unknown)}; allowed: {allowed}")
    for mark, why_missing in WHY_MISSING.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        reason = why_missing() if marked else None
        if reason is None:
            continue
        if mark in required:
            raise pytest.UsageError(f"BOTGRPO_REQUIRE names {mark!r}, but {reason}")
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
