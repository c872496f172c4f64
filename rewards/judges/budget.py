"""What judging costs: counted for each rollout, and bounded for each reward."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from botgrpo.rewards.judges.settings import Settings


class NoVerdict(Exception):
    """The judge gave nothing that counts; `verdict` and the message go into `Score.unscored`.

    Attributes:
        verdict: `infra_error` (no answer came), `unreadable` (one came and says nothing), or
            `budget`.
    """

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


@dataclass(slots=True)
class Usage:
    """What one rollout's judging took. `calls` counts retries; cost is in the prices' currency."""

    calls: int = 0
    retries: int = 0
    cache_hits: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0

    def metrics(self) -> dict[str, float]:
        """For `Score.metrics`."""
        return {f"judge/{name}": float(getattr(self, name)) for name in self.__slots__}


class Budget:
    """Calls, tokens and money that a reward may still spend in this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()  # rewards may be used from several event loops
        self.calls = 0
        self.tokens = 0
        self.cost = 0.0

    def start_call(self, usage: Usage) -> None:
        """Count a call. Raises `NoVerdict` once a limit is reached."""
        limits = self._settings
        with self._lock:
            for name, spent, limit in (
                ("max_calls", self.calls, limits.max_calls),
                ("max_total_tokens", self.tokens, limits.max_total_tokens),
                ("max_cost", self.cost, limits.max_cost),
            ):
                if limit is not None and spent >= limit:
                    raise NoVerdict("budget", f"the judge's budget is spent: {name} = {limit}")
            self.calls += 1
        usage.calls += 1

    def spend(self, tokens_in: int, tokens_out: int, usage: Usage) -> None:
        """Count what a call read and wrote."""
        prices = self._settings
        cost = (tokens_in * prices.price_in + tokens_out * prices.price_out) / 1e6
        with self._lock:
            self.tokens += tokens_in + tokens_out
            self.cost += cost
        usage.tokens_in += tokens_in
        usage.tokens_out += tokens_out
        usage.cost += cost
