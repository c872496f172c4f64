"""Whose pages are better? Folders of screenshots, one a checkpoint, judged in pairs.

A folder holds a PNG for each prompt, named by the prompt, and `requests.json`, which says what was
asked: `botgrpo score --pictures DIR` writes both. The same name in two folders is the same prompt;
a page that only one of them has was not rendered in the other, and loses.

Win rates count a tie as half; intervals resample prompts, and where all matches came out alike
they are exact. Several checkpoints are put on one scale
by Bradley and Terry's model (1952; ties as half a win each, half a game against everybody added so
that it stays finite), fitted by Hunter's iteration (2004).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from botgrpo.benchmarks.stats import (
    LEVEL,
    Floats,
    Interval,
    bootstrap_interval,
    percentile_interval,
)
from botgrpo.rewards.judges.budget import Usage
from botgrpo.rewards.judges.pairwise import Match, Pairwise
from botgrpo.sandbox.errors import ConfigError

POINTS = {"a": 1.0, "tie": 0.5, "b": 0.0}
PRIOR_GAMES = 0.5
ITERATIONS = 200
REPS = 1000
REQUESTS = "requests.json"


@dataclass(frozen=True, slots=True)
class Folder:
    """A checkpoint's pages: prompt -> PNG, and what was asked."""

    name: str
    pages: Mapping[str, bytes]
    requests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WinRate:
    """Of `a` against `b`: shares of the matches that somebody could tell.

    Attributes:
        rate: wins of a, ties as half; None where no match was told.
        consistent: of the matches that were asked, those in which both orders said the same.
    """

    a: str
    b: str
    prompts: int
    unscored: int
    rate: float | None
    interval: Interval | None
    ties: float | None
    consistent: float | None
    settled: int


def read(path: str | Path) -> Folder:
    """Raises ConfigError for a folder without pages or without what was asked."""
    folder = Path(path)
    pages = {each.stem: each.read_bytes() for each in sorted(folder.glob("*.png"))}
    if not pages:
        raise ConfigError(
            f"{folder}: no PNG there; botgrpo score --reward react.visual --in R.jsonl --pictures "
            "DIR writes such a folder"
        )
    try:
        requests = json.loads((folder / REQUESTS).read_text(encoding="utf-8"))
        if not all(isinstance(text, str) for text in requests.values()):
            raise ValueError("every value must be a text")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{folder / REQUESTS}: {error}; it says what each page was for") from None
    return Folder(folder.name, pages, requests)


def write(path: str | Path, pictures: Mapping[str, bytes], prompts: Mapping[str, str]) -> Path:
    """A folder that `read` takes. `prompts` names every prompt, also those without a page."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in pictures.items():
        (folder / f"{file_name(name)}.png").write_bytes(png)
    requests = {file_name(name): text for name, text in prompts.items()}
    (folder / REQUESTS).write_text(json.dumps(requests, indent=1), encoding="utf-8")
    return folder


def file_name(prompt: str) -> str:
    """A prompt's id as a file may be called; one that had to be changed keeps apart by its hash."""
    plain = re.sub("[^A-Za-z0-9_-]", "_", prompt)[:100]
    if plain and plain == prompt:
        return plain
    return f"{plain}-{hashlib.sha256(prompt.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


async def judge_pair(judge: Pairwise, a: Folder, b: Folder) -> dict[str, Match]:
    """All prompts of both folders, side by side."""
    names = sorted({*a.requests, *b.requests})
    asked = {**b.requests, **a.requests}
    usage = Usage()
    async with judge.client.session() as session, asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(
                judge.compare(session, asked[name], a.pages.get(name), b.pages.get(name), usage)
            )
            for name in names
        }
    return {name: task.result() for name, task in tasks.items()}


def win_rate(a: str, b: str, matches: Mapping[str, Match]) -> WinRate:
    """What the matches of two folders come to."""
    told = [match for match in matches.values() if match.winner is not None]
    points = [POINTS[match.winner] for match in told if match.winner]
    asked = [match.consistent for match in told if match.consistent is not None]
    return WinRate(
        a,
        b,
        len(matches),
        len(matches) - len(told),
        float(np.mean(points)) if points else None,
        interval_of(points),
        float(np.mean([match.winner == "tie" for match in told])) if told else None,
        float(np.mean(asked)) if asked else None,
        len(told) - len(asked),
    )


def interval_of(points: Sequence[float]) -> Interval | None:
    """Of the mean of points in 0..1, over prompts; None for fewer than two.

    Where all are alike resampling finds no spread, though another prompt might differ. Then it is
    how far the mean may lie off if the share of prompts that differ is as large as none in n may
    hide (the exact binomial bound).
    """
    if len(points) < 2:
        return None
    low, high = min(points), max(points)
    if low < high:
        return bootstrap_interval(points)
    unseen = 1 - ((1 - LEVEL) / 2) ** (1 / len(points))
    return Interval(low - unseen * low, high + unseen * (1 - high))


def strengths(
    names: Sequence[str], matches: Mapping[tuple[str, str], Mapping[str, Match]], seed: int = 0
) -> dict[str, tuple[float, Interval | None]]:
    """Log-strength of each folder less that of the first, with an interval over prompts."""
    prompts = sorted({p for each in matches.values() for p in each})
    index = {name: i for i, name in enumerate(names)}
    wins_P_F_F = np.zeros((len(prompts), len(names), len(names)))
    for (a, b), found in matches.items():
        for p, prompt in enumerate(prompts):
            match = found.get(prompt)
            if match and match.winner:
                wins_P_F_F[p, index[a], index[b]] += POINTS[match.winner]
                wins_P_F_F[p, index[b], index[a]] += 1 - POINTS[match.winner]
    value_F = bradley_terry(wins_P_F_F.sum(axis=0))
    rng = np.random.default_rng(seed)
    drawn = np.array(
        [
            bradley_terry(wins_P_F_F[rng.integers(0, len(prompts), len(prompts))].sum(axis=0))
            for _ in range(REPS)
        ]
    )
    return {
        name: (float(value_F[i]), percentile_interval(drawn[:, i]) if i else None)
        for i, name in enumerate(names)
    }


def bradley_terry(wins_F_F: Floats) -> Floats:
    """Log-strengths less the first's, [F]; `wins[i, j]` is how often i beat j."""
    wins = wins_F_F + PRIOR_GAMES / 2 * (1 - np.eye(len(wins_F_F)))
    games, won = wins + wins.T, wins.sum(axis=1)
    strength = np.ones(len(wins))
    for _ in range(ITERATIONS):
        pairs = games / (strength[:, None] + strength[None, :])
        strength = won / pairs.sum(axis=1)
        strength /= strength.sum()
    return np.asarray(np.log(strength) - np.log(strength[0]))


def run(paths: Sequence[str | Path], judge: Pairwise) -> dict[str, Any]:
    """Every pair of folders, as plain data; the first folder is what the others are held against.

    Raises ConfigError for fewer than two folders, or two of one name.
    """
    folders = [read(path) for path in paths]
    names = [folder.name for folder in folders]
    if len(folders) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            f"got the folders {', '.join(names)}: give two or more that differ in name"
        )
    matches: dict[tuple[str, str], dict[str, Match]] = {}
    for a, b in itertools.combinations(reversed(folders), 2):
        matches[a.name, b.name] = asyncio.run(judge_pair(judge, a, b))
    rates = [win_rate(a, b, found) for (a, b), found in matches.items()]
    placed = strengths(names, matches) if len(names) > 2 else {}
    return {
        "judge": {"model": judge.client.settings.model, "prompt_sha256": judge.prompt_hash},
        "rates": [asdict(rate) for rate in rates],
        "strengths": {name: {"value": v, "interval": i} for name, (v, i) in placed.items()},
        "matches": {
            f"{a} against {b}": {name: asdict(match) for name, match in found.items()}
            for (a, b), found in matches.items()
        },
    }


def told(found: Mapping[str, Any]) -> str:
    """The result in a few lines."""
    lines = []
    for rate in found["rates"]:
        head = f"{rate['a']} against {rate['b']}: "
        if rate["rate"] is None:
            why = _why(found, rate)
            lines.append(f"{head}nobody could tell in any of {rate['prompts']} prompts{why}")
            continue
        bounds = rate["interval"]
        told = rate["prompts"] - rate["unscored"]
        interval = (
            f" [{bounds[0]:.3f}, {bounds[1]:.3f}]" if bounds else f" (no interval: {told} told)"
        )
        word = "" if not bounds or bounds[0] > 0.5 or bounds[1] < 0.5 else ", not separated"
        consistent = "none asked" if rate["consistent"] is None else f"{rate['consistent']:.2f}"
        lines.append(
            f"{head}win rate {rate['rate']:.3f}{interval}{word}; {rate['prompts']} prompts, ties "
            f"{rate['ties']:.2f}, both orders agree {consistent}, {rate['settled']} settled "
            f"without a judge, {rate['unscored']} unscored{_why(found, rate)}"
        )
    for name, each in found["strengths"].items():
        bounds = each["interval"]
        interval = f" [{bounds[0]:+.2f}, {bounds[1]:+.2f}]" if bounds else " (the others' measure)"
        lines.append(f"{name}: log-strength {each['value']:+.2f}{interval}")
    return "\n".join(lines)


def _why(found: Mapping[str, Any], rate: Mapping[str, Any]) -> str:
    """The most frequent reason for which nobody could tell, in brackets."""
    matches = found["matches"][f"{rate['a']} against {rate['b']}"].values()
    reasons = Counter(match["reason"] for match in matches if match["winner"] is None)
    return f" ({reasons.most_common(1)[0][0]})" if reasons else ""
