"""No isolation at all: a plain process with your rights. Taken only when it is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botgrpo.sandbox import install
from botgrpo.sandbox.base import COMPILE, Limits, Link, Program
from botgrpo.sandbox.process import ProcessLink


class Unsafe:
    """See `base.Backend`. For a machine that is itself a throw-away sandbox."""

    name = "unsafe"

    def __init__(self, limits: Limits, program: Program = COMPILE) -> None:
        self._limits = limits
        self._program = program

    def check(self) -> None:
        install.worker_home()
        self._program.files()

    def start(self) -> Link:
        return self.launch(self._program.command(self._limits))

    def launch(self, command: Sequence[str]) -> Link:
        here = {"node": install.find_node()}
        here |= {str(where): file for where, file in self._program.files()}
        command = [str(here.get(word, word)) for word in command]
        return ProcessLink(command, install.worker_home(), lambda: None)

    def describe(self) -> dict[str, Any]:
        return {
            "backend": self.name,
            "runtime": "none",
            "isolation": "none: a plain process with the rights of this one",
            "limits": "node's heap only",
        }

    def close(self) -> None:
        pass
