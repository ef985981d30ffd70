"""Files → chunks → embedded chunks → the cache; safely twice, and nothing that readers see changes.

Work goes in batches of files, so memory is bounded whatever the upload's size. A file that can't be read, or that the
embedder refuses, fails alone; an embedder that refuses everything fails the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from traceback import extract_tb
from typing import Any, TypeVar

import numpy as np

from strata.errors import AboutFile, EmbedderRejected, FileUnreadable, GeneratorRejected
from strata.indexing.chunking.chunker import Chunker
from strata.indexing.chunking.gaps import with_gaps_marked
from strata.indexing.code.parsing import CODE_PARSERS
from strata.indexing.docs.markdown import parse_markdown
from strata.indexing.docs.restructured import parse_restructured
from strata.indexing.docs.windows import parse_text
from strata.indexing.parsed import ParsedSource, Parser
from strata.indexing.plan import SPEAKING_NAMES
from strata.indexing.reading import NOTEBOOK_SUFFIX, read_text, source_lines
from strata.indexing.side_by_side import SideBySide
from strata.model.chat import ModelUsage
from strata.model.corpus import (
    EMBEDDED_LAYERS,
    BlobKey,
    Chunk,
    EmbeddedChunk,
    Link,
    LinkKind,
    Note,
    PreparedBlob,
    SourceFile,
    Vector,
    Vectors,
    text_key_of,
)
from strata.ports.blobs import BlobCache
from strata.ports.clock import unwatched
from strata.ports.embedding import Embedder
from strata.ports.generation import Preambler, Preambles
from strata.retrieval.counting import term_counts

_log = logging.getLogger(__name__)
Refusal = TypeVar("Refusal", EmbedderRejected, GeneratorRejected)

BATCH_FILES = 64
BATCH_BYTES = 512 * 1024
PREAMBLE_BATCH_FILES = 16
EMBED_CHUNKS = 256
"""Chunks of one call to the embedder: a few seconds of work, so that the lease is renewed in between."""
MOST_LINKS = 20_000
"""Of one file: more are a generated one's."""
MAX_NAME_CHARACTERS = 500
"""Of a link: names are parts of an index, whose entry ends at 2,704 bytes."""
NO_TEXT = Note(reason="It holds no text: nothing of it can be found.")
"""A notebook without a word, say; a file of no bytes but blanks is not even taken."""
_LENGTH_TOLERANCE = 1e-3
_MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
_RESTRUCTURED_SUFFIXES = (".rst", ".rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """A file's chunks, without vectors, its links, and what is worth saying about it."""

    chunks: tuple[Chunk, ...]
    links: tuple[Link, ...] = ()
    notes: tuple[Note, ...] = ()


def parser_for(path: str) -> Parser:
    """The parser by the file name's extension; text of any other kind is cut into windows."""
    name = path.rpartition("/")[2].lower()
    if name.endswith((*_MARKDOWN_SUFFIXES, NOTEBOOK_SUFFIX)):
        return parse_markdown
    if name.endswith(_RESTRUCTURED_SUFFIXES):
        return parse_restructured
    return CODE_PARSERS.get(f".{name.rpartition('.')[2]}", parse_text)


def parse_file(source: SourceFile, chunker: Chunker) -> ParsedFile:
    """One file's chunks. Raises `FileUnreadable`."""
    text, parsed = _parsed(source)
    return _file(text, parsed, chunker.cut([(source.path, parsed.documents)])[0])


def _file(text: str, parsed: ParsedSource, chunks: Sequence[Chunk]) -> ParsedFile:
    return ParsedFile(chunks=with_gaps_marked(chunks, source_lines(text)), links=parsed.links, notes=parsed.notes)


def _parsed(source: SourceFile) -> tuple[str, ParsedSource]:
    """The file's text and what its parser makes of it. Raises `FileUnreadable`."""
    text = read_text(source.path, source.content)
    parsed = parser_for(source.path)(source.path, text)
    name = source.path.rpartition("/")[2]
    itself = Link(kind=LinkKind.DEFINES, symbol="", target=source.path, line=1, is_path=True)
    fitting = (link for link in parsed.links if max(len(link.target), len(link.symbol)) <= MAX_NAME_CHARACTERS)
    notes = parsed.notes if parsed.documents or name in SPEAKING_NAMES else (*parsed.notes, NO_TEXT)
    return text, replace(parsed, links=(itself, *islice(dict.fromkeys(fitting), MOST_LINKS)), notes=notes)


def embed(chunks: Sequence[Chunk], embedder: Embedder) -> list[EmbeddedChunk]:
    """The chunks with their terms, in order, with a vector where their layer has any.

    Raises `EmbedderRejected` and `EmbedderUnavailable`.
    """
    return _embedded(chunks, {}, embedder, unwatched)


def _embedded(
    chunks: Sequence[Chunk], known: Mapping[bytes, Vector], embedder: Embedder, advanced: Callable[[], None]
) -> list[EmbeddedChunk]:
    """`known` are vectors by the key of their text: such a text is not embedded again."""
    texts = [chunk.embedded_text for chunk in chunks]
    keys = list(map(text_key_of, texts))
    embedded = [place for place, chunk in enumerate(chunks) if chunk.layer in EMBEDDED_LAYERS]
    vectors = {place: known[keys[place]] for place in embedded if keys[place] in known}
    new = [place for place in embedded if place not in vectors]
    for start in range(0, len(new), EMBED_CHUNKS):
        places = new[start : start + EMBED_CHUNKS]
        fresh = _checked(embedder.embed_documents([texts[place] for place in places]), len(places), embedder.dimension)
        vectors.update(zip(places, fresh, strict=True))
        advanced()
    return [
        EmbeddedChunk(chunk=chunk, embedding=vectors.get(place), terms=terms, text_key=key)
        for place, (chunk, terms, key) in enumerate(zip(chunks, term_counts(texts), keys, strict=True))
    ]


def _checked(vectors: Vectors, count: int, dimension: int) -> Vectors:
    vectors = np.asarray(vectors, dtype=np.float32)
    if vectors.shape != (count, dimension):
        raise EmbedderRejected(
            f"The embedder answered {count} texts with an array of shape {vectors.shape}, not ({count}, {dimension})."
        )
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1.0) <= _LENGTH_TOLERANCE):  # also false for NaN and infinity
        raise EmbedderRejected("The embedder answered with a vector that is not finite or not of length 1.")
    return vectors


@dataclass(slots=True, kw_only=True)
class Prepared:
    """What came of a preparation so far: files now in the cache, and files that failed with their reason."""

    files: int = 0
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readable:
    """A file between parsing and embedding."""

    key: BlobKey
    source: SourceFile
    parsed: ParsedFile
    usage: ModelUsage = field(default_factory=ModelUsage)

    def with_preambles(self, preambles: Preambles) -> _Readable:
        chunks = tuple(
            replace(chunk, preamble=text, metadata={**chunk.metadata, "preamble": text}) if text else chunk
            for chunk, text in zip(self.parsed.chunks, preambles.texts, strict=True)
        )
        return replace(self, parsed=replace(self.parsed, chunks=chunks), usage=preambles.usage)

    def prepared(self, chunks: Sequence[EmbeddedChunk]) -> PreparedBlob:
        return PreparedBlob(
            key=self.key,
            source=self.source.content,
            chunks=tuple(chunks),
            links=self.parsed.links,
            notes=self.parsed.notes,
            usage=self.usage,
        )


@dataclass(slots=True, kw_only=True)
class BatchResult(Prepared):
    """What came of one batch; `refusal` where a model refused all of it."""

    refusal: EmbedderRejected | GeneratorRejected | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """Puts files into the cache of prepared files.

    With a `preambler` one process waits for the chat model, which is what takes the time; batches are small then, so
    that little is paid for twice where a worker ends in between.
    """

    cache: BlobCache
    embedder: Embedder
    chunker: Chunker
    preambler: Preambler | None = None

    def prepare(
        self,
        sources: Iterable[tuple[BlobKey, SourceFile]],
        done: Prepared,
        advanced: Callable[[], None],
        side_by_side: SideBySide[Any, Any] | None = None,
    ) -> None:
        """Prepare each source; `done` is kept up to date, and `advanced` called at least every few seconds.

        `side_by_side` are workers that take batches as `worker` does; without several, this process does.
        Raises `EmbedderRejected` or `GeneratorRejected` when a model has refused every file so far, what `advanced`
        raises, and `WorkerLost`.
        """
        batches = _batches(sources, files=BATCH_FILES if self.preambler is None else PREAMBLE_BATCH_FILES)
        first = list(islice(batches, 2))
        alone = self.preambler is not None or len(first) < 2
        if alone or side_by_side is None or side_by_side.workers < 2:
            for batch in chain(first, batches):
                _add(done, self._batch(batch, advanced))
                advanced()
            return
        for result in side_by_side.results(chain(first, batches), advanced):
            _add(done, result)
            advanced()

    def worker(self) -> Callable[[Sequence[tuple[BlobKey, SourceFile]]], BatchResult]:
        """In a process of its own: with a connection of its own, and the model that we have loaded."""
        preparer = replace(self, cache=self.cache.in_new_process())
        return lambda batch: preparer._batch(batch, unwatched)

    def _batch(self, batch: Sequence[tuple[BlobKey, SourceFile]], advanced: Callable[[], None]) -> BatchResult:
        result = BatchResult()
        readable = self._parse(batch, result, advanced)
        if self.preambler is not None:
            readable = self._preamble(self.preambler, readable, result, advanced)
        blobs = self._embed(readable, result, advanced) if readable else []
        self.cache.keep(blobs)
        result.files = len(blobs)
        return result

    def _parse(
        self, batch: Sequence[tuple[BlobKey, SourceFile]], done: Prepared, advanced: Callable[[], None]
    ) -> list[_Readable]:
        files: list[tuple[BlobKey, SourceFile, str, ParsedSource]] = []
        for key, source in batch:
            try:
                files.append((key, source, *_parsed(source)))
            except FileUnreadable as error:
                done.failed[source.path] = error.message
            except MemoryError:
                raise
            except Exception as error:  # a parser's own fault must not cost the other files, nor the whole job
                where = extract_tb(error.__traceback__)[-1]
                _log.error("A parser failed: %s at %s:%s", type(error).__name__, where.filename, where.lineno)
                done.failed[source.path] = f"Its parser failed on it ({type(error).__name__}); please report the file."
            advanced()
        cut = self.chunker.cut([(source.path, parsed.documents) for _, source, _, parsed in files])
        return [
            _Readable(key=key, source=source, parsed=_file(text, parsed, chunks))
            for (key, source, text, parsed), chunks in zip(files, cut, strict=True)
        ]

    def _preamble(
        self, preambler: Preambler, files: Sequence[_Readable], done: BatchResult, advanced: Callable[[], None]
    ) -> list[_Readable]:
        """The files with their preambles; one that the chat model refuses has failed."""
        texts = [(read_text(file.source.path, file.source.content), file.parsed.chunks) for file in files]
        written: list[_Readable] = []
        for file, preambles in zip(files, preambler.preambles(texts, advanced), strict=True):
            if preambles.refusal is None:
                written.append(file.with_preambles(preambles))
                continue
            done.failed[file.source.path] = preambles.refusal.message
            done.refusal = done.refusal or _about(file, preambles.refusal)
        if written:
            done.refusal = None
        return written

    def _embed(self, files: Sequence[_Readable], done: BatchResult, advanced: Callable[[], None]) -> list[PreparedBlob]:
        known = self.cache.earlier_vectors([file.key for file in files])
        try:
            chunks = [chunk for file in files for chunk in file.parsed.chunks]
            embedded = iter(_embedded(chunks, known, self.embedder, advanced))
            return [file.prepared(list(islice(embedded, len(file.parsed.chunks)))) for file in files]
        except EmbedderRejected as error:
            _log.warning("The embedder refused a batch: %s", error.message)
            blobs = list(self._embed_one_by_one(files, known, done, advanced))
            if blobs:
                done.refusal = None
            return blobs

    def _embed_one_by_one(
        self, files: Sequence[_Readable], known: Mapping[bytes, Vector], done: BatchResult, advanced: Callable[[], None]
    ) -> Iterator[PreparedBlob]:
        for file in files:
            try:
                yield file.prepared(_embedded(file.parsed.chunks, known, self.embedder, advanced))
            except EmbedderRejected as error:
                done.failed[file.source.path] = error.message
                done.refusal = done.refusal or _about(file, error)


def _about(file: _Readable, refusal: Refusal) -> Refusal:
    """What a model says of a file may quote it, so it is for those who may read the file."""
    entry = file.source.entry
    return type(refusal)(about=AboutFile(path=entry.path, reason=refusal.message, acl=entry.acl))


def _add(done: Prepared, result: BatchResult) -> None:
    """Raises `EmbedderRejected` when nothing has been prepared yet and all of this batch was refused."""
    if result.refusal is not None and not done.files:
        raise result.refusal
    done.files += result.files
    done.failed |= result.failed


def _batches(
    sources: Iterable[tuple[BlobKey, SourceFile]], *, files: int
) -> Iterator[list[tuple[BlobKey, SourceFile]]]:
    batch: list[tuple[BlobKey, SourceFile]] = []
    size = 0
    for key, source in sources:
        batch.append((key, source))
        size += len(source.content)
        if len(batch) >= files or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
