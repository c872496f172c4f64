"""`react.eslint`: what ESLint finds in the React source, as an outcome and on the places.

The weights are the paper's: -0.5 for a fatal finding (ESLint cannot read the source), -0.1 for an
error, -0.02 for a warning; their sum, no lower than -1, is the outcome. Each finding's place gets
its weight, places add up, and projected with `decay_lines` they reach whole lines. The rules are
those whose breach makes a page fail or misbehave, react-hooks' among them (worker/lint.mjs).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.react.examples import eslint_examples
from botgrpo.rewards.react.extract import Extraction, extract
from botgrpo.rewards.spans import TextMap
from botgrpo.sandbox.checker import CheckResult, Finding, ReactChecker, shared_checker
from botgrpo.sandbox.errors import SandboxUnavailable

WEIGHTS = {"fatal": -0.5, "error": -0.1, "warning": -0.02}
_LOWEST = -1.0


class ReactEslint:
    """0 for a source in which ESLint finds nothing, less for each finding, -1 at the lowest.

    Verdicts: ok, or the worst finding (warning, error, fatal). What cannot be linted counts as one
    fatal finding: no_code, too_large, timeout, oom, crash. infra_error is unscored. `checker`
    replaces the process's shared one.
    """

    def __init__(self, backend: str = "auto", checker: ReactChecker | None = None) -> None:
        self.spec = RewardSpec(
            name="react.eslint",
            version="1",
            outcome_range=(_LOWEST, 0.0),
            local_range=(WEIGHTS["fatal"], 0.0),
            needs=("sandbox",),
            summary="-0.5, -0.1 and -0.02 for ESLint's fatal findings, errors and warnings",
        )
        self._checker = checker or shared_checker(backend)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once; the checker takes them in batches."""
        return list(await asyncio.gather(*map(self._one, rollouts)))

    async def _one(self, rollout: Rollout) -> Score:
        code = extract(rollout.completion)
        if code is None:
            return _unread(rollout, CheckResult("no_code", reason="no code that may hold React"))
        try:
            result = await self._checker.check(code.code)
        except SandboxUnavailable as error:
            return Score.unscored(rollout.id, str(error))
        if result.status == "infra_error":
            return Score.unscored(rollout.id, result.reason, seconds=result.seconds)
        if result.status != "checked":
            return _unread(rollout, result)
        return _score(rollout, code, result)

    def examples(self) -> Sequence[Example]:
        """A clean answer, and it tampered with in one place each."""
        return eslint_examples()


def _unread(rollout: Rollout, result: CheckResult) -> Score:
    return Score(
        rollout.id,
        WEIGHTS["fatal"],
        verdict=result.status,
        reason=result.reason,
        metrics={"fatal": 1.0, "error": 0.0, "warning": 0.0},
        seconds=result.seconds,
    )


def _score(rollout: Rollout, code: Extraction, result: CheckResult) -> Score:
    places = TextMap(code.code)
    findings = [finding for finding in result.findings if finding.tool == "eslint"]
    counts: Counter[str] = Counter(finding.severity for finding in findings)
    worst = next((severity for severity in WEIGHTS if counts[severity]), "ok")
    total = sum((counts[severity] * weight for severity, weight in WEIGHTS.items()), 0.0)
    return Score(
        rollout.id,
        max(_LOWEST, total),
        verdict=worst,
        reason=findings[0].message if findings else "",
        spans=tuple(finding_span(code, places, each, WEIGHTS[each.severity]) for each in findings),
        metrics={severity: float(counts[severity]) for severity in WEIGHTS},
        seconds=result.seconds,
    )


def finding_span(code: Extraction, places: TextMap, finding: Finding, value: float) -> Span:
    """The finding's place in the completion; at the end of the code its last character."""
    start, end = places.span(finding.line, finding.column, finding.length, "utf16")
    last = max(len(code.code.rstrip()) - 1, 0)
    if start > last:
        start, end = last, min(last + 1, len(code.code))
    label = f"{finding.tool} {finding.rule}: {finding.message}"
    return Span(code.start + start, code.start + end, value, label)
