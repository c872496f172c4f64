"""The task `react_apps`: 1,015 requests for small apps, each with what a machine can check of it.

Our own, in the manner of what people ask a code model for: forms, lists, dashboards, charts,
landing pages, widgets and games. A request says in words all that its reference asks of the page:
texts, roles with names, and what must come of a click or an input
(`rewards/react/requirements.py`), so that `react.visual` and the match with the request need no
model. 203 of them are held out, by a fixed hash. Every request comes with a component of ours that
meets it, for a warm start.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from botgrpo.benchmarks.tasks import react_apps_boards, react_apps_forms, react_apps_play
from botgrpo.benchmarks.tasks.prompts import digest, read, split
from botgrpo.benchmarks.tasks.react_apps_parts import App, Family, make
from botgrpo.benchmarks.tasks.react_corpus import corrupt, fenced
from botgrpo.rewards.base import Rollout
from botgrpo.rewards.react.requirements import requirements_of
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.task import Item

REQUESTS, HELD_OUT = 1015, 203  # the paper's numbers
FAMILIES: Mapping[str, Family] = {
    **react_apps_forms.FAMILIES,
    **react_apps_boards.FAMILIES,
    **react_apps_play.FAMILIES,
}
CORRUPTION_RATE = 0.1


class ReactAppsTask:
    """Requests of our own, or those of a file.

    Args:
        source: path of a .jsonl file with `prompt`, and perhaps `id` and `reference` (as
            `react.complete` and `react.visual` take it) in each line; "" for our own. A fifth of a
            file's lines is held out, by a hash of the prompt.

    Raises:
        ConfigError: a file that is not there, a line without a prompt or with a reference of
            another form, named by its number, or too few lines to hold one out.
    """

    name = "react_apps"
    judge = "react.complete"
    metrics = ("compile", "complete", "match")

    def __init__(self, source: str = "") -> None:
        self._apps = {} if source else {_id(app.prompt): app for app in apps()}
        items = list(read(Path(source), "app-", _check)) if source else map(_item, apps())
        self._train, self._held_out = split(list(items), source or "react_apps")

    def train_items(self, seed: int) -> Sequence[Item]:
        """All training requests in the order of this seed."""
        return random.Random(f"react_apps/order/{seed}").sample(self._train, len(self._train))

    def eval_items(self, n: int) -> Sequence[Item]:
        """The first n held-out requests, or all where there are fewer."""
        return self._held_out[:n]

    def corpus(
        self, n: int, seed: int, corruption_rate: float = CORRUPTION_RATE
    ) -> Sequence[tuple[Item, str]]:
        """n pairs of a training request and a component; each site has a fault with that rate.

        Raises ConfigError for requests of a file, which come without components.
        """
        if not self._apps:
            raise ConfigError(
                "a file's requests come without components to warm-start on; use react_apps "
                "without a file for [policy.warm_start], or a model that can do without"
            )
        rng = random.Random(f"react_apps/corpus/{seed}")
        chosen = [rng.choice(self._train) for _ in range(n)]
        return [
            (item, fenced(corrupt(self._apps[item.id].source, corruption_rate, rng)[0]))
            for item in chosen
        ]


@functools.cache
def apps() -> Sequence[App]:
    """All our own requests, family by family in turn, no prompt twice."""
    found: dict[str, App] = {}
    number = 0
    while len(found) < REQUESTS:
        for name, family in FAMILIES.items():
            app = make(name, family, str(number))
            found.setdefault(app.prompt, app)
            if len(found) == REQUESTS:
                break
        number += 1
    return tuple(found.values())


def _item(app: App) -> Item:
    return Item(_id(app.prompt), app.prompt, app.reference)


def _id(prompt: str) -> str:
    return f"app-{digest(prompt)[:12]}"


def _check(prompt: str, reference: Mapping[str, Any]) -> None:
    """Raises ConfigError for a reference that no reward here can read."""
    requirements_of(Rollout("this line", "", prompt, "", reference))
