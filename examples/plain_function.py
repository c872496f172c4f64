"""A reward that is just a function: no class, nothing to register.

botgrpo score --reward examples/plain_function.py:mentions_state --in examples/rollouts.jsonl
"""

from __future__ import annotations

from typing import Any


def mentions_state(
    prompts: list[Any], completions: list[str], **columns: Any
) -> list[float | None]:
    """1 where the component keeps state, 0 where it does not, None (unscored) for empty text."""
    return [float("useState(" in text) if text else None for text in completions]
