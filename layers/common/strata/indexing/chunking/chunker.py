"""Files' parsed documents → their chunks, many files at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain

from strata.indexing.chunking.cutting import Cutter
from strata.indexing.chunking.headers import Header, Headers, header_texts
from strata.indexing.chunking.weighing import Weigher
from strata.indexing.parsed import ParsedDocument
from strata.indexing.reading import source_lines
from strata.model.corpus import Chunk, Layer
from strata.ports.embedding import TokenCounter

_SAMPLE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunker:
    """Cuts the documents of files; `chunk_tokens` counts the context header too.

    `reserved_tokens` of the limit are left for a preamble that is written later.
    """

    counter: TokenCounter
    chunk_tokens: int = 500
    overlap_tokens: int = 50
    reserved_tokens: int = 0

    @property
    def limit(self) -> int:
        return max(1, min(self.chunk_tokens, self.counter.max_tokens) - self.reserved_tokens)

    def cut(self, files: Sequence[tuple[str, Sequence[ParsedDocument]]]) -> list[tuple[Chunk, ...]]:
        """The chunks of each file (path, documents), by document; ordinals count from 0 in each layer of a file.

        None is blank. None is over the limit, as far as tokens of lines add up to the tokens of their text; where a
        sample shows that they do not, everything is cut anew with a lower limit.
        """
        lines_weigher, header_weigher = Weigher(self.counter), Weigher(self.counter)
        header_weigher.prepare(
            text for path, documents in files for parsed in documents for text in header_texts(path, parsed.document)
        )
        lines = [[source_lines(parsed.document.content) for parsed in documents] for _, documents in files]
        for limit in (self.limit, self.limit * 9 // 10, self.limit * 3 // 4, self.limit // 2):
            headers = Headers(header_weigher, max(1, limit))
            cutters = [
                [
                    self._cutter(parsed, of_document, headers.of(path, parsed.document), lines_weigher)
                    for parsed, of_document in zip(documents, of_file, strict=True)
                ]
                for (path, documents), of_file in zip(files, lines, strict=True)
            ]
            lines_weigher.prepare(
                chain.from_iterable(cutter.weighed_texts() for of_file in cutters for cutter in of_file)
            )
            cut = [tuple(_chunks(path, of_file)) for (path, _), of_file in zip(files, cutters, strict=True)]
            if self._fits(cut):
                break
        return cut

    def _cutter(self, parsed: ParsedDocument, lines: list[str], header: Header, weigher: Weigher) -> Cutter:
        overlap = self.overlap_tokens * header.limit // max(1, self.chunk_tokens) if parsed.overlaps else 0
        return Cutter(parsed, lines, header, weigher, overlap=overlap)

    def _fits(self, cut: Sequence[Sequence[Chunk]]) -> bool:
        """Whether those chunks that are likeliest to be over the limit are not."""
        chunks = [chunk for chunks in cut for chunk in chunks]
        longest = nlargest(_SAMPLE, chunks, key=lambda chunk: len(chunk.content))
        most_lines = nlargest(_SAMPLE, chunks, key=lambda chunk: chunk.content.count("\n"))
        counts = self.counter.count([chunk.embedded_text for chunk in (*longest, *most_lines)])
        return max(counts, default=0) <= self.limit


def _chunks(path: str, cutters: Iterable[Cutter]) -> Iterator[Chunk]:
    ordinals: dict[Layer, int] = {}
    for cutter in cutters:
        for piece in cutter.pieces():
            ordinal = ordinals.get(cutter.layer, 0)
            ordinals[cutter.layer] = ordinal + 1
            yield cutter.chunk(path, ordinal, piece)
