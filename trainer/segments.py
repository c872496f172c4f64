"""Sums and maxima over runs of tokens, for numpy arrays and torch tensors alike.

A ragged batch is a flat vector of N tokens and an index that says to which row (or group) each
belongs. Everything here is O(N), in float64, on the device where the input lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Array = Any  # np.ndarray or torch.Tensor; the two never mix within a call


def is_torch(x: Array) -> bool:
    return isinstance(x, torch.Tensor)


def float64(x: Array) -> Array:
    """A float64 copy or view; the statistics never run in the model's precision."""
    return x.to(torch.float64) if is_torch(x) else np.asarray(x, dtype=np.float64)


def segment_sum(x_N: Array, index_N: Array, n: int) -> Array:
    """Sum of `x_N` within each of `n` segments, [n] float64."""
    if is_torch(x_N):
        out = torch.zeros(n, dtype=torch.float64, device=x_N.device)
        return out.index_add_(0, index_N, x_N)
    return np.bincount(index_N, weights=x_N, minlength=n)


def segment_max(x_N: Array, index_N: Array, n: int) -> Array:
    """Largest of `x_N` within each of `n` segments, [n] float64; 0 for an empty one (x_N >= 0)."""
    if is_torch(x_N):
        out = torch.zeros(n, dtype=torch.float64, device=x_N.device)
        return out.scatter_reduce_(0, index_N, x_N, reduce="amax")
    out_n = np.zeros(n)
    np.maximum.at(out_n, index_N, x_N)
    return out_n


def where(condition: Array, x: Array, y: Array) -> Array:
    if is_torch(condition):
        return torch.where(condition, x, torch.as_tensor(y, dtype=x.dtype, device=x.device))
    return np.where(condition, x, y)


def index_like(values: Any, like: Array) -> Array:
    """Integer index on the device of `like`."""
    if is_torch(like):
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)
    return np.asarray(values, dtype=np.int64)
