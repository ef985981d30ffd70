from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.indexing.reading import read_text, source_lines
from strata.model.asking import Also, Candidate
from strata.model.corpus import BLANKS_BEFORE, TABLE_HEADER, TOKENS, VERBATIM_LAYERS, Chunk, Layer, Span
from strata.retrieval.merging import merged
from tests.support.parsing import parsed

C0, C1, D3 = Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG, Layer.D3_SECTION_INDEX


def found(chunk: Chunk, *, number: int, blob_sha: str = "sha") -> Candidate:
    return Candidate(
        chunk_id=number, path=chunk.path, layer=chunk.layer, ordinal=chunk.ordinal, title=chunk.title,
        content=chunk.content, span=chunk.span, blob_sha=blob_sha, metadata=chunk.metadata, score=1 / number,
        dense_rank=None, distance=None, lexical_rank=None, bm25=None,
    )  # fmt: skip


def piece(ordinal: int, tokens: int = 100, *, path: str = "a.py", layer: Layer = C0, **more: object) -> Candidate:
    """Ten lines of a file of pieces, an empty line behind each."""
    start = 1 + 11 * ordinal
    chunk = Chunk(
        path=path, layer=layer, ordinal=ordinal, title=f"piece {ordinal}", context=path,
        content="\n".join(f"line {number}" for number in range(start, start + 10)),
        span=Span(start=start, end=start + 9), metadata={TOKENS: tokens},
    )  # fmt: skip
    return replace(found(chunk, number=ordinal + 1), **more)  # type: ignore[arg-type]


def spans(rows: Sequence[Candidate]) -> list[tuple[int, int]]:
    return [(row.span.start, row.span.end) for row in rows]


def joined(rows: Sequence[Candidate], *, most_tokens: int = 500, least_rows: int = 0) -> tuple[Candidate, ...]:
    return merged(rows, most_tokens=most_tokens, least_rows=least_rows)


def test_a_row_takes_its_neighbours_in_and_keeps_its_place() -> None:
    other = piece(0, path="b.py")
    first, rest = joined([piece(1), other, piece(2), piece(0)])
    assert (first.chunk_id, first.title, first.score) == (2, "piece 1", piece(1).score)
    assert first.span == Span(start=1, end=32)
    assert first.content.split("\n") == ["" if n % 11 == 0 else f"line {n}" for n in range(1, 33)]
    assert first.metadata[TOKENS] == 300
    assert first.also == tuple(Also(layer=C0, path="a.py", span=row.span) for row in (piece(2), piece(0)))
    assert rest == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(piece(0), piece(2), id="one stands between them"),
        pytest.param(piece(0), piece(1, path="b.py"), id="another file"),
        pytest.param(piece(0), piece(1, layer=D3), id="another layer"),
        pytest.param(piece(0, layer=C1), piece(1, layer=C1), id="no source text"),
        pytest.param(piece(0), piece(1, blob_sha="new"), id="another content"),
        pytest.param(piece(0, 300), piece(1, 201), id="too long together"),
        pytest.param(piece(0), piece(1, metadata={}), id="a length that is not known"),
        pytest.param(piece(0), piece(1, metadata={TOKENS: 9, BLANKS_BEFORE: True}), id="blanks between them"),
        pytest.param(piece(0), piece(1, span=Span(start=1, end=10)), id="the same lines"),
    ],
)
def test_what_does_not_go_together_stays_apart(one: Candidate, other: Candidate) -> None:
    assert joined([one, other]) == (one, other)
    assert joined([other, one]) == (other, one)


def test_the_better_neighbour_comes_first_and_then_what_fits() -> None:
    rows = [piece(2, 200), piece(3, 150), piece(1, 200), piece(4, 150), piece(0, 150)]
    assert spans(joined(rows)) == [(23, 54), (1, 21)]
    assert spans(joined(rows, most_tokens=350)) == [(23, 43), (1, 21), (45, 54)]


def test_as_many_rows_stay_as_are_asked_for() -> None:
    rows = [piece(number) for number in range(5)]
    assert [len(joined(rows, least_rows=least)) for least in (0, 3, 4, 5, 9)] == [1, 3, 4, 5, 5]
    assert spans(joined(rows, least_rows=4)) == [(1, 21), (23, 32), (34, 43), (45, 54)]


def test_lines_that_two_pieces_share_are_shown_once() -> None:
    first = piece(0)
    second = replace(
        piece(1), span=Span(start=9, end=14), content="\n".join(f"line {number}" for number in range(9, 15))
    )
    (row,) = joined([second, first])
    assert row.content.split("\n") == [f"line {number}" for number in range(1, 15)]


def test_a_row_names_the_definitions_of_all_its_pieces_and_the_table_that_it_begins_in() -> None:
    first = piece(0, metadata={TOKENS: 9, "symbols": ["a", "b"], TABLE_HEADER: "| x |"})
    second = piece(1, metadata={TOKENS: 9, "symbols": ["b", "c"], TABLE_HEADER: "| y |", "tags": ["kept"]})
    (row,) = joined([second, first])
    assert row.metadata == {TOKENS: 18, "symbols": ["a", "b", "c"], TABLE_HEADER: "| x |", "tags": ["kept"]}
    (row,) = joined([second, replace(first, metadata={TOKENS: 9})])
    assert TABLE_HEADER not in row.metadata


_LINES = ["def f():", "    return 1", "", "", " ", "# Title", "word " * 30, "word " * 90, "```", "| a |", "|---|", "\t"]


@given(
    st.sampled_from(["a.py", "a.md", "a.txt", "a.rst"]),
    st.lists(st.sampled_from(_LINES), max_size=40).map("\n".join),
    st.randoms(use_true_random=False),
)
def test_the_text_of_a_merged_row_is_the_source_between_its_lines(path: str, content: str, random) -> None:  # type: ignore[no-untyped-def]
    rows = [
        found(chunk, number=number)
        for number, chunk in enumerate(parsed(path, content, chunk_tokens=60, overlap=20).chunks, 1)
        if chunk.layer in VERBATIM_LAYERS
    ]
    random.shuffle(rows)
    lines = source_lines(read_text(path, content.encode()))
    for row in joined(rows, most_tokens=150):
        if row.also:
            assert row.content == "\n".join(lines[row.span.start - 1 : row.span.end])
            assert row.metadata[TOKENS] <= 150


@pytest.mark.parametrize(
    ("between", "goes_together"),
    [
        pytest.param("\n\n", True, id="empty lines"),
        pytest.param("\n \n", False, id="a blank"),
        pytest.param("\n\t\n\n", False, id="a tab"),
    ],
)
def test_blanks_that_no_piece_holds_keep_pieces_apart(between: str, goes_together: bool) -> None:
    content = "# One\n\n" + "word " * 40 + between + "# Two\n\n" + "word " * 40
    first, second = (
        found(chunk, number=number)
        for number, chunk in enumerate(parsed("a.md", content, chunk_tokens=60).chunks, 1)
        if chunk.layer is D3
    )
    assert len(joined([first, second])) == (1 if goes_together else 2)


def test_the_pieces_of_a_long_line_are_never_put_together() -> None:
    content = "# Title\n\n" + "This is a sentence of words. " * 60 + "\nafter\n"
    rows = [found(chunk, number=number) for number, chunk in enumerate(parsed("a.md", content).chunks, 1)]
    sections = [row for row in rows if row.layer is D3]
    assert len(sections) > 2
    assert joined(sections) == tuple(sections)
