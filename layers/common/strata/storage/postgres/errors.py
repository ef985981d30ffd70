"""psycopg's errors → Strata's, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from strata.errors import ConfigurationError, StoreUnavailable

FAILED_OVER = (
    errors.ReadOnlySqlTransaction,  # the server has become a replica under the connection
    errors.IdleInTransactionSessionTimeout,  # this process stood still for long; the server has hung up
)
TEMPORARY = (
    psycopg.OperationalError,  # the connection, the server's state, a deadlock, a time limit, too many connections
    psycopg.InterfaceError,  # the connection was closed under us
    *FAILED_OVER,
)
NOT_MIGRATED = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.UndefinedObject)


@contextmanager
def translated() -> Iterator[None]:
    """Raise Strata's error for one of psycopg's, `from` it.

    What is left untranslated (a constraint, a type, a syntax) is a fault of ours and stays as it is.
    """
    try:
        yield
    except NOT_MIGRATED as error:
        raise ConfigurationError(
            "The database lacks tables or functions of this version; run `python -m strata.storage.postgres.migrate`."
        ) from error
    except errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "The database user lacks a right: functions connect as strata_index or strata_query, migrations as owner."
        ) from error
    except TEMPORARY as error:
        raise StoreUnavailable("The database can't be reached just now, or ended the statement.") from error


def connection_lost(error: psycopg.Error, connection: psycopg.Connection) -> bool:
    """Whether the same work may be tried once more on a new connection."""
    return connection.closed or isinstance(error, (errors.AdminShutdown, psycopg.InterfaceError, *FAILED_OVER))
