"""From a file of rollouts to a folder with the card: audit.json and audit.html."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from botgrpo.benchmarks import scoring
from botgrpo.benchmarks.audit.card import Card, audit, to_json
from botgrpo.benchmarks.audit.evidence import evidence
from botgrpo.benchmarks.audit.labels import Labelled, read_labelled
from botgrpo.benchmarks.audit.page import page_html
from botgrpo.benchmarks.report.document import write_page
from botgrpo.rewards.judges.provenance import in_words, judges_of
from botgrpo.rewards.registry import build
from botgrpo.sandbox.errors import ConfigError


def run(
    rewards: Sequence[str],
    rollouts: str,
    out: Path,
    *,
    passes: int,
    tokenizer: Any = None,
    backend: str = "auto",
    verdict_first: bool = True,
    since: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Card]:
    """Audit the rewards, write `out`/audit.json and `out`/audit.html, and return the cards.

    Args:
        rewards: references; the first is what the others are held against.
        rollouts: file of rollouts, labels where there are any, or "-".
        out: folder to make.
        passes: how often each reward scores each rollout.
        tokenizer: supplies tokens where a rollout has none; None leaves it without.
        backend: sandbox of the rewards that use one.
        verdict_first: sentences above the figures.
        since: folder of an earlier audit, to see what has drifted.
        progress: gets a line before each pass.

    Raises:
        ConfigError: a reward named twice or unknown, a record that is wrong (with its line).
    """
    if len(set(rewards)) < len(rewards):
        raise ConfigError(f"got a reward twice in {', '.join(rewards)}; name each once")
    if passes < 1:
        raise ConfigError(f"got {passes} passes; allowed: 1 or more")
    built = {name: build(name, defaults={"backend": backend}) for name in rewards}
    items = read_labelled(rollouts)
    if tokenizer is not None:
        placed = scoring.with_tokens([item.rollout for item in items], tokenizer)
        items = [replace(i, rollout=r) for i, r in zip(items, placed, strict=True)]
    earlier = None if since is None else _earlier(since)
    out.mkdir(parents=True, exist_ok=True)
    cards = audit(built, items, passes, progress, earlier)
    facts = _facts(items, passes, Path(rollouts).name)
    labelled = bool(facts["labelled_outcomes"] or facts["labelled_places"])
    judges = {
        part if part == name else f"{part} of {name}": judge
        for name, made in built.items()
        for part, judge in judges_of(made, name).items()
    }
    facts["judges"] = in_words(judges, labelled=labelled)
    text = json.dumps(to_json(cards, facts), indent=1, allow_nan=False)
    (out / "audit.json").write_text(text + "\n", encoding="ascii")
    found = {card.name: evidence(card.seen) for card in cards}
    html = page_html(cards, found, facts, verdict_first=verdict_first)
    write_page(out / "audit.html", html)
    return cards


def _earlier(folder: Path) -> dict[str, dict[str, float]]:
    """Outcomes of an earlier audit: reward -> id -> mean outcome."""
    path = folder / "audit.json"
    try:
        records = json.loads(path.read_text(encoding="utf-8"))["rewards"]
        return {
            str(record["name"]): {
                str(id): float(value)
                for id, value in record["outcomes"].items()
                if value is not None
            }
            for record in records
        }
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name an audit's folder") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path} is no audit's: {type(error).__name__}: {error}") from None


def _facts(items: Sequence[Labelled], passes: int, file: str) -> dict[str, Any]:
    return {
        "file": file,
        "rollouts": len(items),
        "prompts": len({item.rollout.group for item in items}),
        "passes": passes,
        "labelled_outcomes": sum(item.outcome is not None for item in items),
        "labelled_places": sum(item.faults is not None for item in items),
        "with_tokens": sum(item.rollout.token_spans is not None for item in items),
    }
