"""The reward that two models imply, against log-probabilities worked out by hand."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from botgrpo.rewards import Rollout, Score
from botgrpo.rewards.implicit import ImplicitPrime
from botgrpo.rewards.local import check_score, local_of
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.micro import build_model, build_tokenizer, save

TEXTS = ["2 + 2 = 4", "an answer, é"]


def model_folder(at: Path, seed: int, vocab_size: int = 300) -> Path:
    words = build_tokenizer(TEXTS, vocab_size=vocab_size)
    save(build_model(words, seed=seed, layers=1, width=16), words, at)
    return at


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    made = [model_folder(tmp_path_factory.mktemp("m"), seed) for seed in (0, 1)]
    return str(made[0]), str(made[1])


def rollout(text: str, id: str = "r") -> Rollout:
    """As the trainer makes it: sampled ids, an end token, spans from the ids' bytes."""
    words = build_tokenizer(TEXTS, vocab_size=300)
    ids = (*words.encode(text, add_special_tokens=False), words.eos_token_id)
    text, spans = TokenBytes(words).decode(ids)
    return Rollout(id, "g", "How much?", text, token_ids=ids, token_spans=spans)


def score(reward: ImplicitPrime, *rollouts: Rollout) -> list[Score]:
    found = asyncio.run(reward.score(rollouts))
    for one, r in zip(found, rollouts, strict=True):
        check_score("implicit.prime", reward.spec, r, one)
    return found


@torch.no_grad()
def by_hand(folder: str, one: Rollout) -> list[float]:
    """log p of each completion token, a forward pass and a logarithm at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    words = AutoTokenizer.from_pretrained(folder)
    ids = words.encode(f"<|user|>{one.prompt}<|assistant|>", add_special_tokens=False)
    found = []
    for token in one.token_ids or ():
        last = model(input_ids=torch.tensor([ids])).logits[0, -1].float()
        found.append(math.log(torch.exp(last[token] - last.logsumexp(0)).item()))
        ids.append(token)
    return found


def test_each_token_gets_beta_times_the_log_ratio(pair):
    one = rollout("2 + 2 = 4")
    q = [a - b for a, b in zip(by_hand(pair[0], one), by_hand(pair[1], one), strict=True)]
    got = score(ImplicitPrime(*pair, beta=0.5), one)[0]
    assert got.local == pytest.approx([0.5 * x for x in q], abs=0.02)  # bf16 weights
    assert max(abs(x) for x in q) > 0.1, "two models that agree would show nothing"
    assert got.outcome == pytest.approx(1 / (1 + math.exp(-0.5 * sum(q))), abs=0.02)
    assert got.metrics["log_ratio"] == pytest.approx(sum(q), abs=0.1)


def test_a_model_against_itself_implies_nothing(pair):
    got = score(ImplicitPrime(pair[0], pair[0]), rollout("an answer, é"))[0]
    assert set(got.local or ()) == {0.0} and got.outcome == 0.5


def test_swapping_the_models_turns_the_sign(pair):
    one = rollout("2 + 2 = 4")
    there = score(ImplicitPrime(*pair), one)[0].local
    back = score(ImplicitPrime(*reversed(pair)), one)[0].local
    assert there == pytest.approx([-r for r in back or ()], abs=1e-6) and any(there or ())


def test_a_batch_gives_what_each_gives_alone(pair):
    texts = ["2", "2 + 2 = 4, an answer", "", "é"]
    rollouts = [rollout(text, str(i)) for i, text in enumerate(texts)]
    together = score(ImplicitPrime(*pair, max_tokens=64, budget_tokens=64), *rollouts)
    for one, r in zip(together, rollouts, strict=True):
        assert one.local == pytest.approx(score(ImplicitPrime(*pair), r)[0].local, abs=1e-3)


def test_the_trainer_reads_the_token_values_and_not_the_spans(pair):
    reward, one = ImplicitPrime(*pair), rollout("an answer, é")  # é is two tokens of one character
    got = score(reward, one)[0]
    assert local_of(reward, one, got) == got.local and len(got.local or ()) == len(one.token_ids)


def test_text_without_sampled_ids_is_encoded_and_shown_by_spans(pair):
    got = score(ImplicitPrime(*pair), Rollout("r", "g", "How much?", "2 + 2 = 4"))[0]
    assert got.local is None and "".join("2 + 2 = 4"[s.start : s.end] for s in got.spans)
    assert got.spans[0].label.startswith("log-ratio ")


def test_values_beyond_the_bounds_are_held_and_counted(pair):
    got = score(ImplicitPrime(*pair, beta=1000.0), rollout("2 + 2 = 4"))[0]
    assert got.metrics["held"] > 0 and max(map(abs, got.local or ())) == 1.0


def test_ids_of_another_tokenizer_are_unscored(pair):
    one = rollout("2 + 2 = 4")
    ids = tuple(i + 1 for i in one.token_ids or ())
    other = Rollout("r", "g", one.prompt, one.completion, token_ids=ids)
    got = score(ImplicitPrime(*pair), other, Rollout("s", "g", "", "x", token_ids=(10_000,)))
    assert [g.verdict for g in got] == ["other_tokens", "other_tokens"]


def test_what_is_too_long_is_unscored_and_no_tokens_are_half(pair):
    reward = ImplicitPrime(*pair, max_tokens=3, budget_tokens=20)
    long_prompt = Rollout("p", "g", "How much? " * 9, "2")
    got = score(reward, rollout("an answer, é"), Rollout("e", "g", "q", ""), long_prompt)
    assert [g.verdict for g in got] == ["too_long", "empty", "too_long"]
    assert got[0].outcome is None and got[1].outcome == 0.5 and got[2].outcome is None


def test_a_ratio_that_is_not_a_number_is_unscored(pair, monkeypatch):
    reward = ImplicitPrime(*pair)
    monkeypatch.setattr(reward._model, "logps", lambda sequences, _: [[math.nan] * 6])
    monkeypatch.setattr(reward._reference, "logps", lambda sequences, _: [[0.0] * 6])
    one = rollout("2 + 2 = 4")
    assert len(one.token_ids or ()) == 6
    got = score(reward, one)[0]
    assert got.outcome is None and got.verdict == "not_finite"


def test_broken_weights_are_refused_at_once(pair, tmp_path):
    broken = model_folder(tmp_path, 0)
    file = broken / "model.safetensors"
    weights = load_file(file)
    weights["model.norm.weight"] += float("nan")
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="not finite"):
        ImplicitPrime(str(broken), pair[1])


def test_wrong_calls_say_what_is_allowed(pair, tmp_path):
    with pytest.raises(ConfigError, match="beta = 0"):
        ImplicitPrime(*pair, beta=0)
    with pytest.raises(ConfigError, match="max_tokens <= budget_tokens"):
        ImplicitPrime(*pair, max_tokens=9, budget_tokens=8)
    with pytest.raises(ConfigError, match=r"vocabulary of \d+"):
        ImplicitPrime(pair[0], str(model_folder(tmp_path, 0, vocab_size=262)))


def test_examples_are_of_both_kinds(pair):
    assert [e.gold for e in ImplicitPrime(*pair).examples()] == [True, False]
