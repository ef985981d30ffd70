"""A change of one file costs the same in a small session and in a large one, whatever the planner knows of either."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from strata.indexing import PIPELINE_VERSION
from strata.indexing.pipeline import Indexer
from strata.model.jobs import JobKind, Lease
from strata.providers.hashed.embedder import HashedEmbedder
from strata.settings.model import IndexingSettings
from strata.storage.postgres.cache import PostgresBlobCache
from strata.storage.postgres.connection import Database
from strata.storage.postgres.sessions import PostgresSessionStore
from tests.support.factories import identity, job
from tests.support.fake_objects import FakeObjectStore
from tests.support.plans import Touched, recorded_plans
from tests.support.postgres import TestDatabase
from tests.support.uploads import json_lines

SMALL, LARGE = 500, 5_000
EARLIER = 24
"""Sessions that the old statistics know: enough for each partition to hold one."""
NEVER_LEAVES_A_LIST_OUT = 170_000
"""Before, the planner could leave `path = ANY (…)` out of an index scan."""
BATCH = 150
"""Files of a commit while a session grows: too few for statistics to be taken after it."""


def content(number: int, version: int) -> str:
    return (
        f'"""Part {number} of the shop."""\n\nfrom shop.part_{number // 2} import price_{number // 2}\n\n\n'
        f"def price_{number}(amount):\n    return price_{number // 2}(amount) + {version}  # word{number}\n"
    )


def path(number: int) -> str:
    return f"shop/part_{number}.py"


def upsert(number: int, version: int = 0) -> dict[str, Any]:
    return {"op": "upsert", "path": path(number), "content": content(number, version)}


@dataclass
class Project:
    """A session of its own project, changed by the real use case."""

    name: str
    files: int
    jobs: int = 0

    def grow(self, database: Database) -> None:
        for start in range(0, self.files, BATCH):
            self.change(database, [upsert(number) for number in range(start, min(start + BATCH, self.files))])

    def change(self, database: Database, lines: Sequence[Mapping[str, Any]]) -> None:
        embedder, objects, sessions = HashedEmbedder(), FakeObjectStore(), PostgresSessionStore(database)
        self.jobs += 1
        if self.jobs == 1:
            sessions.create(
                session_id=self.name,
                identity=identity(),
                project_id=self.name,
                embedding_model=embedder.model_id,
                dimension=embedder.dimension,
                pipeline_version=PIPELINE_VERSION,
            )
        accepted = replace(
            job(f"job-{self.jobs:026}", session_id=self.name, kind=JobKind.CHANGES), seq=self.jobs, fence=self.jobs
        )
        objects.put(accepted.object_key, json_lines(*lines), content_type="")
        indexer = Indexer(
            sessions=sessions,
            cache=PostgresBlobCache(database),
            objects=objects,
            embedder=embedder,
            settings=IndexingSettings(prepare_workers=1),
        )
        lease = Lease(session_id=self.name, owner="worker", fence=self.jobs, expires_at=accepted.created_at)
        indexer.index_changes(accepted, lease, lambda progress: None)


class Sessions:
    """One of each size in one database, whose statistics were taken when it held next to nothing."""

    def __init__(self, postgres: TestDatabase) -> None:
        self._postgres = postgres
        self._projects = {name: Project(name, files) for name, files in (("small", SMALL), ("large", LARGE))}
        database = Database(postgres.index_url)
        for number in range(EARLIER):
            Project(f"earlier-{number}", 3).grow(database)
        self.analyse()
        for project in self._projects.values():
            project.grow(database)
        database.close()
        with psycopg.connect(postgres.owner_url) as connection:
            self.server_version = connection.info.server_version

    def analyse(self) -> None:
        with psycopg.connect(self._postgres.owner_url, autocommit=True) as owner:
            owner.execute("ANALYZE")

    def change(self, name: str, change: Callable[[int], dict[str, Any]]) -> dict[str, Touched]:
        """What each statement of a change of one file touches, a file near the session's far end."""
        project = self._projects[name]
        with pytest.MonkeyPatch.context() as patch, recorded_plans(patch) as plans:
            database = Database(self._postgres.index_url)
            project.change(database, [change(project.files - 1 - project.jobs % 10)])
            database.close()
        return plans.largest()


@pytest.fixture(scope="module")
def sessions(module_postgres: TestDatabase) -> Sessions:
    return Sessions(module_postgres)


@pytest.mark.parametrize(
    ("change", "statements"),
    [
        pytest.param(lambda number: upsert(number, version=1), 25, id="content"),
        pytest.param(lambda number: {**upsert(number), "acl": ["group:dev"]}, 11, id="rights"),
        pytest.param(lambda number: {"op": "delete", "path": path(number)}, 10, id="deleted"),
    ],
)
@pytest.mark.parametrize("analysed", [False, True], ids=["old statistics", "new statistics"])
def test_no_statement_reads_more_in_a_larger_session(
    sessions: Sessions, change: Callable[[int], dict[str, Any]], statements: int, analysed: bool
) -> None:
    if analysed:
        sessions.analyse()
    elif sessions.server_version < NEVER_LEAVES_A_LIST_OUT:
        pytest.skip("with old statistics Postgres 16 may look up an index by its first column alone")
    small, large = sessions.change("small", change), sessions.change("large", change)
    assert small.keys() == large.keys()
    assert len(large) >= statements
    # A tree may be a page higher for each row that is looked up in it.
    grew = [
        f"{small[statement].rows} rows, {small[statement].pages} pages in the small one\n{touched}"
        for statement, touched in large.items()
        if touched.rows > small[statement].rows * 1.1 + 10 or touched.pages > small[statement].pages * 2 + 20
    ]
    assert not grew, "\n\n".join(grew)
