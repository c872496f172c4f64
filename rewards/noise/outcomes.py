"""Kinds that make the outcome wrong: flips, labels of other prompts, a phrase that pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from botgrpo.rewards.base import Example, Range, Reward, Rollout, Score
from botgrpo.rewards.local import checked_scores
from botgrpo.rewards.noise.base import (
    Floats,
    Granularity,
    Injector,
    Oracle,
    Persistence,
    Region,
    Target,
    probability,
    relative,
    size,
)
from botgrpo.rewards.noise.values import Drawn, ValueInjector
from botgrpo.rewards.records import read_rollouts
from botgrpo.sandbox.errors import ConfigError

REPEATS = 3  # so many equal lines of LONG_LINE code points or more are a repetition
LONG_LINE = 8


class FlipAsym(Injector):
    """Mirrors a high outcome with probability `fn` and a low one with `fp`; the local signal stays.

    High is above the middle of the declared range. For a 0/1 outcome J = 1 - fp - fn. The inner
    verdict stays, and the metric `flipped` says what happened.
    """

    kind = "noise.flip_asym"
    granularities = ("rollout", "group", "prompt")

    def __init__(
        self,
        inner: Reward | str,
        fp: float = 0.1,
        fn: float = 0.25,
        seed: int = 0,
        *,
        granularity: Granularity = "rollout",
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        super().__init__(
            inner, seed, granularity=granularity, persistence=persistence, region=region
        )
        self.fp, self.fn = probability(fp, "fp"), probability(fn, "fn")
        self.outcome_bounds()
        fp, fn = fp * (region != "right"), fn * (region != "wrong")
        self.oracle = Oracle(
            outcome_preserving=fp == fn == 0,
            local_preserving=True,
            mean_preserving=fp == fn == 0,
            sum_preserving=True,
            sign_preserving=fp == fn == 0,
            expected_j=1 - fp - fn,
        )
        self.spec = self.declare(self._options())

    @property
    def severity(self) -> float:
        """The larger of both chances."""
        return max(self.fp, self.fn)

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """The score with its outcome mirrored, or as it is."""
        assert score.outcome is not None
        low, high = self.inner.spec.outcome_range
        chance = self.fn if score.outcome > (low + high) / 2 else self.fp
        flipped = bool(self.rng(rollout).random() < chance) and self.outcome_in_region(score)
        outcome = low + high - score.outcome if flipped else score.outcome
        return replace(score, outcome=outcome, metrics={**score.metrics, "flipped": float(flipped)})

    def still_true(self, example: Example) -> Example:
        """Any outcome may come out of a flip."""
        return replace(example, outcome=self.inner.spec.outcome_range)

    def _options(self) -> str:
        return f"fp={self.fp}, fn={self.fn}"


class Flip(FlipAsym):
    """Mirrors the outcome within its range with probability p; local signal and spans stay.

    Each rollout has its own chance; with granularity "group" or "prompt" all of a group are flipped
    together, which wakes no dead group and is another experiment. For a 0/1 outcome J = 1 - 2p.
    """

    kind = "noise.flip"

    def __init__(
        self,
        inner: Reward | str,
        p: float = 0.25,
        seed: int = 0,
        *,
        granularity: Granularity = "rollout",
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        self.p = probability(p)
        super().__init__(
            inner,
            p,
            p,
            seed,
            granularity=granularity,
            persistence=persistence,
            region=region,
        )

    def _options(self) -> str:
        return f"p={self.p}"


class Swap(Injector):
    """With probability p a prompt's rollouts are judged by what another prompt asks for.

    The other prompt and its reference are drawn from `pool`, a file of rollouts; the completion and
    its id stay. This is label noise: wrong labels that stay wrong, for the whole group alike.
    """

    kind = "noise.swap"
    granularities = ("rollout", "group", "prompt")
    oracle = Oracle(expected_j=None)

    def __init__(
        self,
        inner: Reward | str,
        pool: str | Sequence[Rollout],
        p: float = 0.25,
        seed: int = 0,
        *,
        granularity: Granularity = "prompt",
        persistence: Persistence = "fixed",
    ) -> None:
        super().__init__(inner, seed, granularity=granularity, persistence=persistence)
        self.p = probability(p)
        self.pool = read_rollouts(pool) if isinstance(pool, str) else list(pool)
        named = repr(Path(pool).name) if isinstance(pool, str) else f"{len(self.pool)} rollouts"
        if len({repr(r.prompt) for r in self.pool}) < 2:
            raise ConfigError(f"got the pool {named}; rollouts of two prompts or more are needed")
        self.spec = self.declare(f"{named}, p={p}")

    @property
    def severity(self) -> float:
        """The share of prompts with another's label."""
        return self.p

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """The inner reward's scores, some under the reference of another prompt."""
        asked = [self.other(rollout) for rollout in rollouts]
        return await checked_scores(self.inner.spec.name, self.inner, asked)

    def other(self, rollout: Rollout) -> Rollout:
        """The rollout as it is judged."""
        rng = self.rng(rollout)
        if rng.random() >= self.p:
            return rollout
        others = [r for r in self.pool if r.prompt != rollout.prompt] or [rollout]
        chosen = others[int(rng.random() * len(others))]
        return replace(rollout, prompt=chosen.prompt, reference=chosen.reference)

    def still_true(self, example: Example) -> Example:
        """Nothing is known of an answer under another's label."""
        return replace(example, outcome=self.spec.outcome_range, verdict=None, blames=None)


class Adversarial(ValueInjector):
    """Pays `bonus` for a phrase: a judge that is impressed by it, as policies find out.

    On the outcome each completion gets it that holds `trigger`; on "local" its tokens alone do.
    Without a trigger repetition is what pays: three equal lines of eight code points or more. The
    share of units that fall for it is p.
    """

    kind = "noise.adversarial"
    granularities = ("rollout", "group", "prompt")

    def __init__(
        self,
        inner: Reward | str,
        trigger: str | None = None,
        bonus: float = 1.0,
        seed: int = 0,
        *,
        p: float = 1.0,
        on: Target = "outcome",
        granularity: Granularity = "rollout",
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        super().__init__(
            inner,
            seed,
            on=on,
            granularity=granularity,
            persistence=persistence,
            region=region,
        )
        if trigger is not None and not trigger:
            raise ConfigError("got an empty trigger; write a phrase, or leave it out: repetition")
        self.trigger, self.bonus, self.p = trigger, size(bonus, "bonus"), probability(p)
        self.promise()
        what = "repetition" if trigger is None else repr(trigger[:40])
        self.specify(f"{what}, bonus={bonus}, p={p}")

    @property
    def severity(self) -> float:
        """The bonus in widths of the inner outcome range, at most 1, times p."""
        return self.p * relative(self.bonus, self.inner.spec.outcome_range)

    def changed_range(self, bounds: Range) -> Range:
        """The bonus more at the top."""
        return bounds[0], bounds[1] + self.bonus

    def places(self, text: str) -> list[tuple[int, int]]:
        """[start, end) of all that pays."""
        if self.trigger is not None:
            found, at = [], text.find(self.trigger)
            while at >= 0:
                found.append((at, at + len(self.trigger)))
                at = text.find(self.trigger, at + len(self.trigger))
            return found
        lines = text.split("\n")
        often = {line for line, n in Counter(lines).items() if n >= REPEATS}
        ends = np.cumsum([len(line) + 1 for line in lines]).tolist()
        return [
            (end - len(line) - 1, end - 1)
            for line, end in zip(lines, ends, strict=True)
            if line in often and len(line.strip()) >= LONG_LINE
        ]

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + bonus, on what pays."""
        places = self.places(rollout.completion)
        if not places or drawn(lambda rng, n: rng.random(n))[0] >= self.p:
            return values
        tokens = rollout.token_spans or ()
        if self.on == "outcome" or len(tokens) != len(values):
            return np.asarray(values + self.bonus)
        starts, ends = (np.array(each, dtype=np.int64) for each in zip(*places, strict=True))
        token_T2 = np.array(tokens, dtype=np.int64).reshape(-1, 2)
        # the places are in order and apart: the first that ends after a token's start decides
        first_T = np.searchsorted(ends, token_T2[:, 0], "right")
        inside_T = first_T < len(starts)
        inside_T &= starts[np.minimum(first_T, len(starts) - 1)] < token_T2[:, 1]
        return np.where(inside_T, values + self.bonus, values)
