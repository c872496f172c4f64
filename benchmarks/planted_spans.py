"""Do blamed places land on what is wrong?  python -m botgrpo.benchmarks.planted_spans

Random programs, full of signs that tools count in different units (emoji, lone surrogates, marks of
direction, all five ends of a line), each with one planted fault inside a random completion. Every
tool that can know the fault is asked as the rewards ask it, and a span of its must hold the planted
token, in code points of the completion. Prints the counts by tool and fault; exit status 1 where
one was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from botgrpo.rewards import Rollout, Span
from botgrpo.rewards.react.compile import blame
from botgrpo.rewards.react.eslint import finding_span
from botgrpo.rewards.react.extract import extract
from botgrpo.rewards.spans import TextMap
from botgrpo.sandbox.checker import ReactChecker, shared_checker
from botgrpo.sandbox.react import ReactCompiler, shared_compiler

NOISE = "aZé漢🤨\ud83e\u202e\u00a0\t \u0301\u0000\x0b\x85\ufeff{}<>()"
ENDS = ("\n", "\r\n", "\r", "\u2028", "\u2029")
FAULTS = {  # and the tools that can know of them
    "syntax": ("esbuild", "typescript", "eslint"),
    "name": ("typescript", "eslint"),
    "link": ("esbuild", "typescript"),
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A completion whose code has one fault, at `completion[start:end]`."""

    completion: str
    start: int
    end: int
    fault: str


@dataclass(slots=True)
class Counts:
    """By (tool, fault): programs, spans that are the token or hold it and more; and misses."""

    programs: Counter[tuple[str, str]] = field(default_factory=Counter)
    exact: Counter[tuple[str, str]] = field(default_factory=Counter)
    wider: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[tuple[str, Planted, tuple[Span, ...]]] = field(default_factory=list)


def planted(seed: int) -> Planted:
    """The same seed gives the same program."""
    rng = random.Random(seed)

    def noise() -> str:
        return "".join(rng.choices(NOISE, k=rng.randrange(10)))

    head = "".join(f"// {noise()}{rng.choice(ENDS)}" for _ in range(rng.randrange(4)))
    same = f'/* {noise()} */ "{noise()}"; `{noise()}`; '
    fault, before, token, after = rng.choice(
        [
            ("syntax", "const b = ", ";", ""),
            ("syntax", "", ")", ""),
            ("name", "", rng.choice(["und", "плохо", "é漢", "$_é"]), "();"),
            ("link", "import { ", rng.choice(["Fire", "Füße"]), ' as z } from "react"; z;'),
        ]
    )
    opening = f"{noise()}\n```tsx\n" + "\ufeff" * rng.randrange(2)
    tail = f"{rng.choice(ENDS)}/* {noise()} */ export default () => <p>{{1}}</p>;"
    start = len(opening + head + same + before)
    text = f"{opening}{head}{same}{before}{token}{after}{tail}\n```\n{noise()}"
    return Planted(text, start, start + len(token), fault)


async def spans_of(
    program: Planted, compiler: ReactCompiler, checker: ReactChecker
) -> dict[str, tuple[Span, ...]]:
    """What each tool blames, in the completion."""
    code = extract(program.completion)
    assert code is not None
    compiled, checked = await asyncio.gather(compiler.compile(code.code), checker.check(code.code))
    rollout = Rollout("r", "g", "p", program.completion)
    found = {"esbuild": blame(code, compiled.diagnostics, rollout)}
    places = TextMap(code.code)
    for finding in checked.findings:
        span = finding_span(code, places, finding, -1.0)
        found[finding.tool] = (*found.get(finding.tool, ()), span)
    return found


async def count(
    programs: Sequence[Planted], compiler: ReactCompiler, checker: ReactChecker
) -> Counts:
    """Every program against every tool that can know its fault."""
    counts = Counts()
    every = await asyncio.gather(*(spans_of(each, compiler, checker) for each in programs))
    for program, found in zip(programs, every, strict=True):
        for tool in FAULTS[program.fault]:
            key, spans = (tool, program.fault), found.get(tool, ())
            counts.programs[key] += 1
            if any((s.start, s.end) == (program.start, program.end) for s in spans):
                counts.exact[key] += 1
            elif any(s.start <= program.start and program.end <= s.end for s in spans):
                counts.wider[key] += 1
            else:
                counts.missed.append((tool, program, spans))
    return counts


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--programs", type=int, default=1000, metavar="N")
    parser.add_argument("--backend", default="auto")
    arguments = parser.parse_args()
    programs = [planted(seed) for seed in range(arguments.programs)]
    backend = arguments.backend
    checker = shared_checker(backend, types=True)
    counts = asyncio.run(count(programs, shared_compiler(backend), checker))
    print(f"{len(programs)} programs, one planted fault each")
    print(f"{'tool':12}{'fault':10}{'programs':>9}{'exact':>8}{'wider':>8}{'missed':>8}")
    for key, asked in sorted(counts.programs.items()):
        exact, wider = counts.exact[key], counts.wider[key]
        print(f"{key[0]:12}{key[1]:10}{asked:9}{exact:8}{wider:8}{asked - exact - wider:8}")
    for tool, program, spans in counts.missed[:3]:
        print(f"missed by {tool}: {program!r}: {spans!r}")
    return int(bool(counts.missed))


if __name__ == "__main__":
    sys.exit(main())
