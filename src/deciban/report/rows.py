"""The rows of a report, and their columns with kinds and values."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.reading.columns import Column, Levels
from deciban.reading.convert import as_kind
from deciban.reading.frames import Frame, split_target, target_values
from deciban.reading.given import Rows
from deciban.reading.kinds import LEFT_OUT, ColumnKind, infer
from deciban.reading.missing import is_missing
from deciban.results.evaluation import Judged
from deciban.show import value_text

MAX_ROWS_LOOKED_AT = 20_000  # of more rows, a random sample


@dataclass(frozen=True, slots=True, eq=False)
class ReadColumn:
    """A column as it was read: its kind, the reason for it, and its values."""

    name: str
    kind: str
    why: str
    column: Column

    @property
    def used(self) -> bool:
        return self.kind not in LEFT_OUT

    @property
    def missing(self) -> int:
        return int(self.column.missing.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """Everything a page is made from. All but the model may be missing."""

    model: Any
    rows: Rows | None = None
    where: Array | None = None  # the rows' numbers in the data as given
    labels: Array | None = None  # their classes, if known
    judged: Judged | None = None
    names: tuple[str, ...] | None = None  # of the columns
    given: int = 0  # number of rows before sampling
    unlabelled: int = 0  # rows left out because they have no label
    learned: bool = False
    why_not_judged: str = ""
    read_columns: tuple[ReadColumn, ...] = ()  # the columns that the model uses
    positive: Any = None  # the class that thresholds are for
    costs: tuple[float, float] | None = None  # of a false positive and of a false negative

    @property
    def name(self) -> str:
        """The estimator that the model is, or was saved from."""
        return str(getattr(self.model, "name", None) or type(self.model).__name__)

    @property
    def classes(self) -> Array:
        return np.asarray(self.model.classes_)

    @property
    def size(self) -> int:
        return 0 if self.rows is None else self.rows.size

    def row(self, i: int) -> Any:
        """One row, as the model takes it."""
        assert self.rows is not None
        return self.rows.take(np.array([i]))

    def number(self, i: int) -> int:
        """A row's number in the data as given, from 1."""
        return 1 + int(i if self.where is None else self.where[i])

    def explain(self, i: int, target: Any = None, against: Any = None) -> tuple[Any, bool]:
        """The evidence for a row's prediction, and whether it is that of the model without the row, if it was learned:
        the row itself is evidence for its class, and would hide a mistake."""
        options = {} if self.names is None or hasattr(self.model, "kinds_") else {"names": list(self.names)}
        row = self.row(i)
        if self.learned and self.labels is not None and hasattr(self.model, "forget"):
            with contextlib.suppress(ValueError):  # such as a mixture, or the last row of a class
                without = copy.copy(self.model).forget(row, self.labels[i : i + 1])
                why = without.explain(row, target=target, against=against, **options)
                if np.isfinite([why.prior, *(db for _, _, db in why.items)]).all():
                    return why, True
        return self.model.explain(row, target=target, against=against, **options), False


def read_rows(X: Any, y: Any) -> tuple[Rows, Array | None, Array, int, int]:
    """Labelled rows, their labels and row numbers; how many rows were given, and how many had no label.

    Of very many, a random sample.
    """
    if isinstance(y, str):
        X, y = split_target(X, y)
    rows = Rows.of(X)
    labels = None if y is None else target_values(y)
    if labels is not None and len(labels) != rows.size:
        raise DecibanError(f"X has {rows.size} rows, but y has {len(labels)} labels: give one label per row")
    known = np.arange(rows.size)
    if labels is not None:
        unlabelled_mask = np.fromiter((is_missing(label) for label in labels.tolist()), dtype=bool, count=len(labels))
        known = np.flatnonzero(~unlabelled_mask)
    unlabelled = rows.size - len(known)
    chosen = known
    if len(known) > MAX_ROWS_LOOKED_AT:
        chosen = np.sort(np.random.default_rng(0).choice(known, MAX_ROWS_LOOKED_AT, replace=False))
    given = rows.size
    if len(chosen) < given:
        rows = Rows.of(rows.take(chosen))
    return rows, None if labels is None else labels[chosen], chosen, given, unlabelled


# ------------------------------------------------------------------ columns


def with_columns(material: Material) -> Material:
    """The same, with the columns that the model uses."""
    frame = None if material.rows is None else material.rows.frame()
    if frame is None:
        return material
    known = known_kinds(material.model)
    names = material.names or tuple(map(str, getattr(material.model, "feature_names_in_", ()))) or tuple(known)
    if positional(material) and len(names) == len(frame.names):
        frame = Frame(tuple(names), frame.columns, frame.size, frame.notes)
    if names and set(names) <= set(frame.names):
        frame = frame.select(names)
    read_columns = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about values of another kind: the model has already warned
        for name, column in zip(frame.names, frame.columns, strict=True):
            own = known[name] if name in known else infer(frame.select([name]))[0]
            read = as_kind(column, own.kind, name, format=own.format)
            read_columns.append(ReadColumn(name, own.kind, own.why, read))
    return replace(material, read_columns=tuple(read_columns))


def known_kinds(model: Any) -> dict[str, ColumnKind]:
    """What the model knows about each column."""
    reader = getattr(getattr(model, "model_", None) or getattr(model, "model", None), "reader", None)
    return {} if reader is None else {kind.name: kind for kind in reader.kinds}


def positional(material: Material) -> bool:
    """Whether columns are given by position, without names."""
    X = None if material.rows is None else material.rows.X
    if isinstance(X, np.ndarray):
        return X.dtype.names is None
    return isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Sequence | np.ndarray)


def shown_value(column: Column, row: int) -> str:
    """A value as a person would write it."""
    if bool(column.missing[row]):
        return "missing"
    if isinstance(column, Levels):
        return str(column.levels[column.codes[row]])
    value = float(column.values[row])
    if column.dates is not None:
        return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(value)), "D"))
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else value_text(value)
