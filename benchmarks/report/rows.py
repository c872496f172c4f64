"""One rollout on the page of `botgrpo score --html`: what is shown of it, and what is cut off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from botgrpo.benchmarks.report.runs import Finding, Run, runs, shortened
from botgrpo.benchmarks.report.tokens import prompt_text
from botgrpo.rewards import RewardSpec, Rollout, Score, Span
from botgrpo.rewards.base import Prompt

LONGEST_COMPLETION = 60_000  # characters
LONGEST_PROMPT = 20_000
LONGEST_REASON = 2_000
LONGEST_NAME = 100
MOST_METRICS = 60
MOST_PARTS = 20
_PART = "rewards/"


@dataclass(frozen=True, slots=True)
class Part:
    """A reward inside a composite: its own outcome, and what else it measured."""

    name: str
    outcome: str
    metrics: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout on the page; `at` is its place in the file, from 0."""

    at: int
    id: str
    group: str
    title: str
    prompt: str
    verdict: str
    filter: int
    outcome: float | None
    shown_outcome: str
    tone: str
    reason: str
    notes: tuple[str, ...]
    n_tokens: int | None
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...]
    parts: tuple[Part, ...]
    metrics: tuple[tuple[str, str], ...]
    repeats: tuple[str, ...]
    changed: bool
    image: str | None


def row_of(
    spec: RewardSpec,
    rollout: Rollout,
    scores: Sequence[Score],
    *,
    at: int,
    scale: float,
    filter: int,
    changed: bool,
    image: str | None,
) -> Row:
    """A rollout and its scores, one a pass; `filter` numbers its verdict, `image` is a data URL."""
    score, prompt = scores[0], prompt_text(rollout.prompt)
    text, tokens, local, spans = _cut(rollout, score)
    made, findings = runs(text, tokens, local, spans, scale)
    parts, own = _parts(score.metrics)
    metrics = [*_numbers(own), ("seconds", f"{score.seconds:.3g}")]
    return Row(
        at=at,
        id=shortened(rollout.id, LONGEST_NAME),
        group=shortened(rollout.group, LONGEST_NAME),
        title=_title(rollout.prompt),
        prompt=shortened(prompt, LONGEST_PROMPT),
        verdict=shortened(score.verdict, LONGEST_NAME),
        filter=filter,
        outcome=score.outcome,
        shown_outcome=_outcome(score),
        tone=_tone(spec, score.outcome),
        reason=shortened(score.reason, LONGEST_REASON),
        notes=tuple(_notes(rollout, score, len(spans) - len(findings))),
        n_tokens=None if tokens is None else len(tokens),
        runs=tuple(made),
        findings=tuple(findings),
        parts=parts,
        metrics=tuple(metrics),
        repeats=tuple(map(_outcome, scores)) if len(scores) > 1 else (),
        changed=changed,
        image=image,
    )


def _parts(metrics: Mapping[str, float]) -> tuple[tuple[Part, ...], dict[str, float]]:
    """Metrics of a composite by the part that they are of, `rewards/PART/NAME`; and all others.

    What a judge did not take (calls, tokens, money: 0) is left out.
    """
    own: dict[str, float] = {}
    found: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        part = _part(key, metrics)
        if part is None or (part not in found and len(found) >= MOST_PARTS):
            own[key] = value
            continue
        values, name = found.setdefault(part, {}), key[len(part) + 1 :]
        if value or not name.startswith("judge/"):
            values[name] = value
    parts = [
        Part(
            shortened(part.removeprefix(_PART), LONGEST_NAME),
            _shown(values.pop("", None)),
            tuple(_numbers(values)),
        )
        for part, values in found.items()
    ]
    return tuple(parts), own


def _part(key: str, metrics: Mapping[str, float]) -> str | None:
    """The shortest key that this one continues, or its first two pieces; None for no part."""
    if not key.startswith(_PART):
        return None
    pieces = key.split("/")
    for end in range(2, min(len(pieces), MOST_PARTS)):
        if (prefix := "/".join(pieces[:end])) in metrics:  # a name may hold a slash itself
            return prefix
    continued = any(other.startswith(f"{key}/") for other in metrics)
    return key if continued else "/".join(pieces[:2])


def _numbers(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """To six digits; of very many the first."""
    shown = [(shortened(name, LONGEST_NAME), f"{v:.6g}") for name, v in metrics.items()]
    if len(shown) > MOST_METRICS:
        shown[MOST_METRICS:] = [("more metrics, not shown", str(len(shown) - MOST_METRICS))]
    return shown


def _outcome(score: Score) -> str:
    return _shown(score.outcome)


def _shown(outcome: float | None) -> str:
    return "unscored" if outcome is None else f"{outcome:.6g}".replace("-", "\N{MINUS SIGN}")


def _title(prompt: Prompt) -> str:
    """The beginning of what was asked: of chat messages, of the last one."""
    asked = prompt if isinstance(prompt, str) else prompt[-1].get("content", "") if prompt else ""
    return shortened(" ".join(asked[:1000].split()), 200) or "(empty prompt)"


def _cut(
    rollout: Rollout, score: Score
) -> tuple[str, list[tuple[int, int]] | None, Sequence[float | None] | None, list[Span]]:
    """Text, tokens, their local values and the spans, as far as the page shows the completion."""
    n = min(len(rollout.completion), LONGEST_COMPLETION)
    text = rollout.completion[:n]
    spans = [s for s in score.spans if s.start < n or n == len(rollout.completion)]
    local = score.local
    tokens: list[tuple[int, int]] | None = None
    if rollout.token_spans is not None and (local is not None or not score.local_scored):
        tokens = [
            (start, min(end, n)) for start, end in rollout.token_spans if start < n or end <= n
        ]
        local = local if score.local_scored else (None,) * len(tokens)
    return text, tokens, local, spans


def _notes(rollout: Rollout, score: Score, undrawn: int) -> Iterator[str]:
    left = len(rollout.completion) - LONGEST_COMPLETION
    if rollout.finish_reason == "length":
        yield "the policy was cut at its length limit"
    if left > 0:
        beyond = sum(s.start >= LONGEST_COMPLETION for s in score.spans)
        yield f"the last {left:,} characters are not shown, nor the {beyond} spans that begin there"
    if undrawn > 0:
        yield f"{undrawn} more spans are not drawn"
    if score.outcome is not None and not score.local_scored:
        yield "nobody could tell the local values"
    if rollout.token_spans is None and score.local is not None:
        yield "its local values belong to tokens, whose places are not recorded"


def _tone(spec: RewardSpec, outcome: float | None) -> str:
    """CSS class of an outcome: at the top of the declared range, at its foot, or between."""
    low, high = spec.outcome_range
    if outcome is None or not low < high:
        return "flat"
    return "better" if outcome >= high else "worse" if outcome <= low else "leads"
