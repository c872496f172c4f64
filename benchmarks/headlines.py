"""The paper's two headline claims, each in a sentence of what was measured: nothing overclaimed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from botgrpo.benchmarks import passes
from botgrpo.benchmarks.curves import restricted_steps
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.report.words import bounds, signed
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import REPS, Floats, Interval, judge, percentile_interval, resample

OURS, THEIRS = "bot_grpo", "grpo"
KS = (1, 2, 4)


def sooner(result: SuiteResult) -> str:
    """By how many times BoT-GRPO is earlier at the suite's threshold than GRPO."""
    analysis = analyse(result)
    seeds = result.paired_seeds(OURS, THEIRS)
    if not seeds:
        return "not measured, since no seed is finished in both."
    ours, theirs = (
        [analysis.arm(name).crossings[seed] for seed in seeds] for name in (OURS, THEIRS)
    )
    reached = [sum(c.reached for c in each) for each in (ours, theirs)]
    goal, last = f"{result.metric} {result.threshold:g}", result.last_step
    many = f"{len(seeds)} of {len(result.seeds)} seeds paired"
    if not any(reached):
        return f"no run of either reaches {goal} within {last} steps ({many}), so no ratio."
    mine, other = restricted_steps(ours, last), restricted_steps(theirs, last)
    interval = ratio_interval(other, mine)
    told = f", 95% interval {interval.low:.2f} to {interval.high:.2f}" if interval else ""
    saved = judge({OURS: (other, mine)})[OURS]
    return (
        f"{goal} comes {other.mean() / mine.mean():.2f} times as soon as with GRPO{told} ({many}: "
        f"{mine.mean():.1f} steps on average against {other.mean():.1f}, a run that never gets "
        f"there counting {last}; {reached[0]} and {reached[1]} get there). "
        f"{_sentence(saved.sentence)}"
    )


def ratio_interval(one: Floats, other: Floats) -> Interval | None:
    """Bootstrap over paired seeds of mean(one) / mean(other); None for a single pair."""
    if one.size < 2:
        return None
    drawn = resample(one.size, 1, reps=REPS, seed=0)[..., 0]
    ratios = one[drawn].mean(axis=1) / other[drawn].mean(axis=1)
    return percentile_interval(ratios)


def pass_at_k(result: SuiteResult) -> str:
    """What step scores add to Pass@k at the end, and when GRPO's last Pass@1 is reached."""
    seeds = result.paired_seeds(OURS, THEIRS)
    if not seeds:
        return "not measured, since no seed is finished in both."
    at_end = f"after {result.last_step} steps, {len(seeds)} of {len(result.seeds)} seeds paired"
    return f"{at_end}: {'; '.join(_gain(result, seeds, k) for k in KS)}. {_when(result, seeds)}"


def _gain(result: SuiteResult, seeds: Sequence[int], k: int) -> str:
    pairs = [
        [passes.read(result.cells[name, seed]).get(k) for seed in seeds] for name in (OURS, THEIRS)
    ]
    if any(value is None for values in pairs for value in values):
        if k > 1:
            return f"Pass@{k} not measured"
        # one sample a problem, as the curve has it
        pairs = [
            [result.cells[name, seed].curve(result.metric)[1][-1] for seed in seeds]
            for name in (OURS, THEIRS)
        ]
    ours, theirs = (np.array(values, dtype=float) for values in pairs)
    verdict = judge({OURS: (ours, theirs)})[OURS]
    return (
        f"Pass@{k} {ours.mean():.3f} against {theirs.mean():.3f}, "
        f"{signed(verdict.difference)} {bounds(verdict.interval)}, {verdict.word}"
    )


def _when(result: SuiteResult, seeds: Sequence[int]) -> str:
    curves = {
        name: [
            dict(zip(*result.cells[name, seed].curve(result.metric), strict=True)) for seed in seeds
        ]
        for name in (OURS, THEIRS)
    }
    steps = sorted(set.intersection(*(set(c) for each in curves.values() for c in each)))
    mean = {name: [np.mean([c[s] for c in each]) for s in steps] for name, each in curves.items()}
    goal = mean[THEIRS][-1]
    first = next((s for s, value in zip(steps, mean[OURS], strict=True) if value >= goal), None)
    there = f"is there at step {first}" if first is not None else "never gets there"
    return (
        f"GRPO's mean Pass@1 at the end is {goal:.3f}; that of BoT-GRPO {there} (of {steps[-1]})."
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
