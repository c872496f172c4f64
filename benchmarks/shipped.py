"""Names of what the package ships: configurations, suites, warm-start checkpoints."""

from __future__ import annotations

import difflib
from pathlib import Path

from botgrpo.sandbox.errors import ConfigError

ROOT = Path(__file__).resolve().parent


def names(kind: str) -> list[str]:
    """Names of the shipped TOML files of a kind ("configs" or "suites")."""
    return sorted(path.stem for path in (ROOT / kind).glob("*.toml"))


def find(kind: str, name_or_path: str) -> Path:
    """Path of a shipped file by name, or of the user's own by path."""
    if name_or_path in names(kind):
        return ROOT / kind / f"{name_or_path}.toml"
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.exists():
        return path
    near = difflib.get_close_matches(name_or_path, names(kind), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"no {kind[:-1]} {name_or_path!r}.{hint} Shipped: {', '.join(names(kind))}; or give the "
        "path of a .toml file"
    )


def checkpoint(name: str, seed: int) -> Path | None:
    """Folder of a shipped warm start: `NAME/seedK`, or `NAME` for the one that a seed starts from.

    None where nothing of that name is shipped.
    """
    folder = ROOT / "checkpoints" / name
    if (folder / "config.json").is_file():
        return folder
    starts = sorted(folder.glob("seed*"))
    return starts[seed % len(starts)] if starts else None
