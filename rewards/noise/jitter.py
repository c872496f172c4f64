"""Kinds that add an accident to each value: jitter, and rare values of any size."""

from __future__ import annotations

import math

import numpy as np

from botgrpo.rewards.base import Range, Reward, Rollout
from botgrpo.rewards.noise.base import (
    CUT,
    Floats,
    Granularity,
    Oracle,
    Persistence,
    Region,
    Target,
    relative,
    size,
    widened,
)
from botgrpo.rewards.noise.values import Drawn, ValueInjector
from botgrpo.sandbox.errors import ConfigError


class Gaussian(ValueInjector):
    """Adds N(0, sigma) to each token's local value, or to the outcome where `on` says so.

    A draw is cut at 4 sigma, which lets the declared range be the inner one widened by 4 sigma on
    each side; a design that clips more tightly moves the mean. `rho` correlates the draws of tokens
    that follow each other (an AR(1) of the same deviation). A rollout's sum gets a deviation of
    sigma sqrt(T) at rho = 0, and of sigma T where all its tokens share a draw.
    """

    kind = "noise.gaussian"
    oracle = Oracle(outcome_preserving=True, mean_preserving=True, median_preserving=True)

    def __init__(
        self,
        inner: Reward | str,
        sigma: float = 0.5,
        seed: int = 0,
        *,
        rho: float = 0.0,
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
        if not 0 <= rho < 1 or (rho and self.granularity != "token"):
            raise ConfigError(f"got rho = {rho}; allowed: 0 to below 1, above 0 for tokens only")
        self.sigma, self.rho = size(sigma, "sigma"), rho
        self.promise(
            mean_preserving=True,
            median_preserving=True,
        )
        self.specify(f"sigma={sigma}" + (f", rho={rho}" if rho else ""))

    @property
    def severity(self) -> float:
        """sigma in widths of the inner range, at most 1."""
        inner = self.inner.spec
        return relative(
            self.sigma, inner.outcome_range if self.on != "local" else self.local_bounds()
        )

    def changed_range(self, bounds: Range) -> Range:
        """4 sigma more on each side."""
        return widened(bounds, CUT * self.sigma)

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + sigma z."""
        z = drawn(lambda rng, n: rng.standard_normal(n))
        if self.rho:
            fresh = math.sqrt(1 - self.rho**2)
            for t in range(1, len(z)):
                z[t] = self.rho * z[t - 1] + fresh * z[t]
        return np.asarray(values + self.sigma * np.clip(z, -CUT, CUT))


class HeavyTail(ValueInjector):
    """Adds `scale` times a Student-t with `nu` degrees of freedom: rare values of any size.

    nu = 1 is Cauchy's distribution, which has no mean; at 2 the variance is infinite. The median
    stays. Nothing bounds it, and the declared range says so.
    """

    kind = "noise.heavy_tail"

    def __init__(
        self,
        inner: Reward | str,
        scale: float = 0.25,
        seed: int = 0,
        *,
        nu: float = 2.0,
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
        if not 0 < nu < math.inf:
            raise ConfigError(f"got nu = {nu}; allowed: above 0, 2 or 3 for a heavy tail")
        self.scale, self.nu = size(scale, "scale"), nu
        self.promise(
            median_preserving=True,
            bounded=scale == 0,
        )
        self.specify(f"scale={scale}, nu={nu}")

    @property
    def severity(self) -> float:
        """The scale, at most 1."""
        return min(1.0, self.scale)

    def changed_range(self, bounds: Range) -> Range:
        """Without bounds."""
        return (-math.inf, math.inf) if self.scale else bounds

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + scale t."""
        return np.asarray(values + self.scale * drawn(lambda rng, n: rng.standard_t(self.nu, n)))
