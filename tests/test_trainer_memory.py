"""What was freed goes back to the machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from botgrpo.trainer.memory import give_back


def held_mib() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_what_was_freed_between_tensors_that_stay_goes_back() -> None:
    # below the size that gets pages of its own, so that each kept one holds the heap's top
    tensors = [torch.ones(16 * 1024) for _ in range(4_000)]
    before = held_mib()
    kept = tensors[::100]
    del tensors
    give_back()
    assert held_mib() < before - 200
    assert all(float(tensor.sum()) == 16 * 1024 for tensor in kept)
