"""What tests of questions need: an indexed project in memory, a cache in a dict, a generator that follows a script."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from strata.answering.answer import Answerer
from strata.answering.cache_gate import CacheGate
from strata.errors import StoreUnavailable
from strata.model.access import Identity, Session
from strata.model.asking import Candidate, Context, Expansion, Filter, Question, Retrieved, SourcePiece
from strata.model.corpus import Chunk, EmbeddedChunk, Layer, Span, blob_sha_of
from strata.model.terms import TermCounts
from strata.ports.caches import QueryCache
from strata.ports.generation import Generator
from strata.providers.extractive.generator import ExtractiveGenerator
from strata.providers.hashed.embedder import HashedEmbedder
from strata.retrieval.analyser import analyse
from strata.retrieval.retrieve import Retriever
from tests.support import factories
from tests.support.chunk_search import FakeChunkSearch, IndexedChunk

SESSION_ID = "demo"
EMBEDDER = HashedEmbedder()
NO_FILTER = Filter()

INDEXING_DOCS = {
    "docs/indexing.md": (
        "# Indexing\n\n"
        "The indexing service turns uploaded files into chunks. Every chunk is embedded once and cached.\n\n"
        "## Lock\n\n"
        "One indexing job per session runs at a time. The lease on a session lasts 60 seconds; its holder renews it.\n"
        "- A holder that dies is followed after its lease.\n"
        "- The fence grows with every holder.\n"
    ),
    "docs/uploads.md": (
        "# Uploads\n\n"
        "An archive with a `..` path is refused as a whole and nothing is written.\n\n"
        "The largest upload is 512 MB. Archives are read as streams and never extracted by name.\n"
    ),
    "docs/ru.md": (
        "# Индексация\n\n"
        "Служба индексации превращает файлы в фрагменты. Блокировка сессии действует 60 секунд.\n\n"
        "Результат операции выражается четырьмя счётчиками.\n"
    ),
    "src/lock.py": (
        '"""The session lock."""\n\n\n'
        "LEASE_S = 60\n\n\n"
        "class SessionLock:\n"
        '    """Holds a session for one worker."""\n\n'
        "    def renew_lease(self, fence: int) -> None:\n"
        '        """Renew the lease; raises LockLost when the fence is no longer the present one."""\n'
        "        self.fence = fence\n"
    ),
}
"""A small project about an indexing service, in English and Russian."""


def question(
    text: str = "How long does a lease last?",
    *,
    session_id: str = SESSION_ID,
    identity: Identity | None = None,
    filter: Filter = NO_FILTER,
    limit: int = 10,
) -> Question:
    return Question(
        text=text, session_id=session_id, identity=identity or factories.identity(), filter=filter, limit=limit
    )


def piece(
    text: str,
    n: int = 1,
    *,
    path: str = "docs/guide.md",
    title: str = "Guide",
    start: int = 1,
    layer: Layer = Layer.D3_SECTION_INDEX,
) -> SourcePiece:
    span = Span(start=start, end=start + text.count("\n"))
    return SourcePiece(
        n=n, path=path, layer=layer, title=title, span=span, blob_sha=blob_sha_of(text.encode()), score=1 / n, text=text
    )


def context(*pieces: SourcePiece | str, text: str = "How long does a lease last?") -> Context:
    """A context of these pieces; a string is the text of a piece of its own file."""
    made = [
        piece(entry, number, path=f"docs/{number}.md") if isinstance(entry, str) else replace(entry, n=number)
        for number, entry in enumerate(pieces, 1)
    ]
    return Context(question=question(text), pieces=tuple(made), tokens=sum(EMBEDDER.count([p.text])[0] for p in made))


@dataclass(frozen=True)
class ScriptedExpander:
    """An `Expander` that always says the same."""

    expansion: Expansion

    def expand(self, question: Question) -> Expansion:
        return self.expansion


def candidate(
    chunk_id: int,
    path: str = "docs/guide.md",
    span: tuple[int, int] = (1, 1),
    *,
    layer: Layer = Layer.D3_SECTION_INDEX,
    content: str = "",
    score: float | None = None,
) -> Candidate:
    return Candidate(
        chunk_id=chunk_id,
        path=path,
        layer=layer,
        ordinal=chunk_id,
        title=path,
        content=content,
        span=Span(start=span[0], end=span[1]),
        blob_sha=blob_sha_of(path.encode()),
        metadata={},
        score=1 / chunk_id if score is None else score,
        dense_rank=chunk_id,
        distance=0.5,
        lexical_rank=None,
        bm25=None,
    )


def retrieved(*candidates: Candidate, generation: int = 1) -> Retrieved:
    return Retrieved(candidates=candidates, generation=generation, embedding_model=EMBEDDER.model_id)


class Project:
    """A session in memory. `index` is a commit: it replaces every file and raises the generation."""

    def __init__(
        self,
        files: Mapping[str, str] = INDEXING_DOCS,
        *,
        owner: Identity | None = None,
        readers: Sequence[str] = (),
        acl: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.search = FakeChunkSearch()
        self._next_id = 1
        self._session = Session(
            session_id=SESSION_ID,
            tenant=factories.TENANT,
            project_id="project",
            repo_id="project",
            owner=(owner or factories.identity()).user,
            readers=tuple(readers),
            generation=0,
            applied_seq=0,
            fence=0,
            embedding_model=EMBEDDER.model_id,
            dimension=EMBEDDER.dimension,
            pipeline_version="1",
        )
        self.index(files, acl=acl)

    def index(self, files: Mapping[str, str], *, acl: Mapping[str, tuple[str, ...]] | None = None) -> None:
        rows = []
        for path, text in files.items():
            for ordinal, (start, end, part) in enumerate(paragraphs(text)):
                made = Chunk(
                    path=path,
                    layer=Layer.C0_SOURCE_CHUNKS if path.endswith(".py") else Layer.D3_SECTION_INDEX,
                    ordinal=ordinal,
                    title=path,
                    context=path,
                    content=part,
                    span=Span(start=start, end=end),
                )
                embedded = EmbeddedChunk(
                    chunk=made,
                    embedding=EMBEDDER.embed_query(made.embedded_text),
                    terms=TermCounts.of(Counter(analyse(made.embedded_text))),
                )
                rows.append(
                    IndexedChunk(
                        chunk_id=self._next_id,
                        embedded=embedded,
                        blob_sha=blob_sha_of(text.encode()),
                        source=text,
                        acl=(acl or {}).get(path),
                    )
                )
                self._next_id += 1
        self._session = replace(self._session, generation=self._session.generation + 1)
        self.search.sessions[SESSION_ID] = self._session
        self.search.chunks[SESSION_ID] = rows
        self.search.average_lengths[SESSION_ID] = dict.fromkeys(Layer, 20.0)

    def let_read(self, *readers: str) -> None:
        """Change who may read; the generation stays, as it does for a change of rights on the session alone."""
        self._session = replace(self._session, readers=readers)
        self.search.sessions[SESSION_ID] = self._session

    def answerer(
        self,
        generator: Generator | None = None,
        *,
        cache: QueryCache | None = None,
        max_context_tokens: int = 2_000,
    ) -> Answerer:
        return Answerer(
            gate=CacheGate(
                cache=FakeQueryCache() if cache is None else cache,
                search=self.search,
                retrieval_version="test",
                ttl_s=60,
            ),
            retriever=self.retriever(),
            search=self.search,
            generator=generator or ExtractiveGenerator(),
            counter=EMBEDDER,
            max_context_tokens=max_context_tokens,
        )

    def retriever(self) -> Retriever:
        return Retriever(search=self.search, embedder=EMBEDDER, depth=50)


def paragraphs(text: str) -> Iterator[tuple[int, int, str]]:
    """First line, last line and text of each block between blank lines."""
    lines = text.split("\n")
    start = 0
    for number in range(len(lines) + 1):
        if number == len(lines) or not lines[number].strip():
            if part := "\n".join(lines[start:number]):
                yield start + 1, number, part
            start = number + 1


class FakeQueryCache:
    """A `QueryCache` in a dict, open to tests; time stands still."""

    def __init__(self) -> None:
        self.kept: dict[str, Retrieved] = {}

    def get(self, key: str) -> Retrieved | None:
        return self.kept.get(key)

    def put(self, key: str, retrieved: Retrieved, *, ttl_s: int) -> None:
        self.kept[key] = retrieved


class BrokenQueryCache:
    """A `QueryCache` that can't be reached."""

    def get(self, key: str) -> Retrieved | None:
        raise StoreUnavailable

    def put(self, key: str, retrieved: Retrieved, *, ttl_s: int) -> None:
        raise StoreUnavailable


@dataclass
class ScriptedGenerator:
    """Says these deltas, `pause_s` apart, whatever is asked; then raises `error`, if there is one.

    `said` counts the deltas that were asked for, `closed` is set when the reader has let go of the iterator.
    """

    deltas: Sequence[str]
    pause_s: float = 0.0
    error: Exception | None = None
    first_pause_s: float = 0.0
    model_id: str = "scripted"
    said: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def generate(self, context: Context) -> Iterator[str]:
        try:
            time.sleep(self.first_pause_s)
            for delta in self.deltas:
                self.said += 1
                yield delta
                time.sleep(self.pause_s)
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()
