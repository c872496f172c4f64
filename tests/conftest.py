"""What a test needs beside Python: asked for once, skipped with a reason, required where named.

`BOTGRPO_REQUIRE="docker browser small sandbox"` turns a missing one from a skip into a failure: a
machine that installs them must not pass by skipping. "sandbox" stands for any isolation at all; it
has no mark, since only trying tells, and fails the tests that skip on `SandboxUnavailable`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterable, Iterator

import pytest

from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.chromium import find_chromium
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler


def _no_docker() -> str | None:
    if shutil.which("docker") is None:
        return "docker: no client is installed"
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "docker: `docker info` did not return within 20 s"
    return None if done.returncode == 0 else "docker: no engine answers; as root: .ci/start-docker"


def _no_browser() -> str | None:
    try:
        find_chromium()
    except SandboxUnavailable as error:
        return "browser: " + "; ".join(str(error).splitlines())
    return None


def _no_small() -> str | None:
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


def _required() -> set[str]:
    return set(os.environ.get("BOTGRPO_REQUIRE", "").split())


@pytest.hookimpl(trylast=True)  # after -m and -k, so that nothing is asked for in vain
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    required = _required()
    known = [*WHY_MISSING, "sandbox"]
    if unknown := required - set(known):
        allowed = ", ".join(known)
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # pytest.skip() in an `except SandboxUnavailable` carries that error as its context.
    why = call.excinfo.value.__context__ if call.excinfo else None
    if report.skipped and isinstance(why, SandboxUnavailable) and "sandbox" in _required():
        report.outcome = "failed"
        report.longrepr = f"BOTGRPO_REQUIRE names 'sandbox', but {why}"
    return report


@pytest.fixture(scope="module")
def compiler() -> Iterator[ReactCompiler]:
    """Real workers of a module's own, where bubblewrap works."""
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    made = ReactCompiler("bubblewrap")
    yield made
    made.close()


@pytest.fixture(
    scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)]
)
def browser(request: pytest.FixtureRequest) -> Iterator[ReactBrowser]:
    """One on each backend that works here."""
    made = ReactBrowser(request.param)
    try:
        asyncio.run(made.ready())
    except SandboxUnavailable as error:
        made.close()
        pytest.skip(f"{request.param}: {error}")
    yield made
    made.close()
