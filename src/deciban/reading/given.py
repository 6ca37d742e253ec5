"""Rows as given, a table, a sparse matrix or texts: some of them, and a hash of each."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.matrix import mix_bits
from deciban.reading.columns import Column, Levels, as_series, short_repr
from deciban.reading.frames import Frame, library_frame, read_frame


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as given: a table, a sparse matrix, or texts."""

    X: Any
    size: int
    make: str  # "table", "sparse" or "texts"

    @classmethod
    def of(cls, X: Any) -> Rows:
        if hasattr(X, "strings"):  # texts that were already read
            return cls(X, len(X), "texts")
        if issparse(X):
            return cls(X.tocsr(), int(X.shape[0]), "sparse")
        if isinstance(X, Frame):
            return cls(X, X.size, "table")
        if isinstance(X, Mapping):
            return cls(X, len(next(iter(X.values()), ())), "table")
        if isinstance(X, np.ndarray) and (X.ndim == 2 or X.dtype.names):
            return cls(X, len(X), "table")
        if (frame := None if isinstance(X, np.ndarray | list | tuple) else library_frame(X)) is not None:
            return cls(frame.to_native(), len(frame), "table")
        if hasattr(X, "__array__") and not isinstance(X, np.ndarray) and as_series(X) is None:
            return cls.of(np.asarray(X))
        if isinstance(X, str | bytes):
            raise DecibanError("X is a single string: pass a list of strings, or a table")
        rows = X if isinstance(X, list | tuple) else as_list(X)
        tabular = bool(rows) and isinstance(rows[0], Mapping | list | tuple | np.ndarray)
        return cls(rows, len(rows), "table" if tabular else "texts")

    def take(self, rows: Array) -> Any:
        """Some of the rows, of the same type; a copy."""
        if isinstance(self.X, Frame) or hasattr(self.X, "strings"):
            return self.X.take(rows)
        if isinstance(self.X, Mapping):
            return {name: take_values(values, rows) for name, values in self.X.items()}
        if isinstance(self.X, np.ndarray) or self.make == "sparse":
            return self.X[rows]
        if isinstance(self.X, list | tuple):
            return [copy.copy(self.X[i]) for i in rows.tolist()]
        frame = library_frame(self.X)
        assert frame is not None  # it was one before
        return frame[rows.tolist()].to_native()

    def texts(self) -> Iterable[Any]:
        """Texts, one after another."""
        return self.X.strings() if hasattr(self.X, "strings") else self.X  # type: ignore[no-any-return]  # a list of them

    def frame(self) -> Frame | None:
        """The columns of a table; None for texts and sparse matrices."""
        return read_frame(self.X) if self.make == "table" else None

    @property
    def entries(self) -> int:
        """The number of values; of texts, eight characters count as one."""
        if self.make == "sparse":
            return int(self.X.nnz)
        if self.make == "texts":
            return sum(map(len, self.texts())) // 8
        if isinstance(self.X, np.ndarray):
            return int(self.X.size)
        if isinstance(self.X, Frame | Mapping):
            return self.size * len(self.X.names if isinstance(self.X, Frame) else self.X)
        if isinstance(self.X, list | tuple):
            return self.size * (len(self.X[0]) if self.size else 0)
        return int(np.prod(self.X.shape))

    def digests(self) -> Array:
        """A hash of each row's content, (n,) of 64 bits."""
        if self.make == "texts":
            return mix_bits(np.array([checksum(text) for text in self.texts()], dtype=np.uint64))
        if self.make == "sparse":
            cells = mix_bits(bits(self.X.data)) + mix_bits(self.X.indices.astype(np.uint64))
            total = np.append(np.uint64(0), np.cumsum(mix_bits(cells), dtype=np.uint64))
            return mix_bits(total[self.X.indptr[1:]] - total[self.X.indptr[:-1]])
        out = np.zeros(self.size, dtype=np.uint64)
        for column in read_frame(self.X).columns:
            out = mix_bits(out + column_digests(column))
        return out


def single_row(X: Any, names: Sequence[str] | None, features: int | None) -> Any:
    """A single row as a table of one row; anything else unchanged.

    A row may be a mapping of names to values, a Series of pandas whose index has the names of columns (`frame.iloc[5]`;
    other columns are dropped), or the values themselves in an array, a list or a tuple.

    >>> single_row({"age": 41, "plan": "basic"}, None, 2)
    {'age': [41], 'plan': ['basic']}
    >>> single_row((1.0, 2.0), None, 2)
    [(1.0, 2.0)]
    """
    if isinstance(X, Mapping):
        single = [name for name, value in X.items() if is_scalar(value)]
        if single and len(single) < len(X):
            name, value = next((name, value) for name, value in X.items() if name not in single)
            raise DecibanError(
                "column {column!r} is {value}, but {other!r} is a single value: a row has one value for each column",
                column=name,
                value=short_repr(value),
                other=single[0],
            )
        return {name: [value] for name, value in X.items()} if X and single else X
    if isinstance(X, np.void) and X.dtype.names:
        return {name: [X[name]] for name in X.dtype.names}
    if hasattr(X, "index") and hasattr(X, "infer_objects") and getattr(X, "ndim", 0) == 1:
        own = [name for name in names or () if name in X.index]
        if own:
            whole = X[own] if len(own) == len(names or ()) else X
            return whole.to_frame().T.infer_objects()
        X = X.tolist()
    is_row = (isinstance(X, np.ndarray) and X.ndim == 1 and not X.dtype.names) or (
        isinstance(X, list | tuple) and bool(X) and all(map(is_scalar, X))
    )
    if not is_row:
        return X
    if features is not None and len(X) != features:
        named = f" ({', '.join(map(str, names[:10]))}{', …' if len(names) > 10 else ''})" if names else ""
        raise DecibanError(
            "the row has {given} value{s}, but the model has {features} column{t}{names}: give a value for each, None "
            "where it is missing, or a dict by name",
            given=len(X),
            s="s" * (len(X) != 1),
            features=features,
            t="s" * (features != 1),
            names=named,
        )
    if names is not None and len(names) == len(X):  # in the order of the columns
        return {name: [value] for name, value in zip(names, X, strict=True)}
    return X[None] if isinstance(X, np.ndarray) else [X]


def single_values(X: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """The values of a single row by column: of a mapping, a tuple, a Series or a data frame of one row; otherwise None.

    >>> single_values((41, "basic"), ["age", "plan"])
    {'age': 41, 'plan': 'basic'}
    """
    if isinstance(X, Mapping):
        return X
    if isinstance(X, tuple):
        return dict(zip(names, X, strict=True)) if len(X) == len(names) else None
    if not hasattr(X, "infer_objects"):  # not of pandas
        return None
    row = X.iloc[0] if X.ndim == 2 and len(X) == 1 else X
    values = dict(zip(row.index.tolist(), row.tolist(), strict=True)) if row.ndim == 1 else {}
    return values if len(values) == len(row.index) else None


def explained_row(X: Any, model: Any, names: Sequence[str] | None, features: int | None) -> Any:
    """`single_row`; but of a data frame of one row that the model reads as it is, the values are taken, which are read
    quicker than its columns."""
    values = single_values(X, ()) if hasattr(X, "infer_objects") else None
    return single_row(X if values is None or model.single(values) is None else values, names, features)


def single_text(X: Any, column: str | None = None) -> Any:
    """Texts, of which one may be given alone: as a string; or in a row of a table, a mapping or a Series of pandas, in
    the column of that name, or called "text", or the only one.

    >>> single_text("lunch?"), single_text({"label": "ham", "text": "lunch?"}), single_text(["lunch?", "no"])
    (['lunch?'], ['lunch?'], ['lunch?', 'no'])
    """
    if isinstance(X, str | bytes):
        return [X]
    is_series = hasattr(X, "index") and hasattr(X, "infer_objects") and getattr(X, "ndim", 0) == 1
    if not isinstance(X, Mapping) and not is_series:
        return X
    own = next((name for name in (column, "text") if name is not None and name in (X.index if is_series else X)), None)
    if own is None and is_series:
        return X  # a column of texts
    if own is None and len(X) != 1:
        raise DecibanError(
            "the row has {columns}, and none of them is known to be the text: give the text itself, or call it 'text'",
            columns=", ".join(map(repr, X)) or "no columns",
        )
    text = next(iter(X.values())) if own is None else X[own]
    return [text] if is_scalar(text) else text


def is_scalar(value: Any) -> bool:
    """Whether this is one value of a row, not a column or a row."""
    return isinstance(value, str | bytes | np.generic) or not (hasattr(value, "__len__") or hasattr(value, "__array__"))


def as_list(X: Any) -> list[Any]:
    """Texts of any type, as a list."""
    if (series := as_series(X)) is not None:
        return series.to_list()
    return list(X)


def take_values(values: Any, rows: Array) -> Any:
    if isinstance(values, np.ndarray):
        return values[rows]
    if (series := as_series(values)) is not None:
        return series[rows.tolist()].to_native()
    return [values[i] for i in rows.tolist()]


def column_digests(column: Column) -> Array:
    if isinstance(column, Levels):
        return np.array([*(checksum(repr(level)) for level in column.levels), 0], dtype=np.uint64)[column.codes]
    return bits(column.values)


def checksum(text: Any) -> int:
    content = text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogatepass")
    return zlib.crc32(content) | zlib.adler32(content) << 32


def bits(values: Array) -> Array:
    """Numbers as 64 bits: one pattern for zero, and one for missing values."""
    numbers = np.asarray(values, dtype=np.float64) + 0.0
    return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
