"""The algorithm, top to bottom: sample, score, advantage, loss, step, evaluate.

For each step: P prompts, K rollouts each; a reward says G for each rollout and S for each token;
r = w_g G + w_s S; the algorithm turns r into advantages; one AdamW step, or several. Everything
random is a function of (seed, step, rollout), so a run that was killed goes on from its last
checkpoint to the same numbers.

What goes wrong ends in one of two ways. A rollout that nobody could score is left out and counted.
Everything else is `RunFailed`: a reward or an engine that raises, a loss or weights that are not
finite, a disk that is full, `DEAD_STEPS` steps without one score, a signal. No step is then half
done, and the last checkpoint is whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from botgrpo.rewards.base import Reward
from botgrpo.rewards.training_step import at_step
from botgrpo.sandbox.errors import RunFailed
from botgrpo.trainer import batch as batches
from botgrpo.trainer import checkpoint
from botgrpo.trainer.algorithms import Algorithm, algorithm
from botgrpo.trainer.config import Config
from botgrpo.trainer.engines.base import Engine, Sampling
from botgrpo.trainer.engines.choice import engine_of
from botgrpo.trainer.memory import give_back
from botgrpo.trainer.policy import DTYPES, Policy
from botgrpo.trainer.prime import Prime, prime_of
from botgrpo.trainer.reference import Reference
from botgrpo.trainer.rollouts import Drawn, draw, evaluation, records, rows_of, with_tokens
from botgrpo.trainer.scoring import Scorer
from botgrpo.trainer.stopping import Stop
from botgrpo.trainer.task import Item, Task
from botgrpo.trainer.update import Settings, update
from botgrpo.trainer.value_head import Critic, critic_of

EVAL_SEED = 7_919  # one fixed seed: all runs are tested with the same draws on the same prompts
EVAL_KEY = 1 << 40  # keys of test rollouts lie apart from those of training
DEAD_STEPS = 3  # steps in a row without one score: what scores is gone, and nothing is learned

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
    prime: Prime | None = field(init=False, default=None)
    critic: Critic | None = field(init=False, default=None)
    silent_steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        config = self.config
        if config.run.threads:
            torch.set_num_threads(config.run.threads)
        self.algorithm = algorithm(config.algorithm, config.algorithm_options)
        self.engine = engine_of(config, self.policy)
        optim = config.optim
        self.optimizer = torch.optim.AdamW(
            [p for p in self.policy.model.parameters() if p.requires_grad],
            lr=optim.learning_rate,
            betas=(optim.beta1, optim.beta2),
            weight_decay=optim.weight_decay,
        )
        self.reference = Reference(self.policy.model) if optim.kl else None

    def train(self, *, resume: bool) -> None:
        """Run all steps, or those that are left. Raises RunFailed (see the module)."""
        run = self.config.run
        with Scorer() as scorer, Stop() as stop:
            try:
                self.prime = prime_of(self.config, self.policy)
                self.critic = critic_of(self.config, self.policy)
                start = self._restore() if resume else 0
                if start == 0:
                    self._evaluate(0, scorer)
                items = self.task.train_items(run.seed)
                for step in range(start + 1, run.steps + 1):
                    with at_step(step):
                        metrics = self._step(step, items, scorer)
                    last = step == run.steps
                    if step % run.eval_every == 0 or last:
                        metrics["time/evaluate_s"] = self._evaluate(step, scorer)
                    self._report(step, metrics)
                    if step % run.checkpoint_every == 0 or last or stop.asked:
                        self._save(step)
                    if stop.asked and not last:
                        raise RunFailed(
                            f"stopped by {stop.asked} after step {step}, which is saved; go on "
                            "with --resume"
                        )
            finally:
                for judge in (self.reward, self.judge):
                    scorer.close(judge)

    def _step(self, step: int, items: Sequence[Item], scorer: Scorer) -> dict[str, float]:
        config, clock = self.config, time.perf_counter
        self._set_learning_rate(step)
        # sample; groups are scored as they end
        k, seed, prompts = config.sampling.group_size, config.run.seed, self._prompts(step, items)
        keys = [step * self._rows() + i for i in range(self._rows())]
        drawn = self._draw(prompts, k, keys, seed, f"{seed}/{step}", self.reward, scorer)
        generated = clock()
        scores = drawn.pending.scores()
        scored = clock()
        beside: dict[str, float] = {}
        if self.prime:  # it learns from G, and then says S
            scores, beside = self.prime.step(drawn, scores)
        # advantage
        w_g, max_tokens = config.reward.w_g, config.sampling.max_new_tokens
        batch = batches.make_batch(drawn.rollouts, scores, w_g=w_g, w_s=config.reward.w_s)
        batch = batches.apply_rules(batch, self.algorithm, w_g=w_g, max_tokens=max_tokens)
        self._require_scores(step, batch)
        values_N = None
        if self.critic:  # the values from before it learns of this batch
            values_N, more = self.critic.step(batch, drawn, w_g, (seed, step))
            beside |= more
        advantages_N, stats = batches.advantages(
            batch, self.algorithm, config.algorithm_options, w_g=w_g, values_N=values_N
        )
        pieces = batch.split(advantages_N)
        # loss and step; none while a critic learns alone
        waits = self.critic is not None and step <= self.critic.pretrain_steps
        rows = [] if waits else rows_of(drawn, with_tokens(drawn, batch.kept_R), pieces)
        numbers = update(
            self.policy.model,
            self.optimizer,
            rows,
            self.algorithm,
            self._settings(),
            reference=self.reference,
            shuffle=(seed, step),
        )
        self.engine.sync()
        updated = clock()
        if step == 1 or step % config.run.eval_every == 0:
            count = config.run.log_rollouts * k
            for record in records(drawn, scores, batch, pieces, count):
                checkpoint.append(self.out / "rollouts.jsonl", {"step": step, **record})
        cut = [sample.finish_reason == "length" for sample in drawn.samples]
        return {
            **batches.reward_metrics(batch, stats, advantages_N, scores),
            **beside,
            **numbers,
            "completions/clipped_ratio": float(np.mean(cut)),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "num_tokens": float(batch.length_R.sum()),
            "time/generate_s": drawn.seconds,
            "time/score_s": scored - generated,  # what is left of it after generation
            "time/score_overlapped_s": max(0.0, drawn.pending.busy_s() - (scored - generated)),
            "time/update_s": updated - scored,
        }

    def _report(self, step: int, metrics: dict[str, float]) -> None:
        checkpoint.append(self.out / "metrics.jsonl", {"step": step, **metrics})
        self.progress("step", {"step": step, **metrics})

    def _require_scores(self, step: int, batch: batches.Batch) -> None:
        self.silent_steps = 0 if batch.scored_R.any() else self.silent_steps + 1
        if self.silent_steps == DEAD_STEPS:
            raise RunFailed(
                f"not one rollout of the last {DEAD_STEPS} steps could be scored (up to step "
                f"{step}), and nothing can be learned: see why with botgrpo sandbox doctor, then "
                "go on with --resume"
            )

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

    def _evaluate(self, step: int, scorer: Scorer) -> float:
        record = self.evaluate(step, scorer)
        give_back()
        checkpoint.append(self.out / "eval.jsonl", record)
        self.progress("eval", record)
        return float(record["seconds"])

    def evaluate(self, step: int, scorer: Scorer) -> dict[str, Any]:
        """One sampled completion of each held-out prompt, judged without noise."""
        began = time.perf_counter()
        items = self.task.eval_items(self.config.run.eval_prompts)
        keys = [EVAL_KEY + i for i in range(len(items))]
        size = self._rows()
        parts = [
            self._draw(
                items[i : i + size],
                1,
                keys[i : i + size],
                EVAL_SEED,
                f"eval/{step}",
                self.judge,
                scorer,
            )
            for i in range(0, len(items), size)
        ]
        scores = [score for part in parts for score in part.pending.scores()]
        rates = evaluation(scores, [sample for part in parts for sample in part.samples])
        return {"step": step, **rates, "seconds": time.perf_counter() - began}

    def _draw(
        self,
        items: Sequence[Item],
        k: int,
        keys: Sequence[int],
        seed: int,
        prefix: str,
        reward: Reward,
        scorer: Scorer,
    ) -> Drawn:
        sampling = self.config.sampling
        return draw(
            self.engine,
            self.policy,
            scorer,
            reward,
            items,
            k=k,
            keys=keys,
            sampling=Sampling(sampling.max_new_tokens, sampling.temperature, seed),
            prefix=prefix,
        )

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

    def _beside(self) -> dict[str, checkpoint.Learner]:
        """What learns beside the policy, by its name in a checkpoint."""
        learners = {"prime": self.prime, "critic": self.critic}
        return {name: learner for name, learner in learners.items() if learner}

    def _save(self, step: int) -> None:
        folder, model = self.out / "checkpoints", self.policy.model
        checkpoint.save(folder, step, model, self.optimizer, {}, beside=self._beside())

    def _restore(self) -> int:
        """Step of the newest checkpoint, with weights, optimiser and files set back to it."""
        found = checkpoint.latest(self.out / "checkpoints")
        step = 0
        if found:
            model, beside = self.policy.model, self._beside()
            step = int(checkpoint.restore(found, model, self.optimizer, beside=beside)["step"])
            self.engine.sync()
        for name in ("metrics.jsonl", "eval.jsonl", "rollouts.jsonl"):
            checkpoint.truncate_after(self.out / name, step if found else -1)
        return step
