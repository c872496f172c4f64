"""`react.code_judge`: a language model reads the source; 0..10, and up to three lines to blame.

The paper's code judge: the score counts a tenth, a line with impact -1, -2 or -3 gets -0.1, -0.2 or
-0.3, and what is not React gets -0.3 and no lines. The text goes to the judge fenced and with line
numbers; a completion without code is not React, nor is one that the compiler calls too large, and
nobody is asked: that an endpoint takes no more is no way out of a bad score.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Literal

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.judges.budget import NoVerdict, Usage
from botgrpo.rewards.judges.client import JudgeClient, Session
from botgrpo.rewards.judges.fence import fence, remark
from botgrpo.rewards.judges.prompts import prompt_hash, request_text
from botgrpo.rewards.judges.settings import settings
from botgrpo.rewards.react.code_prompts import (
    DIGIT,
    DIGITS,
    FULL,
    LINES,
    CodeLines,
    CodeVerdict,
)
from botgrpo.rewards.react.examples import judge_examples
from botgrpo.rewards.react.extract import Extraction, extract
from botgrpo.rewards.react.judged_lines import LOCAL_RANGE, blamed, lines_exist, shown
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.errors import ConfigError

_OWN = ("expected_score", "unreadable")
_MOST_KIB = DEFAULT_LIMITS.source_kib
_NOT_REACT = -0.3  # the paper's sentinel of -3, a tenth of it


class CodeJudge:
    """A language model's score of the React source in 0..1 (-0.3: not React); blames three lines.

    Needs an OpenAI-compatible endpoint: `url` and `model`, or BOTGRPO_JUDGE_URL and
    BOTGRPO_JUDGE_MODEL, and where the endpoint asks for a key BOTGRPO_JUDGE_KEY; without them
    `ConfigError`. `options` are those of `botgrpo.rewards.judges.settings.Settings`.

    `expected_score` takes the score from the probabilities of one digit (0..9, divided by 9), in a
    call of its own that lines cannot sway. `unreadable="zero"` gives 0 and no lines where the judge
    said nothing that can be read, as the paper does; a spent budget stays unscored even so.

    Verdicts: judged, not_react, too_large; infra_error, unreadable and budget are unscored.
    """

    def __init__(
        self,
        url: str | None = None,
        model: str | None = None,
        *,
        expected_score: bool = False,
        unreadable: Literal["unscored", "zero"] = "unscored",
        **options: Any,
    ) -> None:
        if unreadable not in ("unscored", "zero"):
            raise ConfigError(f'got unreadable = {unreadable!r}; allowed: "unscored" or "zero"')
        self.spec = RewardSpec(
            name="react.code_judge",
            version="3",
            outcome_range=(_NOT_REACT, 1.0),
            local_range=LOCAL_RANGE,
            deterministic=False,
            needs=("judge",),
            summary="a language model's score of the React source, and the three worst lines",
        )
        self.client = JudgeClient(settings(self.spec.name, url, model, options, _OWN))
        self.expected_score = expected_score
        self.unreadable = unreadable

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of all that the judge is told, for the manifest."""
        return prompt_hash((DIGIT, LINES) if self.expected_score else (FULL,))

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once, as many calls as `concurrency` allows."""
        async with self.client.session() as session, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._score(session, rollout)) for rollout in rollouts]
        return [task.result() for task in tasks]

    def examples(self) -> Sequence[Example]:
        """A working component, one that does nothing, and prose."""
        return judge_examples()

    async def _score(self, session: Session, rollout: Rollout) -> Score:
        code = extract(rollout.completion)
        if code is None:
            reason = "no code block that may hold React"
            return Score(rollout.id, _NOT_REACT, verdict="not_react", reason=reason)
        if len(code.code.encode("utf-8", "surrogatepass")) > _MOST_KIB * 1024:
            reason = f"over {_MOST_KIB} KiB of source"
            return Score(rollout.id, _NOT_REACT, verdict="too_large", reason=reason)
        usage, began = Usage(), time.perf_counter()
        spans: tuple[Span, ...] = ()
        try:
            outcome, found = await self._ask(session, rollout, code, usage)
        except NoVerdict as error:
            # a spent budget says nothing about the judge, so the paper's 0 is not for it
            zero = self.unreadable == "zero" and error.verdict != "budget"
            outcome, verdict, reason = 0.0 if zero else None, error.verdict, str(error)
        else:
            verdict, reason = "judged" if found.react else "not_react", remark(found.remark)
            if found.react:
                spans = blamed(code, found.lines)
        return Score(
            rollout.id,
            outcome,
            verdict=verdict,
            reason=reason,
            spans=spans,
            local_scored=outcome is not None,
            metrics=usage.metrics(),
            seconds=time.perf_counter() - began,
        )

    async def _ask(
        self, session: Session, rollout: Rollout, code: Extraction, usage: Usage
    ) -> tuple[float | None, CodeLines]:
        """(outcome, findings); two calls where the score is an expectation."""
        texts = {"request": fence(request_text(rollout.prompt), "REQUEST"), "code": shown(code)}
        check = lines_exist(code)
        if not self.expected_score:
            verdict = await session.ask(FULL.fill(**texts), CodeVerdict, usage, check=check)
            return verdict.score / 10 if verdict.react else _NOT_REACT, verdict
        found = await session.ask(LINES.fill(**texts), CodeLines, usage, check=check)
        if not found.react:
            return _NOT_REACT, found
        return await session.expect(DIGIT.fill(**texts), DIGITS, usage), found
