"""Judges of pictures against vLLM itself, with a tiny vision-language model of random weights.

Its opinions are noise and no test reads anything into them. What is real here: the server, the
picture's way through its image processor, its grammar, and its token counts.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from botgrpo.rewards import Rollout
from botgrpo.rewards.judges.budget import NoVerdict, Usage
from botgrpo.rewards.judges.client import JudgeClient
from botgrpo.rewards.judges.pairwise import Pairwise
from botgrpo.rewards.judges.question import Question
from botgrpo.rewards.judges.settings import settings
from botgrpo.rewards.local import check_score
from botgrpo.rewards.react.vlm_judge import VlmJudge
from botgrpo.sandbox.browser import PageResult
from botgrpo.sandbox.react import CompileResult
from botgrpo.trainer.models import locate
from vllm_server import PYTHON, serving

pytestmark = [pytest.mark.slow, pytest.mark.small]
PICTURES = ["--limit-mm-per-prompt", '{"image": 2}', "--max-model-len", "8192"]
TEXT = "```tsx\nexport default function App() {\n  return <b>hi</b>;\n}\n```"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    if not PYTHON.exists():
        pytest.skip("no vLLM in .envs/vllm; next: make env-vllm")
    folder = tmp_path_factory.mktemp("vlm")
    maker = str(Path(__file__).with_name("tiny_vlm.py"))
    words = str(locate("smollm2-135m"))
    subprocess.run([str(PYTHON), maker, words, str(folder / "model")], check=True, timeout=300)
    with serving(folder / "model", "tiny", folder, PICTURES) as address:
        yield address


class Look(BaseModel):
    """Without free text, which a model of random weights may never end."""

    model_config = ConfigDict(extra="forbid")

    seen: Literal["page", "nothing"]
    score: int = Field(ge=0, le=10)


def png(shade: int, width: int = 128, height: int = 80) -> bytes:
    """A picture of one half in black and the other in a shade of grey."""

    def chunk(name: bytes, data: bytes) -> bytes:
        code = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + code

    row = b"\0" + b"\0\0\0" * (width // 2) + bytes([shade] * 3) * (width - width // 2)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * height))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def asked(url: str, *pictures: bytes) -> Usage:
    client = JudgeClient(settings("test", url, "tiny", {"cache": False, "max_tokens": 60}))

    async def run() -> Usage:
        usage = Usage()
        async with client.session() as session:
            question = Question("You judge pages.", ("How good is it?", *pictures))
            answer = await session.ask(question, Look, usage)
        assert 0 <= answer.score <= 10
        return usage

    return asyncio.run(run())


def test_the_grammar_holds_with_a_picture_too_and_each_picture_is_read(url):
    without, one, two = (asked(url, *map(png, shades)).tokens_in for shades in ([], [9], [9, 200]))
    assert one - without >= 20  # four tiles and the whole, four tokens each
    assert two - one == pytest.approx(one - without, abs=4)


class Page:
    """Stands in for the browser: the test is of what comes after it."""

    async def ready(self) -> None:
        return None

    async def render(self, source: str, *_: object) -> tuple[CompileResult, PageResult]:
        return CompileResult("ok"), PageResult("ok", png=png(120, 1280, 800))


@pytest.mark.parametrize("variant", ["global", "one_turn", "two_turn"])
def test_the_reward_runs_end_to_end_and_gives_a_score_in_range_or_none(url, variant):
    reward = VlmJudge(
        url, "tiny", variant=variant, browser=Page(), cache=False, max_tokens=300, temperature=1.0
    )  # type: ignore[arg-type]
    rollouts = [Rollout(f"r{n}", "g", f"Write app {n}.", TEXT) for n in range(6)]
    scores = asyncio.run(reward.score(rollouts))
    for rollout, score in zip(rollouts, scores, strict=True):
        check_score("react.vlm_judge", reward.spec, rollout, score)
        assert score.metrics["judge/tokens_in"] > 100
        assert (score.outcome is None) == (score.verdict == "unreadable"), score


def test_two_pictures_are_compared_or_nobody_could_tell(url):
    judge = Pairwise(url, "tiny", cache=False, max_tokens=300, temperature=1.0)

    async def run():
        async with judge.client.session() as session:
            pairs = (
                judge.compare(session, f"page {n}", png(40), png(220), Usage()) for n in range(4)
            )
            return await asyncio.gather(*pairs)

    for match in asyncio.run(run()):
        assert len(match.votes) == 4 if match.winner else match.reason


def test_more_pictures_than_the_server_takes_are_refused_at_once(url):
    client = JudgeClient(settings("test", url, "tiny", {"cache": False}))

    async def run():
        async with client.session() as session:
            question = Question("Judge.", ("Three:", png(1), png(2), png(3)))
            await session.ask(question, Look, Usage())

    with pytest.raises(NoVerdict, match="HTTP 400"):
        asyncio.run(run())
