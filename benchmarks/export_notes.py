"""What both launch files say at their top, and how they refuse."""

from __future__ import annotations

from collections.abc import Sequence

from botgrpo.trainer.config import Config

RESUMPTION = "exact resumption: a run that was killed goes on, but not to the same numbers"
WARM_START = (
    "[policy.warm_start]: run `botgrpo sft` on the configuration, and pass the folder it prints as "
    "MODEL"
)


def lost(config: Config) -> list[str]:
    """What gets lost whatever the trainer."""
    optim, policy = config.optim, config.policy
    chosen = {
        "optim.epochs": optim.epochs > 1,
        "optim.minibatches": optim.minibatches > 1,
        "optim.kl": optim.kl > 0,
        "optim.correction": optim.correction is not None,
        "policy.lora": policy.lora is not None,
        "prime": config.prime is not None,
        "critic": config.critic is not None,
        "policy.chat_options": bool(policy.chat_options),
    }
    left = ", ".join(name for name, used in chosen.items() if used)
    return [
        RESUMPTION,
        *([WARM_START] if policy.warm_start else []),
        *([f"{left}: set what that trainer has for it by hand"] if left else []),
    ]


def bullets(lines: Sequence[str], indent: str = "") -> str:
    """One line each."""
    return "\n".join(f"{indent}- {line}" for line in lines)


def cannot(where: str, name: str, able: Sequence[str]) -> str:
    """Why a method is refused, and which are not."""
    return (
        f"algorithm {name!r} cannot be taken to {where}: it lacks a part of it. "
        f"Possible: {', '.join(sorted(able))}"
    )
