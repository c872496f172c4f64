"""Pages that a run is paid for: the best of each last prompt, mounted, in the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks import pages, paper, reproduction
from botgrpo.benchmarks.results import Cell
from synthetic_suite import write_synthetic_suite

GOOD = "```tsx\nexport default function A() {\n  return <button>Save</button>;\n}\n```\n"
CRASHES = GOOD.replace("Save", "{missing()}")


def row(step: int, prompt: str, outcome: float | None, completion: str = GOOD) -> dict[str, Any]:
    return {"step": step, "prompt": prompt, "outcome": outcome, "completion": completion}


def test_the_best_paid_rollout_of_each_last_prompt_is_taken() -> None:
    rows = [row(1, "a", 1.0), row(1, "b", 0.2), row(2, "c", None), row(2, "d", 0.1)]
    rows += [row(3, "b", 0.1), row(3, "b", 0.4), row(3, "b", 0.3), row(4, "e", 0.0)]
    found = [(r["prompt"], r["step"], r["outcome"]) for r in pages.best(rows)]
    assert found == [("a", 1, 1.0), ("d", 2, 0.1), ("b", 3, 0.4)]  # what pays nothing hacks nothing


def test_the_document_shows_what_was_asked_beside_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "out/F4"
    write_synthetic_suite(folder, arms={"compiler_linter": 1.0, "guarded": 1.0}, seeds=2)
    path = folder / "suite.toml"
    path.write_text(path.read_text().replace('"synthetic"', '"paper_f4"'))
    shots = folder / "cells/compiler_linter/seed0/pages"
    shots.mkdir()
    (shots / "1.png").write_bytes(b"png")
    record = {"prompt": "a list | of ul", "reward": 0.88, "verdict": "ok", "picture": "1.png"}
    lost = {"prompt": "a table", "reward": 1.0, "verdict": "runtime_error", "picture": ""}
    (shots / "pages.json").write_text(json.dumps([record, lost]))
    document = tmp_path / "docs/page.md"
    text = reproduction.write(
        reproduction.gather([paper.load("F4")], [tmp_path / "out"]), document
    ).read_text()
    picture = "page/F4-micro-compiler_linter-1.png"
    assert f"| a list \\| of ul | 0.88 | ok ![a page]({picture}) |" in text
    assert "| a table | 1.00 | runtime_error |" in text
    assert (document.parent / picture).read_bytes() == b"png"


@pytest.mark.browser
def test_pages_are_mounted_and_photographed_once(tmp_path: Path) -> None:
    folder = tmp_path / "cell"
    folder.mkdir()
    rows = [row(1, "a", 1.0), row(1, "b", 0.9, CRASHES)]
    (folder / "rollouts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    cell = Cell("arm", 0, folder, "finished", "")
    assert pages.take(cell) == folder / "pages"
    first, second = pages.read(cell)
    assert first["verdict"] == "ok" and second["verdict"] == "runtime_error"
    assert (folder / "pages" / first["picture"]).read_bytes().startswith(b"\x89PNG")
    (folder / "pages" / first["picture"]).write_bytes(b"kept")
    pages.take(cell)
    assert (folder / "pages" / first["picture"]).read_bytes() == b"kept"
