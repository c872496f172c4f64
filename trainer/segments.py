"""Sums, maxima and expansion over runs of tokens, for numpy arrays and torch tensors alike.

A ragged batch is a flat vector of N tokens, row after row, and the length of each of the R rows.
Everything here is O(N), in float64, on the device where the input lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# tokens whose float64 temporaries fit a core's cache: three times faster than all at once
BLOCK_TOKENS = 1 << 17

Array = Any  # np.ndarray or torch.Tensor; the two never mix within a call


def empty(n: int, like: Array) -> Array:
    """[n] float64 on the device of `like`, not filled."""
    if is_torch(like):
        return torch.empty(n, dtype=torch.float64, device=like.device)
    return np.empty(n)


def is_torch(x: Array) -> bool:
    return isinstance(x, torch.Tensor)


def float64(x: Array) -> Array:
    """A float64 copy or view; the statistics never run in the model's precision."""
    return x.to(torch.float64) if is_torch(x) else np.asarray(x, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Runs:
    """R rows of tokens that lie end to end, `length_R` tokens each; empty rows are allowed."""

    length_R: Array
    row_N: Array

    @classmethod
    def of(cls, length_R: Array) -> Runs:
        if is_torch(length_R):
            return cls(length_R, torch.repeat_interleave(length_R))
        return cls(length_R, np.repeat(np.arange(len(length_R)), length_R))

    def sum(self, x_N: Array) -> Array:
        """Sum of each row, [R] float64; 0 for an empty one."""
        if is_torch(x_N):
            # three to six times faster than index_add_, which cannot know that rows are runs
            return torch.segment_reduce(x_N, "sum", lengths=self.length_R, unsafe=True, initial=0)
        return np.bincount(self.row_N, weights=x_N, minlength=len(self.length_R))

    def expand(self, x_R: Array) -> Array:
        """`x_R` repeated for each token of its row, [N]."""
        # index_select is four times as fast as x_R[row_N]
        return x_R.index_select(0, self.row_N) if is_torch(x_R) else x_R[self.row_N]


def blocks(length_R: Array, n_tokens: int) -> Iterator[tuple[slice, slice]]:
    """Rows and their tokens, piece by piece: whole rows, about `BLOCK_TOKENS` tokens at a time.

    On an accelerator all rows at once. Raises ValueError where the lengths do not add up to the
    tokens that are there.
    """
    on_accelerator = is_torch(length_R) and length_R.device.type != "cpu"
    size = n_tokens if on_accelerator else BLOCK_TOKENS
    ends = np.cumsum(length_R.cpu().numpy() if is_torch(length_R) else length_R)
    total = int(ends[-1]) if len(ends) else 0
    if total != n_tokens:
        raise ValueError(f"the lengths add up to {total}; got {n_tokens} tokens")
    row, token = 0, 0
    while row < len(ends):
        last = max(row + 1, int(np.searchsorted(ends, token + size, side="right")))
        yield slice(row, last), slice(token, int(ends[last - 1]))
        row, token = last, int(ends[last - 1])


def segment_sum(x_R: Array, index_R: Array, n: int) -> Array:
    """Sum of `x_R` within each of `n` segments, [n] float64, whatever the order of the index."""
    if is_torch(x_R):
        out = torch.zeros(n, dtype=torch.float64, device=x_R.device)
        return out.index_add_(0, index_R, x_R)
    return np.bincount(index_R, weights=x_R, minlength=n)


def segment_max(x_N: Array, index_N: Array, n: int) -> Array:
    """Largest of `x_N` within each of `n` segments, [n] float64; 0 for an empty one (x_N >= 0)."""
    if is_torch(x_N):
        out = torch.zeros(n, dtype=torch.float64, device=x_N.device)
        return out.scatter_reduce_(0, index_N, x_N, reduce="amax")
    out_n = np.zeros(n)
    np.maximum.at(out_n, index_N, x_N)
    return out_n


def column_sum(x_K_T: Array, group_K: Array, n_groups: int) -> Array:
    """Sum over the rows of each group, column by column, [P, T] float64."""
    if is_torch(x_K_T):
        out = torch.zeros(n_groups, x_K_T.shape[1], dtype=torch.float64, device=x_K_T.device)
        return out.index_add_(0, group_K, x_K_T)
    out_P_T: np.ndarray = np.zeros((n_groups, x_K_T.shape[1]))
    np.add.at(out_P_T, group_K, x_K_T)
    return out_P_T


def reverse_cumsum(x_K_T: Array) -> Array:
    """At each token the sum of what is there and after it."""
    if is_torch(x_K_T):
        return x_K_T.flip(1).cumsum(1).flip(1)
    return np.cumsum(x_K_T[:, ::-1], axis=1)[:, ::-1]


def cummax(x_K_T: Array) -> Array:
    """At each token the largest of what is there and before it."""
    return x_K_T.cummax(1).values if is_torch(x_K_T) else np.maximum.accumulate(x_K_T, axis=1)


def row_max(x_K_T: Array) -> Array:
    """Largest of each row, [K]; 0 where there are no columns (x_K_T >= 0)."""
    if not x_K_T.shape[1]:
        return x_K_T.sum(1)
    return x_K_T.amax(1) if is_torch(x_K_T) else x_K_T.max(1)


def where(condition: Array, x: Array, y: Array) -> Array:
    if is_torch(condition):
        return torch.where(condition, x, torch.as_tensor(y, dtype=x.dtype, device=x.device))
    return np.where(condition, x, y)


def exp(x: Array) -> Array:
    return torch.exp(x) if is_torch(x) else np.exp(x)


def index_like(values: Any, like: Array) -> Array:
    """Integer index on the device of `like`."""
    if is_torch(like):
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)
    return np.asarray(values, dtype=np.int64)


def largest_absolute(x_N: Array) -> float:
    """max |x| in one pass; NaN or infinite where a value is, 0 for nothing."""
    if x_N.shape[0] == 0:
        return 0.0
    if is_torch(x_N):
        low, high = torch.aminmax(x_N)
        return float(torch.maximum(-low, high))
    return float(np.maximum(-np.min(x_N), np.max(x_N)))
