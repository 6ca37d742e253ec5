"""Any table, read once into columns: pandas, Polars, Arrow, NumPy, SciPy, and Python's own lists and mappings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Floats
from deciban.errors import DecibanError, did_you_mean
from deciban.reading.columns import NATIVE_TYPES, Column, Levels, Numbers, as_series, is_arrow, read_column
from deciban.reading.missing import unmask
from deciban.reading.native import native_kind, to_native

if TYPE_CHECKING:
    import narwhals as nw

__all__ = ["Column", "Frame", "Levels", "Numbers", "native_kind", "read_frame", "split_target", "to_native"]

MAX_DENSE_BYTES = 1 << 28  # of a sparse matrix as columns: beyond this, it is not read as a table
ROWS_AT_A_TIME = 512  # rows transposed at a time: as many as fit into the cache


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A table: names and columns, all of the same size; and notes, by name, on columns that may have been misread.

    >>> frame = read_frame({"age": [31, None], "town": ["Ghent", "Bruges"]})
    >>> frame.names, frame.size
    (('age', 'town'), 2)
    >>> frame["age"].values
    array([31., nan])
    >>> frame["town"].levels
    ('Ghent', 'Bruges')
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    size: int
    notes: Mapping[str, str] = field(default_factory=dict)
    _places: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {name: j for j, name in enumerate(self.names)})

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, name: str) -> Column:
        return self.columns[self._place(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def take(self, rows: Any) -> Frame:
        """Some rows: numbers of rows, a mask, or a slice."""
        rows = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(rows, slice) and rows.dtype != bool:
            rows = rows.astype(np.intp, casting="same_kind" if rows.size else "unsafe")
        size = len(np.empty(self.size, dtype=bool)[rows])
        return Frame(self.names, tuple(column.take(rows) for column in self.columns), size, self.notes)

    def select(self, names: Iterable[str]) -> Frame:
        """Some columns, in the order of `names`."""
        names = tuple(names)
        notes = {name: self.notes[name] for name in names if name in self.notes}
        return Frame(names, tuple(map(self.__getitem__, names)), self.size, notes)

    def without(self, name: str) -> Frame:
        """All columns but one."""
        self._place(name)
        return self.select(other for other in self.names if other != name)

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise no_such_column(name, self.names)
        return self._places[name]


def read_frame(X: Any, names: Sequence[str] | None = None) -> Frame:
    """Read a table of any type. `names` are the columns' names if they have none, or else the columns to choose.

    >>> read_frame(np.eye(2)).names
    ('x0', 'x1')
    >>> read_frame([{"a": 1, "b": "x"}, {"b": "y"}])["a"].values
    array([ 1., nan])
    """
    if isinstance(X, Frame):
        return X if names is None else X.select(names)
    own_names, columns, size = _columns(X)
    if own_names is None:
        if names is not None and len(names) != len(columns) and (columns or size):
            raise DecibanError(f"there are {len(names)} names for the {len(columns)} columns of {describe(X)}")
        own_names, names = [f"x{j}" for j in range(len(columns))] if names is None else names, None
        columns = columns or [[] for _ in own_names]
    labels = unique_names(own_names)
    if names is not None:
        by_label = dict(zip(labels, columns, strict=True))
        if absent := [name for name in names if name not in by_label]:
            raise no_such_column(absent[0], labels)
        labels = unique_names(names)
        columns = [by_label[name] for name in labels]
    read = [read_column(column, label) for column, label in zip(columns, labels, strict=True)]
    size = size if size is not None else len(read[0][0]) if read else 0
    for label, (column, _) in zip(labels, read, strict=True):
        if len(column) != size:
            raise DecibanError(
                "column {column!r} has {own} values, but column {first!r} has {size}: give every column one value "
                "per row, None if it is missing",
                column=label,
                own=len(column),
                first=labels[0],
                size=size,
            )
    notes = {label: note for label, (_, note) in zip(labels, read, strict=True) if note is not None}
    return Frame(labels, tuple(column for column, _ in read), size, notes)


def split_target(X: Any, target: str) -> tuple[Any, Array]:
    """A table without the column `target`, and that column's values as an array, None or NaN where missing.

    >>> rest, y = split_target({"legs": [2, 4], "animal": ["hen", "cow"]}, "animal")
    >>> rest, y.tolist()
    ({'legs': [2, 4]}, ['hen', 'cow'])
    """
    if isinstance(X, Frame):
        column = X[target]
        return X.without(target), column.objects() if isinstance(column, Levels) else column.values
    if isinstance(X, Mapping):
        names = {str(name): name for name in X}
        if target not in names:
            raise no_such_column(target, names)
        return {k: v for k, v in X.items() if k != names[target]}, target_values(X[names[target]])
    if (frame := library_frame(X)) is not None:
        labels = unique_names(frame.columns)
        if target not in labels:
            raise no_such_column(target, labels)
        column_name = frame.columns[labels.index(target)]
        return frame.drop(column_name).to_native(), target_values(frame[column_name])
    own_names, columns, _ = _columns(X)
    if own_names is None:
        raise DecibanError(
            "the target is the column {column!r}, but the columns of {table} have no names: pass the labels "
            "themselves as y, or a table with column names",
            column=target,
            table=describe(X),
        )
    labels = unique_names(own_names)
    if target not in labels:
        raise no_such_column(target, labels)
    place = labels.index(target)
    rest = [column for j, column in enumerate(columns) if j != place]
    named = dict(zip((label for label in labels if label != target), rest, strict=True))
    values = target_values(columns[place])
    return (read_frame(named) if named else Frame((), (), len(values))), values


def target_values(values: Any) -> Array:
    """The target's values as an array, without any conversion."""
    if (series := as_series(values)) is not None:
        import narwhals as nw

        with_nulls = series.dtype.is_integer() and series.null_count() > 0  # which would make them floats
        if series.dtype.is_numeric() and series.dtype != nw.Decimal and not with_nulls:
            return np.asarray(series.to_numpy())
        values = series.to_list()
    if isinstance(values, np.ndarray) or hasattr(values, "__array__"):
        return np.asarray(unmask(values))
    values = list(values)
    if values and set(map(type, values)) in ({bool}, {int}, {float}, {int, float}):
        return np.array(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def no_such_column(name: str, names: Iterable[str]) -> DecibanError:
    return DecibanError("{problem}", column=name, problem=unknown_column(name, names))


def unknown_column(name: str, names: Iterable[str]) -> str:
    """The message for a column that does not exist: similar names, or all of them."""
    names = list(names)
    listed = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"there is no column {name!r}: " + did_you_mean(name, names, f"the table has {listed or 'no columns'}")


def unique_names(names: Iterable[Any]) -> tuple[str, ...]:
    """Names as strings, each once."""
    labels = tuple(map(str, names))
    if len(set(labels)) < len(labels):
        twice = [label for label, times in Counter(labels).items() if times > 1]
        raise DecibanError(
            "several columns have the name {names}: give every column a different name",
            column=twice[0],
            names=", ".join(map(repr, twice[:10])),
        )
    return labels


def library_frame(X: Any) -> nw.DataFrame[Any] | None:
    """A table of a library that narwhals reads, in memory; None if X is something else."""
    if isinstance(X, NATIVE_TYPES):
        return None
    import narwhals as nw

    if is_arrow(X) and hasattr(X, "schema"):
        unique_names(X.schema.names)  # before narwhals raises its own error
        import pyarrow as pa

        if isinstance(X, pa.RecordBatch):
            X = pa.Table.from_batches([X])
        elif isinstance(X, pa.RecordBatchReader):
            X = X.read_all()
    if type(X).__module__.startswith("pandas") and hasattr(X, "columns"):
        unique_names(X.columns)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def describe(X: Any) -> str:
    """What X is, in a few words."""
    if isinstance(X, np.ndarray):
        return f"an array of shape {X.shape}"
    return f"a {type(X).__name__}"


def _columns(X: Any) -> tuple[Sequence[Any] | None, list[Any], int | None]:
    """A table's names (None if it has none), its columns as they are, and its number of rows (None: as in columns)."""
    if isinstance(X, Mapping):
        return list(X), list(X.values()), None
    if issparse(X):
        return None, _sparse_columns(X), X.shape[0]
    if isinstance(X, np.ndarray):
        return _array_columns(X)
    if (frame := library_frame(X)) is not None:
        if frame.implementation.is_pandas() and is_one_block(frame.to_native()):
            return frame.columns, _array_columns(frame.to_native().to_numpy())[1], len(frame)
        return frame.columns, list(frame.iter_columns()), len(frame)
    if as_series(X) is not None:
        raise DecibanError(f"{describe(X)} is a single column, not a table: pass a frame, as in df[['name']]")
    if isinstance(X, Iterator) or (isinstance(X, Sequence) and not isinstance(X, str | bytes)):
        return _row_columns(list(X))
    if hasattr(X, "__array__"):
        return _array_columns(np.asarray(X))
    raise DecibanError(
        f"{describe(X)} is not a table: pass a data frame (pandas, Polars, Arrow), a two-dimensional array, a "
        f"mapping of columns, or a list of rows"
    )


def is_one_block(frame: Any) -> bool:
    """Whether a pandas frame is one array of numbers, which is read faster than its columns one by one."""
    types = set(frame.dtypes)
    return len(types) == 1 and isinstance(kind := types.pop(), np.dtype) and kind.kind in "iuf"


def _array_columns(X: Array) -> tuple[Sequence[Any] | None, list[Any], int]:
    """Columns of an array: by field if it has fields."""
    if X.dtype.names is not None and X.ndim == 1:
        return X.dtype.names, [X[name] for name in X.dtype.names], len(X)
    if X.ndim != 2:
        hint = "X.reshape(-1, 1) makes it one column, X.reshape(1, -1) one row" if X.ndim == 1 else "flatten the rest"
        raise DecibanError(f"{describe(X)} is not a table with rows and columns: {hint}")
    X = np.asarray(unmask(X))
    if X.dtype.kind not in "iuf":
        return None, [X[:, j] for j in range(X.shape[1])], len(X)
    return None, [Numbers(column, whole=X.dtype.kind != "f") for column in in_columns(X)], len(X)


def in_columns(X: Array) -> Floats:
    """(n, d) numbers as (d, n) floats, each column contiguous; a view if the array is so already."""
    if X.dtype == np.float64 and X.T.flags.c_contiguous:
        return X.T
    out = np.empty(X.shape[::-1])
    with np.errstate(over="ignore"):  # numbers too large for a float become infinite, which is an error
        for start in range(0, len(X), ROWS_AT_A_TIME):
            out[:, start : start + ROWS_AT_A_TIME] = X[start : start + ROWS_AT_A_TIME].T
    return out


def _sparse_columns(X: Any) -> list[Numbers]:
    """Columns of a sparse matrix, if they fit into memory."""
    n, d = X.shape
    if 8 * n * d > MAX_DENSE_BYTES:
        raise DecibanError(
            f"a sparse matrix of {n:,} rows and {d:,} columns is too wide to be read as a table: MultinomialNB, "
            f"BernoulliNB, ComplementNB and PoissonNB take it unchanged; or choose fewer columns"
        )
    import scipy.sparse as sp

    X = sp.csc_matrix(X)
    X.sum_duplicates()
    whole = X.dtype.kind in "iub"
    out = np.zeros((d, n))
    for j in range(d):
        own = slice(X.indptr[j], X.indptr[j + 1])
        out[j, X.indices[own]] = X.data[own]
    return [Numbers(column, whole) for column in out]


def _row_columns(X: list[Any]) -> tuple[Sequence[Any] | None, list[Any], int]:
    """Columns of a list of rows: mappings by name, sequences by position."""
    if not X:
        return None, [], 0
    kinds = (Mapping,) if isinstance(X[0], Mapping) else (list, tuple, np.ndarray)
    for kind in set(map(type, X)):
        if not issubclass(kind, kinds):
            row = next(i for i, row in enumerate(X) if type(row) is kind)
            what = "a dict" if kinds == (Mapping,) else "a list with a value for each column, or a dict by name"
            raise DecibanError(
                "row {row} is {value!short}, a {kind}: every row of a table must be {what}",
                row=row,
                value=X[row],
                kind=kind.__name__,
                what=what,
            )
    if isinstance(X[0], Mapping):
        orders = dict.fromkeys(map(tuple, X))
        if len(orders) == 1:  # all rows have the same keys in the same order
            return tuple(X[0]), list(zip(*(row.values() for row in X), strict=True)), len(X)
        names = dict.fromkeys(name for order in orders for name in order)
        return list(names), [[row.get(name) for row in X] for name in names], len(X)
    widths = list(map(len, X))
    if min(widths) < max(widths):
        row = next(i for i, width in enumerate(widths) if width != widths[0])
        raise DecibanError(
            "row {row} has {own} values, but row {first} has {width}: use None for a missing value",
            row=row,
            own=widths[row],
            first=0,
            width=widths[0],
        )
    if all(isinstance(row, np.ndarray) for row in X):
        return _array_columns(np.stack(X))
    field_names = getattr(X[0], "_fields", None)  # of named tuples
    return field_names, list(zip(*X, strict=True)), len(X)
