"""Streams of rows: files of any kind and size, Arrow record batches, frames from a generator, in constant memory.

One thread reads while others work: tables go to the workers in turn, each worker sums its own, and the sums are added
at the end. So the result depends on the number of workers only by rounding.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from deciban.engines.base import Answer, Engine, Sum, Watch, Work, sum_of_parts, thinned
from deciban.engines.dispatch import is_paths
from deciban.errors import DecibanError, EngineError, set_row_numbers
from deciban.show import one_line
from deciban.sources.base import Batch, Source
from deciban.sources.column_types import as_written
from deciban.sources.read_ahead import map_in_order
from deciban.threads import threads

if TYPE_CHECKING:
    import pyarrow as pa

    from deciban.reading.kinds import Conventions

Result = TypeVar("Result")

TABLE_ROWS = 1 << 16  # rows of a table
CHECKPOINT_SECONDS = 60.0  # seconds between two checkpoints
MAX_WAITING_TABLES = 2  # tables that wait for each worker
MAX_TABLES_LOOKED_AT = 64  # tables in which a column may be empty before it is read as strings
POLL_SECONDS = 0.05  # seconds between checks for a failed worker


def stream(
    rows: Any,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = CHECKPOINT_SECONDS,
    n_jobs: int | None = None,
    **how: Any,
) -> Stream:
    """Rows to learn from in constant memory: files, patterns, record batches, frames.

    Parameters
    ----------
    rows : path, pattern or several of them; Arrow reader or dataset; iterator, or function that returns one
        Files are what `deciban.sources.open_source` reads: CSV, Parquet, Arrow, JSON lines, compressed or not. An
        iterator gives frames (Arrow, pandas, Polars, mappings of columns), or pairs (X, y). What reads the rows more
        than once (EM) needs a function that returns a new iterator each time.
    checkpoint : path, optional
        A file that keeps the sums so far: started again with the same files, learning resumes from it. The file is
        removed at the end.
    every : float, default=60
        Shortest time in seconds between two checkpoints: tables already started are summed first.
    n_jobs : int, optional
        Threads that sum; None means one per processor.
    how : further arguments of `open_source`: format, delimiter, encoding, missing, types, strings, decimal,
        header, sheet, text_columns

    >>> import pyarrow as pa
    >>> from deciban import GaussianNB, stream
    >>> days = lambda: (pa.table({"x": [i + 0.1, i - 0.2], "rain": ["no", "yes"]}) for i in range(100))
    >>> GaussianNB().fit(stream(days), "rain").class_count_.tolist()
    [100.0, 100.0]
    """
    return Stream(tables_of(rows, how), checkpoint=checkpoint, every=every, n_jobs=n_jobs)


@runtime_checkable
class KeepsSums(Protocol):
    """Work whose sums can be saved to a file, with a note, and read back."""

    def keep(self, path: str, total: Any, note: dict[str, Any]) -> None: ...

    def kept(self, path: str) -> tuple[Any, dict[str, Any]]: ...


class Stream(Engine):
    """Tables one after another."""

    name: ClassVar[str] = "stream"

    def __init__(
        self,
        tables: TableSource,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = CHECKPOINT_SECONDS,
        n_jobs: int | None = None,
    ) -> None:
        self.tables, self.n_jobs = tables, n_jobs
        self.checkpoint, self.every = None if checkpoint is None else os.fspath(checkpoint), every
        self.once, self.named, self.target = tables.once, tables.named, tables.target
        self.size, self.unit, self.rows_named = tables.size, tables.unit, tables.name
        self.rows_read = 0  # in the last pass, so far
        self.conventions: Conventions | None = None  # how strings write numbers and dates, if that is known
        if not every >= 0:
            raise DecibanError(f"every is {every}: it must be a number of seconds, 0 or more")
        if self.checkpoint is not None and not os.path.isdir(os.path.dirname(self.checkpoint) or "."):
            raise DecibanError(
                "the folder of the checkpoint {file!r} does not exist: create it first", file=self.checkpoint
            )
        if self.checkpoint is not None and os.path.isdir(self.checkpoint):
            raise DecibanError("the checkpoint {file!r} is a folder: give the name of a file", file=self.checkpoint)
        if checkpoint is not None and not tables.marks():
            raise DecibanError(
                "checkpoint= works only with files, whose rows can be read again: leave it out",
                command_line="--checkpoint works only with files, whose rows can be read again: leave it out",
            )

    @property
    def schema(self) -> pa.Schema:
        return self.tables.schema

    @property
    def source(self) -> Source:
        """The files, if rows are in files."""
        assert isinstance(self.tables, FileTables)
        return self.tables.source

    def sample(self, rows: int) -> pa.Table:
        return self.tables.sample(rows)

    def whole(self, rows: int, size: int) -> pa.Table | None:
        """All rows, if there are at most `rows` of them, in at most `size` bytes; they then stay in memory."""
        return self.tables.whole(rows, size)

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        total: Sum | None = None
        done = 0
        keeps = work if self.checkpoint is not None and isinstance(work, KeepsSums) else None
        if keeps is not None:
            total, done = self._resumed(keeps)
        reading = self.tables.read(done, watch)
        self.rows_read = done
        try:
            while True:
                until = time.monotonic() + self.every if keeps is not None else None
                part, rows, more = self._sum_until(work, reading, until)
                total = sum_of_parts(iter([total, part]))
                done += rows
                self.rows_read = done
                if not more:
                    break
                if keeps is not None and self.checkpoint is not None:
                    keeps.keep(self.checkpoint, total, {"rows": done, "files": self.tables.marks()})
        finally:
            reading.close()
        if keeps is not None and self.checkpoint is not None and os.path.exists(self.checkpoint):
            os.unlink(self.checkpoint)
        return total

    def _resumed(self, keeps: KeepsSums) -> tuple[Any, int]:
        """The sum so far, and how many rows are in it."""
        assert self.checkpoint is not None
        if not os.path.exists(self.checkpoint):
            return None, 0
        total, note = keeps.kept(self.checkpoint)
        if note.get("files") != self.tables.marks():
            raise DecibanError(
                "the checkpoint {file!r} belongs to other files than {rows}, or they have changed since: remove it "
                "to start again",
                file=self.checkpoint,
                rows=self.rows_named,
            )
        return total, int(note["rows"])

    def _sum_until(
        self, work: Work[Sum], reading: Iterator[Batch], until: float | None
    ) -> tuple[Sum | None, int, bool]:
        """The sum over the tables read until then, how many rows they have, and whether there are more."""
        workers = [Worker(work) for _ in range(threads(self.n_jobs, 1 << 40))]
        rows, more = 0, False
        try:
            for number, batch in enumerate(reading):
                workers[number % len(workers)].give(batch.table, self.tables.place(batch))
                rows += batch.table.num_rows
                if until is not None and time.monotonic() >= until:
                    more = True
                    break
            return sum_of_parts(worker.end() for worker in workers), rows, more
        finally:
            for worker in workers:
                worker.stop()

    def apply(self, answer: Answer, fields: pa.Schema) -> Iterator[pa.Table]:
        """Tables of answers, in the order of the rows."""
        del fields
        return self.each(lambda batch: answer(batch.table))

    def each(
        self, work: Callable[[Batch], Result], watch: Watch | None = None, n_jobs: int | None = None
    ) -> Iterator[Result]:
        """work(batch) for every batch, in their order; several at once."""
        self.rows_read = 0
        workers = threads(self.n_jobs if n_jobs is None else n_jobs, 1 << 40)
        for batch, result in map_in_order(self.tables.read(0, watch), partial(self._attempted, work), workers):
            if isinstance(result, Failure):
                raise error_at(result.error, self.tables.place(batch))
            self.rows_read += batch.table.num_rows
            yield result

    def one_by_one(self, work: Callable[[pa.Table], None]) -> None:
        """Work on every table, in order, one at a time; the next is read in the meantime."""
        for _ in self.each(lambda batch: work(batch.table), n_jobs=1):
            pass

    def _attempted(self, work: Callable[[Batch], Result], batch: Batch) -> Result | Failure:
        """The result, or the error, to be raised once its place is known."""
        try:
            set_row_numbers(self.tables.place(batch).numbers)
            return work(batch)
        except Exception as error:
            return Failure(error)


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a batch."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is from, for messages, and the numbers of its rows."""

    description: str
    numbers: range | None = None
    by_row: bool = False  # whether a row's number alone is enough to find it


def error_at(error: BaseException, place: Place) -> BaseException:
    """The same error, with where it happened."""
    if isinstance(error, DecibanError):
        if place.by_row and error.row is not None and error.file is None:
            return error.located(numbers=place.numbers)
        return error.located(numbers=place.numbers, file=place.description)
    if isinstance(error, ValueError | TypeError):
        return EngineError("{problem}", file=place.description, problem=str(error))
    if isinstance(error, Exception):
        return EngineError("{kind}: {problem}", file=place.description, kind=type(error).__name__, problem=str(error))
    return error


class Worker:
    """A thread that sums the tables that it is given."""

    def __init__(self, work: Callable[[Iterator[Any]], Any]) -> None:
        self.tables: Queue[tuple[Any, Place] | None] = Queue(MAX_WAITING_TABLES)
        self.place, self.sum, self.stopped = Place("the rows"), Future[Any](), threading.Event()
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work: Callable[[Iterator[Any]], Any]) -> None:
        try:
            self.sum.set_result(work(self._received()))
        except BaseException as error:  # any error is passed on to the waiting thread
            self.sum.set_exception(error_at(error, self.place))

    def _received(self) -> Iterator[Any]:
        while (item := self.tables.get()) is not None and not self.stopped.is_set():
            table, self.place = item
            set_row_numbers(self.place.numbers)
            yield table

    def give(self, table: Any, place: Place) -> None:
        """Queue a table, as soon as there is room for it."""
        self._put((table, place))

    def _put(self, item: tuple[Any, Place] | None) -> None:
        while True:
            if self.sum.done():  # it failed: raise its error here
                self.sum.result()
                return
            try:
                self.tables.put(item, timeout=POLL_SECONDS)
                return
            except Full:
                continue

    def end(self) -> Any:
        """The sum of all tables that were given."""
        self._put(None)
        return self.sum.result()

    def stop(self) -> None:
        """Stop early: the sum is not needed."""
        self.stopped.set()
        if not self.sum.done():
            while not self.tables.empty():
                self.tables.get_nowait()
            self.tables.put(None)
        self.thread.join(1.0)


# ------------------------------------------------------------------ where tables come from


class TableSource(ABC):
    """Tables with the same columns, which can be read once or repeatedly."""

    name = "the rows"
    once = False
    named = True
    size: int | None = None
    unit = "rows"
    target: str | None = None
    schema: pa.Schema

    @abstractmethod
    def sample(self, rows: int) -> pa.Table:
        """Some rows, evenly spread if possible."""

    @abstractmethod
    def read(self, skip: int, watch: Watch | None) -> Generator[Batch, None, None]:
        """All rows but the first `skip`, in batches."""

    def whole(self, rows: int, size: int) -> pa.Table | None:
        """All rows, if they are known to be at most `rows`, in `size` bytes."""
        del rows, size
        return None

    def place(self, batch: Batch) -> Place:
        """Where rows are from. They are numbered within the table that was given, from 0."""
        return Place(batch.file, range(batch.first, batch.first + batch.table.num_rows))

    def marks(self) -> list[Any]:
        """A fingerprint of the rows, to check whether they are the same as before; empty if there is none."""
        return []


class FileTables(TableSource):
    """Files of tables or texts."""

    unit = "bytes"

    def __init__(self, source: Source, how: dict[str, Any] | None = None) -> None:
        self.source, self.schema, self.how = source, source.schema, how or {}
        self.name, self.size, self.once = source.name, source.size, source.size is None
        self._all_batches: list[Batch] | None = None  # all rows, if they are few
        self._rows_looked_at = 0  # rows read to find out whether they are few

    def sample(self, rows: int) -> pa.Table:
        # If rows can be read only once, from all that were read already: they may be sorted.
        table = thinned(self.source.sample(max(rows, self._rows_looked_at if self.once else 0)), rows)
        return as_written(table, self.source.whole)

    def whole(self, rows: int, size: int) -> pa.Table | None:
        import pyarrow as pa

        self._rows_looked_at = rows
        self._all_batches = self.source.whole_batches(rows, size)
        if self._all_batches is None:
            return None
        tables = [self.schema.empty_table(), *(batch.table for batch in self._all_batches)]
        return as_written(pa.concat_tables(tables).unify_dictionaries(), self.source.whole)

    def read(self, skip: int, watch: Watch | None) -> Generator[Batch, None, None]:
        for batch in self.source.batches(TABLE_ROWS, watch) if self._all_batches is None else self._all_batches:
            if batch.first + batch.table.num_rows > skip:
                before = max(0, skip - batch.first)
                yield replace(batch, table=batch.table.slice(before), first=batch.first + before) if before else batch

    def place(self, batch: Batch) -> Place:
        """Rows of files are numbered from 1, over all files."""
        first, last = batch.first + 1, batch.first + batch.table.num_rows
        return Place(f"{batch.file}, rows {first:,} to {last:,}", range(first, last + 1), by_row=True)

    def marks(self) -> list[Any]:
        if self.once:
            return []
        about = [(file.name, file.path.stat()) for file in self.source.files if file.path is not None]
        read = [[name, repr(value)] for name, value in sorted(self.how.items()) if value is not None]
        return [*([name, status.st_size, status.st_mtime_ns] for name, status in about), *read]


class FrameTables(TableSource):
    """Frames from an iterator: anything that is, or can be converted to, an Arrow table."""

    def __init__(self, make_iterator: Callable[[], Iterable[Any]], once: bool, name: str) -> None:
        import pyarrow as pa

        self.make_iterator, self.once, self.name = make_iterator, once, name
        self.iterator = iter(make_iterator())
        self.read_ahead: list[pa.Table] = []  # tables that were read already
        first = next(self.iterator, None)
        if first is None:
            raise DecibanError(f"{name} returned no rows: there is nothing to learn from")
        table, self.named, self.target = as_table(first)
        seen = [table]
        while len(seen) < MAX_TABLES_LOOKED_AT and pa.null() in known_types(seen).types:
            item = next(self.iterator, None)
            if item is None:
                break
            seen.append(as_table(item)[0])
        self.schema = settled_schema(known_types(seen), self.target)
        self.read_ahead += [self._conformed(table, number) for number, table in enumerate(seen)]

    def _place(self, number: int) -> str:
        return f"table {number} of {self.name}"

    def _conformed(self, table: pa.Table, number: int) -> pa.Table:
        if table.schema.equals(self.schema):
            return table
        missing = [name for name in self.schema.names if name not in table.column_names]
        if missing:
            raise EngineError("{file} has no column {column!r}", file=self._place(number), column=missing[0])
        columns = []
        for field in self.schema:
            try:
                columns.append(table[field.name].cast(field.type))
            except Exception as error:  # Arrow's errors have no common kind
                raise EngineError(
                    "column {column!r} holds {own}, but in the first table {first} ({problem})",
                    column=field.name,
                    file=self._place(number),
                    own=table[field.name].type,
                    first=field.type,
                    problem=one_line(str(error)),
                ) from None
        import pyarrow as pa

        return pa.table(columns, schema=self.schema)

    def sample(self, rows: int) -> pa.Table:
        import pyarrow as pa

        if not self.read_ahead:  # all was read already
            if self.once:
                raise DecibanError(f"{self.name} can be read only once, and has been read: no sample can be drawn")
            self.iterator = iter(self.make_iterator())
        while sum(table.num_rows for table in self.read_ahead) < rows:
            item = next(self.iterator, None)
            if item is None:
                break
            self.read_ahead.append(self._conformed(as_table(item)[0], len(self.read_ahead)))
        return pa.concat_tables([self.schema.empty_table(), *self.read_ahead]).slice(0, rows).unify_dictionaries()

    def read(self, skip: int, watch: Watch | None) -> Generator[Batch, None, None]:
        read_ahead, self.read_ahead = self.read_ahead, []
        if read_ahead:
            items: Iterator[Any] = chain(read_ahead, self.iterator)
        elif self.once:
            raise DecibanError(
                f"{self.name} can be read only once, and has been read: give a function that returns a new iterator"
            )
        else:
            items = iter(self.make_iterator())
        done = 0
        for number, item in enumerate(items):
            whole = item if number < len(read_ahead) else self._conformed(as_table(item)[0], number)
            for start in range(0, whole.num_rows, TABLE_ROWS):
                table = whole.slice(start, TABLE_ROWS)
                done += table.num_rows
                if done > skip:
                    yield Batch(table, start, self._place(number))
            if watch is not None:
                watch(done)


def known_types(tables: list[pa.Table]) -> pa.Schema:
    """The type of each column in the first table in which it is not empty."""
    import pyarrow as pa

    fields = []
    for name in tables[0].column_names:
        types = [table.schema.field(name).type for table in tables if name in table.column_names]
        fields.append((name, next((kind for kind in types if not pa.types.is_null(kind)), pa.null())))
    return pa.schema(fields)


def settled_schema(schema: pa.Schema, target: str | None) -> pa.Schema:
    """Types that fit later tables too, in which integers may be floats or missing."""
    import pyarrow as pa

    fields = []
    for field in schema:
        if pa.types.is_integer(field.type) and field.name != target:
            field = field.with_type(pa.float64())
        elif pa.types.is_null(field.type):
            field = field.with_type(pa.string())
        elif pa.types.is_dictionary(field.type):
            field = field.with_type(field.type.value_type)
        fields.append(field.with_nullable(True))
    return pa.schema(fields)


def as_table(item: Any) -> tuple[pa.Table, bool, str | None]:
    """A frame, an array, or a pair (X, y), as an Arrow table; whether its columns have names; the column of labels."""
    import numpy as np
    import pyarrow as pa

    if isinstance(item, tuple) and len(item) == 2:
        table, named, _ = as_table(item[0])
        target = "y" if "y" not in table.column_names else "the labels"
        labels = item[1] if hasattr(item[1], "__arrow_c_stream__") else pa.array(np.asarray(item[1]).tolist())
        return table.append_column(target, labels), named, target
    if isinstance(item, pa.Table):
        return item, True, None
    if isinstance(item, pa.RecordBatch):
        return pa.Table.from_batches([item]), True, None
    if isinstance(item, np.ndarray):
        if item.ndim != 2:
            raise EngineError(f"an array of rows must have two dimensions, not {item.ndim}")
        return pa.table({f"x{j}": item[:, j] for j in range(item.shape[1])}), False, None
    if isinstance(item, dict):
        return pa.table(item), True, None
    if isinstance(item, list) and all(isinstance(row, dict) for row in item):
        return pa.Table.from_pylist(item), True, None
    if type(item).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(item, preserve_index=False).replace_schema_metadata(None), True, None
    if hasattr(item, "__arrow_c_stream__"):
        return pa.table(item), True, None
    raise EngineError(f"each item must be a frame, an array, or a pair (X, y), not {type(item).__name__}")


def tables_of(rows: Any, how: dict[str, Any] | None = None) -> TableSource:
    """The source of tables for rows of any type."""
    if isinstance(rows, Source):
        return FileTables(rows)
    if is_paths(rows):
        from deciban.sources import open_source

        paths = [rows] if isinstance(rows, str | os.PathLike) else list(rows)
        source = open_source(paths, **(how or {}))
        source.hashes = False
        return FileTables(source, how)
    if how:
        raise DecibanError(f"{', '.join(map(repr, how))} is for files: leave it out")
    kind = type(rows).__module__.partition(".")[0]
    if kind == "pyarrow" and hasattr(rows, "to_batches"):  # a dataset, or a scanner of one
        return FrameTables(rows.to_batches, False, "the dataset")
    if callable(rows):
        return FrameTables(rows, False, "the function")
    if hasattr(rows, "__iter__"):
        return FrameTables(lambda: rows, True, "the reader" if kind == "pyarrow" else "the generator")
    raise DecibanError(
        f"{type(rows).__name__} is not a source of rows: give paths, an Arrow reader, or an iterator of frames"
    )
