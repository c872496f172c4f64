"""Kinds that blow values up, lose them or make them coarser."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from botgrpo.rewards.base import Range, Reward, Rollout
from botgrpo.rewards.noise.base import (
    Floats,
    Granularity,
    Persistence,
    Region,
    Target,
    one_of,
    probability,
    size,
)
from botgrpo.rewards.noise.values import Drawn, ValueInjector
from botgrpo.sandbox.errors import ConfigError


class ScaleBlowup(ValueInjector):
    """With probability p a unit's values are multiplied by gain x T^growth, and `leak` is added.

    T is the rollout's number of tokens (of code points without tokens). `leak` pays each token for
    being there, so the sum grows with length; `growth` above 0 leaves the values without bound too.
    """

    kind = "noise.scale_blowup"

    def __init__(
        self,
        inner: Reward | str,
        p: float = 0.25,
        seed: int = 0,
        *,
        gain: float = 5.0,
        leak: float = 0.0,
        growth: float = 0.0,
        on: Target = "local",
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
        self.p, self.gain = probability(p), size(gain, "gain")
        self.leak, self.growth = size(leak, "leak"), size(growth, "growth")
        self.promise(
            sign_preserving=leak == 0,
            bounded=growth == 0,
        )
        self.specify(f"p={p}, gain={gain}, leak={leak}, growth={growth}")

    @property
    def severity(self) -> float:
        """The share of units that blow up."""
        return self.p

    def changed_range(self, bounds: Range) -> Range:
        """Scaled and leaked, with what was there before."""
        factor = math.inf if self.growth else self.gain
        low, high = (factor * bound if bound else 0.0 for bound in bounds)
        return min(low, bounds[0]), max(high, bounds[1]) + self.leak

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value x gain x T^growth + leak, where the chance falls."""
        length = len(rollout.token_spans or ()) or len(rollout.completion)
        factor = self.gain * max(length, 1) ** self.growth
        hit = drawn(lambda rng, n: rng.random(n)) < self.p
        return np.where(hit, values * factor + self.leak, values)


class SparseDrop(ValueInjector):
    """With probability p a unit's values are lost: timeouts, parse failures, lost requests.

    What stands in their place: "unknown" (nobody could tell, which is honest: what is left is
    unbiased), "zero" (the bug that trains a model on our failure; on a 0/1 outcome p of the
    successes are missed), or "carry" (a token gets what the last known one before it had).
    """

    kind = "noise.sparse_drop"

    def __init__(
        self,
        inner: Reward | str,
        p: float = 0.25,
        seed: int = 0,
        *,
        fill: Literal["unknown", "zero", "carry"] = "unknown",
        on: Target = "local",
        granularity: Granularity | None = None,
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
        self.p = probability(p)
        self.fill = one_of("fill", fill, ("unknown", "zero", "carry"))
        if fill == "carry" and on != "local":
            raise ConfigError("got fill = 'carry' for outcomes; a rollout has none before its own")
        self.promise(
            mean_preserving=fill == "unknown",
            sign_preserving=fill != "carry",
            expected_j=1 - p if on != "local" and fill == "zero" else 1.0,
        )
        self.specify(f"p={p}, fill={fill}")

    @property
    def severity(self) -> float:
        """The share that is lost."""
        return self.p

    def changed_range(self, bounds: Range) -> Range:
        """0 belongs to it where it stands for what is lost."""
        return (min(bounds[0], 0.0), max(bounds[1], 0.0)) if self.fill == "zero" else bounds

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """The values with holes, or with what fills them."""
        hit = drawn(lambda rng, n: rng.random(n)) < self.p
        if self.fill == "zero":
            return np.where(hit, 0.0, values)
        if self.fill == "unknown":
            return np.where(hit, np.nan, values)
        kept = ~hit & ~np.isnan(values)
        last = np.maximum.accumulate(np.where(kept, np.arange(len(values)), -1))
        return np.where(hit & (last >= 0), values[last], values)


class Quantise(ValueInjector):
    """Rounds values to `levels` equally spaced ones of the inner range: rubric scores, 1 to 5.

    No draw is made. It loses variance and makes ties.
    """

    kind = "noise.quantise"
    granularities = ("token", "rollout")

    def __init__(
        self,
        inner: Reward | str,
        levels: int = 2,
        seed: int = 0,
        *,
        on: Target = "local",
        region: Region = "all",
    ) -> None:
        granularity: Granularity = "token" if on == "local" else "rollout"
        super().__init__(
            inner, seed, on=on, granularity=granularity, persistence="fixed", region=region
        )
        if levels < 2:
            raise ConfigError(f"got levels = {levels}; allowed: 2 or more")
        self.levels = levels
        for bounds in [self.local_bounds()] if on == "local" else [self.outcome_bounds()]:
            if not all(map(math.isfinite, bounds)):
                raise ConfigError(f"got the range {bounds}; levels need a finite one")
        self.promise(
            expected_j=1.0,  # both ends of the range are levels
        )
        self.specify(f"levels={levels}")

    @property
    def severity(self) -> float:
        """Half a step between levels, in widths of the range."""
        return 0.5 / (self.levels - 1)

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """The nearest level."""
        step = (bounds[1] - bounds[0]) / (self.levels - 1)
        if step == 0:
            return values
        return np.asarray(bounds[0] + np.round((values - bounds[0]) / step) * step)
