"""The task `aime`: competition problems from a file of the user's or from a hub, never shipped.

A row holds the problem's text and its answer under one of the names that are in use: `problem` or
`question`; `accepted` (a list: 2022-II-8 accepts 80 and 81), `answer` or `expected_answer`; and
perhaps an `id`. Files are JSON Lines, JSON (a list of rows) or CSV with a head line.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.task import Item

LARGEST = 999
TRAIN_SHARE = 0.8
SUFFIXES = (".jsonl", ".json", ".csv")
PROBLEM = ("problem", "question")
ANSWER = ("accepted", "answer", "expected_answer")

# The paper's format; the words are ours.
PROMPT = """Solve the problem. Reason in numbered steps, each inside its own tags: <step 1> ... \
</step 1>, <step 2> ... </step 2>, and so on. Then write the answer alone, an integer from 0 to \
999, as <final> ... </final>.

Problem: {problem}"""


class AimeTask:
    """Problems of `source`, 80% for training and 20% held out, as the seed of the split decides.

    Args:
        source: path of a .jsonl, .json or .csv file, or a hub's name of a data set (owner/name).
        seed: of the split, not of a run: every run with it is tested on the same problems.

    Raises:
        ConfigError: no source, a file that is not there, a row without a problem or without an
            integer 0..999, or no `datasets` for a hub's name.
    """

    name = "aime"
    judge = "math.answer"
    metrics = ("correct", "answered")

    def __init__(self, source: str = "", seed: int = 0) -> None:
        if not source:
            raise ConfigError(
                "the task aime holds no problems of its own: give it a file or a hub's data set, "
                "for example task = 'aime(\"aime.jsonl\")', or take aime_micro, which works offline"
            )
        items = _unique(_items(_rows(source), source), source)
        random.Random(f"aime/{seed}").shuffle(items)
        cut = round(TRAIN_SHARE * len(items))
        self._train, self._held_out = items[:cut], items[cut:]
        if not self._train or not self._held_out:
            raise ConfigError(f"{source}: {len(items)} problems; a split needs at least 3")

    def train_items(self, seed: int) -> Sequence[Item]:
        """All training problems in the order of this seed."""
        return random.Random(f"aime/order/{seed}").sample(self._train, len(self._train))

    def eval_items(self, n: int) -> Sequence[Item]:
        """The first n held-out problems, or all where there are fewer."""
        return self._held_out[:n]

    def corpus(self, n: int, seed: int, corruption_rate: float) -> Sequence[tuple[Item, str]]:
        """Refused: the data holds answers and no worked solutions."""
        raise ConfigError(
            "the task aime has no worked solutions to warm-start on; use aime_micro for "
            "[policy.warm_start], or a model that can do without"
        )


def _rows(source: str) -> Iterable[Mapping[str, Any]]:
    path = Path(source)
    if path.suffix not in SUFFIXES:
        return _hub(source)
    try:
        text = path.read_text("utf-8-sig")
        if path.suffix == ".csv":
            return list(csv.DictReader(io.StringIO(text)))
        # not splitlines: a statement may hold U+2028, which ends no line of JSON
        lines = [line for line in text.split("\n") if line.strip()]
        rows = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source}: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{source}: expected a list of objects, one for each problem")
    return rows


def _hub(name: str) -> Iterable[Mapping[str, Any]]:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ConfigError(
            f"aime: got the source {name!r}; allowed: a file ({', '.join(SUFFIXES)}) or a hub's "
            "data set, owner/name"
        )
    try:
        from datasets import load_dataset
    except ImportError:
        raise ConfigError(
            f"aime: {name!r} is a hub's data set, and reading it needs the library datasets: "
            "pip install 'botgrpo[hub]'"
        ) from None
    rows: Iterable[Mapping[str, Any]] = load_dataset(name, split="train")
    return rows


def _items(rows: Iterable[Mapping[str, Any]], source: str) -> Iterable[Item]:
    for number, row in enumerate(rows, start=1):
        known = {str(key).strip().lower(): value for key, value in row.items()}
        problem = next((known[key] for key in PROBLEM if known.get(key)), None)
        answer = next((known[key] for key in ANSWER if known.get(key) not in (None, "")), None)
        if not isinstance(problem, str):
            raise ConfigError(
                f"{source}, problem {number}: needs text under {' or '.join(PROBLEM)}"
            )
        answers = answer if isinstance(answer, list) and answer else [answer]
        accepted = [_integer(one, f"{source}, problem {number}") for one in answers]
        digest = hashlib.sha256(problem.encode()).hexdigest()[:12]
        name = str(known.get("id") or digest)
        yield Item(f"aime-{name}", PROMPT.format(problem=problem), {"accepted": accepted})


def _integer(value: Any, where: str) -> int:
    """An answer as data sets store it: 33, 33.0, "033"."""
    text = str(value).strip()
    found = re.fullmatch(r"([0-9]{1,3})(\.0+)?", text, re.ASCII)
    if isinstance(value, bool) or not found:
        raise ConfigError(
            f"{where}: got the answer {text[:40]!r} under one of {', '.join(ANSWER)}; allowed: an "
            f"integer 0..{LARGEST}"
        )
    return int(found[1])


def _unique(items: Iterable[Item], source: str) -> list[Item]:
    """One item for each statement, so that no problem lies on both sides of the split.

    Sorted, so that the split does not depend on the order of the source.
    """
    by_words = {" ".join(item.prompt.split()).lower(): item for item in items}
    names = Counter(item.id for item in by_words.values())
    if twice := [name for name, count in names.items() if count > 1]:
        raise ConfigError(f"{source}: {len(twice)} ids name two problems, the first {twice[0]!r}")
    return [by_words[words] for words in sorted(by_words)]
