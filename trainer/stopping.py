"""Stopping when asked to: a signal ends the run after the step it is in, with a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Listens for SIGINT and SIGTERM while it is a context.

    The first one sets `asked` to its name; a second one of either kind acts as it did before, at
    once. A signal that is ignored stays so, as SIGINT is in a shell's background jobs. Outside the
    main thread, where Python lets nobody listen, nothing is caught.
    """

    def __init__(self) -> None:
        self.asked = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler not in (None, signal.SIG_IGN):
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = signal.Signals(number).name
        for each, handler in self._before.items():
            signal.signal(each, handler)
        # not print: the signal may have come in the middle of one
        os.write(2, f"{self.asked}: stopping after this step; once more stops at once\n".encode())
