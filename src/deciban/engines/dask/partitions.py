"""Partitions of pandas, NumPy or Python as Arrow tables, all with the same schema.

Integers that pandas made floats because some are missing become integers again. Columns of objects have the type of
their values; where these are of several types, they are read as a frame in memory is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deciban.errors import DecibanError
from deciban.reading.columns import Numbers, as_name, read_column, short_repr
from deciban.reading.frames import unique_names
from deciban.reading.missing import is_missing, unmask
from deciban.show import one_line
from deciban.sources.column_types import at_least_microseconds, common_type, declared_type, type_in_words

Values: TypeAlias = Any  # a column: of one dimension, indexed by slices and by row numbers

MAX_TABLE_ROWS, MAX_TABLE_BYTES = 1 << 18, 1 << 28  # of a table: larger partitions are split
TEXT_COLUMN, LABEL_COLUMN = "text", "label"  # columns of rows without names
UNKNOWN_CATEGORY = "__UNKNOWN_CATEGORIES__"  # the category that Dask uses if it has not seen any
CONVERSION_ERRORS = (
    pa.ArrowException,
    OverflowError,
    TypeError,
    ValueError,
)  # raised by Arrow for values


@dataclass(frozen=True, slots=True, eq=False)
class PartitionColumns:
    """A partition's columns as they are."""

    size: int
    values: Mapping[str, Values]
    pairs: bool = False  # whether the rows are pairs of a text and its label


@dataclass(frozen=True, slots=True, eq=False)
class PartitionReader:
    """How partitions become tables with exactly this schema. It is sent to workers."""

    columns: Callable[..., PartitionColumns]  # (partition, labels or None, target)
    target: str | None
    schema: pa.Schema

    def tables(self, part: Any, labels: Any = None) -> Iterator[pa.Table]:
        """All rows, a table at a time; none if there are no rows."""
        partition = self._checked(self.columns(part, labels, self.target))
        n_bytes = sum(getattr(values, "nbytes", 8 * partition.size) for values in partition.values.values())
        step = min(MAX_TABLE_ROWS, max(1, MAX_TABLE_BYTES * partition.size // max(1, n_bytes)))
        for start in range(0, partition.size, step):
            yield self._table(partition, slice(start, min(partition.size, start + step)))

    def some(self, rows: int, part: Any, labels: Any = None) -> tuple[int, pa.Table]:
        """How many rows there are, and at most `rows` of them, evenly spaced."""
        partition = self._checked(self.columns(part, labels, self.target))
        count = min(rows, partition.size)
        return partition.size, self._table(partition, np.arange(count) * partition.size // max(1, count))

    def _checked(self, partition: PartitionColumns) -> PartitionColumns:
        unknown = [name for name in partition.values if name not in self.schema.names]
        if unknown and partition.size:
            raise DecibanError(
                "this partition has a column {column!r} that the sampled partitions do not have: add it to all rows, "
                "with None for missing values, or leave it out",
                column=unknown[0],
            )
        return partition

    def _table(self, partition: PartitionColumns, rows: Any) -> pa.Table:
        size = len(range(*rows.indices(partition.size))) if isinstance(rows, slice) else len(rows)
        try:
            columns = [
                as_arrow(partition.values[field.name][rows], field.type, field.name)
                if field.name in partition.values
                else pa.nulls(size, field.type)
                for field in self.schema
            ]
        except DecibanError as error:  # with the row number in this table, not in the partition
            raise error.located(numbers=np.arange(partition.size)[rows]) from None
        return pa.table(columns, schema=self.schema)


# ------------------------------------------------------------------ columns of partitions


def columns_of_frame(part: Any, labels: Any, target: str | None) -> PartitionColumns:
    """A pandas frame, and a series or an array of labels."""
    names = unique_names(part.columns)
    values = {name: values_of(part.iloc[:, j]) for j, name in enumerate(names)}
    return with_labels(len(part), values, labels, target)


def columns_of_array(part: Any, labels: Any, target: str | None) -> PartitionColumns:
    """An array of rows and columns, or of texts."""
    part = np.asarray(unmask(part))
    values = {TEXT_COLUMN: part} if part.ndim == 1 else {f"x{j}": part[:, j] for j in range(part.shape[1])}
    return with_labels(len(part), values, labels, target)


def columns_of_bag(part: Any, labels: Any, target: str | None) -> PartitionColumns:
    """Dicts, texts, or pairs of a text and its label."""
    rows = list(part)
    labels = None if labels is None else as_objects(list(labels))
    if not rows:
        return with_labels(0, {}, labels, target)
    forms = {form_of(row) for row in rows}
    if len(forms) > 1 or None in forms:
        wrong = next(i for i, row in enumerate(rows) if form_of(row) is None or form_of(row) != form_of(rows[0]))
        raise DecibanError(
            "row {row} is {value!short}: the rows of a Bag must all be dicts with a key for each column, all be "
            "texts, or all be pairs of a text and its label",
            row=wrong,
            value=rows[wrong],
        )
    if forms == {"text"}:
        return with_labels(len(rows), {TEXT_COLUMN: as_objects(rows)}, labels, target)
    if forms == {"pair"}:
        texts, own = zip(*rows, strict=True)
        return PartitionColumns(len(rows), {TEXT_COLUMN: as_objects(texts), LABEL_COLUMN: as_objects(own)}, pairs=True)
    names = dict.fromkeys(name for row in rows for name in row)
    unique_names(names)
    return with_labels(len(rows), {str(n): as_objects([row.get(n) for row in rows]) for n in names}, labels, target)


def form_of(row: Any) -> str | None:
    if isinstance(row, Mapping):
        return "dict"
    if isinstance(row, str):
        return "text"
    return "pair" if isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], str) else None


def with_labels(size: int, values: dict[str, Values], labels: Any, target: str | None) -> PartitionColumns:
    if labels is None:
        return PartitionColumns(size, values)
    assert target is not None
    own = values_of(labels) if hasattr(labels, "iloc") else unmask(labels)
    own = own.ravel() if isinstance(own, np.ndarray) else own
    if len(own) != size:
        raise DecibanError(
            f"there are {size:,} rows and {len(own):,} labels here: X and y must have the same partitions. Put the "
            f"labels into a column of X, or filter and partition both in the same way"
        )
    return PartitionColumns(size, {**values, target: own})


def values_of(series: Any) -> Values:
    """The array of a pandas series."""
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    return np.asarray(series.array) if hasattr(series.dtype, "fill_value") else series.array  # the former if sparse


def as_objects(values: Iterable[Any]) -> Values:
    values = list(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


# ------------------------------------------------------------------ types of columns


def kind_of_dtype(dtype: Any, name: str, where: str) -> pa.DataType | None:
    """The Arrow type for a NumPy or pandas type; None if it depends on the values."""
    try:
        if isinstance(dtype, np.dtype):
            if dtype.kind in "UST":
                return pa.string()
            return None if dtype.kind == "O" else read_type(pa.from_numpy_dtype(dtype), name, where)
        if hasattr(dtype, "categories"):
            if dtype.categories is None or UNKNOWN_CATEGORY in dtype.categories:
                return None
            names = kind_of_values(dtype.categories.array, name)
            return None if names == pa.null() else pa.dictionary(pa.int32(), read_type(names, name, where))
        if hasattr(dtype, "fill_value"):  # sparse
            return kind_of_dtype(dtype.subtype, name, where)
        empty = importlib.import_module("pandas").array([], dtype=dtype)
        return read_type(pa.array(empty, from_pandas=True).type, name, where)
    except (pa.ArrowException, NotImplementedError, TypeError):
        raise DecibanError(
            "column {column!r} of {where} is of type {dtype}, which is neither numbers, strings, booleans nor dates: "
            "convert it to one of these, or leave it out",
            column=name,
            where=where,
            dtype=str(dtype),
        ) from None


def kind_of_values(values: Values, name: str) -> pa.DataType:
    """The Arrow type of values; null if all are missing."""
    try:
        kind = pa.array(values, from_pandas=True).type
        return pa.null() if pa.types.is_dictionary(kind) and kind.value_type == pa.null() else kind
    except CONVERSION_ERRORS:
        column, _ = read_column(list(values), name)
        return pa.float64() if isinstance(column, Numbers) else pa.string()


def read_type(kind: pa.DataType, name: str, where: str) -> pa.DataType:
    """The Arrow type that values of some type are read as in all partitions."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), read_type(kind.value_type, name, where))
    return pa.float32() if pa.types.is_float16(kind) else at_least_microseconds(declared_type(kind, name, where))


def merged_type(kinds: Iterable[pa.DataType], name: str, where: str) -> pa.DataType:
    """A type for the values of several partitions; string if all are missing."""
    types = {read_type(kind, name, where) for kind in kinds if kind != pa.null()}
    if any(pa.types.is_dictionary(kind) for kind in types):  # categories here are categories everywhere
        value_types = {kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types}
        return pa.dictionary(pa.int32(), merged_type(value_types, name, where))
    if len(types) > 1 and all(pa.types.is_integer(kind) for kind in types):
        return pa.int64()
    return common_type(types) if types else pa.string()


# ------------------------------------------------------------------ values as Arrow arrays


def as_arrow(values: Values, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    """A column as an array of this type."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and pa.types.is_floating(kind):
        return pa.array(values.astype(kind.to_pandas_dtype(), copy=False))  # NaN already means missing
    try:
        array = pa.array(values, from_pandas=True)
    except CONVERSION_ERRORS:
        array = from_objects(list(values), kind, name)
    return array if array.type == kind else recast(array, kind, name)


def from_objects(values: list[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Values that Arrow does not put into one array, converted as in a frame in memory."""
    if is_text(kind):
        return pa.array([None if is_missing(value) else encodable(as_name(value)) for value in values], pa.string())
    column, _ = read_column(values, name)
    if isinstance(column, Numbers):
        return pa.array(column.values, from_pandas=True)
    raise misfit_error(name, next(value for value in values if not is_missing(value)), kind)


def encodable(text: str) -> str:
    """Text that can be encoded as UTF-8, with lone surrogates replaced."""
    return text.encode(errors="replace").decode()


def recast(array: pa.Array | pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    """Values of one type as those of another, if they are equal in it."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_dictionary(kind):
        return recast(array, kind.value_type, name).dictionary_encode().cast(kind)
    if array.type == kind:
        return array
    if is_text(kind) and not is_text(array.type):
        return from_objects(array.to_pylist(), kind, name)
    if comparable_as(array.type) != comparable_as(kind) and (comparable_as(array.type), comparable_as(kind)) != (
        "boolean",
        "number",
    ):
        raise misfit_error(name, array.drop_null()[0].as_py(), kind)
    # Timestamps are truncated to the coarser unit, and floats lose the last digits of integers beyond 2⁵³.
    how = pc.CastOptions(kind, allow_time_truncate=True, allow_float_truncate=pa.types.is_floating(kind))
    try:
        return pc.cast(array, options=how)
    except pa.ArrowException:
        raise misfit_error(
            name, next(v for v in array.drop_null().to_pylist() if not fits(v, array.type, how)), kind
        ) from None


def fits(value: Any, kind: pa.DataType, how: pc.CastOptions) -> bool:
    try:
        pc.cast(pa.array([value], kind), options=how)
    except pa.ArrowException:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or "string_view" in str(kind))


def comparable_as(kind: pa.DataType) -> str:
    """The kind of a type: values of the same kind can be compared."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "moment"
    if is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return "text"
    return "boolean" if types.is_boolean(kind) else "span" if types.is_duration(kind) else str(kind)


def misfit_error(name: str, value: Any, kind: pa.DataType) -> DecibanError:
    whole = pa.types.is_integer(kind)
    dtype = "float64" if whole and isinstance(value, float) else "str"
    return DecibanError(
        "column {column!r} holds {shown} here, but {kind} in other partitions: make it the same in all of them, as "
        "in X.astype({how})",
        column=name,
        value=value,
        shown=one_line(short_repr(value)),
        kind="whole numbers" if whole else type_in_words(kind),
        how={name: dtype},
    )
