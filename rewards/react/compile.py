"""`react.compile`: does the React source in the completion compile, and where does it not?

Local rule: each blamed place gets -1. Of syntax errors only the first counts, since the parser's
later ones mostly follow from it; every import that does not resolve or link counts, once a place.
A second declaration is blamed, not the first; of two tags that do not match both are, since either
may be the wrong one. With `typescript` all syntax errors count that TypeScript's parser finds,
which goes on after the first, beside the compiler's, unless the source was cut off. A source that
has no code, no default export or a default export that is no component has no place to blame: no
spans. Nor has a page that fails.

What no parser has read counts as clean, and a failure without a place as clean throughout. Where
whole groups fail that is a way to be paid: a policy learned to leave out the quote that closes a
string, since the compiler then reads to the end of the file and blames its last character, far from
the fault. `known_only` makes both unknown, and takes the end of the file for no place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.local import Local
from botgrpo.rewards.pictures import picture
from botgrpo.rewards.react.eslint import finding_span
from botgrpo.rewards.react.examples import compile_examples, mounted_examples
from botgrpo.rewards.react.extract import Extraction, extract
from botgrpo.rewards.spans import TextMap, project
from botgrpo.sandbox.browser import PageResult, ReactBrowser, shared_browser
from botgrpo.sandbox.checker import ReactChecker, shared_checker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.inspection import Wish
from botgrpo.sandbox.react import (
    CompileResult,
    Diagnostic,
    Place,
    ReactCompiler,
    shared_compiler,
)

_TAG_MISMATCH = "Unexpected closing "
_AT_END = "syntax (truncated)"
_NO_CODE = CompileResult("no_code", reason="no code block that may hold React")


class ReactCompile:
    """1 if the React source in the completion compiles to a component, else 0; -1 on the places.

    With `mount` the component must also run: its page is opened in Chromium. Verdicts: no_code,
    syntax, resolve, link, no_default_export, not_a_component, too_large, timeout, oom, crash,
    mounted also runtime_error, hang, blank; ok; infra_error is unscored. Where nothing can be
    isolated, or no browser is there, every rollout is unscored with the reason. `typescript` adds
    places and changes no verdict. With `known_only` the tokens behind a syntax error have no local
    value, unless TypeScript has read on, and neither has any token of a failure that was cut off or
    names no place but the end of the file. `compiler`, `browser` and `checker` replace the
    process's shared ones.
    """

    def __init__(
        self,
        backend: str = "auto",
        mount: bool = False,
        typescript: bool = False,
        known_only: bool = False,
        compiler: ReactCompiler | None = None,
        browser: ReactBrowser | None = None,
        checker: ReactChecker | None = None,
    ) -> None:
        self.spec = RewardSpec(
            name="react.compile",
            version="3",
            outcome_range=(0.0, 1.0),
            local_range=(-1.0, 0.0),
            needs=("sandbox", "browser") if mount or browser else ("sandbox",),
            summary="1 if the React source compiles to a component, -1 on the places that stop it",
        )
        self._known_only = known_only
        self._compiler = compiler or shared_compiler(backend)
        self._browser = browser or (shared_browser(backend) if mount else None)
        self._checker = checker or (shared_checker(backend) if typescript else None)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once; compiler and browser queue what exceeds their workers."""
        if self._browser is not None:
            try:
                await self._browser.ready()
            except SandboxUnavailable as error:  # else only those that do not compile would count
                return [Score.unscored(rollout.id, str(error)) for rollout in rollouts]
        return list(await asyncio.gather(*map(self._one, rollouts)))

    async def _one(self, rollout: Rollout) -> Score:
        if self._browser is None:
            code, result = await judge(self._compiler, rollout.completion)
            page = None
        else:
            code, result, page = await judge_mounted(self._browser, rollout.completion)
        score = _score(rollout, code, result)
        if self._checker and code and result.status == "syntax" and not score.metrics["truncated"]:
            return await _further(score, code, self._checker)
        if page is None:
            return score
        if page.png is not None:
            picture(rollout.id, page.png)
        return _mounted(score, page)

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local:
        """The spans on their tokens; None where nobody knows, if only what is known shall count."""
        tokens = rollout.token_spans or ()
        values = project(score.spans, tokens, rollout.completion, decay_lines=decay_lines).tolist()
        if not self._known_only or score.outcome == 1.0:
            return tuple(values)
        placed = any(not span.label.startswith(_AT_END) for span in score.spans)
        if score.metrics.get("truncated") or not placed:
            return (None,) * len(values)
        if score.verdict != "syntax" or self._checker is not None:
            return tuple(values)
        end = max(span.end for span in score.spans)
        pairs = zip(values, tokens, strict=True)
        return tuple(value if start < end else None for value, (start, _) in pairs)

    def examples(self) -> Sequence[Example]:
        """Gold and tampered answers with the verdicts that must come out."""
        return compile_examples() if self._browser is None else mounted_examples()


async def judge(
    compiler: ReactCompiler, completion: str
) -> tuple[Extraction | None, CompileResult]:
    """The code of a completion and what the compiler says of it; never raises for a candidate."""
    code = extract(completion)
    if code is None:
        return None, _NO_CODE
    try:
        return code, await compiler.compile(code.code)
    except SandboxUnavailable as error:
        return code, CompileResult("infra_error", reason=str(error))


async def judge_mounted(
    browser: ReactBrowser, completion: str, wish: Wish | None = None
) -> tuple[Extraction | None, CompileResult, PageResult | None]:
    """As `judge`, and what its page came to; None where it did not compile.

    With a wish the page is looked at as well.
    """
    code = extract(completion)
    if code is None:
        return None, _NO_CODE, None
    try:
        return code, *await browser.render(code.code, wish)
    except SandboxUnavailable as error:
        return code, CompileResult("infra_error", reason=str(error)), None


def compile_metrics(
    rollout: Rollout, code: Extraction | None, result: CompileResult
) -> dict[str, float]:
    """`compile` 0 or 1, `chars` of the code, `truncated` 1 if the completion was cut off."""
    cut = rollout.finish_reason == "length" or (code is not None and code.truncated)
    return {
        "compile": float(result.status == "ok"),
        "chars": float(len(code.code) if code is not None else 0),
        "truncated": float(cut),
    }


def _score(rollout: Rollout, code: Extraction | None, result: CompileResult) -> Score:
    if result.status == "infra_error":
        return Score.unscored(rollout.id, result.reason, seconds=result.seconds)
    return Score(
        rollout.id,
        float(result.status == "ok"),
        verdict=result.status,
        reason=result.reason,
        spans=() if code is None else blame(code, result.diagnostics, rollout),
        metrics=compile_metrics(rollout, code, result),
        seconds=result.seconds,
    )


def _mounted(score: Score, page: PageResult) -> Score:
    """The score of a source that compiles, given what its page came to."""
    seconds = score.seconds + page.seconds
    if page.status == "infra_error":
        return Score.unscored(score.id, page.reason, seconds=seconds)
    ok = float(page.status == "ok")
    metrics = {**score.metrics, "mounted": ok}
    return replace(
        score,
        outcome=ok,
        verdict=page.status,
        reason=page.reason,
        metrics=metrics,
        seconds=seconds,
    )


async def _further(score: Score, code: Extraction, checker: ReactChecker) -> Score:
    """The score of a source with a syntax error, and all others that TypeScript finds."""
    try:
        checked = await checker.check(code.code)
    except SandboxUnavailable as error:
        return replace(score, spans=(), local_scored=False, reason=str(error))
    if checked.status == "infra_error":
        return replace(score, spans=(), local_scored=False, reason=checked.reason)
    places = TextMap(code.code)
    further = [
        finding_span(code, places, finding, -1.0)
        for finding in checked.findings
        if finding.tool == "typescript" and finding.severity == "fatal"
    ]
    return replace(score, spans=_merged([*score.spans, *further]))


def blame(
    code: Extraction, diagnostics: Iterable[Diagnostic], rollout: Rollout
) -> tuple[Span, ...]:
    """Spans of -1 in the completion, merged where they overlap.

    A source that ends too early has its error at its end: the last character of the code stands
    for it, and the label says `truncated`. Where the length limit cut the completion the value is
    0, because the policy did not choose to end there.
    """
    places = TextMap(code.code)
    spans = []
    for diagnostic in _counted(diagnostics):
        spans.append(_span(code, places, diagnostic, rollout))
        if diagnostic.message.startswith(_TAG_MISMATCH):
            # the compiler names the closing tag and notes the opening one, which is as often wrong
            spans += [_note(code, places, diagnostic, note) for note in diagnostic.notes]
    return _merged(spans)


def _counted(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """All but the syntax errors after the first, in their order."""
    counted: list[Diagnostic] = []
    for diagnostic in diagnostics:
        seen = any(d.kind == "syntax" for d in counted)
        if not (diagnostic.kind == "syntax" and seen):
            counted.append(diagnostic)
    return counted


def _span(code: Extraction, places: TextMap, diagnostic: Diagnostic, rollout: Rollout) -> Span:
    start, end = places.span(diagnostic.line, diagnostic.column, diagnostic.length, diagnostic.unit)
    text_end = len(code.code.rstrip())
    if diagnostic.kind == "syntax" and start >= text_end:
        cut = rollout.finish_reason == "length"
        last = max(text_end - 1, 0)
        return Span(
            code.start + last,
            code.start + min(last + 1, len(code.code)),
            0.0 if cut else -1.0,
            f"{_AT_END}: {diagnostic.message}",
        )
    label = f"{diagnostic.kind}: {diagnostic.message}"
    return Span(code.start + start, code.start + end, -1.0, label)


def _note(code: Extraction, places: TextMap, diagnostic: Diagnostic, note: Place) -> Span:
    start, end = places.span(note.line, note.column, note.length, diagnostic.unit)
    return Span(code.start + start, code.start + end, -1.0, f"{diagnostic.kind}: opening tag")


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sorted; overlapping or equal ones become one span that keeps the first label."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, s.end)):
        last = merged[-1] if merged else None
        place = (span.start, span.end)
        if last is not None and (span.start < last.end or place == (last.start, last.end)):
            end, value = max(last.end, span.end), min(last.value, span.value)
            merged[-1] = Span(last.start, end, value, last.label)
        else:
            merged.append(span)
    return tuple(merged)
