"""Kinds that add what has a cause: a judge that changes, raters who differ, length that pays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from botgrpo.rewards.base import Range, Reward, Rollout
from botgrpo.rewards.noise.base import (
    CUT,
    Floats,
    Granularity,
    Persistence,
    Region,
    Target,
    generator,
    one_of,
    relative,
    size,
    widened,
)
from botgrpo.rewards.noise.values import Drawn, ValueInjector
from botgrpo.rewards.training_step import training_step
from botgrpo.sandbox.errors import ConfigError


class Drift(ValueInjector):
    """Adds an amount that depends on the step of training: a judge or an API that changes.

    "linear" rises to `amount` over `over` steps and stays, "step" jumps to it at step `over`,
    "periodic" swings by it with that period. Each unit drifts at its own rate, uniform from 0 to 2.
    Shared by a group it cancels in BoT-GRPO and GRPO alike; not against a baseline that remembers,
    nor in groups that were sampled over several steps. Outside of training there is no step: see
    `botgrpo.rewards.training_step`.
    """

    kind = "noise.drift"

    def __init__(
        self,
        inner: Reward | str,
        amount: float = 0.5,
        seed: int = 0,
        *,
        over: int = 40,
        form: Literal["linear", "step", "periodic"] = "linear",
        on: Target = "outcome",
        granularity: Granularity = "group",
        persistence: Persistence = "fixed",
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
        if not math.isfinite(amount) or over < 1:
            raise ConfigError(f"got amount = {amount}, over = {over}; allowed: finite, 1 or more")
        self.amount, self.over = amount, over
        self.form = one_of("form", form, ("linear", "step", "periodic"))
        self.promise(
            null=granularity in ("group", "prompt") and region == "all",
        )
        self.specify(f"amount={amount}, over={over}, form={form}, granularity={granularity}")
        self.spec = replace(self.spec, deterministic=False)  # the same only within a step

    @property
    def severity(self) -> float:
        """The amount in widths of the inner outcome range, at most 1."""
        return relative(abs(self.amount), self.inner.spec.outcome_range)

    def changed_range(self, bounds: Range) -> Range:
        """Twice the amount on the side where it goes."""
        low, high = min(0.0, 2 * self.amount), max(0.0, 2 * self.amount)
        if self.form == "periodic":
            low, high = -max(-low, high), max(-low, high)
        return bounds[0] + low, bounds[1] + high

    def at(self, step: int) -> float:
        """The mean amount at a step of training."""
        share = {
            "linear": min(step / self.over, 1.0),
            "step": float(step >= self.over),
            "periodic": math.sin(2 * math.pi * step / self.over),
        }[self.form]
        return self.amount * share

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + rate x amount(step)."""
        rates = drawn(lambda rng, n: rng.uniform(0.0, 2.0, n))
        return np.asarray(values + rates * self.at(training_step()))


class JudgeDisagree(ValueInjector):
    """Each unit is judged by one of M raters, drawn at random, with a bias and a noise of its own.

    The raters' biases are draws of N(0, bias) moved to mean 0, so they add nothing on average;
    `noise` is the deviation of one judgement. `expected_icc` says how well two judgements agree.
    """

    kind = "noise.judge_disagree"

    def __init__(
        self,
        inner: Reward | str,
        bias: float = 0.3,
        noise: float = 0.1,
        seed: int = 0,
        *,
        raters: int = 3,
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
        if raters < 2:
            raise ConfigError(f"got raters = {raters}; allowed: 2 or more, or they cannot disagree")
        self.bias, self.noise = size(bias, "bias"), size(noise, "noise")
        drawn = generator(seed, self.kind, "raters").standard_normal(raters)
        self.biases = bias * (np.clip(drawn, -CUT, CUT) - np.clip(drawn, -CUT, CUT).mean())
        self.promise(
            mean_preserving=True,
        )
        self.specify(f"bias={bias}, noise={noise}, raters={raters}")

    @property
    def severity(self) -> float:
        """The deviation of one judgement in widths of the inner outcome range, at most 1."""
        spread = math.sqrt(float(self.biases.var()) + self.noise**2)
        return relative(spread, self.inner.spec.outcome_range)

    def expected_icc(self, variance: float) -> float:
        """Share of the variance of a judgement that is the rollout's, its true one being given."""
        return variance / (variance + float(self.biases.var()) + self.noise**2)

    def changed_range(self, bounds: Range) -> Range:
        """What the strictest and the mildest rater may add."""
        most = CUT * self.noise
        return bounds[0] + float(self.biases.min()) - most, bounds[1] + float(
            self.biases.max()
        ) + most

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + the rater's bias + noise z."""
        who_z = drawn(lambda rng, n: np.stack([rng.random(n), rng.standard_normal(n)], axis=1))
        rater = (who_z[:, 0] * len(self.biases)).astype(np.int64)
        z = np.clip(who_z[:, 1], -CUT, CUT)
        return np.asarray(values + self.biases[rater] + self.noise * z)


class LengthBias(ValueInjector):
    """Pays for length: adds beta clip((L - typical) / typical, -1, 1), L in code points.

    No draw is made: the same completion always gets the same bias, and rollouts of a group differ
    in it, so it does not cancel. A negative beta pays for short ones.
    """

    kind = "noise.length_bias"
    granularities = ("rollout",)

    def __init__(
        self,
        inner: Reward | str,
        beta: float = 0.3,
        seed: int = 0,
        *,
        typical: int = 500,
        on: Target = "outcome",
        region: Region = "all",
    ) -> None:
        super().__init__(
            inner, seed, on=on, granularity="rollout", persistence="fixed", region=region
        )
        if not math.isfinite(beta) or typical < 1:
            raise ConfigError(f"got beta = {beta}, typical = {typical}; allowed: finite, 1 or more")
        self.beta, self.typical = beta, typical
        self.promise()
        self.specify(f"beta={beta}, typical={typical}")

    @property
    def severity(self) -> float:
        """beta in widths of the inner outcome range, at most 1."""
        return relative(abs(self.beta), self.inner.spec.outcome_range)

    def changed_range(self, bounds: Range) -> Range:
        """beta more on each side."""
        return widened(bounds, abs(self.beta))

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """value + beta x relative length."""
        excess = (len(rollout.completion) - self.typical) / self.typical
        return np.asarray(values + self.beta * min(max(excess, -1.0), 1.0))
