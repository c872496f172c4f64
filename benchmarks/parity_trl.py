"""TRL's GRPO and RLOO trainers beside ours (see `parity`).

Real trainers on a tiny model run their own code; only what they would sample, score and forward is
replaced by the batch.
"""

from __future__ import annotations

import dataclasses
import tempfile
from typing import Any

import torch
import trl
from datasets import Dataset
from torch import Tensor

from botgrpo.benchmarks.parity import Case, Comparison, gap
from botgrpo.trainer import losses
from botgrpo.trainer.advantages import ADVANTAGES
from botgrpo.trainer.micro import build_model, build_tokenizer

PEER = f"TRL {trl.__version__}"
TRL_EPS = 1e-4


def comparisons(case: Case) -> list[Comparison]:
    """Every comparison on one batch."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_advantages(case, folder), *_losses(case, folder)]


def _trainer(kind: str, case: Case, folder: str, **settings: Any) -> Any:
    """A `GRPOTrainer` or `RLOOTrainer` whose one batch is the case."""
    tokenizer = build_tokenizer(["a b c"], vocab_size=300)
    rows = len(case.outcome_R)
    args = getattr(trl, f"{kind}Config")(
        folder,
        per_device_train_batch_size=rows,
        num_generations=case.size,
        max_completion_length=case.mask_R_T.shape[1],
        use_cpu=True,
        bf16=False,
        report_to="none",
        beta=0.0,
        **settings,
    )
    return getattr(trl, f"{kind}Trainer")(
        build_model(tokenizer, seed=0, layers=1, width=16),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "a"}]),
        processing_class=tokenizer,
    )


def _their_advantages(
    kind: str, case: Case, folder: str, rewards_R: Tensor, **settings: Any
) -> Any:
    """What the trainer makes of these rewards, [R] float64."""
    trainer = _trainer(kind, case, folder, **settings)
    prompts = [[5]] * len(rewards_R)
    completions = [[6] * int(length) for length in case.mask_R_T.sum(1)]
    texts = [""] * len(rewards_R)
    sampled: tuple[Any, ...] = (prompts, completions, None, texts, None, {}, None, [])
    if kind == "RLOO":
        sampled = (prompts, completions, texts)
    trainer._generate = lambda _: sampled
    trainer._calculate_rewards = lambda *_: rewards_R[:, None]
    trainer.model.train()
    inputs = [{"prompt": "a"} for _ in texts]
    return trainer._generate_and_score_completions(inputs)["advantages"]


def _advantages(case: Case, folder: str) -> list[Comparison]:
    spread, mask = case.spread(case.outcome_R), case.mask_R_T

    def ours(
        name: str, rewards_R_T: Tensor = spread, mask_R_T: Tensor = mask, **options: Any
    ) -> Any:
        return ADVANTAGES[name](rewards_R_T, mask_R_T, groups_K=case.groups_R, **options)[:, 0]

    grpo = _their_advantages("GRPO", case, folder, case.outcome_R)
    plain = _their_advantages("GRPO", case, folder, case.outcome_R, scale_rewards="none")
    rloo = _their_advantages("RLOO", case, folder, case.outcome_R)
    lost = torch.arange(len(case.outcome_R)) % 7 == 3
    unscored_R = torch.where(lost, torch.nan, case.outcome_R)
    with_lost = _their_advantages("GRPO", case, folder, unscored_R)
    kept = mask & ~lost[:, None]
    grouped = case.outcome_R.view(-1, case.size)
    scale_P = (grouped.std(1, correction=0) + 1e-6) / (grouped.std(1) + TRL_EPS)
    matched: dict[str, Any] = {"ddof": 1, "eps": TRL_EPS}
    return [
        Comparison(PEER, "grpo", "grpo(ddof=1, eps=1e-4)", gap(ours("grpo", **matched), grpo)),
        Comparison(
            PEER,
            "grpo",
            "grpo, default",
            gap(ours("grpo") * scale_P.repeat_interleave(case.size), grpo),
            "sample deviation and eps 1e-4 there, population and 1e-6 here",
        ),
        Comparison(
            PEER,
            "grpo, constant reward",
            "bot_grpo(ddof=1, eps=1e-4)",
            gap(ours("bot_grpo", **matched), grpo),
        ),
        Comparison(
            PEER,
            "grpo, some rollouts None",
            "grpo(ddof=1, eps=1e-4), those masked",
            gap(ours("grpo", torch.where(kept, spread, 0.0), kept, **matched), with_lost),
        ),
        Comparison(PEER, 'scale_rewards="none"', "dr_grpo", gap(ours("dr_grpo"), plain)),
        Comparison(PEER, "RLOOTrainer", "rloo", gap(ours("rloo"), rloo)),
    ]


def _losses(case: Case, folder: str) -> list[Comparison]:
    token_R_T = case.reward_R_T - case.reward_R_T.sum() / case.mask_R_T.sum()
    row_R_T = case.spread(case.outcome_R - case.outcome_R.mean())

    def both(
        ours: str, mode: str, advantages_R_T: Tensor, high: float = 0.28, **settings: Any
    ) -> Comparison:
        low = settings.setdefault("epsilon", 0.2)
        trainer = _trainer("GRPO", case, folder, epsilon_high=high, **settings)
        theirs, gradient = _their_loss(trainer, case, advantages_R_T)
        mine, again = _our_loss(case, advantages_R_T, ours, mode, low, high)
        what = ", ".join(f"{k}={v}" for k, v in settings.items() if k != "epsilon")
        error = max(gap(mine, theirs), gap(again, gradient))
        return Comparison(PEER, what, f"{ours}, {mode}", error)

    return [
        both("clipped", "sequence_mean", token_R_T, loss_type="grpo"),
        both("clipped", "token_mean", token_R_T, loss_type="dapo"),
        both("clipped", "constant", token_R_T, loss_type="dr_grpo"),
        both(
            "gspo", "sequence_mean", row_R_T, 4e-4, epsilon=3e-4,
            loss_type="grpo", importance_sampling_level="sequence",
        ),
        _empty_row(case, folder, token_R_T),
        _flattened(case, folder, token_R_T),
    ]  # fmt: skip


def _their_loss(trainer: Any, case: Case, advantages_R_T: Tensor) -> tuple[Tensor, Tensor]:
    """`_compute_loss` in evaluation mode, in which nothing is accumulated; value and gradient."""
    logp = case.logp_R_T.clone().requires_grad_()
    mask = case.mask_R_T.long()
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (logp, logp.detach() * 0, None)
    trainer.model.eval()
    loss = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": torch.ones(len(mask), 1, dtype=torch.long),
            "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
            "completion_ids": mask,
            "completion_mask": mask,
            "advantages": advantages_R_T,
            "old_per_token_logps": case.logp_old_R_T,
            "num_items_in_batch": mask.sum(),
        },
    )
    loss.backward()
    assert logp.grad is not None
    return loss.detach(), logp.grad


def _our_loss(
    case: Case, advantages_R_T: Tensor, name: str, mode: str, low: float, high: float
) -> tuple[Tensor, Tensor]:
    logp = case.logp_R_T.clone().requires_grad_()
    tokens = losses.LOSSES[name](
        case.flat(logp),
        case.flat(case.logp_old_R_T),
        case.flat(advantages_R_T),
        case.row_N,
        clip_low=low,
        clip_high=high,
    )
    weights = losses.AGGREGATIONS[mode](case.row_N, *case.mask_R_T.shape)
    loss = (tokens * weights.double()).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert logp.grad is not None
    return loss.detach(), logp.grad


def _empty_row(case: Case, folder: str, advantages_R_T: Tensor) -> Comparison:
    """Rows without a token, as `mask_truncated_completions` makes them."""
    mask = case.mask_R_T.clone()
    mask[::3] = False
    part = dataclasses.replace(case, mask_R_T=mask)
    trainer = _trainer("GRPO", case, folder, loss_type="grpo", epsilon=0.2)
    theirs, _ = _their_loss(trainer, part, advantages_R_T)
    mine, _ = _our_loss(part, advantages_R_T, "clipped", "sequence_mean", 0.2, 0.2)
    share = mask.any(1).double().mean()
    return Comparison(
        PEER,
        "loss_type=grpo, empty rows",
        "clipped, sequence_mean, times the share that is not empty",
        gap(mine * share, theirs),
        "divides by all rows there, by rows with a token here",
    )


def _flattened(case: Case, folder: str, advantages_R_T: Tensor) -> Comparison:
    """Token advantages under one ratio a rollout, without clipping: each token gets the mean."""
    settings = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 1e9}
    trainer = _trainer("GRPO", case, folder, epsilon_high=1e9, **settings)
    _, theirs = _their_loss(trainer, case, advantages_R_T)
    mean_R = (advantages_R_T * case.mask_R_T).sum(1) / case.mask_R_T.sum(1)
    _, mine = _our_loss(case, case.spread(mean_R), "gspo_token", "sequence_mean", 1e9, 1e9)
    return Comparison(
        PEER,
        "importance_sampling_level=sequence, token advantages",
        "gspo_token on each rollout's mean advantage: the gradient",
        gap(mine, theirs),
        "its gradient gives every token its rollout's mean; gspo_token keeps each token's own",
    )
