"""One page for all rewards of a stack: mounted once, and nobody's verdict the other's business."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from botgrpo.rewards import Composite, Design, Rollout, Score
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.visual import ReactVisual
from botgrpo.rewards.react.visual_examples import visual_examples
from botgrpo.sandbox.attempt import attempting
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.pool import Attempted
from botgrpo.sandbox.react import Bundle, CompileResult


class CountingPool:
    """One worker that takes a while, and gives every page the same reply."""

    versions: ClassVar[dict[str, str]] = {"chromium": "1"}

    def __init__(self, **changed: Any) -> None:
        self.asked: list[bool] = []  # whether it was to be looked at
        self.changed = changed
        self.workers = ThreadPoolExecutor(1)

    def submit(self, request: Any) -> Future[Attempted]:
        looked = "inspect" in request
        self.asked.append(looked)
        found = {"complete": False} if looked else None
        png = base64.b64encode(HEAD_OF_A_PICTURE).decode()
        reply = {"status": "ok", "reason": "", "png": png, "text": "", "nodes": 1, "height": 1}
        reply |= {"errors": [], "console": [], "notes": [], "inspection": found}
        answer = Attempted(reply | (self.changed if looked else {}))
        return self.workers.submit(lambda: time.sleep(0.02) or answer)


HEAD_OF_A_PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes([0, 0, 5, 0, 0, 0, 3, 32, 8, 2])


class Compiles:
    """Stands in for the compiler: everything compiles."""

    async def compile(self, source: str, **_: bool) -> CompileResult:
        return CompileResult("ok", bundle=Bundle(source, [], []))


def pages_of(pool: CountingPool, *names: str) -> list[Score]:
    """Scores of a stack of these rewards on four rollouts, two of which hold the same source."""
    browser = ReactBrowser("unsafe", compiler=Compiles())  # type: ignore[arg-type]
    browser._pool.close()
    browser._pool = pool  # type: ignore[assignment]
    made = {
        "react.compile": ReactCompile(browser=browser),
        "react.visual": ReactVisual(browser=browser),
    }
    parts = {name: made[name] for name in names}
    sources = ["1", "2", "3", "3"]
    texts = [f"```tsx\nexport default {n}\n```" for n in sources]
    rollouts = [Rollout(f"r{i}", "g", "p", text) for i, text in enumerate(texts)]
    stack = Composite(Design(dict.fromkeys(names, 1.0)), parts)  # type: ignore[arg-type]
    scores = asyncio.run(stack.score(rollouts))
    assert browser._wished == {}
    assert browser.pages == len(pool.asked)
    return scores


@pytest.mark.parametrize("first", ["react.compile", "react.visual"])
def test_a_stack_mounts_each_page_once(first: str) -> None:
    pool = CountingPool()
    scores = pages_of(pool, *sorted(("react.compile", "react.visual"), key=lambda n: n != first))
    assert pool.asked == [True] * 3  # before, three without and three with a look
    assert {score.metrics["rewards/react.compile/mounted"] for score in scores} == {1.0}


def test_alone_a_reward_asks_for_no_more_than_it_needs() -> None:
    pool = CountingPool()
    pages_of(pool, "react.compile")
    assert pool.asked == [False] * 3


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "hang", "png": None, "inspection": None},
        {"status": "runtime_error", "png": None, "inspection": None},
        {"status": "runtime_error", "reason": "the page navigated away"},
        {"status": "infra_error", "png": None, "inspection": None},
    ],
)
def test_a_page_that_a_click_spoils_is_mounted_again_for_who_does_not_click(
    changed: dict[str, Any],
) -> None:
    pool = CountingPool(**changed)
    scores = pages_of(pool, "react.compile", "react.visual")
    assert {score.metrics["rewards/react.compile/mounted"] for score in scores} == {1.0}
    assert pool.asked.count(False) == 3


def test_a_page_that_fails_by_itself_is_not_mounted_again() -> None:
    pool = CountingPool(status="runtime_error", inspection=None)
    scores = pages_of(pool, "react.compile", "react.visual")
    assert {score.outcome for score in scores} == {0.0} and pool.asked == [True] * 3


SPOILT = "```tsx\nexport default () => <button onClick={() => { %s }}>Add</button>;\n```"
CLICK = {"do": [{"click": {"role": "button", "name": "Add"}}], "then": {"texts": ["x"]}}


def alone_and_together(
    browser: ReactBrowser, rollouts: Sequence[Rollout]
) -> tuple[list[list[float | None]], list[list[float | None]], int]:
    """Outcomes of both rewards apart and in a stack, and the pages that the stack took."""
    parts = {"c": ReactCompile(browser=browser), "v": ReactVisual(browser=browser)}
    with attempting(7):
        apart = [asyncio.run(part.score(rollouts)) for part in parts.values()]
    before = browser.pages
    with attempting(8):
        stack = Composite(Design({"c": 1.0, "v": 1.0}), parts)
        together = asyncio.run(stack.score(rollouts))
    of_parts = [[score.metrics.get(f"rewards/{name}") for score in together] for name in parts]
    return [[s.outcome for s in each] for each in apart], of_parts, browser.pages - before


@pytest.mark.browser
def test_in_a_real_browser_a_stack_takes_one_page_and_says_what_its_rewards_say_alone(
    browser: ReactBrowser,
) -> None:
    examples = [each for each in visual_examples() if each.verdict not in ("syntax", "no_code")]
    apart, together, pages = alone_and_together(browser, [each.rollout for each in examples])
    assert apart == together
    assert pages == len(examples)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("spoilt", ["for (;;);", "location = 'about:blank'"])
def test_what_a_click_spoils_is_no_business_of_who_does_not_click(
    browser: ReactBrowser, spoilt: str
) -> None:
    one = Rollout("r", "g", "p", SPOILT % spoilt, {"page": {"steps": [CLICK]}})
    apart, together, _ = alone_and_together(browser, [one])
    assert apart == together == [[1.0], [0.0]]
