"""The frame of kinds that change a value where it stands: of tokens, of the outcome, or of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from botgrpo.rewards.base import Example, Range, Reward, Rollout, Score
from botgrpo.rewards.local import Local, local_of
from botgrpo.rewards.noise.base import (
    Draw,
    Floats,
    Granularity,
    Injector,
    Oracle,
    Persistence,
    Region,
    Target,
    one_of,
)
from botgrpo.sandbox.errors import ConfigError

Drawn = Callable[[Draw], Floats]  # asks a generator for n draws, with what the units share


class ValueInjector(Injector):
    """Changes values one by one: S on the tokens, G, or both with one draw.

    On tokens it acts after projection: the inner signal is projected with the design's decay and
    clipped to the range that it declares, then the noise comes. So the score itself, spans
    included, is the inner one, and rollouts without tokens keep what they have.

    Args:
        on: "local", "outcome" or "both". A token or a step can share a draw only on "local".
        granularity: None for a draw for each token on "local", else for each rollout.
    """

    def __init__(
        self,
        inner: Reward | str,
        seed: int,
        *,
        on: Target,
        granularity: Granularity | None,
        persistence: Persistence = "resample",
        region: Region = "all",
    ) -> None:
        if granularity is None:
            granularity = "token" if on == "local" else "rollout"
        super().__init__(
            inner, seed, granularity=granularity, persistence=persistence, region=region
        )
        self.on = one_of("on", on, get_args(Target))
        if on != "local" and granularity in ("token", "step"):
            raise ConfigError(
                f"got granularity = {granularity!r} with on = {on!r}; a rollout has one outcome: "
                "use rollout, group or prompt"
            )
        if on == "local":
            self.local_bounds()

    def change(self, rollout: Rollout, values: Floats, drawn: Drawn, bounds: Range) -> Floats:
        """Values [n] of a rollout made wrong; NaN where nobody could tell.

        Args:
            rollout: whose values they are.
            values: n = T for tokens, 1 for the outcome.
            drawn: draws for them, [n, ...].
            bounds: their declared range.
        """
        raise NotImplementedError

    def changed_range(self, bounds: Range) -> Range:
        """Where values from within `bounds` may end up."""
        return bounds

    def promise(self, **kept: Any) -> None:
        """Set `oracle`: what the kind keeps, and what follows from where it acts."""
        local = self.on == "local"
        acts = Oracle(
            outcome_preserving=local,
            local_preserving=self.on == "outcome",
            expected_j=1.0 if local else None,
        )
        self.oracle = replace(acts, **kept)

    def specify(self, options: str) -> None:
        """Set `spec`; to be called once the parameters are there."""
        inner = self.inner.spec
        words = options if self.on == "local" else f"{options}, on={self.on}"
        self.spec = self.declare(
            words,
            outcome=None if self.on == "local" else self.changed_range(inner.outcome_range),
            local=None
            if self.on == "outcome" or inner.local_range is None
            else self.changed_range(inner.local_range),
        )

    def disturb(self, rollout: Rollout, score: Score) -> Score:
        """The score with its outcome changed, where that is asked for."""
        if self.on == "local" or not self.outcome_in_region(score):
            return score
        given = np.array([score.outcome], dtype=np.float64)
        (outcome,) = self.change(
            rollout,
            given,
            lambda draw: draw(self.rng(rollout), 1),
            self.inner.spec.outcome_range,
        ).tolist()
        if math.isnan(outcome):
            return Score.unscored(score.id, f"left out by {self.kind}", seconds=score.seconds)
        return replace(score, outcome=outcome)

    def project_local(self, rollout: Rollout, score: Score, decay_lines: int) -> Local:
        """The inner projection with the noise on the tokens of the region."""
        inner = local_of(self.inner, rollout, score, decay_lines=decay_lines) or ()
        if self.on == "outcome" or self.inner.spec.local_range is None or not inner:
            return inner
        bounds = self.local_bounds()
        values_T = np.clip(np.array(inner, dtype=np.float64), *bounds)  # None becomes NaN
        noisy_T = self.change(
            rollout, values_T, lambda draw: self.per_token(rollout, len(values_T), draw), bounds
        )
        noisy_T = np.where(self.in_region_T(rollout, values_T), noisy_T, values_T)
        return tuple(None if math.isnan(v) else v for v in noisy_T.tolist())

    def still_true(self, example: Example) -> Example:
        """Any outcome of the new range, where outcomes change."""
        return example if self.on == "local" else replace(example, outcome=self.spec.outcome_range)
