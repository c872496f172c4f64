"""The engine that a configuration names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.base import Engine

if TYPE_CHECKING:
    from botgrpo.trainer.policy import Policy


def require(config: Config) -> None:
    """Raise ConfigError where the engine cannot be had; nothing is loaded."""
    kind, url = config.engine.kind, config.engine.url
    if kind == "vllm" and importlib.util.find_spec("vllm") is None:
        from botgrpo.trainer.engines.vllm import missing

        raise missing("it is not installed")
    if kind == "vllm-server" and not (url or "").startswith(("http://", "https://")):
        raise ConfigError(
            f"engine.kind is vllm-server and engine.url is {url!r}; set it to the server's "
            "address, for example engine.url=http://localhost:8000/v1"
        )
    if kind != "vllm-server" and url is not None:
        raise ConfigError(
            f"engine.url is set and engine.kind is {kind}; did you mean engine.kind=vllm-server?"
        )


def engine_of(config: Config, policy: Policy) -> Engine:
    """Ready to draw with the policy's weights as they are now."""
    from botgrpo.trainer.policy import DTYPES

    require(config)
    engine, dtype = config.engine, DTYPES[config.policy.generate_dtype]
    if engine.kind == "vllm":
        from botgrpo.trainer.engines.vllm import VllmEngine

        return VllmEngine(
            policy.model,
            Path(policy.model.name_or_path),
            end_ids=policy.end_ids,
            dtype=dtype,
            memory_gib=engine.memory_gib,
        )
    if engine.kind == "vllm-server":
        from botgrpo.trainer.engines.vllm_server import VllmServerEngine

        return VllmServerEngine(
            policy.model,
            engine.url or "",
            end_ids=policy.end_ids,
            dtype=dtype,
            weights_dir=Path(engine.weights_dir) if engine.weights_dir else None,
        )
    from botgrpo.trainer.engines.generic import engine_for

    return engine_for(policy.model, end_ids=policy.end_ids, pad_id=policy.pad_id, dtype=dtype)
