"""The micro policy: a Llama of 0.6M parameters with a 512-piece tokenizer, trained on one CPU core.

Small enough for many seeds, real enough to meet every part of the trainer: it saves and loads as a
Hugging Face folder and has a chat template.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from botgrpo.sandbox.errors import ConfigError

PAD, USER, ASSISTANT, END = "<|pad|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIALS = (PAD, USER, ASSISTANT, END)
VOCAB_SIZE = 512
MERGE_SHARE = 0.08
CONTEXT = 512

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}"
    "{% if m['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

# A word or a run of signs keeps the space before it, a line break keeps its indent.
_PIECE = r"\n *| ?[A-Za-z]+[0-9]*| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s"
# The same with numbers by themselves: a number is one token, wherever it stands.
_PIECE_BARE_NUMBER = r"\n *| ?[A-Za-z]+|[0-9]+| ?[^\sA-Za-z0-9]+|\s"
_SIGN = r"[^\sA-Za-z0-9]"


def build_tokenizer(
    texts: Iterable[str],
    *,
    words: Iterable[str] = (),
    vocab_size: int = VOCAB_SIZE,
    tags: Iterable[str] = (),
    bare_numbers: bool = False,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer in which frequent words are single tokens.

    A model of three layers copies a name from the prompt only if the name is one token in both
    places. Plain BPE spends three or four merges on each rare name; here the most frequent pieces
    of `texts` enter the vocabulary whole (BPE's `ignore_merges`), and the last
    `MERGE_SHARE` of it is left to merges trained on the pieces that did not get in.

    Args:
        texts: what the model will read and write.
        words: pieces that must be single tokens, a leading space included.
        vocab_size: number of tokens, the 4 special ones and the 256 bytes included.
        tags: markup that is one token wherever it stands, for example `<step 1>`.
        bare_numbers: no space belongs to a number, so that one in a sum is the token that it is in
            the prompt; for texts that calculate.

    Raises:
        ConfigError: `vocab_size` leaves no room for `words`.
    """
    tags = list(tags)
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_pieces(tags, bare_numbers)), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in split.pre_tokenize_str(text))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    room = vocab_size - len(SPECIALS) - len(alphabet)
    forced = [split.pre_tokenize_str(word)[0][0] for word in (*words, *tags)]
    whole = _whole_pieces(counts, forced, room)
    rest = {piece: n for piece, n in counts.items() if piece not in whole and len(piece) > 1}
    merged, merges = _merges(rest, room - len(whole), alphabet, set(whole))
    vocab = {token: i for i, token in enumerate([*SPECIALS, *alphabet, *whole, *merged])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=[USER, ASSISTANT],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(
    tokenizer: PreTrainedTokenizerFast, *, seed: int, layers: int = 3, width: int = 128
) -> LlamaForCausalLM:
    """A fresh fp32 Llama for `tokenizer`; the same seed gives the same weights."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 5 // 2,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        # Plain matrix products: on a CPU the fused kernel's backward pass is slower at 150 tokens.
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).float()


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a Hugging Face folder with bf16 weights (1.3 MB); `model` itself is rounded to them.

    Load with `dtype=torch.float32`: weights that are *updated* in bf16 lose small steps.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    model.bfloat16().save_pretrained(folder)
    model.float()
    tokenizer.save_pretrained(folder)


def _pieces(tags: list[str], bare_numbers: bool) -> str:
    """The pattern of one piece: a tag, or what stands between tags."""
    piece = _PIECE_BARE_NUMBER if bare_numbers else _PIECE
    if not tags:
        return piece
    tag = "|".join(map(re.escape, tags))
    return f"{tag}|{piece.replace(_SIGN, f'(?:(?!{tag}){_SIGN})')}"


def _whole_pieces(counts: Counter[str], forced: list[str], room: int) -> dict[str, None]:
    """`forced`, then the most frequent pieces, in an order that depends on nothing but the text."""
    whole = dict.fromkeys(piece for piece in forced if len(piece) > 1)
    limit = room - int(room * MERGE_SHARE)
    if len(whole) > limit:
        raise ConfigError(
            f"{len(whole)} words must be single tokens, but the vocabulary has room for {limit}; "
            "ask for fewer words or raise vocab_size"
        )
    for piece, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if len(whole) == limit:
            break
        if len(piece) > 1:
            whole[piece] = None
    return whole


def _merges(
    counts: dict[str, int], size: int, alphabet: list[str], taken: set[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Up to `size` new tokens and the merges that make them, learned from rare pieces."""
    tokenizer = Tokenizer(models.BPE())
    # A merge may spell a piece that is whole already; it then costs no new token.
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + 2 * size, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(
        (piece for piece, n in sorted(counts.items()) for _ in range(n)), trainer
    )
    learned = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    tokens: list[str] = []
    merges: list[tuple[str, str]] = []
    for left, right in learned:
        if left + right not in taken and left + right not in tokens:
            if len(tokens) == size:
                break
            tokens.append(left + right)
        merges.append((left, right))
    return tokens, merges
