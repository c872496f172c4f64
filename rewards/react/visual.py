"""`react.visual`: does the mounted page look right, as far as that can be told without a model?

No opinion is asked: boxes, pixels, roles and axe-core's rules decide (`sandbox/inspection.py`), and
what the task asks of the page (`requirements.py`). The outcome is the weighted share of the checks:

    mounted    1, since what does not mount or is blank gets 0 and none of the others
    required   met of what the task asks: texts, roles, steps, tags
    text       of the stretches of text those that can be seen, and are not tiny
    contrast   of the texts those with enough contrast (WCAG AA, by axe-core)
    names      of axe-core's rules on names, roles and ARIA, elements that keep them
    overflow   0 where the page scrolls sideways
    clipping   of the texts those that nothing cuts through
    overlap    of texts and controls those that no other stands on

A check that has nothing to look at is left out, and so is its weight. The weights are our choice:
data, to be overridden and compared. Where a check points at an element, the opening tag that made
it gets what it cost the outcome, so that the spans of a check add up to what the check lost.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.pictures import picture
from botgrpo.rewards.react.compile import judge_mounted
from botgrpo.rewards.react.extract import Extraction, extract
from botgrpo.rewards.react.opening_tag import opening_tag
from botgrpo.rewards.react.requirements import Requirements, requirements_of
from botgrpo.rewards.react.visual_examples import visual_examples
from botgrpo.rewards.spans import TextMap
from botgrpo.sandbox.browser import ReactBrowser, shared_browser
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.inspection import CHECKS, Inspection

WEIGHTS: Mapping[str, float] = {
    "mounted": 0.2,
    "required": 0.3,
    "text": 0.15,
    "contrast": 0.1,
    "names": 0.1,
    "overflow": 0.05,
    "clipping": 0.05,
    "overlap": 0.05,
}


class ReactVisual:
    """0 to 1: the weighted share of checks that a mounted page passes; no model is asked.

    The reference may hold `page` and `elements` (see `requirements.py`). `weights` replaces single
    weights of `WEIGHTS`. Verdicts: those of react.compile with `mount` for what does not mount,
    with outcome 0; `too_large` for a page of more than 3,000 elements, or of more than 500 in
    each other, of which only `mounted` counts; else the check that cost most, or ok. infra_error,
    and all where no browser is, is unscored. Metrics: the share of each check that had something to
    look at.
    """

    def __init__(
        self,
        backend: str = "auto",
        weights: Mapping[str, float] | None = None,
        browser: ReactBrowser | None = None,
    ) -> None:
        self.weights = weights_of(weights or {})
        self.spec = RewardSpec(
            name="react.visual",
            version="2",
            outcome_range=(0.0, 1.0),
            local_range=(-1.0, 0.0),
            needs=("sandbox", "browser"),
            summary="share of checks that the mounted page passes: text, contrast, layout, task",
        )
        self._browser = browser or shared_browser(backend)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once. Raises `ConfigError` for a reference of another form."""
        asked = [requirements_of(rollout) for rollout in rollouts]
        wishes = [
            (code.code, each.wish())
            for rollout, each in zip(rollouts, asked, strict=True)
            if (code := extract(rollout.completion)) is not None
        ]
        with self._browser.expecting(wishes):
            try:
                await self._browser.ready()
            except SandboxUnavailable as error:  # else only those that do not compile would count
                return [Score.unscored(rollout.id, str(error)) for rollout in rollouts]
            return list(await asyncio.gather(*map(self._one, rollouts, asked)))

    def examples(self) -> Sequence[Example]:
        """A page without fault, and it tampered with in one place each."""
        return visual_examples()

    async def _one(self, rollout: Rollout, asked: Requirements) -> Score:
        code, compiled, page = await judge_mounted(self._browser, rollout.completion, asked.wish())
        result = compiled if page is None else page
        seconds = compiled.seconds + (page.seconds if page else 0.0)
        if page is not None and page.png is not None:
            picture(rollout.id, page.png)
        if result.status == "infra_error":
            return Score.unscored(rollout.id, result.reason, seconds=seconds)
        if page is None or page.status != "ok":
            return Score(
                rollout.id,
                0.0,
                verdict=result.status,
                reason=result.reason,
                metrics={"mounted": 0.0},
                seconds=seconds,
            )
        if page.inspection is None or code is None:
            return Score.unscored(rollout.id, "the browser said nothing of the page")
        return _score(rollout, code, page.inspection, asked, self.weights, seconds)


def weights_of(replaced: Mapping[str, float]) -> Mapping[str, float]:
    """`WEIGHTS` with some replaced. Raises ConfigError for a wrong name, or no weight at all."""
    weights = {**WEIGHTS, **replaced}
    if set(weights) - set(WEIGHTS):
        raise ConfigError(f"got weights of {', '.join(replaced)}; allowed: {', '.join(WEIGHTS)}")
    if not all(0 <= w < math.inf for w in weights.values()) or weights["mounted"] <= 0:
        raise ConfigError(
            f"got weights {dict(replaced)}; allowed: 0 or more, and more than 0 for mounted"
        )
    return weights


def shares_of(seen: Inspection, asked: Requirements) -> tuple[dict[str, float], list[str]]:
    """(the share of each check that applies, from 0 to 1; the requirements that are not met)."""
    shares = {"mounted": 1.0}
    missing, total = asked.unmet(seen)
    if total:
        shares["required"] = 1 - len(missing) / total
    for name in CHECKS:
        if not seen.complete:
            shares[name] = 0.0
        elif seen.checks[name].total:
            shares[name] = 1 - seen.checks[name].bad / seen.checks[name].total
    return shares, missing


def losses_of(shares: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """What each check takes from an outcome of 1; together at most 1."""
    room = math.fsum(weights[name] for name in shares)
    return {name: weights[name] * (1 - share) / room for name, share in shares.items()}


def _score(
    rollout: Rollout,
    code: Extraction,
    seen: Inspection,
    asked: Requirements,
    weights: Mapping[str, float],
    seconds: float,
) -> Score:
    shares, missing = shares_of(seen, asked)
    losses = losses_of(shares, weights)
    worst = max(losses, key=lambda name: losses[name])
    if not seen.complete:
        verdict = "too_large"
        reason = "more than 3,000 elements, or 500 in each other: not looked at"
    elif losses[worst] == 0:
        verdict, reason = "ok", ""
    else:
        verdict, reason = worst, _reason(worst, seen, missing)
    return Score(
        rollout.id,
        min(1.0, max(0.0, 1 - math.fsum(losses.values()))),
        verdict=verdict,
        reason=reason,
        spans=blame(code, seen, losses),
        metrics=shares,
        seconds=seconds,
    )


def _reason(check: str, seen: Inspection, missing: Sequence[str]) -> str:
    if check == "required":
        return f"lacks {', '.join(missing)}"
    found = seen.checks[check]
    if found.blemishes:
        return found.blemishes[0].message
    return "no text can be seen" if check == "text" else f"{found.bad} of {found.total}"


def blame(code: Extraction, seen: Inspection, losses: Mapping[str, float]) -> tuple[Span, ...]:
    """Minus what each blemish cost, on the opening tag that made it; one span a tag and check."""
    places = TextMap(code.code)
    found: dict[tuple[int, int, str], list[tuple[float, str]]] = {}
    for name, check in seen.checks.items():
        for blemish in check.blemishes:
            tag = blemish.place and _tag(places, *blemish.place)
            if tag and losses[name] > 0:
                cost = losses[name] / max(check.bad, len(check.blemishes))
                found.setdefault((*tag, name), []).append((cost, blemish.message))
    return tuple(
        Span(
            code.start + start,
            code.start + end,
            -min(1.0, math.fsum(cost for cost, _ in told)),
            f"{name}: {told[0][1]}" + f" ({len(told)} times)" * (len(told) > 1),
        )
        for (start, end, name), told in sorted(found.items(), key=lambda item: item[0])
    )


def _tag(places: TextMap, line: int, column: int) -> tuple[int, int] | None:
    """The opening tag there, if there is one: the page may have said what it likes."""
    return opening_tag(places.text, places.offset(line, column - 1, "utf16"))
