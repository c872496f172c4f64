"""Facts about a rollout turned into a score: outcomes, local signals, and their composition."""

from __future__ import annotations

from botgrpo.rewards.base import (
    Example,
    Range,
    Reward,
    RewardError,
    RewardSpec,
    Rollout,
    Score,
    Span,
)
from botgrpo.rewards.local import local_of
from botgrpo.rewards.mix import Composite, Design, token_rewards
from botgrpo.rewards.pictures import picture
from botgrpo.rewards.registry import available, build, register
from botgrpo.rewards.spans import project
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.sandbox.attempt import attempt

__all__ = [
    "Composite",
    "Design",
    "Example",
    "Range",
    "Reward",
    "RewardError",
    "RewardSpec",
    "Rollout",
    "Score",
    "Span",
    "TokenBytes",
    "attempt",
    "available",
    "build",
    "local_of",
    "picture",
    "project",
    "register",
    "token_rewards",
]
