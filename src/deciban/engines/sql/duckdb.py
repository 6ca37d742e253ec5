"""DuckDB, in process: tables, views, files and attached databases. It adds up by itself, or gives rows out as Arrow."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from deciban.dialects import DIALECTS
from deciban.engines.base import Answer, thinned
from deciban.engines.sql.fetched import OVERSAMPLED, ROWS, Fetched
from deciban.engines.sql.push_down import PushDown
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line, without_secrets
from deciban.sources.column_types import MISSING
from deciban.threads import threads

HERE = "deciban_rows"  # what the rows are called in a statement about them
AS_DOUBLE, AS_TEXT = ("DECIMAL", "HUGEINT", "UHUGEINT", "BIGNUM"), ("ENUM", "UUID")  # types that Arrow has otherwise
READERS = {
    **dict.fromkeys((".parquet", ".pq", ".parq"), "read_parquet"),
    **dict.fromkeys((".csv", ".tsv", ".txt"), "read_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json"),
}
PACKED = (".gz", ".zst")


def is_mine(X: Any) -> bool:
    """Whether this is a relation of DuckDB's; nothing is imported to find out."""
    return is_duckdbs(X) and type(X).__name__ == "DuckDBPyRelation"


def is_duckdbs(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] in ("duckdb", "_duckdb")


class DuckDB(Fetched):
    """Rows of a relation of DuckDB's.

    While rows are given out, its connection is busy: ask it nothing else until they are through.
    """

    name: ClassVar[str] = "duckdb"

    def __init__(self, relation: Any, called: str = "the relation", files: Files | None = None) -> None:
        if not is_mine(relation):
            raise DecibanError(
                f"which table? A {type(relation).__name__} has many: give deciban.table(connection, name)"
            )
        self.rows_named, self.relation, self.files = called, relation, files
        self.workers = threads(None, 1 << 40)
        with self._told():
            self.rows = relation.project(", ".join(map(as_arrow_has_it, relation.columns, relation.types)))
            self._schema = self.rows.limit(0).to_arrow_table().schema.remove_metadata()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def sample(self, rows: int) -> pa.Table:
        """Of files of Parquet, some row groups are read; otherwise DuckDB skips most of its blocks."""
        with self._told():
            first = self.rows.limit(rows + 1).to_arrow_table()
            if first.num_rows <= rows:
                return first.cast(self.schema)
            if self.files is not None and self.files.reader == "read_parquet" and not self.files.how:
                return self.files.sample(rows).select(self.schema.names).cast(self.schema)
            there = self.rows.aggregate("COUNT(*)").fetchall()[0][0]
            share = min(100.0, 100.0 * OVERSAMPLED * rows / there)
            drawn = f"SELECT * FROM {HERE} TABLESAMPLE SYSTEM ({share:.6f}%) REPEATABLE (1)"
            found = self.rows.query(HERE, drawn).to_arrow_table()
        return thinned(found if found.num_rows >= rows // 2 else first, rows).cast(self.schema)

    def tables(self) -> Generator[pa.Table, None, None]:
        with self._told():
            reader = self.rows.to_arrow_reader(ROWS)
            try:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch]).cast(self.schema)
            finally:
                reader.close()

    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """A relation: each row with its answers, which are found as it is read.

        It is of a connection of its own, since that of the rows is busy while they are given out.
        """
        return duckdb().connect().from_arrow(Beside(self, answer, fields))

    def scored(self, by: Any, table: str = "data", *, keep: Sequence[str] | None = None, output: str = "all") -> DuckDB:
        """What a model says of every row, worked out by DuckDB when it is asked for.

        `by` is a model that has `to_sql`, or a SELECT over these rows, which it calls `table`. `keep` are columns of
        the rows that stand beside the answers: by default all. `output` is as in `to_sql`.
        """
        if not isinstance(by, str):
            by = by.to_sql(table, "duckdb", keep=self._kept(by, keep), output=output)
        with self._told():
            return DuckDB(self.relation.query(table, by), f"a SELECT over {self.rows_named}")

    def create(self, name: str) -> DuckDB:
        """Make a table of the rows, in the database that they come from, and give it."""
        quoted = name_in_quotes(name)
        with self._told():
            self.relation.query(HERE, f"CREATE TABLE {quoted} AS SELECT * FROM {HERE}")
            return DuckDB(self.relation.query(HERE, f"SELECT * FROM {quoted}"), f"table {one_line(name)!r}")

    def _run(self, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        with self._told():
            return [row for one in statements for row in self.relation.query(HERE, one).fetchall()]

    def _push_down(self) -> PushDown:
        return PushDown(DIALECTS["duckdb"], HERE, self.schema, self.rows_named)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (duckdb().Error, pa.ArrowException, OSError) as error:  # streams of Arrow's raise what is Arrow's
            where = self.rows_named if self.files is None else self.files.culprit() or self.rows_named
            raise EngineError(f"{where}: {without_secrets(one_line(str(error)))}; nothing was learned") from None


@dataclass(frozen=True)
class Files:
    """Files that DuckDB reads by itself."""

    paths: tuple[str, ...]
    reader: str
    how: dict[str, Any]

    def open(self, *paths: str) -> Any:
        return getattr(duckdb().connect(), self.reader)(list(paths or self.paths), **self.how)

    def sample(self, rows: int) -> pa.Table:
        from deciban.sources import open_source

        return open_source(list(self.paths)).sample(rows)

    def culprit(self) -> str | None:
        """The first file that cannot be read by itself, where there are several: DuckDB does not always say."""
        connection = duckdb().connect()
        found = [row[0] for path in self.paths for row in connection.execute("FROM glob(?)", [path]).fetchall()]
        for path in found if len(found) > 1 else ():
            try:
                relation = self.open(path)
                every = (
                    f"BIT_XOR(HASH({name_in_quotes(name)}))" for name in relation.columns
                )  # which reads all values
                relation.aggregate(", ".join(every)).fetchall()
            except duckdb().Error:
                return one_line(path)
        return None


class Beside:
    """Rows and their answers as a stream of Arrow's, which may be asked for again and again."""

    def __init__(self, rows: DuckDB, answer: Answer, fields: pa.Schema) -> None:
        self.rows, self.answer, self.fields = rows, answer, fields
        self.schema = rows._with_answers(fields)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        tables = self.rows._beside(self.answer, self.fields)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)


def from_paths(paths: Sequence[str], **how: Any) -> DuckDB:
    """Files of Parquet, CSV or JSON, and patterns of them; `how` is what DuckDB's reader of them takes besides."""
    if not paths:
        raise DecibanError("give at least one path")
    readers = {reader_of(path) for path in paths}
    if len(readers) > 1:
        raise DecibanError(f"files of several kinds are read one after the other: {', '.join(map(repr, paths[:5]))}")
    reader = readers.pop()
    if reader == "read_csv":
        how = {"na_values": list(MISSING), **how}  # as everywhere else here
    called = without_secrets(one_line(paths[0])) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    files = Files(tuple(paths), reader, how)
    try:
        return DuckDB(files.open(), called, files)
    except duckdb().Error as error:
        raise EngineError(f"{called}: {without_secrets(one_line(str(error)))}") from None


def reader_of(path: str) -> str:
    """DuckDB's function for a file, by its ending."""
    stem, ending = os.path.splitext(path)
    if ending.lower() in PACKED:
        ending = os.path.splitext(stem)[1]
    if ending.lower() not in READERS:
        raise DecibanError(f"{path!r} has no ending that DuckDB is known to read: {', '.join(READERS)}")
    return READERS[ending.lower()]


def as_arrow_has_it(column: str, kind: Any) -> str:
    """A column as numbers or texts where Arrow has none of its type."""
    name, said = name_in_quotes(column), str(kind)
    if said.startswith(AS_DOUBLE):
        return f"CAST({name} AS DOUBLE) AS {name}"
    return f"CAST({name} AS VARCHAR) AS {name}" if said.startswith(AS_TEXT) else name


def name_in_quotes(name: str) -> str:
    return DIALECTS["duckdb"].identifier(name)


def duckdb() -> Any:
    """DuckDB, an optional package."""
    try:
        import duckdb
    except ImportError:
        raise DecibanError("DuckDB is not installed: pip install 'deciban[duckdb]'") from None
    return duckdb
