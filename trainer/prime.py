"""PRIME's implicit reward model, which learns beside the policy from outcomes alone.

phi is a language model. With q_t = log p_phi(y_t) - log p_ref(y_t), a token's reward is
r_t = beta q_t, and sigmoid(beta sum_t q_t) is the probability that the rollout is right. On each
batch phi takes one step of binary cross-entropy of that probability against the outcomes; then,
from phi as it is after that step, come the token rewards that the advantages see (the source's
`update=before`). Rollouts that nobody could score teach it nothing.

Source: arXiv 2502.01456 as implemented in verl-recipe/prime: beta 0.05, twice the policy's learning
rate, a gradient of norm 10 at most. There the last token's r is left 0; here, as in the paper's
equation and in `implicit.prime`, every token has its r.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from botgrpo.rewards.base import Range, Score
from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer.algorithms import entry
from botgrpo.trainer.config import Config
from botgrpo.trainer.logps import Row, frozen_logps, microbatches, token_logps
from botgrpo.trainer.policy import DTYPES, Policy, load_policy
from botgrpo.trainer.reference import Reference
from botgrpo.trainer.rollouts import Drawn, rows_of, with_tokens
from botgrpo.trainer.update import take_step

RATE = 2.0  # phi's learning rate over the policy's
LARGEST_NORM = 10.0
LOCAL_RANGE = (-1.0, 1.0)  # of r_t, as in `implicit.prime`: e^20 in odds at PRIME's beta


def require(config: Config, outcome_range: Range) -> None:
    """Raise ConfigError where `[prime]` does not go with the rest of a configuration."""
    if config.prime is None:
        return
    if config.reward.locals:
        raise ConfigError(
            f"[prime] gives the local rewards, and reward.locals is {config.reward.locals}; set "
            "reward.locals={} or leave [prime] out"
        )
    port = entry(config.algorithm).port
    if port in ("outcome", "outcome_last"):
        raise ConfigError(
            f"[prime] gives local rewards, and algorithm {config.algorithm!r} reads the outcome "
            "alone; set algorithm=prime, or bot_grpo"
        )
    if not (outcome_range[0] >= 0 and outcome_range[1] <= 1):
        raise ConfigError(
            f"[prime] learns the probability of success, and this design's outcome lies in "
            f"{outcome_range}; allowed are outcomes within 0 and 1: change reward.outcomes"
        )


def prime_of(config: Config, policy: Policy) -> Prime | None:
    """The reward model of a configuration that has `[prime]`, else None.

    Make it before a checkpoint is restored: phi begins as the policy does, unless told otherwise.
    Raises ConfigError for a model that is not there or has another tokenizer than the policy.
    """
    table = config.prime
    if table is None:
        return None
    model = _load(table.model, config, policy) if table.model else copy.deepcopy(policy.model)
    fixed = None
    if table.reference:
        fixed = _load(table.reference, config, policy).requires_grad_(False)
    rate = table.learning_rate or RATE * config.optim.learning_rate
    dtype = config.policy.update_dtype
    return Prime(
        model=model,
        reference=Reference(model) if fixed is None else _Fixed(fixed),
        optimizer=torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad],
            lr=rate,
            betas=(config.optim.beta1, config.optim.beta2),
            weight_decay=0.0,
        ),
        beta=table.beta,
        bounds=config.reward.clip_local or LOCAL_RANGE,
        pad_id=policy.pad_id,
        budget_tokens=config.optim.microbatch_tokens,
        autocast=None if dtype == "float32" else DTYPES[dtype],
    )


@dataclass(slots=True)
class Prime:
    """phi, what it is compared with, and its optimiser.

    Attributes:
        model: phi.
        reference: what phi began as, or another fixed model.
        optimizer: phi's.
        beta: a token's reward for one nat of log-ratio.
        bounds: within which each token's reward is held.
        pad_id, budget_tokens, autocast: as in `update.Settings`.
    """

    model: Any
    reference: Reference | _Fixed
    optimizer: torch.optim.Optimizer
    beta: float
    bounds: Range
    pad_id: int
    budget_tokens: int
    autocast: torch.dtype | None

    def step(self, drawn: Drawn, scores: Sequence[Score]) -> tuple[list[Score], dict[str, float]]:
        """Learn from the scored rollouts; their scores with phi's token rewards as S, and numbers.

        Raises RunFailed where a loss, a gradient or a log-ratio is not finite.
        """
        began = time.perf_counter()
        k = len(drawn.samples) // len(drawn.prompt_ids)
        taught = with_tokens(drawn, [score.outcome is not None for score in scores])
        rows = rows_of(drawn, taught)
        outcome_R = np.array([scores[i].outcome for i in taught], dtype=float)
        with self.reference.model() as fixed:
            fixed_R = self._logps(fixed, rows)
        sum_R, numbers = self.learn(rows, outcome_R, fixed_R)
        numbers |= _judged(sum_R, outcome_R, np.array([i // k for i in taught]))
        local_R, held = self._rewards(rows, fixed_R)
        told = list(scores)
        for i, local in zip(taught, local_R, strict=True):
            told[i] = replace(scores[i], local=tuple(local.tolist()), local_scored=True)
        numbers["held"] = float(held)
        seconds = time.perf_counter() - began
        return told, {f"bot/prime/{n}": x for n, x in numbers.items()} | {"time/prime_s": seconds}

    def learn(
        self, rows: Sequence[Row], outcome_R: np.ndarray, fixed_R: Sequence[Tensor]
    ) -> tuple[np.ndarray, dict[str, float]]:
        """One step on the mean cross-entropy of R rollouts; without one, nothing.

        Args:
            outcome_R: labels in 0..1.
            fixed_R: log-probabilities [T] of each row under the reference.

        Returns:
            sum_t q_t of each row before the step, in nats, and loss and grad_norm.
        """
        sum_R, total = np.zeros(len(rows)), 0.0
        if not rows:
            return sum_R, {}
        self.optimizer.zero_grad(set_to_none=True)
        for picked in microbatches(self.model, rows, self.budget_tokens):
            batch = [rows[i] for i in picked]
            logps_N, _ = token_logps(
                self.model, batch, pad_id=self.pad_id, temperature=1.0, autocast=self.autocast
            )
            q_N = logps_N - torch.cat([fixed_R[i] for i in picked])
            pieces = torch.split(q_N, [len(r.completion_ids) for r in batch])
            sum_M = torch.stack([piece.sum() for piece in pieces])
            target_M = torch.as_tensor(outcome_R[picked]).to(sum_M)
            loss = F.binary_cross_entropy_with_logits(
                self.beta * sum_M, target_M, reduction="sum"
            ) / len(rows)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            sum_R[picked] = sum_M.detach().cpu().numpy()
        norm = take_step(self.model, self.optimizer, total, LARGEST_NORM, "prime")
        return sum_R, {"loss": total, "grad_norm": norm}

    def _rewards(
        self, rows: Sequence[Row], fixed_R: Sequence[Tensor]
    ) -> tuple[list[np.ndarray], int]:
        """r_t [T] of each row under phi as it is now, and how many were held at a bound."""
        ours_R = self._logps(self.model, rows)
        local_R, held = [], 0
        for ours, fixed in zip(ours_R, fixed_R, strict=True):
            r_T = (self.beta * (ours - fixed)).double().cpu().numpy()
            if not np.isfinite(r_T).all():
                raise RunFailed(
                    "a log-ratio of the implicit reward model is not finite. The last checkpoint "
                    "is intact: lower prime.learning_rate and go on with --resume"
                )
            local_R.append(np.clip(r_T, *self.bounds))
            held += int(np.sum(local_R[-1] != r_T))
        return local_R, held

    def _logps(self, model: Any, rows: Sequence[Row]) -> list[Tensor]:
        return frozen_logps(
            model,
            rows,
            pad_id=self.pad_id,
            temperature=1.0,
            autocast=self.autocast,
            budget_tokens=self.budget_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A reference that is another model than the one that learns began as."""

    loaded: Any

    @contextmanager
    def model(self) -> Iterator[Any]:
        yield self.loaded


def _judged(sum_R: np.ndarray, outcome_R: np.ndarray, group_R: np.ndarray) -> dict[str, float]:
    """How phi judged rollouts that it had not learned from yet.

    accuracy: share on the outcome's side of a half. pair_accuracy: of pairs in one group with
    different outcomes, the share that phi orders as the outcomes do, a tie for half; it knows
    nothing of how many are right in all.
    """
    if not len(sum_R):
        return {}
    numbers = {"accuracy": float(np.mean((sum_R >= 0) == (outcome_R >= 0.5)))}
    better = outcome_R[:, None] > outcome_R[None]
    better &= group_R[:, None] == group_R[None]
    if better.any():
        gap = (sum_R[:, None] - sum_R[None])[better]
        numbers["pair_accuracy"] = float(np.mean((np.sign(gap) + 1) / 2))
    return numbers


def _load(name: str, config: Config, policy: Policy) -> Any:
    from botgrpo.trainer.models import locate

    found = load_policy(locate(name), config.policy, seed=config.run.seed)
    if found.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        raise ConfigError(
            f"[prime] {name} has another tokenizer than the policy {config.policy.model}; choose a "
            "model of the policy's family, or leave it out for the policy's own start"
        )
    return found.model
