"""What a reward design guarantees before anything is trained: when does the outcome win?

G differs by a gap Delta between success and failure, S spans a range rho over tokens, K rollouts a
group, r = w_g G + w_s S. From arXiv 2610.09804, equations 4 and 5, and algebra on them:

    ordering       every success has a larger mean advantage than every failure
                   w_s rho < w_g Delta
    rollout sign   successes are pushed up and failures down, on average over their tokens
                   w_s rho (K-1)/K < w_g Delta min(p, 1-p)   at a share p of successes
                   w_s rho (K-1)   < w_g Delta               whatever the share in a mixed group
    token sign     the same for every single token
                   w_s rho K <= w_g Delta

Dividing by sigma + eps changes no sign. All hold for bounded S only: clip it. None says anything
about a group whose outcomes are all alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from botgrpo.rewards.base import Range

Padding = Literal["rewarded", "punished", "either", "nothing"]


class Weights(Protocol):
    """What is read of a design: `RewardConfig` and `Design` have it."""

    @property
    def w_g(self) -> float: ...
    @property
    def w_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Dominance:
    """The bounds for one design.

    Attributes:
        group_size: K.
        outcome_gap: w_g Delta, from failure to success.
        local_span: w_s rho, from the lowest to the highest local reward of a token.
        ordering: every success ranks above every failure.
        rollout_sign: each rollout's mean advantage has its outcome's sign, in any mixed group.
        token_sign: each token's advantage has its rollout's outcome's sign, likewise.
        uniform_group: what a group whose outcomes are all alike does.
        padding: what appended tokens without local reward do to a rollout's mean reward.
    """

    group_size: int
    outcome_gap: float
    local_span: float
    ordering: bool
    rollout_sign: bool
    token_sign: bool
    uniform_group: str
    padding: Padding

    def rollout_sign_at(self, successes: int) -> bool:
        """Whether the sign of each rollout's mean advantage is certain with so many successes."""
        if not 0 < successes < self.group_size:
            raise ValueError(
                f"successes is {successes}; a mixed group of {self.group_size} has 1 to "
                f"{self.group_size - 1}"
            )
        k = self.group_size
        return self.local_span * (k - 1) < self.outcome_gap * min(successes, k - successes)


def report(
    *,
    w_g: float,
    w_s: float,
    outcome_gap: float,
    local_range: Range | None,
    group_size: int,
    uniform_group: str = "keep",
) -> Dominance:
    """The bounds for weights, ranges and K.

    Args:
        outcome_gap: Delta, the difference of G between success and failure, before w_g. For graded
            outcomes the smallest difference that shall count.
        local_range: bounds of S on a token, before w_s; None without local rewards.
        uniform_group: the option of `bot_grpo`.

    Raises:
        ValueError: fewer than two rollouts, or a range whose ends are swapped.
    """
    low, high = local_range or (0.0, 0.0)
    if group_size < 2:
        raise ValueError(f"group_size is {group_size}; a group has at least 2 rollouts")
    if not low <= high:
        raise ValueError(f"local_range is {local_range}; the lower bound comes first")
    gap, span = abs(w_g * outcome_gap), abs(w_s) * (high - low)
    return Dominance(
        group_size=group_size,
        outcome_gap=gap,
        local_span=span,
        ordering=span < gap,
        rollout_sign=span * (group_size - 1) < gap,
        token_sign=span * group_size <= gap and gap > 0,
        uniform_group=_uniform(span, gap, group_size, uniform_group),
        padding=_padding(w_s * low, w_s * high),
    )


def of_design(
    design: Weights,
    local_range: Range | None,
    outcome_range: Range,
    k: int,
    *,
    uniform_group: str = "keep",
) -> Dominance:
    """The bounds for a design whose outcome is either end of `outcome_range`.

    Args:
        design: has `w_g` and `w_s`.
        local_range: of S as the design mixes and clips it (`Composite.spec.local_range`).
        outcome_range: of G likewise.
        k: rollouts a group.
    """
    return report(
        w_g=design.w_g,
        w_s=design.w_s,
        outcome_gap=outcome_range[1] - outcome_range[0],
        local_range=local_range,
        group_size=k,
        uniform_group=uniform_group,
    )


def warning(dominance: Dominance) -> str:
    """One sentence on the weakest guarantee that fails; "" where the outcome decides every rollout.

    A token's sign is left out: that a success has bad tokens is what local rewards are for.
    """
    d = dominance
    if d.outcome_gap == 0 and d.local_span == 0:
        return "Neither outcomes nor local rewards have a weight, so nothing will be learned."
    if not d.ordering:
        return (
            f"Local rewards can outweigh the outcome: they span {d.local_span:g} a token and the "
            f"outcome's gap is {d.outcome_gap:g}, so a failure can rank as high as a success; "
            "raise w_g or lower w_s until the gap is larger."
        )
    if not d.rollout_sign:
        needed = d.local_span * (d.group_size - 1)
        return (
            f"A failing rollout can still be pushed up (and a success down) in groups of "
            f"{d.group_size}: that is excluded only for an outcome gap above {needed:g} "
            f"(local span {d.local_span:g} x {d.group_size - 1}), and it is {d.outcome_gap:g}."
        )
    if d.padding in ("rewarded", "either"):
        return (
            "Local penalties are a density: a rollout's mean reward rises when it appends tokens "
            "without penalty, so watch bot/length_advantage_correlation."
        )
    return ""


def _uniform(span: float, gap: float, k: int, option: str) -> str:
    if span == 0:
        return "nothing is learned: without local rewards all advantages are 0"
    if option == "zero":
        return "nothing is learned: the group is dropped"
    if option == "damp":
        floor = gap * (k - 1) ** 0.5 / k
        return f"local rewards alone decide, damped by a deviation of {floor:g} added to theirs"
    return "local rewards alone decide, at full size whatever w_s is: no bound holds there"


def _padding(low: float, high: float) -> Padding:
    low, high = min(low, high), max(low, high)
    if low < 0 < high:
        return "either"
    if low < 0:
        return "rewarded"
    return "punished" if high > 0 else "nothing"
