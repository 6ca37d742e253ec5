"""DuckDB, in process: tables, views, files and attached databases. It computes sums, or returns rows as Arrow."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from deciban.dialects import DIALECTS
from deciban.engines.base import Answer, thinned
from deciban.engines.sql.fetched import OVERSAMPLING, TABLE_ROWS, Fetched
from deciban.engines.sql.push_down import PushDown
from deciban.engines.sql.queries import check_select, select_text
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line, without_secrets
from deciban.sources.column_types import MISSING
from deciban.threads import threads

AS_DOUBLE, AS_TEXT = ("DECIMAL", "HUGEINT", "UHUGEINT", "BIGNUM"), ("ENUM", "UUID")  # types to cast for Arrow
READER_OF_ENDING = {
    **dict.fromkeys((".parquet", ".pq", ".parq"), "read_parquet"),
    **dict.fromkeys((".csv", ".tsv", ".txt"), "read_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json"),
}
COMPRESSED_ENDINGS = (".gz", ".zst")


def is_relation(X: Any) -> bool:
    """Whether this is a DuckDB relation, without importing DuckDB."""
    return is_duckdbs(X) and type(X).__name__ == "DuckDBPyRelation"


def is_duckdbs(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] in ("duckdb", "_duckdb")


class DuckDB(Fetched):
    """Rows of a DuckDB relation.

    While rows are fetched, its connection is busy and cannot be used for anything else.
    """

    name: ClassVar[str] = "duckdb"

    def __init__(self, relation: Any, rows_named: str = "the relation", files: Files | None = None) -> None:
        if not is_relation(relation):
            raise DecibanError(
                f"a {type(relation).__name__} has many tables: give one with deciban.table(connection, name)"
            )
        self.rows_named, self.relation, self.files = rows_named, relation, files
        self.view = f"deciban_rows_{os.urandom(8).hex()}"  # in statements: DuckDB 1.5 refuses a name that exists
        self.workers = threads(None, 1 << 40)
        with self._as_engine_error():
            self.rows = relation.project(", ".join(map(as_arrow_type, relation.columns, relation.types)))
            self._schema = self.rows.limit(0).to_arrow_table().schema.remove_metadata()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def sample(self, rows: int) -> pa.Table:
        """Of Parquet files, some row groups are read; otherwise DuckDB skips most of its blocks."""
        with self._as_engine_error():
            first = self.rows.limit(rows + 1).to_arrow_table()
            if first.num_rows <= rows:
                return first.cast(self.schema)
            if self.files is not None and self.files.reader == "read_parquet" and not self.files.how:
                return self.files.sample(rows).select(self.schema.names).cast(self.schema)
            n_rows = self.rows.aggregate("COUNT(*)").fetchall()[0][0]
            share = min(100.0, 100.0 * OVERSAMPLING * rows / n_rows)
            statement = f"SELECT * FROM {self.view} TABLESAMPLE SYSTEM ({share:.6f}%) REPEATABLE (1)"
            sampled = self.rows.query(self.view, statement).to_arrow_table()
            self._drop_view()
        return thinned(sampled if sampled.num_rows >= rows // 2 else first, rows).cast(self.schema)

    def tables(self) -> Generator[pa.Table, None, None]:
        with self._as_engine_error():
            reader = self.rows.to_arrow_reader(TABLE_ROWS)
            try:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch]).cast(self.schema)
            finally:
                reader.close()

    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """A relation of rows with their answers, computed as it is read.

        It has its own connection, since that of the rows is busy while they are fetched.
        """
        return duckdb().connect().from_arrow(AnswerStream(self, answer, fields))

    def scored(self, by: Any, table: str = "data", *, keep: Sequence[str] | None = None, output: str = "all") -> DuckDB:
        """Every row scored by a model, computed by DuckDB lazily.

        `by` is a model that has `to_sql`, or a SELECT over these rows, which it calls `table`. `keep` are columns of
        the rows to return with the answers, by default all. `output` is as in `to_sql`.
        """
        if not isinstance(by, str):
            by = by.to_sql(table, "duckdb", keep=self._kept(by, keep), output=output)
        with self._as_engine_error():
            by = select_text(by, "duckdb")
            check_select(None, by, "duckdb")
            view = f"{self.view}_scored"  # DuckDB 1.5 needs it as long as there may be rows to compute
            rows = f"WITH {name_in_quotes(table)} AS (FROM {view})"
            scored = self.relation.query(view, f"{rows} SELECT * FROM ({by}\n)")
            return DuckDB(scored, f"a SELECT over {self.rows_named}")

    def create(self, name: str) -> DuckDB:
        """Create a table of the rows, in the database that they come from, and return it."""
        quoted = name_in_quotes(name)
        with self._as_engine_error():
            self.relation.query(self.view, f"CREATE TABLE {quoted} AS SELECT * FROM {self.view}")
            created = self.relation.query(self.view, f"SELECT * FROM {quoted}")
            self._drop_view()
            return DuckDB(created, f"table {one_line(name)!r}")

    def _run(self, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        with self._as_engine_error():
            rows = [row for one in statements for row in self.relation.query(self.view, one).fetchall()]
            self._drop_view()
            return rows

    def _drop_view(self) -> None:
        """DuckDB 1.5 leaves the view of a statement in the caller's connection; 2.0 makes none."""
        self.relation.query(self.view, f"DROP VIEW IF EXISTS {self.view}")

    def _push_down(self) -> PushDown:
        return PushDown(DIALECTS["duckdb"], self.view, self.schema, self.rows_named)

    @contextmanager
    def _as_engine_error(self) -> Iterator[None]:
        try:
            yield
        except (duckdb().Error, pa.ArrowException, OSError) as error:  # Arrow's streams raise Arrow's errors
            where = self.rows_named if self.files is None else self.files.first_unreadable() or self.rows_named
            raise EngineError(f"{where}: {without_secrets(one_line(str(error)))}; nothing was learned") from None


@dataclass(frozen=True)
class Files:
    """Files that DuckDB reads itself."""

    paths: tuple[str, ...]
    reader: str
    how: dict[str, Any]

    def open(self, *paths: str) -> Any:
        return getattr(duckdb().connect(), self.reader)(list(paths or self.paths), **self.how)

    def sample(self, rows: int) -> pa.Table:
        from deciban.sources import open_source

        return open_source(list(self.paths)).sample(rows)

    def first_unreadable(self) -> str | None:
        """The first of several files that cannot be read: DuckDB does not always name it."""
        connection = duckdb().connect()
        files = [row[0] for path in self.paths for row in connection.execute("FROM glob(?)", [path]).fetchall()]
        for path in files if len(files) > 1 else ():
            try:
                relation = self.open(path)
                hashes = (f"BIT_XOR(HASH({name_in_quotes(name)}))" for name in relation.columns)  # reads all values
                relation.aggregate(", ".join(hashes)).fetchall()
            except duckdb().Error:
                return one_line(path)
        return None


class AnswerStream:
    """Rows and their answers as an Arrow stream, which can be read repeatedly."""

    def __init__(self, rows: DuckDB, answer: Answer, fields: pa.Schema) -> None:
        self.rows, self.answer, self.fields = rows, answer, fields
        self.schema = rows._with_answers(fields)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        tables = self.rows._beside(self.answer, self.fields)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)


def from_paths(paths: Sequence[str], **how: Any) -> DuckDB:
    """Parquet, CSV or JSON files, and patterns of them; `how` are further arguments of DuckDB's reader."""
    if not paths:
        raise DecibanError("give at least one path")
    readers = {reader_of(path) for path in paths}
    if len(readers) > 1:
        raise DecibanError(
            f"files of several formats, such as {', '.join(map(repr, paths[:5]))}, cannot be read together: read them "
            "one after another"
        )
    reader = readers.pop()
    if reader == "read_csv":
        how = {"na_values": list(MISSING), **how}  # as in the rest of deciban
    rows_named = without_secrets(one_line(paths[0])) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    files = Files(tuple(paths), reader, how)
    try:
        return DuckDB(files.open(), rows_named, files)
    except duckdb().Error as error:
        raise EngineError(f"{rows_named}: {without_secrets(one_line(str(error)))}") from None


def reader_of(path: str) -> str:
    """DuckDB's function for a file, by its ending."""
    stem, ending = os.path.splitext(path)
    if ending.lower() in COMPRESSED_ENDINGS:
        ending = os.path.splitext(stem)[1]
    if ending.lower() not in READER_OF_ENDING:
        raise DecibanError(f"{path!r} has no extension that DuckDB reads: {', '.join(READER_OF_ENDING)}")
    return READER_OF_ENDING[ending.lower()]


def as_arrow_type(column: str, kind: Any) -> str:
    """A column cast to numbers or texts if Arrow has no such type."""
    name, type_name = name_in_quotes(column), str(kind)
    if type_name.startswith(AS_DOUBLE):
        return f"CAST({name} AS DOUBLE) AS {name}"
    return f"CAST({name} AS VARCHAR) AS {name}" if type_name.startswith(AS_TEXT) else name


def name_in_quotes(name: str) -> str:
    return DIALECTS["duckdb"].identifier(name)


def duckdb() -> Any:
    """DuckDB, an optional package."""
    try:
        import duckdb
    except ImportError:
        raise DecibanError("DuckDB is not installed: pip install 'deciban[duckdb]'") from None
    return duckdb
