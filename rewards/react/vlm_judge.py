"""`react.vlm_judge`: a vision-language model looks at the mounted page, and scores it 0..10.

The paper's screenshot judge: the score counts a tenth, and what yields no page gets -0.3. Its three
variants are those of the paper's stability study (figure F10):

    global    one question with the request and the picture; no lines
    one_turn  one question that holds the code as well; the score and up to three lines
    two_turn  the question of `global` fixes the score; a second one gets the code and only names
              lines, so that the code cannot sway the score

A page that cannot be shown is not shown to anybody, and a blank one gets 0 without a question.
Where the model is a bad judge, so is this reward: how good one is, its user has to measure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.judges.budget import NoVerdict, Usage
from botgrpo.rewards.judges.client import JudgeClient, Session
from botgrpo.rewards.judges.fence import fence, remark
from botgrpo.rewards.judges.prompts import prompt_hash, request_text
from botgrpo.rewards.judges.settings import settings
from botgrpo.rewards.pictures import picture
from botgrpo.rewards.react.compile import judge_mounted
from botgrpo.rewards.react.examples import vlm_examples
from botgrpo.rewards.react.extract import Extraction
from botgrpo.rewards.react.judged_lines import LOCAL_RANGE, blamed, lines_exist, shown
from botgrpo.rewards.react.vlm_prompts import ATTRIBUTE, BOTH, LOOK, Lines, Look, LookAndLines
from botgrpo.sandbox.browser import PageResult, ReactBrowser, shared_browser
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.react import CompileResult

_OWN = ("variant", "unreadable")
Variant = Literal["global", "one_turn", "two_turn"]
_PROMPTS = {"global": (LOOK,), "one_turn": (BOTH,), "two_turn": (LOOK, ATTRIBUTE)}
_NO_PAGE = -0.3  # the paper's value where extraction or transpilation fails
_BLANK = 0.0


class VlmJudge:
    """A vision-language model's score of the page's picture in 0..1; -0.3 where there is no page.

    Needs a browser, and an OpenAI-compatible endpoint that takes images: `url` and `model`, or
    BOTGRPO_JUDGE_URL and BOTGRPO_JUDGE_MODEL (the key from BOTGRPO_JUDGE_KEY); without them
    `ConfigError`. `options` are those of `botgrpo.rewards.judges.settings.Settings`.

    `variant`: "global" blames no lines, "one_turn" and "two_turn" up to three, -0.1 to -0.3 each.
    In "two_turn" lines that nobody could tell leave the score as it is and the local signal
    unscored. `unreadable="zero"` gives 0 and no lines where the judge said nothing that can be
    read, as the paper does; a spent budget stays unscored even so.

    Verdicts: judged; those of react.compile with a mounted page where that is not `ok` (-0.3;
    `blank` 0); infra_error, unreadable and budget are unscored.
    """

    def __init__(
        self,
        url: str | None = None,
        model: str | None = None,
        *,
        variant: Variant = "global",
        unreadable: Literal["unscored", "zero"] = "unscored",
        backend: str = "auto",
        browser: ReactBrowser | None = None,
        **options: Any,
    ) -> None:
        if variant not in get_args(Variant):
            raise ConfigError(f"got variant = {variant!r}; allowed: {', '.join(_PROMPTS)}")
        if unreadable not in ("unscored", "zero"):
            raise ConfigError(f'got unreadable = {unreadable!r}; allowed: "unscored" or "zero"')
        self.spec = RewardSpec(
            name="react.vlm_judge",
            version="1",
            outcome_range=(_NO_PAGE, 1.0),
            local_range=None if variant == "global" else LOCAL_RANGE,
            deterministic=False,
            needs=("judge", "sandbox", "browser"),
            summary="a vision-language model's score of the page's picture"
            + ("" if variant == "global" else ", and the three worst lines"),
        )
        self.client = JudgeClient(settings(self.spec.name, url, model, options, _OWN))
        self.variant = variant
        self.unreadable = unreadable
        self._browser = browser or shared_browser(backend)

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of all that the judge is told, for the manifest."""
        return prompt_hash(_PROMPTS[self.variant])

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once; the browser queues pages, the client calls."""
        try:
            await self._browser.ready()
        except SandboxUnavailable as error:  # else only those that do not compile would count
            return [Score.unscored(rollout.id, str(error)) for rollout in rollouts]
        async with self.client.session() as session, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._score(session, rollout)) for rollout in rollouts]
        return [task.result() for task in tasks]

    def examples(self) -> Sequence[Example]:
        """A working component, pages that fail or stay blank, and prose."""
        return vlm_examples()

    async def _score(self, session: Session, rollout: Rollout) -> Score:
        began, usage = time.perf_counter(), Usage()
        code, compiled, page = await judge_mounted(self._browser, rollout.completion)
        if page is not None and page.png is not None:
            picture(rollout.id, page.png)
        score = _without_asking(rollout, compiled, page)
        if score is None:
            assert code is not None and page is not None and page.png is not None
            score = await self._judged(session, rollout, code, page.png, usage)
        seconds = time.perf_counter() - began
        return replace(score, metrics=usage.metrics(), seconds=seconds)

    async def _judged(
        self, session: Session, rollout: Rollout, code: Extraction, png: bytes, usage: Usage
    ) -> Score:
        request = fence(request_text(rollout.prompt), "REQUEST")
        check = lines_exist(code)
        try:
            if self.variant == "one_turn":
                question = BOTH.fill(png, request=request, code=shown(code))
                both = await session.ask(question, LookAndLines, usage, check=check)
                return _judgment(rollout, both, blamed(code, both.lines))
            look = await session.ask(LOOK.fill(png, request=request), Look, usage)
        except NoVerdict as error:
            zero = self._counts_as_zero(error)
            score = Score.unscored(rollout.id, str(error), verdict=error.verdict)
            return replace(score, outcome=0.0, local_scored=True) if zero else score
        score = _judgment(rollout, look)
        if self.variant == "global":
            return score
        # what the judge said of a hostile page may repeat its words: data, like the page
        said = fence(remark(look.remark), "REMARK")
        question = ATTRIBUTE.fill(
            png, request=request, code=shown(code), score=str(look.score), remark=said
        )
        try:
            found = await session.ask(question, Lines, usage, check=check)
        except NoVerdict as error:
            reason = f"{score.reason} (no lines: {error})"
            return replace(score, reason=reason, local_scored=self._counts_as_zero(error))
        return replace(score, spans=blamed(code, found.lines))

    def _counts_as_zero(self, error: NoVerdict) -> bool:
        """A spent budget says nothing about the judge, so the paper's 0 is not for it."""
        return self.unreadable == "zero" and error.verdict != "budget"


def _without_asking(
    rollout: Rollout, compiled: CompileResult, page: PageResult | None
) -> Score | None:
    """The score of what has no page to show, None for a page that a judge has to see."""
    result = compiled if page is None else page
    if result.status == "infra_error":
        return Score.unscored(rollout.id, result.reason)
    if result.status != "ok":
        outcome = _BLANK if result.status == "blank" else _NO_PAGE
        return Score(rollout.id, outcome, verdict=result.status, reason=result.reason)
    if page is None or page.png is None:
        return Score.unscored(rollout.id, "the browser gave no picture of the page")
    return None


def _judgment(rollout: Rollout, seen: Look | LookAndLines, spans: tuple[Span, ...] = ()) -> Score:
    reason = remark(seen.remark)
    return Score(rollout.id, seen.score / 10, verdict="judged", reason=reason, spans=spans)
