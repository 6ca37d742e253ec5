"""Columns back to a table of the library they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.reading.columns import NATIVE_TYPES, UNITS_PER_DAY, Column, Levels, Numbers, is_arrow
from deciban.show import optional, plain

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")
MAX_DECIMALS = 6  # of numbers that a person wrote, or a program rounded


def native_kind(X: Any) -> str:
    """The library of a table: "pandas", "polars" or "pyarrow"; "numpy" for arrays and rows; "dict" for anything with
    names.

    >>> native_kind([[1, 2]]), native_kind({"a": [1]})
    ('numpy', 'dict')
    """
    if isinstance(X, Mapping):
        return "dict"
    if is_arrow(X):
        return "pyarrow"
    if not isinstance(X, NATIVE_TYPES):
        import narwhals as nw

        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.DataFrame | nw.LazyFrame):
            library = frame.implementation
            return "pandas" if library.is_pandas_like() else "polars" if library.is_polars() else "pyarrow"
    fields = getattr(getattr(X, "dtype", None), "names", None)
    rows_with_names = isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], Mapping)
    return "dict" if fields or rows_with_names else "numpy"


def to_native(like: str, names: Sequence[str], columns: Sequence[Column]) -> Any:
    """A table of a library, by its name in `native_kind`; with that library's missing values.

    >>> legs = Numbers(np.array([4.0, 2.0]), whole=True)
    >>> animal = Levels(np.array([0, -1], dtype=np.int32), ("cow",))
    >>> to_native("dict", ("legs", "animal"), (legs, animal))
    {'legs': [4, 2], 'animal': ['cow', None]}
    """
    named = list(zip(names, columns, strict=True))
    if like == "pandas":
        import pandas as pd

        index = pd.RangeIndex(len(columns[0]) if columns else 0)
        return pd.DataFrame(
            {name: pd.Series(pandas_values(column), index=index) for name, column in named}, index=index
        )
    if like == "polars":
        import polars as pl

        return pl.DataFrame([pl.Series(name, objects(column), strict=False) for name, column in named])
    if like == "pyarrow":
        import pyarrow as pa

        return pa.table({name: pa.array(objects(column)) for name, column in named})
    if like == "dict":
        return {name: objects(column) for name, column in named}
    if like == "numpy":
        return as_array(columns)
    raise DecibanError(f"{like!r} is not a known library: choose pandas, polars, pyarrow, numpy or dict")


def by_class(values: Array, classes: Array, like: Any, library: str | None = None) -> Any:
    """Numbers by row and class as a data frame with the classes as names of its columns: of this library, or that of
    `like`, with its index, and of pandas (an optional dependency) if that is not a frame or column."""
    index = getattr(like, "index", None)
    indexed = index is not None and not callable(index)  # a list and a column of Arrow have a method of this name
    own = type(like).__module__.partition(".")[0]
    kind = library or ("pandas" if indexed else own if own in FRAME_LIBRARIES else native_kind(like))
    if kind in ("polars", "pyarrow"):
        make = getattr(optional(kind, "as_frame"), {"polars": "DataFrame", "pyarrow": "table"}[kind])
        return make({str(label): values[:, c] for c, label in enumerate(classes)})
    if own == "xarray":  # the first dimension is that of rows
        index = like.indexes.get(next(iter(like.dims), None))
    elif not indexed:
        index = None
    return optional("pandas", "as_frame").DataFrame(values, index=index, columns=list(map(plain, classes)))


def as_array(columns: Sequence[Column]) -> Array:
    """An array of numbers if all columns are numbers; of objects otherwise."""
    n = len(columns[0]) if columns else 0
    if all(isinstance(column, Numbers) and column.dates is None for column in columns):
        whole = bool(columns) and all(is_whole(column) for column in columns)
        out = np.empty((n, len(columns)), dtype=np.int64 if whole else np.float64)
        for j, column in enumerate(columns):
            out[:, j] = column.values if isinstance(column, Numbers) else 0
        return out
    out = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = objects(column)
    return out


def objects(column: Column) -> list[Any]:
    """Python's own values, None where missing; all strings if levels are of several types."""
    if isinstance(column, Levels):
        mixed_types = len({type(level) for level in column.levels}) > 1
        as_strings = Levels(column.codes, tuple(map(str, column.levels))) if mixed_types else column
        return list(as_strings.objects().tolist())
    missing = column.missing
    if column.dates is not None:
        return [None if gone else moment for gone, moment in zip(missing, moments(column).tolist(), strict=True)]
    values = np.where(missing, 0.0, column.values)
    plain = values.astype(np.int64).tolist() if fits_integers(column) else values.tolist()
    if missing.any():
        plain = [None if gone else value for gone, value in zip(missing, plain, strict=True)]
    return list(plain)


def pandas_values(column: Column) -> Any:
    """Values from which pandas makes a column of its usual type: NaN or NaT where missing."""
    if isinstance(column, Numbers):
        return (
            moments(column) if column.dates else column.values.astype(np.int64) if is_whole(column) else column.values
        )
    return objects(column)


def moments(column: Numbers) -> Array:
    """Days as datetime64: dates if all are whole days, otherwise times to the microsecond."""
    missing = column.missing
    values = np.where(missing, 0.0, column.values)
    if np.array_equal(values, np.floor(values)):
        out = values.astype(np.int64).astype("datetime64[D]")
    else:
        out = np.rint(values * UNITS_PER_DAY["us"]).astype(np.int64).astype("datetime64[us]")
    out[missing] = np.datetime64("NaT")
    return out


def iso_date(days: float) -> str:
    """Days since 1970 as a date, or with the time of day if they have a fraction.

    >>> iso_date(18_993.0), iso_date(18_993.75)
    ('2022-01-01', '2022-01-01T18:00:00')
    """
    return str(moments(Numbers(np.array([days])))[0]).removesuffix(".000000")


def decimals(values: Array) -> int | None:
    """How many decimals numbers are written with, NaN left out; None if more than MAX_DECIMALS, or without numbers.

    >>> decimals(np.array([1.5, 2.25, np.nan])), decimals(np.array([3.0])), decimals(np.array([1 / 3]))
    (2, 0, None)
    """
    present = values[np.isfinite(values)]
    places = range(MAX_DECIMALS + 1) if len(present) else ()
    return next((n for n in places if (np.round(present, n) == present).all()), None)


def is_whole(column: Column) -> bool:
    """Whether numbers can be returned as integers: none of them is missing."""
    return isinstance(column, Numbers) and fits_integers(column) and not column.missing.any()


def fits_integers(column: Numbers) -> bool:
    return column.whole and bool((np.abs(column.values[~column.missing]) < 2.0**62).all())
