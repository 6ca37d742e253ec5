"""A partition as pandas, NumPy or Python has it, as Arrow tables: of any partition of the same rows with one schema.

Whole numbers stay whole numbers where pandas made them floats, since some are missing. Columns of objects are what
their values are; where these are of several kinds, they are read as a frame in memory is.
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
from deciban.sources.column_types import common, declared, describe, wide

Values: TypeAlias = Any  # a column: of one dimension, cut by slices and by numbers of rows

MAX_TABLE_ROWS, MAX_TABLE_BYTES = 1 << 18, 1 << 28  # of a table, at most: what is larger is cut
TEXT_COLUMN, LABEL_COLUMN = "text", "label"  # columns of what has no names
UNKNOWN_CATEGORY = "__UNKNOWN_CATEGORIES__"  # the category that Dask puts where it has not seen any
REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)  # what Arrow raises where it cannot read values


@dataclass(frozen=True, slots=True, eq=False)
class PartitionColumns:
    """A partition's columns as they are."""

    size: int
    values: Mapping[str, Values]
    pairs: bool = False  # whether the rows are pairs of a text and its label


@dataclass(frozen=True, slots=True, eq=False)
class PartitionReader:
    """How partitions become tables with exactly this schema. What is in it is sent to workers."""

    columns: Callable[..., PartitionColumns]  # (partition, labels or None, target)
    target: str | None
    schema: pa.Schema

    def tables(self, part: Any, labels: Any = None) -> Iterator[pa.Table]:
        """All rows, a table at a time; none where there are no rows."""
        found = self._checked(self.columns(part, labels, self.target))
        held = sum(getattr(values, "nbytes", 8 * found.size) for values in found.values.values())
        step = min(MAX_TABLE_ROWS, max(1, MAX_TABLE_BYTES * found.size // max(1, held)))
        for start in range(0, found.size, step):
            yield self._table(found, slice(start, min(found.size, start + step)))

    def some(self, rows: int, part: Any, labels: Any = None) -> tuple[int, pa.Table]:
        """How many rows there are, and so many of them, at even distances."""
        found = self._checked(self.columns(part, labels, self.target))
        most = min(rows, found.size)
        return found.size, self._table(found, np.arange(most) * found.size // max(1, most))

    def _checked(self, found: PartitionColumns) -> PartitionColumns:
        strange = [name for name in found.values if name not in self.schema.names]
        if strange and found.size:
            raise DecibanError(
                "there is a column {column!r} here, and not in the partitions that were looked at: give it to all "
                "rows, with None where it is missing, or leave it out",
                column=strange[0],
            )
        return found

    def _table(self, found: PartitionColumns, rows: Any) -> pa.Table:
        size = len(range(*rows.indices(found.size))) if isinstance(rows, slice) else len(rows)
        try:
            columns = [
                as_arrow(found.values[field.name][rows], field.type, field.name)
                if field.name in found.values
                else pa.nulls(size, field.type)
                for field in self.schema
            ]
        except DecibanError as error:  # which counts the rows of this table, not of the partition
            raise error.located(numbers=np.arange(found.size)[rows]) from None
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
            "row {row} is {value!short}: all rows of a Bag are dicts with a key for each column, or all are texts, or "
            "all are pairs of a text and its label",
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
            f"there are {size:,} rows and {len(own):,} labels here: X and y must be cut at the same rows. Put the "
            "labels into a column of X, or filter and cut both alike"
        )
    return PartitionColumns(size, {**values, target: own})


def values_of(series: Any) -> Values:
    """A pandas series as the array inside."""
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    return np.asarray(series.array) if hasattr(series.dtype, "fill_value") else series.array  # the former: sparse


def as_objects(values: Iterable[Any]) -> Values:
    values = list(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


# ------------------------------------------------------------------ what columns hold


def kind_of_dtype(dtype: Any, name: str, where: str) -> pa.DataType | None:
    """What a column of a NumPy or pandas type is read as; None where only its values tell."""
    try:
        if isinstance(dtype, np.dtype):
            if dtype.kind in "UST":
                return pa.string()
            return None if dtype.kind == "O" else settled(pa.from_numpy_dtype(dtype), name, where)
        if hasattr(dtype, "categories"):
            if dtype.categories is None or UNKNOWN_CATEGORY in dtype.categories:
                return None
            names = kind_of_values(dtype.categories.array, name)
            return None if names == pa.null() else pa.dictionary(pa.int32(), settled(names, name, where))
        if hasattr(dtype, "fill_value"):  # sparse
            return kind_of_dtype(dtype.subtype, name, where)
        empty = importlib.import_module("pandas").array([], dtype=dtype)
        return settled(pa.array(empty, from_pandas=True).type, name, where)
    except (pa.ArrowException, NotImplementedError, TypeError):
        raise DecibanError(
            "column {column!r} of {where} is of type {dtype}, which is neither numbers, strings, booleans nor dates: "
            "convert it to one of these, or leave it out",
            column=name,
            where=where,
            dtype=str(dtype),
        ) from None


def kind_of_values(values: Values, name: str) -> pa.DataType:
    """What values are by themselves; null where all of them are missing."""
    try:
        kind = pa.array(values, from_pandas=True).type
        return pa.null() if pa.types.is_dictionary(kind) and kind.value_type == pa.null() else kind
    except REFUSED:
        column, _ = read_column(list(values), name)
        return pa.float64() if isinstance(column, Numbers) else pa.string()


def settled(kind: pa.DataType, name: str, where: str) -> pa.DataType:
    """What values of some type are read as, here and in all other partitions."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), settled(kind.value_type, name, where))
    return pa.float32() if pa.types.is_float16(kind) else wide(declared(kind, name, where))


def joined(kinds: Iterable[pa.DataType], name: str, where: str) -> pa.DataType:
    """What holds the values of several partitions; strings where all are missing."""
    found = {settled(kind, name, where) for kind in kinds if kind != pa.null()}
    if any(pa.types.is_dictionary(kind) for kind in found):  # categories here are categories everywhere
        inner = {kind.value_type if pa.types.is_dictionary(kind) else kind for kind in found}
        return pa.dictionary(pa.int32(), joined(inner, name, where))
    if len(found) > 1 and all(pa.types.is_integer(kind) for kind in found):
        return pa.int64()
    return common(found) if found else pa.string()


# ------------------------------------------------------------------ values as Arrow's


def as_arrow(values: Values, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    """A column as this type."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and pa.types.is_floating(kind):
        return pa.array(values.astype(kind.to_pandas_dtype(), copy=False))  # NaN is missing as it stands
    try:
        found = pa.array(values, from_pandas=True)
    except REFUSED:
        found = from_objects(list(values), kind, name)
    return found if found.type == kind else recast(found, kind, name)


def from_objects(values: list[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Values that Arrow does not take together, as a frame in memory reads them."""
    if is_text(kind):
        return pa.array([None if is_missing(value) else encodable(as_name(value)) for value in values], pa.string())
    column, _ = read_column(values, name)
    if isinstance(column, Numbers):
        return pa.array(column.values, from_pandas=True)
    raise misfit_error(name, next(value for value in values if not is_missing(value)), kind)


def encodable(text: str) -> str:
    """Text that is UTF-8: halves of characters are none."""
    return text.encode(errors="replace").decode()


def recast(found: pa.Array | pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    """Values of one type as those of another, if they are the same in it."""
    if pa.types.is_null(found.type):
        return pa.nulls(len(found), kind)
    if pa.types.is_dictionary(found.type):
        found = found.cast(found.type.value_type)
    if pa.types.is_dictionary(kind):
        return recast(found, kind.value_type, name).dictionary_encode().cast(kind)
    if found.type == kind:
        return found
    if is_text(kind) and not is_text(found.type):
        return from_objects(found.to_pylist(), kind, name)
    if comparable_as(found.type) != comparable_as(kind) and (comparable_as(found.type), comparable_as(kind)) != (
        "boolean",
        "number",
    ):
        raise misfit_error(name, found.drop_null()[0].as_py(), kind)
    # Moments lose what is finer than elsewhere, and floats the last digits of whole numbers beyond 2⁵³.
    how = pc.CastOptions(kind, allow_time_truncate=True, allow_float_truncate=pa.types.is_floating(kind))
    try:
        return pc.cast(found, options=how)
    except pa.ArrowException:
        raise misfit_error(
            name, next(v for v in found.drop_null().to_pylist() if not fits(v, found.type, how)), kind
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
    """What is comparable."""
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
    to = "float64" if whole and isinstance(value, float) else "str"
    return DecibanError(
        "column {column!r} holds {shown}, and {kind} elsewhere: make it the same in all partitions, as in "
        "X.astype({how})",
        column=name,
        value=value,
        shown=one_line(short_repr(value)),
        kind="whole numbers" if whole else describe(kind),
        how={name: to},
    )
