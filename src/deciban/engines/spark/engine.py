"""Spark DataFrames: each partition is summed where it is, by `mapInArrow`, and the sums are merged in a tree.

Only one sum per partition crosses the network, not rows. Spark keeps the result of one attempt at each partition: that
of a task which failed, was lost with its executor, or ran twice because it was slow, is dropped. So every row counts
exactly once, however often Spark had to retry.

Only `mapInArrow` is needed, which DataFrames of Spark Connect have too; they have not been tested.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import select
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar

from deciban.engines.base import Answer, Engine, Sum, Watch, Work, sum_of_parts
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line, without_secrets
from deciban.sources.column_types import conform, declared_type

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterator[pa.RecordBatch]

TABLE_ROWS = 1 << 16  # rows of a table for `work`; Spark's own batches are shorter
MAX_TABLE_BYTES = 1 << 26  # of such a table, if rows are long
FAN_IN = 16  # sums added at a time, partitions to sample from, sums sent to the driver
MAX_BYTES_AT_ONCE = 1 << 28  # of sums in one process: Spark's driver takes 1 GB, an Arrow column 2 GB
MAX_BYTES_SENT_ALONG = MAX_BYTES_AT_ONCE // FAN_IN  # of a sum that is sent along with its size
MAX_SUM_BYTES = 1 << 29  # of a sum: at least two must fit into an Arrow column
HANG_UP_SECONDS = 600  # seconds that a process waits for Spark to close the connection
PART_SCHEMA = "part long, total binary, error binary"
FORMAT_OF_ENDING = {"parquet": "parquet", "csv": "csv", "tsv": "csv"} | dict.fromkeys(
    ("json", "jsonl", "ndjson"), "json"
)


def is_spark_frame(X: Any) -> bool:
    """Whether this is a Spark DataFrame, classic or of Spark Connect."""
    return any(kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(X).__mro__)


def from_paths(paths: Sequence[str], **how: Any) -> Spark:
    """Files that Spark reads itself, in the session that is active or a new one: Parquet, CSV or JSON lines.

    `how` are the reader's options. CSV and JSON are read once to infer the types of their columns, unless `schema` is
    given.
    """
    endings = sorted({ending(path) or "parquet" for path in paths})
    if len(endings) != 1 or endings[0] not in FORMAT_OF_ENDING:
        raise EngineError(
            f"Spark cannot read paths that end in {' and '.join(map(repr, map(one_line, endings))) or 'nothing'}: "
            f"all must have the same extension, one of {', '.join(FORMAT_OF_ENDING)} (compressed or not)"
        )
    kind, schema = FORMAT_OF_ENDING[endings[0]], how.pop("schema", None)
    options: dict[str, Any] = {}
    if kind == "csv":
        options = {"header": True, "inferSchema": schema is None, "sep": "\t" if endings[0] == "tsv" else ","}
    names = without_secrets(one_line(", ".join(paths[:3]) + (" …" if len(paths) > 3 else "")))
    with without_pandas_warning(), short_errors(names):
        reader = pyspark().sql.SparkSession.builder.getOrCreate().read.options(**options | how)
        frame = (reader if schema is None else reader.schema(schema)).format(kind).load(list(paths))
    return Spark(frame, names)


def ending(path: str) -> str:
    """The ending of a file's name, without compression; "" for a folder, which holds Parquet by default."""
    parts = path.rstrip("/").rpartition("/")[2].lower().split(".")
    while len(parts) > 1 and parts[-1] in ("gz", "bz2", "zst", "snappy", "lz4", "deflate"):
        parts.pop()
    return parts[-1] if len(parts) > 1 else ""


class Spark(Engine):
    """The rows of a Spark DataFrame. They are read each time they are needed: cache it if that is expensive."""

    name: ClassVar[str] = "spark"

    def __init__(self, X: Any, rows_named: str = "the Spark DataFrame") -> None:
        if not is_spark_frame(X):
            raise EngineError(f"the Spark engine takes a Spark DataFrame, not {type(X).__module__}.{type(X).__name__}")
        self.frame, self.rows_named = X, rows_named
        if X.isStreaming:
            raise EngineError(f"{rows_named} is an unbounded stream: learn from each of its batches (foreachBatch)")
        duplicates = sorted({name for name in X.columns if X.columns.count(name) > 1})
        if duplicates:
            raise EngineError(
                "{rows} has several columns called {column!r}: rename all but one",
                column=duplicates[0],
                rows=rows_named,
            )

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        for field in self.frame.schema:
            if type(field.dataType).__name__ in ("VectorUDT", "MatrixUDT"):
                raise EngineError(
                    "column {column!r} of {rows} holds vectors of Spark ML: make a column for each entry "
                    "(pyspark.ml.functions.vector_to_array), or leave the column out",
                    column=field.name,
                    rows=self.rows_named,
                )
        with without_pandas_warning(), short_errors(self.rows_named):
            schema = self.frame.limit(0).toArrow().schema  # no row is read for it
        return pa.schema([(field.name, declared_type(field.type, field.name, self.rows_named)) for field in schema])

    def sample(self, rows: int) -> pa.Table:
        """The first rows of at most sixteen parts, evenly, or all rows; no part is read further than needed.

        Spark merges neighbouring partitions if there are more. A part does not know how many others there are, so
        the first gives all rows that may be needed, the second half of that, the third a third: about three times too
        many at worst. A second pass is needed only if some parts have few rows and others more.
        """
        import pyarrow as pa

        name = f"a sample of {self.rows_named}"
        heads: dict[int, tuple[pa.Table, bool]] = {}
        shares: Mapping[int, int] | None = None
        while True:
            head = PartitionSum(pack(SampleHead(rows, shares)), self.schema, name, longest=1)
            with without_pandas_warning(), short_errors(name):
                parts = self._positions().coalesce(FAN_IN).mapInArrow(head.summed, PART_SCHEMA).collect()
            heads |= {row.part: sample_head(row.total) for row in checked_parts(parts, name)}
            unfinished = [part for part, (_, more) in heads.items() if more]
            if not unfinished or sum(table.num_rows for table, _ in heads.values()) >= rows:
                break
            complete = sum(table.num_rows for table, more in heads.values() if not more)
            shares = dict.fromkeys(unfinished, math.ceil((rows - complete) / len(unfinished)))
        tables = [heads[part][0] for part in sorted(heads)]
        limit = water_level([table.num_rows for table in tables], rows)
        return pa.concat_tables([self.schema.empty_table(), *(table.slice(0, limit) for table in tables)]).slice(
            0, rows
        )

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """The sum over all partitions; the driver receives at most sixteen parts."""
        partition = PartitionSum(pack(work), self.schema, self.rows_named)
        persisted = []
        with without_pandas_warning(), short_errors(self.rows_named):
            try:
                parts, width = self._positions().mapInArrow(partition.summed, PART_SCHEMA), 1
                while True:
                    # Kept on the executors' disks, so that counting the parts does not mean computing them twice.
                    persisted.append(parts.persist(pyspark().StorageLevel.DISK_ONLY))
                    sizes = checked_parts(part_sizes(parts), self.rows_named, width)
                    if width == 1 and watch is not None:
                        watch(len(sizes))
                    total_bytes = sum(row.size for row in sizes)
                    if len(sizes) <= FAN_IN and (total_bytes <= MAX_BYTES_AT_ONCE or len(sizes) <= 1):
                        break
                    fan = max(2, min(FAN_IN, MAX_BYTES_AT_ONCE * len(sizes) // total_bytes))
                    groups = len({row.part // fan for row in sizes})
                    neighbours = parts.selectExpr("part", "total", f"part div {fan} AS near").repartition(
                        groups, "near"
                    )
                    parts, width = neighbours.mapInArrow(NeighbourSum(fan).summed, PART_SCHEMA), width * fan
                if any(row.total is None for row in sizes):
                    sizes = parts.collect()
            finally:
                for frame in persisted:
                    with suppress(Exception):  # of a cluster that was stopped; the first error is what matters
                        frame.unpersist()
        return sum_of_parts(pickle.loads(row.total) for row in sorted(sizes, key=lambda row: row.part))

    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """A DataFrame of the rows and their answers, computed lazily."""
        session = self.frame.sparkSession
        normalised = str if session.conf.get("spark.sql.caseSensitive") == "true" else str.lower
        taken = {normalised(name) for name in self.frame.columns}
        for name in fields.names:
            if normalised(name) in taken:
                raise EngineError(
                    "{rows} already has a column {column!r}, and so does the result: rename it, or leave it out",
                    column=name,
                    rows=self.rows_named,
                )
        with without_pandas_warning(), short_errors(self.rows_named):
            answers = session.createDataFrame(fields.empty_table()).schema
            kinds = pyspark().sql.types.StructType([*self.frame.schema, *answers])
            partition = PartitionAnswers(pack(answer), self.schema, self.rows_named, tuple(kinds.names))
            return self._positions().mapInArrow(partition.beside_rows, kinds)

    def _positions(self) -> Any:
        """The DataFrame with columns named by position: dots and backticks in names have a meaning to Spark."""
        return self.frame.toDF(*(f"c{i}" for i in range(len(self.frame.columns))))


# What runs on the executors.


@dataclass(frozen=True)
class PartitionSum:
    """Work on one partition: a row with its number and its sum, or the error; no row for an empty partition.

    An error of deciban's own would occur again, so it is a result and Spark does not retry. Any other error may be
    temporary: Spark retries, and reports it in the end.
    """

    work: bytes  # packed
    schema: pa.Schema
    name: str
    longest: int = TABLE_ROWS

    def summed(self, batches: Batches) -> Batches:
        part, source = partition_number(), Unread(batches)
        try:
            work: Work[Any] = pickle.loads(self.work)
            total = work(conform_all(joined_batches(source, self.longest), self.schema, self.name))
            packed = None if total is None else pack(total)
        except DecibanError as error:
            yield part_row(part, error=pack(error))
        except Exception as error:
            raise EngineError(
                "{problem}", file=f"partition {part} of {self.name}", problem=summary_of(error)
            ) from error
        else:
            if packed is not None:
                yield part_row(part, packed)
        finally:
            source.leave()


@dataclass(frozen=True)
class NeighbourSum:
    """Sums of partitions with neighbouring numbers, added in order."""

    fan: int

    def summed(self, batches: Batches) -> Batches:
        by_group: dict[int, list[tuple[int, Any]]] = {}
        for batch in batches:
            for part, total in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                by_group.setdefault(part // self.fan, []).append((part, total.as_buffer()))
        for group in sorted(by_group):
            try:
                parts = sorted(by_group.pop(group), key=lambda part: part[0])
                yield part_row(group, pack(sum_of_parts(pickle.loads(total) for _, total in parts)))
            except DecibanError as error:
                yield part_row(group, error=pack(error))
            except Exception as error:
                where = f"sums of partitions {parts[0][0]} to {parts[-1][0]}"
                raise EngineError("{problem}", file=where, problem=summary_of(error)) from error


@dataclass(frozen=True)
class SampleHead:
    """The first rows of a part, and whether there are more."""

    rows: int
    shares: Mapping[int, int] | None  # how many rows to take, by part; None: the number of parts is not known yet

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        import pyarrow as pa

        part = partition_number()
        remaining = math.ceil(self.rows / (part + 1)) if self.shares is None else self.shares.get(part, 0)
        if not remaining:
            return None
        taken: list[pa.Table] = []
        for table in tables:
            taken.append(table.slice(0, remaining))
            remaining -= table.num_rows
            if remaining < 0:
                break
        if not taken:
            return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, taken[0].schema) as stream:
            for table in taken:
                stream.write_table(table)
        return sink.getvalue().to_pybytes(), remaining < 0


@dataclass(frozen=True)
class PartitionAnswers:
    """Rows as Spark has them, with their answers."""

    answer: bytes  # packed
    schema: pa.Schema
    name: str
    names: tuple[str, ...]

    def beside_rows(self, batches: Batches) -> Batches:
        import pyarrow as pa

        source = Unread(batches)
        answer: Answer = pickle.loads(self.answer)
        for table in joined_batches(source, TABLE_ROWS):
            try:
                answers = answer(conformed(table, self.schema, self.name))
            except Exception as error:
                source.leave()
                where = f"partition {partition_number()} of {self.name}"
                raise EngineError("{problem}", file=where, problem=summary_of(error)) from error
            columns = [*table.columns, *answers.columns]
            yield from pa.table(columns, names=list(self.names)).combine_chunks().to_batches()


def partition_number() -> int:
    task = pyspark().TaskContext.get()
    return -1 if task is None else int(task.partitionId())


class Unread:
    """Batches that need not all be read."""

    def __init__(self, batches: Batches) -> None:
        self.ended = False
        self.rest = self._all(batches)

    def _all(self, batches: Batches) -> Batches:
        yield from batches
        self.ended = True

    def __iter__(self) -> Batches:
        return self.rest

    def leave(self) -> None:
        """Keep Spark from producing rows that will not be read.

        A Spark process that did not read all of its input is not used again. Before it ends it reads and discards the
        rest, and while the rows are read, Spark keeps sending rows and does not check for an answer: every partition
        would be read to its end. So this process, whose last task this is, stops reading; it waits until Spark, which
        can send no more, has received the answer and closes the connection.
        """
        with suppress(Exception):
            next(self.rest, None)  # this may be the end: then the process can be reused, and it was expensive to start
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        if not self.ended and main is not None and main.name == "pyspark.daemon" and hasattr(select, "poll"):
            socket.socket.recv = wait_until_closed  # type: ignore[method-assign,assignment]


def wait_until_closed(connection: socket.socket, *_: Any) -> bytes:
    """In place of `recv`: returns nothing, once the other side has closed the connection or after a timeout."""
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", select.POLLHUP))
    poll.poll(HANG_UP_SECONDS * 1000)
    return b""


def joined_batches(batches: Iterable[pa.RecordBatch], longest: int) -> Iterator[pa.Table]:
    """Batches joined into tables of about `longest` rows, or `MAX_TABLE_BYTES` if less; empty ones are skipped."""
    import pyarrow as pa

    pending: list[Any] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= longest or size >= MAX_TABLE_BYTES:
            yield pa.Table.from_batches(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending)


def conform_all(tables: Iterator[pa.Table], schema: pa.Schema, name: str) -> Iterator[pa.Table]:
    for table in tables:
        yield conformed(table, schema, name)


def conformed(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """A partition's table with the names and types of the schema."""
    types = dict(zip(schema.names, schema.types, strict=True))
    return conform(table.rename_columns(schema.names), schema.names, types, name)


def pack(value: Any) -> bytes:
    """A pickle, as Spark makes of functions: by value if workers cannot import a class."""

    class Pickler(pyspark().cloudpickle.Pickler):  # type: ignore[misc]
        """Pickles methods of compiled classes by name; Spark's own would try to pickle their code."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, MethodType) and isinstance(obj.__self__, type):
                return getattr, (obj.__self__, obj.__name__)
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file).dump(value)
    if file.tell() > MAX_SUM_BYTES:
        raise EngineError(
            f"the sum of one partition takes {file.tell() / 2**30:.1f} GB, more than a row of Spark can hold: learn "
            f"fewer columns, categories or words (n_features= limits the vocabulary)"
        )
    return file.getvalue()


def part_row(part: int, total: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([part], pa.int64()), pa.array([total], pa.binary()), pa.array([error], pa.binary())]
    return pa.record_batch(columns, names=["part", "total", "error"])


# What runs on the driver.


def part_sizes(parts: Any) -> list[Any]:
    """All parts with their sizes in bytes; few and small sums are included, so that no second query is needed."""
    small = f"IF(part < {FAN_IN} AND length(total) <= {MAX_BYTES_SENT_ALONG}, total, NULL) AS total"
    rows: list[Any] = parts.selectExpr("part", "length(total) AS size", small, "error").collect()
    return rows


def checked_parts(rows: list[Any], name: str, width: int = 1) -> list[Any]:
    """The parts, or the error of the first that failed; `width` is the number of partitions of a part."""
    failed = [row for row in rows if row.error is not None]
    if failed:
        first = min(failed, key=lambda row: row.part)
        error = pickle.loads(first.error)
        last = (first.part + 1) * width - 1
        where = f"partition {last}" if width == 1 else f"partitions {first.part * width} to {last}"
        raise error.located(file=f"{where} of {name}")
    return rows


def sample_head(head: bytes) -> tuple[pa.Table, bool]:
    import pyarrow as pa

    written, more = pickle.loads(head)
    return pa.ipc.open_stream(written).read_all(), more


def water_level(sizes: Sequence[int], rows: int) -> int:
    """The least limit per part, such that the parts cut to it have `rows` rows in all, or all there are."""
    remaining = rows
    for index, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - index) >= remaining:
            return math.ceil(remaining / (len(sizes) - index))
        remaining -= size
    return max(sizes, default=0)


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Suppress PySpark's warning about pandas 3, which is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def short_errors(name: str) -> Iterator[None]:
    """Errors of Spark in one line, without the stack traces of two languages."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        raise EngineError("{problem}", problem=reason(str(error), name)) from None


OUR_ERROR = re.compile(r"deciban\.errors\.EngineError: (.*)")
CAUSED_BY = re.compile(r"^Caused by: (.*)", re.MULTILINE)
FAILED_TASK = re.compile(r"Task (\d+) in stage \S+ failed \d+ times.*?executor \S+\): ")
ERROR_PREFIX = re.compile(r"^(An error occurred while calling \S+\s*: )?([\w.$]+(Exception|Error): )?", re.MULTILINE)
SQL_STATE = re.compile(r"\s*SQLSTATE: \w+")


def reason(text: str, name: str) -> str:
    """The one or two lines that matter of Spark's message: which partition, what happened, and why."""
    if ours := OUR_ERROR.findall(text):
        return str(ours[-1])
    if "No module named 'deciban" in text:
        return f"{name}: deciban is not installed on the Spark executors: install the same version there"
    task = FAILED_TASK.search(text)
    where = f"partition {task[1]} of {name}" if task else name
    if "Python worker exited unexpectedly" in text or "ExecutorLostFailure" in text:
        return (
            f"{where}: the executor was killed or failed each time Spark tried. If it ran out of memory, make "
            f"partitions smaller (repartition) or give executors more (spark.executor.memoryOverhead)"
        )
    _, python, trace = text.rpartition("Traceback (most recent call last):\n")
    if python:
        lines = [line for line in trace.splitlines() if line.strip() and not line[0].isspace()][:1]
    else:
        first = text[task.end() :] if task else text
        lines = [
            ERROR_PREFIX.sub("", line, count=1).partition("\n")[0] for line in [first, *CAUSED_BY.findall(first)[-1:]]
        ]
    return f"{where}: {' '.join(dict.fromkeys(one_line(SQL_STATE.sub('', line).strip()) for line in lines))}"


def summary_of(error: BaseException) -> str:
    """An error in one line."""
    return one_line(f"{type(error).__name__}: {error}")


def pyspark() -> Any:
    try:
        import pyspark
        import pyspark.cloudpickle
        import pyspark.sql
    except ModuleNotFoundError as error:
        raise EngineError("PySpark is not installed: pip install 'deciban[spark]'") from error
    return pyspark
