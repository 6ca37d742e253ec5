"""Connections to databases: DB-API connections, SQLAlchemy connections and engines, and URLs.

All reading is done in a transaction. One that was already open stays open, with its contents; one that reading opened
is rolled back. A dropped connection is reopened if possible.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deciban.dialects import DIALECTS, SqlDialect, dialect_of
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line

Result = TypeVar("Result")

DRIVERS = {  # packages of drivers, and their databases
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "snowflake": "snowflake",
    "google": "bigquery",
    "pymssql": "mssql",
}
RETRY_DELAYS = (0.1, 1.0)  # seconds
IDLE, ACTIVE, INSIDE, FAILED = range(4)  # transaction states of PostgreSQL's drivers
SAVEPOINT = "deciban_reads"


class DroppedError(EngineError):
    """The connection was dropped."""


@dataclass(eq=False)
class Link:
    """A DB-API or SQLAlchemy connection, or a SQLAlchemy engine that makes them."""

    database: SqlDialect
    connection: Any = field(default=None, repr=False)  # of the DB-API
    engine: Any = field(default=None, repr=False)  # SQLAlchemy's
    secrets: tuple[str, ...] = field(default=(), repr=False)  # must not appear in messages
    reached: bool = False  # whether a connection was ever made

    @contextmanager
    def open(self, rows_named: str, *, together: bool = False, write: bool = False) -> Iterator[Any]:
        """A DB-API connection inside a transaction. Its errors are raised in one line, without passwords.

        `together`: several statements must see the same data, and nothing else uses the connection in the meantime.
        """
        borrowed = None
        raw, errors = self.connection, Exception if self.connection is None else errors_of(self.connection)
        try:
            if self.engine is not None:
                borrowed = self.engine.raw_connection()
                raw = borrowed.dbapi_connection
                errors = errors_of(raw)
            self.reached = True
            with transaction(raw, self.database, together, write, self.engine is not None):
                yield raw
        except DecibanError:
            raise
        except errors as error:
            dropped = self._is_gone(error, raw)
            if borrowed is not None and dropped:
                borrowed.invalidate()
            prefix = "the connection dropped: " if dropped else ""
            kind = DroppedError if dropped else EngineError
            raise kind(f"{rows_named}: {prefix}{self.error_line(error)}; nothing was learned") from None
        finally:
            if borrowed is not None:
                with suppress(Exception):  # it is returned to the pool if possible
                    borrowed.close()

    def retry(self, attempt: Callable[[], Result]) -> Result:
        """The result of an attempt, repeated after a dropped connection if we make connections ourselves."""
        for delay in RETRY_DELAYS if self.engine is not None else ():
            try:
                return attempt()
            except DroppedError:
                time.sleep(delay)
        return attempt()

    def error_line(self, error: BaseException) -> str:
        """An error in one line, with no password in it, and without the statement that PostgreSQL's drivers quote."""
        message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
        for secret in self.secrets:
            message = message.replace(secret, "***")
        return one_line(message.strip()) or type(error).__name__

    def _is_gone(self, error: BaseException, raw: Any) -> bool:
        if raw is None:  # it could not be made; if it never could, the password may be wrong, so do not retry
            return self.reached and "OperationalError" in type(error).__name__
        if self.engine is None:
            return is_closed(raw)
        return is_closed(raw) or bool(self.engine.dialect.is_disconnect(error, raw, None))


def errors_of(raw: Any) -> Any:
    """The class of the driver's errors: Error in the DB-API, in the module or on the connection."""
    parts = type(raw).__module__.split(".")
    for end in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if isinstance(error_class := getattr(module, "Error", None), type):
            return error_class
    return getattr(raw, "Error", Exception)


def link_to(connection: Any, dialect: str | None) -> Link:
    """A link to a database from a connection, an engine or a URL."""
    package = type(connection).__module__.partition(".")[0]
    if isinstance(connection, str):
        return link_by_url(connection, dialect)
    if package == "sqlalchemy":
        sqlalchemy_name = dialect or connection.dialect.name
        if type(connection).__module__.startswith("sqlalchemy.ext.asyncio"):
            raise DecibanError("this is an asynchronous engine: give a synchronous one, or its URL")
        if hasattr(connection, "raw_connection"):
            return Link(dialect_of(sqlalchemy_name), engine=connection, secrets=secrets_of(connection.url))
        raw = connection.connection.dbapi_connection
        return Link(dialect_of(sqlalchemy_name), connection=raw, secrets=secrets_of(connection.engine.url))
    if not hasattr(connection, "cursor") or "Async" in type(connection).__name__:
        raise DecibanError(
            f"{type(connection).__name__} is not a database connection: give a DB-API connection, an SQLAlchemy "
            f"engine or connection, or a URL"
        )
    name = dialect or DRIVERS.get(package)
    if name is None:
        raise DecibanError(
            f"cannot detect which database {type(connection).__module__}.{type(connection).__name__} connects to: "
            f"give dialect=, one of {', '.join(map(repr, DIALECTS))}"
        )
    return Link(dialect_of(name), connection=connection)


def link_by_url(text: str, dialect: str | None) -> Link:
    """A link from a URL, which is in no message: it may contain a password."""
    sqlalchemy = alchemy()
    try:
        url = sqlalchemy.engine.make_url(text)
        if url.drivername in ("postgresql", "postgres") and not is_installed("psycopg2"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "sqlite" and url.database and not url.query and not os.path.exists(url.database):
            raise DecibanError(f"there is no database {one_line(url.database)!r}: check the path")
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    except ModuleNotFoundError as error:
        raise DecibanError(f"the URL names the driver {error.name!r}, which is not installed") from None
    except DecibanError:
        raise
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        raise DecibanError(
            "the database URL cannot be read: write it as postgresql://user:password@host/database, with special "
            "characters of the password encoded, such as %40 for @"
        ) from None
    return Link(dialect_of(dialect or engine.dialect.name), engine=engine, secrets=secrets_of(url))


def secrets_of(url: Any) -> tuple[str, ...]:
    """The password of a URL, plain and as quoted in URLs."""
    from urllib.parse import quote, quote_plus

    if not url.password:
        return ()
    plain = str(url.password)
    return tuple(sorted({plain, quote(plain, safe=""), quote_plus(plain)}, key=len, reverse=True))


def alchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise DecibanError("URLs are opened with SQLAlchemy: pip install 'deciban[sql]'") from None
    return sqlalchemy


def is_installed(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


def is_closed(raw: Any) -> bool:
    """Whether a connection is closed; psycopg2's attribute is a number."""
    return bool(getattr(raw, "closed", False) or getattr(raw, "broken", False))


# ---------------------------------------------------------------------- transactions


@contextmanager
def transaction(raw: Any, database: SqlDialect, together: bool, write: bool, ours: bool) -> Iterator[None]:
    """Statements inside see the same data if the database supports it, and change nothing but what they write."""
    if database.name == "postgresql" and status(raw) is not None:
        with postgresql_transaction(raw, write):
            yield
    elif database.name == "sqlite":
        with sqlite_read_only(raw, ours and not write), sqlite_transaction(raw, together, write):
            yield
    else:  # nothing is known about other databases
        yield
        if write and ours:
            raw.commit()


@contextmanager
def sqlite_transaction(raw: Any, together: bool, write: bool) -> Iterator[None]:
    """A transaction, unless one is open or a single SELECT is all there is."""
    if not (together or write) or getattr(raw, "in_transaction", True):
        yield
        return
    raw.execute("BEGIN")
    try:
        yield
    except BaseException:
        raw.rollback()
        raise
    raw.commit() if write else raw.rollback()


@contextmanager
def sqlite_read_only(raw: Any, nobody_writes: bool) -> Iterator[None]:
    """Makes a connection that nothing else uses read-only: functions called in a SELECT might write."""
    was_read_only = not nobody_writes or bool(raw.execute("PRAGMA query_only").fetchone()[0])
    if not was_read_only:
        raw.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        if not was_read_only:
            raw.execute("PRAGMA query_only = OFF")


def status(raw: Any) -> int | None:
    """The transaction state of PostgreSQL's drivers; None for others."""
    state = getattr(getattr(raw, "info", None), "transaction_status", None)
    return None if state is None else int(state)


@contextmanager
def postgresql_transaction(raw: Any, write: bool) -> Iterator[None]:
    state = status(raw)
    if state == FAILED:
        raise EngineError("the connection is in a failed transaction: roll it back first")
    if state == ACTIVE:
        raise EngineError("the connection is busy with another statement: wait for it, or give another connection")
    nested, autocommit = state == INSIDE, bool(getattr(raw, "autocommit", False))
    # Writing on the same connection while rows are read is an error, rather than rolled back in the end.
    if nested:  # inside an open transaction, a savepoint keeps an error from ending it
        begin = [f"SAVEPOINT {SAVEPOINT}"] + ["SET LOCAL transaction_read_only = on"] * (not write)
        release = [f"RELEASE SAVEPOINT {SAVEPOINT}"]
        undo = [f"ROLLBACK TO SAVEPOINT {SAVEPOINT}", *release]
        done = release if write else undo  # which also ends the read-only state
    else:
        read_only = [] if write else ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"]
        begin, undo, done = ["BEGIN"] * autocommit + read_only, ["ROLLBACK"], ["COMMIT" if write else "ROLLBACK"]
    cursor = raw.cursor()
    try:
        for statement in begin:
            cursor.execute(statement)
        try:
            yield
        except BaseException:
            for statement in undo if not is_closed(raw) else ():
                cursor.execute(statement)
            raise
        for statement in done:
            cursor.execute(statement)
    finally:
        with suppress(Exception):  # of a connection that has dropped
            cursor.close()
