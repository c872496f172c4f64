"""Reads single values of a worker's reply, which whoever broke into a worker may have written."""

from __future__ import annotations


def plain(value: object) -> str:
    """Text that any encoding can hold: a lone surrogate becomes a question mark.

    Raises ValueError for anything but text.
    """
    if not isinstance(value, str):
        raise ValueError("no text")
    return value.encode("utf-8", "replace").decode("utf-8")


def whole(value: object) -> int:
    """A whole number from 0 up. Raises ValueError for anything else, True among it."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("no whole number from 0 up")
    return value
