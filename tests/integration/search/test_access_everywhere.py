"""Random people, sessions, files, rights and filters: no entry point shows anybody what they may not read.

Every file holds a secret word of its own, and each output is looked through as text: wherever a path, a quote or a word
of a foreign file came from, it would be seen.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from strata.answering.answer import Answerer
from strata.answering.cache_gate import CacheGate
from strata.contracts.asking import AnswerView
from strata.contracts.frames import sse_frame
from strata.contracts.jobs import JobView
from strata.contracts.searching import RetrievedView
from strata.errors import JobNotFound, SessionNotFound
from strata.jobs.events import TERMINAL, EventFeed, sse_text
from strata.jobs.reading import JobReader
from strata.model.access import Identity
from strata.model.asking import Expansion, Filter, Question, Retrieved
from strata.model.corpus import Layer, Link, LinkKind, ReportedFile
from strata.model.jobs import Job, JobEvent, JobKind, JobReport, JobStatus
from strata.providers.extractive.generator import ExtractiveGenerator
from strata.retrieval.features import FeatureReranker
from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.naming import names_in
from strata.retrieval.retrieve import Retriever
from strata.storage.postgres.connection import Database
from strata.storage.postgres.links import PostgresLinks
from strata.storage.postgres.search import PostgresSearch
from tests.integration.search.test_search_access import without_first_wall
from tests.support.asking import EMBEDDER, FakeQueryCache, ScriptedExpander
from tests.support.factories import identity
from tests.support.fake_jobs import FakeJobStore
from tests.support.search_rows import SearchRows, TextFile

FOLDERS = ("src/", "src/app/", "docs/", "tests/", "hr/")
LAYERS = (Layer.C0_SOURCE_CHUNKS, Layer.C1_SYMBOL_CATALOG, Layer.D3_SECTION_INDEX, Layer.D2_FACT_INDEX)
PEOPLE = (
    identity("ann"),
    identity("bob", groups=["red"]),
    identity("cat", groups=["red", "blue"]),
    identity("dan"),
    identity("ann", tenant="other", groups=["red", "blue"]),
)
PRINCIPALS = ("user:ann", "user:bob", "user:dan", "group:red", "group:blue")
SESSIONS = ("one", "two", "three")


class World:
    """What is stored, who may read it, and every way to it. One cache serves all callers."""

    def __init__(self, rows: SearchRows, seed: int) -> None:
        self.rows = rows
        self.chance = random.Random(seed)
        self.files: dict[str, dict[str, TextFile]] = {name: {} for name in SESSIONS}
        self.number = 0
        self.jobs = FakeJobStore()
        self.links = PostgresLinks(rows.query)
        self.retriever = Retriever(search=rows.search, embedder=EMBEDDER, depth=50)
        self.cache = FakeQueryCache()
        self.answerer = Answerer(
            gate=CacheGate(cache=self.cache, search=rows.search, retrieval_version="test", ttl_s=600),
            retriever=self.retriever,
            search=rows.search,
            generator=ExtractiveGenerator(),
            counter=EMBEDDER,
            max_context_tokens=2_000,
        )
        for name in SESSIONS:
            owner = self.chance.choice(PEOPLE[:4])
            readers = self.chance.sample(PRINCIPALS, self.chance.randint(0, 3))
            rows.session(name, owner, readers=readers, dimension=EMBEDDER.dimension, embedding_model=EMBEDDER.model_id)
            self.change(name, [self.new_file() for _ in range(self.chance.randint(5, 30))])
            self.jobs.create(self.job(name))

    def new_file(self) -> TextFile:
        self.number += 1
        folder, test = self.chance.choice(FOLDERS), self.chance.choice(["", "test_"])
        path, name = f"{folder}{test}file{self.number:03}.md", f"pkg.name{self.number:03}"
        others = [self.chance.randint(max(1, self.number - 8), self.number) for _ in range(3)]  # mostly of its session
        text = f"The lease of secret{self.number:03} lasts {self.number} seconds. See word{self.number % 5}."
        return TextFile(
            path,
            [text],
            layer=self.chance.choice(LAYERS),
            acl=self.random_acl(),
            embeddings=[EMBEDDER.embed_query(text)],
            links=[
                Link(kind=LinkKind.DEFINES, symbol="", target=path, line=1, is_path=True),
                Link(kind=LinkKind.DEFINES, symbol="pkg", target=name, line=1),
                Link(kind=LinkKind.CALLS, symbol=name, target=f"pkg.name{others[0]:03}", line=1),
                Link(kind=LinkKind.MENTIONS, symbol="", target=f"pkg.name{others[1]:03}", line=1),
                Link(kind=LinkKind.DOCUMENTS, symbol="", target=f"file{others[2]:03}.md", line=1, is_path=True),
            ],
        )

    def random_acl(self) -> tuple[str, ...] | None:
        acl = tuple(self.chance.sample(PRINCIPALS, self.chance.randint(0, 2)))
        return None if self.chance.random() < 0.4 else acl

    def change(self, name: str, files: list[TextFile]) -> None:
        self.rows.commit(name, files)
        self.files[name].update({file.path: file for file in files})

    def change_rights_and_delete(self, name: str) -> None:
        paths = self.chance.sample(sorted(self.files[name]), min(4, len(self.files[name])))
        rights = [replace(self.files[name][path], acl=self.random_acl()) for path in paths[:3]]
        self.rows.commit(name, rights=rights, deletes=paths[3:])
        self.files[name].update({file.path: file for file in rights})
        for path in paths[3:]:
            del self.files[name][path]

    def job(self, name: str) -> Job:
        """A job that has something to say about every file, as its rights were then, and failed of one of them."""
        now = datetime(2026, 11, 30, tzinfo=UTC)
        files = list(self.files[name].values())
        said = [
            ReportedFile(
                path=file.path,
                acl=file.acl,
                named=other.path,
                named_acl=other.acl,
                reason=f"About {file.texts[0]}, as {other.path} says",
            )
            for file, other in zip(files, [*files[1:], files[0]], strict=True)
        ]
        worst = next((file for file in said if file.acl is not None), said[0])
        return Job(
            job_id=f"job-{name:a<26}", session_id=name, tenant="acme", kind=JobKind.SNAPSHOT, status=JobStatus.DONE,
            object_key=f"uploads/{name}/job.jsonl", created_at=now, updated_at=now,
            report=JobReport(skipped=tuple(said[::3]), failed=tuple(said[1::3]), notes=tuple(said[2::3])),
            error_code="unsafe_entry", error_message="A file is broken.", error_about=worst,
        )  # fmt: skip

    def may_read(self, caller: Identity, name: str) -> bool:
        return self.rows.twin.sessions[name].readable_by(caller)

    def allowed(self, caller: Identity, name: str, filter: Filter) -> set[str]:
        if not self.may_read(caller, name):
            return set()
        return {row.chunk.path for row in self.rows.twin.allowed(name, caller, filter)}

    def random_filter(self) -> Filter:
        def some(*values: str) -> tuple[str, ...]:
            return tuple(self.chance.sample(values, self.chance.choice([0, 0, 0, 1, 2])))

        return Filter(
            layers=tuple(self.chance.sample(LAYERS, self.chance.choice([0, 0, 1, 2]))),
            path_prefixes=some("src/", "src/app/", "docs/", "hr/"),
            exclude_path_prefixes=some("tests/", "src/app"),
            exclude_like_patterns=some("%test\\_%", "hr/%"),
            prefer_path_prefixes=some("docs/", "hr/"),
            prefer_non_tests=self.chance.random() < 0.3,
        )

    def random_question(self, caller: Identity, name: str) -> Question:
        """Sometimes by a name or words that only one file has, whoever may read it."""
        any_number = self.chance.randint(1, self.number)
        text = self.chance.choice(
            [
                "How many seconds does the lease last?",
                f"secret{any_number:03}",
                f'"lease of secret{any_number:03} lasts" in file{any_number:03}.md',
                f"word{any_number % 5} lease",
            ]
        )
        return Question(
            text=text,
            session_id=name,
            identity=caller,
            filter=self.random_filter(),
            limit=self.chance.choice([1, 5, 10, 50]),
        )

    def entry_points(self, question: Question) -> Iterator[tuple[str, Callable[[], object]]]:
        """Every way to read, and what it gives, as something to look through."""
        name, caller = question.session_id, question.identity

        def shown(found: Retrieved) -> object:
            return RetrievedView.of(name, found, datetime.now(UTC)).model_dump(mode="json")

        every_path = [file.path for files in self.files.values() for file in files.values()]
        every_chunk = [row.chunk_id for rows in self.rows.twin.chunks.values() for row in rows]
        request = self.rows.request(name, question.text, identity=caller, filter=question.filter, limit=question.limit)
        request = replace(request, embedding=EMBEDDER.embed_query(question.text), embedding_model=EMBEDDER.model_id)
        search = self.rows.search.search
        yield "retrieve", lambda: shown(self.retriever.retrieve(question))
        yield (
            "explain",
            lambda: shown(self.retriever.retrieve(replace(question, explain=True))),
        )
        every_secret = " ".join(word for words in self.words.values() for word in words)
        loose_tongued = Retriever(
            search=self.rows.search,
            embedder=EMBEDDER,
            depth=50,
            reranker=FeatureReranker(languages=EMBEDDER.languages),
            expander=ScriptedExpander(Expansion(query=every_secret, passage=every_secret)),
        )
        yield (
            "expanded and reranked",
            lambda: shown(loose_tongued.retrieve(replace(question, explain=True))),
        )
        yield "dense", lambda: asdict(search(replace(request, terms=())))
        yield "lexical", lambda: asdict(search(replace(request, embedding=None, embedding_model=None)))
        yield (
            "exact",
            lambda: asdict(
                search(replace(request, names=names_in(question.text), dense_weight=0.0, lexical_weight=0.0))
            ),
        )
        yield "structural", lambda: asdict(search(replace(request, terms=request.terms[:1], structural_weight=1.0)))
        linked = self.chance.choice(list(self.files[name].values()))
        a_path, a_name = linked.path, linked.links[1].target
        yield "links of a file", lambda: asdict(self.links.links(name, caller, path=a_path, limit=50))
        yield "links of a symbol", lambda: asdict(self.links.links(name, caller, symbol=a_name, limit=50))
        yield "drift", lambda: [asdict(item) for item in self.links.drift(name, caller, limit=200)]
        yield "lexical code", lambda: [asdict(row) for row in self.retriever.retrieve_lexical_code(question)]
        yield "files", lambda: [asdict(row) for row in self.retriever.retrieve_exact_files(name, caller, every_path)]
        yield "pages", lambda: [asdict(file) for file in self.retriever.file_page(name, caller)]
        yield "sources", lambda: self.rows.search.sources(name, caller, every_chunk)
        yield "generation", lambda: self.rows.search.generation(name, caller)
        yield "stream", lambda: b"".join(map(sse_frame, self.answerer.stream(question))).decode()
        yield "answer", lambda: AnswerView.of(self.answerer.stream(question)).model_dump(mode="json")
        yield "cached answer", lambda: AnswerView.of(self.answerer.stream(question)).model_dump(mode="json")
        reader = JobReader(sessions=self.rows.sessions, jobs=self.jobs)
        feed = EventFeed(jobs=self.jobs)
        yield "jobs", lambda: [JobView.of(job).model_dump(mode="json") for job in reader.list_jobs(caller, name)]
        yield "job", lambda: JobView.of(reader.job(caller, self.job(name).job_id)).model_dump(mode="json")
        yield "job events", lambda: self.events(reader, feed, caller, name)
        yield "session", lambda: asdict(reader.session(caller, name))

    def events(self, reader: JobReader, feed: EventFeed, caller: Identity, name: str) -> str:
        job = reader.job(caller, self.job(name).job_id)
        news = feed.after(job.job_id, 0, wait_s=0)
        return sse_text(
            [JobEvent(seq=1, name=TERMINAL, data={})],
            terminal=JobView.of(reader.shown(caller, news.job)).model_dump(mode="json"),
        )

    @property
    def words(self) -> dict[tuple[str, str], tuple[str, str]]:
        """What gives each file away, by session and path: its path, and its secret word."""
        return {
            (session, path): (path, file.texts[0][: len("The lease of secret000")][-9:])
            for session, files in self.files.items()
            for path, file in files.items()
        }

    def foreign_words(self, caller: Identity, *sessions: str, said: str = "") -> set[str]:
        """What may not show where these sessions are read; what the caller has said comes back, and is no leak."""
        readable = {(name, path) for name in sessions for path in self.allowed(caller, name, Filter())}
        return {word for key, words in self.words.items() if key not in readable for word in words if word not in said}

    def check_nothing_foreign(self, question: Question) -> int:
        """Look through what every entry point gives; how many of them showed anything."""
        name, caller = question.session_id, question.identity
        foreign = self.foreign_words(caller, name, said=question.text)
        shown = 0
        for entry_point, call in self.entry_points(question):
            try:
                text = json.dumps(call(), default=str, ensure_ascii=False)
            except (SessionNotFound, JobNotFound):
                assert not self.may_read(caller, name), f"{entry_point} refuses a reader"
                continue
            assert self.may_read(caller, name) or entry_point == "sources", f"{entry_point} serves a stranger"
            assert not [word for word in foreign if word in text], f"{entry_point} shows {question}"
            shown += 1
        return shown


@pytest.fixture(params=[1, 2, 3])
def world(rows: SearchRows, request: pytest.FixtureRequest) -> World:
    return World(rows, request.param)


def test_nobody_sees_what_they_may_not_read_and_everybody_gets_as_many_rows_as_they_may(world: World) -> None:
    shown = 0
    for _ in range(4):
        for _ in range(8):
            caller, name = world.chance.choice(PEOPLE), world.chance.choice(SESSIONS)
            question = world.random_question(caller, name)
            shown += world.check_nothing_foreign(question)
            if not world.may_read(caller, name):
                continue
            layers = question.filter.layers or DEFAULT_LAYERS
            allowed = world.allowed(caller, name, replace(question.filter, layers=layers))
            found = world.retriever.retrieve(question).candidates
            assert {row.path for row in found} <= allowed
            assert len(found) == min(question.limit, len(allowed))
            dense = replace(
                world.rows.request(name, question.text, identity=caller, filter=question.filter, limit=50),
                embedding=EMBEDDER.embed_query(question.text), terms=(),
            )  # fmt: skip
            assert [row.chunk_id for row in world.rows.search.search(dense).candidates] == [
                row.chunk_id for row in world.rows.twin.search(dense).candidates
            ]
        world.change(name, [world.new_file()])
        for changed in SESSIONS:
            world.change_rights_and_delete(changed)
    assert shown > 50


def test_sessions_are_listed_for_their_readers_only(world: World) -> None:
    reader = JobReader(sessions=world.rows.sessions, jobs=world.jobs)
    for caller in PEOPLE:
        listed = {session.session_id for session in reader.list_sessions(caller)}
        assert listed == {name for name in SESSIONS if world.may_read(caller, name)}


def test_the_second_wall_stands_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any condition on tenant, owner, readers and acl in the statements, row-level security hides the same."""
    without_first_wall(monkeypatch)
    for _ in range(12):
        caller, name = world.chance.choice(PEOPLE), world.chance.choice(SESSIONS)
        if world.may_read(caller, name):
            world.check_nothing_foreign(world.random_question(caller, name))


def test_this_walk_sees_a_leak(rows: SearchRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both walls gone (the owner of the tables is not bound by the second), the walk fails."""
    open_to_all = Database(rows.database.owner_url)
    rows.search = PostgresSearch(open_to_all)
    world = World(rows, 1)
    without_first_wall(monkeypatch)
    questions = [world.random_question(caller, name) for caller in PEOPLE[:4] for name in SESSIONS]
    with pytest.raises(AssertionError, match=r" shows | serves a stranger"):
        sum(map(world.check_nothing_foreign, questions))
    open_to_all.close()


def test_this_walk_sees_a_leak_of_a_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identity, "is_named_in", lambda *_: True)
    questions = [world.random_question(caller, name) for caller in PEOPLE[:4] for name in SESSIONS]
    with pytest.raises(AssertionError, match=r"job.* shows "):
        sum(map(world.check_nothing_foreign, questions))
