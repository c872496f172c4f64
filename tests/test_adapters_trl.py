"""Inside TRL's own trainer: token advantages, and a loss that is ours. Runs in .envs/trl."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("trl") is None:
    pytest.skip(
        "TRL has pins of its own; next: make env-trl, then "
        ".envs/trl/bin/python -m pytest tests/test_adapters_trl.py",
        allow_module_level=True,
    )

import numpy as np
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TRL's own
    from datasets import Dataset

    from botgrpo.trainer.adapters.trl import BoTGRPOConfig, BoTGRPOTrainer
from botgrpo.benchmarks import parity
from botgrpo.benchmarks.export_trl import trl_script
from botgrpo.benchmarks.training import load_config
from botgrpo.rewards.base import RewardSpec, Rollout, Score
from botgrpo.sandbox.backends import chooser
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.trainer import batch as batches
from botgrpo.trainer.algorithms import algorithm
from botgrpo.trainer.logps import Row, token_logps
from botgrpo.trainer.losses import AGGREGATIONS, LOSSES
from botgrpo.trainer.micro import build_model, build_tokenizer
from tiny import TEXTS, StubReward

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("ignore")]


@dataclass
class Dense:
    """Outcome and local values that differ from token to token, whatever a random model writes."""

    lose: str = "never"
    unsure: bool = False
    spec: RewardSpec = field(default_factory=lambda: RewardSpec("dense", "1", (0, 1), (-1, 1)))

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        return [self._score(i, r) for i, r in enumerate(rollouts)]

    def _score(self, i: int, rollout: Rollout) -> Score:
        if rollout.id.endswith(self.lose):
            return Score.unscored(rollout.id, "lost on purpose")
        ids = rollout.token_ids or ()
        local: list[float | None] = [(t % 5 - 2) / 2 for t in ids]
        if self.unsure and i % 2:
            local[0] = None
        metrics = {"letters": 0.5}
        return Score(rollout.id, float(sum(ids) % 2), "ok", local=tuple(local), metrics=metrics)


def unsure() -> Dense:
    """Loses rollout 3 and does not know the first token of every other one."""
    return Dense(lose="/3", unsure=True)


class Recording(BoTGRPOTrainer):
    """Keeps every generation batch and every micro-batch with both losses and gradients."""

    compares = True  # False under DDP, which takes no gradient but its own

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.generated: list[dict[str, Any]] = []
        self.seen: list[dict[str, Any]] = []
        score = self._outcomes.composite.score

        async def keep(rollouts: Sequence[Rollout]) -> list[Score]:
            self.asked = (rollouts, await score(rollouts))
            return self.asked[1]

        self._outcomes.composite.score = keep  # type: ignore[method-assign]

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        self.generated.append({**output, "asked": self.asked, "training": self.model.training})
        return output

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        if model.training and self.compares:
            parameters = [p for p in model.parameters() if p.requires_grad]
            scale = self.current_gradient_accumulation_steps
            theirs = torch.autograd.grad(loss * scale, parameters, retain_graph=True)
            mine = our_loss(model, inputs, self.temperature)
            ours = torch.autograd.grad(mine, parameters)
            gap = max(float((a - b).abs().max()) for a, b in zip(theirs, ours, strict=True))
            size = max(float(a.abs().max()) for a in theirs)
            self.seen.append(
                {
                    **inputs,
                    "theirs": float(loss * scale),
                    "ours": float(mine),
                    "gradient_gap": gap,
                    "gradient_size": size,
                }
            )
        return loss


def our_loss(model: Any, inputs: Any, temperature: float) -> torch.Tensor:
    """Our loop's loss of one micro-batch, from the same model."""
    rows, advantages, old = [], [], []
    for i, mask in enumerate(inputs["completion_mask"].bool()):
        if not mask.any():
            continue
        prompt = inputs["prompt_ids"][i][inputs["prompt_mask"][i].bool()].tolist()
        ids = inputs["completion_ids"][i][mask].tolist()
        rows.append(Row(prompt, ids, np.zeros(len(ids)), np.zeros(len(ids))))
        advantages.append(inputs["advantages"][i][mask])
        if "old_per_token_logps" in inputs:
            old.append(inputs["old_per_token_logps"][i][mask])
    logps, row_N = token_logps(model, rows, pad_id=0, temperature=temperature, autocast=None)
    tokens = LOSSES["clipped"](
        logps,
        torch.cat(old) if old else logps.detach(),
        torch.cat(advantages),
        row_N,
        clip_low=0.2,
        clip_high=0.2,
    )
    weights = AGGREGATIONS["sequence_mean"](row_N, len(rows), 0)
    empty = len(rows) / len(inputs["completion_mask"])  # TRL counts empty rows as well
    return (tokens * weights).sum() * empty


def arguments(folder: Path, **settings: Any) -> BoTGRPOConfig:
    values: dict[str, Any] = {
        "max_steps": 2,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 12,
        "learning_rate": 0.01,
        "logging_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return BoTGRPOConfig(str(folder), **{**values, **settings})


def make(
    folder: Path, reward: Any = None, options: Any = None, others: Any = None, **settings: Any
) -> Recording:
    tokenizer = build_tokenizer(TEXTS, vocab_size=300)
    data = Dataset.from_list([{"prompt": text} for text in ("say the letter a", "b", "aaa", "ab")])
    return Recording(
        build_model(tokenizer, seed=0, layers=1, width=16),
        reward or Dense(),
        arguments(folder, **settings),
        algorithm_options=options,
        train_dataset=data,
        eval_dataset=data,
        processing_class=tokenizer,
        **(others or {}),
    )


def expected(batch: dict[str, Any], **options: Any) -> list[np.ndarray]:
    """Advantages of our own loop for the rollouts and scores of a generation batch."""
    rollouts, scores = batch["asked"]
    flat = batches.make_batch(rollouts, scores, w_g=1.0, w_s=1.0)
    advantages_N, _ = batches.advantages(flat, algorithm("bot_grpo"), options, w_g=1.0)
    return flat.split(advantages_N)


def assert_as_ours(batch: dict[str, Any], **options: Any) -> None:
    for row, mine in zip(batch["advantages"], expected(batch, **options), strict=True):
        assert row[: len(mine)].numpy() == pytest.approx(mine, abs=1e-6)
        assert not row[len(mine) :].any()


def test_two_steps_train_and_value_and_gradient_are_ours_also_off_policy(tmp_path: Path) -> None:
    trainer = make(tmp_path, num_iterations=2, max_steps=4)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    assert len(trainer.seen) == 4
    for step in trainer.seen:
        assert step["advantages"].shape == step["completion_ids"].shape
        assert step["theirs"] == pytest.approx(step["ours"], abs=1e-5)
        assert step["gradient_gap"] <= 1e-5 < step["gradient_size"]
    assert max(abs(step["theirs"]) for step in trainer.seen) > 1e-3  # at a ratio of 1 it is 0
    assert any((a != b).any() for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_advantages_are_those_of_our_own_loop(tmp_path: Path) -> None:
    trainer = make(tmp_path)
    trainer.train()
    assert len(trainer.generated) == 2
    for batch in trainer.generated:
        assert_as_ours(batch)
    assert any(row.unique().numel() > 3 for row in trainer.generated[0]["advantages"])


def test_unscored_rollouts_and_unknown_tokens_are_treated_as_in_our_own_loop(
    tmp_path: Path,
) -> None:
    trainer = make(tmp_path, unsure())
    trainer.train()
    batch = trainer.generated[0]
    assert_as_ours(batch)
    assert not batch["advantages"][3].any() and batch["advantages"][2].any()
    logged = trainer.state.log_history[0]
    assert logged["bot/unscored"] == 1 and logged["bot/local_unscored_tokens"] > 0


@pytest.mark.parametrize(
    "options",
    [{"ddof": 1}, {"uniform_group": "damp"}, {"weight": "pooled"}, {"leave_one_out": True}],
)
def test_options_of_the_estimator_arrive(tmp_path: Path, options: dict[str, Any]) -> None:
    trainer = make(tmp_path, options=options, max_steps=1)
    trainer.train()
    assert_as_ours(trainer.generated[0], **options)


def test_local_rewards_lie_on_the_ids_that_were_sampled(tmp_path: Path) -> None:
    trainer = make(tmp_path, max_steps=1)
    trainer.train()
    batch = trainer.generated[0]
    for ids, mask, rollout in zip(
        batch["completion_ids"], batch["completion_mask"], batch["asked"][0], strict=True
    ):
        assert rollout.token_ids == tuple(ids[mask.bool()].tolist())
        text, spans = trainer._token_bytes.decode(rollout.token_ids)
        assert (text, spans) == (rollout.completion, rollout.token_spans)


def test_micro_batches_carry_their_own_rows_and_add_up_to_the_whole_loss(tmp_path: Path) -> None:
    # plain gradient descent: AdamW's first step is the sign of the gradient, rounding included
    plain = {"max_steps": 1, "optim": "sgd", "learning_rate": 1.0}
    whole = make(tmp_path, **plain)
    whole.train()
    split = make(tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4, **plain)
    split.train()
    assert len(split.seen) == 4 and len(split.generated) == 1
    generated = split.generated[0]
    rows = {
        tuple(ids.tolist()): advantages
        for ids, advantages in zip(
            generated["completion_ids"], generated["advantages"], strict=True
        )
    }
    for step in split.seen:
        for ids, advantages in zip(step["completion_ids"], step["advantages"], strict=True):
            assert torch.equal(rows[tuple(ids.tolist())], advantages)
        assert step["theirs"] == pytest.approx(step["ours"], abs=1e-5)
    assert np.mean([s["theirs"] for s in split.seen]) == pytest.approx(0.0, abs=1e-6)
    # the same rollouts in one piece make the same step
    assert torch.equal(generated["completion_ids"], whole.generated[0]["completion_ids"])
    before = build_model(build_tokenizer(TEXTS, vocab_size=300), seed=0, layers=1, width=16)
    parameters = [list(t.parameters()) for t in (before, whole.model, split.model)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*parameters[1:], strict=True))
    assert max(float((a - b).abs().max()) for a, b in zip(*parameters[:2], strict=True)) > 0.01


def test_evaluation_uses_its_own_group_size(tmp_path: Path) -> None:
    trainer = make(tmp_path, num_generations_eval=2, per_device_eval_batch_size=8)
    trainer.evaluate()
    (batch,) = trainer.generated
    assert not batch["training"]
    assert {r.group for r in batch["asked"][0]} == {f"eval/0/{i}" for i in range(4)}
    assert_as_ours(batch)


def written(completions: list[list[int]], **extra: Any) -> dict[str, Any]:
    """A `rollout_func` that writes these completions whatever the prompt."""

    def rollouts(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        logprobs = [[0.0] * len(ids) for ids in completions]
        prompt_ids = [[5]] * len(completions)
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": completions,
            "logprobs": logprobs,
            **extra,
        }

    return {"rollout_func": rollouts}


def test_truncated_rollouts_leave_the_statistics_where_trl_masks_them(tmp_path: Path) -> None:
    end = build_tokenizer(TEXTS, vocab_size=300).eos_token_id
    completions = [[7, 8, end], [9, 10, 11], [12, end], [13, 15, 17, end]] * 2
    others = written(completions)
    trainer = make(tmp_path, others=others, mask_truncated_completions=True, max_steps=1)
    trainer.train()
    (batch,) = trainer.generated
    rollouts, scores = batch["asked"]
    kept = [True, False, True, True] * 2
    assert [r.finish_reason == "stop" for r in rollouts] == kept
    assert batch["completion_mask"].any(1).tolist() == kept
    scores = [
        s if keep else Score.unscored(s.id, "cut") for s, keep in zip(scores, kept, strict=True)
    ]
    assert_as_ours({**batch, "asked": (rollouts, scores)})
    assert not batch["advantages"][1].any() and batch["advantages"][0].any()


def test_tokens_of_a_tool_are_no_tokens_of_the_policy(tmp_path: Path) -> None:
    a, b = (build_tokenizer(TEXTS, vocab_size=300).encode(x)[0] for x in ("a", "b"))
    completions = [[b, b, b], [a, a, b, b], [b, a], [b, b, b, b]] * 2
    masks = [[1, 1, 1], [0, 0, 1, 1], [1, 1], [1, 0, 1, 1]] * 2
    others = written(completions, env_mask=masks)
    trainer = make(tmp_path, StubReward(), others=others, max_steps=1)
    trainer.train()
    found = trainer.generated[0]["advantages"]
    # r = G + S: 0 for the b's of 0 and 3; 1 for those of 1, which holds an a; 1 and 2 in rollout 2
    mean = (0 + 1 + 1.5 + 0) / 4
    sigma = np.sqrt(np.var([0, 1, 1.5, 0]) + 0.25 / 4)
    assert found[1].tolist() == pytest.approx([0, 0, *[(1 - mean) / sigma] * 2], abs=1e-5)
    assert found[2, :2].tolist() == pytest.approx(
        [(1 - mean) / sigma, (2 - mean) / sigma], abs=1e-5
    )


def test_columns_become_the_reference_and_a_json_column_is_unpacked(tmp_path: Path) -> None:
    trainer = make(tmp_path, max_steps=1)
    references = {"a": {"accepted": [4]}, "b": {"kind": "x"}}
    trainer.train_dataset = Dataset.from_list(
        [{"prompt": prompt, "reference": json.dumps(r)} for prompt, r in references.items()]
    )
    trainer.train()
    found = {r.prompt: r.reference for r in trainer.generated[0]["asked"][0]}
    assert found == references


def test_our_numbers_are_logged(tmp_path: Path) -> None:
    trainer = make(tmp_path)
    trainer.train()
    logged = trainer.state.log_history[0]
    for name in ("sigma_between", "sigma_within", "attenuation", "advantage_max", "unscored"):
        assert f"bot/{name}" in logged
    assert logged["sandbox/verdict/ok"] == 1.0 and "rewards/dense/mean" in logged


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss_type": "dapo"}, "loss_type='grpo'"),
        ({"loss_type": "luspo"}, "loss_type='grpo'"),
        ({"importance_sampling_level": "sequence"}, "Set 'token'"),
        ({"use_liger_kernel": True}, "Set False"),
        ({"off_policy_mask_threshold": 0.5}, "Set None"),
    ],
)
def test_settings_that_would_lose_the_token_structure_are_refused(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        make(tmp_path, **settings)


def test_a_misspelt_option_or_reward_is_refused_before_the_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="uniform_group"):
        make(tmp_path, options={"uniform_gruop": "damp"})
    with pytest.raises(ConfigError, match=r"Did you mean react\.compile"):
        make(tmp_path, "react.complie")


def test_it_trains_where_an_event_loop_runs_already(tmp_path: Path) -> None:
    async def notebook() -> None:
        make(tmp_path, max_steps=1).train()

    asyncio.run(notebook())


@pytest.mark.parametrize("seed", range(5))
def test_advantages_and_losses_agree_with_trls_own_code(seed: int) -> None:
    found = parity.compare("trl", seed)
    assert len(found) == 12
    assert [c for c in found if not c.error <= parity.TOLERANCE] == []


SCRIPT = """
import sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
import torch
from test_adapters_trl import expected, make, unsure

trainer = make(Path(sys.argv[1]), unsure(), per_device_train_batch_size=6, num_generations=4,
               max_steps=1)
trainer.compares = False
trainer.train()
batch = trainer.generated[0]
parts = [None, None]
torch.distributed.all_gather_object(parts, (*batch["asked"], list(batch["advantages"])))
rollouts, scores, advantages = ([x for part in parts for x in part[i]] for i in range(3))
assert len(rollouts) == 12 and rollouts[4].group == rollouts[7].group, [r.group for r in rollouts]
for row, mine in zip(advantages, expected({{"asked": (rollouts, scores)}}), strict=True):
    assert abs(row[: len(mine)].numpy() - mine).max() < 1e-6
    assert not row[len(mine):].any()
found = Path(sys.argv[1], f"rank{{torch.distributed.get_rank()}}")
found.write_text(str(trainer.state.log_history[0]["bot/unscored"]))
"""


@pytest.mark.slow
def test_a_group_may_straddle_two_processes(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "--master-port=29611", str(script), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    # each process found the one rollout that was lost, on whichever it lay
    assert [(tmp_path / f"out/rank{i}").read_text() for i in range(2)] == ["1.0", "1.0"]


@pytest.mark.slow
@pytest.mark.small
def test_the_135m_model_trains_two_steps(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from botgrpo.trainer.models import locate

    folder = locate("smollm2-135m")
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    trainer = Recording(
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        Dense(),
        arguments(tmp_path, max_completion_length=8, learning_rate=1e-5),
        train_dataset=Dataset.from_list([{"prompt": "Once"}, {"prompt": "A cat"}]),
        processing_class=tokenizer,
    )
    trainer.train()
    for step in trainer.seen:
        assert step["theirs"] == pytest.approx(step["ours"], abs=1e-5)
        assert step["gradient_gap"] <= 1e-4 * max(1.0, step["gradient_size"])
    for batch in trainer.generated:
        assert_as_ours(batch)


def run_script(script: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=script.parent,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def require_sandbox() -> None:
    try:
        chooser("auto")().close()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_the_example_runs() -> None:
    require_sandbox()
    printed = run_script(Path(__file__).parents[1] / "examples/trl_bot_grpo.py", "1")
    assert "step 1: outcome" in printed and "sandbox/verdict/" in printed


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bot_grpo", "dapo"])
def test_an_exported_file_runs(tmp_path: Path, method: str) -> None:
    require_sandbox()
    sizes = ["sampling.prompts=2", "sampling.group_size=4", "sampling.max_new_tokens=32"]
    config = load_config("react_micro", [f"algorithm={method}", "run.steps=2", *sizes])
    script = tmp_path / "mine.py"
    script.write_text(trl_script(config, "mine.py"))
    printed = run_script(script)
    assert printed.count("'grad_norm'") == 2
    assert ("bot/sigma_within" in printed) == (method == "bot_grpo")
    assert (tmp_path / "runs/react_micro-trl/model.safetensors").is_file()
