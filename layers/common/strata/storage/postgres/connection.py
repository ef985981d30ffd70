"""One connection for a process, and transactions on it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads

from strata.errors import ConfigurationError
from strata.storage.postgres.errors import connection_lost, translated

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

CONNECTION_DEFAULTS = {
    "connect_timeout": "20",  # an Aurora cluster that was paused needs up to 15 s
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "strata",
}


class Database:
    """A lazily made connection that is replaced when it is lost or old.

    A function process serves one request at a time, so there is no pool; threads take turns. Nothing is set at
    session level and no client prepares by name, so a transaction-pooling proxy may stand in between; what
    `strata_prepared` keeps on a server's connection serves whoever comes next as well.
    """

    def __init__(self, url: str, *, max_age_s: float = 1_200.0) -> None:
        self._url = url
        self._max_age_s = max_age_s
        self._connection: Connection | None = None
        self._born_s = 0.0
        self._turn = threading.RLock()
        self._heirs: dict[int, Database] = {}

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction, and once more on a new connection when the first one turns out to be lost.

        So `work` must be safe to repeat even when its first run did commit and only the reply was lost.
        Raises `StoreUnavailable` or `ConfigurationError` for what psycopg raises about the connection and the server.
        """

        def transaction(connection: Connection) -> T:
            with connection.transaction():
                return work(connection)

        return self._repeated(transaction)

    def pipelined(self, work: Callable[[Connection], T]) -> T:
        """Like `transact`, in one round trip: all of `work`'s statements are sent at once and form one transaction.

        (Between two syncs of a pipeline Postgres commits or rolls back everything together; BEGIN and COMMIT of
        `transact` would be waited for.) `work` must not look at results while it runs; it returns a cursor, which is
        read afterwards.
        """

        def sent_at_once(connection: Connection) -> T:
            with connection.pipeline():
                return work(connection)

        return self._repeated(sent_at_once)

    def in_new_process(self) -> Database:
        """The same database for a process that was just forked: one connection of its own for all who ask there."""
        return self._heirs.setdefault(os.getpid(), Database(self._url, max_age_s=self._max_age_s))

    def close(self) -> None:
        """Close the connection; the next transaction makes a new one."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _repeated(self, work: Callable[[Connection], T]) -> T:
        with self._turn, translated():
            try:
                return work(self._open())
            except psycopg.Error as error:
                if self._connection is None or not connection_lost(error, self._connection):
                    raise
                self.close()
                return work(self._open())

    def _open(self) -> Connection:
        if self._connection is not None and time.monotonic() - self._born_s > self._max_age_s:
            self.close()
        if self._connection is None or self._connection.closed:
            self._connection = None  # when the next line fails, there was no connection to lose
            self._connection = connect(self._url)
            self._born_s = time.monotonic()
        return self._connection


def connect(url: str) -> Connection:
    """A connection with autocommit on: transactions are explicit.

    What the URL says goes before the defaults. Raises `ConfigurationError` for a URL that is none, and for one with
    `options`, which RDS Proxy refuses; psycopg's errors for the rest.
    """
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The cause is left out: its text holds parts of the URL, and so perhaps a password.
        raise ConfigurationError("The database URL can't be read; it must be a libpq URI.") from None
    if "options" in parameters:
        raise ConfigurationError("The database URL must not carry `options`; a proxy refuses them.")
    connection = psycopg.connect(
        **{**CONNECTION_DEFAULTS, **parameters},  # type: ignore[arg-type]
        autocommit=True,
        prepare_threshold=None,
    )
    set_json_loads(_from_json, connection)
    return connection


def _from_json(text: str | bytes) -> Any:
    """Postgres sends UTF-8; to find that out takes as long as reading a small object."""
    return json.loads(text if isinstance(text, str) else text.decode())
