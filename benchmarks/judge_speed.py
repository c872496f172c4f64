"""How fast judging is without a model:  python -m botgrpo.benchmarks.judge_speed [PART ...]

Parts: cached (10,000 judgments read again from the disk), concurrent (500 calls at once against a
local server that stands in for the model: the wire is real, the opinions are not), faults (a fifth
of the calls fail in ten ways, each with a wrong answer where it has one), pages (how many
`react.compile(mount=True)` and `react.visual` mount apart and in one stack; needs a browser).
Prints medians with the range over repeats; exit status 1 where a fault became a reward, or a
stack's outcome is not that of its parts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botgrpo.benchmarks.speed import report
from botgrpo.benchmarks.stand_in import StandIn
from botgrpo.benchmarks.stand_in_faults import TEN, JudgeServer
from botgrpo.rewards import Composite, Design, Reward, Rollout, Score
from botgrpo.rewards.react.code_judge import CodeJudge
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.visual import ReactVisual
from botgrpo.rewards.react.visual_examples import visual_examples
from botgrpo.sandbox.attempt import attempting
from botgrpo.sandbox.browser import ReactBrowser

_CODE = """import {{ useState }} from "react";

export default function Counter{n}({{ title }}) {{
  const [n, setN] = useState({n});
  return (
    <section>
      <h2>{{title}}</h2>
      <button onClick={{() => setN(n + 1)}}>Clicked {{n}} times</button>
    </section>
  );
}}
"""


RIGHT = 0.7  # what `opinion` comes to; the faults say 10 of 10


def opinion(request: Mapping[str, Any]) -> str:
    """Always the same, in the form that react.code_judge asks for."""
    lines = [{"line": 8, "impact": -1, "why": "no label"}]
    return json.dumps({"react": True, "remark": "canned", "lines": lines, "score": 7})


def rollouts(count: int) -> list[Rollout]:
    """`count` completions that differ, so that no answer serves two of them."""
    return [
        Rollout(f"r{n}", "g", "Write a counter.", f"```tsx\n{_CODE.format(n=n)}```\n")
        for n in range(count)
    ]


def judged(reward: CodeJudge, batch: Sequence[Rollout]) -> tuple[float, list[Score]]:
    """Seconds and scores; all of them must have come."""
    began = time.perf_counter()
    scores = asyncio.run(reward.score(batch))
    seconds = time.perf_counter() - began
    lost = [score.reason for score in scores if score.outcome is None]
    if lost:
        print(f"{len(lost)} unscored: {lost[0]}")
    return seconds, scores


def cached(repeats: int, count: int = 10_000) -> None:
    """Judgments a second from the cache, with the code's extraction and the score's making."""
    with tempfile.TemporaryDirectory() as folder, StandIn(opinion) as server:
        reward = CodeJudge(server.url, "stand-in", cache=folder, concurrency=64)
        batch = rollouts(count)
        judged(reward, batch)
        calls = reward.client.budget.calls
        wall, cpu = [], []
        for _ in range(repeats):
            began = time.process_time()
            wall.append(count / judged(reward, batch)[0])
            cpu.append(count / (time.process_time() - began))
        report(f"{count:,} cached judgments read again", wall, "a second")
        report("... of this process's own time", cpu, "a second")
        print(f"{'calls while reading again':42} {reward.client.budget.calls - calls:9}")


def concurrent(repeats: int, count: int = 500) -> None:
    """Calls at once, each answered after half a second."""
    with StandIn(opinion, latency_s=0.5) as server:
        seconds, scored = [], 0
        for _ in range(repeats):
            reward = CodeJudge(server.url, "stand-in", cache=False, concurrency=count)
            took_s, scores = judged(reward, rollouts(count))
            seconds.append(took_s)
            scored += sum(score.outcome is not None for score in scores)
        report(f"{count} calls at once, 0.5 s each", seconds, "s")
        print(f"{'scored of asked':42} {scored:9} of {count * repeats}")


def faults(repeats: int, count: int = 1000) -> bool:
    """Rewards where a fifth of the calls fail; whether one of them came from a fault."""
    dice = random.Random(0)
    wrong = lost = 0
    seen: Counter[str] = Counter()
    for _ in range(repeats):
        plan = [dice.choice(TEN) if dice.random() < 0.2 else None for _ in range(3 * count)]
        with JudgeServer(opinion, plan.__getitem__, slow_s=60.0) as server:
            reward = CodeJudge(
                server.url, "stand-in", cache=False, concurrency=100, timeout_s=2.0, backoff_s=0.01
            )
            scores = asyncio.run(reward.score(rollouts(count)))
            seen.update(server.faults)
        lost += sum(score.outcome is None for score in scores)
        wrong += sum(score.outcome not in (None, RIGHT) for score in scores)
    kinds = ", ".join(f"{name} {seen[name]}" for name in TEN)
    print(f"{'calls that failed':42} {seen.total():9}  ({kinds})")
    print(f"{'wrong rewards':42} {wrong:9} of {count * repeats}")
    print(f"{'unscored, with a reason':42} {lost:9} of {count * repeats}")
    return wrong > 0


def pages(_: int) -> bool:
    """Pages counted, not timed; whether an outcome depends on what else is in the stack."""
    browser = ReactBrowser()
    parts: dict[str, Reward] = {
        "c": ReactCompile(browser=browser),
        "v": ReactVisual(browser=browser),
    }
    batch = [example.rollout for example in visual_examples()]
    try:
        with attempting(0):
            apart = [asyncio.run(part.score(batch)) for part in parts.values()]
        alone = browser.pages
        with attempting(1):
            together = asyncio.run(Composite(Design({"c": 1.0, "v": 1.0}), parts).score(batch))
    finally:
        browser.close()
    differ = sum(
        score.metrics.get(f"rewards/{name}") != own.outcome
        for name, scores in zip(parts, apart, strict=True)
        for score, own in zip(together, scores, strict=True)
    )
    print(f"{'pages mounted, one reward after another':42} {alone:9}  ({len(batch)} rollouts)")
    print(f"{'... by both in one stack':42} {browser.pages - alone:9}")
    print(f"{'outcomes that differ from those alone':42} {differ:9} of {2 * len(batch)}")
    return differ > 0


PARTS: dict[str, Callable[[int], bool | None]] = {
    "cached": cached,
    "concurrent": concurrent,
    "faults": faults,
    "pages": pages,
}


def main() -> int:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    return int(any([PARTS[part](arguments.repeats) for part in arguments.parts or PARTS]))


if __name__ == "__main__":
    sys.exit(main())
