"""Dask: frames, arrays and bags, on any scheduler. One task per partition, and a tree of tasks adds the sums.

A partition's sum is what its task returns. If a worker is lost, Dask runs its tasks again, and the new results
replace the lost ones: nothing is added twice, and nothing is left out. Only the total reaches the client.

Every partition is read with one schema. Dask knows the types of most columns; for the others (objects, categories that
it has not seen, all of a bag) a few partitions are read.
"""

from __future__ import annotations

import glob
import importlib
import os
import pickle
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, isnan
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

from deciban.engines.base import Answer, Engine, Sum, Watch, Work, sum_of_parts, thinned
from deciban.engines.dask.partitions import (
    LABEL_COLUMN,
    TEXT_COLUMN,
    PartitionColumns,
    PartitionReader,
    columns_of_array,
    columns_of_bag,
    columns_of_frame,
    kind_of_dtype,
    kind_of_values,
    merged_type,
)
from deciban.errors import DecibanError, EngineError
from deciban.reading.frames import unique_names
from deciban.show import one_line, without_secrets
from deciban.sources.column_types import MISSING

PACKAGES = ("dask", "dask_expr")
COLLECTIONS = ("DataFrame", "Series", "Array", "Bag")
FAN_IN = 8  # sums that one task adds
SAMPLED_PARTITIONS = 16  # partitions to sample from, if they have enough rows
PARTITIONS_LOOKED_AT = 4  # partitions that are read first for the types of columns
MAX_MESSAGE_CHARACTERS = 500  # characters of another library's message
DISCONNECTED = ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError", "TimeoutError")


def collection_kind(X: Any) -> str | None:
    """Which of Dask's collections X is, directly or by inheritance, without importing Dask; None if it is not one."""
    for base in type(X).__mro__:
        if base.__module__.partition(".")[0] in PACKAGES and base.__name__ in COLLECTIONS:
            return base.__name__
    return None


def optional_module(module: str) -> Any:
    """A module of Dask, which may not be installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module}, which is not installed: pip install 'deciban[dask]'") from error


class Dask(Engine):
    """Rows in a Dask collection.

    Parameters
    ----------
    X : dask DataFrame, Series, Array or Bag
        A Bag holds dicts, with a key for each column; or texts; or pairs of a text and its label. The columns of an
        Array are called x0, x1, …; an Array of one dimension holds texts.
    y : dask Series, Array or Bag, optional
        Labels that are not a column of X, in the order of its rows. `target` is the name of their column: that of
        the Series, if it has one; "label" for texts; otherwise "y".
    files : sequence of str, optional
        What X was read from. Errors name the file, if there is one for each partition.

    >>> import pandas as pd, dask, dask.dataframe as dd
    >>> from deciban.engines.dask.engine import Dask
    >>> rows = Dask(dd.from_pandas(pd.DataFrame({"x": [1.5, 2.0, 4.0], "y": list("aab")}), npartitions=2))
    >>> rows.schema.names, rows.size
    (['x', 'y'], 2)
    >>> with dask.config.set(scheduler="synchronous"):
    ...     rows.collect(lambda tables: sum(table.num_rows for table in tables))
    3
    """

    name: ClassVar[str] = "dask"

    def __init__(self, X: Any, y: Any = None, *, files: Sequence[str] = ()) -> None:
        kind = collection_kind(X)
        if kind is None:
            raise DecibanError(f"a {type(X).__name__} is not a Dask DataFrame, Series, Array or Bag")
        if y is not None and collection_kind(y) is None:
            raise DecibanError(
                f"the rows are a Dask {kind}, and the labels a {type(y).__name__}: put the labels into a column of "
                f"X, or give them as a Dask collection with the same partitions"
            )
        self.rows_named = f"the Dask {kind}"
        self._rows: Collection = {"Array": ArrayCollection, "Bag": BagCollection}.get(kind, FrameCollection)(X, y)
        self.named, self.target, self.size = self._rows.named, self._rows.target, self._rows.size
        self._files = files if len(files) == self.size else ()
        if kind == "Bag" and y is None and self._schema_and_pairs[1]:
            self.target = LABEL_COLUMN

    @cached_property
    def _parts(self) -> list[tuple[Any, ...]]:
        """Each partition as a `Delayed`, with that of its labels if they are separate."""
        try:
            return self._rows.parts()
        except DecibanError:
            raise
        except Exception as error:  # Dask may read files here
            raise EngineError(
                "{rows} cannot be read: {problem}", rows=self.rows_named, problem=summary_of(error)
            ) from error

    # ------------------------------------------------------------------ the schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema_and_pairs[0]

    @cached_property
    def _schema_and_pairs(self) -> tuple[pa.Schema, bool]:
        """The schema, and whether rows are pairs of a text and its label; partitions are read for unknown types."""
        known = self._rows.kinds(self.rows_named)
        types: dict[str, set[pa.DataType]] = {name: set() if kind is None else {kind} for name, kind in known.items()}
        unknown = [name for name, kind in known.items() if kind is None]
        pairs, remaining, count = False, list(range(len(self._parts))), PARTITIONS_LOOKED_AT
        # Continue while types are unknown that a few more partitions may have; a bag without rows has none.
        while remaining and (
            not types or (count <= SAMPLED_PARTITIONS and any(types[name] <= {pa.null()} for name in unknown))
        ):
            chosen = evenly_spaced(remaining, count)
            for kinds, paired in self._each(KindsJob(self._rows.columns, self.target, known), chosen):
                pairs |= paired
                for name, kind in kinds.items():
                    types.setdefault(name, set()).add(kind)
            unknown = [name for name in types if known.get(name) is None]
            remaining, count = [i for i in remaining if i not in chosen], 2 * count
        kinds = {name: known.get(name) or merged_type(types[name], name, self.rows_named) for name in types}
        return pa.schema(list(kinds.items())), pairs

    @property
    def _reader(self) -> PartitionReader:
        return PartitionReader(self._rows.columns, self._rows.target, self.schema)

    # ------------------------------------------------------------------ rows

    def sample(self, rows: int) -> pa.Table:
        """From a few evenly spaced partitions, and from more until there are known to be more than `rows` rows."""
        sampled: dict[int, tuple[int, pa.Table]] = {}
        remaining, total, count = list(range(len(self._parts))), 0, SAMPLED_PARTITIONS
        while remaining and total <= rows:
            chosen = evenly_spaced(remaining, count)
            samples = self._each(SampleJob(self._reader, ceil(rows / len(chosen))), chosen)
            sampled.update(zip(chosen, samples, strict=True))
            remaining, total = [i for i in remaining if i not in sampled], sum(size for size, _ in sampled.values())
            needed = ceil((rows - total + 1) * len(sampled) / max(1, total))  # if the others are like these
            count = max(1, min(2 * len(sampled), needed))
        shares = rows_per_partition({i: size for i, (size, _) in sampled.items()}, rows)
        short = [i for i, share in shares.items() if share > sampled[i][1].num_rows]
        if short:  # some have few rows, so others have to give more than expected
            more = self._each(SampleJob(self._reader, max(shares[i] for i in short)), short)
            sampled.update(zip(short, more, strict=True))
        tables = [thinned(sampled[i][1], share) for i, share in sorted(shares.items())]
        return pa.concat_tables([self.schema.empty_table(), *tables]).unify_dictionaries()

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """One task per partition, then a tree of tasks, in the order of partitions.

        `dask.annotate(retries=2)` around it lets Dask retry failed tasks, if the network is unreliable.
        """
        tasks = self._tasks(SumJob(work, self._reader), range(len(self._parts)))
        level, add = list(tasks.values()), optional_module("dask").delayed(add_up, pure=False)
        token = uuid4().hex
        while len(level) > 1:
            groups = [level[start : start + FAN_IN] for start in range(0, len(level), FAN_IN)]
            level = [
                add(group, dask_key_name=f"deciban-add-{token}-{len(level)}-{i}") if len(group) > 1 else group[0]
                for i, group in enumerate(groups)
            ]
        total: Sum | None = self._computed(level, tasks, watch)[0]
        return total

    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """A Dask collection like X, with as many rows: a frame, or a series if there is one field; an array; a bag.

        Nothing is computed yet, except for the types of columns that Dask does not know.
        """
        return self._rows.apply(PartitionAnswer(answer, self._reader, fields, self.rows_named))

    # ------------------------------------------------------------------ tasks

    def _place(self, number: int) -> str:
        file = f" ({without_secrets(one_line(self._files[number]))})" if self._files else ""
        return place_of(number, self.rows_named) + file

    def _tasks(self, job: Job, numbers: Sequence[int]) -> dict[int, Any]:
        """Tasks that run a job on some partitions, by their numbers. The job is in the graph once."""
        delayed, token = optional_module("dask").delayed, uuid4().hex
        shared_job = delayed(job, name=f"deciban-job-{token}", pure=False, traverse=False)
        run = delayed(run_job, pure=False)
        return {
            i: run(shared_job, self._place(i), *self._parts[i], dask_key_name=f"deciban-part-{token}-{i}")
            for i in numbers
        }

    def _each(self, job: Job, numbers: Sequence[int]) -> list[Any]:
        tasks = self._tasks(job, numbers)
        return self._computed(list(tasks.values()), tasks)

    def _computed(self, targets: list[Any], tasks: Mapping[int, Any], watch: Watch | None = None) -> list[Any]:
        """The results of the tasks `targets`, on the current scheduler; `tasks` are those of partitions, to watch."""
        client = client_in_use()
        if client is None:
            return self._computed_here(targets, tasks, watch)
        return self._computed_there(client, targets, tasks, watch)

    def _computed_here(self, targets: list[Any], tasks: Mapping[int, Any], watch: Watch | None) -> list[Any]:
        keys, finished = {task.key for task in tasks.values()}, 0

        def after(key: Any, *rest: Any) -> None:
            nonlocal finished
            del rest
            if key in keys and watch is not None:
                finished += 1
                watch(finished)

        try:
            # Errors keep their whole trace, which contains the task that failed, and so the partition.
            full_trace = optional_module("dask").config.set({"admin.traceback.shorten": []})
            with full_trace, optional_module("dask.callbacks").Callback(posttask=after):
                return list(optional_module("dask").compute(*targets))
        except DecibanError:
            raise
        except Exception as error:
            number = partition_needing(failed_key(error), tasks)
            raise engine_error(error, self.rows_named if number is None else self._place(number)) from error

    def _computed_there(
        self, client: Any, targets: list[Any], tasks: Mapping[int, Any], watch: Watch | None
    ) -> list[Any]:
        keys = {task.key for task in targets}
        numbers = {task.key: number for number, task in tasks.items()}
        where, futures = self.rows_named, []
        try:
            futures = client.compute([*targets, *(task for task in tasks.values() if task.key not in keys)])
            parts = [future for future in futures if future.key in numbers]
            for finished, future in enumerate(optional_module("distributed").as_completed(parts), 1):
                where = self._place(numbers[future.key])
                if future.status != "finished":
                    future.result()  # raises its error
                if future.key not in keys:
                    future.release()  # a sum is kept only until it is added
                if watch is not None:
                    watch(finished)
            where = self.rows_named
            return list(client.gather(futures[: len(targets)]))
        except DecibanError:
            raise
        except Exception as error:
            raise engine_error(error, where) from error
        finally:
            for future in futures:
                future.release()  # cancels what still runs


def client_in_use() -> Any:
    """The client that Dask would compute with; None if it would compute in this process."""
    if "distributed" not in sys.modules:
        return None
    owner = getattr(optional_module("dask.base").get_scheduler(), "__self__", None)
    return owner if isinstance(owner, optional_module("distributed").Client) else None


# ------------------------------------------------------------------ jobs on partitions, on workers


class SentToWorkers:
    """What is sent to workers; it contains no object of Dask's.

    It is pickled separately, by plain pickle if possible. Dask pickles a whole graph at once, and by cloudpickle if it
    contains an anonymous function; and cloudpickle refuses some compiled objects.
    """

    __slots__: tuple[str, ...] = ()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        values = tuple(getattr(self, name) for name in self.__slots__)
        try:
            pickled = pickle.dumps(values, protocol)
        except Exception:  # objects may raise anything
            return type(self), values
        return (type(self), values) if b"__main__" in pickled else (unpickled, (type(self), pickled))


def unpickled(kind: type[SentToWorkers], values: bytes) -> SentToWorkers:
    return kind(*pickle.loads(values))


class Job(SentToWorkers):
    """A function of a partition."""

    __slots__ = ()

    def __call__(self, part: Any, labels: Any = None) -> Any:
        """The result for one partition."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class SumJob(Job):
    """A partition's sum."""

    work: Callable[[Iterator[pa.Table]], Any]
    reader: PartitionReader

    def __call__(self, part: Any, labels: Any = None) -> Any:
        return self.work(self.reader.tables(part, labels))


@dataclass(frozen=True, slots=True, eq=False)
class SampleJob(Job):
    """How many rows a partition has, and some of them."""

    reader: PartitionReader
    rows: int

    def __call__(self, part: Any, labels: Any = None) -> tuple[int, pa.Table]:
        return self.reader.some(self.rows, part, labels)


@dataclass(frozen=True, slots=True, eq=False)
class KindsJob(Job):
    """The types of a partition's columns that are not known, and whether its rows are pairs."""

    columns: Callable[..., PartitionColumns]
    target: str | None
    known: Mapping[str, pa.DataType | None]

    def __call__(self, part: Any, labels: Any = None) -> tuple[dict[str, pa.DataType], bool]:
        partition = self.columns(part, labels, self.target)
        names = [name for name in partition.values if self.known.get(name) is None and partition.size]
        return {name: kind_of_values(partition.values[name], name) for name in names}, partition.pairs


@dataclass(frozen=True, slots=True, eq=False)
class PartitionAnswer(SentToWorkers):
    """Answers for a partition's rows."""

    answer: Answer
    reader: PartitionReader
    fields: pa.Schema
    rows_named: str

    def __call__(self, number: int | None, part: Any, labels: Any = None) -> pa.Table:
        place = self.rows_named if number is None else place_of(number, self.rows_named)
        with errors_placed_at(place):
            answers = [self.answer(table) for table in self.reader.tables(part, labels)]
            return pa.concat_tables([self.fields.empty_table(), *answers])


def run_job(job: Job, place: str, *part: Any) -> Any:
    with errors_placed_at(place):
        return job(*part)


def add_up(parts: list[Any]) -> Any:
    return sum_of_parts(iter(parts))


@contextmanager
def errors_placed_at(place: str) -> Iterator[None]:
    """Errors inside name the place."""
    try:
        yield
    except DecibanError as error:
        raise error.located(file=place) from None
    except Exception as error:
        raise EngineError("{problem}", file=place, problem=summary_of(error)) from error


def place_of(number: int, rows_named: str) -> str:
    return f"partition {number} (counted from 0) of {rows_named}"


# ------------------------------------------------------------------ Dask's collections


class Collection(ABC):
    """One of Dask's collections, and how its partitions are read."""

    named = True
    size: int
    target: str | None = None
    columns: Callable[..., PartitionColumns]  # of a partition

    @abstractmethod
    def __init__(self, X: Any, y: Any) -> None:
        """Rows, and labels if they are separate, partitioned at the same rows."""

    @abstractmethod
    def parts(self) -> list[tuple[Any, ...]]:
        """Each partition, and its labels if they are separate, as `Delayed`."""

    @abstractmethod
    def kinds(self, where: str) -> dict[str, pa.DataType | None]:
        """Columns and their types, None if Dask does not know the type; empty if it knows no columns."""

    @abstractmethod
    def apply(self, answer: PartitionAnswer) -> Any:
        """Answers for all rows, computed lazily."""


class FrameCollection(Collection):
    """A DataFrame, or a Series."""

    columns = staticmethod(columns_of_frame)

    def __init__(self, X: Any, y: Any) -> None:
        if collection_kind(X) == "Series":
            X = X.to_frame(name=TEXT_COLUMN if X.name is None else X.name)
        self.X, self.size, self.names = X, X.npartitions, unique_names(X.columns)
        self.y = None if y is None else series_beside(X, y)
        if self.y is not None:
            self.target = unused_name(self.y.name, self.names)

    def parts(self) -> list[tuple[Any, ...]]:
        if self.y is None:
            return [(part,) for part in self.X.to_delayed()]
        # Dask would merge files by how few columns are read from them, and so X and y differently.
        return list(zip(*(part.to_delayed(optimize_graph=False) for part in (self.X, self.y)), strict=True))

    def kinds(self, where: str) -> dict[str, pa.DataType | None]:
        types = dict(zip(self.names, self.X.dtypes, strict=True))
        if self.y is not None and self.target is not None:
            types[self.target] = self.y.dtype
        return {name: kind_of_dtype(dtype, name, where) for name, dtype in types.items()}

    def apply(self, answer: PartitionAnswer) -> Any:
        labels = [] if self.y is None else [self.y]
        return self.X.map_partitions(
            partial(answer_frame, answer), *labels, meta=as_frame(answer.fields.empty_table(), None)
        )


def series_beside(X: Any, y: Any) -> Any:
    """Labels as a Series with the partitions of the frame X."""
    kind = collection_kind(y)
    if kind == "DataFrame" and len(y.columns) == 1:
        y, kind = y[y.columns[0]], "Series"
    elif kind == "Array":
        y = one_dimensional(y).to_dask_dataframe()
    elif kind != "Series":
        raise DecibanError(f"the rows are a Dask DataFrame, and the labels a {kind}: give a Series or an Array")
    elif X.known_divisions and y.known_divisions and X.divisions != y.divisions:
        ends = [(rows.divisions[0], rows.divisions[-1]) for rows in (X, y)]
        if ends[0] == ends[1]:
            y = y.repartition(divisions=X.divisions)
    if y.npartitions != X.npartitions:
        raise DecibanError(
            f"the rows are in {X.npartitions} partitions and the labels in {y.npartitions}: X and y must have the "
            f"same partitions. Put the labels into a column of X"
        )
    return y


def one_dimensional(y: Any) -> Any:
    """Labels as an array of one dimension."""
    if y.ndim == 2 and y.shape[1] == 1:
        return y[:, 0]
    if y.ndim != 1:
        raise DecibanError(f"the labels are an array of shape {y.shape}: give one label per row")
    return y


def unused_name(preferred: Any, names: Sequence[str]) -> str:
    """A name that no column has."""
    name = "y" if preferred is None or str(preferred) in names else str(preferred)
    while name in names:
        name += "_"
    return name


def as_frame(table: pa.Table, index: Any) -> Any:
    """Answers as a pandas frame, or as a series if there is one field."""
    plain = table.cast(pa.schema([(field.name, plain_type(field.type)) for field in table.schema]))
    frame = plain.to_pandas()
    if index is not None:
        frame.index = index
    return frame.iloc[:, 0] if frame.shape[1] == 1 else frame


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Strings in place of dictionary codes, which would differ between partitions."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def answer_frame(
    answer: PartitionAnswer, part: Any, labels: Any = None, partition_info: Mapping[str, Any] | None = None
) -> Any:
    number = None if partition_info is None else partition_info["number"]
    return as_frame(answer(number, part, labels), part.index)


class ArrayCollection(Collection):
    """An Array: rows and columns, or texts."""

    named = False
    columns = staticmethod(columns_of_array)

    def __init__(self, X: Any, y: Any) -> None:
        if X.ndim == 1 and X.dtype.kind not in "OUST":
            raise DecibanError("a Dask Array of one dimension is not a table: X.reshape(-1, 1) makes it one column")
        if X.ndim > 2 or X.dtype.names is not None:
            raise DecibanError(f"a Dask Array of shape {X.shape} and type {X.dtype} is not a table of rows and columns")
        if X.ndim == 2 and isnan(X.shape[1]):
            raise DecibanError("the Dask Array has an unknown number of columns: call X.compute_chunk_sizes() first")
        if not isinstance(X._meta, np.ndarray):
            raise DecibanError(
                f"the blocks of the Dask Array are of type {type(X._meta).__name__}: convert them to NumPy arrays, "
                f"as in X.map_blocks(lambda block: block.toarray())"
            )
        self.X = X.rechunk({1: -1}) if X.ndim == 2 and len(X.chunks[1]) > 1 else X  # whole rows
        self.size, self.named = len(self.X.chunks[0]), X.ndim == 1
        self.names = [TEXT_COLUMN] if X.ndim == 1 else [f"x{j}" for j in range(X.shape[1])]
        self.y = None if y is None else array_beside(self.X, y)
        if self.y is not None:
            self.target = LABEL_COLUMN if X.ndim == 1 else "y"

    def parts(self) -> list[tuple[Any, ...]]:
        parts = self.X.to_delayed().ravel()
        return [(part,) for part in parts] if self.y is None else list(zip(parts, self.y.to_delayed(), strict=True))

    def kinds(self, where: str) -> dict[str, pa.DataType | None]:
        types = {name: kind_of_dtype(self.X.dtype, name, where) for name in self.names}
        if self.y is not None and self.target is not None:
            types[self.target] = kind_of_dtype(self.y.dtype, self.target, where)
        return types

    def apply(self, answer: PartitionAnswer) -> Any:
        dask_array = optional_module("dask.array")
        dtype, width = common_dtype(answer.fields), len(answer.fields)
        rows = self.X if self.X.ndim == 2 else self.X[:, None]
        labels = [] if self.y is None else [self.y[:, None]]
        is_series = width == 1
        return dask_array.map_blocks(
            partial(answer_array, answer, self.X.ndim == 1, dtype),
            rows,
            *labels,
            dtype=dtype,
            meta=np.empty((0,) if is_series else (0, width), dtype),
            **({"drop_axis": 1} if is_series else {"chunks": (rows.chunks[0], (width,))}),
        )


def array_beside(X: Any, y: Any) -> Any:
    """Labels as an Array of one dimension with the chunks of X."""
    kind = collection_kind(y)
    if kind == "DataFrame" and len(y.columns) == 1:
        y, kind = y[y.columns[0]], "Series"
    if kind not in ("Series", "Array"):
        raise DecibanError(f"the rows are a Dask Array, and the labels a {kind}: give an Array or a Series")
    y = one_dimensional(y.to_dask_array() if kind == "Series" else y)
    if not isnan(X.shape[0]) and not isnan(y.shape[0]):
        if X.shape[0] != y.shape[0]:
            raise DecibanError(f"there are {X.shape[0]:,} rows and {y.shape[0]:,} labels: give one label per row")
        return y.rechunk((X.chunks[0],))
    if len(y.chunks[0]) != len(X.chunks[0]):
        raise DecibanError(
            f"the rows are in {len(X.chunks[0])} blocks and the labels in {len(y.chunks[0])}, and their lengths are "
            f"unknown: call compute_chunk_sizes() on both first, or give both the same chunks"
        )
    return y


def common_dtype(fields: pa.Schema) -> np.dtype[Any]:
    """The type of an array of these columns: numeric if all are, else object."""
    return np.result_type(*(np.dtype(plain_type(field.type).to_pandas_dtype()) for field in fields))


def answer_array(
    answer: PartitionAnswer,
    texts: bool,
    dtype: np.dtype[Any],
    part: Any,
    labels: Any = None,
    block_id: Sequence[int] | None = None,
) -> Any:
    table = answer(None if block_id is None else int(block_id[0]), part[:, 0] if texts else part, labels)
    columns = [column.to_numpy().astype(dtype, copy=False) for column in table.columns]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


class BagCollection(Collection):
    """A Bag of dicts, texts, or pairs of a text and its label."""

    columns = staticmethod(columns_of_bag)

    def __init__(self, X: Any, y: Any) -> None:
        if y is not None and collection_kind(y) != "Bag":
            raise DecibanError(f"the rows are a Dask Bag, and the labels a {collection_kind(y)}: give a Bag of labels")
        if y is not None and y.npartitions != X.npartitions:
            raise DecibanError(
                f"the rows are in {X.npartitions} partitions and the labels in {y.npartitions}: X and y must have "
                f"the same partitions. Put both into one Bag, as pairs of a text and its label"
            )
        self.X, self.y, self.size = X, y, X.npartitions
        self.target = None if y is None else LABEL_COLUMN

    def parts(self) -> list[tuple[Any, ...]]:
        # Dask's optimisation makes partitions iterators, which X and y could not both consume.
        bags = [self.X] if self.y is None else [self.X, self.y]
        return list(zip(*(bag.to_delayed(optimize_graph=False) for bag in bags), strict=True))

    def kinds(self, where: str) -> dict[str, pa.DataType | None]:
        del where
        return {}

    def apply(self, answer: PartitionAnswer) -> Any:
        numbers = optional_module("dask.bag").from_sequence(range(self.size), npartitions=self.size)
        labels = [] if self.y is None else [self.y]
        return self.X.map_partitions(partial(answer_bag, answer), numbers, *labels)


def answer_bag(answer: PartitionAnswer, part: Any, numbers: Any, labels: Any = None) -> list[Any]:
    table = answer(next(iter(numbers)), part, labels)
    answers: list[Any] = table.column(0).to_pylist() if table.num_columns == 1 else table.to_pylist()
    return answers


# ------------------------------------------------------------------ choosing partitions and rows


def evenly_spaced(numbers: Sequence[int], limit: int) -> list[int]:
    """At most `limit` of these, evenly spaced.

    >>> evenly_spaced(range(10), 4)
    [0, 2, 5, 7]
    """
    count = min(limit, len(numbers))
    return [numbers[len(numbers) * i // count] for i in range(count)]


def rows_per_partition(sizes: Mapping[int, int], rows: int) -> dict[int, int]:
    """How many rows to take from each partition for `rows` in all: the same number, unless it has fewer.

    >>> rows_per_partition({0: 100, 1: 3, 2: 50}, 43)
    {1: 3, 2: 20, 0: 20}
    """
    shares, remaining = {}, rows
    for index, (number, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        shares[number] = min(size, remaining // (len(sizes) - index))
        remaining -= shares[number]
    return shares


# ------------------------------------------------------------------ files


def from_paths(paths: Sequence[str], **how: Any) -> Dask:
    """Parquet or CSV files, as Dask reads them: patterns, folders of Parquet files, and addresses such as s3://.

    `how` are further arguments of `dask.dataframe.read_parquet` or `read_csv`. In CSV files, integers are read as
    floats, since some may be missing, and the same texts mean missing as in the rest of deciban.
    """
    dataframe = optional_module("dask.dataframe")
    files, name = [file for path in paths for file in expanded(path)], shown_paths(paths)
    formats = {file_format(path) for path in files}
    read: Callable[..., Any] = dataframe.read_parquet
    if formats == {"csv"}:
        read = dataframe.read_csv
        tabs = all(re.search(r"\.(tsv|tab)\b", path.lower()) for path in files)
        how = {"assume_missing": True, "keep_default_na": False, "na_values": list(MISSING), **how}
        how = {"sep": "\t", **how} if tabs else how
    elif formats != {"parquet"}:
        raise DecibanError(
            "Dask reads Parquet and CSV files, all of the same format, by their extension (.parquet, .csv, .tsv): "
            "for anything else, create a Dask DataFrame and pass that",
            file=name,
        )
    if formats == {"parquet"}:  # Dask sorts these by the numbers in their names, whatever order was given
        order = optional_module("dask.utils").natural_sort_key
        files.sort(key=lambda path: order(os.path.abspath(path)))
    try:
        rows = Dask(read(files, **how), files=files)
    except DecibanError:
        raise
    except Exception as error:  # of any library that reads the files
        raise EngineError("{file} cannot be read: {problem}", file=name, problem=summary_of(error)) from error
    rows.rows_named = name
    return rows


def expanded(path: str) -> list[str]:
    """The files that match a pattern; URLs are left to Dask."""
    if "://" in path or os.path.exists(path) or not glob.has_magic(path):
        return [path]
    files = sorted(glob.glob(path, recursive=True))
    if not files:
        raise DecibanError("there is no file {file!r}", file=path)
    return files


def file_format(path: str) -> str | None:
    """The format of a file by its name; a folder holds Parquet files."""
    bare = re.sub(r"\.(gz|bz2|xz|zip|zst)$", "", path.lower())
    if bare.endswith((".csv", ".tsv", ".tab")):
        return "csv"
    return "parquet" if path.lower().endswith((".parquet", ".parq", ".pq", "/")) or os.path.isdir(path) else None


def shown_paths(paths: Sequence[str]) -> str:
    first = without_secrets(one_line(paths[0])) if paths else "nothing"
    return first if len(paths) < 2 else f"{first} and {len(paths) - 1} more"


# ------------------------------------------------------------------ errors


def summary_of(error: BaseException) -> str:
    """An error of another library in one line."""
    text = without_secrets(one_line(" ".join(str(error).split())))
    return f"{type(error).__name__}: {text[:MAX_MESSAGE_CHARACTERS]}{'…' if len(text) > MAX_MESSAGE_CHARACTERS else ''}"


def engine_error(error: Exception, where: str) -> DecibanError:
    """The error to raise when Dask gave up."""
    if isinstance(error, DecibanError):
        return error
    name = type(error).__name__
    if name == "KilledWorker":  # Dask blames every task that a dying worker had in its queue
        return EngineError(
            "every worker that computed it died, probably out of memory, and nothing was learned: make smaller "
            "partitions (repartition, rechunk), or give the workers more memory",
            file=where,
        )
    if name in DISCONNECTED:
        return EngineError(
            "the Dask scheduler cannot be reached or was stopped ({problem}), and nothing was learned: connect a new "
            "Client, and run it again",
            file=where,
            problem=summary_of(error),
        )
    return EngineError("{file} cannot be computed: {problem}", file=where, problem=summary_of(error))


def failed_key(error: BaseException) -> Any:
    """The key of the task that failed in this process; only Dask's own function that ran it has it."""
    key, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "execute_task":
            key = trace.tb_frame.f_locals.get("key")
        trace = trace.tb_next
    return key


def partition_needing(key: Any, tasks: Mapping[int, Any]) -> int | None:
    """The first partition whose task depends on this key."""
    if key is None or not tasks:
        return None
    graph = optional_module("dask.highlevelgraph").HighLevelGraph.merge(
        *(task.__dask_graph__() for task in tasks.values())
    )
    dependencies = graph.get_all_dependencies()
    for number, task in sorted(tasks.items()):
        seen, todo = set(), [task.key]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo.extend(dependencies.get(current, ()))
        if key in seen:
            return number
    return None
