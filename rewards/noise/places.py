"""Kinds that keep what is said and move where: other lines, other tokens, too late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from botgrpo.rewards.base import Example, Range, Reward, RewardError, Rollout, Score, Span
from botgrpo.rewards.noise.base import (
    Floats,
    Granularity,
    Injector,
    Oracle,
    Persistence,
    Region,
    one_of,
    probability,
    token_lines,
)
from botgrpo.rewards.noise.values import Drawn, ValueInjector
from botgrpo.rewards.spans import line_starts
from botgrpo.sandbox.errors import ConfigError

Line = tuple[int, int, int]  # start of the line, then [first, end) of its text


class PermuteLines(Injector):
    """Moves each span, with probability p, to a random other line with text; the outcome stays.

    Number, values and labels of the spans stay; a span keeps its length as far as the new line
    goes. Completions of one line keep their spans. This is a reward that knows how much is wrong
    and not where. It takes rewards that give spans, not token values.
    """

    kind = "noise.permute_lines"
    granularities = ("rollout", "group", "prompt")
    oracle = Oracle(outcome_preserving=True, sum_preserving=True, sign_preserving=True)

    def __init__(
        self,
        inner: Reward | str,
        p: float = 1.0,
        seed: int = 0,
        *,
        granularity: Granularity = "rollout",
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        super().__init__(
            inner, seed, granularity=granularity, persistence=persistence, region=region
        )
        self.p = probability(p)
        self.spec = self.declare(f"p={p}", local=self.local_bounds())
        within: Reward = self.inner
        while isinstance(within, Injector):
            if isinstance(within, ValueInjector) and within.on != "outcome":
                raise ConfigError(
                    f"{within.spec.name} disturbs token values; permute first and put it outside"
                )
            within = within.inner

    @property
    def severity(self) -> float:
        """The share of spans that moves."""
        return self.p

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """The score with its spans moved."""
        if score.local is not None:
            raise RewardError(
                f"{self.spec.name} moves spans, but {self.inner.spec.name} gave token values"
            )
        if not score.spans:
            return score
        rng, lines = self.rng(rollout), _lines(rollout.completion)
        after = max(rollout.completion.rfind("</think>"), 0) if self.region == "response" else 0
        return replace(
            score, spans=tuple(self._move(span, lines, rng, after) for span in score.spans)
        )

    def still_true(self, example: Example) -> Example:
        """Where the blame falls is what the noise destroys."""
        return replace(example, blames=None)

    def _move(
        self, span: Span, lines: Sequence[Line], rng: np.random.Generator, after: int
    ) -> Span:
        draw, choice = rng.random(), rng.random()  # both always: one span's fate moves no other
        others = [line[1:] for line in lines if not line[0] <= span.start <= line[2]]
        spared = {"wrong": span.value >= 0, "right": span.value < 0}.get(self.region, False)
        if draw >= self.p or not others or spared or span.start < after:
            return span
        start, end = others[int(choice * len(others))]
        length = min(max(span.end - span.start, 1), end - start)
        return replace(span, start=start, end=start + length)


class Shift(ValueInjector):
    """With probability p a rollout's token values stand k tokens, or k lines, too late.

    The known values are turned round within the completion (what falls off at the end begins anew
    at the start), so their sum and their distribution stay. k = 1 token is the common off-by-one of
    a wrong alignment; a negative k moves them forward. By lines they are turned by as many tokens
    as the last k lines hold. An estimator that sums over tokens cannot notice it.
    """

    kind = "noise.shift"
    granularities = ("rollout", "group", "prompt")

    def __init__(
        self,
        inner: Reward | str,
        k: int = 1,
        seed: int = 0,
        *,
        p: float = 1.0,
        by: Literal["token", "line"] = "token",
        granularity: Granularity = "rollout",
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        super().__init__(
            inner,
            seed,
            on="local",
            granularity=granularity,
            persistence=persistence,
            region=region,
        )
        self.k, self.p = k, probability(p)
        self.by = one_of("by", by, ("token", "line"))
        self.oracle = Oracle(outcome_preserving=True, sum_preserving=region == "all")
        self.specify(f"k={k}, p={p}, by={by}")

    @property
    def severity(self) -> float:
        """The share of rollouts whose values move."""
        return self.p

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """The known values turned round."""
        known = np.flatnonzero(~np.isnan(values))
        if len(known) == 0 or drawn(lambda rng, n: rng.random(n))[0] >= self.p:
            return values
        turned = values.copy()
        turned[known] = np.roll(values[known], self._distance(rollout, len(values)))
        return turned

    def _distance(self, rollout: Rollout, n: int) -> int:
        if self.by == "token" or self.k == 0:
            return self.k
        lines = sorted(set(token_lines(rollout, n).tolist()))
        lines_T, count = token_lines(rollout, n), min(abs(self.k), len(lines))
        moved = lines[-count:] if self.k > 0 else lines[:count]
        return int(np.isin(lines_T, moved).sum()) * (1 if self.k > 0 else -1)


class Delay(ValueInjector):
    """With probability p a rollout's token values come late: k lines later, or at its very end.

    All values of a line are paid on the last token of the line k further on (None: of the last
    line): an environment that answers at the end of a turn. The sum stays; one token may get that
    of many, so nothing but the length bounds it.
    """

    kind = "noise.delay"
    granularities = ("rollout", "group", "prompt")

    def __init__(
        self,
        inner: Reward | str,
        k: int | None = None,
        seed: int = 0,
        *,
        p: float = 1.0,
        granularity: Granularity = "rollout",
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        super().__init__(
            inner,
            seed,
            on="local",
            granularity=granularity,
            persistence=persistence,
            region=region,
        )
        if k is not None and k < 0:
            raise ConfigError(f"got k = {k}; allowed: 0 or more lines, or None for the end")
        self.k, self.p = k, probability(p)
        self.oracle = Oracle(outcome_preserving=True, sum_preserving=region == "all", bounded=False)
        self.specify(f"k={k}, p={p}")

    @property
    def severity(self) -> float:
        """The share of rollouts whose values come late."""
        return self.p

    def changed_range(self, bounds: Range) -> Range:
        """Sums of them, on the sides where there are values."""
        return (-math.inf if bounds[0] < 0 else 0.0, math.inf if bounds[1] > 0 else 0.0)

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """The sum of each line on the last known token of a later one."""
        known_T = ~np.isnan(values)
        if not known_T.any() or drawn(lambda rng, n: rng.random(n))[0] >= self.p:
            return values
        lines_T = token_lines(rollout, len(values))
        final = int(np.flatnonzero(known_T)[-1])
        late = np.where(known_T, 0.0, np.nan)
        for line in sorted(set(lines_T[known_T].tolist())):
            there = known_T & (lines_T == line + self.k) if self.k is not None else known_T[:0]
            at = int(np.flatnonzero(there)[-1]) if there.any() else final
            late[at] += values[known_T & (lines_T == line)].sum()
        return late


def _lines(text: str) -> list[Line]:
    """Each line with text; the text is without indentation and line end."""
    starts = [*line_starts(text).tolist(), len(text)]
    lines = []
    for start, after in pairwise(starts):
        line = text[start:after]
        body = line.strip()
        if body:
            first = start + len(line) - len(line.lstrip())
            lines.append((start, first, first + len(body)))
    return lines
