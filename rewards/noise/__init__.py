"""Noise injectors: rewards made wrong in a known way, to see what that does to learning.

Every injector takes any reward and declares an oracle, the properties that a test can hold it to.
Its draws are hashes (`base.py`), so order, batching, workers and resuming change nothing.

    values     gaussian, heavy_tail, drift, judge_disagree, length_bias   something is added
               scale_blowup, sparse_drop, quantise                       scaled, lost, coarser
    places     shift, permute_lines, delay                               right sum, wrong tokens
    outcomes   flip, flip_asym, swap, adversarial                        wrong verdicts
    null       offset, scale                                             shared by the group

The kinds are those of arXiv 2505.22653, 2510.00915 and 2601.04411 (flips), 2507.08794 (phrases that
fool a judge), 2606.13685 (judges that disagree), 2603.16140 (wrong labels), 2402.07319 (length),
2504.15275 and 2410.15115 (sums without bounds).
"""

from __future__ import annotations

from botgrpo.rewards.noise.base import Granularity, Injector, Oracle, Persistence, Region, Target
from botgrpo.rewards.noise.bias import Drift, JudgeDisagree, LengthBias
from botgrpo.rewards.noise.faults import Quantise, ScaleBlowup, SparseDrop
from botgrpo.rewards.noise.jitter import Gaussian, HeavyTail
from botgrpo.rewards.noise.null import Offset, Scale
from botgrpo.rewards.noise.outcomes import Adversarial, Flip, FlipAsym, Swap
from botgrpo.rewards.noise.places import Delay, PermuteLines, Shift

__all__ = [
    "Adversarial",
    "Delay",
    "Drift",
    "Flip",
    "FlipAsym",
    "Gaussian",
    "Granularity",
    "HeavyTail",
    "Injector",
    "JudgeDisagree",
    "LengthBias",
    "Offset",
    "Oracle",
    "PermuteLines",
    "Persistence",
    "Quantise",
    "Region",
    "Scale",
    "ScaleBlowup",
    "Shift",
    "SparseDrop",
    "Swap",
    "Target",
]
