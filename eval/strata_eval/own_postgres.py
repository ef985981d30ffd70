"""A Postgres for one run, migrated, with the two connections that the functions have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from strata.storage.postgres.connection import Database
from strata.storage.postgres.migrate import migrate
from strata_local.postgres import BundledPostgres, DatabaseUrls


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPostgres:
    """`index` may write, `query` may only read what a caller may see; both are closed with the server's end."""

    urls: DatabaseUrls
    index: Database
    query: Database


@contextmanager
def own_postgres(folder: Path) -> Iterator[OwnPostgres]:
    """Started in this folder; stopped at the end, whatever happens."""
    server = BundledPostgres(
        folder / "postgres", log_path=folder / "postgres.log", passwords_file=folder / "passwords.json"
    )
    urls = server.start()
    try:
        migrate(urls.owner, passwords=urls.passwords)
        with closing(Database(urls.index)) as index, closing(Database(urls.query)) as query:
            yield OwnPostgres(urls=urls, index=index, query=query)
    finally:
        server.stop()
