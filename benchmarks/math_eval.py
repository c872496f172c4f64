"""pass@k, avg@n and maj@k of a policy: `python -m botgrpo.benchmarks.math_eval CONFIG|DIR`.

Samples n completions of each held-out problem, as `botgrpo eval` does one, and judges them with the
task's own judge. Votes are answers as printed, without leading zeros.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botgrpo.benchmarks import training
from botgrpo.benchmarks.math_metrics import Rate, Samples, counts, outcome_efficiency, summary
from botgrpo.rewards.base import Rollout, Score

SAMPLING_SEED = 7_919
READ = ("correct", "wrong")  # verdicts on an answer of the asked kind
_STATED = re.compile(r"(?:[=≡≈{>]|\bis)\s{0,3}\$?([0-9]{1,3})(?![0-9]|\.[0-9]|\(|\s?[-+*/^])")


def sampled(run: Any, items: Sequence[Any], n: int) -> tuple[list[Rollout], list[Score]]:
    """n completions of each item by the run's policy, prompt by prompt, with the judge's scores."""
    from botgrpo.trainer.engines.base import Sampling
    from botgrpo.trainer.rollouts import draw
    from botgrpo.trainer.scoring import Scorer

    sampling = run.config.sampling
    rollouts: list[Rollout] = []
    scores: list[Score] = []
    with Scorer() as scorer:
        for start in range(0, len(items), sampling.prompts):
            chunk = items[start : start + sampling.prompts]
            drawn = draw(
                run.engine,
                run.policy,
                scorer,
                run.judge,
                chunk,
                k=n,
                keys=[start * n + i for i in range(len(chunk) * n)],
                sampling=Sampling(sampling.max_new_tokens, sampling.temperature, SAMPLING_SEED),
                prefix=f"eval/{start}",
            )
            rollouts += drawn.rollouts
            scores += drawn.pending.scores()
        scorer.close(run.judge)
    return rollouts, scores


def by_problem(rollouts: Sequence[Rollout], scores: Sequence[Score]) -> list[Samples]:
    """The samples of each group, with the answers as votes."""
    groups: dict[str, list[tuple[Rollout, Score]]] = {}
    for rollout, score in zip(rollouts, scores, strict=True):
        groups.setdefault(rollout.group, []).append((rollout, score))
    return [
        Samples(
            name,
            tuple(answer(r, s) for r, s in pairs if s.outcome is not None),
            tuple(s.verdict == "correct" for _, s in pairs if s.outcome is not None),
            truncated=sum(r.finish_reason == "length" for r, s in pairs if s.outcome is not None),
            unscored=sum(s.outcome is None for _, s in pairs),
        )
        for name, pairs in groups.items()
    ]


def answer(rollout: Rollout, score: Score) -> str | None:
    """The answer as printed, None where none of the asked kind was read."""
    if score.verdict not in READ or not score.spans:
        return None
    said = rollout.completion[score.spans[0].start : score.spans[0].end].strip()
    return said.lstrip("0") or "0"


def first_right_token(rollout: Rollout) -> int | None:
    """Tokens up to and with the first statement of an accepted answer, None without any.

    A statement is the number after `=`, `≡`, "is", an opening brace or a tag. An intermediate
    result that happens to equal the answer counts as well, so efficiency is a lower bound.
    """
    accepted = {str(value) for value in rollout.reference.get("accepted", ())}
    for match in _STATED.finditer(rollout.completion):
        if (match[1].lstrip("0") or "0") in accepted:
            spans = rollout.token_spans or ()
            return sum(start < match.end() for start, _ in spans) or None
    return None


def text(rollouts: Sequence[Rollout], scores: Sequence[Score], ks: Sequence[int]) -> str:
    """The table of one evaluation."""
    problems = by_problem(rollouts, scores)
    lines = [f"{name:10} {_shown(rate)}" for name, rate in summary(problems, ks).items()]
    lines += [f"{name:10} {number}" for name, number in counts(problems).items()]
    judged = [r for r, s in zip(rollouts, scores, strict=True) if s.outcome is not None]
    written = [r for r in judged if r.token_spans]
    share = outcome_efficiency(
        [first_right_token(r) for r in written], [len(r.token_spans or ()) for r in written]
    )
    return "\n".join([*lines, f"efficiency {share:.4f} (outcome, arXiv 2412.21187)"])


def _shown(rate: Rate) -> str:
    bounds = rate.interval
    return f"{rate.value:.4f}" + (f" [{bounds.low:.4f}, {bounds.high:.4f}]" if bounds else "")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.math_eval")
    parser.add_argument("target", metavar="CONFIG|DIR", help="a configuration, or a run's folder")
    parser.add_argument("--prompts", type=int, default=64, help="held-out problems (default 64)")
    parser.add_argument("--samples", type=int, default=8, help="of each problem (default 8)")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 2, 4], help="default 1 2 4")
    arguments = parser.parse_args(argv)
    folder = Path(arguments.target)
    target = folder if folder.is_dir() else training.load_config(arguments.target, ())
    run, step = training.run_for_eval(target, arguments.prompts)
    items = run.task.eval_items(arguments.prompts)
    rollouts, scores = sampled(run, items, arguments.samples)
    print(f"step       {step}")
    print(text(rollouts, scores, arguments.k))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
