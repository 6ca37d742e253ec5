"""Categories of any kind (strings, numbers, both) to codes and back: no encoder needed before a model."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from deciban._typing import Array, Categories
from deciban.errors import DecibanError
from deciban.matrix import value_range
from deciban.reading.missing import missing_where
from deciban.show import plain

MAX_CODE_CELLS = 1 << 27  # counts of all codes up to the largest: beyond this, integers are not codes


def check_codes(X: Array, name: str) -> None:
    """Integer codes are neither negative nor infinite."""
    low, high = value_range(X)
    if np.isinf(low) or np.isinf(high):
        row, column = np.argwhere(np.isinf(X))[0]
        raise DecibanError(
            "Input X contains infinity: row {row}, column {column}", row=row, column=column, value=float(X[row, column])
        )
    if high >= 2.0**62:
        row, column = np.argwhere(X >= 2.0**62)[0]
        raise DecibanError(
            "row {row}, column {column} holds {value:g}, which is too large for a category code",
            row=row,
            column=column,
            value=float(X[row, column]),
        )
    if low < 0:
        row, column = np.argwhere(X < 0)[0]
        raise DecibanError(
            "Negative values in data passed to {name} (input X): row {row}, column {column} holds {value:g}. Integer "
            "categories are codes 0, 1, 2, …; a missing one is NaN.",
            row=row,
            column=column,
            value=float(X[row, column]),
            name=name,
        )


def code_sizes(X: Array, name: str, least: Array) -> Array:
    """How many categories each column of integer codes has: the greatest code + 1, at least `least`."""
    check_codes(X, name)
    high = np.full(X.shape[1], -1.0)
    if len(X):
        greatest = np.fmax.reduce(X, axis=0) if X.dtype.kind == "f" else X.max(axis=0)
        high = np.nan_to_num(greatest.astype(np.float64), nan=-1.0)
    high = np.maximum(high, least - 1.0)
    if high.sum() > MAX_CODE_CELLS:
        column = int(np.argmax(high))
        raise DecibanError(
            "column {column} holds the integer category {value}, too large for a table of codes. If the numbers are "
            "names rather than codes, pass the column as strings.",
            column=column,
            value=int(high[column]),
        )
    return np.asarray(np.floor(high).astype(np.int64) + 1)


def learn_labels(column: Array, known: Categories) -> tuple[Array, tuple[Any, ...]]:
    """Codes of a column's values, −1 where missing; new values are added after the known ones."""
    position = {value: code for code, value in enumerate(known)}
    missing = missing_where(column)
    codes = np.full(len(column), -1, dtype=np.int32)
    values = [plain(v) for v in column[~missing].tolist()]
    distinct = dict.fromkeys(values)
    new = [value for value in distinct if value not in position]
    with contextlib.suppress(TypeError):  # types that do not compare keep their order
        new = sorted(new)
    for value in new:
        position[value] = len(position)
    codes[~missing] = np.fromiter((position[v] for v in values), dtype=np.int32, count=len(values))
    return codes, tuple(position)


def find_labels(column: Array, known: Categories) -> Array:
    """Codes of a column's values: −1 where missing, one past the known where never seen."""
    position = {value: code for code, value in enumerate(known)}
    missing = missing_where(column)
    codes = np.full(len(column), -1, dtype=np.int32)
    values = [plain(v) for v in column[~missing].tolist()]
    unseen = len(known)
    codes[~missing] = np.fromiter((position.get(v, unseen) for v in values), dtype=np.int32, count=len(values))
    return codes


def from_codes(codes: Array, categories: Sequence[Categories]) -> Array:
    """Codes back to values: integers if the categories are integer codes, otherwise an object array."""
    if all(isinstance(values, range) for values in categories):
        return np.where(codes < 0, np.nan, codes) if (codes < 0).any() else codes.astype(np.int64)
    out = np.empty(codes.shape, dtype=object)
    for j, values in enumerate(categories):
        lookup = np.array([None, *values], dtype=object)
        out[:, j] = lookup[codes[:, j].astype(np.intp) + 1]
    return out
