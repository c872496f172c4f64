"""`botgrpo rewards new`: a plug-in package that works, to write one's own reward into.

The files lie in `scaffold/` as templates; what is made from them passes its own tests and
`botgrpo rewards validate`.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from botgrpo.sandbox.errors import ConfigError

_TEMPLATES = Path(__file__).parent / "scaffold"
_DISTRIBUTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_LONGEST = 60
_FORM = (
    "allowed: distribution/name, or name alone (the distribution is then called as the folder), in "
    "lower-case letters and digits, with hyphens in a distribution and underscores and dots in a "
    "name, e.g. acme-rewards/text.polite"
)


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a plug-in and its parts are called."""

    distribution: str
    name: str

    @property
    def reference(self) -> str:
        """How the reward is named in a command or configuration."""
        return f"{self.distribution}/{self.name}"

    @property
    def module(self) -> str:
        """The import package."""
        return self.distribution.replace("-", "_")

    @property
    def class_name(self) -> str:
        """The reward's class: `PoliteWordsReward` for `text.polite_words`."""
        return "".join(part.title() for part in self.name.rpartition(".")[2].split("_")) + "Reward"


def new_reward(name: str, folder: str | Path) -> tuple[Plugin, list[Path]]:
    """Write a plug-in package into `folder`, which is made; returns its names and files.

    Raises `ConfigError` for a name that cannot be one, and for a folder that holds something.
    """
    folder = Path(folder)
    plugin = _plugin(name, folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"got the folder {folder}, which is there and not empty; choose another or empty it"
        )
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    targets = {
        "pyproject.toml.j2": folder / "pyproject.toml",
        "README.md.j2": folder / "README.md",
        "reward.py.j2": folder / "src" / plugin.module / "__init__.py",
        "test_reward.py.j2": folder / "tests" / f"test_{plugin.module}.py",
    }
    texts = {
        path: environment.get_template(template).render(
            distribution=plugin.distribution,
            name=plugin.name,
            reference=plugin.reference,
            module=plugin.module,
            class_name=plugin.class_name,
        )
        for template, path in targets.items()
    }
    texts[folder / "src" / plugin.module / "py.typed"] = ""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return plugin, list(texts)


def next_steps(plugin: Plugin, folder: str | Path) -> str:
    """What to type after `botgrpo rewards new`."""
    return (
        f"pip install -e {folder}\npytest {folder}\nbotgrpo rewards validate {plugin.reference}\n"
        f"then write your own rule into {Path(folder) / 'src' / plugin.module / '__init__.py'}"
    )


def _plugin(name: str, folder: Path) -> Plugin:
    distribution, slash, reward = name.rpartition("/")
    if not slash:
        distribution = re.sub(r"[_.\s]+", "-", folder.resolve().name.lower())
    made = Plugin(distribution, reward)
    if (
        max(len(distribution), len(reward)) > _LONGEST
        or not _DISTRIBUTION.fullmatch(distribution)
        or not _NAME.fullmatch(reward)
    ):
        raise ConfigError(f"got the reward name {made.reference!r}; {_FORM}")
    taken = made.module in sys.stdlib_module_names or keyword.iskeyword(made.module)
    if taken or importlib.util.find_spec(made.module):
        raise ConfigError(
            f"got the distribution {distribution!r}, but Python has {made.module!r} already; "
            f"choose another, e.g. my-{distribution}/{reward}"
        )
    return made
