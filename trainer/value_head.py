"""The critic of algorithms that read values: a model of V_t that learns beside the policy.

A copy of the policy's body, all of which learns, with a linear head on the state before each token.
A model of its own and no head on the policy's states, because the source's is one: what it learns
must not move the policy. Its loss is the mean over tokens of (V_t - R_t)^2 with R_t the return from
t on: GAE's target at lambda 1, the critic's half of the decoupled GAE. The advantages see the
values from before the critic has learned from their batch. For the first `pretrain_steps` it learns
alone, while the policy stays.

Source: arXiv 2504.05118 (second-hand). There the critic begins as a reward model; here, where there
is none, as the policy with a head of zeros: every value is 0 at first.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.algorithms import ALGORITHMS, entry
from botgrpo.trainer.batch import Batch, port
from botgrpo.trainer.config import Config, CriticConfig
from botgrpo.trainer.logps import Row, hidden_states, microbatches
from botgrpo.trainer.policy import DTYPES, Policy
from botgrpo.trainer.process_rewards import return_to_go
from botgrpo.trainer.rollouts import Drawn, rows_of, with_tokens
from botgrpo.trainer.update import deal, take_step

RATE = 2.0  # the critic's learning rate over the policy's


def require(config: Config) -> None:
    """Raise ConfigError for a `[critic]` that nothing would read."""
    if config.critic and not entry(config.algorithm).critic:
        able = [a.name for a in ALGORITHMS.values() if a.critic]
        raise ConfigError(
            f"[critic] is there and algorithm {config.algorithm!r} has none; leave it out, or set "
            f"algorithm={' or '.join(able)}"
        )


def critic_of(config: Config, policy: Policy) -> Critic | None:
    """The critic of an algorithm that reads values, else None.

    Make it before a checkpoint is restored: it begins as the policy does.
    """
    if not entry(config.algorithm).critic:
        return None
    table, optim = config.critic or CriticConfig(), config.optim
    model = ValueModel(policy.model)
    dtype = config.policy.update_dtype
    return Critic(
        model=model,
        optimizer=torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad],
            lr=table.learning_rate or RATE * optim.learning_rate,
            betas=(optim.beta1, optim.beta2),
            weight_decay=optim.weight_decay,
        ),
        pretrain_steps=table.pretrain_steps,
        gamma=float(config.algorithm_options.get("gamma", 1.0)),
        epochs=optim.epochs,
        minibatches=optim.minibatches,
        grad_clip=optim.grad_clip,
        pad_id=policy.pad_id,
        budget_tokens=optim.microbatch_tokens,
        autocast=None if dtype == "float32" else DTYPES[dtype],
    )


class ValueModel(nn.Module):
    """The body of a causal language model, copied, and a head of one number a token."""

    def __init__(self, language_model: Any) -> None:
        super().__init__()
        # the two names are those by which `logps.hidden_states` reads a model
        self.base_model = copy.deepcopy(language_model.base_model)
        self.config = self.base_model.config
        width = language_model.get_output_embeddings().weight.shape[1]
        self.head = nn.Linear(width, 1, device=language_model.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def values(self, rows: Sequence[Row], pad_id: int, autocast: torch.dtype | None) -> Tensor:
        """V before each completion token, row after row, [N] float32."""
        kind = self.device.type
        with torch.autocast(kind, dtype=autocast, enabled=autocast is not None):
            states_N_D = hidden_states(self, rows, pad_id=pad_id)
        values_N: Tensor = self.head(states_N_D.float())[:, 0]
        return values_N


@dataclass(slots=True)
class Critic:
    """A value model, its optimiser, and how a batch becomes steps: as many as the policy's.

    Attributes:
        pretrain_steps: steps at the start in which it learns alone.
        gamma: discount of the returns, that of the advantage.
        epochs, minibatches, grad_clip, pad_id, budget_tokens, autocast: as in `update.Settings`.
    """

    model: ValueModel
    optimizer: torch.optim.Optimizer
    pretrain_steps: int
    gamma: float
    epochs: int
    minibatches: int
    grad_clip: float
    pad_id: int
    budget_tokens: int
    autocast: torch.dtype | None

    def step(
        self, batch: Batch, drawn: Drawn, w_g: float, shuffle: Sequence[int]
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Values [N] of the batch's tokens, then learn from it; values of rollouts left out are 0.

        Args:
            shuffle: seeds the dealing of rollouts to minibatches.

        Raises:
            RunFailed: a value, the loss or the gradient is not finite.
        """
        began = time.perf_counter()
        kept = with_tokens(drawn, batch.kept_R)
        rows = rows_of(drawn, kept)
        rewards_N, _ = port(batch, "outcome_last", w_g)
        pieces = batch.split(rewards_N)
        returns = [return_to_go(r[None], np.ones((1, len(r)), bool), self.gamma)[0] for r in pieces]
        returns = [returns[i] for i in kept]
        values = self.values(rows)
        numbers = {}
        if rows:
            loss, norm = self.learn(rows, returns, shuffle)
            numbers = {
                "loss": loss,
                "grad_norm": norm,
                **_explained(np.concatenate(values), np.concatenate(returns)),
            }
        values_N = np.zeros(len(batch.row_N))
        for i, values_T in zip(kept, values, strict=True):
            values_N[batch.row_N == i] = values_T
        seconds = time.perf_counter() - began
        return values_N, {
            **{f"bot/critic/{name}": value for name, value in numbers.items()},
            "time/critic_s": seconds,
        }

    @torch.no_grad()
    def values(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """Each row's V [T] as it is now."""
        found: dict[int, np.ndarray] = {}
        for picked in microbatches(self.model, rows, self.budget_tokens):
            batch = [rows[i] for i in picked]
            values_N = self.model.values(batch, self.pad_id, self.autocast)
            pieces = torch.split(values_N.double().cpu(), [len(r.completion_ids) for r in batch])
            found.update(zip(picked, (piece.numpy() for piece in pieces), strict=True))
        return [found[i] for i in range(len(rows))]

    def learn(
        self, rows: Sequence[Row], returns: Sequence[np.ndarray], shuffle: Sequence[int]
    ) -> tuple[float, float]:
        """All steps over rows with their returns [T]; means of loss and gradient norm."""
        seen = [
            self._step([rows[i] for i in picked], [returns[i] for i in picked])
            for picked in deal(len(rows), self.epochs, self.minibatches, shuffle)
        ]
        losses, norms = zip(*seen, strict=True)
        return float(np.mean(losses)), float(np.mean(norms))

    def _step(self, rows: Sequence[Row], returns: Sequence[np.ndarray]) -> tuple[float, float]:
        self.optimizer.zero_grad(set_to_none=True)
        tokens, total = sum(map(len, returns)), 0.0
        for picked in microbatches(self.model, rows, self.budget_tokens):
            values_N = self.model.values([rows[i] for i in picked], self.pad_id, self.autocast)
            target_N = torch.from_numpy(np.concatenate([returns[i] for i in picked])).to(values_N)
            loss = ((values_N - target_N) ** 2).sum() / tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        norm = take_step(self.model, self.optimizer, total, self.grad_clip, "critic")
        return total, norm


def _explained(values_N: np.ndarray, returns_N: np.ndarray) -> dict[str, float]:
    """Share of the returns' variance that the values knew of; nothing where there is none."""
    variance = float(returns_N.var())
    if not variance:
        return {}
    return {"explained_variance": 1 - float((returns_N - values_N).var()) / variance}
