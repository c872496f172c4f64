"""Answers on disk: one file each, named after the hash of the whole request.

A file appears whole or not at all, so that any number of processes may share the folder, and one
that is damaged is a miss. To empty the cache, remove the folder.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from botgrpo.sandbox.errors import ConfigError


class Cache:
    """Text by key. `folder` is made where it is missing; `ConfigError` where it cannot be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot make the judge's cache {folder}: {error.strerror}; name another folder "
                "with cache=..., or cache=False"
            ) from error

    def get(self, key: str) -> str | None:
        """The text, or None."""
        try:
            return self._path(key).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def put(self, key: str, text: str) -> None:
        """Keep it. A disk that takes no more costs later calls, and no verdict."""
        path = self._path(key)
        partial = None
        try:
            path.parent.mkdir(exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".")
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(partial, path)
        except OSError:
            if partial is not None:
                Path(partial).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"  # no folder grows to a million files
