"""Brings a database to this version: `python -m strata.storage.postgres.migrate`, a deploy step.

Forward only. Each file of `migrations/` runs once, in a transaction of its own, and is recorded with its checksum.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

import psycopg
from psycopg import errors, sql

from strata.errors import ConfigurationError, StrataError
from strata.storage.postgres.connection import Connection, connect
from strata.storage.postgres.errors import translated

ROLES = ("strata_index", "strata_query")
LEAST_PGVECTOR = (0, 8, 0)
LEDGER = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        name       text PRIMARY KEY,
        checksum   text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


class Migration(NamedTuple):
    """`checksum` is the SHA-256 of the text with newlines as LF."""

    name: str
    text: str
    checksum: str


def migrate(owner_url: str, *, passwords: Mapping[str, str] | None = None) -> list[str]:
    """Apply what is missing, as the owner; the names of what was applied, in order.

    Safe to run at the same time from many places: they wait for each other. `passwords` are set for the roles that it
    names; they leave this process as SCRAM verifiers only. Raises `ConfigurationError` when an applied file has
    changed, when the database is newer than this version, when pgvector is too old, and when one of the two roles
    could pass row-level security.
    """
    with translated(), connect(owner_url) as connection:
        _check_pgvector(connection)
        _make_ledger(connection)
        applied = [migration.name for migration in migrations() if _apply(connection, migration)]
        _check_ledger(connection)
        _check_roles(connection)
        for role, password in (passwords or {}).items():
            _set_password(connection, role, password)
    return applied


def migrations() -> list[Migration]:
    """Every migration of this version, in order."""
    folder = resources.files(__package__).joinpath("migrations")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    texts = [folder.joinpath(name).read_text(encoding="utf-8") for name in names]
    return [
        Migration(name.removesuffix(".sql"), text, hashlib.sha256(text.encode()).hexdigest())
        for name, text in zip(names, texts, strict=True)
    ]


def _make_ledger(connection: Connection) -> None:
    try:
        connection.execute(LEDGER)
    except (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject):
        # Postgres does not guard IF NOT EXISTS against another session that makes the same table; it is there now.
        connection.execute(LEDGER)


def _apply(connection: Connection, migration: Migration) -> bool:
    """Whether the migration was applied by this call."""
    with connection.transaction():
        connection.execute("LOCK TABLE schema_migrations IN EXCLUSIVE MODE")
        found = connection.execute(
            "SELECT checksum FROM schema_migrations WHERE name = %s", [migration.name]
        ).fetchone()
        if found is not None and found[0] != migration.checksum:
            raise ConfigurationError(
                f"Migration {migration.name} was changed after it had been applied; restore the file and add a new one."
            )
        if found is None:
            connection.execute(migration.text.encode())
            connection.execute(
                "INSERT INTO schema_migrations (name, checksum) VALUES (%s, %s)", [migration.name, migration.checksum]
            )
        return found is None


def _check_pgvector(connection: Connection) -> None:
    """The version that is installed, or that would be."""
    row = connection.execute(
        "SELECT coalesce(installed_version, default_version) FROM pg_available_extensions WHERE name = 'vector'"
    ).fetchone()
    version = row[0] if row else "none"
    if not row or tuple(int(part) for part in version.split(".")) < LEAST_PGVECTOR:
        least = ".".join(map(str, LEAST_PGVECTOR))
        raise ConfigurationError(
            f"pgvector {least} or newer is needed, found {version}; install it on the server, or run "
            f"`ALTER EXTENSION vector UPDATE` where an older one is in use."
        )


def _check_ledger(connection: Connection) -> None:
    known = [migration.name for migration in migrations()]
    newer = connection.execute("SELECT name FROM schema_migrations WHERE name <> ALL (%s)", [known]).fetchall()
    if newer:
        raise ConfigurationError(f"The database is newer than this version: it has migration {newer[0][0]}.")


def _check_roles(connection: Connection) -> None:
    rows = connection.execute(
        """
        SELECT r.rolname FROM pg_roles AS r
        WHERE r.rolname = ANY (%s) AND (r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, (
            SELECT c.relowner FROM pg_class AS c WHERE c.oid = 'rag_chunks'::regclass), 'MEMBER'))
        """,
        [list(ROLES)],
    ).fetchall()
    if rows:
        raise ConfigurationError(f"The role {rows[0][0]} could pass row-level security; take that right from it.")


def _set_password(connection: Connection, role: str, password: str) -> None:
    if role not in ROLES:
        raise ConfigurationError(f"{role!r} is no role of Strata's; passwords are set for {', '.join(ROLES)}.")
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(verifier)))


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Migrate `STRATA_OWNER_DATABASE_URL`; set the roles' passwords from `STRATA_INDEX_PASSWORD` and
    `STRATA_QUERY_PASSWORD` where these are given. The exit status.
    """
    url = environment.get("STRATA_OWNER_DATABASE_URL", "")
    if not url:
        print("STRATA_OWNER_DATABASE_URL is not set: the URL of the database's owner.", file=sys.stderr)
        return 2
    given = {role: environment.get(f"{role.upper()}_PASSWORD", "") for role in ROLES}
    try:
        applied = migrate(url, passwords={role: password for role, password in given.items() if password})
    except StrataError as error:
        print(error.message, file=sys.stderr)
        return 1
    except psycopg.Error as error:
        print(f"A migration failed and was rolled back: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"applied {name}" for name in applied) or "nothing to apply")
    return 0


if __name__ == "__main__":
    sys.exit(main())
