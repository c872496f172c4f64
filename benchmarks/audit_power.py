"""Does the audit find what is wrong?  python -m botgrpo.benchmarks.audit_power [--sets 10]

Rollouts with known faults are made from the React corpus, without any sandbox: each line with a
fault is labelled, and rewards that read the labels are clean by construction. Each noise at three
strengths is then put around one of them and audited, with labels and without. *Recall* is the share
of sets in which some alarm fires, *false alarms* the same for clean rewards, *told apart* the share
in which some figure is separated from the clean reward's for the worse. Both shares stand with
exact 95% bounds. `--write` keeps such rollouts in a file, to audit a real reward on.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from botgrpo.benchmarks import scoring
from botgrpo.benchmarks.audit.alarms import verdict
from botgrpo.benchmarks.audit.card import figures_of, separation
from botgrpo.benchmarks.audit.figure import Figure
from botgrpo.benchmarks.audit.labels import Fault, Labelled, labelled_to_json
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.audit.probes import INJECTION, make_probes
from botgrpo.benchmarks.stability import share_interval
from botgrpo.benchmarks.tasks.react import CORRUPTION_RATE
from botgrpo.benchmarks.tasks.react_corpus import draw_request, fenced, write
from botgrpo.benchmarks.tasks.react_faults import faults
from botgrpo.rewards import Reward, RewardSpec, Rollout, Score, Span, noise
from botgrpo.rewards.records import write_records

PROMPTS, GROUP, PASSES = 24, 8, 5
Blame = Literal["all", "first", "half", "graded"]
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def labelled_set(seed: int, prompts: int = PROMPTS, group: int = GROUP) -> list[Labelled]:
    """Files for React requests, each line with the chance of one fault, faults labelled."""
    rng = random.Random(f"audit/{seed}")
    found = []
    for p in range(prompts):
        request = draw_request(rng, held_out=False)
        for k in range(group):
            text, wrong = _corrupted(write(request, rng), rng)
            wrong = tuple(replace(f, start=f.start + 7, end=f.end + 7) for f in wrong)
            answer = fenced(text)
            reference = {
                "answer": answer,
                "faults": [[f.start, f.end, f.kind] for f in wrong],
            }
            spans = tuple(m.span() for m in _TOKEN.finditer(answer))
            rollout = Rollout(
                f"{seed}/{p}/{k}", f"{seed}/{p}", request.prompt, answer, reference, None, spans
            )
            found.append(Labelled(rollout, float(not wrong), wrong))
    return found


class Known:
    """Reads the labels: right about the outcome, and about places as far as `blame` says.

    "first" blames the first fault only, as compilers do; "half" is blind to half of the kinds;
    "graded" takes a quarter off the outcome for each fault.
    """

    def __init__(self, blame: Blame = "all") -> None:
        self.blame = blame
        self.spec = RewardSpec(f"known({blame})", "1", (0.0, 1.0), (-1.0, 0.0))

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """1 where the text holds the labelled file and that has no fault."""
        return [self._score(r) for r in rollouts]

    def _score(self, rollout: Rollout) -> Score:
        if rollout.reference["answer"] not in rollout.completion:
            return Score(rollout.id, 0.0, verdict="no_code")
        wrong = rollout.reference["faults"]
        blamed = wrong[:1] if self.blame == "first" else wrong
        if self.blame == "half":
            blamed = [f for f in wrong if len(f[2]) % 2]
        spans = tuple(Span(s, e, _weight(kind), f"{kind}: known") for s, e, kind in blamed)
        outcome = float(not wrong)
        if self.blame == "graded":
            outcome = max(0.0, 1 - len(wrong) / 4)
        return Score(rollout.id, outcome, "fault" if wrong else "ok", spans=spans)


def _weight(kind: str) -> float:
    """Kinds weigh differently, so that there is something to make coarser."""
    return -0.25 * (1 + sum(map(ord, kind)) % 4)


def _corrupted(source: str, rng: random.Random) -> tuple[str, tuple[Fault, ...]]:
    lines, wrong, at = source.split("\n"), [], 0
    for i, line in enumerate(lines):
        found = [f for f in faults(line) if f.rename is None]
        if found and rng.random() < CORRUPTION_RATE:
            fault = rng.choice(found)
            lines[i] = fault.line
            start = at + len(fault.line) - len(fault.line.lstrip())
            wrong.append(Fault(start, at + len(fault.line), fault.kind))
        at += len(lines[i]) + 1
    return "\n".join(lines), tuple(wrong)


Make = Callable[[Reward, float, list[Labelled]], Reward]
KINDS: dict[str, tuple[Make, tuple[float, float, float], str]] = {
    "gaussian": (lambda r, x, _: noise.Gaussian(r, x), (0.1, 0.25, 0.5), "sigma"),
    "gaussian, fixed": (
        lambda r, x, _: noise.Gaussian(r, x, persistence="fixed"), (0.1, 0.25, 0.5), "sigma"),
    "heavy_tail": (lambda r, x, _: noise.HeavyTail(r, x), (0.01, 0.05, 0.25), "scale"),
    "flip": (lambda r, x, _: noise.Flip(r, x), (0.1, 0.25, 0.4), "p"),
    "flip, by group": (
        lambda r, x, _: noise.Flip(r, x, granularity="group"), (0.1, 0.25, 0.4), "p"),
    "flip, fixed": (lambda r, x, _: noise.Flip(r, x, persistence="fixed"), (0.1, 0.25, 0.4), "p"),
    "flip_asym": (lambda r, x, _: noise.FlipAsym(r, 0.0, x), (0.1, 0.25, 0.4), "fn"),
    "drift": (lambda r, x, _: noise.Drift(r, x, over=4), (0.1, 0.25, 0.5), "amount"),
    "scale_blowup": (lambda r, x, _: noise.ScaleBlowup(r, x), (0.1, 0.25, 0.4), "p"),
    "shift": (lambda r, x, _: noise.Shift(r, int(x)), (1, 5, 20), "tokens"),
    "permute_lines": (lambda r, x, _: noise.PermuteLines(r, x), (0.25, 0.5, 1.0), "p"),
    "permute_lines, fixed": (
        lambda r, x, _: noise.PermuteLines(r, x, persistence="fixed"), (0.25, 0.5, 1.0), "p"),
    "sparse_drop": (lambda r, x, _: noise.SparseDrop(r, x), (0.05, 0.1, 0.25), "p"),
    "sparse_drop, as 0": (
        lambda r, x, _: noise.SparseDrop(r, x, fill="zero", on="outcome"), (0.1, 0.25, 0.4), "p"),
    "length_bias": (
        lambda r, x, _: noise.LengthBias(r, x, typical=400), (0.1, 0.25, 0.5), "beta"),
    "delay": (lambda r, x, _: noise.Delay(r, p=x), (0.25, 0.5, 1.0), "p"),
    "adversarial": (
        lambda r, x, _: noise.Adversarial(r, INJECTION[:30], x), (0.1, 0.25, 0.5), "bonus"),
    "quantise": (lambda r, x, _: noise.Quantise(r, int(x)), (4, 3, 2), "levels"),
    "judge_disagree": (lambda r, x, _: noise.JudgeDisagree(r, x, x / 3), (0.1, 0.25, 0.5), "bias"),
    "swap": (
        lambda r, x, items: noise.Swap(r, [i.rollout for i in items], x), (0.1, 0.25, 0.4), "p"),
    "offset (null)": (lambda r, x, _: noise.Offset(r, x), (0.1, 1.0, 5.0), "amount"),
    "scale (null)": (lambda r, x, _: noise.Scale(r, x), (1.5, 3.0, 10.0), "most"),
}  # fmt: skip


@dataclass(slots=True)
class Tally:
    """In how many of n sets something was noticed."""

    n: int = 0
    labelled: int = 0
    unlabelled: int = 0
    apart: int = 0
    alarms: Counter[str] = field(default_factory=Counter)


class Laboratory:
    """One set of rollouts: audits any reward on it, the clean one being the reference."""

    def __init__(self, seed: int) -> None:
        self.items = labelled_set(seed)
        self.bare = [Labelled(item.rollout) for item in self.items]
        self.probes = make_probes(self.items)
        self.first, clean = self._observe(Known("all"))
        self.clean = {f.key: f for f in figures_of(self.first, self.probes, clean, None)}

    def audit(self, reward: Reward, tally: Tally) -> None:
        """Score the reward, and count what is noticed."""
        seen, probed = self._observe(reward)
        figures = figures_of(seen, self.probes, probed, self.first)
        alarms = verdict("", figures).alarms
        blind = replace(seen, items=self.bare)
        unlabelled = verdict("", figures_of(blind, self.probes, probed, None)).alarms
        tally.n += 1
        tally.labelled += bool(alarms)
        tally.unlabelled += bool(unlabelled)
        tally.apart += any(self._worse(f) for f in figures)
        tally.alarms.update(alarms)

    def _observe(self, reward: Reward) -> tuple[Observed, list[Score]]:
        async def run() -> tuple[list[list[Score]], list[Score]]:
            rollouts = [item.rollout for item in self.items]
            found = await scoring.score_passes(reward, rollouts, PASSES)
            (probed,) = await scoring.score_passes(reward, [p.rollout for p in self.probes])
            return found, probed

        found, probed = asyncio.run(run())
        return Observed("", reward.spec, self.items, found), probed

    def _worse(self, figure: Figure) -> bool:
        before = self.clean.get(figure.key)
        if before is None or (figure.axis == "health" and figure.key != "missing"):
            return False
        word = separation(figure, before).word
        lower, higher = figure.good == "high", figure.good in ("low", "zero")
        return (word == "lower" and lower) or (word == "higher" and higher)


def measure(sets: int, kinds: Sequence[str], first: int = 0) -> dict[tuple[str, str], Tally]:
    """(kind, strength) -> what was noticed over so many sets; clean rewards under "clean"."""
    tallies: dict[tuple[str, str], Tally] = {}
    for seed in range(first, first + sets):
        laboratory = Laboratory(seed)
        for blame in get_args(Blame):
            laboratory.audit(Known(blame), tallies.setdefault(("clean", blame), Tally()))
        for kind in kinds:
            make, strengths, parameter = KINDS[kind]
            for x in strengths:
                tally = tallies.setdefault((kind, f"{parameter}={x:g}"), Tally())
                laboratory.audit(make(Known("all"), x, laboratory.items), tally)
        print(f"set {seed - first + 1} of {sets}", flush=True)
    return tallies


def table(tallies: dict[tuple[str, str], Tally]) -> str:
    """The result as a table in Markdown."""
    lines = [
        "| reward | strength | alarm, labels | alarm, no labels | told apart from clean | alarms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (kind, strength), t in tallies.items():
        low, high = share_interval(t.labelled, t.n)
        names = ", ".join(f"{name} {n}" for name, n in t.alarms.most_common(4))
        lines.append(
            f"| {kind} | {strength} | {t.labelled / t.n:.2f} [{low:.2f}, {high:.2f}] | "
            f"{t.unlabelled / t.n:.2f} | {t.apart / t.n:.2f} | {names} |"
        )
    clean = [t for (kind, _), t in tallies.items() if kind == "clean"]
    faulty = [t for (kind, _), t in tallies.items() if kind != "clean" and "null" not in kind]
    for name, group in (("False alarms on clean rewards", clean), ("Recall on all faults", faulty)):
        n, hits, blind = (
            sum(getattr(t, k) for t in group) for k in ("n", "labelled", "unlabelled")
        )
        if n:
            low, high = share_interval(hits, n)
            lines.append(
                f"{chr(10) * (group is clean)}{name}: {hits} of {n} audits with labels, "
                f"{hits / n:.2f} [{low:.2f}, {high:.2f}]; {blind} without."
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", type=int, default=10, metavar="N", help="sets of rollouts")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of the first set; limits were set on 0 to 9",
    )
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only these")
    parser.add_argument("--write", metavar="R.jsonl", help="only write one labelled set, and stop")
    arguments = parser.parse_args()
    if arguments.write:
        write_records(arguments.write, map(labelled_to_json, labelled_set(0)))
        return 0
    began = time.perf_counter()
    tallies = measure(arguments.sets, arguments.kind or list(KINDS), arguments.seed)
    size = f"{PROMPTS} prompts x {GROUP} rollouts, {PASSES} passes"
    print(f"\n{arguments.sets} sets of {size}, {time.perf_counter() - began:.0f} s\n")
    print(table(tallies))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
