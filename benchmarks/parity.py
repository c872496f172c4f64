"""Our advantages and losses against the code of the libraries that people use, on random batches.

    .envs/trl/bin/python -m botgrpo.benchmarks.parity
    .envs/verl/bin/python -m botgrpo.benchmarks.parity

prints what is installed. Each line says what is compared and under which settings of ours the two
are one definition; where the definitions differ, the line is the difference itself, predicted and
measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1e-6
PEERS = ("trl", "verl")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity, ours and theirs.

    Attributes:
        peer: library with its version.
        what: their function and settings.
        ours: our function and settings.
        error: largest absolute difference over the batch (of what `differs` predicts, if it does).
        differs: the known difference of the definitions at their defaults; "" where there is none.
    """

    peer: str
    what: str
    ours: str
    error: float
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A random ragged batch of P groups of K rollouts; float64.

    Attributes:
        mask_R_T: True for tokens; padded on the right.
        outcome_R: one number a rollout.
        reward_R_T: token rewards.
        logp_R_T, logp_old_R_T: log-probabilities, ratios on both sides of every clip range.
        groups_R: group of each rollout.
        size: K.
    """

    mask_R_T: Tensor
    outcome_R: Tensor
    reward_R_T: Tensor
    logp_R_T: Tensor
    logp_old_R_T: Tensor
    groups_R: Tensor
    size: int

    @property
    def row_N(self) -> Tensor:
        """Rollout of each token."""
        return self.mask_R_T.nonzero()[:, 0]

    def flat(self, x_R_T: Tensor) -> Tensor:
        """Tokens end to end, as our losses take them."""
        return x_R_T[self.mask_R_T]

    def spread(self, x_R: Tensor) -> Tensor:
        """One number a rollout on all of its tokens, 0 outside."""
        return x_R[:, None] * self.mask_R_T

    def last(self, x_R: Tensor) -> Tensor:
        """One number a rollout on its last token."""
        left_R_T = self.mask_R_T.flip(1).cumsum(1).flip(1)
        return x_R[:, None] * (self.mask_R_T & (left_R_T == 1))


def case(seed: int, *, groups: int = 5, size: int = 4, longest: int = 40) -> Case:
    """A batch that depends on the seed alone; the first group's outcomes are all alike."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    rows = groups * size
    length_R = torch.randint(1, longest + 1, (rows,), generator=random)
    length_R[-1] = longest
    mask_R_T = torch.arange(longest)[None] < length_R[:, None]
    outcome_R = torch.randint(0, 2, (rows,), generator=random).to(torch.float64) + 0.1 * normal(
        rows
    )
    outcome_R[:size] = 1.0
    logp_old_R_T = -normal(rows, longest).abs()
    return Case(
        mask_R_T,
        outcome_R,
        (outcome_R[:, None] - normal(rows, longest).abs()) * mask_R_T,
        logp_old_R_T + 0.3 * normal(rows, longest),
        logp_old_R_T,
        torch.arange(rows) // size,
        size,
    )


def gap(ours: Any, theirs: Any) -> float:
    """Largest absolute difference."""
    difference = torch.as_tensor(ours, dtype=torch.float64) - torch.as_tensor(
        theirs, dtype=torch.float64
    )
    return float(difference.abs().max())


def table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons as a Markdown table."""
    lines = ["| library | theirs | ours | error | known difference |", "|---|---|---|---|---|"]
    lines += [
        f"| {c.peer} | {c.what} | {c.ours} | {c.error:.1e} | {c.differs or 'none'} |"
        for c in comparisons
    ]
    return "\n".join(lines)


def installed() -> list[str]:
    """Peers that this environment has."""
    return [name for name in PEERS if importlib.util.find_spec(name) is not None]


def compare(peer: str, seed: int) -> list[Comparison]:
    """All comparisons with one peer on one batch."""
    if peer == "trl":
        from botgrpo.benchmarks import parity_trl

        return parity_trl.comparisons(case(seed))
    from botgrpo.benchmarks import parity_verl

    return parity_verl.comparisons(case(seed))


def worst(seeds: int, peer: str) -> list[Comparison]:
    """Each comparison with its largest error over `seeds` batches."""
    rounds = [compare(peer, seed) for seed in range(seeds)]
    return [
        max(column, key=lambda c: (math.isnan(c.error), c.error))
        for column in zip(*rounds, strict=True)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of every peer that is installed; status 1 where an error is too large."""
    parser = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.parity")
    parser.add_argument("--seeds", type=int, default=5, help="batches; the worst is shown")
    seeds = parser.parse_args(argv).seeds
    peers = installed()
    if not peers:
        print(
            "parity: neither TRL nor verl is installed here; next: make env-trl env-verl, then "
            ".envs/trl/bin/python -m botgrpo.benchmarks.parity",
            file=sys.stderr,
        )
        return 2
    found = [comparison for peer in peers for comparison in worst(seeds, peer)]
    print(table(found))
    return 0 if all(c.error <= TOLERANCE for c in found) else 1  # NaN is no agreement


if __name__ == "__main__":
    sys.exit(main())
