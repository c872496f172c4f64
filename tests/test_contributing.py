"""The examples that newcomers copy work as they stand."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from botgrpo.rewards.registry import build
from botgrpo.rewards.validate import validate

ROOT = Path(__file__).parents[1]


def test_the_reward_in_contributing_keeps_its_promises(tmp_path: Path) -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.S
    )
    (tmp_path / "polite.py").write_text(code)
    checks = asyncio.run(validate(build(f"{tmp_path / 'polite.py'}:Polite")))
    assert checks
    assert [check for check in checks if not check.ok] == []


def test_the_make_targets_named_in_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.M))
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/own_reward.md"):
        named = set(re.findall(r"`make ([a-z][a-z-]*)", (ROOT / name).read_text("utf-8")))
        assert named <= targets, name
