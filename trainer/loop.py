"""The algorithm, top to bottom: sample, score, advantage, loss, step, evaluate.

For each step: P prompts, K rollouts each; a reward says G for each rollout and S for each token;
r = w_g G + w_s S; the algorithm turns r into advantages; one AdamW step. Everything random is a
function of (seed, step, rollout), so a run that was killed goes on from its last checkpoint to the
same numbers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from botgrpo.rewards.base import Reward, Rollout, Score
from botgrpo.rewards.records import rollout_to_json, score_to_json
from botgrpo.trainer import batch as batches
from botgrpo.trainer import checkpoint
from botgrpo.trainer.algorithms import Algorithm, algorithm
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.base import Engine, Sample, Sampling
from botgrpo.trainer.engines.native import NativeEngine
from botgrpo.trainer.logps import Row
from botgrpo.trainer.policy import DTYPES, Policy
from botgrpo.trainer.reference import Reference
from botgrpo.trainer.task import Item, Task
from botgrpo.trainer.update import Settings, update

EVAL_SEED = 7_919  # one fixed seed: all runs are tested with the same draws on the same prompts
EVAL_KEY = 1 << 40  # keys of test rollouts lie apart from those of training

Progress = Callable[[str, dict[str, float]], None]


@dataclass(slots=True)
class Run:
    """One run of training: what it is made of and the folder that it writes.

    Args:
        config: validated configuration.
        policy: the model that learns.
        task: prompts.
        reward: scores rollouts; its `local` is already projected on the tokens.
        judge: scores held-out rollouts; its metrics are the learning curve. Never noisy.
        out: the run's folder.
        progress: called with ("step" or "eval", numbers) after each.
    """

    config: Config
    policy: Policy
    task: Task
    reward: Reward
    judge: Reward
    out: Path
    progress: Progress = lambda kind, numbers: None
    engine: Engine = field(init=False)
    algorithm: Algorithm = field(init=False)
    optimizer: torch.optim.AdamW = field(init=False)
    reference: Reference | None = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        if config.run.threads:
            torch.set_num_threads(config.run.threads)
        self.algorithm = algorithm(config.algorithm, config.algorithm_options)
        self.engine = NativeEngine(
            self.policy.model,
            end_ids=self.policy.end_ids,
            pad_id=self.policy.pad_id,
            dtype=DTYPES[config.policy.generate_dtype],
        )
        optim = config.optim
        self.optimizer = torch.optim.AdamW(
            [p for p in self.policy.model.parameters() if p.requires_grad],
            lr=optim.learning_rate,
            betas=(optim.beta1, optim.beta2),
            weight_decay=optim.weight_decay,
        )
        self.reference = Reference(self.policy.model) if optim.kl else None

    def train(self, *, resume: bool) -> None:
        """Run all steps, or those that are left."""
        config = self.config
        with asyncio.Runner() as runner:
            try:
                start = self._restore() if resume else 0
                if start == 0:
                    self._evaluate(0, runner)
                items = self.task.train_items(config.run.seed)
                for step in range(start + 1, config.run.steps + 1):
                    self._step(step, items, runner)
                    last = step == config.run.steps
                    if step % config.run.eval_every == 0 or last:
                        self._evaluate(step, runner)
                    if step % config.run.checkpoint_every == 0 or last:
                        self._save(step)
            finally:
                for judge in (self.reward, self.judge):
                    if close := getattr(judge, "aclose", None):
                        runner.run(close())

    def _step(self, step: int, items: Sequence[Item], runner: asyncio.Runner) -> None:
        config, clock = self.config, time.perf_counter
        self._set_learning_rate(step)
        began = clock()
        picked = self._prompts(step, items)
        keys = [step * len(picked) * config.sampling.group_size + i for i in range(self._rows())]
        prompt_ids, samples, rollouts = self._sample(
            picked, config.sampling.group_size, keys, config.run.seed, f"{config.run.seed}/{step}"
        )
        generated = clock()
        scores = runner.run(self._score(self.reward, rollouts))
        w_g, max_tokens = config.reward.w_g, config.sampling.max_new_tokens
        batch = batches.make_batch(rollouts, scores, w_g=w_g, w_s=config.reward.w_s)
        batch = batches.apply_rules(batch, self.algorithm, w_g=w_g, max_tokens=max_tokens)
        scored = clock()
        advantages_N, stats = batches.advantages(
            batch, self.algorithm, config.algorithm_options, w_g=w_g
        )
        pieces = batch.split(advantages_N)
        numbers = update(
            self.policy.model,
            self.optimizer,
            self._update_rows(batch, prompt_ids, samples, pieces),
            self.algorithm,
            self._settings(),
            reference=self.reference,
            shuffle=(config.run.seed, step),
        )
        self.engine.sync()
        updated = clock()
        tokens = int(batch.length_R.sum())
        metrics = {
            **batches.reward_metrics(batch, stats, advantages_N, scores),
            **numbers,
            "completions/clipped_ratio": np.mean([s.finish_reason == "length" for s in samples]),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "num_tokens": float(tokens),
            "time/generate_s": generated - began,
            "time/score_s": scored - generated,
            "time/update_s": updated - scored,
        }
        metrics = {key: float(value) for key, value in metrics.items()}
        checkpoint.append(self.out / "metrics.jsonl", {"step": step, **metrics})
        if step == 1 or step % config.run.eval_every == 0:
            self._log_rollouts(step, rollouts, scores, batch, pieces)
        self.progress("step", {"step": step, **metrics})

    def _settings(self) -> Settings:
        config, optim = self.config, self.config.optim
        dtype = config.policy.update_dtype
        return Settings(
            pad_id=self.policy.pad_id,
            temperature=config.sampling.temperature,
            max_tokens=config.sampling.max_new_tokens,
            budget_tokens=optim.microbatch_tokens,
            grad_clip=optim.grad_clip,
            autocast=None if dtype == "float32" else DTYPES[dtype],
            epochs=optim.epochs,
            minibatches=optim.minibatches,
            kl=optim.kl,
            correction=optim.correction,
        )

    def _update_rows(
        self,
        batch: batches.Batch,
        prompt_ids: Sequence[Sequence[int]],
        samples: Sequence[Sample],
        advantages: Sequence[np.ndarray],
    ) -> list[Row]:
        """Rows of the update: kept rollouts that have a token."""
        k = self.config.sampling.group_size
        return [
            Row(prompt_ids[i // k], sample.token_ids, advantages[i], sample.logps)
            for i, sample in enumerate(samples)
            if batch.kept_R[i] and sample.token_ids
        ]

    def _evaluate(self, step: int, runner: asyncio.Runner) -> None:
        record = self.evaluate(step, runner)
        checkpoint.append(self.out / "eval.jsonl", record)
        self.progress("eval", record)

    def evaluate(self, step: int, runner: asyncio.Runner) -> dict[str, Any]:
        """One sampled completion of each held-out prompt, judged without noise."""
        began = time.perf_counter()
        items = self.task.eval_items(self.config.run.eval_prompts)
        keys = [EVAL_KEY + i for i in range(len(items))]
        size = self._rows()
        samples: list[Sample] = []
        rollouts: list[Rollout] = []
        for i in range(0, len(items), size):
            _, chunk, texts = self._sample(
                items[i : i + size], 1, keys[i : i + size], EVAL_SEED, f"eval/{step}"
            )
            samples += chunk
            rollouts += texts
        scores = runner.run(self._score(self.judge, rollouts))
        rates = evaluation(scores, samples)
        return {"step": step, **rates, "seconds": time.perf_counter() - began}

    def _sample(
        self, items: Sequence[Item], k: int, keys: Sequence[int], seed: int, prefix: str
    ) -> tuple[list[list[int]], list[Sample], list[Rollout]]:
        sampling = self.config.sampling
        prompt_ids = [self.policy.prompt_ids(item.prompt) for item in items]
        samples = self.engine.generate(
            prompt_ids, k, keys, Sampling(sampling.max_new_tokens, sampling.temperature, seed)
        )
        rollouts = []
        for i, sample in enumerate(samples):
            item = items[i // k]
            text, spans = self.policy.token_bytes.decode(sample.token_ids)
            rollouts.append(
                Rollout(
                    id=f"{prefix}/{item.id}/{i % k}",
                    group=f"{prefix}/{i // k}",
                    prompt=item.prompt,
                    completion=text,
                    reference=item.reference,
                    token_ids=sample.token_ids,
                    token_spans=tuple(spans),
                    finish_reason=sample.finish_reason,
                )
            )
        return prompt_ids, samples, rollouts

    async def _score(self, reward: Reward, rollouts: Sequence[Rollout]) -> Sequence[Score]:
        scores = await reward.score(rollouts)
        if [s.id for s in scores] != [r.id for r in rollouts]:
            raise ValueError(f"reward {reward.spec.name} must answer each rollout in its order")
        return scores

    def _prompts(self, step: int, items: Sequence[Item]) -> list[Item]:
        n = self.config.sampling.prompts
        return [items[((step - 1) * n + i) % len(items)] for i in range(n)]

    def _rows(self) -> int:
        return self.config.sampling.prompts * self.config.sampling.group_size

    def _set_learning_rate(self, step: int) -> None:
        optim = self.config.optim
        warm = min(1.0, step / optim.warmup_steps) if optim.warmup_steps else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = optim.learning_rate * warm

    def _log_rollouts(
        self,
        step: int,
        rollouts: Sequence[Rollout],
        scores: Sequence[Score],
        batch: batches.Batch,
        advantages: Sequence[np.ndarray],
    ) -> None:
        count = self.config.run.log_rollouts * self.config.sampling.group_size
        rewards = batch.split(batch.reward_N)
        for i in range(min(count, len(rollouts))):
            scored = bool(batch.scored_R[i])
            record = {
                **rollout_to_json(rollouts[i]),
                **score_to_json(scores[i]),
                "token_rewards": _rounded(rewards[i]) if scored else None,
                "advantages": _rounded(advantages[i]) if scored else None,
            }
            checkpoint.append(self.out / "rollouts.jsonl", {"step": step, **record})

    def _save(self, step: int) -> None:
        checkpoint.save(self.out / "checkpoints", step, self.policy.model, self.optimizer, {})

    def _restore(self) -> int:
        """Step of the newest checkpoint, with weights, optimiser and files set back to it."""
        found = checkpoint.latest(self.out / "checkpoints")
        step = 0
        if found:
            step = int(checkpoint.restore(found, self.policy.model, self.optimizer)["step"])
            self.engine.sync()
        for name in ("metrics.jsonl", "eval.jsonl", "rollouts.jsonl"):
            checkpoint.truncate_after(self.out / name, step if found else -1)
        return step


def evaluation(scores: Sequence[Score], samples: Sequence[Sample]) -> dict[str, Any]:
    """Rates over scored rollouts, in 0..1; the unscored are counted beside them."""
    scored = [s for s in scores if s.outcome is not None]
    names = sorted({name for s in scored for name in s.metrics})
    verdicts: dict[str, int] = {}
    for s in scores:
        verdicts[s.verdict] = verdicts.get(s.verdict, 0) + 1
    rates = {
        name: float(np.mean([s.metrics[name] for s in scored if name in s.metrics]))
        for name in names
    }
    return {
        "n": len(scores),
        "unscored": len(scores) - len(scored),
        **rates,
        "mean_length": float(np.mean([len(s.token_ids) for s in samples])),
        "verdicts": verdicts,
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 5) for v in values]
