"""The update: log-probabilities of the sampled tokens, loss, gradient, step.

By default one step over the whole batch, on-policy. With `epochs` and `minibatches` several steps
over parts of it, whose ratios are against the log-probabilities from before the first. Rows whose
every advantage is 0 have no gradient and are not computed (unless a KL term gives them one); they
still count in the loss's denominator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botgrpo.sandbox.errors import RunFailed
from botgrpo.trainer.algorithms import Algorithm
from botgrpo.trainer.logps import Row, frozen_logps, microbatches, token_logps
from botgrpo.trainer.losses import AGGREGATIONS, CORRECTIONS, LOSSES, k3
from botgrpo.trainer.reference import Reference

# below this a sampler's and the trainer's log-probabilities differ by rounding alone, nats
NIL_NATS = 1e-3


@dataclass(frozen=True, slots=True)
class Settings:
    """How one batch becomes steps.

    Attributes:
        pad_id: any valid id; no token sees it.
        temperature: of the sampling, by which the logits are divided here too.
        max_tokens: the generation cap, by which the aggregation "constant" divides.
        budget_tokens: tokens of input in one forward pass: bounds memory, not the result.
        grad_clip: largest norm of a step's gradient.
        autocast: type of the matrix products; None for that of the weights.
        epochs: passes over the batch.
        minibatches: steps in a pass, each over its share of the rollouts, shuffled.
        kl: weight of k3 against the reference in the loss; 0 for no reference.
        correction: key into `CORRECTIONS`, for a sampler that is not quite the trainer; or None.
    """

    pad_id: int
    temperature: float
    max_tokens: int
    budget_tokens: int
    grad_clip: float
    autocast: torch.dtype | None = None
    epochs: int = 1
    minibatches: int = 1
    kl: float = 0.0
    correction: str | None = None


@dataclass(slots=True)
class _Seen:
    """What the steps of an update showed, token by token."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    gaps: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    clipped: list[Tensor] = field(default_factory=list)
    kl: list[Tensor] = field(default_factory=list)

    def numbers(self) -> dict[str, float]:
        """Metrics under TRL's names where it has one; those of a part that is off are absent."""
        gap_N = torch.cat(self.gaps) if self.gaps else torch.zeros(1)
        numbers = {
            "loss": float(np.mean(self.losses)),
            "grad_norm": float(np.mean(self.norms)),
            "sampling/sampling_logp_difference/mean": float(gap_N.abs().mean()),
            "sampling/sampling_logp_difference/max": float(gap_N.abs().max()),
            # of the trainer's policy from the sampler's, on tokens that the sampler drew
            "bot/logprob_mismatch/kl_nats": float(k3(torch.zeros_like(gap_N), gap_N).mean()),
        }
        if self.weights:
            weight_N = torch.cat(self.weights)
            numbers |= {
                "sampling/importance_sampling_ratio/mean": float(weight_N.mean()),
                "sampling/importance_sampling_ratio/min": float(weight_N.min()),
                "sampling/importance_sampling_ratio/max": float(weight_N.max()),
            }
        if self.clipped:
            numbers["clip_ratio/region_mean"] = float(torch.cat(self.clipped).float().mean())
        if self.kl:
            numbers["kl"] = float(torch.cat(self.kl).mean())
        return numbers


def update(
    model: Any,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    algorithm: Algorithm,
    how: Settings,
    *,
    reference: Reference | None = None,
    shuffle: Sequence[int] = (0,),
) -> dict[str, float]:
    """All steps over `rows` (the kept rollouts that have a token).

    Args:
        reference: what `how.kl` holds the policy to; needed where that is not 0.
        shuffle: seeds the dealing of rollouts to minibatches.

    Returns:
        loss and grad_norm (means over the steps), how far the trainer's log-probabilities were
        from the sampler's before the first, and what else was asked for.

    Raises:
        RunFailed: the loss or the gradient is not finite; that step was not taken.
    """
    several = how.epochs * how.minibatches > 1
    job = _Update(model, optimizer, rows, algorithm, how)
    if several:
        job.old = job.frozen(model)
    if reference is not None:
        with reference.model() as start:
            job.fixed = job.frozen(start)
    for picked in deal(len(rows), how.epochs, how.minibatches, shuffle):
        job.step(picked)
    return job.seen.numbers()


def take_step(
    model: Any, optimizer: torch.optim.Optimizer, loss: float, largest_norm: float, table: str
) -> float:
    """Clip the gradient, let the optimiser step; the norm before the clip.

    Raises RunFailed where the loss or the norm is not finite, before the step; `table` is that of
    the configuration which has the learning rate.
    """
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), largest_norm))
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise RunFailed(
            f"loss {loss} and gradient norm {norm}: not finite; that step was not taken. The last "
            f"checkpoint is intact: lower {table}.learning_rate and go on with --resume"
        )
    optimizer.step()
    return norm


def deal(n: int, epochs: int, minibatches: int, seed: Sequence[int]) -> Iterator[list[int]]:
    """Rows of each step: every epoch deals all of them, shuffled, to `minibatches` shares."""
    for epoch in range(epochs):
        order = np.arange(n)
        if minibatches > 1:
            order = np.random.default_rng([*seed, epoch]).permutation(n)
        for share in np.array_split(order, minibatches):
            if len(share) or not n:  # without rows still a step, that does nothing
                yield sorted(share.tolist())


@dataclass(slots=True)
class _Update:
    """A batch on its way into the weights.

    `old` and `fixed` are log-probabilities [T] by row: of the policy before the first step (None
    where that is the only one) and of the reference (None without a KL term).
    """

    model: Any
    optimizer: torch.optim.Optimizer
    rows: Sequence[Row]
    algorithm: Algorithm
    how: Settings
    old: dict[int, Tensor] | None = None
    fixed: dict[int, Tensor] | None = None
    seen: _Seen = field(default_factory=_Seen)

    def step(self, picked: Sequence[int]) -> None:
        """One optimiser step over the picked rows."""
        self.optimizer.zero_grad(set_to_none=True)
        weights = self.weights(picked)
        learns = self.learning(picked)
        total, norm = 0.0, 0.0
        for group in microbatches(
            self.model, [self.rows[i] for i in learns], self.how.budget_tokens
        ):
            indices = [learns[i] for i in group]
            loss_N = self.loss(indices)
            loss = (loss_N * torch.cat([weights[i] for i in indices]).to(loss_N)).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if learns:
            norm = take_step(self.model, self.optimizer, total, self.how.grad_clip, "optim")
        self.seen.losses.append(total)
        self.seen.norms.append(norm)

    def loss(self, indices: Sequence[int]) -> Tensor:
        """Losses [N] of the tokens of these rows, not yet weighed."""
        how, batch = self.how, [self.rows[i] for i in indices]
        logps_N, row_N = token_logps(
            self.model,
            batch,
            pad_id=how.pad_id,
            temperature=how.temperature,
            autocast=how.autocast,
        )
        # in the first step the ratio is 1: the log-probabilities are their own past
        old_N = logps_N.detach() if self.old is None else _joined(self.old, indices)
        sampler_N = _flat([r.sampler_logps_T for r in batch], logps_N)
        advantages_N = _flat([r.advantages_T for r in batch], logps_N)
        surrogate = partial(
            LOSSES[self.algorithm.loss],
            logp_old_N=old_N,
            advantages_N=advantages_N,
            row_N=row_N,
            clip_low=self.algorithm.clip_low,
            clip_high=self.algorithm.clip_high,
        )
        loss_N: Tensor = surrogate(logps_N)
        self.seen.gaps.append(old_N - sampler_N)
        if self.old is not None:
            self.seen.clipped.append(_silent(surrogate, logps_N) & (advantages_N != 0))
        if how.correction:
            weight_N = correction_weights(how.correction, old_N, sampler_N, row_N)
            loss_N = loss_N * weight_N
            self.seen.weights.append(weight_N)
        if self.fixed is not None:
            kl_N = k3(logps_N, _joined(self.fixed, indices))
            loss_N = loss_N + how.kl * kl_N
            self.seen.kl.append(kl_N.detach())
        return loss_N

    def learning(self, picked: Iterable[int]) -> list[int]:
        """Those that have a gradient: without an advantage only the KL term gives one."""
        return [i for i in picked if self.how.kl or np.any(self.rows[i].advantages_T)]

    def weights(self, picked: Sequence[int]) -> dict[int, Tensor]:
        """By row, what its tokens count [T]: all rows do, those without a gradient too."""
        if not picked:
            return {}
        lengths = [len(self.rows[i].completion_ids) for i in picked]
        row_N = torch.repeat_interleave(torch.arange(len(picked)), torch.tensor(lengths))
        aggregate = AGGREGATIONS[self.algorithm.aggregation]
        weights_N = aggregate(row_N, len(picked), self.how.max_tokens)
        return dict(zip(picked, torch.split(weights_N, lengths), strict=True))

    def frozen(self, model: Any) -> dict[int, Tensor]:
        """By row, log-probabilities under `model` as it is now, of the rows that learn."""
        learns = self.learning(range(len(self.rows)))
        logps = frozen_logps(
            model,
            [self.rows[i] for i in learns],
            pad_id=self.how.pad_id,
            temperature=self.how.temperature,
            autocast=self.how.autocast,
            budget_tokens=self.how.budget_tokens,
        )
        return dict(zip(learns, logps, strict=True))


def correction_weights(name: str, old_N: Tensor, sampler_N: Tensor, row_N: Tensor) -> Tensor:
    """Weights [N] of the loss by `CORRECTIONS[name]`: exactly 1 where the two agree to rounding."""
    agree_N = (old_N - sampler_N).abs() < NIL_NATS
    return CORRECTIONS[name](old_N, torch.where(agree_N, old_N, sampler_N), row_N)


def _joined(pieces: dict[int, Tensor], indices: Sequence[int]) -> Tensor:
    return torch.cat([pieces[i] for i in indices])


def _silent(surrogate: Callable[[Tensor], Tensor], logps_N: Tensor) -> Tensor:
    """True for tokens from which the clip has taken the gradient, whatever the loss."""
    leaf_N = logps_N.detach().requires_grad_()
    (gradient_N,) = torch.autograd.grad(surrogate(leaf_N).sum(), leaf_N)
    return gradient_N == 0


def _flat(pieces: Sequence[np.ndarray], like: Tensor) -> Tensor:
    return torch.from_numpy(np.concatenate(pieces)).to(like)
