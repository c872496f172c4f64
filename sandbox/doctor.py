"""Says what this machine can isolate, which backend `auto` takes, and how to get more."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botgrpo.sandbox import cgroup, chromium, docker, docker_image, install
from botgrpo.sandbox.base import COMPILE, DEFAULT_LIMITS
from botgrpo.sandbox.browser import BROWSER, ReactBrowser
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler

_SWITCHES = (  # (sysctl, the value that forbids user namespaces, the one that allows them)
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: whether it holds, what was seen, and what to do if more is wanted."""

    name: str
    ok: bool
    why: str
    next: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """`backend` is the one that works, None if none does; `details` as in a manifest."""

    backend: str | None
    checks: tuple[Check, ...]
    details: dict[str, Any] = field(default_factory=dict)


def report(backend: str = "auto") -> Report:
    """Look at everything, then start a browser and a worker of `backend`.

    Takes seconds, and installs the worker if it is not there yet. Raises ConfigError for a backend
    that does not exist.
    """
    checks = [
        _check("node", lambda: f"{install.find_node()}"),
        _check("worker packages", lambda: f"{install.worker_home()}"),
        _check("docker engine", _engine),
        _check("gVisor runtime", _gvisor),
        _check("bubblewrap", _bubblewrap),
        _switches(),
        _cgroups(),
        _browser(),
        _check("fonts", _fonts),
        _check("pages", lambda: _pages(backend)),
        *_old_images(),
    ]
    details: dict[str, Any] = {}
    try:
        details = _working(backend)
    except SandboxUnavailable as error:
        checks.append(Check(backend, False, "does not work here", str(error)))
    else:
        checks.append(Check(backend, True, f"takes {details['backend']}: {details['isolation']}"))
    return Report(details.get("backend"), tuple(checks), details)


def main(backend: str = "auto", *, prepare: bool = False) -> int:
    """Print a report; returns 0 if `backend` works, else 1.

    `prepare` only installs the packages of the worker, whatever can be isolated here.
    """
    if prepare:
        print(f"sandbox: the compile worker is in {install.worker_home()}")
        return 0
    found = report(backend)
    for check in found.checks:
        print(f"{'ok  ' if check.ok else 'no  '} {check.name}: {check.why}")
        if check.next:
            print("     " + check.next.replace("\n", "\n     "))
    for name, value in found.details.items():
        print(f"{name:>12}  {value}")
    return 0 if found.backend else 1


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except SandboxUnavailable as error:
        why, _, advice = str(error).partition("\n")
        return Check(name, False, why, advice)


def _engine() -> str:
    client = docker.connect()
    try:
        return f"version {client.version()['Version']} answers"
    finally:
        client.close()


def _gvisor() -> str:
    client = docker.connect()
    try:
        if "runsc" in client.info().get("Runtimes", {}):
            return "the engine has `runsc`: a second kernel between a worker and this one"
    finally:
        client.close()
    raise SandboxUnavailable(
        "the engine has no `runsc`\nOptional: install gVisor and register it with the engine."
    )


def _bubblewrap() -> str:
    backend = Bubblewrap(DEFAULT_LIMITS)
    backend.check()
    return str(backend.describe()["isolation"])


def _switches() -> Check:
    closed = []
    for name, forbids, allows in _SWITCHES:
        file = Path("/proc/sys") / name.replace(".", "/")
        if file.exists() and file.read_text().strip() == forbids:
            closed.append(f"{name}={allows}")
    if not closed:
        return Check("user namespaces", True, "no sysctl forbids them")
    advice = "As root: " + "; ".join(f"sysctl -w {setting}" for setting in closed)
    return Check("user namespaces", False, "forbidden by a sysctl", advice)


def _cgroups() -> Check:
    group = cgroup.make(64, 64)
    if group is None:
        return Check(
            "cgroup limits",
            False,
            "this user can make no cgroup: under bubblewrap, limits hold for each process alone",
            "Run as root, or with `systemd-run --user --scope -p Delegate=yes`, or use Docker.",
        )
    group.remove()
    return Check("cgroup limits", True, f"made below {group.folders[0].parent}")


def _browser() -> Check:
    """A whole browser works too, at half the speed: so it is fine, with advice."""
    found = _check("browser", lambda: str(chromium.find_chromium()))
    if not found.ok:
        return found
    if "headless" in Path(found.why).name:
        return Check("browser", True, f"{found.why}, a headless shell: the fast kind")
    advice = "A headless shell draws the same pages in half the time (Debian: apt-get install "
    advice += "chromium-headless-shell; elsewhere: playwright install --only-shell chromium)."
    return Check("browser", True, f"{found.why}, a whole browser", advice)


def _fonts() -> str:
    families: set[str] = set()
    if shutil.which("fc-list"):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            command = ["fc-list", "--format=%{family[0]}\n"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
            families = set(done.stdout.splitlines())
    for folder in map(Path, chromium.FONTS) if not families else ():
        kinds = ("*.[to]tf", "*.ttc", "*.pfb")
        families |= {file.stem for kind in kinds for file in folder.rglob(kind)}
    if families:
        return f"{len(families)} families, among them {sorted(families)[0]}"
    raise SandboxUnavailable(
        "none: every letter of a picture would be missing or an empty box\n"
        "Install some (Debian: apt-get install fonts-dejavu-core)."
    )


def _pages(backend: str) -> str:
    browser = ReactBrowser(backend)
    try:
        found = browser.describe()
    except SandboxUnavailable as error:
        if "\n" in str(error):  # says itself what to do
            raise
        raise SandboxUnavailable(
            f"{error}\nTry another Chromium (Debian: apt-get install chromium-headless-shell), or "
            "name its binary in BOTGRPO_CHROMIUM."
        ) from None
    finally:
        browser.close()
    version = found["versions"]["chromium"]
    return f"Chromium {version} starts behind the walls of {found['backend']}"


def _old_images() -> list[Check]:
    """Images of workers as they once were: another checkout may still use them, so we only tell."""
    current = {docker_image.tag(COMPILE)}
    with contextlib.suppress(SandboxUnavailable):
        current.add(docker_image.tag(BROWSER))
    try:
        client = docker.connect()
    except SandboxUnavailable:
        return []
    try:
        names = [tag for image in client.images.list() for tag in image.tags]
    finally:
        client.close()
    repositories = {tag.partition(":")[0] for tag in current}
    old = sorted({name for name in names if name.partition(":")[0] in repositories} - current)
    if not old:
        return []
    why = f"{len(old)} of earlier versions of the workers; kept, for another checkout may use them"
    return [Check("old images", True, why, f"To remove them: docker image rm {' '.join(old)}")]


def _working(backend: str) -> dict[str, Any]:
    compiler = ReactCompiler(backend)
    try:
        return compiler.describe()
    finally:
        compiler.close()
