"""The micro policy: its tokenizer keeps text and names whole, its folder loads everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from botgrpo.benchmarks.tasks.react import ReactTask
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.micro import END, VOCAB_SIZE, build_model, build_tokenizer, save

TASK = ReactTask()
PAIRS = [(item.prompt, completion) for item, completion in TASK.corpus(400, 0)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer((text for pair in PAIRS for text in pair), words=TASK.words())


def test_any_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    strange = ["", " ", "\n\n  x", "naïve 🙂 é\t", "a  b\r\n", "const n=12345;", "h2h3 {{}}"]
    for text in [*strange, *(text for pair in PAIRS for text in pair)]:
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_vocabulary_is_full_and_holds_each_copied_word_as_one_token(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    assert len(tokenizer) == VOCAB_SIZE
    assert sorted(tokenizer.get_vocab().values()) == list(range(VOCAB_SIZE))
    for word in TASK.words():
        assert len(tokenizer.encode(word, add_special_tokens=False)) == 1, word


def test_a_name_is_the_same_token_in_prompt_and_file(tokenizer: PreTrainedTokenizerFast) -> None:
    (name,) = tokenizer.encode(" Tally", add_special_tokens=False)
    assert name in tokenizer.encode("a React list named Tally with p.", add_special_tokens=False)
    assert name in tokenizer.encode("function Tally({ title })", add_special_tokens=False)


def test_completions_are_short_enough_for_many_seeds(tokenizer: PreTrainedTokenizerFast) -> None:
    lengths = [len(tokenizer.encode(completion)) for _, completion in PAIRS]
    assert 90 < sum(lengths) / len(lengths) < 130
    assert max(lengths) < 190


def test_tokenizer_does_not_depend_on_the_order_of_texts(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    texts = [text for pair in PAIRS for text in pair]
    again = build_tokenizer(reversed(texts), words=TASK.words())
    assert again.get_vocab() == tokenizer.get_vocab()


def test_too_many_words_for_the_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match="vocab_size"):
        build_tokenizer(["x"], words=[f" word{chr(97 + i)}" for i in range(20)], vocab_size=270)


def test_chat_template_opens_the_answer_and_closes_it(tokenizer: PreTrainedTokenizerFast) -> None:
    ask = [{"role": "user", "content": "Hi"}]
    opened = tokenizer.apply_chat_template(ask, tokenize=False, add_generation_prompt=True)
    assert opened == "<|user|>Hi<|assistant|>"
    answered = [*ask, {"role": "assistant", "content": "Yo"}]
    assert tokenizer.apply_chat_template(answered, tokenize=False) == opened + "Yo" + END


def test_same_seed_same_weights_within_the_size(tokenizer: PreTrainedTokenizerFast) -> None:
    first, same, other = (build_model(tokenizer, seed=seed) for seed in (0, 0, 1))
    count = sum(p.numel() for p in first.parameters())
    assert 500_000 < count < 700_000
    pairs = list(zip(first.parameters(), same.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)


def test_folder_loads_with_the_same_logits(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    model = build_model(tokenizer, seed=0).eval()
    save(model, tokenizer, tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_size < 1_500_000
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    again = AutoTokenizer.from_pretrained(tmp_path)
    prompt = PAIRS[0][0]
    ids = again.apply_chat_template(
        [{"role": "user", "content": prompt}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )["input_ids"]
    assert ids.tolist()[0] == tokenizer.encode(f"<|user|>{prompt}<|assistant|>")
    assert again.eos_token == END
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, rtol=1e-3, atol=1e-3)


def test_numbers_and_tags_can_each_be_one_token_wherever_they_stand() -> None:
    tags = ("<step 1>", "</step 1>")
    texts = ["<step 1>12*34=408</step 1>"] * 3
    tokenizer = build_tokenizer(texts, tags=tags, bare_numbers=True)
    ids = tokenizer.encode("x is 34.<step 1>408*(12)</step 1> 34", add_special_tokens=False)
    pieces = [tokenizer.decode([i]) for i in ids]
    assert pieces[5:] == ["34", ".", tags[0], *("408", "*", "(", "12", ")"), tags[1], " ", "34"]
    spaced = "3 <step 1> 5 <step 9>"
    assert tokenizer.decode(tokenizer.encode(spaced, add_special_tokens=False)) == spaced
