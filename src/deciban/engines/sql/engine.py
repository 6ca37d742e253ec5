"""Tables of any database that has a connection: it adds up by itself, or gives its rows out."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import count
from typing import Any, ClassVar

import pyarrow as pa

from deciban.dialects import DIALECTS
from deciban.engines.base import Answer, Sum, Watch, Work, thinned
from deciban.engines.sql import column_types
from deciban.engines.sql.connections import Link, errors_of, link_to
from deciban.engines.sql.duckdb import DuckDB, duckdb, is_duckdbs
from deciban.engines.sql.expressions import ROWS as ALIAS
from deciban.engines.sql.fetched import ROWS, Fetched
from deciban.engines.sql.push_down import PushDown
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line

CELLS = 1 << 21  # of a table: rows come as Python's objects, which are large
PLACES = 64  # from which a sample is taken, at least, where rows are numbered or lie in pages
PER_PAGE = 50  # rows, where PostgreSQL has not counted them
NUMBERS = count()
NEWLINE = "\n"  # the last line of a SELECT may end in a comment
QUERIED = "rows of the query"  # what a SELECT over a SELECT calls its rows


def table(
    connection: Any,
    name: str | Sequence[str] | None = None,
    *,
    schema: str | None = None,
    query: str | None = None,
    dialect: str | None = None,
) -> Sql | DuckDB:
    """Rows of a database, to learn from or to answer where they are.

    Where the model's sums can be said in SQL, the database adds them up and only sums leave it; otherwise rows are
    fetched a batch at a time. Nothing is written, no transaction is left open, and none that is open is ended.

    Parameters
    ----------
    connection : connection, engine or URL
        A DB-API connection (sqlite3, psycopg, psycopg2, …), an engine or a connection of SQLAlchemy's, a connection
        of DuckDB's, or a URL such as "postgresql://user:password@host/database". With an engine or a URL, a connection
        that drops is made again, at most twice.
    name : str or tuple of str
        The table or view; ("schema", "table") where it is not in the usual schema. Names are taken as they are.
    schema : str, optional
        The schema, by itself.
    query : str, optional
        A SELECT instead of a name.
    dialect : str, optional
        "postgresql", "sqlite", "mysql", "snowflake", "bigquery" or "mssql", where the connection does not tell.

    >>> import sqlite3
    >>> from deciban.engines.sql.engine import table
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE flowers (petal REAL, kind TEXT)")
    >>> _ = connection.execute("INSERT INTO flowers VALUES (1.4, 'setosa'), (4.7, 'versicolor'), (NULL, 'setosa')")
    >>> rows = table(connection, "flowers")
    >>> rows
    <sql: table 'flowers'>
    >>> rows.to_arrow().to_pydict()
    {'petal': [1.4, 4.7, None], 'kind': ['setosa', 'versicolor', 'setosa']}
    """
    if (name is None) == (query is None):
        raise DecibanError("give the name of a table, or query=, a SELECT; one of them")
    parts = () if name is None else (name,) if isinstance(name, str) else tuple(name)
    parts = parts if schema is None else (schema, *parts)
    if is_duckdbs(connection) or (isinstance(connection, str) and connection.startswith("duckdb:")):
        return duckdb_table(connection, parts, query)
    return Sql(link_to(connection, dialect), parts, query)


def duckdb_table(connection: Any, parts: tuple[str, ...], query: str | None) -> DuckDB:
    called = said(parts)
    names = ".".join(DIALECTS["duckdb"].identifier(part) for part in parts)
    try:
        if isinstance(connection, str):
            path = connection.removeprefix("duckdb:").removeprefix("///").partition("?")[0] or ":memory:"
            connection = duckdb().connect(path, read_only=path != ":memory:")
        # Within another SELECT, nothing but a SELECT can stand.
        return DuckDB(connection.sql(f"SELECT * FROM {names or f'({trimmed(query)}{NEWLINE})'}"), called)
    except duckdb().Error as error:
        raise EngineError(f"{called}: {one_line(str(error))}") from None


def trimmed(query: str | None) -> str:
    """A SELECT as it can stand within another."""
    return (query or "").strip().rstrip(";").rstrip()


def said(parts: Sequence[str]) -> str:
    """What to call the source. A SELECT is not shown: it may hold what is nobody's business."""
    return f"table {one_line('.'.join(parts))!r}" if parts else "the query"


class Sql(Fetched):
    """A table, a view or a SELECT of a database."""

    name: ClassVar[str] = "sql"

    def __init__(self, link: Link, parts: tuple[str, ...], query: str | None = None) -> None:
        self.link, self.parts, self.rows_named = link, parts, said(parts)
        self.query = None if query is None else trimmed(query)
        if self.query is None:
            self.source = ".".join(link.database.identifier(part) for part in parts)
        else:
            self.source = f"({self.query}\n)"  # on a line of its own: the last one may end in a comment
        self.columns = link.again(self._look)
        self._schema = pa.schema([(column.name, column.kind) for column in self.columns])

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _look(self) -> list[column_types.TypedColumn]:
        with self.link.open(self.rows_named) as raw:
            found = column_types.columns_of(cursor_of(raw), self.link.database.name, self.source, self.parts)
        names = [column.name for column in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DecibanError(f"{self.rows_named} has several columns named {one_line(twice[0])!r}: name them apart")
        return found

    # ------------------------------------------------------------------ rows

    def tables(self) -> Generator[pa.Table, None, None]:
        with self.link.open(self.rows_named) as raw:
            yield from self._fetched(raw, self._select())

    def _fetched(self, raw: Any, statement: str, rows: int | None = None) -> Generator[pa.Table, None, None]:
        """The rows of a SELECT over our columns; of PostgreSQL, through a cursor that the server keeps."""
        step = rows or max(1024, min(ROWS, CELLS // max(1, len(self.columns))))
        cursor = cursor_of(raw)
        try:
            if self.link.database.name == "postgresql":
                kept = f"deciban_rows_{next(NUMBERS)}"
                cursor.execute(f"DECLARE {kept} NO SCROLL CURSOR FOR {statement}")
                fetch = f"FETCH FORWARD {step} FROM {kept}"
                while found := executed(cursor, fetch):
                    yield self._table(found)
                cursor.execute(f"CLOSE {kept}")
                return
            cursor.execute(statement)
            while found := cursor.fetchmany(step):
                yield self._table(found)
        finally:
            cursor.close()

    def _table(self, rows: Sequence[Sequence[Any]]) -> pa.Table:
        arrays = [
            column.array(values, self.rows_named)
            for column, values in zip(self.columns, zip(*rows, strict=True), strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _select(self, after: str = "", before: str = "") -> str:
        listed = ", ".join(column.selected(self.link.database) for column in self.columns)
        return f"SELECT {before}{listed} FROM {self.source} AS {ALIAS}{after}"

    def _limited(self, rows: int, order: str = "") -> str:
        return self.link.database.limited(self._select(order).removeprefix("SELECT "), rows)

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """Where the connection drops, all is begun anew: what was added up before does not count."""
        return self.link.again(lambda: super(Sql, self).collect(work, watch))

    def apply(self, answer: Answer, fields: pa.Schema) -> Generator[pa.Table, None, None]:
        """Tables of rows and their answers, found as they are drawn."""
        self._with_answers(fields)
        return self._beside(answer, fields)

    # ------------------------------------------------------------------ sample

    def sample(self, rows: int) -> pa.Table:
        """PostgreSQL gives some of its pages, SQLite rows by number; others sort by chance and keep the first."""
        return self.link.again(lambda: self._sample(rows))

    def _sample(self, rows: int) -> pa.Table:
        with self.link.open(self.rows_named, together=True) as raw:
            first = self._whole(raw, self._limited(rows + 1), rows + 1)
            if first.num_rows <= rows:
                return first
            found = None
            if self.parts and self.link.database.name == "postgresql":
                found = self._pages(raw, rows)
            elif self.parts and self.link.database.name == "sqlite":
                found = self._runs(raw, rows)
            if found is None:
                found = self._whole(raw, self._limited(rows, f" ORDER BY {self.link.database.random}"), rows)
            return thinned(found, rows)

    def _whole(self, raw: Any, statement: str, rows: int) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *self._fetched(raw, statement, min(rows, ROWS))])

    def _pages(self, raw: Any, rows: int) -> pa.Table | None:
        """Rows of pages here and there; None where it is no plain table."""
        literal = DIALECTS["postgresql"].quoted(self.source)
        cursor = cursor_of(raw)
        about = executed(
            cursor,
            "SELECT relkind IN ('r', 'm'), reltuples, relpages, pg_relation_size(oid) / "
            f"current_setting('block_size')::int FROM pg_class WHERE oid = to_regclass({literal})",
        )
        cursor.close()
        if not about or not about[0][0]:
            return None
        _, counted, paged, pages = about[0]
        there = max(1.0, pages * (counted / paged if counted > 0 and paged else PER_PAGE))
        share, found = min(100.0, max(120.0 * rows / there, 100.0 * PLACES / max(1, pages))), None
        for _ in range(3):
            found = self._whole(raw, self._select(f" TABLESAMPLE SYSTEM ({share:.9f}) REPEATABLE (1)"), ROWS)
            if found.num_rows >= 0.8 * rows or share >= 100.0:
                break
            share = min(100.0, share * (max(2.0, 1.2 * rows / found.num_rows) if found.num_rows else 4.0))
        return found

    def _runs(self, raw: Any, rows: int) -> pa.Table | None:
        """Rows that follow each other, from many places; None where rows have no numbers, or these lie far apart."""
        taken = {name.lower() for name in self.schema.names}
        number = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
        if number is None:
            return None
        cursor = cursor_of(raw)
        try:
            low, high = executed(cursor, f"SELECT MIN({number}), MAX({number}) FROM {self.source}")[0]
            if low is None:  # a view
                return None
            found: list[Any] = []
            last, each = low - 1, -(-rows // PLACES)
            for place in range(PLACES):
                start = max(last + 1, low + (high - low + 1) * place // PLACES)
                after = f" WHERE {ALIAS}.{number} >= {start} ORDER BY {ALIAS}.{number} LIMIT {each}"
                some = executed(cursor, self._select(after, f"{ALIAS}.{number}, "))
                last = some[-1][0] if some else last
                found += [row[1:] for row in some]
        except errors_of(raw):
            return None
        finally:
            cursor.close()
        return self._table(found) if len(found) >= rows // 2 else None

    # ------------------------------------------------------------------ statements

    def _run(self, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        def attempt() -> list[tuple[Any, ...]]:
            with self.link.open(self.rows_named, together=True) as raw:
                cursor = cursor_of(raw)
                try:
                    return [tuple(row) for one in statements for row in executed(cursor, one)]
                finally:
                    cursor.close()

        return self.link.again(attempt)

    def _push_down(self) -> PushDown:
        return PushDown(self.link.database, self.source, self.schema, self.rows_named)

    def scored(self, by: Any, *, keep: Sequence[str] | None = None, output: str = "all") -> Sql:
        """What a model says of every row, as a table that the database works out when it is asked for.

        `by` is a model that has `to_sql`, or a SELECT such as that writes. `keep` are columns of the rows that stand
        beside the answers: by default all. `output` is as in `to_sql`.
        """
        if isinstance(by, str):
            return Sql(self.link, (), by)
        how = {"keep": self._kept(by, keep), "output": output}
        statement = by.to_sql(self.parts or QUERIED, self.link.database.name, **how)
        if self.query is not None:
            statement = f'WITH "{QUERIED}" AS ({self.query}\n), {statement.removeprefix("WITH ")}'
        return Sql(self.link, (), statement)

    def create(self, name: str | Sequence[str]) -> Sql:
        """Make a table of the rows inside the database, and give it.

        It is committed; inside of a transaction that was open already, it is left to whoever commits that.
        """
        parts = (name,) if isinstance(name, str) else tuple(name)
        target = ".".join(self.link.database.identifier(part) for part in parts)
        if self.link.database.name == "mssql":
            raise DecibanError("SQL Server has no CREATE TABLE AS: write SELECT … INTO around the statement")
        query = self.query or f"SELECT * FROM {self.source}"
        with self.link.open(said(parts), write=True) as raw:
            cursor = cursor_of(raw)
            try:
                cursor.execute(f"CREATE TABLE {target} AS {query}")
            finally:
                cursor.close()
        return Sql(self.link, parts)


def cursor_of(raw: Any) -> Any:
    """A cursor whose rows are plain tuples, whatever the connection's are."""
    package = type(raw).__module__.partition(".")[0]
    if package == "psycopg":
        from psycopg.rows import tuple_row  # type: ignore[import-not-found,unused-ignore]  # an optional package

        return raw.cursor(row_factory=tuple_row, binary=True)
    if package == "psycopg2":
        from psycopg2.extensions import cursor  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return raw.cursor(cursor_factory=cursor)
    found = raw.cursor()
    if package == "sqlite3":
        found.row_factory = None
    return found


def executed(cursor: Any, statement: str) -> list[Any]:
    cursor.execute(statement)
    return list(cursor.fetchall())
