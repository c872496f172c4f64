"""Stand-ins for unit tests: a tiny random policy, a stub task and a stub reward, named as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from botgrpo.rewards.base import RewardSpec, Rollout, Score
from botgrpo.trainer import config as configs
from botgrpo.trainer.config import Config
from botgrpo.trainer.micro import build_model, build_tokenizer, save
from botgrpo.trainer.task import Item

TEXTS = ["a b c d e f", "say the letter a", "aaa bbb aba"]


def tiny_policy_folder(folder: Path) -> Path:
    """A random model of a few thousand weights with a real tokenizer, as a transformers folder."""
    tokenizer = build_tokenizer(TEXTS, vocab_size=300)
    save(build_model(tokenizer, seed=0, layers=1, width=16), tokenizer, folder)
    return folder


def tiny_config(**sets: object) -> Config:
    data = {
        "name": "tiny",
        "task": "react",
        "policy": {"model": "unused"},
        "reward": {"outcomes": {"react.compile": 1.0}},
        "sampling": {"prompts": 2, "group_size": 4, "max_new_tokens": 12},
        "optim": {"learning_rate": 0.01},
        "run": {
            "steps": 4,
            "eval_every": 2,
            "eval_prompts": 6,
            "checkpoint_every": 2,
            "threads": 1,
        },
    }
    assignments = [f"{key.replace('__', '.')}={value}" for key, value in sets.items()]
    return configs.parse(configs.override(data, assignments), "tiny")


class StubTask:
    """Numbered prompts; nothing is asked of the completions."""

    name = "stub"
    judge = "stub"
    metrics = ("letters",)

    def train_items(self, seed: int) -> Sequence[Item]:
        return [Item(f"t{i}", f"say the letter {chr(97 + (i + seed) % 26)}") for i in range(7)]

    def eval_items(self, n: int) -> Sequence[Item]:
        return [Item(f"e{i}", f"say {i}") for i in range(n)]

    def corpus(self, n: int, seed: int, corruption_rate: float) -> Sequence[tuple[Item, str]]:
        return [(item, "a") for item in self.eval_items(n)]


@dataclass
class StubReward:
    """Outcome: whether the text holds a letter "a"; local: 1 on tokens that hold one.

    `lose` names rollouts (by the end of their id) that are unscored.
    """

    lose: str = "never"
    spec: RewardSpec = field(
        default_factory=lambda: RewardSpec("stub", "1", (0.0, 1.0), (0.0, 1.0))
    )
    closed: bool = False

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        scores = []
        for r in rollouts:
            if r.id.endswith(self.lose):
                scores.append(Score.unscored(r.id, "lost on purpose"))
                continue
            assert r.token_spans is not None
            hits = tuple(float("a" in r.completion[start:end]) for start, end in r.token_spans)
            share = sum(hits) / max(len(hits), 1)
            outcome = float("a" in r.completion)
            metrics = {"letters": share}
            scores.append(Score(r.id, outcome, "ok", local=hits, metrics=metrics))
        return scores

    async def aclose(self) -> None:
        self.closed = True
