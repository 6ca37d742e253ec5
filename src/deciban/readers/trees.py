"""Tables whose columns are all categories, values as they are and numbers in intervals; and the columns' parents."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from deciban._typing import Array, Categories, Codes, Data, Floats
from deciban.errors import DecibanError
from deciban.families.chow_liu import chow_liu
from deciban.readers.base import Reader
from deciban.reading.bins import bins_at, quantile_bins, usual_bins
from deciban.reading.categories import from_codes
from deciban.reading.entries import Entries
from deciban.reading.frames import Column, Frame, Levels, Numbers
from deciban.reading.labels import Labels
from deciban.schema import Bins, Columns

MAX_INTEGER_CATEGORIES = 10  # distinct integers that are still categories


@dataclass(frozen=True, slots=True, eq=False)
class TreeReader(Reader):
    """Codes of categories and intervals. `bins` is their number, or each column's cuts; `parents` are those given."""

    names: tuple[str, ...] | None
    bins: int | list[Any] | None = None
    parents: tuple[int, ...] | None = None

    form: ClassVar[str] = "tree"
    strings: ClassVar[bool] = True

    def learn(self, X: Frame, known: Any, labels: Labels, weight: Floats | None) -> Entries:
        n, d = X.size, len(X.columns)
        columns = None if known is None else known.columns()
        mass = np.ones(n) if weight is None else weight
        before: Sequence[Categories] = ((),) * d
        if columns is not None and columns.categories is not None:
            before = columns.categories
        counted = X if mass.all() else X.take(mass > 0)  # a row of weight zero does not count
        mass = mass[mass > 0]
        categories = tuple(
            learn(column, values, mass, self.bins[j] if isinstance(self.bins, list) else self.bins)
            for j, (column, values) in enumerate(zip(counted.columns, before, strict=True))
        )
        named = Columns(d, self.names, categories)
        codes = read_codes(X, named)
        parents = self.parents
        if columns is not None and columns.parents is not None:
            if parents is not None and parents != columns.parents:
                raise ValueError("parents= has changed since the last batch: call fit to start again")
            parents = columns.parents
        elif parents is None and counted.size:
            parents = find_parents(codes, named, labels, weight)
        return Entries([codes], (Columns(d, self.names, categories, parents=parents),))

    def score(self, X: Frame, model: Any) -> Entries:
        return Entries([read_codes(X, model.columns())], model.schema.blocks)

    def native(self, rows: Data, model: Any) -> Array:
        """Codes back to values; an interval's is its median."""
        known = model.columns().categories or ()
        values = [categories.middles if isinstance(categories, Bins) else categories for categories in known]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for column in values for v in column)
        return from_codes(rows[0], values).astype(np.float64 if numbers else object)

    def kinds(self, names: tuple[str, ...], model: Any) -> dict[str, str] | None:
        known = model.columns().categories or ()
        if any(isinstance(values, Bins) for values in known):  # intervals are computed here, not in a database
            return None
        return dict.fromkeys(names, "category")


def find_parents(codes: Codes, columns: Columns, labels: Labels, weight: Floats | None) -> tuple[int, ...]:
    """The tree of greatest mutual information given the class."""
    y = labels.codes
    if labels.soft is not None:  # a row for each of its classes
        rows, classes = np.nonzero(labels.soft)
        weight = labels.soft[rows, classes] * (1.0 if weight is None else weight[rows])
        codes, y = codes[rows], classes.astype(np.int32)
    if len(labels.classes) == 0 or not (y >= 0).any():
        return (-1,) * columns.size  # without labels, nothing is known about columns given the class
    return chow_liu(codes, np.diff(columns.offsets), y, weight, len(labels.classes))


def learn(column: Column, known: Categories, weight: Floats, bins: Any) -> Categories:
    """A column's categories: the known ones, then new ones; chosen if none are known. `bins`: their number, or cuts."""
    if isinstance(known, Bins):
        return known
    present = ~column.missing
    if isinstance(column, Levels):
        used = np.bincount(column.codes[present], minlength=len(column.levels)) > 0
        present_values = [level for level, occurs in zip(column.levels, used, strict=True) if occurs]
    else:
        values, mass = column.values[present], weight[present]
        if bins is not None and not isinstance(bins, Integral):
            return bins_at(np.asarray(bins, dtype=np.float64), values, mass)
        distinct = np.unique(values)
        whole = bool((distinct == np.floor(distinct)).all())
        n_bins = int(bins) if bins is not None else usual_bins(float(mass.sum()))
        if len(known) == 0 and not (whole and len(distinct) <= max(MAX_INTEGER_CATEGORIES, n_bins)):
            return quantile_bins(values, mass, n_bins)
        present_values = [int(v) if v.is_integer() else v for v in distinct.tolist()]
    new = [value for value in present_values if value not in set(known)]
    with contextlib.suppress(TypeError):  # types that do not compare keep their order
        new = sorted(new)
    return (*known, *new)


def read_codes(frame: Frame, columns: Columns) -> Codes:
    """Category codes of a table's rows: −1 where missing, one past the known where never seen."""
    assert columns.categories is not None
    codes = np.empty((frame.size, columns.size), dtype=np.int32, order="F")
    for j, (column, known) in enumerate(zip(frame.columns, columns.categories, strict=True)):
        codes[:, j] = code_numbers(column, known) if isinstance(column, Numbers) else code_levels(column, known)
        if isinstance(known, Bins) and isinstance(column, Levels) and not column.missing.all():
            row = int(np.argmax(~column.missing))
            raise DecibanError(
                "column {column!r} was learned as numbers, but row {row} holds {value!r}: make it a number, or None "
                "if it is missing",
                row=row,
                column=columns.name(j),
                value=column.levels[column.codes[row]],
                command_line="column {column!r} was learned as numbers, but row {row} holds {value!r}: make it a "
                "number, or give --missing {value} if it means a missing value",
            )
    return codes


def code_numbers(column: Numbers, known: Categories) -> Codes:
    if isinstance(known, Bins):
        return known.codes(column.values)
    by_value = sorted((float(value), code) for code, value in enumerate(known) if not isinstance(value, str))
    if not by_value:
        return np.where(column.missing, -1, len(known)).astype(np.int32)
    values, codes = np.array([value for value, _ in by_value]), np.array([code for _, code in by_value], dtype=np.int32)
    index = np.minimum(np.searchsorted(values, column.values), len(values) - 1)
    out = np.where(values[index] == column.values, codes[index], np.int32(len(known)))
    out[column.missing] = -1
    return out


def code_levels(column: Levels, known: Categories) -> Codes:
    code_of = {value: code for code, value in enumerate(known)}
    of_level = np.array([*(code_of.get(level, len(known)) for level in column.levels), -1], dtype=np.int32)
    return np.asarray(of_level[column.codes])  # −1, a missing value, is the last
