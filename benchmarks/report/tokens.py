"""Sampled rollouts as token heat maps: what each token was given, in three views.

Views: the local reward S, the token reward r = w_g G + w_s S, and the advantage. Everything that a
model wrote is kept as plain text here; the template escapes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from botgrpo.benchmarks.question import Json, number
from botgrpo.benchmarks.report.svg import visible
from botgrpo.benchmarks.results import Cell, SuiteResult, load_rollouts
from botgrpo.sandbox.errors import ConfigError

VIEWS = {"local": "local reward", "token_rewards": "token reward", "advantages": "advantage"}
LEVELS = 4  # shades on each side of 0
FAINTEST = 0.02  # a smaller share of the scale is drawn as 0
STEPS_SHOWN = 4
ROLLOUTS_A_STEP = 3
PANELS_MAX = 240  # keeps the page small; rollouts.jsonl holds the rest


@dataclass(frozen=True, slots=True)
class Piece:
    """A token (or text between tokens, with empty `classes` and `note`)."""

    text: str
    classes: str
    note: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A span of the reward in words."""

    line: int
    value: float | None
    label: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One rollout on the page."""

    arm: str
    seed: int
    step: int
    id: str
    verdict: str
    reason: str
    outcome: float | None
    finish: str
    prompt: str
    pieces: tuple[Piece, ...]
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Browser:
    """All panels, the value at full colour of each view, and what was left out."""

    panels: tuple[Panel, ...]
    scales: Mapping[str, float]
    left_out: int
    problems: tuple[str, ...]


def build_browser(suite: SuiteResult) -> Browser:
    """Choose rollouts that can be compared (same seed, same steps in all arms) and colour them."""
    chosen: list[tuple[Cell, Json]] = []
    problems: list[str] = []
    total = 0
    for arm in suite.arms:
        for seed in suite.seeds:
            cell = suite.cells[arm, seed]
            rows, notes = load_rollouts(cell)
            problems += notes
            if rows:
                chosen += [(cell, row) for row in _pick(rows, PANELS_MAX // len(suite.arms))]
                total += len(rows)
                break
    chosen = _side_by_side(chosen)
    scales = {view: _scale(view, [row for _, row in chosen]) for view in VIEWS}
    panels = tuple(_checked_panel(cell, row, scales) for cell, row in chosen)
    return Browser(panels, scales, total - len(panels), tuple(problems))


def _pick(rows: Sequence[Json], at_most: int) -> list[Json]:
    """First, last and evenly spaced steps; within a step as many verdicts as possible."""
    steps = sorted({row["step"] for row in rows})
    n_steps = max(1, min(STEPS_SHOWN, len(steps), at_most))
    a_step = max(1, min(ROLLOUTS_A_STEP, at_most // n_steps))
    picked: list[Json] = []
    for place in np.linspace(0, len(steps) - 1, n_steps).round().astype(int):
        here = [row for row in rows if row["step"] == steps[place]]
        firsts = list({str(row.get("verdict")): row for row in reversed(here)}.values())
        picked += [*firsts, *(row for row in here if row not in firsts)][:a_step]
    return picked


def _side_by_side(chosen: Sequence[tuple[Cell, Json]]) -> list[tuple[Cell, Json]]:
    """By step, then the first rollout of every arm, then the second: designs stand in a row."""
    seen: Counter[tuple[str, int]] = Counter()
    keyed: list[tuple[int, int, tuple[Cell, Json]]] = []
    for cell, row in chosen:
        keyed.append((row["step"], seen[cell.arm, row["step"]], (cell, row)))
        seen[cell.arm, row["step"]] += 1
    return [pair for _, _, pair in sorted(keyed, key=lambda k: k[:2])]


def _numbers(row: Json, view: str, length: int) -> list[float | None] | None:
    """T values of a view; None where the record has none that fit its tokens."""
    values = row.get(view)
    if not isinstance(values, list) or len(values) != length:
        return None
    return [number(v) for v in values]


def _scale(view: str, rows: Sequence[Json]) -> float:
    """Value at full colour of a view, over all shown tokens; never 0."""
    found = [
        abs(v)
        for row in rows
        if isinstance(spans := row.get("token_spans"), list)
        for v in (_numbers(row, view, len(spans)) or ())
        if v
    ]
    return full_colour(found)


def full_colour(magnitudes: Sequence[float]) -> float:
    """Value at full colour: the 98th percentile, so that one outlier does not pale the rest."""
    return float(np.quantile(magnitudes, 0.98)) if magnitudes else 1.0


def _checked_panel(cell: Cell, row: Json, scales: Mapping[str, float]) -> Panel:
    try:
        return _panel(cell, row, scales)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"{cell.folder / 'rollouts.jsonl'}: step {row['step']}, rollout {row.get('id')!r}: "
            f"{type(error).__name__} {error}; token_spans are [start, end] pairs, spans have "
            "start, end, value and label"
        ) from error


def _panel(cell: Cell, row: Json, scales: Mapping[str, float]) -> Panel:
    text = str(row.get("completion", ""))
    spans = row.get("token_spans") or []
    if not isinstance(spans, list):
        raise TypeError(f"token_spans are {type(spans).__name__}")
    views = {view: _numbers(row, view, len(spans)) for view in VIEWS}
    missing = [f"no {VIEWS[v]}" for v, values in views.items() if values is None]
    if not spans:
        missing = ["no tokens recorded"]
    return Panel(
        arm=cell.arm,
        seed=cell.seed,
        step=row["step"],
        id=str(row.get("id", "")),
        verdict=str(row.get("verdict", "")),
        reason=str(row.get("reason", "")),
        outcome=number(row.get("outcome")),
        finish=str(row.get("finish_reason", "")),
        prompt=prompt_text(row.get("prompt", "")),
        pieces=tuple(_pieces(text, spans, views, scales, row.get("spans") or [])),
        findings=tuple(_findings(text, row.get("spans") or [])),
        missing=tuple(missing),
    )


def prompt_text(prompt: object) -> str:
    """A prompt as plain text; of chat messages, each with its role."""
    if isinstance(prompt, list):
        return "\n".join(
            f"{m.get('role', '')}: {m.get('content', '')}" if isinstance(m, Mapping) else str(m)
            for m in prompt
        )
    return str(prompt)


def _findings(text: str, spans: Sequence[Json]) -> Iterator[Finding]:
    for span in spans:
        start, end = int(span["start"]), int(span["end"])
        excerpt = text[start:end].strip("\n").split("\n")[0][:80]
        yield Finding(
            text.count("\n", 0, start) + 1,
            number(span.get("value")),
            str(span.get("label", "")),
            excerpt,
        )


def _pieces(
    text: str,
    token_spans: Sequence[Sequence[int]],
    views: Mapping[str, list[float | None] | None],
    scales: Mapping[str, float],
    spans: Sequence[Json],
) -> Iterator[Piece]:
    """Tokens in order. Tokens that share a character show it once; the others become small marks.

    Characters that no token covers are shown without colour.
    """
    labels = sorted((int(s["start"]), int(s["end"]), str(s.get("label", ""))) for s in spans)
    starts = [start for start, _, _ in labels]
    for i, start, end in laid_out(len(text), token_spans):
        shown = text[start:end]
        if i is None:
            yield Piece(shown, "", "")
            continue
        values = {v: None if column is None else column[i] for v, column in views.items()}
        # the last span that starts before the token's end is the innermost that can cover it
        k = bisect_right(starts, max(start, end - 1)) - 1
        reason = labels[k][2] if k >= 0 and labels[k][1] > start and shown else ""
        yield Piece(shown, _classes(shown, values, scales), _note(values, reason))


def laid_out(
    length: int, token_spans: Sequence[Sequence[int]]
) -> Iterator[tuple[int | None, int, int]]:
    """(token, start, end) from 0 to `length`, each character once.

    Of tokens that share a character the later ones come without text; token is None for characters
    that no token covers.
    """
    at = 0
    for i, (start, end) in enumerate(token_spans):
        start = max(at, min(start, length))
        if start > at:
            yield None, at, start
        at = max(start, min(end, length))
        yield i, start, at
    if at < length:
        yield None, at, length


def _classes(shown: str, values: Mapping[str, float | None], scales: Mapping[str, float]) -> str:
    """`l3`, `ln3`: local reward, third shade above or below 0; likewise `t` and `a`."""
    names = [] if shown else ["z"]
    for view, value in values.items():
        if value is None:
            names.append(f"{view[0]}u")
            continue
        if level := shade(value, scales[view]):
            names.append(f"{view[0]}{'n' if value < 0 else ''}{level}")
    return " ".join(names) or "o"


def shade(value: float, scale: float) -> int:
    """0 (none) to LEVELS (full colour, at `scale` and beyond)."""
    share = min(1.0, abs(value) / scale)
    return max(1, round(share * LEVELS)) if share > FAINTEST else 0


def _note(values: Mapping[str, float | None], reason: str) -> str:
    parts = [
        f"{VIEWS[view]} {'unknown' if value is None else f'{value:+.3g}'}"
        for view, value in values.items()
    ]
    return " · ".join([*parts, visible(reason)] if reason else parts)
