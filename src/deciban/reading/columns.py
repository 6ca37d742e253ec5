"""A column as numbers or as levels, from a list, an array, or any library's series."""

from __future__ import annotations

import datetime
import decimal
import fractions
import numbers
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError
from deciban.reading import arrow
from deciban.reading.missing import is_missing, missing_where, unmask
from deciban.show import plain

if TYPE_CHECKING:
    import narwhals as nw

Level: TypeAlias = "str | bool | int | float"
ReadColumn: TypeAlias = "tuple[Column, str | None]"  # a column, and a note if its values were of several types

DAY = datetime.timedelta(days=1)
EPOCH = datetime.datetime(1970, 1, 1)
UNITS_PER_DAY = {"h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
NATIVE_TYPES = (np.ndarray, list, tuple, dict, str, bytes)  # NumPy's and Python's own, of no data frame library
MAX_EXACT_INTEGER = 2**53  # every integer up to here is exact as a float


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A column of numbers. A date is a number too: days since 1970, in UTC if a time zone is known.

    >>> Numbers(np.array([1.0, np.nan, 3.0]), whole=True).missing
    array([False,  True, False])
    """

    values: Floats  # (n,), NaN where missing
    whole: bool = False  # whether they were integers or booleans by type
    dates: str | None = None  # "days" if they were dates

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> Array:
        return np.isnan(self.values)

    def take(self, rows: Any) -> Numbers:
        return Numbers(self.values[rows], self.whole, self.dates)


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """A column of names: a code for each row, and the values of the codes.

    >>> column = Levels(np.array([1, -1, 0], dtype=np.int32), ("ham", "spam"))
    >>> column.objects().tolist()
    ['spam', None, 'ham']
    """

    codes: Codes  # (n,), −1 where missing
    levels: tuple[Level, ...]
    declared: bool = False  # whether the table itself calls them categories

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def missing(self) -> Array:
        return self.codes < 0

    def take(self, rows: Any) -> Levels:
        return Levels(self.codes[rows], self.levels, self.declared)

    def objects(self) -> Array:
        """The values themselves, None where missing."""
        lookup = np.empty(len(self.levels) + 1, dtype=object)
        lookup[:-1] = self.levels
        return np.asarray(lookup[self.codes])  # −1 is the last one: None


Column: TypeAlias = "Numbers | Levels"


def read_column(values: Any, name: str) -> ReadColumn:
    """A column of any kind: a library's series, an array, or a sequence."""
    if isinstance(values, Numbers):
        finite_numbers(values.values, name)
        return values, None
    if isinstance(values, Levels):
        return values, None
    if isinstance(values, np.ndarray):
        return from_array(values, name)
    if isinstance(values, list) or type(values) is tuple:
        return from_objects(values, name)
    if (series := as_series(values)) is not None:
        return from_series(series, name)
    if hasattr(values, "__array__") and getattr(values, "ndim", 0) == 1:  # of xarray
        return from_array(np.asarray(values), name)
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise DecibanError(
            "column {column!r} is {value!short}, a single {type}: give a list or an array with one value per row",
            column=name,
            value=values,
            type=type(values).__name__,
        )
    return from_objects(list(values), name)


def as_series(values: Any) -> nw.Series[Any] | None:
    """A column of a library that narwhals reads, or an Arrow array; None for anything else."""
    if is_arrow(values) and hasattr(values, "dictionary_encode") and not hasattr(values, "chunks"):
        import pyarrow as pa

        values = pa.chunked_array([values])
    if isinstance(values, NATIVE_TYPES):
        return None
    import narwhals as nw  # slow to import, and a single row mostly has plain values

    series = nw.from_native(values, allow_series=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def from_array(values: Array, name: str) -> ReadColumn:
    """A one-dimensional array of any type."""
    values = unmask(values)
    if values.ndim != 1:
        raise DecibanError(
            "column {column!r} has {axes} dimensions: a column must have one value per row",
            column=name,
            axes=values.ndim,
        )
    kind = values.dtype.kind
    if kind in "iuf":
        return finite_numbers(values, name, whole=kind != "f"), None
    if kind == "b":
        return Levels(values.astype(np.int32), (False, True)), None
    if kind == "M":
        return Numbers(as_days(values), dates="days"), None
    if kind == "m":
        return Numbers(as_days(values)), None
    if kind in "OUST":
        return from_objects(values.tolist(), name)
    raise DecibanError(
        "column {column!r} is of type {type}, which is neither numbers, strings, booleans nor dates: convert it to one "
        "of these, or leave it out",
        column=name,
        type=values.dtype,
    )


def from_series(series: nw.Series[Any], name: str) -> ReadColumn:
    """A column of any library that narwhals reads."""
    import narwhals as nw

    if series.implementation.is_pandas():
        native = series.to_native()
        if native.dtype == object:
            return from_pandas_objects(native, name)
        if isinstance(native.dtype, np.dtype):
            return from_array(native.to_numpy(), name)
        if hasattr(native.dtype, "pyarrow_dtype"):  # an Arrow column inside
            return read_column(native.array.__arrow_array__(), name)
        if hasattr(native.dtype, "fill_value"):  # a sparse one
            return from_array(native.to_numpy(), name)
    dtype, in_arrow = series.dtype, series.implementation.is_pyarrow()
    if dtype in (nw.Categorical, nw.Enum):
        return replace(from_names(series), declared=True), None
    if dtype == nw.String:
        return from_names(series), None
    if dtype == nw.Decimal or dtype in (nw.Int128, nw.UInt128):
        series = series.cast(nw.Float64)
    if dtype.is_numeric():
        values = arrow.floats(series.to_native()) if in_arrow else series.to_numpy()
        return finite_numbers(values, name, whole=dtype.is_integer()), None
    if dtype == nw.Boolean:
        codes = arrow.floats(series.to_native()) if in_arrow else series.cast(nw.Int8).to_numpy()
        return Levels(np.where(np.isnan(codes), -1, codes).astype(np.int32), (False, True)), None
    if dtype.is_temporal() and (column := from_times(series)) is not None:
        return column, None
    return from_objects(series.to_list(), name)


def from_names(series: nw.Series[Any]) -> Levels:
    """Strings and categories, coded by their own library if it is fast."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_pandas():
        if hasattr(native.dtype, "categories"):
            return levels_from_codes(native.cat.codes.to_numpy(), native.cat.categories.tolist(), fresh=False)
        if series.dtype == nw.String:
            codes, names = native.factorize()
            return levels_from_codes(codes, names.tolist())
    elif series.implementation.is_polars():
        import polars as pl

        if native.dtype == pl.Enum:
            codes = native.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
            return levels_from_codes(codes, native.dtype.categories.to_list(), fresh=False)
        native = native.cast(pl.String)
        names = native.drop_nulls().unique(maintain_order=True)
        positions = pl.int_range(len(names), dtype=pl.Int32, eager=True)
        codes = native.replace_strict(names, positions, default=-1, return_dtype=pl.Int32)
        return levels_from_codes(codes.to_numpy(), names.to_list())
    elif series.implementation.is_pyarrow():
        import pyarrow as pa

        is_coded = pa.types.is_dictionary(native.type)
        if not is_coded and pa.types.is_string_view(native.type):
            native = native.cast(pa.large_string())
        encoded = (native.unify_dictionaries() if is_coded else native.dictionary_encode()).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # without any chunk there is nothing to combine
            encoded = pa.concat_arrays(encoded.chunks) if encoded.num_chunks else pa.nulls(0, native.type)
        codes = arrow.integers(encoded.indices, missing=-1)
        return levels_from_codes(codes, encoded.dictionary.to_pylist(), fresh=not is_coded)
    return levels_of_strings(series.to_list())


def from_times(series: nw.Series[Any]) -> Numbers | None:
    """Dates, timestamps, durations and times of day in days; None if values must be converted one by one."""
    import narwhals as nw

    native, dates = series.to_native(), "days" if series.dtype in (nw.Date, nw.Datetime) else None
    if series.implementation.is_pandas() and native.dtype.kind in "Mm":
        if getattr(native.dtype, "tz", None) is not None:
            native = native.dt.tz_convert("UTC").dt.tz_localize(None)
        return Numbers(as_days(native.to_numpy()), dates=dates)
    if series.implementation.is_polars():
        if series.dtype == nw.Time:
            return Numbers(as_floats(native.to_physical().to_numpy()) / UNITS_PER_DAY["ns"])
        per_day = 1 if series.dtype == nw.Date else UNITS_PER_DAY[native.dtype.time_unit]
        return Numbers(as_floats(native.to_physical().to_numpy()) / per_day, dates=dates)
    if series.implementation.is_pyarrow():
        import pyarrow as pa

        kind = native.type
        is_date64 = pa.types.is_date64(kind)
        per_day = UNITS_PER_DAY["ms"] if is_date64 else 1 if pa.types.is_date32(kind) else UNITS_PER_DAY[kind.unit]
        is_32_bit = pa.types.is_date32(kind) or pa.types.is_time32(kind)
        return Numbers(arrow.floats(native.cast(pa.int32() if is_32_bit else pa.int64())) / per_day, dates=dates)
    return None


def from_pandas_objects(native: Any, name: str) -> ReadColumn:
    """A pandas column of objects: strings, the usual case, are coded by pandas."""
    import pandas as pd

    if pd.api.types.infer_dtype(native, skipna=True) == "string":
        codes, names = pd.factorize(native.to_numpy())
        return levels_from_codes(codes, names.tolist()), None
    return from_objects(native.tolist(), name)


def from_objects(values: Sequence[Any], name: str) -> ReadColumn:
    """Python's own values, each of any type."""
    types = set(map(type, values)) - {type(None)}
    if types <= {str}:
        return (levels_of_strings(values) if types else Numbers(np.full(len(values), np.nan))), None
    if types <= {int, float}:
        return finite_numbers(floats_of_objects(values, name), name, whole=types == {int}), None
    return from_any_objects(values, types, name)


def from_any_objects(values: Sequence[Any], types: set[type], name: str) -> ReadColumn:
    """The general case, by the types of the values."""
    cell_types = {kind: cell_type(kind) for kind in types}
    if "other" in cell_types.values():
        row = next(i for i, v in enumerate(values) if cell_types.get(type(v)) == "other")
        raise DecibanError(
            "column {column!r} holds {value!short} in row {row}, of type {type}, but a value must be a number, a "
            "string, a boolean, a date or missing (None): split it into columns, or leave the column out",
            row=row,
            column=name,
            value=values[row],
            type=type(values[row]).__name__,
        )
    values = [None if v is None or cell_types[type(v)] == "nothing" or is_missing(v) else v for v in values]
    present = {cell_type(kind) for kind in set(map(type, values))} - {"nothing"}
    if not present:
        return Numbers(np.full(len(values), np.nan)), None
    if present == {"name"}:
        return levels_of_strings([v if v is None else as_name(v) for v in values]), None
    if present == {"boolean"}:
        return Levels(np.array([-1 if v is None else int(v) for v in values], dtype=np.int32), (False, True)), None
    if present <= {"boolean", "whole", "real"}:
        return finite_numbers(floats_of_objects(values, name), name, whole="real" not in present), None
    if present in ({"date"}, {"span"}):
        day_numbers = np.array([np.nan if v is None else days_of_object(v) for v in values], dtype=np.float64)
        return Numbers(day_numbers, dates="days" if present == {"date"} else None), None
    return levels_of_strings([v if v is None else as_name(v) for v in values]), mixed_note(values, name)


def cell_type(type_: type) -> str:
    """The kind of a cell by its type: nothing, name, boolean, whole, real, date, span, or other."""
    if type_ is type(None) or type_.__name__ in ("NaTType", "NAType"):  # pandas', without importing it
        return "nothing"
    for name, types in CELL_TYPES.items():
        if issubclass(type_, types):
            return name
    return "other"


CELL_TYPES: dict[str, tuple[type, ...]] = {  # in this order: a bool is an int, and NumPy's timedelta64 an integer
    "name": (str, bytes),
    "boolean": (bool, np.bool_),
    "date": (datetime.date, np.datetime64),
    "span": (datetime.timedelta, np.timedelta64, datetime.time),
    "whole": (numbers.Integral,),
    "real": (numbers.Real, decimal.Decimal, fractions.Fraction),
}


def levels_of_strings(values: Sequence[str | None]) -> Levels:
    """Strings and None as levels, in order of first appearance."""
    code: dict[str | None, int] = dict.fromkeys(values, -1)
    levels = [value for value in code if value]
    code.update(zip(levels, range(len(levels)), strict=True))
    codes = np.fromiter(map(code.__getitem__, values), dtype=np.int32, count=len(values))
    return Levels(codes, tuple(levels))


def levels_from_codes(codes: Array, names: Sequence[Any], fresh: bool = True) -> Levels:
    """A library's codes as levels that occur and are not missing, each once; `fresh` names are strings that occur."""
    if fresh and "" not in names:
        return Levels(codes.astype(np.int32), tuple(names))
    used = np.bincount(codes[codes >= 0], minlength=len(names)) > 0
    code_of: dict[Level, int] = {}
    new_codes = np.full(len(names) + 1, -1, dtype=np.int32)  # the last is for −1
    for i, name in enumerate(names):
        if used[i] and name != "" and not is_missing(name):
            new_codes[i] = code_of.setdefault(as_level(name), len(code_of))
    return Levels(new_codes[codes], tuple(code_of))


def as_level(value: Any) -> Level:
    value = plain(value)
    return value if isinstance(value, str | bool | int | float) else as_name(value)


def as_name(value: Any) -> str:
    """A value as the string it would be in a file.

    >>> [as_name(v) for v in ("a", b"b", 3, 4.0, 0.5, True)]
    ['a', 'b', '3', '4', '0.5', 'True']
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT_INTEGER:
        return str(int(value))  # libraries turn integers into floats if one is missing
    return str(value)


def finite_numbers(values: Array, name: str, whole: bool = False) -> Numbers:
    """A column of numbers; an error names the first infinite one."""
    values = as_floats(values)
    if (infinite := np.isinf(values)).any():
        row = int(np.argmax(infinite))
        raise DecibanError(
            "column {column!r} holds {value} in row {row}: infinite numbers cannot be used. If it means a missing "
            "value, use NaN or None; if it is a bound, use a large number or a category",
            row=row,
            column=name,
            value=float(values[row]),
            command_line="column {column!r} holds {value} in row {row}: infinite numbers cannot be used. If it means "
            "a missing value, leave it empty; if it is a bound, write a large number",
        )
    return Numbers(values, whole)


def as_floats(values: Array) -> Floats:
    with np.errstate(over="ignore"):  # numbers too large for a float become infinite, which is an error
        return np.asarray(values, dtype=np.float64)


def floats_of_objects(values: Sequence[Any], name: str) -> Floats:
    """Numbers of any type as floats."""
    try:
        return np.array(values, dtype=np.float64)  # None is NaN to NumPy
    except OverflowError:
        row = next(i for i, v in enumerate(values) if v is not None and abs(v) > 2**1023)
        raise DecibanError(
            "column {column!r} holds {value!short} in row {row}, which is too large: take its logarithm, or make it "
            "a string if it is a name",
            row=row,
            column=name,
            value=values[row],
        ) from None


def as_days(values: Array) -> Floats:
    """datetime64 (since 1970) or timedelta64, in days; NaN for NaT."""
    unit, count = np.datetime_data(values.dtype)
    if unit not in UNITS_PER_DAY:
        finer = "us" if unit in ("ps", "fs", "as", "generic") else "D"
        values, unit, count = values.astype(f"{values.dtype.kind}8[{finer}]"), finer, 1
    ticks = values.astype(np.int64) * count
    if unit == "ns":  # a float holds the digits of microseconds, so that dates are the same in any unit
        whole, rest = np.divmod(ticks, 1000)
        out: Floats = (whole + rest / 1000) / UNITS_PER_DAY["us"]
    else:
        out = ticks / UNITS_PER_DAY.get(unit, 1)
    out[missing_where(values)] = np.nan
    return out


def days_of_object(value: Any) -> float:
    """A date, a timestamp, a duration or a time of day in days."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(as_days(np.array([value]))[0])
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return float((value - EPOCH) / DAY)
    if isinstance(value, datetime.date):
        return float(value.toordinal() - EPOCH.toordinal())
    if isinstance(value, datetime.time):
        return float((datetime.datetime.combine(EPOCH, value.replace(tzinfo=None)) - EPOCH) / DAY)
    return float(value / DAY)


def mixed_note(values: Sequence[Any], name: str) -> str:
    """The types of values in a column, with an example of each."""
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            first.setdefault(type(value).__name__, row)
    examples = ", ".join(f"{short_repr(values[row])} in row {row}" for row in first.values())
    return f"mixed: column {name!r} holds values of several types ({examples}); all are read as strings"


def is_arrow(values: Any) -> bool:
    """Whether an object is from pyarrow, without importing it."""
    return type(values).__module__.partition(".")[0] == "pyarrow"


def short_repr(value: Any) -> str:
    return reprlib.repr(value)
