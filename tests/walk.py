"""A page of docs as a walk: its files written, its commands run, in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "own_reward.md"
_FILE = re.compile(r"`([\w./-]+)`:\n\n```(?:python|toml|json)\n(.*?)```", re.S)
_SECTION = re.compile(r"^## (\d+)\. (.*?)\n(.*?)(?=^## |\Z)", re.S | re.M)
_FENCE = re.compile(r"^```console\n(.*?)^```", re.S | re.M)


def sections() -> dict[str, list[str]]:
    """Commands of each section, by its title."""
    text = PAGE.read_text("utf-8")
    return {
        title: [
            line.removeprefix("$ ") for fence in _FENCE.findall(body) for line in fence.splitlines()
        ]
        for _, title, body in _SECTION.findall(text)
    }


def write_files(folder: Path) -> list[str]:
    """The files that the page shows, in their places; returns their names."""
    shown = _FILE.findall(PAGE.read_text("utf-8"))
    for name, text in shown:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [name for name, _ in shown]


def run(command: str, folder: Path) -> str:
    """Run a command as a shell would, with this interpreter's commands first; returns its output.

    What pip installs goes into the folder, and nothing is asked of a network.
    """
    site = folder / "site-packages"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PIP_TARGET": str(site),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads the negation of a negation: off
        "BOTGRPO_CACHE": str(folder / "cache"),
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
