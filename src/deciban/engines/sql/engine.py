"""Tables of any database with a connection: it computes sums itself, or returns its rows."""

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
from deciban.engines.sql.expressions import ROWS_ALIAS
from deciban.engines.sql.fetched import TABLE_ROWS, Fetched
from deciban.engines.sql.push_down import PushDown
from deciban.engines.sql.queries import check_select, select_text
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line

MAX_TABLE_CELLS = 1 << 21  # rows are fetched as Python objects, which are large
SAMPLE_PLACES = 64  # least number of places to sample from, if rows are numbered or in pages
ROWS_PER_PAGE = 50  # a guess, if PostgreSQL has no statistics
CURSOR_NUMBERS = count()
QUERY_ALIAS = "rows of the query"  # the name of the inner SELECT's rows


def table(
    connection: Any,
    name: str | Sequence[str] | None = None,
    *,
    schema: str | None = None,
    query: str | None = None,
    dialect: str | None = None,
) -> Sql | DuckDB:
    """Rows of a database, to learn from or to score where they are.

    If the model's sums can be written in SQL, the database computes them and only sums leave it; otherwise rows are
    fetched in batches. Nothing is written, no transaction is left open, and no open one is ended.

    Parameters
    ----------
    connection : connection, engine or URL
        A DB-API connection (sqlite3, psycopg, psycopg2, …), a SQLAlchemy engine or connection, a DuckDB connection, or
        a URL such as "postgresql://user:password@host/database". With an engine or a URL, a dropped connection is
        reopened, at most twice.
    name : str or tuple of str
        The table or view; ("schema", "table") if it is not in the default schema. Names are used as given.
    schema : str, optional
        The schema, if not given with the name.
    query : str, optional
        A SELECT instead of a name: one statement that reads, or it is refused.
    dialect : str, optional
        "postgresql", "sqlite", "mysql", "snowflake", "bigquery" or "mssql", if it cannot be detected from the
        connection.

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
        raise DecibanError("give either the name of a table, or a SELECT with query=")
    parts = () if name is None else (name,) if isinstance(name, str) else tuple(name)
    parts = parts if schema is None else (schema, *parts)
    if is_duckdbs(connection) or (isinstance(connection, str) and connection.startswith("duckdb:")):
        return duckdb_table(connection, parts, query)
    return Sql(link_to(connection, dialect), parts, query)


def duckdb_table(connection: Any, parts: tuple[str, ...], query: str | None) -> DuckDB:
    rows_named = source_name(parts)
    names = ".".join(DIALECTS["duckdb"].identifier(part) for part in parts)
    try:
        if isinstance(connection, str):
            path = connection.removeprefix("duckdb:").removeprefix("///").partition("?")[0] or ":memory:"
            connection = duckdb().connect(path, read_only=path != ":memory:")
        if query is not None:
            query = select_text(query, "duckdb")
            check_select(None, query, "duckdb")
        return DuckDB(connection.sql(f"SELECT * FROM {names or nested(query or '')}"), rows_named)
    except duckdb().Error as error:
        raise EngineError(f"{rows_named}: {one_line(str(error))}") from None


def nested(query: str) -> str:
    """A SELECT as a table of another; the bracket is on its own line, since the last one may end in a comment."""
    return f"({query}\n)"


def source_name(parts: Sequence[str]) -> str:
    """The name of the source in messages. A SELECT is not shown: it may contain confidential values."""
    return f"table {one_line('.'.join(parts))!r}" if parts else "the query"


class Sql(Fetched):
    """A table, a view or a SELECT of a database."""

    name: ClassVar[str] = "sql"

    def __init__(self, link: Link, parts: tuple[str, ...], query: str | None = None) -> None:
        self.link, self.parts, self.rows_named = link, parts, source_name(parts)
        self.query = None if query is None else select_text(query, link.database.name)
        if self.query is None:
            self.source = ".".join(link.database.identifier(part) for part in parts)
        else:
            self.source = nested(self.query)
        self.columns = link.retry(self._read_columns)
        self._schema = pa.schema([(column.name, column.kind) for column in self.columns])

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _read_columns(self) -> list[column_types.TypedColumn]:
        with self.link.open(self.rows_named) as raw:
            if self.query is not None:
                check_select(cursor_of(raw), self.query, self.link.database.name)
            columns = column_types.columns_of(cursor_of(raw), self.link.database.name, self.source, self.parts)
        names = [column.name for column in columns]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise DecibanError(
                f"{self.rows_named} has several columns named {one_line(duplicates[0])!r}: give them different names"
            )
        return columns

    # ------------------------------------------------------------------ rows

    def tables(self) -> Generator[pa.Table, None, None]:
        with self.link.open(self.rows_named) as raw:
            yield from self._fetched(raw, self._select())

    def _fetched(self, raw: Any, statement: str, rows: int | None = None) -> Generator[pa.Table, None, None]:
        """The rows of a SELECT over our columns; of PostgreSQL, through a server-side cursor."""
        step = rows or max(1024, min(TABLE_ROWS, MAX_TABLE_CELLS // max(1, len(self.columns))))
        cursor = cursor_of(raw)
        try:
            if self.link.database.name == "postgresql":
                server_cursor = f"deciban_rows_{next(CURSOR_NUMBERS)}"
                cursor.execute(f"DECLARE {server_cursor} NO SCROLL CURSOR FOR {statement}")
                fetch = f"FETCH FORWARD {step} FROM {server_cursor}"
                while fetched := executed(cursor, fetch):
                    yield self._table(fetched)
                cursor.execute(f"CLOSE {server_cursor}")
                return
            cursor.execute(statement)
            while fetched := cursor.fetchmany(step):
                yield self._table(fetched)
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
        return f"SELECT {before}{listed} FROM {self.source} AS {ROWS_ALIAS}{after}"

    def _limited(self, rows: int, order: str = "") -> str:
        return self.link.database.limited(self._select(order).removeprefix("SELECT "), rows)

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """If the connection drops, everything is started again, and earlier sums are discarded."""
        return self.link.retry(lambda: super(Sql, self).collect(work, watch))

    def apply(self, answer: Answer, fields: pa.Schema) -> Generator[pa.Table, None, None]:
        """Tables of rows and their answers, computed as they are read."""
        self._with_answers(fields)
        return self._beside(answer, fields)

    # ------------------------------------------------------------------ sample

    def sample(self, rows: int) -> pa.Table:
        """PostgreSQL samples pages, SQLite rows by number; other databases sort randomly and keep the first."""
        return self.link.retry(lambda: self._sample(rows))

    def _sample(self, rows: int) -> pa.Table:
        with self.link.open(self.rows_named, together=True) as raw:
            first = self._whole(raw, self._limited(rows + 1), rows + 1)
            if first.num_rows <= rows:
                return first
            sampled = None
            if self.parts and self.link.database.name == "postgresql":
                sampled = self._pages(raw, rows)
            elif self.parts and self.link.database.name == "sqlite":
                sampled = self._runs(raw, rows)
            if sampled is None:
                sampled = self._whole(raw, self._limited(rows, f" ORDER BY {self.link.database.random}"), rows)
            return thinned(sampled, rows)

    def _whole(self, raw: Any, statement: str, rows: int) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *self._fetched(raw, statement, min(rows, TABLE_ROWS))])

    def _pages(self, raw: Any, rows: int) -> pa.Table | None:
        """Rows of sampled pages; None for anything but a plain table."""
        literal = DIALECTS["postgresql"].quoted(self.source)
        cursor = cursor_of(raw)
        statistics = executed(
            cursor,
            "SELECT relkind IN ('r', 'm'), reltuples, relpages, pg_relation_size(oid) / "
            f"current_setting('block_size')::int FROM pg_class WHERE oid = to_regclass({literal})",
        )
        cursor.close()
        if not statistics or not statistics[0][0]:
            return None
        _, tuples, analysed_pages, pages = statistics[0]
        n_rows = max(1.0, pages * (tuples / analysed_pages if tuples > 0 and analysed_pages else ROWS_PER_PAGE))
        share, sampled = min(100.0, max(120.0 * rows / n_rows, 100.0 * SAMPLE_PLACES / max(1, pages))), None
        for _ in range(3):
            sampled = self._whole(raw, self._select(f" TABLESAMPLE SYSTEM ({share:.9f}) REPEATABLE (1)"), TABLE_ROWS)
            if sampled.num_rows >= 0.8 * rows or share >= 100.0:
                break
            share = min(100.0, share * (max(2.0, 1.2 * rows / sampled.num_rows) if sampled.num_rows else 4.0))
        return sampled

    def _runs(self, raw: Any, rows: int) -> pa.Table | None:
        """Runs of rows from many places; None if rows have no numbers, or these have large gaps."""
        taken = {name.lower() for name in self.schema.names}
        rowid = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
        if rowid is None:
            return None
        cursor = cursor_of(raw)
        try:
            low, high = executed(cursor, f"SELECT MIN({rowid}), MAX({rowid}) FROM {self.source}")[0]
            if low is None:  # a view
                return None
            sampled: list[Any] = []
            last, run_length = low - 1, -(-rows // SAMPLE_PLACES)
            for i in range(SAMPLE_PLACES):
                start = max(last + 1, low + (high - low + 1) * i // SAMPLE_PLACES)
                after = f" WHERE {ROWS_ALIAS}.{rowid} >= {start} ORDER BY {ROWS_ALIAS}.{rowid} LIMIT {run_length}"
                run = executed(cursor, self._select(after, f"{ROWS_ALIAS}.{rowid}, "))
                last = run[-1][0] if run else last
                sampled += [row[1:] for row in run]
        except errors_of(raw):
            return None
        finally:
            cursor.close()
        return self._table(sampled) if len(sampled) >= rows // 2 else None

    # ------------------------------------------------------------------ statements

    def _run(self, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        def attempt() -> list[tuple[Any, ...]]:
            with self.link.open(self.rows_named, together=True) as raw:
                cursor = cursor_of(raw)
                try:
                    return [tuple(row) for one in statements for row in executed(cursor, one)]
                finally:
                    cursor.close()

        return self.link.retry(attempt)

    def _push_down(self) -> PushDown:
        return PushDown(self.link.database, self.source, self.schema, self.rows_named)

    def scored(self, by: Any, *, keep: Sequence[str] | None = None, output: str = "all") -> Sql:
        """Every row scored by a model, as a table that the database computes lazily.

        `by` is a model that has `to_sql`, or a SELECT as that writes. `keep` are columns of the rows to return with
        the answers, by default all. `output` is as in `to_sql`.
        """
        if isinstance(by, str):
            return Sql(self.link, (), by)
        how = {"keep": self._kept(by, keep), "output": output}
        statement = by.to_sql(self.parts or QUERY_ALIAS, self.link.database.name, **how)
        if self.query is not None:
            statement = f'WITH "{QUERY_ALIAS}" AS {nested(self.query)}, {statement.removeprefix("WITH ")}'
        return Sql(self.link, (), statement)

    def create(self, name: str | Sequence[str]) -> Sql:
        """Create a table of the rows inside the database, and return it.

        It is committed, unless a transaction was already open, which its owner must commit.
        """
        parts = (name,) if isinstance(name, str) else tuple(name)
        target = ".".join(self.link.database.identifier(part) for part in parts)
        if self.link.database.name == "mssql":
            raise DecibanError("SQL Server has no CREATE TABLE AS: write SELECT … INTO around the statement")
        query = self.query or f"SELECT * FROM {self.source}"
        with self.link.open(source_name(parts), write=True) as raw:
            cursor = cursor_of(raw)
            try:
                cursor.execute(f"CREATE TABLE {target} AS {query}")
            finally:
                cursor.close()
        return Sql(self.link, parts)


def cursor_of(raw: Any) -> Any:
    """A cursor whose rows are plain tuples, whatever the connection's row factory."""
    package = type(raw).__module__.partition(".")[0]
    if package == "psycopg":
        from psycopg.rows import tuple_row  # type: ignore[import-not-found,unused-ignore]  # an optional package

        return raw.cursor(row_factory=tuple_row, binary=True)
    if package == "psycopg2":
        from psycopg2.extensions import cursor  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return raw.cursor(cursor_factory=cursor)
    plain = raw.cursor()
    if package == "sqlite3":
        plain.row_factory = None
    return plain


def executed(cursor: Any, statement: str) -> list[Any]:
    cursor.execute(statement)
    return list(cursor.fetchall())
