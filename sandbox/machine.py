"""What a measurement was taken on, in a few lines above it."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from pathlib import Path

from botgrpo.sandbox import chromium, docker
from botgrpo.sandbox.bubblewrap import find_bwrap
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler


def facts(backend: str) -> str:
    """Cores, memory, load and versions; starts a worker of `backend` to ask it for some."""
    compiler = ReactCompiler(backend)
    try:
        versions = compiler.describe()["versions"]
    finally:
        compiler.close()
    cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    walls = [each for each in (_engine(), _bwrap(), _browser()) if each]
    return (
        f"{cores} cores, {gib:.0f} GiB, load {load} before it; Linux {platform.release()}, "
        f"Python {platform.python_version()}\n"
        f"node {versions['node']}, esbuild {versions['esbuild']}; {'; '.join(walls)}"
    )


def _engine() -> str:
    try:
        client = docker.connect()
    except SandboxUnavailable:
        return "no Docker engine"
    try:
        return f"Docker {client.version()['Version']}"
    finally:
        client.close()


def _bwrap() -> str:
    with contextlib.suppress(SandboxUnavailable, OSError, subprocess.TimeoutExpired):
        command = [str(find_bwrap()), "--version"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    return "no bubblewrap"


def _browser() -> str:
    try:
        return f"browser {Path(chromium.find_chromium()).name}"
    except SandboxUnavailable:
        return "no browser"
