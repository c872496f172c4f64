"""No isolation at all: a plain process with your rights. Taken only when it is named."""

from __future__ import annotations

from typing import Any

from botgrpo.sandbox import install
from botgrpo.sandbox.base import Limits, Link
from botgrpo.sandbox.process import ProcessLink


class Unsafe:
    """See `base.Backend`. For a machine that is itself a throw-away sandbox."""

    name = "unsafe"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def check(self) -> None:
        install.worker_home()

    def start(self) -> Link:
        home = install.worker_home()
        heap = f"--max-old-space-size={self._limits.memory_mib // 2}"
        command = [str(install.find_node()), heap, str(home / "worker.mjs")]
        return ProcessLink(command, home, lambda: None)

    def describe(self) -> dict[str, Any]:
        return {
            "backend": self.name,
            "runtime": "none",
            "isolation": "none: a plain process with the rights of this one",
            "limits": "node's heap only",
        }
