"""The store in one SQLite file: nothing to install, for one server at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from deciban.server.store.base import Store, StoreError

try:
    import fcntl
except ImportError:  # no such locks on this system: the operator must run only one server
    fcntl = None  # type: ignore[assignment]

BUSY_SECONDS = 10.0  # to wait for `deciban token` and backups


class SqliteStore(Store):
    """SQLite in WAL mode. Every commit is on disk (synchronous=FULL); what is deleted is overwritten with zeros."""

    types: ClassVar[dict[str, str]] = {
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "real": "REAL",
        "bytes": "BLOB",
    }

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = os.path.abspath(path)
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise StoreError(
                "cannot open the store {value!r}: the folder {folder!r} does not exist", value=path, folder=folder
            )
        self._lock: int | None = None
        with suppress(FileExistsError), open(self.path, "xb"):  # readable only by its owner: it holds what people wrote
            os.chmod(self.path, 0o600)
        try:
            self._writer, self._reader = self._connect(), self._connect()
        except sqlite3.Error as error:
            raise self._problem(error) from error
        self.prepare()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def hold(self) -> None:
        """Refuse a second server, which would not know what this one learns."""
        if fcntl is None:
            return
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                "another server uses the store {value!r}: stop it, or use PostgreSQL for several servers",
                value=self.path,
            ) from None

    def execute(self, statement: str, values: Sequence[Any] = (), *, reading: bool = False) -> list[tuple[Any, ...]]:
        try:
            return (self._reader if reading else self._writer).execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._problem(error) from error

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        if self._writer.in_transaction:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")

    def tidy(self) -> None:
        """Move the journal into the file, and truncate it, so that deleted content stays in neither."""
        with self._writing, suppress(StoreError):
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _problem(self, error: sqlite3.Error) -> StoreError:
        return StoreError("the store {file!r} cannot be used: {why}", file=self.path, why=str(error))
