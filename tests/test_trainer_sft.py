"""Warm start: learns, repeats itself, counts completion tokens only, and bounds memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.micro import ASSISTANT, END, build_model, build_tokenizer
from botgrpo.trainer.sft import encode, sft

PAIRS = [
    ("one", "const a = 1;"),
    ("two", "const b = 22;"),
    ("three", "return null;\n"),
    ("four", "f();"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer((text for pair in PAIRS for text in pair), vocab_size=300)


def train(tokenizer: Any, **changes: Any) -> tuple[Any, list[float]]:
    model = build_model(tokenizer, seed=0, layers=1, width=64)
    settings: dict[str, Any] = {"steps": 4, "batch_size": 4, "lr": 3e-3, "seed": 0}
    losses = sft(model, tokenizer, PAIRS, **(settings | {"warmup_steps": 2} | changes))
    return model, losses


def test_a_few_pairs_are_learned_by_heart_with_their_end(tokenizer: Any) -> None:
    model, losses = train(tokenizer, steps=120, lr=1e-2)
    assert losses[-1] < 0.05 < losses[0]
    for prompt, completion in PAIRS:
        ids = torch.tensor([tokenizer.encode(f"<|user|>{prompt}{ASSISTANT}")])
        written = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False
        )
        assert tokenizer.decode(written[0, ids.shape[1] :]) == completion + END


def test_same_seed_same_losses_and_weights(tokenizer: Any) -> None:
    first, losses = train(tokenizer, batch_size=2)
    second, again = train(tokenizer, batch_size=2)
    assert losses == again
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert train(tokenizer, batch_size=2, seed=1)[1] != losses


def test_prompt_tokens_give_no_loss(tokenizer: Any) -> None:
    model = build_model(tokenizer, seed=0, layers=1, width=64)
    each = encode(tokenizer, *PAIRS[0])
    ids = torch.tensor([each.ids])
    assert tokenizer.decode(each.ids[each.prompt :]) == PAIRS[0][1] + END
    with torch.no_grad():
        logp = model(ids).logits.log_softmax(-1)
    expected = -sum(
        float(logp[0, i - 1, token]) for i, token in enumerate(each.ids) if i >= each.prompt
    ) / (len(each.ids) - each.prompt)
    found = sft(model, tokenizer, PAIRS[:1], steps=1, batch_size=1, lr=1e-4, seed=0, autocast=False)
    assert found[0] == pytest.approx(expected, rel=1e-5)


def test_micro_batches_change_memory_not_the_step(tokenizer: Any) -> None:
    whole, losses = train(tokenizer, autocast=False)
    parts, same = train(tokenizer, autocast=False, micro_batch=1)
    assert same == pytest.approx(losses, rel=1e-4)
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_logits_are_never_made_for_prompt_or_padding(tokenizer: Any) -> None:
    model = build_model(tokenizer, seed=0, layers=1, width=64)
    rows: list[int] = []
    model.lm_head.register_forward_hook(lambda _m, _i, out: rows.append(out.shape[0]))
    sft(model, tokenizer, PAIRS, steps=1, batch_size=4, lr=1e-4, seed=0, micro_batch=2)
    encoded = [encode(tokenizer, *pair) for pair in PAIRS]
    assert len(rows) == 2
    assert sum(rows) == sum(len(each.ids) - each.prompt for each in encoded)


def test_progress_reports_every_step(tokenizer: Any) -> None:
    seen: list[Mapping[str, float]] = []
    _, losses = train(tokenizer, progress=seen.append)
    assert [row["step"] for row in seen] == [1, 2, 3, 4]
    assert [row["loss"] for row in seen] == losses
    assert seen[0]["lr"] == pytest.approx(1.5e-3)
    assert seen[1]["lr"] == pytest.approx(3e-3)
    assert seen[-1]["lr"] == pytest.approx(3e-4)


def test_a_batch_larger_than_the_data_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="batch_size=5"):
        train(tokenizer, batch_size=5)
