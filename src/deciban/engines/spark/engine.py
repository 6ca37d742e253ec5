"""Spark DataFrames: each partition is added up where it is, by `mapInArrow`, and the sums are merged in a tree.

What crosses the network is a sum a partition, not rows. Spark keeps the result of one attempt at each partition only:
that of a task which failed, was lost with its executor, or ran twice because it was slow, is dropped with all it had
added up. So every row counts exactly once, however often Spark had to try.

Nothing here needs more than `mapInArrow`, which DataFrames of Spark Connect have too; they have not been tried.
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

from deciban.engines.base import Answer, Engine, Sum, Watch, Work, added
from deciban.errors import DecibanError, EngineError
from deciban.show import one_line, without_secrets
from deciban.sources.column_types import conform, declared

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterator[pa.RecordBatch]

TABLE_ROWS = 1 << 16  # of a table that `work` is given; Spark's own batches are shorter
MAX_TABLE_BYTES = 1 << 26  # of such a table, where rows are long
FAN_IN = 16  # sums that are added at a time, places that a sample is from, sums that the driver is sent
MAX_BYTES_AT_ONCE = 1 << 28  # bytes of sums that are in one place: Spark's driver takes 1 GB, an Arrow column 2 GB
MAX_BYTES_SENT_ALONG = MAX_BYTES_AT_ONCE // FAN_IN  # bytes of a sum that is sent along with the news that it is there
MAX_SUM_BYTES = 1 << 29  # bytes of a sum: at least two of them have to fit into an Arrow column
HANG_UP_SECONDS = 600  # seconds that a process waits for Spark to hang up
PART_SCHEMA = "part long, total binary, error binary"
FORMAT_OF_ENDING = {"parquet": "parquet", "csv": "csv", "tsv": "csv"} | dict.fromkeys(
    ("json", "jsonl", "ndjson"), "json"
)


def is_mine(X: Any) -> bool:
    """Whether this is a Spark DataFrame, classic or of Spark Connect."""
    return any(kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(X).__mro__)


def from_paths(paths: Sequence[str], **how: Any) -> Spark:
    """Files that Spark reads itself, in the session that is active or a new one: Parquet, CSV or JSON lines.

    `how` is passed on as the reader's options. CSV and JSON are read through once to find the types of their columns,
    unless `schema` gives them.
    """
    endings = sorted({ending(path) or "parquet" for path in paths})
    if len(endings) != 1 or endings[0] not in FORMAT_OF_ENDING:
        raise EngineError(
            f"Spark is to read paths that end in {' and '.join(map(repr, map(one_line, endings))) or 'nothing'}: all "
            f"must have the same ending, one of {', '.join(FORMAT_OF_ENDING)} (compressed or not)"
        )
    kind, schema = FORMAT_OF_ENDING[endings[0]], how.pop("schema", None)
    options: dict[str, Any] = {}
    if kind == "csv":
        options = {"header": True, "inferSchema": schema is None, "sep": "\t" if endings[0] == "tsv" else ","}
    names = without_secrets(one_line(", ".join(paths[:3]) + (" …" if len(paths) > 3 else "")))
    with quiet(), in_one_line(names):
        reader = pyspark().sql.SparkSession.builder.getOrCreate().read.options(**options | how)
        frame = (reader if schema is None else reader.schema(schema)).format(kind).load(list(paths))
    return Spark(frame, names)


def ending(path: str) -> str:
    """What the end of a path says is in the file; nothing for a folder, in which Spark keeps Parquet by default."""
    parts = path.rstrip("/").rpartition("/")[2].lower().split(".")
    while len(parts) > 1 and parts[-1] in ("gz", "bz2", "zst", "snappy", "lz4", "deflate"):
        parts.pop()
    return parts[-1] if len(parts) > 1 else ""


class Spark(Engine):
    """The rows of a Spark DataFrame. They are gone through each time they are needed: cache it where that is dear."""

    name: ClassVar[str] = "spark"

    def __init__(self, X: Any, rows_named: str = "the Spark DataFrame") -> None:
        if not is_mine(X):
            raise EngineError(f"this engine takes a Spark DataFrame, not {type(X).__module__}.{type(X).__name__}")
        self.frame, self.rows_named = X, rows_named
        if X.isStreaming:
            raise EngineError(f"{rows_named} is a stream without an end: learn from each of its batches (foreachBatch)")
        twice = sorted({name for name in X.columns if X.columns.count(name) > 1})
        if twice:
            raise EngineError(
                "{rows} has several columns called {column!r}: rename all but one", column=twice[0], rows=rows_named
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
                    "column {column!r} of {rows} holds vectors of Spark ML: make a column of each entry "
                    "(pyspark.ml.functions.vector_to_array), or leave the column out",
                    column=field.name,
                    rows=self.rows_named,
                )
        with quiet(), in_one_line(self.rows_named):
            found = self.frame.limit(0).toArrow().schema  # no row is read for it
        return pa.schema([(field.name, declared(field.type, field.name, self.rows_named)) for field in found])

    def sample(self, rows: int) -> pa.Table:
        """The first rows of sixteen places, evenly, or all there are; none of them is read on after that.

        Spark puts neighbouring partitions together where there are more. A place does not know how many others there
        are, so the first gives all that could be wanted of it, the second half of that, the third a third: about three
        times too many at worst. Only where some have little and others more is a second look needed.
        """
        import pyarrow as pa

        name = f"a sample of {self.rows_named}"
        heads: dict[int, tuple[pa.Table, bool]] = {}
        shares: Mapping[int, int] | None = None
        while True:
            first = PartitionSum(pack(SampleHead(rows, shares)), self.schema, name, longest=1)
            with quiet(), in_one_line(name):
                found = self._positions().coalesce(FAN_IN).mapInArrow(first.added_up, PART_SCHEMA).collect()
            heads |= {row.part: sample_head(row.total) for row in checked_parts(found, name)}
            begun = [part for part, (_, more) in heads.items() if more]
            if not begun or sum(table.num_rows for table, _ in heads.values()) >= rows:
                break
            ended = sum(table.num_rows for table, more in heads.values() if not more)
            shares = dict.fromkeys(begun, math.ceil((rows - ended) / len(begun)))
        tables = [heads[part][0] for part in sorted(heads)]
        most = water_level([table.num_rows for table in tables], rows)
        return pa.concat_tables([self.schema.empty_table(), *(table.slice(0, most) for table in tables)]).slice(0, rows)

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """The sum over all partitions, of which the driver sees no more than sixteen parts."""
        partition = PartitionSum(pack(work), self.schema, self.rows_named)
        kept = []
        with quiet(), in_one_line(self.rows_named):
            try:
                parts, width = self._positions().mapInArrow(partition.added_up, PART_SCHEMA), 1
                while True:
                    # Kept on the executors' disks, so that a look at how many there are does not mean to work twice.
                    kept.append(parts.persist(pyspark().StorageLevel.DISK_ONLY))
                    found = checked_parts(part_sizes(parts), self.rows_named, width)
                    if width == 1 and watch is not None:
                        watch(len(found))
                    together = sum(row.size for row in found)
                    if len(found) <= FAN_IN and (together <= MAX_BYTES_AT_ONCE or len(found) <= 1):
                        break
                    fan = max(2, min(FAN_IN, MAX_BYTES_AT_ONCE * len(found) // together))
                    groups = len({row.part // fan for row in found})
                    near = parts.selectExpr("part", "total", f"part div {fan} AS near").repartition(groups, "near")
                    parts, width = near.mapInArrow(NeighbourSum(fan).added_up, PART_SCHEMA), width * fan
                if any(row.total is None for row in found):
                    found = parts.collect()
            finally:
                for frame in kept:
                    with suppress(Exception):  # of a cluster that is gone; what went wrong before is what matters
                        frame.unpersist()
        return added(pickle.loads(row.total) for row in sorted(found, key=lambda row: row.part))

    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """A DataFrame of the rows with the answers' columns beside them, worked out when it is used."""
        session = self.frame.sparkSession
        same = str if session.conf.get("spark.sql.caseSensitive") == "true" else str.lower
        taken = {same(name) for name in self.frame.columns}
        for name in fields.names:
            if same(name) in taken:
                raise EngineError(
                    "{rows} has a column {column!r} already, where an answer is to stand: rename it, or leave it out",
                    column=name,
                    rows=self.rows_named,
                )
        with quiet(), in_one_line(self.rows_named):
            answers = session.createDataFrame(fields.empty_table()).schema
            kinds = pyspark().sql.types.StructType([*self.frame.schema, *answers])
            partition = PartitionAnswers(pack(answer), self.schema, self.rows_named, tuple(kinds.names))
            return self._positions().mapInArrow(partition.beside_rows, kinds)

    def _positions(self) -> Any:
        """The DataFrame with columns called by their places: in a name, Spark takes dots and backticks for its own."""
        return self.frame.toDF(*(f"c{i}" for i in range(len(self.frame.columns))))


# What runs on the executors.


@dataclass(frozen=True)
class PartitionSum:
    """Work on one partition: a row with its number and its sum, or what was wrong; no row where nothing was there.

    What deciban itself finds wrong is wrong each time, so it is an answer and Spark does not try again. Anything else
    may have been bad luck: Spark tries again, and says in the end what came of it.
    """

    work: bytes  # packed
    schema: pa.Schema
    name: str
    longest: int = TABLE_ROWS

    def added_up(self, batches: Batches) -> Batches:
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
    """Sums of partitions whose numbers are next to each other, added in their order."""

    fan: int

    def added_up(self, batches: Batches) -> Batches:
        near: dict[int, list[tuple[int, Any]]] = {}
        for batch in batches:
            for part, total in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                near.setdefault(part // self.fan, []).append((part, total.as_buffer()))
        for group in sorted(near):
            try:
                parts = sorted(near.pop(group), key=lambda part: part[0])
                yield part_row(group, pack(added(pickle.loads(total) for _, total in parts)))
            except DecibanError as error:
                yield part_row(group, error=pack(error))
            except Exception as error:
                where = f"sums of partitions {parts[0][0]} to {parts[-1][0]}"
                raise EngineError("{problem}", file=where, problem=summary_of(error)) from error


@dataclass(frozen=True)
class SampleHead:
    """The first rows of a place, and whether there are more."""

    rows: int
    shares: Mapping[int, int] | None  # how many are wanted, by place; None: nobody knows yet how many places there are

    def __call__(self, tables: Iterator[pa.Table]) -> Any:
        import pyarrow as pa

        part = partition_number()
        wanted = math.ceil(self.rows / (part + 1)) if self.shares is None else self.shares.get(part, 0)
        if not wanted:
            return None
        taken: list[pa.Table] = []
        for table in tables:
            taken.append(table.slice(0, wanted))
            wanted -= table.num_rows
            if wanted < 0:
                break
        if not taken:
            return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, taken[0].schema) as stream:
            for table in taken:
                stream.write_table(table)
        return sink.getvalue().to_pybytes(), wanted < 0


@dataclass(frozen=True)
class PartitionAnswers:
    """Rows as Spark has them, with the answers beside them."""

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
    """Batches of which the rest may be left unread."""

    def __init__(self, batches: Batches) -> None:
        self.ended = False
        self.rest = self._all(batches)

    def _all(self, batches: Batches) -> Batches:
        yield from batches
        self.ended = True

    def __iter__(self) -> Batches:
        return self.rest

    def leave(self) -> None:
        """See to it that Spark does not produce what nobody is going to read.

        A process of Spark's that did not read all of its input is not used again. Before it ends it throws the rest
        away as fast as that comes, and as long as there is somebody to take rows, Spark goes on to send them and does
        not look whether there is an answer: every partition would be read to its end. So this process, whose last
        task this is, stops reading; it waits until Spark, which can send no more, has found the answer and hangs up.
        """
        with suppress(Exception):
            next(self.rest, None)  # it may have been the end: then the process is of use still, and was dear to start
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        if not self.ended and main is not None and main.name == "pyspark.daemon" and hasattr(select, "poll"):
            socket.socket.recv = wait_until_closed  # type: ignore[method-assign,assignment]


def wait_until_closed(connection: socket.socket, *_: Any) -> bytes:
    """In place of `recv`: nothing, once the other side has closed the connection, or seems to have forgotten it."""
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", select.POLLHUP))
    poll.poll(HANG_UP_SECONDS * 1000)
    return b""


def joined_batches(batches: Iterable[pa.RecordBatch], longest: int) -> Iterator[pa.Table]:
    """Batches put together to tables of about so many rows, or `MAX_TABLE_BYTES` if less; empty ones left out."""
    import pyarrow as pa

    held: list[Any] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= longest or size >= MAX_TABLE_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def conform_all(tables: Iterator[pa.Table], schema: pa.Schema, name: str) -> Iterator[pa.Table]:
    for table in tables:
        yield conformed(table, schema, name)


def conformed(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """The columns of a partition under their names and of their types."""
    types = dict(zip(schema.names, schema.types, strict=True))
    return conform(table.rename_columns(schema.names), schema.names, types, name)


def pack(value: Any) -> bytes:
    """Pickled, as Spark does with all functions: by value where a class is not to be found elsewhere."""

    class Pickler(pyspark().cloudpickle.Pickler):  # type: ignore[misc]
        """Takes methods of compiled classes by their names, of which Spark's own tries to pickle the code."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, MethodType) and isinstance(obj.__self__, type):
                return getattr, (obj.__self__, obj.__name__)
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file).dump(value)
    if file.tell() > MAX_SUM_BYTES:
        raise EngineError(
            f"the sum of one partition takes {file.tell() / 2**30:.1f} GB, more than a row of Spark can hold: "
            "learn fewer columns, categories or words (a hashed vocabulary has a size of its own)"
        )
    return file.getvalue()


def part_row(part: int, total: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([part], pa.int64()), pa.array([total], pa.binary()), pa.array([error], pa.binary())]
    return pa.record_batch(columns, names=["part", "total", "error"])


# What runs on the driver.


def part_sizes(parts: Any) -> list[Any]:
    """All parts with the bytes of each, and the few and small ones themselves, so that nobody has to ask again."""
    small = f"IF(part < {FAN_IN} AND length(total) <= {MAX_BYTES_SENT_ALONG}, total, NULL) AS total"
    found: list[Any] = parts.selectExpr("part", "length(total) AS size", small, "error").collect()
    return found


def checked_parts(found: list[Any], name: str, width: int = 1) -> list[Any]:
    """The parts, if nothing was wrong in any of them; `width` is how many partitions a part is of."""
    wrong = [row for row in found if row.error is not None]
    if wrong:
        first = min(wrong, key=lambda row: row.part)
        error = pickle.loads(first.error)
        last = (first.part + 1) * width - 1
        where = f"partition {last}" if width == 1 else f"partitions {first.part * width} to {last}"
        raise error.located(file=f"{where} of {name}")
    return found


def sample_head(head: bytes) -> tuple[pa.Table, bool]:
    import pyarrow as pa

    written, more = pickle.loads(head)
    return pa.ipc.open_stream(written).read_all(), more


def water_level(sizes: Sequence[int], rows: int) -> int:
    """The least number of rows, at most so many from each place, that makes `rows` together, or all there are."""
    left = rows
    for at, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - at) >= left:
            return math.ceil(left / (len(sizes) - at))
        left -= size
    return max(sizes, default=0)


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark warns of pandas 3 whenever it looks for it, though no pandas frame is made here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def in_one_line(name: str) -> Iterator[None]:
    """What Spark says went wrong, without the stack traces of two languages."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        raise EngineError("{problem}", problem=reason(str(error), name)) from None


OURS = re.compile(r"deciban\.errors\.EngineError: (.*)")
CAUSE = re.compile(r"^Caused by: (.*)", re.MULTILINE)
TASK = re.compile(r"Task (\d+) in stage \S+ failed \d+ times.*?executor \S+\): ")
BEFORE = re.compile(r"^(An error occurred while calling \S+\s*: )?([\w.$]+(Exception|Error): )?", re.MULTILINE)
STATE = re.compile(r"\s*SQLSTATE: \w+")


def reason(text: str, name: str) -> str:
    """The line or two that matter in what Spark says: which partition it was, what happened, and why."""
    if ours := OURS.findall(text):
        return str(ours[-1])
    if "No module named 'deciban" in text:
        return f"{name}: the Python of Spark's executors has no deciban: install the same version there as here"
    task = TASK.search(text)
    where = f"partition {task[1]} of {name}" if task else name
    if "Python worker exited unexpectedly" in text or "ExecutorLostFailure" in text:
        return (
            f"{where}: whoever worked on it was killed or broke down, each time Spark tried. If memory was short, make "
            "partitions smaller (repartition) or give executors more (spark.executor.memoryOverhead)"
        )
    _, python, trace = text.rpartition("Traceback (most recent call last):\n")
    if python:
        lines = [line for line in trace.splitlines() if line.strip() and not line[0].isspace()][:1]
    else:
        first = text[task.end() :] if task else text
        lines = [BEFORE.sub("", line, count=1).partition("\n")[0] for line in [first, *CAUSE.findall(first)[-1:]]]
    return f"{where}: {' '.join(dict.fromkeys(one_line(STATE.sub('', line).strip()) for line in lines))}"


def summary_of(error: BaseException) -> str:
    """An error in a line."""
    return one_line(f"{type(error).__name__}: {error}")


def pyspark() -> Any:
    try:
        import pyspark
        import pyspark.cloudpickle
        import pyspark.sql
    except ModuleNotFoundError as error:
        raise EngineError("PySpark is not installed: pip install 'deciban[spark]'") from error
    return pyspark
