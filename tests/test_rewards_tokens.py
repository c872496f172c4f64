from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from botgrpo.rewards.tokens import TokenBytes
from botgrpo.sandbox.errors import ConfigError

TEXTS = [
    "export default function App() { return <p>hello</p>; }",
    "const a = '🤨é漢'; const b = 1;\n\tlet 漢字 = \"naïve\";",
    "👩‍👩‍👧 emoji families and 🏳️‍🌈 flags",
]


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|im_end|>", "<|im_start|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_tokens(["<think>", "à la"])
    return tokenizer


@pytest.fixture(scope="module")
def table(byte_level: Tokenizer) -> TokenBytes:
    return TokenBytes(byte_level)


@pytest.fixture(scope="module")
def sentence_piece() -> Tokenizer:
    pieces = ["<unk>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "b", "▁a", "é"]
    tokenizer = Tokenizer(
        models.BPE({p: i for i, p in enumerate(pieces)}, [("▁", "a")], byte_fallback=True)
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.add_tokens(["▁▁"])
    return tokenizer


def naive_spans(parts: list[bytes]) -> tuple[str, list[tuple[int, int]]]:
    """Which characters each part touches, found by decoding every prefix."""
    raw = b"".join(parts)
    text = raw.decode("utf-8", "replace")
    char_of_byte: list[int] = []
    position = 0
    for index, char in enumerate(text):
        width = len(char.encode("utf-8", "surrogatepass"))
        if raw[position : position + width] != char.encode("utf-8", "surrogatepass"):
            width = next(
                w
                for w in (1, 2, 3)
                if raw[position:].decode("utf-8", "replace")[1:]
                == raw[position + w :].decode("utf-8", "replace")
            )
        char_of_byte += [index] * width
        position += width
    spans, at = [], 0
    for part in parts:
        touched = char_of_byte[at : at + len(part)]
        at += len(part)
        spans.append((touched[0], touched[-1] + 1) if touched else (-1, -1))
    return text, spans


@given(st.text(min_size=0, max_size=60))
@settings(max_examples=200, deadline=None)
def test_decoding_sampled_ids_gives_the_tokenizers_own_text(
    byte_level: Tokenizer, table: TokenBytes, text: str
):
    ids = byte_level.encode(text).ids
    decoded, spans = table.decode(ids)
    assert decoded == text
    assert len(spans) == len(ids)


@given(st.lists(st.binary(max_size=4), max_size=12))
@settings(max_examples=600, deadline=None)
def test_spans_are_the_characters_that_a_tokens_bytes_touch_even_in_broken_utf8(parts):
    table = TokenBytes.from_pieces(parts)
    text, spans = table.decode(range(len(parts)))
    expected_text, expected = naive_spans(parts)
    assert text == expected_text
    for part, span, wanted in zip(parts, spans, expected, strict=True):
        assert span == wanted if part else span[0] == span[1]


@given(st.text(min_size=1, max_size=30), st.data())
@settings(max_examples=300, deadline=None)
def test_cutting_text_at_any_bytes_covers_every_character(text, data):
    raw = text.encode("utf-8", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    edges = [0, *cuts, len(raw)]
    parts = [raw[a:b] for a, b in itertools.pairwise(edges)]
    decoded, spans = TokenBytes.from_pieces(parts).decode(range(len(parts)))
    assert decoded == raw.decode()
    assert {c for a, b in spans for c in range(a, b)} == set(range(len(decoded)))


def test_each_token_of_a_split_character_covers_it():
    table = TokenBytes.from_pieces([b"a", b"\xf0\x9f", b"\xa4\xa8b"])
    assert table.decode([0, 1, 2]) == ("a🤨b", ((0, 1), (1, 2), (1, 3)))


def test_a_character_cut_off_at_the_end_becomes_one_replacement_character():
    table = TokenBytes.from_pieces([b"ok", b"\xf0\x9f", b"\xa4"])
    assert table.decode([0, 1, 2]) == ("ok�", ((0, 2), (2, 3), (2, 3)))


def test_special_tokens_have_neither_text_nor_span(byte_level: Tokenizer):
    end = byte_level.token_to_id("<|im_end|>")
    ids = [*byte_level.encode("hé").ids, end]
    text, spans = TokenBytes(byte_level).decode(ids)
    assert text == "hé"
    assert spans[-1] == (2, 2)


def test_added_tokens_that_are_not_special_keep_their_text(byte_level: Tokenizer):
    ids = [byte_level.token_to_id("<think>"), byte_level.token_to_id("à la")]
    assert TokenBytes(byte_level).decode(ids) == ("<think>à la", ((0, 7), (7, 11)))


def test_ids_past_the_vocabulary_are_empty_and_negative_ones_an_error(byte_level: Tokenizer):
    table = TokenBytes(byte_level)
    assert table.decode([len(table) + 5]) == ("", ((0, 0),))
    with pytest.raises(ConfigError, match="0 or larger"):
        table.decode([-1])


def test_sentence_piece_style_spaces_and_byte_fallback(sentence_piece: Tokenizer):
    ids = [sentence_piece.token_to_id(p) for p in ("▁a", "<0xE6>", "<0xBC>", "<0xA2>", "é", "▁▁")]
    end = sentence_piece.token_to_id("</s>")
    text, spans = TokenBytes(sentence_piece).decode([*ids, end])
    assert text == " a漢é  "
    assert spans == ((0, 2), (2, 3), (2, 3), (2, 3), (3, 4), (4, 6), (6, 6))


def test_a_word_piece_tokenizer_is_refused_with_what_is_supported():
    tokenizer = Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(ConfigError, match=r"WordPiece.*Supported: byte-level BPE"):
        TokenBytes(tokenizer)


def test_an_object_without_a_fast_backend_is_refused():
    with pytest.raises(ConfigError, match="no fast backend"):
        TokenBytes(object())


def test_no_ids_give_no_text():
    assert TokenBytes.from_pieces([b"a"]).decode([]) == ("", ())
