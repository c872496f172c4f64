"""Finds node and keeps the worker's packages in a cache, a folder for each content of `worker/`.

A folder that nobody has used for 30 days is removed when a new one is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from botgrpo.sandbox.errors import SandboxUnavailable

WORKER = Path(__file__).parent / "worker"
_DECIDE_PACKAGES = (
    "package.json",
    "package-lock.json",
    "vendor.mjs",
    "icons.mjs",
    "shims.mjs",
    "types.mjs",
)
_INSTALL_TIMEOUT_S = 300
_KEPT_S = 30 * 86400
_held: dict[Path, int] = {}  # folder -> its inode


def cache_dir() -> Path:
    """`$BOTGRPO_CACHE`, else `~/.cache/botgrpo`."""
    named = os.environ.get("BOTGRPO_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "botgrpo"


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """One process of this machine at a time; the lock ends with its holder."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def content_hash() -> str:
    """Sixteen hex digits over all that decides what the worker does."""
    return _digest(_files())


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        body = file.read_bytes()
        digest.update(f"{file.name}:{len(body)}:".encode() + body)
    return digest.hexdigest()[:16]


@functools.cache
def find_node() -> Path:
    """The node binary itself, past symlinks and version managers' scripts.

    Raises SandboxUnavailable when there is none, or one older than 18.
    """
    found = shutil.which("node")
    if found is None:
        raise SandboxUnavailable(
            "no `node` on PATH: React is compiled by esbuild under Node.js\nInstall Node.js 18 or "
            "later with npm (Debian: apt-get install nodejs npm), then repeat."
        )
    path = Path(found).resolve()
    with path.open("rb") as file:
        binary = file.read(4) == b"\x7fELF"
    if not binary:
        path = Path(_output([found, "-p", "process.execPath"])).resolve()
    version = _output([str(path), "--version"])
    match = re.match(r"v(\d+)\.", version)
    if not match or int(match[1]) < 18:
        raise SandboxUnavailable(f"{path} is node {version}\n18 or later is needed: upgrade it.")
    return path


@functools.cache
def node_libraries() -> tuple[tuple[Path, Path], ...]:
    """`libraries` of node."""
    return libraries(find_node())


def libraries(binary: Path) -> tuple[tuple[Path, Path], ...]:
    """(where the loader looks, the file itself) for each shared library that a binary needs."""
    listing = _output(["ldd", str(binary)])
    named = [Path(word) for word in listing.split() if word.startswith("/")]
    return tuple((path, path.resolve()) for path in dict.fromkeys(named) if path.exists())


def worker_home() -> Path:
    """The folder with the worker and its packages, installed on first use.

    Many processes may call at once. Raises SandboxUnavailable when npm is missing or fails.
    """
    home = cache_dir() / f"worker-{content_hash()}"
    _hold(home)
    if not (home / "node_modules").is_dir():
        with locked("worker"):
            if not (home / "node_modules").is_dir():
                _install(home)
                _hold(home)
                _clean()
        _hold(home)
    return home


def _files() -> list[Path]:
    return sorted(file for file in WORKER.iterdir() if file.is_file())


def _install(home: Path) -> None:
    packages = _packages()
    with _new_folder(home) as build:
        shutil.copytree(packages, build, copy_function=os.link)
        for file in _files():
            (build / file.name).unlink(missing_ok=True)
            shutil.copyfile(file, build / file.name)


def _hold(home: Path) -> None:
    """Note that `home` is used today, and keep `_clean` off it while this process lives."""
    with contextlib.suppress(OSError):  # not there, another user's, or a file system without locks
        os.utime(home)
        if _held.get(home) != home.stat().st_ino:
            # Waits while it is being removed; then the caller sees that it is gone.
            fcntl.flock(os.open(home, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)
            _held[home] = home.stat().st_ino


def _clean() -> None:
    """Remove what older versions left: unused for 30 days, and held by no process."""
    for folder in (*cache_dir().glob("worker-*"), *cache_dir().glob("packages-*")):
        with contextlib.suppress(OSError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - folder.stat().st_mtime > _KEPT_S:
                    shutil.rmtree(folder)
            finally:
                os.close(fd)


def _packages() -> Path:
    """The packages as `worker/vendor.mjs` leaves them, kept for every worker with the same ones."""
    sources = [WORKER / name for name in _DECIDE_PACKAGES]
    home = cache_dir() / f"packages-{_digest(sources)}"
    if home.is_dir():
        _hold(home)
        return home
    npm = shutil.which("npm")
    if npm is None:
        raise SandboxUnavailable(
            "no `npm` on PATH: it installs esbuild and React into the cache once\nInstall npm "
            "(Debian: apt-get install npm), then `make setup` or repeat."
        )
    with _new_folder(home) as build:
        build.mkdir()
        for file in sources:
            shutil.copyfile(file, build / file.name)
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], build)
        _run([str(find_node()), "vendor.mjs"], build)
    return home


@contextlib.contextmanager
def _new_folder(home: Path) -> Iterator[Path]:
    """A path beside `home` to be filled, which becomes `home` at the end and not before."""
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="worker-new-") as temporary:
        build = Path(temporary) / "worker"
        yield build
        build.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        build.rename(home)


def _run(command: list[str], folder: Path) -> None:
    name = f"`{Path(command[0]).name} {command[1]}`"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise SandboxUnavailable(f"{name} took over {_INSTALL_TIMEOUT_S} s; repeat.") from None
    if done.returncode != 0:
        raise SandboxUnavailable(
            f"{name} could not install the workers' packages: {done.stderr.strip()[-800:]}\n"
            "It needs to reach an npm registry once; after that the cache is enough."
        )


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"`{' '.join(command)}` failed: {error}") from None
    if done.returncode != 0:
        # ldd on a static binary says so and fails: then there is nothing to list.
        if command[0] == "ldd":
            return ""
        raise SandboxUnavailable(f"`{' '.join(command)}` failed: {done.stderr.strip()[-400:]}")
    return done.stdout.strip()
