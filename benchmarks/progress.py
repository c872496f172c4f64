"""Progress of long work: a moving line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

PLAIN_EVERY_S = 15.0


def duration(seconds: float) -> str:
    """`45 s`, `3.5 min` or `2.1 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """Counts work done of `total` on standard error; use as a context."""

    def __init__(self, *, total: int, label: str) -> None:
        self.total, self.label = total, label
        self._began = time.monotonic()
        self._last_plain = float("-inf")
        self._bar: object | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}", style="dim"),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, note="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()  # type: ignore[attr-defined]

    def update(self, done: int, note: str = "") -> None:
        """Show that `done` of the total is done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, note=note)  # type: ignore[attr-defined]
            return
        now = time.monotonic()
        if now - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = now
            elapsed = duration(now - self._began)
            self._print(f"{self.label}: {done} of {self.total} steps after {elapsed}; {note}")

    def say(self, line: str) -> None:
        """A line that stays."""
        if self._bar is not None:
            # markup off: a line may hold what a failing program printed
            self._bar.console.print(line, markup=False)  # type: ignore[attr-defined]
        else:
            self._print(line)

    @staticmethod
    def _print(line: str) -> None:
        print(line, file=sys.stderr, flush=True)
