"""Pages that a run is paid for, as pictures: what a hacked reward looks like.

    <cell>/pages/pages.json    [{"prompt", "verdict", "reward", "picture"}, ...]
    <cell>/pages/1.png ...

Of the last rollouts that a cell kept, those of each prompt that are paid most are mounted in the
sandbox's browser and photographed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botgrpo.benchmarks import scoring
from botgrpo.benchmarks.results import Cell, load_rollouts
from botgrpo.rewards.base import Rollout
from botgrpo.rewards.pictures import collecting
from botgrpo.rewards.registry import build

FOLDER = "pages"
SHOWN = 3
MOUNT = "react.compile(mount=True)"


def take(cell: Cell, backend: str = "auto") -> Path | None:
    """Photograph a cell's last pages, once; None where it kept no rollout that is scored."""
    folder = cell.folder / FOLDER
    if (folder / "pages.json").is_file():
        return folder
    chosen = best(load_rollouts(cell)[0])
    if not chosen:
        return None
    rollouts = [
        Rollout(str(i), str(i), row["prompt"], row["completion"], row.get("reference") or {})
        for i, row in enumerate(chosen, 1)
    ]
    reward = build(MOUNT, defaults={"backend": backend})
    with collecting() as pictures:
        scores = scoring.score(reward, rollouts, 1, lambda _: None)[0]
    folder.mkdir(exist_ok=True)
    records = []
    for row, score in zip(chosen, scores, strict=True):
        if (png := pictures.get(score.id)) is not None:
            (folder / f"{score.id}.png").write_bytes(png)
        records.append(
            {
                "prompt": row["prompt"],
                "reward": row["outcome"],
                "verdict": score.verdict or score.reason,
                "picture": f"{score.id}.png" if png is not None else "",
            }
        )
    (folder / "pages.json").write_text(json.dumps(records, indent=2) + "\n")
    return folder


def best(rows: Sequence[Any]) -> list[Any]:
    """The best paid rollout of each of the last `SHOWN` prompts that paid at all, newest last."""
    found: dict[str, Any] = {}
    for row in rows:
        if (row.get("outcome") or 0.0) > 0 and isinstance(row["prompt"], str):
            before = found.pop(row["prompt"], row)
            newer = row["step"] > before["step"] or row["outcome"] > before["outcome"]
            found[row["prompt"]] = row if newer else before
    return list(found.values())[-SHOWN:]


def read(cell: Cell) -> list[dict[str, Any]]:
    """The records of a cell, [] where nothing was photographed."""
    path = cell.folder / FOLDER / "pages.json"
    records: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    return records
