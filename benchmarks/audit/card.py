"""A card for each reward, side by side: its figures, its alarms, and what separates it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from botgrpo.benchmarks import scoring
from botgrpo.benchmarks.audit.advantages import advantage_figures
from botgrpo.benchmarks.audit.alarms import Verdict, verdict
from botgrpo.benchmarks.audit.estimate import difference
from botgrpo.benchmarks.audit.figure import Figure
from botgrpo.benchmarks.audit.labels import Labelled
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.audit.probes import Probe, make_probes, probe_figures
from botgrpo.benchmarks.audit.richness import richness_figures
from botgrpo.benchmarks.audit.side import confound_figures, health_figures
from botgrpo.benchmarks.audit.stability import stability_figures
from botgrpo.benchmarks.audit.truth import truth_figures
from botgrpo.benchmarks.stats import Interval
from botgrpo.rewards import Reward, RewardSpec, Score
from botgrpo.sandbox.errors import ConfigError

Word = Literal["higher", "lower", "not separated", ""]  # "": nobody can tell
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Separation:
    """A figure of one reward against the first one's, over the same resampled prompts."""

    word: Word
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of one reward.

    Attributes:
        name: the reference that the user wrote.
        spec: what it promises.
        verdict: one sentence.
        figures: in the order of the page.
        against_first: key -> how the figure differs from the first reward's; empty on the first.
        seen: what it said.
    """

    name: str
    spec: RewardSpec
    verdict: Verdict
    figures: tuple[Figure, ...]
    against_first: Mapping[str, Separation]
    seen: Observed

    def figure(self, key: str) -> Figure:
        """The figure of that name."""
        return next(f for f in self.figures if f.key == key)


def audit(
    rewards: Mapping[str, Reward],
    items: Sequence[Labelled],
    passes: int,
    progress: Progress = lambda line: None,
    earlier: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Card]:
    """Score everything and make the cards; the first reward is what the others are held against.

    `earlier` holds outcomes of an earlier audit: reward -> id -> mean outcome.

    Raises `ConfigError` without rollouts, rewards or passes, and what scoring raises.
    """
    if not items or not rewards:
        raise ConfigError(
            f"got {len(items)} rollouts and {len(rewards)} rewards; needs one of each"
        )
    probes = make_probes(items)
    cards: list[Card] = []
    first: Observed | None = None
    for name, reward in rewards.items():
        seen, probed = asyncio.run(_scored(name, reward, items, passes, probes, progress))
        progress(f"{name}: figures")
        before = None if earlier is None else earlier.get(name, {})
        figures = figures_of(seen, probes, probed, first, before)
        against = (
            {f.key: separation(f, cards[0].figure(f.key)) for f in figures if _shared(f, cards[0])}
            if cards
            else {}
        )
        cards.append(Card(name, seen.spec, verdict(name, figures), tuple(figures), against, seen))
        first = first or seen
    return cards


def figures_of(
    seen: Observed,
    probes: Sequence[Probe],
    probed: Sequence[Score],
    first: Observed | None,
    earlier: Mapping[str, float] | None = None,
) -> list[Figure]:
    """Every figure of one reward, in the order of the page."""
    return [
        *stability_figures(seen, earlier),
        *advantage_figures(seen, first),
        *truth_figures(seen),
        *probe_figures(seen, probes, probed),
        *confound_figures(seen),
        *richness_figures(seen),
        *health_figures(seen),
    ]


def separation(figure: Figure, other: Figure) -> Separation:
    """Whether it is above or below the other, as far as resampled prompts can tell."""
    a, b = figure.estimate, other.estimate
    found = difference(a, b)
    if found is None:
        return Separation("")
    if found.low <= 0 <= found.high:
        return Separation("not separated", found)
    return Separation("higher" if found.low > 0 else "lower", found)


def to_json(cards: Sequence[Card], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The cards as plain data: null for what nobody could tell, with `why`."""
    return {"facts": dict(facts), "rewards": [_card_json(card) for card in cards]}


def _card_json(card: Card) -> dict[str, Any]:
    spec = card.spec
    figures = {}
    for figure in card.figures:
        e = figure.estimate
        record: dict[str, Any] = {
            "title": figure.title,
            "axis": figure.axis,
            "value": _finite(e.value),
            "interval": None if e.interval is None else [_finite(b) for b in e.interval],
            "why": e.why,
            "good": figure.good,
            "note": figure.note,
        }
        if (against := card.against_first.get(figure.key)) is not None and against.word:
            record["against_first"] = {
                "word": against.word,
                "interval": None
                if against.interval is None
                else [_finite(b) for b in against.interval],
            }
        figures[figure.key] = record
    return {
        "name": card.name,
        "version": spec.version,
        "outcome_range": [_finite(b) for b in spec.outcome_range],
        "local_range": None if spec.local_range is None else [_finite(b) for b in spec.local_range],
        "deterministic": spec.deterministic,
        "verdict": card.verdict.sentence,
        "alarms": list(card.verdict.alarms),
        "figures": figures,
        "outcomes": {
            item.id: _finite(float(mean))
            for item, mean in zip(card.seen.items, card.seen.mean_outcome_R, strict=True)
        },
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _shared(figure: Figure, card: Card) -> bool:
    return any(figure.key == other.key for other in card.figures)


async def _scored(
    name: str,
    reward: Reward,
    items: Sequence[Labelled],
    passes: int,
    probes: Sequence[Probe],
    progress: Progress,
) -> tuple[Observed, list[Score]]:
    rollouts = [item.rollout for item in items]
    try:
        began = time.perf_counter()
        found = await scoring.score_passes(
            reward, rollouts, passes, lambda n: progress(f"{name}: pass {n} of {passes}")
        )
        seconds = time.perf_counter() - began
        progress(f"{name}: {len(probes)} probes")
        (probed,) = await scoring.score_passes(reward, [p.rollout for p in probes])
    finally:
        await scoring.close(reward)
    return Observed(name, reward.spec, items, found, seconds), probed
