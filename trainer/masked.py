"""The padded form [K, T] that trainers pass around: checks, masked sums and a group's means.

`K` rows of one or several groups; what lies outside the mask is replaced by 0 before anything is
computed, since NaN * 0 is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from botgrpo.trainer import segments
from botgrpo.trainer.segments import Array

# a spread at or below this share of the largest value is rounding, not signal
RELATIVE_TOLERANCE = 1e-6


def check_batch(rewards_K_T: Array, mask_K_T: Array) -> None:
    """Shapes and types that every advantage expects; raises ValueError with got and expected."""
    if segments.is_torch(rewards_K_T) != segments.is_torch(mask_K_T):
        raise ValueError(
            f"rewards are {type(rewards_K_T).__name__} and the mask is {type(mask_K_T).__name__}; "
            "expected both numpy arrays or both torch tensors"
        )
    if rewards_K_T.ndim != 2 or tuple(rewards_K_T.shape) != tuple(mask_K_T.shape):
        raise ValueError(
            f"rewards have shape {tuple(rewards_K_T.shape)} and the mask {tuple(mask_K_T.shape)}; "
            "expected two equal shapes (K rollouts, T tokens)"
        )
    if mask_K_T.dtype not in (torch.bool, np.dtype(bool)):
        raise ValueError(f"the mask has dtype {mask_K_T.dtype}; expected bool")
    if not _is_float(rewards_K_T):
        raise ValueError(f"rewards have dtype {rewards_K_T.dtype}; expected a float type")


def check_like(name: str, x: Array, shape: tuple[int, ...]) -> None:
    """One more input of the given shape; raises ValueError with its name, got and expected."""
    if x is None or tuple(x.shape) != shape:
        got = "nothing" if x is None else f"shape {tuple(x.shape)}"
        raise ValueError(f"{name}: got {got}; expected shape {shape}")


def group_index(groups_K: Any | None, rewards_K_T: Array) -> Array:
    """Group of each row as integers from 0; one group where nothing is said."""
    n_rows = rewards_K_T.shape[0]
    index = segments.index_like(np.zeros(n_rows) if groups_K is None else groups_K, rewards_K_T)
    if tuple(index.shape) != (n_rows,):
        raise ValueError(f"groups_K has shape {tuple(index.shape)}; expected ({n_rows},)")
    if n_rows and int(index.min()) < 0:
        raise ValueError(f"groups_K holds {int(index.min())}; expected integers from 0")
    return index


def _is_float(x: Array) -> bool:
    if segments.is_torch(x):
        return bool(x.dtype.is_floating_point)
    return bool(np.issubdtype(x.dtype, np.floating))


@dataclass(frozen=True, slots=True)
class Masked:
    """A checked batch in float64.

    Attributes:
        r_K_T: rewards, 0 outside the mask.
        mask_K_T: bool.
        length_K: tokens of each row.
        valid_K: 1.0 for rows that have a token, else 0.0.
        group_K: group of each row.
        n_groups: P.
        like: the rewards as they came, for the type of the result.
    """

    r_K_T: Array
    mask_K_T: Array
    length_K: Array
    valid_K: Array
    group_K: Array
    n_groups: int
    like: Array

    @classmethod
    def of(cls, rewards_K_T: Array, mask_K_T: Array, groups_K: Any | None) -> Masked:
        """Raises ValueError for wrong shapes or types, and for NaN or infinity in the mask."""
        check_batch(rewards_K_T, mask_K_T)
        r_K_T = segments.where(mask_K_T, segments.float64(rewards_K_T), 0.0)
        if not segments.largest_absolute(r_K_T.reshape(-1)) < float("inf"):
            raise ValueError(
                "a reward inside the mask is NaN or infinite; mask what nobody could score"
            )
        length_K = segments.float64(mask_K_T.sum(1))
        group_K = group_index(groups_K, rewards_K_T)
        n_groups = int(group_K.max()) + 1 if len(group_K) else 0
        valid_K = segments.float64(length_K > 0)
        return cls(r_K_T, mask_K_T, length_K, valid_K, group_K, n_groups, rewards_K_T)

    def inside(self, x_K_T: Array) -> Array:
        """`x_K_T` in float64, 0 outside the mask."""
        return segments.where(self.mask_K_T, segments.float64(x_K_T), 0.0)

    def mean_K(self) -> Array:
        """Mean reward of each row; 0 for an empty one."""
        return self.r_K_T.sum(1) / (self.length_K + (1 - self.valid_K))

    def group_sum_K(self, x_K: Array) -> Array:
        """For each row the sum of `x_K` over its group's rows that have a token."""
        return segments.segment_sum(x_K * self.valid_K, self.group_K, self.n_groups)[self.group_K]

    def size_K(self) -> Array:
        """For each row how many rows of its group have a token."""
        return self.group_sum_K(self.valid_K)

    def others_mean_K(self, x_K: Array) -> Array:
        """For each row the mean of `x_K` over the other rows of its group; 0 without others."""
        others_K = self.size_K() - self.valid_K
        total_K = self.group_sum_K(x_K) - x_K * self.valid_K
        return total_K / segments.where(others_K > 0, others_K, 1.0)

    def centred_K(self, x_K: Array) -> Array:
        """`x_K` minus its group's mean; exactly 0 for equal values, without peers or tokens."""
        size_K = self.size_K()
        mean_K = self.group_sum_K(x_K) / segments.where(size_K > 0, size_K, 1.0)
        offset_K = (x_K - mean_K) * self.valid_K
        sigma_K = (self.group_sum_K(offset_K**2) / segments.where(size_K > 0, size_K, 1.0)) ** 0.5
        largest_P = segments.segment_max(abs(x_K) * self.valid_K, self.group_K, self.n_groups)
        floor_P = RELATIVE_TOLERANCE * segments.where(largest_P > 1, largest_P, 1.0)
        return segments.where((size_K >= 2) & (sigma_K > floor_P[self.group_K]), offset_K, 0.0)

    def last_K_T(self) -> Array:
        """True at the last token of each row."""
        return self.mask_K_T & (segments.reverse_cumsum(segments.float64(self.mask_K_T)) == 1)

    def whitened(self, x_K_T: Array, mask_K_T: Array) -> Array:
        """(x - mean) / sqrt(variance + 1e-8), all marked tokens of the batch alike.

        Sample variance and the position of 1e-8 are verl's `masked_whiten`; a batch without two
        tokens or without spread gives 0.
        """
        weight_K_T = segments.float64(mask_K_T)
        count = float(weight_K_T.sum())
        if count < 2:
            return weight_K_T * 0.0
        mean = float((x_K_T * weight_K_T).sum()) / count
        offset_K_T = (x_K_T - mean) * weight_K_T
        variance = float((offset_K_T**2).sum()) / (count - 1)
        largest = segments.largest_absolute((x_K_T * weight_K_T).reshape(-1))
        if variance**0.5 <= RELATIVE_TOLERANCE * max(1.0, largest):
            return weight_K_T * 0.0
        return offset_K_T / (variance + 1e-8) ** 0.5

    def result(self, x_K_T: Array) -> Array:
        """`x_K_T` as the caller's array type and dtype, exactly 0 outside the mask."""
        kept_K_T = segments.where(self.mask_K_T, x_K_T, 0.0)
        return (
            kept_K_T.to(self.like.dtype)
            if segments.is_torch(kept_K_T)
            else kept_K_T.astype(self.like.dtype)
        )
