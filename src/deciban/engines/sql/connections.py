"""Connections to databases as people have them, used with care.

Whatever is read is read in a transaction that is ended by whoever began it: one that was open stays open, with what is
in it, and one that reading opened is rolled back. A connection that we may make again is made again when it drops.
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

DRIVERS = {  # packages of drivers, and whose they are
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
WAITS = (0.1, 1.0)  # seconds before a dropped connection is made again
IDLE, ACTIVE, INSIDE, FAILED = range(4)  # what PostgreSQL's drivers say of a transaction
SAVEPOINT = "deciban_reads"


class DroppedError(EngineError):
    """The connection is gone."""


@dataclass(eq=False)
class Link:
    """A connection of the DB-API or of SQLAlchemy's, or an engine of SQLAlchemy's that makes them."""

    database: SqlDialect
    connection: Any = field(default=None, repr=False)  # of the DB-API
    engine: Any = field(default=None, repr=False)  # SQLAlchemy's
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what no message may say
    reached: bool = False  # whether the database has answered yet

    @contextmanager
    def open(self, called: str, *, together: bool = False, write: bool = False) -> Iterator[Any]:
        """A connection of the DB-API inside of a transaction. Its errors are told in one line, without passwords.

        `together`: several statements are to see the same data, and nobody else uses the connection meanwhile.
        """
        lent = None
        raw, errors = self.connection, Exception if self.connection is None else errors_of(self.connection)
        try:
            if self.engine is not None:
                lent = self.engine.raw_connection()
                raw = lent.dbapi_connection
                errors = errors_of(raw)
            self.reached = True
            with transaction(raw, self.database, together, write, self.engine is not None):
                yield raw
        except DecibanError:
            raise
        except errors as error:
            gone = self._is_gone(error, raw)
            if lent is not None and gone:
                lent.invalidate()
            what = "the connection dropped: " if gone else ""
            kind = DroppedError if gone else EngineError
            raise kind(f"{called}: {what}{self.said(error)}; nothing was learned") from None
        finally:
            if lent is not None:
                with suppress(Exception):  # it is given back as far as that is possible
                    lent.close()

    def again(self, attempt: Callable[[], Result]) -> Result:
        """What an attempt gives; where we make connections ourselves, anew after one has dropped."""
        for wait in WAITS if self.engine is not None else ():
            try:
                return attempt()
            except DroppedError:
                time.sleep(wait)
        return attempt()

    def said(self, error: BaseException) -> str:
        """An error in one line, with no password in it."""
        said = str(error)
        for secret in self.secrets:
            said = said.replace(secret, "***")
        return one_line(said.strip()) or type(error).__name__

    def _is_gone(self, error: BaseException, raw: Any) -> bool:
        if raw is None:  # it could not be made; where it never could, a password may be wrong, and is not tried again
            return self.reached and "OperationalError" in type(error).__name__
        if self.engine is None:
            return is_closed(raw)
        return is_closed(raw) or bool(self.engine.dialect.is_disconnect(error, raw, None))


def errors_of(raw: Any) -> Any:
    """The class of the driver's errors, which the DB-API calls Error, in the module or at the connection."""
    parts = type(raw).__module__.split(".")
    for end in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if isinstance(found := getattr(module, "Error", None), type):
            return found
    return getattr(raw, "Error", Exception)


def link_to(connection: Any, dialect: str | None) -> Link:
    """How to reach a database, from whatever people have: a connection, an engine, a URL."""
    package = type(connection).__module__.partition(".")[0]
    if isinstance(connection, str):
        return link_by_url(connection, dialect)
    if package == "sqlalchemy":
        name = dialect or connection.dialect.name
        if type(connection).__module__.startswith("sqlalchemy.ext.asyncio"):
            raise DecibanError("this is an asynchronous engine: give a synchronous one, or its URL")
        if hasattr(connection, "raw_connection"):
            return Link(dialect_of(name), engine=connection, secrets=secrets_of(connection.url))
        raw = connection.connection.dbapi_connection
        return Link(dialect_of(name), connection=raw, secrets=secrets_of(connection.engine.url))
    if not hasattr(connection, "cursor") or "Async" in type(connection).__name__:
        raise DecibanError(
            f"{type(connection).__name__} is no connection to a database: give one of the DB-API, one of SQLAlchemy's, "
            "or a URL"
        )
    found = dialect or DRIVERS.get(package)
    if found is None:
        raise DecibanError(
            f"it cannot be told which database {type(connection).__module__}.{type(connection).__name__} leads to: say "
            f"dialect=, one of {', '.join(map(repr, DIALECTS))}"
        )
    return Link(dialect_of(found), connection=connection)


def link_by_url(text: str, dialect: str | None) -> Link:
    """The URL itself is in no message: it may have a password in it."""
    sqlalchemy = alchemy()
    try:
        url = sqlalchemy.engine.make_url(text)
        if url.drivername in ("postgresql", "postgres") and not is_installed("psycopg2"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "sqlite" and url.database and not url.query and not os.path.exists(url.database):
            raise DecibanError(f"there is no database {one_line(url.database)!r}: is the path right?")
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    except ModuleNotFoundError as error:
        raise DecibanError(f"the URL asks for the driver {error.name!r}, which is not installed") from None
    except DecibanError:
        raise
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        raise DecibanError(
            "the URL of the database cannot be read: it is such as postgresql://user:password@host/database, with "
            "what is special in a password written as %40"
        ) from None
    return Link(dialect_of(dialect or engine.dialect.name), engine=engine, secrets=secrets_of(url))


def secrets_of(url: Any) -> tuple[str, ...]:
    """The password of a URL, as it is and as it is written."""
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
    """Whether a connection says that it is closed; psycopg2's says so by a number."""
    return bool(getattr(raw, "closed", False) or getattr(raw, "broken", False))


# ---------------------------------------------------------------------- transactions


@contextmanager
def transaction(raw: Any, database: SqlDialect, together: bool, write: bool, ours: bool) -> Iterator[None]:
    """What is inside sees the same data where the database can do so, and leaves no trace but what it writes."""
    if database.name == "postgresql" and status(raw) is not None:
        with postgresql_transaction(raw, write):
            yield
    elif database.name == "sqlite" and (together or write) and not getattr(raw, "in_transaction", True):
        raw.execute("BEGIN")
        try:
            yield
        except BaseException:
            raw.rollback()
            raise
        raw.commit() if write else raw.rollback()
    else:  # a SELECT of SQLite's by itself opens none, and of what others open nothing is known
        yield
        if write and ours:
            raw.commit()


def status(raw: Any) -> int | None:
    """What PostgreSQL's drivers know of the transaction."""
    found = getattr(getattr(raw, "info", None), "transaction_status", None)
    return None if found is None else int(found)


@contextmanager
def postgresql_transaction(raw: Any, write: bool) -> Iterator[None]:
    now = status(raw)
    if now == FAILED:
        raise EngineError("the connection is inside of a transaction that has failed: roll it back first")
    if now == ACTIVE:
        raise EngineError("the connection is busy with another statement: wait for it, or give another connection")
    inside, auto = now == INSIDE, bool(getattr(raw, "autocommit", False))
    begin, undo, done = (
        [f"SAVEPOINT {SAVEPOINT}"],
        f"ROLLBACK TO SAVEPOINT {SAVEPOINT}",
        f"RELEASE SAVEPOINT {SAVEPOINT}",
    )
    if not inside:  # otherwise an error would end somebody's transaction: back to where we were, it goes on
        # Who writes with the same connection meanwhile is told so, rather than rolled back in the end.
        reads = [] if write else ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"]
        begin, undo, done = ["BEGIN"] * auto + reads, "ROLLBACK", "COMMIT" if write else "ROLLBACK"
    cursor = raw.cursor()
    try:
        for one in begin:
            cursor.execute(one)
        try:
            yield
        except BaseException:
            if not is_closed(raw):
                cursor.execute(undo)
                if inside:
                    cursor.execute(done)
            raise
        cursor.execute(done)
    finally:
        with suppress(Exception):  # of a connection that has dropped
            cursor.close()
