"""`botgrpo score --html`: each rollout beside what the reward said of it, one offline page.

How the page is kept safe: `report/document.py`. Of many rollouts the page holds as many as a
browser takes well, every verdict among them, and says what it left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from botgrpo.benchmarks.report.document import environment, static, write_page
from botgrpo.benchmarks.report.mix import verdict_classes
from botgrpo.benchmarks.report.rows import LONGEST_NAME, row_of
from botgrpo.benchmarks.report.runs import exact, shortened
from botgrpo.benchmarks.report.tokens import LEVELS, full_colour
from botgrpo.benchmarks.stability import Stability, stability, stability_text
from botgrpo.rewards import Range, RewardSpec, Rollout, Score
from botgrpo.rewards.judges.provenance import in_words

MOST_ROLLOUTS = 500
# of rollouts and of pictures apart, so that a page stays under 15 MB whatever they hold
MOST_BYTES, MOST_IMAGE_BYTES = 8_000_000, 6_000_000
MOST_VERDICTS = 14
MOST_FILTERS = 100
OPEN = 3  # rollouts unfolded at the start


@dataclass(frozen=True, slots=True)
class Share:
    """How often a verdict was given to scored rollouts; `mean` is their mean outcome."""

    verdict: str
    css: str
    count: int
    mean: float


def write_view(
    path: str | Path,
    spec: RewardSpec,
    rollouts: Sequence[Rollout],
    passes: Sequence[Sequence[Score]],
    images: Mapping[str, bytes] | None = None,
    judges: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Write the page of the first pass; with more of them it also says what changed.

    Args:
        path: the file to write.
        spec: what the reward promises.
        rollouts: R rollouts.
        passes: one list of R scores for each pass, at least one.
        images: id of a rollout -> a PNG, JPEG, WebP or GIF to stand beside it, e.g. the screenshot
            of its page.
        judges: models that the reward asked, as `judges_of` gives them.
    """
    return write_page(Path(path), view_html(spec, rollouts, passes, images, judges))


def view_html(
    spec: RewardSpec,
    rollouts: Sequence[Rollout],
    passes: Sequence[Sequence[Score]],
    images: Mapping[str, bytes] | None = None,
    judges: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The page as text; arguments as for `write_view`."""
    scores = passes[0]
    again = stability(passes) if len(passes) > 1 else None
    pages = environment()
    pages.globals.update(exact=exact, extent=_extent, levels=range(1, LEVELS + 1))
    shares = _shares(scores)
    embedded = _embedded(pages, spec, rollouts, passes, again, dict(images or {}))
    unscored = Counter(s.reason for s in scores if s.outcome is None)
    outcomes = [s.outcome for s in scores if s.outcome is not None]
    return pages.get_template("view.html.j2").render(
        spec=spec,
        judges=in_words(judges or {}),
        n_rollouts=len(rollouts),
        n_groups=len({r.group for r in rollouts}),
        n_scored=len(outcomes),
        mean=sum(outcomes) / len(outcomes) if outcomes else None,
        shares=shares,
        unscored=[(shortened(reason, 300), n) for reason, n in unscored.most_common(5)],
        n_unscored=sum(unscored.values()),
        n_unknown=sum(s.local is not None and None in s.local for s in scores),
        verdicts=[shortened(v, LONGEST_NAME) for v in _verdicts(scores)[:MOST_FILTERS]],
        embedded=embedded,
        again=again,
        stability=stability_text(again, spec.name, deterministic=spec.deterministic)
        if again
        else [],
        most=MOST_ROLLOUTS,
        **static("view.js", "report.css", "view.css"),
    )


@dataclass(frozen=True, slots=True)
class Embedded:
    """Rendered rollouts in the order of the file, the value at full colour, and what is missing."""

    panels: tuple[Markup, ...]
    scale: float
    left_out: int
    images_left_out: int
    has_tokens: bool


def _embedded(
    pages: Environment,
    spec: RewardSpec,
    rollouts: Sequence[Rollout],
    passes: Sequence[Sequence[Score]],
    again: Stability | None,
    images: dict[str, bytes],
) -> Embedded:
    changed = again.changed if again else frozenset()
    chosen = _spread(passes[0], changed)[:MOST_ROLLOUTS]
    scale = _scale([rollouts[i] for i in chosen], [passes[0][i] for i in chosen])
    verdicts = _verdicts(passes[0])
    template = pages.get_template("rollout.html.j2")
    panels: dict[int, Markup] = {}
    size = image_size = no_image = 0
    opened = set(sorted(chosen)[:OPEN])
    for i in chosen:
        image = _image(images.get(rollouts[i].id))
        if image and image_size + len(image) > MOST_IMAGE_BYTES:
            image, no_image = None, no_image + 1
        row = row_of(
            spec,
            rollouts[i],
            [each[i] for each in passes],
            at=i,
            scale=scale,
            filter=verdicts.index(passes[0][i].verdict),
            changed=rollouts[i].id in changed,
            image=image,
        )
        panel = template.render(row=row, open=i in opened)
        size += len(panel.encode("utf-8", "xmlcharrefreplace")) - len(image or "")
        if size > MOST_BYTES:
            break
        image_size += len(image or "")
        panels[i] = Markup(panel)  # escaped by its own template
    return Embedded(
        tuple(panel for _, panel in sorted(panels.items())),
        scale,
        len(rollouts) - len(panels),
        no_image,
        any(rollouts[i].token_spans is not None for i in panels),
    )


def _spread(scores: Sequence[Score], changed: frozenset[str]) -> list[int]:
    """Places of all rollouts: of each verdict one, then a second ...; the changed ones first."""
    kinds: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for i in sorted(range(len(scores)), key=lambda i: scores[i].id not in changed):
        kinds[scores[i].outcome is None, scores[i].verdict].append(i)
    return [i for turn in zip_longest(*kinds.values()) for i in turn if i is not None]


def _scale(rollouts: Sequence[Rollout], scores: Sequence[Score]) -> float:
    """Value at full colour, over tokens; over spans of rollouts without tokens."""
    found: list[float] = []
    for rollout, score in zip(rollouts, scores, strict=True):
        if rollout.token_spans is not None and score.local is not None:
            found += [abs(value) for value in score.local if value]
        else:
            found += [abs(span.value) for span in score.spans if span.value]
    return full_colour(found)


def _extent(bounds: Range) -> str:
    low, high = (f"{bound:.6g}".replace("-", "\N{MINUS SIGN}") for bound in bounds)
    return f"{low} to {high}"


def _image(image: bytes | None) -> str | None:
    from botgrpo.rewards.judges.images import data_url

    return data_url(image) if image else None


def _shares(scores: Sequence[Score]) -> list[Share]:
    """Scored rollouts by verdict, the most frequent first; rare ones in one share at the end."""
    found: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.outcome is not None:
            found[score.verdict].append(score.outcome)
    classes = verdict_classes(set(found))
    order = sorted(found, key=lambda v: (-len(found[v]), v))
    named, rare = order[:MOST_VERDICTS], order[MOST_VERDICTS:]
    if rare:
        found["other verdicts"] = [g for verdict in rare for g in found[verdict]]
        classes["other verdicts"] = "v14"
        named.append("other verdicts")
    return [
        Share(
            shortened(verdict, LONGEST_NAME) or "no verdict",
            classes[verdict],
            len(found[verdict]),
            sum(found[verdict]) / len(found[verdict]),
        )
        for verdict in named
    ]


def _verdicts(scores: Sequence[Score]) -> list[str]:
    return sorted({score.verdict for score in scores})
