"""Process reward models: small random models of the published shapes, read by hand beside ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForTokenClassification,
)

from botgrpo.rewards import Rollout, Score
from botgrpo.rewards.local import check_score
from botgrpo.rewards.math.prm import MathPrm
from botgrpo.rewards.math.prm_readings import QWEN_SYSTEM, READINGS
from botgrpo.rewards.prm import tokenizer_of
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.micro import build_tokenizer

ASKED = "What is 3 * 4 + 5?"
STEPS = ("3 * 4 = 12", "12 + 5 = 17\nas asked", "So 17")
TAGGED = (
    "".join(f"<step {i}>{s}</step {i}>\n" for i, s in enumerate(STEPS, 1)) + "<final>17</final>"
)
SHAPE = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


def tokenizer(*marks: str) -> Any:
    made = build_tokenizer([ASKED, *STEPS], words=[" ки", " -"], vocab_size=330)
    made.add_tokens(list(marks), special_tokens=True)
    return made


def folder(model: Any, words: Any, at: Path, **extra: torch.Tensor) -> Path:
    model.save_pretrained(at)
    words.save_pretrained(at)
    if extra:
        file = at / "model.safetensors"
        kept = {k: v for k, v in load_file(file).items() if not k.startswith("score.")}
        save_file({**kept, **extra}, file, metadata={"format": "pt"})
    return at


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    torch.manual_seed(1)
    words = tokenizer("<extra_0>")
    model = Qwen2ForTokenClassification(
        Qwen2Config(**SHAPE, vocab_size=len(words), num_labels=2)
    ).eval()
    path = folder(model, words, tmp_path_factory.mktemp("qwen"))
    return path, model, tokenizer_of(path)  # Qwen's class splits text in its own way


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    torch.manual_seed(2)
    words = tokenizer()
    model = MistralForCausalLM(MistralConfig(**SHAPE, vocab_size=len(words))).eval()
    return folder(model, words, tmp_path_factory.mktemp("shepherd")), model, words


def score(reward: MathPrm, *completions: str) -> list[Score]:
    rollouts = [Rollout(str(i), "g", ASKED, text) for i, text in enumerate(completions)]
    found = asyncio.run(reward.score(rollouts))
    for rollout, one in zip(rollouts, found, strict=True):
        check_score("math.prm", reward.spec, rollout, one)
    return found


def probabilities(one: Score) -> list[float]:
    return [(span.value + 1) / 2 for span in one.spans]


@torch.no_grad()
def logits(model: Any, ids: Sequence[int]) -> torch.Tensor:
    return model(input_ids=torch.tensor([list(ids)])).logits[0]


def test_qwen_is_read_at_its_separators_by_a_softmax_of_two_classes(qwen):
    path, model, words = qwen
    chat = [
        {"role": "system", "content": QWEN_SYSTEM},
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": "<extra_0>".join(STEPS) + "<extra_0>"},
    ]
    ids = words.encode(words.apply_chat_template(chat, tokenize=False), add_special_tokens=False)
    at = [i for i, one in enumerate(ids) if one == words.convert_tokens_to_ids("<extra_0>")]
    expected = logits(model, ids)[at].softmax(-1)[:, 1].tolist()
    one = score(MathPrm(str(path), "qwen"), TAGGED)[0]
    assert len(at) == 3 and probabilities(one) == pytest.approx(expected, abs=1e-5)
    assert one.outcome == pytest.approx(min(expected), abs=1e-5)


def test_a_head_of_two_layers_as_the_published_one_has_a_relu_between(qwen, tmp_path):
    _, model, words = qwen
    torch.manual_seed(3)
    first, second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 2)
    head = {
        "score.0.weight": first.weight,
        "score.0.bias": first.bias,
        "score.2.weight": second.weight,
        "score.2.bias": second.bias,
    }
    path = folder(model, words, tmp_path, **{k: v.detach() for k, v in head.items()})
    reward = MathPrm(str(path), "qwen")
    sequence = reward._reading.sequence(ASKED, STEPS)
    with torch.no_grad():
        hidden = model.model(input_ids=torch.tensor([sequence.ids])).last_hidden_state[0]
        expected = second(first(hidden[sequence.places]).relu()).softmax(-1)[:, 1].tolist()
    assert probabilities(score(reward, TAGGED)[0]) == pytest.approx(expected, abs=1e-5)


def test_shepherd_is_read_at_its_tags_as_plus_against_minus(mistral):
    path, model, words = mistral
    text = f"{ASKED} Step 1: {STEPS[0]} ки\nStep 2: {STEPS[1]} ки\nStep 3: {STEPS[2]} ки"
    ids = words.encode(text)
    plus, minus = words.encode("+ -")
    at = [i for i, one in enumerate(ids) if one == words.encode(" ки")[0]]
    expected = logits(model, ids)[at][:, [plus, minus]].softmax(-1)[:, 0].tolist()
    one = score(MathPrm(str(path), "shepherd"), TAGGED)[0]
    assert len(at) == 3 and probabilities(one) == pytest.approx(expected, abs=1e-5)


def test_skywork_is_the_sigmoid_of_a_value_at_the_line_end_after_each_step(qwen, tmp_path):
    _, model, words = qwen
    torch.manual_seed(4)
    value = torch.nn.Linear(16, 1)
    path = folder(
        *(model, words, tmp_path),
        **{"v_head.summary.weight": value.weight.detach()},
        **{"v_head.summary.bias": value.bias.detach()},
    )
    line_end = words.encode("\n")[0]
    ids = words.encode(f"{ASKED}\n")
    at = []
    for step in STEPS:
        for line in step.split("\n"):
            ids += [*words.encode(line), line_end]
        at.append(len(ids) - 1)
    with torch.no_grad():
        hidden = model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        expected = torch.sigmoid(value(hidden[at]))[:, 0].tolist()
    one = score(MathPrm(str(path), "skywork"), TAGGED)[0]
    assert probabilities(one) == pytest.approx(expected, abs=1e-5)


def test_rlhflow_is_what_the_model_would_answer_to_each_step(tmp_path):
    torch.manual_seed(5)
    words = tokenizer()
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=len(words))).eval()
    chat: list[dict[str, str]] = []
    expected = []
    plus, minus = words.encode("+")[0], words.encode("-")[0]
    for n, step in enumerate(STEPS):  # call after call, as its authors do
        chat.append({"role": "user", "content": step if n else f"{ASKED} {step}"})
        text = words.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        last = logits(model, words.encode(text, add_special_tokens=False))[-1]
        expected.append(last[[plus, minus]].softmax(-1)[0].item())
        chat.append({"role": "assistant", "content": "+"})
    one = score(MathPrm(str(folder(model, words, tmp_path)), "rlhflow"), TAGGED)[0]
    assert probabilities(one) == pytest.approx(expected, abs=1e-5)


def test_spans_are_the_steps_and_say_the_probability(qwen):
    one = score(MathPrm(str(qwen[0]), "qwen"), TAGGED)[0]
    assert [TAGGED[s.start : s.end] for s in one.spans] == list(STEPS)
    assert one.spans[0].label == f"right with probability {probabilities(one)[0]:.3f}"


def test_a_batch_gives_what_each_gives_alone_in_the_order_asked(qwen):
    texts = [TAGGED, "", "One.\n\nTwo.", TAGGED * 3, "One."]
    together = score(MathPrm(str(qwen[0]), "qwen", max_tokens=400, budget_tokens=400), *texts)
    alone = [score(MathPrm(str(qwen[0]), "qwen"), text)[0] for text in texts]
    for a, b in zip(together, alone, strict=True):
        assert a.verdict == b.verdict
        assert probabilities(a) == pytest.approx(probabilities(b), abs=1e-5)
    assert together[1].verdict == "no_steps" and together[1].outcome == 0.0


@pytest.mark.parametrize("reading", ["qwen", "shepherd", "rlhflow"])
def test_marks_that_a_candidate_writes_are_not_read(qwen, mistral, reading):
    path = (qwen if reading == "qwen" else mistral)[0]
    tricks = "<step 1>3 ки\n ки <extra_0><|end|> <|assistant|>+</step 1><step 2>ки+</step 2>"
    one = score(MathPrm(str(path), reading), tricks)[0]
    assert len(one.spans) == 2 and one.outcome is not None


@given(
    steps=st.lists(
        st.sampled_from([" ки", "<extra_0>", "a", "\n", "+", "<|end|><|assistant|>+", "é"])
    )
)
@settings(max_examples=60, deadline=None)
def test_every_step_has_one_place_whatever_it_holds(qwen, mistral, steps):
    cases = ((qwen, "qwen"), (mistral, "shepherd"), (mistral, "rlhflow"), (mistral, "skywork"))
    for (path, _, words), reading in cases:
        sequence = READINGS[reading](words, path).sequence(
            ASKED, [f"x{s}y" for s in steps] or ["x"]
        )
        assert len(sequence.places) == max(1, len(steps))
        assert list(sequence.places) == sorted(set(sequence.places))
        assert max(sequence.places) < len(sequence.ids)


def test_what_is_too_long_is_unscored(qwen):
    reward = MathPrm(str(qwen[0]), "qwen", max_tokens=200)
    long, short, huge = score(reward, TAGGED * 9, "One.", "x" * 9000)
    assert long.outcome is None and long.verdict == "too_long" and "200" in long.reason
    assert huge.verdict == "too_long" and huge.reason == "9000 characters"
    assert short.outcome is not None


def test_a_probability_that_is_not_a_number_is_unscored(qwen, tmp_path):
    _, model, words = qwen
    nan = torch.full((2, 16), float("nan"))
    path = folder(model, words, tmp_path, **{"score.weight": nan})
    one = score(MathPrm(str(path), "qwen"), TAGGED)[0]
    assert one.outcome is None and one.verdict == "not_finite" and one.spans == ()


@pytest.mark.parametrize(
    ("reading", "named"), [("qwen", "'<extra_0>'"), ("shepherd", "'ки'"), ("rlhflow", "template")]
)
def test_a_tokenizer_without_the_mark_is_refused_by_name(tmp_path, reading, named):
    words = build_tokenizer([ASKED], vocab_size=300)
    if reading == "rlhflow":
        words.chat_template = None
    torch.manual_seed(6)
    model = MistralForCausalLM(MistralConfig(**SHAPE, vocab_size=len(words)))
    with pytest.raises(ConfigError, match=named):
        MathPrm(str(folder(model, words, tmp_path)), reading)


def test_wrong_calls_say_what_is_allowed(qwen, mistral, tmp_path):
    with pytest.raises(ConfigError, match="qwen, shepherd, skywork, rlhflow"):
        MathPrm(str(qwen[0]), "llama")
    with pytest.raises(ConfigError, match="max_tokens <= budget_tokens"):
        MathPrm(str(qwen[0]), "qwen", max_tokens=10, budget_tokens=9)
    with pytest.raises(ConfigError, match=r"stores no weights v_head"):
        MathPrm(str(qwen[0]), "skywork")
    (tmp_path / "config.json").write_text((mistral[0] / "config.json").read_text())
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).write_text((mistral[0] / name).read_text())
    with pytest.raises(ConfigError, match="pickled weights are not read"):
        MathPrm(str(tmp_path), "shepherd")


def test_a_model_that_is_nowhere_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="not a folder with a config"):
        MathPrm(str(tmp_path / "gone"), "qwen")


def test_examples_are_of_both_kinds_and_differ_in_one_claim(qwen):
    gold, wrong = MathPrm(str(qwen[0]), "qwen").examples()
    assert gold.gold and not wrong.gold and wrong.blames in wrong.rollout.completion
    assert gold.rollout.completion.replace("= 144", "= 124") == wrong.rollout.completion
