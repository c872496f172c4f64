"""verl's estimators, losses and aggregations beside ours (see `parity`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import verl
from torch import Tensor
from verl.trainer.config.algorithm import AlgoConfig
from verl.trainer.ppo import core_algos as theirs
from verl.workers.config.actor import ActorConfig

from botgrpo.benchmarks.parity import Case, Comparison, gap
from botgrpo.trainer import losses
from botgrpo.trainer.advantages import ADVANTAGES

PEER = f"verl {verl.__version__}"
MODES = {
    "seq-mean-token-mean": "sequence_mean",
    "token-mean": "token_mean",
    "seq-mean-token-sum-norm": "constant",
}


def comparisons(case: Case) -> list[Comparison]:
    """Every comparison on one batch."""
    return [*_advantages(case), *_dense(case), *_losses(case)]


def _theirs(name: str, case: Case, rewards_R_T: Tensor, mask_R_T: Tensor, **options: Any) -> Tensor:
    function = theirs.get_adv_estimator_fn(name)
    found: Tensor = function(
        token_level_rewards=rewards_R_T.clone(),
        response_mask=mask_R_T.to(rewards_R_T.dtype),
        index=case.groups_R.numpy().astype(str).astype(object),
        config=AlgoConfig(),
        **options,
    )[0]
    return found


def _ours(name: str, case: Case, rewards_R_T: Tensor, mask_R_T: Tensor, **options: Any) -> Tensor:
    found: Tensor = ADVANTAGES[name](rewards_R_T, mask_R_T, groups_K=case.groups_R, **options)
    return found


def _advantages(case: Case) -> list[Comparison]:
    mask = case.mask_R_T
    spread, last = case.spread(case.outcome_R), case.last(case.outcome_R)

    def both(name: str, ours: str, rewards_R_T: Tensor, **options: Any) -> float:
        mine = _ours(ours, case, rewards_R_T, mask, **options)
        return gap(mine, _theirs(name, case, last, mask))

    centred = theirs.compute_grpo_outcome_advantage(
        last.clone(), mask, case.groups_R.numpy(), norm_adv_by_std_in_grpo=False
    )[0]
    holes = mask & (torch.arange(mask.shape[1]) % 5 != 2)
    on_last = case.reward_R_T * holes
    return [
        Comparison(PEER, "grpo", "grpo(ddof=1)", both("grpo", "grpo", spread, ddof=1), ""),
        Comparison(
            PEER,
            "grpo",
            "grpo, default",
            _population(case, spread, last),
            "sample deviation there, population here: sqrt(K/(K-1))",
        ),
        Comparison(
            PEER,
            "grpo, constant reward",
            "bot_grpo(ddof=1)",
            both("grpo", "bot_grpo", spread, ddof=1),
        ),
        Comparison(
            PEER, "grpo without std", "dr_grpo", gap(_ours("dr_grpo", case, spread, mask), centred)
        ),
        Comparison(PEER, "rloo", "rloo", both("rloo", "rloo", spread)),
        Comparison(
            PEER,
            "reinforce_plus_plus",
            "reinforce_pp",
            both("reinforce_plus_plus", "reinforce_pp", last),
        ),
        Comparison(
            PEER,
            "reinforce_plus_plus, masked spans inside",
            "reinforce_pp",
            gap(
                _ours("reinforce_pp", case, on_last, holes),
                _theirs("reinforce_plus_plus", case, on_last, holes),
            ),
        ),
        Comparison(
            PEER,
            "reinforce_plus_plus_baseline",
            "reinforce_pp_baseline",
            both("reinforce_plus_plus_baseline", "reinforce_pp_baseline", spread),
        ),
    ]


def _population(case: Case, spread: Tensor, last: Tensor) -> float:
    """Their advantage, predicted from ours at its default by undoing both divisions."""
    mine = _ours("grpo", case, spread, case.mask_R_T)
    grouped = case.outcome_R.view(-1, case.size)
    scale_P = (grouped.std(1, correction=0) + 1e-6) / (grouped.std(1) + 1e-6)
    predicted = mine * scale_P.repeat_interleave(case.size)[:, None]
    return gap(predicted, _theirs("grpo", case, last, case.mask_R_T))


def _dense(case: Case) -> list[Comparison]:
    """What their estimators make of token rewards, and of a rollout without peers."""
    mask = case.mask_R_T
    sums = case.spread(case.reward_R_T.sum(1))
    alone = case.last(case.outcome_R)[:1]
    raw = theirs.compute_grpo_outcome_advantage(alone.clone(), mask[:1], np.zeros(1))[0]
    here = ADVANTAGES["grpo"](case.spread(case.outcome_R)[:1], mask[:1])
    return [
        Comparison(
            PEER,
            "grpo on token rewards",
            "grpo(ddof=1) on their sum",
            gap(
                _ours("grpo", case, sums, mask, ddof=1),
                _theirs("grpo", case, case.reward_R_T, mask),
            ),
            "adds a rollout's token rewards up; here never: the mean, or BoT-GRPO's tokens",
        ),
        Comparison(
            PEER,
            "grpo, one rollout in a group",
            "grpo: 0",
            gap(here, 0.0) + gap(raw, case.spread(case.outcome_R)[:1] / (1 + 1e-6)),
            "the raw reward there, 0 here",
        ),
    ]


def _actor(**settings: Any) -> ActorConfig:
    return ActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=1, use_torch_compile=False,
        **settings,
    )  # fmt: skip


def _losses(case: Case) -> list[Comparison]:
    advantages_R_T = case.reward_R_T - case.reward_R_T.sum() / case.mask_R_T.sum()
    found = [
        _loss(case, advantages_R_T, "vanilla", "dual_clipped", mode, 0.2, 0.28) for mode in MODES
    ]
    found.append(
        _loss(case, advantages_R_T, "gspo", "gspo_token", "seq-mean-token-mean", 3e-4, 4e-4)
    )
    found.append(_unclipped(case, advantages_R_T))
    reference = theirs.kl_penalty(case.logp_R_T, case.logp_old_R_T, "low_var_kl")
    found.append(
        Comparison(PEER, "k3", "k3", gap(losses.k3(case.logp_R_T, case.logp_old_R_T), reference))
    )
    far = torch.tensor([-8.0], dtype=torch.float64)
    clamped = theirs.kl_penalty(far, torch.zeros(1, dtype=torch.float64), "low_var_kl")
    found.append(
        Comparison(
            PEER,
            "k3 at a difference of 8 nats",
            "min(k3, 10)",
            gap(losses.k3(far, torch.zeros(1)).clamp(max=10), clamped),
            "clamped at 10 there",
        )
    )
    return found


def _loss(
    case: Case, advantages_R_T: Tensor, name: str, ours: str, mode: str, low: float, high: float
) -> Comparison:
    """Value and gradient of one loss under one aggregation."""
    logp = case.logp_R_T.clone().requires_grad_()
    value, _ = theirs.get_policy_loss_fn(name)(
        case.logp_old_R_T,
        logp,
        advantages_R_T,
        case.mask_R_T.double(),
        loss_agg_mode=mode,
        config=_actor(clip_ratio_low=low, clip_ratio_high=high),
    )
    value.backward()
    again = case.logp_R_T.clone().requires_grad_()
    mine = _our_loss(case, again, advantages_R_T, ours, MODES[mode], low, high)
    mine.backward()  # type: ignore[no-untyped-call]
    error = max(gap(mine.detach(), value.detach()), gap(again.grad, logp.grad))
    return Comparison(PEER, f"{name}, {mode}", f"{ours}, {MODES[mode]}", error)


def _our_loss(
    case: Case, logp: Tensor, advantages: Tensor, name: str, mode: str, low: float, high: float
) -> Tensor:
    n_rows, width = case.mask_R_T.shape
    tokens = losses.LOSSES[name](
        case.flat(logp),
        case.flat(case.logp_old_R_T),
        case.flat(advantages),
        case.row_N,
        clip_low=low,
        clip_high=high,
    )
    weights = losses.AGGREGATIONS[mode](case.row_N, n_rows, width)
    return (tokens * weights.double()).sum()


def _unclipped(case: Case, advantages_R_T: Tensor) -> Comparison:
    """Where a negative advantage meets a large ratio they cut the loss, and `clipped` does not."""
    logp = case.logp_old_R_T + 2.0
    value, _ = theirs.get_policy_loss_fn("vanilla")(
        case.logp_old_R_T,
        logp,
        advantages_R_T,
        case.mask_R_T.double(),
        loss_agg_mode="token-mean",
        config=_actor(),
    )
    mine = _our_loss(case, logp, advantages_R_T, "clipped", "token_mean", 0.2, 0.2)
    negative = case.flat(advantages_R_T).clamp(max=0)
    ratio = torch.exp(torch.tensor(2.0, dtype=torch.float64))
    excess = (-negative * (ratio - 3.0)).mean()
    return Comparison(
        PEER,
        "vanilla at a ratio of e^2",
        "clipped, less (e^2 - 3) times what A has below 0",
        gap(mine - excess, value),
        "dual clip at 3 there; here it is a loss of its own, dual_clipped",
    )
