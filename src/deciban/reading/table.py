"""A user's table as the model reads it: the useful columns, each converted to its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban.errors import DecibanError, similar
from deciban.reading.columns import Column, Levels, Numbers
from deciban.reading.convert import as_kind
from deciban.reading.frames import Frame, read_frame
from deciban.reading.kinds import LEFT_OUT, UNKNOWN, ColumnKind, Conventions, format_of, infer
from deciban.reading.native import native_kind

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")  # the first of January 1970 was a Thursday


@dataclass(frozen=True, slots=True, eq=False)
class TableColumns:
    """The kind of each column of a table. Columns that are useless for new rows are left out."""

    kinds: tuple[ColumnKind, ...]

    @classmethod
    def of(
        cls, frame: Frame, given: Mapping[str, str] | None = None, conventions: Conventions = UNKNOWN
    ) -> TableColumns:
        reader = cls(infer(frame, given, conventions))
        names = reader.names
        twice = [name for name, times in Counter(names).items() if times > 1] if len(set(names)) < len(names) else []
        if twice:
            raise DecibanError(
                "a column is called {column!r}, like a part of a date column: give it another name",
                column=twice[0],
            )
        return reader

    @property
    def used(self) -> tuple[ColumnKind, ...]:
        return tuple(kind for kind in self.kinds if kind.kind not in LEFT_OUT)

    @property
    def written(self) -> tuple[str, ...]:
        """The columns whose strings are numbers or dates in a format of their own."""
        return tuple(kind.name for kind in self.used if kind.format is not None)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(kind.name for kind in self.used if kind.kind == "text")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result of `read`, without texts."""
        return tuple(name for kind in self.used if kind.kind != "text" for name in derived_names(kind))

    def _absent(self, absent: list[str], names: tuple[str, ...]) -> str:
        """The message for columns that are not in the table."""
        close = similar(absent[0], names, most=1)
        has = f"which has {named(names)}" if names else "which has no columns"
        which = f"columns {named(absent)} are" if len(absent) > 1 else f"column {absent[0]!r} is"
        hint = f" (did you mean {absent[0]!r} by {close[0]!r}?)" if close else ""
        return (
            f"{which} not in this table, {has}{hint}: give every column that was learned, with missing values if "
            "necessary"
        )

    def read(self, X: Any, known: Mapping[str, tuple[Any, ...]] | None = None) -> Frame:
        """The used columns of a table, or of more rows of one; texts come last, as levels.

        `known` are the categories of columns that were learned: the number 3 is the category "3" if it was one then.
        """
        frame = read_frame(X)
        if positional(X) and len(frame.names) == len(self.kinds):
            frame = Frame(tuple(kind.name for kind in self.kinds), frame.columns, frame.size, frame.notes)
        columns: dict[str, Column] = {}
        by_name = dict(zip(frame.names, frame.columns, strict=True))
        absent = [kind.name for kind in self.used if kind.name not in by_name]
        if absent:
            raise DecibanError("{problem}", column=absent[0], problem=self._absent(absent, frame.names))
        for kind in self.used:
            levels = (known or {}).get(kind.name, ())
            written = kind.format or format_of(by_name[kind.name], kind.kind)
            column = as_kind(by_name[kind.name], kind.kind, kind.name, known=levels, format=written)
            if kind.kind == "date" and isinstance(column, Numbers):
                columns |= dict(zip(derived_names(kind), (column, *calendar(column)), strict=True))
            else:
                columns[kind.name] = column
        names = (*self.names, *self.texts)
        return Frame(names, tuple(columns[name] for name in names), frame.size, frame.notes)


def named(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def positional(X: Any) -> bool:
    """Whether a table's columns have no names of their own: only strings are names."""
    if isinstance(X, np.ndarray):
        return X.dtype.names is None
    return native_kind(X) == "pandas" and not all(isinstance(name, str) for name in X.columns)


def derived_names(kind: ColumnKind) -> tuple[str, ...]:
    """The columns made from a column: a date becomes a number, a month and a day of the week."""
    return (kind.name, f"{kind.name} (month)", f"{kind.name} (weekday)") if kind.kind == "date" else (kind.name,)


def calendar(column: Numbers) -> tuple[Levels, Levels]:
    """The month and the day of the week of days since 1970."""
    present = ~np.isnan(column.values)
    days = np.where(present, np.floor(np.where(present, column.values, 0.0)), 0.0).astype("datetime64[D]")
    month = days.astype("datetime64[M]").astype(np.int64) % 12
    weekday = days.astype(np.int64) % 7
    return (
        Levels(np.where(present, month, -1).astype(np.int32), MONTHS),
        Levels(np.where(present, weekday, -1).astype(np.int32), DAYS),
    )
