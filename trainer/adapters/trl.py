"""BoT-GRPO in TRL: a `GRPOTrainer` whose advantages differ by token.

    trainer = BoTGRPOTrainer(
        "Qwen/Qwen2.5-0.5B-Instruct",
        "react.compile",
        BoTGRPOConfig("out", num_generations=8),
        train_dataset=dataset,
    )
    trainer.train()

Everything but the advantages is TRL's: sampling, vLLM, PEFT, tools, splitting, distribution. What
differs from our own loop: TRL's loss divides by all rollouts of the batch, unscored and empty ones
included (their share of it is 0), where ours divides by those that were scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from botgrpo.rewards.base import Prompt, Reward, RewardError, Rollout, Score
from botgrpo.rewards.mix import Composite, Design
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.rewards.training_step import at_step
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.adapters.gathered import Scored, token_advantages
from botgrpo.trainer.adapters.scoring import BackgroundLoop, composite, reference_of, rows_of
from botgrpo.trainer.algorithms import algorithm

try:
    from trl import GRPOConfig, GRPOTrainer
except ImportError as error:
    raise ConfigError(
        f"TRL cannot be imported ({error}): pip install 'botgrpo[trl]', or in a checkout: "
        "make env-trl"
    ) from error


@dataclass
class BoTGRPOConfig(GRPOConfig):
    """`GRPOConfig` with the loss in whose measure BoT-GRPO's advantages sum to zero."""

    loss_type: str = field(
        default="grpo", metadata={"help": "must be 'grpo': the mean over rollouts of token means"}
    )


class BoTGRPOTrainer(GRPOTrainer):
    """GRPO with BoT-GRPO's advantages (arXiv 2610.09804) from any of our rewards.

    A group may straddle processes: per rollout six numbers are gathered, and no tokens. Every
    column of the data but `prompt` is the rollout's reference; a column `reference` (a mapping or
    JSON) is the whole of it.

    Args:
        model: as in `GRPOTrainer`.
        reward: reference such as "react.compile", a reward, or a design.
        args: a `BoTGRPOConfig`, or a `GRPOConfig` with loss_type="grpo".
        algorithm_options: keywords of `bot_grpo`, for example {"uniform_group": "damp"}.
        others: as in `GRPOTrainer`.

    Raises:
        ConfigError: a reward or option that does not exist, or arguments under which TRL would
            not train on these advantages.
    """

    def __init__(
        self,
        model: Any,
        reward: str | Reward | Design,
        args: Any,
        *,
        algorithm_options: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        check_arguments(args)
        if "reward_funcs" in others:
            raise ConfigError(
                "got reward_funcs; pass one `reward`: a Design mixes several outcomes and locals"
            )
        self._options = dict(algorithm_options or {})
        algorithm("bot_grpo", self._options)
        self._outcomes = _Outcomes(composite(reward))
        super().__init__(model=model, reward_funcs=self._outcomes, args=args, **others)
        self._token_bytes = TokenBytes.from_tokenizer(self._tokenizer)
        self._outcomes.trainer = self

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mask_B_T = output["completion_mask"].bool()
        if "tool_mask" in output:
            mask_B_T = mask_B_T & output["tool_mask"].bool()
        mode = "train" if self.model.training else "eval"
        scores = self._outcomes.take(len(mask_B_T))
        design = self._outcomes.composite.design
        output["advantages"], metrics = token_advantages(
            Scored(
                local_tensor(scores, mask_B_T),
                outcome_tensor(scores, mask_B_T),
                mask_B_T,
                self.num_generations if mode == "train" else self.num_generations_eval,
                first=self.accelerator.process_index * len(mask_B_T),
            ),
            self.accelerator.gather,
            w_g=design.w_g,
            w_s=design.w_s,
            **self._options,
        )
        for name, value in {**metrics, **shares(scores)}.items():
            self._metrics[mode][name].append(value)
        return output

    def rollouts(
        self, prompts: Sequence[Prompt], ids: Sequence[Sequence[int]], rows: Sequence[Any]
    ) -> list[Rollout]:
        """This process's completions as our rewards see them, decoded from the sampled ids."""
        training = self.model.training
        size = self.num_generations if training else self.num_generations_eval
        first = self.accelerator.process_index * len(ids)
        batch = f"{'train' if training else 'eval'}/{self._step}"
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        made = []
        for i, (prompt, tokens, row) in enumerate(zip(prompts, ids, rows, strict=True)):
            text, spans = self._token_bytes.decode(tokens)
            made.append(
                Rollout(
                    f"{batch}/{first + i}",
                    f"{batch}/{(first + i) // size}",
                    prompt,
                    text,
                    reference_of(row),
                    tuple(tokens),
                    spans,
                    "stop" if tokens and tokens[-1] in ends else "length",
                )
            )
        return made


class _Outcomes:
    """The trainer's one reward function: returns outcomes, keeps the scores until they are taken.

    TRL scores before it shuffles and splits, so the scores lie in the order of its rows.
    """

    def __init__(self, composite: Composite) -> None:
        self.composite = composite
        self.trainer: BoTGRPOTrainer | None = None
        self.__name__ = "_".join(composite.design.outcomes)
        self._loop = BackgroundLoop()
        self._scores: list[Score] | None = None

    def __call__(
        self,
        prompts: Sequence[Prompt],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        **columns: Any,
    ) -> list[float | None]:
        assert self.trainer is not None
        rows = rows_of(columns, len(prompts))
        rollouts = self.trainer.rollouts(prompts, completion_ids, rows)
        with at_step(self.trainer.state.global_step):
            self._scores = self._loop.run(self.composite.score(rollouts))
        return [score.outcome for score in self._scores]

    def take(self, n_rows: int) -> list[Score]:
        scores, self._scores = self._scores, None
        if scores is None or len(scores) != n_rows:
            got = "no scores" if scores is None else f"{len(scores)} scores"
            raise RewardError(f"{self.__name__}: {got} for the {n_rows} rollouts of TRL's batch")
        return scores


def check_arguments(args: Any) -> None:
    """Refuse what would not train on (B, T) advantages; the ConfigError says what to set."""
    if args.loss_type != "grpo":
        raise ConfigError(
            f"got loss_type={args.loss_type!r}: BoT-GRPO's advantages sum to zero under the mean "
            "over rollouts of token means, and under no other. Use BoTGRPOConfig, or set "
            "loss_type='grpo' (TRL's own default is 'dapo')"
        )
    if args.importance_sampling_level != "token":
        raise ConfigError(
            f"got importance_sampling_level={args.importance_sampling_level!r}: with one ratio a "
            "rollout each token is trained on its rollout's mean advantage. Set 'token'"
        )
    if args.use_liger_kernel:
        raise ConfigError(
            "got use_liger_kernel=True: deprecated in TRL, and its fused losses take one advantage "
            "a rollout. Set False"
        )
    if args.off_policy_mask_threshold is not None:
        raise ConfigError(
            f"got off_policy_mask_threshold={args.off_policy_mask_threshold}: that mask is made "
            "for one advantage a rollout. Set None"
        )


def local_tensor(scores: Sequence[Score], mask_B_T: Tensor) -> Tensor:
    """S [B, T] float64: NaN where unknown, 0 for a design without local signal.

    Raises RewardError where a score has more tokens than its row.
    """
    values = torch.zeros(mask_B_T.shape, dtype=torch.float64)
    for i, score in enumerate(scores):
        if not score.local_scored:
            values[i] = math.nan
        elif score.local is not None:
            if len(score.local) > values.shape[1]:
                raise RewardError(
                    f"rollout {score.id!r}: {len(score.local)} local values for a row of "
                    f"{values.shape[1]} tokens"
                )
            row = [math.nan if value is None else value for value in score.local]
            values[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
    return values.to(mask_B_T.device)


def outcome_tensor(scores: Sequence[Score], mask_B_T: Tensor) -> Tensor:
    """G [B] float64, NaN where unscored."""
    values = [math.nan if score.outcome is None else score.outcome for score in scores]
    return torch.tensor(values, dtype=torch.float64, device=mask_B_T.device)


def shares(scores: Sequence[Score]) -> dict[str, float]:
    """Verdicts as shares, the rewards' own numbers as means, over all processes' rollouts."""
    words = _everywhere([(s.verdict, {} if s.outcome is None else dict(s.metrics)) for s in scores])
    verdicts = [verdict for verdict, _ in words]
    found = {
        f"sandbox/verdict/{verdict}": verdicts.count(verdict) / len(words)
        for verdict in sorted(set(verdicts))
        if verdict
    }
    for name in sorted({name for _, numbers in words for name in numbers}):
        values = [numbers[name] for _, numbers in words if name in numbers]
        found[f"{name}/mean"] = sum(values) / len(values)
    return found


def _everywhere(items: list[Any]) -> list[Any]:
    if not torch.distributed.is_initialized():
        return items
    gathered: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, items)
    return [item for part in gathered for item in part]
