"""What is made of a file, for tests that look at documents and chunks."""

from __future__ import annotations

from collections.abc import Sequence

from strata.indexing.chunking.chunker import Chunker
from strata.indexing.prepare import ParsedFile, parse_file
from strata.indexing.reading import read_text, source_lines, text_of
from strata.model.corpus import Chunk, Layer
from strata.ports.embedding import TokenCounter
from strata.providers.hashed.embedder import HashedEmbedder
from tests.support.factories import source_file

VERBATIM_LAYERS = (Layer.C0_SOURCE_CHUNKS, Layer.D3_SECTION_INDEX)


def parsed(
    path: str, content: bytes | str, *, counter: TokenCounter | None = None, chunk_tokens: int = 500, overlap: int = 50
) -> ParsedFile:
    chunker = Chunker(counter=counter or HashedEmbedder(), chunk_tokens=chunk_tokens, overlap_tokens=overlap)
    return parse_file(source_file(path, content), chunker)


def chunks_of(path: str, content: bytes | str, layer: Layer, *, chunk_tokens: int = 500) -> list[Chunk]:
    return [chunk for chunk in parsed(path, content, chunk_tokens=chunk_tokens).chunks if chunk.layer is layer]


def sections_of(content: bytes | str, path: str = "doc.md") -> list[str]:
    """The section paths of a Markdown file, each once, in order."""
    chunks = chunks_of(path, content, Layer.D3_SECTION_INDEX)
    return list(dict.fromkeys(str(chunk.metadata.get("section", "")) for chunk in chunks))


def assert_true_to_the_source(path: str, content: bytes | str, chunks: Sequence[Chunk]) -> None:
    """What holds for every file: spans, ordinals, no blank chunk, no character that can't be stored."""
    body = content.encode() if isinstance(content, str) else content
    lines = source_lines(read_text(path, body))
    ordinals: dict[Layer, int] = {}
    for chunk in chunks:
        assert chunk.ordinal == ordinals.get(chunk.layer, 0)
        ordinals[chunk.layer] = chunk.ordinal + 1
        assert chunk.content.strip()
        assert chunk.title.strip()
        assert chunk.span.end <= max(1, len(lines))
        for text in (chunk.title, chunk.content, chunk.context):
            assert "\0" not in text
            text.encode("utf-8")
        if chunk.layer in VERBATIM_LAYERS:
            source = text_of(lines, chunk.span)
            is_part_of_a_line = chunk.span.start == chunk.span.end and chunk.content in source
            ends_inside_its_last_line = (
                source.startswith(chunk.content) and chunk.content.count("\n") == chunk.span.end - chunk.span.start
            )
            assert chunk.content == source or is_part_of_a_line or ends_inside_its_last_line


def uncovered_lines(path: str, content: bytes | str, chunks: Sequence[Chunk]) -> list[int]:
    """Lines with text that no chunk of a verbatim layer holds."""
    body = content.encode() if isinstance(content, str) else content
    covered = {
        line
        for chunk in chunks
        if chunk.layer in VERBATIM_LAYERS
        for line in range(chunk.span.start, chunk.span.end + 1)
    }
    lines = source_lines(read_text(path, body))
    return [number for number, line in enumerate(lines, start=1) if line.strip() and number not in covered]
