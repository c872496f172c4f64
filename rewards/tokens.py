"""Which characters a sampled token wrote: text and spans from the ids' own bytes.

Encoding the text again gives other ids, and a fast tokenizer's own offsets overlap or shift where a
character spans several tokens. So every id keeps its bytes, and the bytes decide.
"""

from __future__ import annotations

import codecs
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from botgrpo.sandbox.errors import ConfigError

TokenSpans = tuple[tuple[int, int], ...]

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_MARK = "\u2581"
_SUPPORTED = (
    "Supported: byte-level BPE (a decoder `ByteLevel`, as in GPT-2, Llama 3, Qwen, SmolLM) and "
    "SentencePiece style (U+2581 for a space, byte fallback <0xNN>, as in Llama 2, Gemma)"
)


class TokenBytes:
    """The bytes of every id of a tokenizer's vocabulary.

    `tokenizer` is a Hugging Face fast tokenizer or a `tokenizers.Tokenizer`; anything else, and
    any decoder that is not built on bytes, raises `ConfigError`. Special tokens have no bytes.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._pieces = _pieces(_backend_json(tokenizer), _special_ids(tokenizer))

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> TokenBytes:
        """The same as the constructor, for those who read better with a verb."""
        return cls(tokenizer)

    @classmethod
    def from_pieces(cls, pieces: Iterable[bytes]) -> TokenBytes:
        """From the bytes of id 0, 1, 2 ... directly, for tokenizers of other libraries."""
        self = cls.__new__(cls)
        self._pieces = list(pieces)
        return self

    def __len__(self) -> int:
        return len(self._pieces)

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of one id; empty for special ids and those past the vocabulary.

        Models pad their output layer past the tokenizer's vocabulary, so such ids can be sampled.
        """
        if token_id < 0:
            raise ConfigError(f"got the token id {token_id}; ids are 0 or larger")
        return self._pieces[token_id] if token_id < len(self._pieces) else b""

    def decode(self, ids: Sequence[int]) -> tuple[str, TokenSpans]:
        """(text, T half-open code-point spans) of sampled ids.

        A character written by several tokens lies in the span of each of them. Bytes that are not
        UTF-8, such as a character cut off at the end, become U+FFFD just as in
        `bytes.decode("utf-8", "replace")`. A token without text has an empty span. Unlike the
        SentencePiece decoder this keeps a leading space: a completion continues a text.
        """
        try:
            parts = [self._pieces[i] for i in ids]
            if parts and min(ids) < 0:
                raise IndexError
        except IndexError:
            parts = [self.bytes_of(i) for i in ids]
        raw = b"".join(parts)
        bad: list[tuple[int, int]] = []
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text, bad = _decode_marking(raw)
        byte_ends_T = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
        if len(text) == len(raw):  # one character a byte: nothing to convert
            ends = byte_ends_T.tolist()
            return text, tuple(zip([0, *ends[:-1]], ends, strict=True)) if ends else ()
        return text, _char_spans(raw, byte_ends_T, bad)


def _char_spans(
    raw: bytes, byte_ends_T: np.ndarray[Any, Any], bad: Sequence[tuple[int, int]]
) -> TokenSpans:
    data = np.frombuffer(raw, dtype=np.uint8)
    opens = (data & 0xC0) != 0x80
    for start, end in bad:
        opens[start:end] = False
        opens[start] = True
    opened = np.zeros(len(data) + 1, dtype=np.int64)  # how many characters before each byte
    np.cumsum(opens, out=opened[1:])
    byte_starts_T = np.zeros_like(byte_ends_T)
    byte_starts_T[1:] = byte_ends_T[:-1]
    ends_T = opened[byte_ends_T]
    # A token's first character is the one that its first byte opens or continues.
    starts_T = opened[np.minimum(byte_starts_T + 1, len(data))] - 1
    starts_T = np.where(byte_starts_T == byte_ends_T, ends_T, starts_T)
    return tuple(zip(starts_T.tolist(), ends_T.tolist(), strict=True))


_local = threading.local()


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    _local.bad.append((error.start, error.end))
    return "\ufffd", error.end


# An error handler is the only way to learn which bytes the decoder took for one U+FFFD.
codecs.register_error("botgrpo.mark", _mark)


def _decode_marking(raw: bytes) -> tuple[str, list[tuple[int, int]]]:
    _local.bad = []
    return raw.decode("utf-8", "botgrpo.mark"), _local.bad


def _backend_json(tokenizer: Any) -> Mapping[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    to_str = getattr(backend, "to_str", None)
    if to_str is None:
        raise ConfigError(
            f"got {type(tokenizer).__name__}, which has no fast backend to read token bytes from. "
            f"{_SUPPORTED}. Load it with AutoTokenizer.from_pretrained(..., use_fast=True)."
        )
    spec: Mapping[str, Any] = json.loads(to_str())
    return spec


def _special_ids(tokenizer: Any) -> set[int]:
    return {int(i) for i in getattr(tokenizer, "all_special_ids", ())}


def _pieces(spec: Mapping[str, Any], special_ids: set[int]) -> list[bytes]:
    to_bytes = _BYTE_LEVEL if _kind(spec) == "byte_level" else None
    vocab = spec["model"]["vocab"]
    named = (
        vocab.items()
        if isinstance(vocab, Mapping)
        else ((piece, i) for i, (piece, _) in enumerate(vocab))
    )
    table: dict[int, bytes] = {
        i: _byte_level(piece, to_bytes) if to_bytes is not None else _sentence_piece(piece)
        for piece, i in named
    }
    for token in spec.get("added_tokens", ()):
        if token["special"]:
            table[token["id"]] = b""
        elif to_bytes is None:
            table[token["id"]] = _sentence_piece(token["content"])
        else:  # added pieces are plain text, not written in the byte alphabet
            table[token["id"]] = token["content"].encode("utf-8", "surrogatepass")
    table.update(dict.fromkeys(special_ids, b""))
    return [table.get(i, b"") for i in range(max(table, default=-1) + 1)]


def _kind(spec: Mapping[str, Any]) -> str:
    decoder = spec.get("decoder") or {}
    parts = decoder.get("decoders", [decoder])
    types = {part.get("type") for part in parts}
    if "ByteLevel" in types:
        return "byte_level"
    marks = any(
        p.get("type") == "Metaspace"
        or (p.get("type") == "Replace" and p.get("pattern", {}).get("String") == _SPACE_MARK)
        for p in parts
    )
    if marks or "ByteFallback" in types:
        return "sentence_piece"
    found = ", ".join(sorted(str(t) for t in types if t)) or "none"
    raise ConfigError(
        f"got a {spec['model'].get('type')} tokenizer with the decoder {found}, whose tokens do "
        f"not stand for bytes. {_SUPPORTED}. Or build TokenBytes.from_pieces from each id's bytes."
    )


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: 188 bytes stand for themselves, the rest for U+0100 and on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in set(plain)]
    return {chr(b): b for b in plain} | {chr(0x100 + n): b for n, b in enumerate(rest)}


_BYTE_LEVEL = _byte_level_alphabet()


def _byte_level(piece: str, to_bytes: Mapping[str, int]) -> bytes:
    try:
        return bytes([to_bytes[c] for c in piece])
    except KeyError:  # a piece outside the alphabet stands for its own text
        return piece.encode("utf-8", "surrogatepass")


def _sentence_piece(piece: str) -> bytes:
    if match := _BYTE_PIECE.fullmatch(piece):
        return bytes([int(match[1], 16)])
    return piece.replace(_SPACE_MARK, " ").encode("utf-8", "surrogatepass")
