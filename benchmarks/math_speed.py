"""How fast and how right maths grading is, beside what others use:

    .envs/math/bin/python -m botgrpo.benchmarks.math_speed answer --cases math_answers.jsonl

Texts are generated from a seed: long thinking, then an answer, right in half of them. Both graders
see the same texts in the same process, one after the other, on one core; what is timed is the
core's work. A third of the texts answers in `<final>`, which math-verify does not look for. Without
math-verify only our side is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from botgrpo.rewards import Rollout, build

_TAGS = re.compile("</?think>")
_CASE_S = 10.0  # after which a peer's process is killed

_SENTENCES = (
    "We need the remainder of ${a}^{{{b}}}$ when it is divided by {c}. ",
    "So $x^2 + {a}x = {b}$, which gives $x = \\frac{{{a} \\pm \\sqrt{{{c}}}}}{{2}}$. ",
    "Wait, let me check: {a} * {b} + {c} is not what I had before. ",
    "There are $\\binom{{{a}}}{{2}}$ ways to choose two boxes, and {b} of them are left.\n\n",
    "Since $a_n = {a} a_{{n-1}} + {b}$ and $a_0 = {c}$, the sequence grows.\n",
    "Hmm, if n is {a} then the sum is at most {b}, so this case adds nothing. ",
    "Therefore the total is \\[ {a} + {b} + {c} = S \\] and we go on.\n\n",
    "Let $\\{{p, q\\}}$ be the roots; by Vieta $p + q = {a}$ and $pq = {b}$. ",
    "Perhaps I should try a smaller case first, say {a}, and look for a pattern. ",
    "The triangle with sides {a}, {b} and {c} has a right angle at $A$. ",
)
_RARE = "But $x < {a}$, so the sum is at most {b} and this case adds nothing. "
_RARE_EVERY = 4000  # characters: so often "<" stands in the model solutions of Mr-Ben
_ENDINGS = (
    "</think>\n\nThe final answer is $\\boxed{{{n}}}$.",
    "</think>\n\n<final>{n}</final>",
    "</think>\n\n**Answer**\n\\[\n\\boxed{{{n}}}\n\\]\n",
)


def trace(seed: int, chars: int) -> tuple[str, int]:
    """(a text of `chars` characters, the number that it gives as its answer), from a seed."""
    chance = random.Random(seed)
    number = chance.randrange(1000)
    ending = chance.choice(_ENDINGS).format(n=number)
    pieces = ["<think>\n"]
    length = len(ending) + len(pieces[0])
    while length < chars:
        rare = length // _RARE_EVERY > (length - len(pieces[-1])) // _RARE_EVERY
        numbers = {name: chance.randrange(2, 999) for name in "abc"}
        pieces.append((_RARE if rare else chance.choice(_SENTENCES)).format(**numbers))
        length += len(pieces[-1])
    return "".join(pieces)[: chars - len(ending)] + ending, number


def answer(arguments: argparse.Namespace) -> None:
    """`math.answer` and math-verify on the same traces, then on cases with known verdicts.

    Our side also without thinking tags, where it has to look for `<final>` in the whole text.
    """
    rollouts, right = [], []
    for seed in range(arguments.texts):
        text, number = trace(seed, arguments.chars)
        right.append(seed % 2 == 0)
        accepted = number if right[-1] else (number + 1) % 1000
        rollouts.append(Rollout(str(seed), "g", "p", text, {"accepted": [accepted]}))
    signs = statistics.mean(r.completion.count("<") for r in rollouts)
    print(f'{len(rollouts)} traces of {arguments.chars:,} characters, {signs:.0f} "<" in each')
    plain = [replace(r, completion=_TAGS.sub("", r.completion)) for r in rollouts]
    with asyncio.Runner() as runner:
        grade = partial(grade_ours, runner)
        ours = rate("math.answer", grade, rollouts, right, arguments.repeats)
        rate("math.answer, no thinking tags", grade, plain, right, arguments.repeats)
    if importlib.util.find_spec("math_verify") is not None:
        theirs = rate("math-verify", grade_theirs, rollouts, right, 1)
        print(f"{'math.answer / math-verify':34} {ours / theirs:12,.0f} times")
    else:
        print("math-verify is not installed here; next: make env-math")
    if arguments.cases:
        cases(arguments.cases)


Grade = Callable[[Sequence[Rollout]], Callable[[], Sequence[bool]]]


def rate(
    name: str, grade: Grade, rollouts: Sequence[Rollout], right: Sequence[bool], repeats: int
) -> float:
    """Grades a second, the median over repeats, printed with its range and how many were right."""
    work = grade(rollouts)
    agreed = sum(a == b for a, b in zip(work(), right, strict=True))
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        rates.append(len(rollouts) / (time.process_time() - began))
    middle = statistics.median(rates)
    print(
        f"{name:34} {middle:12,.1f} grades/s ({min(rates):,.1f} to {max(rates):,.1f}), "
        f"{agreed}/{len(rollouts)} right",
        flush=True,
    )
    return middle


def grade_ours(runner: asyncio.Runner, rollouts: Sequence[Rollout]) -> Callable[[], Sequence[bool]]:
    """The whole reward: place, verdict, span, metrics."""
    reward = build("math.answer")
    return lambda: [s.verdict == "correct" for s in runner.run(_all(reward, rollouts))]


async def _all(reward: Any, rollouts: Sequence[Rollout]) -> Any:
    return await reward.score(rollouts)


def grade_theirs(rollouts: Sequence[Rollout]) -> Callable[[], Sequence[bool]]:
    """math-verify with its defaults; the accepted answers are read beforehand."""
    from math_verify import parse, verify

    golds = [parse(f"\\boxed{{{r.reference['accepted'][0]}}}") for r in rollouts]
    pairs = list(zip(golds, rollouts, strict=True))
    return lambda: [verify(gold, parse(r.completion)) for gold, r in pairs]


def cases(path: Path) -> None:
    """How many of a file's verdicts each grader gives; math-verify only knows right and not."""
    lines = path.read_text(encoding="utf-8").splitlines()
    known = [json.loads(line) for line in lines]
    rollouts = [
        Rollout(
            c["id"], "g", "p", c["completion"], {k: c[k] for k in ("accepted", "kind") if k in c}
        )
        for c in known
    ]
    scores = asyncio.run(_all(build("math.answer"), rollouts))
    missed = [c["id"] for c, s in zip(known, scores, strict=True) if s.verdict != c["verdict"]]
    _print_cases(path, "math.answer, verdicts", len(known), missed)
    if importlib.util.find_spec("math_verify") is not None:
        graded = [(c, their_verdict(c)) for c in known]
        wrong = [f"{c['id']} ({v})" for c, v in graded if v != str(c["verdict"] == "correct")]
        _print_cases(path, "math-verify, right or not", len(known), wrong)


def _print_cases(path: Path, name: str, count: int, missed: Iterable[str]) -> None:
    missed = list(missed)
    print(f"{path.name}: {name}: {count - len(missed)}/{count}", flush=True)
    if missed:
        print(f"    missed: {', '.join(missed)}")


_CHILD = """
import json, sys
from math_verify import parse, verify
case = json.load(sys.stdin)
target = parse(case["completion"])
print(any(verify(parse(f"\\\\boxed{{{gold}}}"), target) for gold in case["accepted"]))
"""


def their_verdict(case: dict[str, Any]) -> str:
    """ "True", "False", or how its process ended; a process each, since some cases hang it."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD],
            input=json.dumps(case),
            capture_output=True,
            text=True,
            timeout=_CASE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"killed after {_CASE_S:g} s"
    return done.stdout.strip() if done.returncode == 0 else "failed"


PARTS = {"answer": answer}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m botgrpo.benchmarks.math_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--cases", type=Path, help="JSON Lines: completion, accepted, verdict")
    parser.add_argument("--chars", type=int, default=60_000, help="length of a trace")
    parser.add_argument("--texts", type=int, default=200, help="number of traces")
    parser.add_argument("--repeats", type=int, default=50, help="of our side")
    arguments = parser.parse_args()
    PARTS[arguments.part](arguments)


if __name__ == "__main__":
    main()
