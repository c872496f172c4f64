"""Finds Chromium, playwright-core and the fonts, and lists the files that they need to run.

A headless shell is taken before the whole browser: it draws the same pages in half the time.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from pathlib import Path

from botgrpo.sandbox import install
from botgrpo.sandbox.errors import SandboxUnavailable

PLAYWRIGHT = Path("/opt/playwright")
CHROMIUM = Path("/opt/chromium/browser")
_BINARIES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "headless_shell",
    "chromium",
    "chrome",
)
_FOLDERS = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")
FONTS = ("/etc/fonts", "/usr/share/fonts", "/usr/share/fontconfig", "/usr/local/share/fonts")
# Loaded by name at run time, so that no listing of libraries shows them.
_LOADED_LATER = ("libsoftokn3.so", "libfreeblpriv3.so", "libfreebl3.so", "libnssckbi.so")
_BESIDE = (".pak", ".dat", ".bin", ".so", ".so.1", ".json")


def find_chromium() -> Path:
    """The binary itself: of `$BOTGRPO_CHROMIUM`, of `playwright install`, or of the system.

    Raises SandboxUnavailable.
    """
    named = os.environ.get("BOTGRPO_CHROMIUM")
    places = [*_bundled(), *_system()]
    if named:
        path = Path(named).resolve()
        if not path.is_file():
            raise SandboxUnavailable(
                f"no Chromium at {named}\nThe variable BOTGRPO_CHROMIUM names it."
            )
        places = [path, *_in(path.parent), *_system()]  # the name may be that of a script
    for path in places:
        if _is_binary(path):
            return path
    raise SandboxUnavailable(
        "no Chromium: React pages are mounted and drawn by one\nInstall it (Debian: apt-get "
        "install chromium-headless-shell fonts-dejavu-core; elsewhere: playwright install "
        "--only-shell chromium), or name a binary in BOTGRPO_CHROMIUM."
    )


@functools.cache
def files() -> tuple[tuple[Path, Path], ...]:
    """(inside, here) for a worker with a browser. Raises SandboxUnavailable."""
    binary = find_chromium()
    needed = [(PLAYWRIGHT, _playwright()), (CHROMIUM, binary)]
    for file in sorted(binary.parent.iterdir()):
        if file.name.endswith(_BESIDE) or file.name == "locales":
            needed.append((CHROMIUM.parent / file.name, file))
    needed += [(Path(folder), Path(folder)) for folder in FONTS if Path(folder).is_dir()]
    libraries = dict(install.libraries(binary))
    for where in list(libraries):
        if where.name == "libnss3.so":
            for name in _LOADED_LATER:
                for file in (where.parent / name, where.parent / "nss" / name):
                    if file.exists():
                        libraries |= {file: file.resolve(), **dict(install.libraries(file))}
    return (*needed, *libraries.items())


@functools.cache
def _playwright() -> Path:
    spec = importlib.util.find_spec("playwright")
    if spec is None or not spec.submodule_search_locations:
        raise SandboxUnavailable("no playwright\nInstall it: `pip install playwright`.")
    return Path(spec.submodule_search_locations[0]) / "driver" / "package"


def _bundled() -> list[Path]:
    """What `playwright install` left, newest first."""
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    home = Path(named) if named else Path.home() / ".cache" / "ms-playwright"
    builds = sorted(home.glob("chromium*-*/*/"), key=lambda folder: folder.stat().st_mtime)
    return [path for folder in reversed(builds) for path in _in(folder)]


def _system() -> list[Path]:
    on_path = [Path(found).resolve() for name in _BINARIES if (found := shutil.which(name))]
    return [path for folder in map(Path, _FOLDERS) for path in _in(folder)] + on_path


def _in(folder: Path) -> list[Path]:
    return [folder / name for name in _BINARIES]


def _is_binary(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
