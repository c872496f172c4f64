"""Null tests: what is shared by a whole group, and must change no advantage."""

from __future__ import annotations

import math

import numpy as np

from botgrpo.rewards.base import Range, Reward, Rollout
from botgrpo.rewards.noise.base import (
    CUT,
    Floats,
    Granularity,
    Persistence,
    Target,
    relative,
    size,
    widened,
)
from botgrpo.rewards.noise.values import Drawn, ValueInjector
from botgrpo.sandbox.errors import ConfigError


class Offset(ValueInjector):
    """Null test: adds a draw of N(0, amount) to all values of a group; advantages must not change.

    A method whose learning curve moves under it does not compare within the group.
    """

    kind = "noise.offset"
    granularities = ("group", "prompt")

    def __init__(
        self,
        inner: Reward | str,
        amount: float = 5.0,
        seed: int = 0,
        *,
        on: Target = "both",
        granularity: Granularity = "group",
        persistence: Persistence = "resample",
    ) -> None:
        super().__init__(inner, seed, on=on, granularity=granularity, persistence=persistence)
        self.amount = size(amount, "amount")
        self.promise(
            mean_preserving=True,
            median_preserving=True,
            null=True,
        )
        self.specify(f"amount={amount}")

    @property
    def severity(self) -> float:
        """The deviation in widths of the inner outcome range, at most 1."""
        return relative(self.amount, self.inner.spec.outcome_range)

    def changed_range(self, bounds: Range) -> Range:
        """4 deviations more on each side."""
        return widened(bounds, CUT * self.amount)

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + the group's draw."""
        z = drawn(lambda rng, n: rng.standard_normal(n))
        return np.asarray(values + self.amount * np.clip(z, -CUT, CUT))


class Scale(ValueInjector):
    """Null test: multiplies all values of a group by one factor; advantages must not change.

    The factor lies between 1/most and most, uniform on a logarithmic scale. It cancels only where
    outcome and local signal have the same one, so by default both get it, and wrappers of the same
    seed around different rewards agree.
    """

    kind = "noise.scale"
    granularities = ("group", "prompt")

    def __init__(
        self,
        inner: Reward | str,
        most: float = 10.0,
        seed: int = 0,
        *,
        on: Target = "both",
        granularity: Granularity = "group",
        persistence: Persistence = "resample",
    ) -> None:
        super().__init__(inner, seed, on=on, granularity=granularity, persistence=persistence)
        if not 1 <= most < math.inf:
            raise ConfigError(f"got most = {most}; allowed: 1 or larger")
        self.most = most
        self.promise(
            sign_preserving=True,
            null=on == "both",
        )
        self.specify(f"most={most}")

    @property
    def severity(self) -> float:
        """How much of a value the largest factor makes up, 1 - 1/most."""
        return 1 - 1 / self.most

    def changed_range(self, bounds: Range) -> Range:
        """The largest factor on both ends, the smallest where an end has the other sign."""
        (low, high), most = bounds, self.most
        return (low * most if low < 0 else low / most), (high * most if high > 0 else high / most)

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value x the group's factor."""
        return np.asarray(values * self.most ** drawn(lambda rng, n: rng.uniform(-1.0, 1.0, n)))
