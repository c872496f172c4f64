"""A reward's passes over labelled rollouts as arrays.

Axes: N passes, R rollouts, P prompts, T tokens of one rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from botgrpo.benchmarks.audit.labels import Labelled
from botgrpo.benchmarks.stats import Floats
from botgrpo.rewards import RewardSpec, Score

SURE = 3.0  # standard errors


@dataclass(frozen=True)
class Observed:
    """What a reward said of R rollouts in N passes, beside what is true of them.

    Attributes:
        name: the reference that the user wrote.
        spec: what the reward promises.
        items: R labelled rollouts.
        passes: N times R scores, in the order of `items`.
        seconds: wall time of all passes.
    """

    name: str
    spec: RewardSpec
    items: Sequence[Labelled]
    passes: Sequence[Sequence[Score]]
    seconds: float = 0.0

    @cached_property
    def outcome_N_R(self) -> Floats:
        """Outcomes; NaN where unscored."""
        return np.array(
            [[np.nan if s.outcome is None else s.outcome for s in row] for row in self.passes]
        )

    @cached_property
    def mean_outcome_R(self) -> Floats:
        """Mean over the passes that scored a rollout; NaN where none did."""
        known = ~np.isnan(self.outcome_N_R)
        sums, n = np.where(known, self.outcome_N_R, 0.0).sum(axis=0), known.sum(axis=0)
        return np.where(n > 0, sums / np.maximum(n, 1), np.nan)

    @cached_property
    def truth_R(self) -> Floats:
        """Labelled outcomes; NaN where there is none."""
        return np.array([np.nan if i.outcome is None else i.outcome for i in self.items])

    @cached_property
    def prompt_R(self) -> NDArray[np.int64]:
        """Number of each rollout's prompt, in order of appearance."""
        numbers: dict[str, int] = {}
        return np.array(
            [numbers.setdefault(i.rollout.group, len(numbers)) for i in self.items], dtype=np.int64
        )

    @property
    def n_prompts(self) -> int:
        """P."""
        return int(self.prompt_R.max(initial=-1)) + 1

    @cached_property
    def members_P(self) -> list[list[int]]:
        """Places of each prompt's rollouts."""
        found: list[list[int]] = [[] for _ in range(self.n_prompts)]
        for i, prompt in enumerate(self.prompt_R.tolist()):
            found[prompt].append(i)
        return found

    @cached_property
    def group_size(self) -> int:
        """K: rollouts of the largest group."""
        return int(np.bincount(self.prompt_R).max(initial=0))

    @cached_property
    def local_R(self) -> list[Floats | None]:
        """For each rollout [N, T] token values, NaN where unknown; None where it has none."""
        columns = zip(*self.passes, strict=True)
        return [_table(i, scores) for i, scores in zip(self.items, columns, strict=True)]

    @property
    def has_tokens(self) -> bool:
        """Whether there is any token value."""
        return any(local is not None for local in self.local_R)

    @cached_property
    def token_noise(self) -> float:
        """Variance of a token's value between passes; 0 with one pass."""
        rows = [local for local in self.local_R if local is not None and local.shape[1]]
        if len(self.passes) < 2 or not rows:
            return 0.0
        known = [r[:, ~np.isnan(r).any(axis=0)] for r in rows]
        return float(np.mean([r.var(axis=0, ddof=1).mean() for r in known if r.shape[1]] or [0.0]))

    def sums_P(self, values_R: Floats) -> Floats:
        """Sums over the rollouts of each prompt, NaN counting as 0: [P]."""
        given = np.where(np.isnan(values_R), 0.0, values_R)
        sums = np.bincount(self.prompt_R, weights=given, minlength=self.n_prompts)
        return sums.astype(np.float64)

    def rows_P(self, rows_R_M: Floats) -> Floats:
        """The same for rows of M numbers: [P, M]."""
        sums = np.zeros((self.n_prompts, rows_R_M.shape[1]))
        np.add.at(sums, self.prompt_R, rows_R_M)
        return sums

    def centred_R(self, values_R: Floats, *, by_truth: bool) -> Floats:
        """Values minus the mean of their prompt, of those with the same label where asked."""
        known = ~np.isnan(values_R) & (~np.isnan(self.truth_R) if by_truth else True)
        strata = [(p, t) for p, t in zip(self.prompt_R, self.truth_R, strict=True)]
        keys = strata if by_truth else [(p, 0.0) for p, _ in strata]
        numbers: dict[tuple[int, float], int] = {}
        at_R = np.array(
            [numbers.setdefault(k, len(numbers)) if ok else -1
             for k, ok in zip(keys, known, strict=True)]
        )  # fmt: skip
        centred = np.full(len(values_R), np.nan)
        if known.any():
            counts = np.bincount(at_R[known])
            means = np.bincount(at_R[known], weights=values_R[known]) / counts
            several = known & (counts[at_R] > 1)
            centred[several] = values_R[several] - means[at_R[several]]
        return centred

    def fault_T(self, i: int) -> NDArray[np.bool_]:
        """Which tokens of rollout i share a code point with a labelled fault."""
        spans = np.array(self.items[i].rollout.token_spans or (), dtype=np.int64).reshape(-1, 2)
        inside = np.zeros(len(spans), dtype=bool)
        for fault in self.items[i].faults or ():
            inside |= (spans[:, 0] < fault.end) & (spans[:, 1] > fault.start)
        return inside & (spans[:, 1] > spans[:, 0])

    def margin(self, n_tokens: int = 1) -> float:
        """How far the mean over passes of so many tokens must be off to be no accident."""
        noise = self.token_noise / (len(self.passes) * max(n_tokens, 1))
        return 1e-9 + SURE * float(np.sqrt(noise))


def _table(item: Labelled, scores: Sequence[Score]) -> Floats | None:
    spans = item.rollout.token_spans
    if spans is None or all(s.local is None for s in scores):
        return None
    rows = [
        [np.nan] * len(spans) if s.local is None else [np.nan if v is None else v for v in s.local]
        for s in scores
    ]
    return np.array(rows, dtype=np.float64)
