"""The store in a PostgreSQL database, which several servers share.

Writers take turns: each transaction holds an advisory lock. So log lines are committed in the order of their numbers,
and a server that has added all sums up to a line has missed none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from deciban.errors import DecibanError
from deciban.server.store.base import Store, StoreError

LOCK = 0x6465636962616E  # "deciban"
CONNECT_SECONDS = 5
BEGIN = "BEGIN"
REASONS = {  # parts of libpq's messages, which may quote a password that is not escaped in the URL
    "Connection refused": "nothing listens at its address",
    "translate host name": "its host is unknown",
    "resolve host": "its host is unknown",
    "timeout": "it does not answer",
    "password authentication failed": "the user or the password is wrong",
    "no password supplied": "it needs a password",
    "does not exist": "there is no such database, user or table",
    "no pg_hba.conf entry": "it does not allow this user from this machine",
}


class PostgresStore(Store):
    """Two connections, which are reopened after a failure."""

    types: ClassVar[dict[str, str]] = {
        "serial": "BIGSERIAL PRIMARY KEY",
        "real": "DOUBLE PRECISION",
        "bytes": "BYTEA",
    }
    shared: ClassVar[bool] = True

    def __init__(self, url: str) -> None:
        super().__init__()
        try:
            import psycopg
        except ImportError:
            raise DecibanError("a store in PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from None
        self._psycopg, self._url = psycopg, url
        self._connections: dict[bool, Any] = {}
        self.prepare()

    def _connection(self, reading: bool) -> Any:
        if reading not in self._connections:
            self._connections[reading] = self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="deciban"
            )
        return self._connections[reading]

    def execute(self, statement: str, values: Sequence[Any] = (), *, reading: bool = False) -> list[tuple[Any, ...]]:
        kept = reading in self._connections
        try:
            cursor = self._connection(reading).execute(statement.replace("?", "%s"), list(values))
            return [] if cursor.description is None else list(cursor.fetchall())
        except self._psycopg.Error as error:
            if self._lost(reading):
                self._drop(reading)
                if kept and (reading or statement == BEGIN):  # the connection was lost earlier: nothing has begun yet
                    return self.execute(statement, values, reading=reading)
            raise self._problem(error) from None  # the error itself may quote values

    def begin(self) -> None:
        self.execute(BEGIN)
        self.execute("SELECT pg_advisory_xact_lock(?)", [LOCK])

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        with suppress(StoreError):
            if False in self._connections:
                self.execute("ROLLBACK")

    def hold(self) -> None:
        """Several servers may use it."""

    def tidy(self) -> None:
        """PostgreSQL's autovacuum does that."""

    def close(self) -> None:
        for reading in (True, False):
            self._drop(reading)

    def _lost(self, reading: bool) -> bool:
        connection = self._connections.get(reading)
        return connection is not None and (connection.closed or connection.broken)

    def _drop(self, reading: bool) -> None:
        connection = self._connections.pop(reading, None)
        if connection is not None:
            with suppress(self._psycopg.Error):
                connection.close()

    def _problem(self, error: Exception) -> StoreError:
        state, text = getattr(error, "sqlstate", None), str(error)
        reason = next((why for part, why in REASONS.items() if part in text), None)
        return StoreError(
            "the database of the store cannot be used ({kind}{state}){reason}",
            kind=type(error).__name__,
            state="" if state is None else f", SQLSTATE {state}",
            reason="" if reason is None else f": {reason}",
        )
