"""Tables of mixed columns, each group of them for a distribution of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from deciban._typing import Array, Categories, Codes, Data, Floats
from deciban.errors import DecibanError, did_you_mean
from deciban.families import Family
from deciban.readers.base import Reader
from deciban.readers.layout import Group
from deciban.readers.numbers import pivots
from deciban.reading.entries import Entries
from deciban.reading.frames import Column, Frame, Levels, Numbers, to_native
from deciban.reading.labels import Labels
from deciban.schema import Columns

KINDS = ("number", "date", "boolean", "category")


@dataclass(frozen=True, slots=True, eq=False)
class MixedReader(Reader):
    """Columns by name, in groups of one distribution. `features` has the kind of each column, one of KINDS, by name."""

    groups: Callable[[], tuple[Group, ...]]  # called to learn; to score, the model has them
    features: Mapping[str, str]
    like: str = "dict"  # the user's kind of table

    form: ClassVar[str] = "table"
    strings: ClassVar[bool] = True

    def learn(self, X: Frame, known: Any, labels: Labels, weight: Floats | None) -> Entries:
        data: list[Array] = []
        blocks: list[Columns] = []
        for b, group in enumerate(self.groups()):
            columns, size = columns_of(X, group.names), len(group.names)
            if group.family.values == "categories":
                before = None if known is None else known.schema.blocks[b].categories
                codes = np.empty((X.size, size), dtype=np.int32, order="F")
                learned: list[Categories] = []
                for j, (column, name) in enumerate(zip(columns, group.names, strict=True)):
                    codes[:, j], values = learn_codes(column, before[j] if before is not None else (), name, weight)
                    learned.append(values)
                data.append(codes)
                blocks.append(Columns(size, group.names, tuple(learned)))
            else:
                rows = numbers(columns, group.names, group.family)
                data.append(rows)
                pivot = pivots(rows, labels, weight) if group.family.pivoted else None
                blocks.append(Columns(size, group.names, pivot=pivot))
        return Entries(data, tuple(blocks))

    def score(self, X: Frame, model: Any) -> Entries:
        data: list[Array] = []
        for block, columns in zip(model.joint.blocks, model.schema.blocks, strict=True):
            own = columns_of(X, columns.names)
            if columns.categories is not None:
                codes = np.empty((X.size, columns.size), dtype=np.int32, order="F")
                for j, (column, name) in enumerate(zip(own, columns.names, strict=True)):
                    codes[:, j] = find_codes(column, columns.categories[j], name)
                data.append(codes)
            else:
                data.append(numbers(own, columns.names, block.family))
        return Entries(data, model.schema.blocks)

    def native(self, rows: Data, model: Any) -> Any:
        """A table like the one that was learned, of the columns that have a distribution."""
        by_name = {}
        for X, columns, block in zip(rows, model.schema.blocks, model.joint.blocks, strict=True):
            for j, name in enumerate(columns.names or ()):
                values = () if columns.categories is None else tuple(columns.categories[j])
                by_name[name] = as_column(X[:, j], block.family, values, self.features[name])
        names = [name for name in self.features if name in by_name]
        return to_native(self.like, names, [by_name[name] for name in names])

    def kinds(self, names: tuple[str, ...], model: Any) -> dict[str, str]:
        del names, model
        return dict(self.features)


def columns_of(X: Frame, names: tuple[str, ...] | None) -> list[Column]:
    """The columns of these names."""
    by_name = dict(zip(X.names, X.columns, strict=True))
    for name in names or ():
        if name not in by_name:
            raise DecibanError(
                "column {column!r} is missing, but the model was fitted with it: {hint}",
                column=name,
                hint=did_you_mean(name, by_name, "add it, with None for missing values"),
                command_line="column {column!r} is missing, but the model was trained with it: {hint_on_command_line}",
                hint_on_command_line=did_you_mean(name, by_name, "add it, with empty fields for missing values"),
            )
    return [by_name[name] for name in names or ()]


def kind_of(column: Column) -> str:
    """One of KINDS."""
    if isinstance(column, Numbers):
        return "number" if column.dates is None else "date"
    return "boolean" if column.levels and all(isinstance(level, bool) for level in column.levels) else "category"


def numbers(columns: list[Column], names: tuple[str, ...] | None, family: Family) -> Floats:
    """Columns as a matrix of numbers, (n, d)."""
    out = np.empty((len(columns[0]), len(columns)), order="F")
    for j, (column, name) in enumerate(zip(columns, names or (), strict=True)):
        out[:, j] = as_numbers(column, name, family)
        if family.values == "counts" and (negative := out[:, j] < 0).any():
            row = int(np.argmax(negative))
            raise DecibanError(
                "column {column!r} holds {value:g} in row {row}, but counts are never negative: a {distribution} "
                "distribution does not fit it. Use 'gaussian', or 'drop' it",
                row=row,
                column=name,
                value=float(out[row, j]),
                distribution=family.name,
                command_line="column {column!r} holds {value:g} in row {row}, but counts are never negative: give "
                "--schema {column}=number, or --schema {column}=skip",
            )
    return out


def as_numbers(column: Column, name: str, family: Family) -> Floats:
    """A column's numbers, NaN where missing; true is 1, false is 0."""
    if isinstance(column, Numbers):
        return column.values
    if not all(isinstance(level, bool) for level in column.levels):
        row = int(np.argmax(column.codes >= 0))
        raise DecibanError(
            "column {column!r} holds {value!r} in row {row}, but a {distribution} distribution takes numbers: "
            "convert the column, or fit with columns={columns}",
            row=row,
            column=name,
            value=column.levels[column.codes[row]],
            distribution=family.name,
            columns={name: "categorical"},
            command_line="column {column!r} holds {value!r} in row {row}, but numbers are expected: give --missing "
            "{value} if it means a missing value, or train with --schema {column}=category",
        )
    return np.array([*map(float, column.levels), np.nan])[column.codes]  # −1 is the last one


def levels_of(column: Column, weight: Floats | None = None) -> tuple[Codes, tuple[Any, ...]]:
    """Codes, −1 where missing or without weight, and the values they stand for, each of which occurs."""
    if isinstance(column, Numbers):
        codes = np.full(len(column), -1, dtype=np.int32)
        present = ~column.missing if weight is None else ~column.missing & (weight > 0)
        values, codes[present] = np.unique(column.values[present], return_inverse=True)
        return codes, tuple(int(value) if value.is_integer() else value for value in values.tolist())
    codes = column.codes if weight is None else np.where(weight > 0, column.codes, np.int32(-1))
    used = np.bincount(codes + 1, minlength=len(column.levels) + 1)[1:] > 0
    if used.all():
        return codes, column.levels
    new_code = np.append(np.cumsum(used) - 1, -1).astype(np.int32)
    return new_code[codes], tuple(level for level, use in zip(column.levels, used, strict=True) if use)


def learn_codes(column: Column, known: Categories, name: str, weight: Floats | None) -> tuple[Codes, tuple[Any, ...]]:
    """Codes of a column's values, −1 where missing; new values are added after the known ones.

    A row with weight 0 adds no category, as if it did not exist.
    """
    codes, levels = levels_of(column, weight)
    check_alike(levels, known, name)
    position = {value: code for code, value in enumerate(known)}
    for value in sorted(set(levels) - position.keys()):
        position[value] = len(position)
    return np.array([*(position[value] for value in levels), -1], dtype=np.int32)[codes], tuple(position)


def find_codes(column: Column, known: Categories, name: str) -> Codes:
    """Codes of a column's values: −1 where missing, one past the known where never seen."""
    codes, levels = levels_of(column)
    check_alike(levels, known, name)
    position = {value: code for code, value in enumerate(known)}
    return np.array([*(position.get(value, len(known)) for value in levels), -1], dtype=np.int32)[codes]


def check_alike(levels: tuple[Any, ...], known: Categories, name: str) -> None:
    """Strings and numbers are never the same category, so a column must stay one of them."""
    if levels and known and isinstance(levels[0], str) != isinstance(known[0], str):
        raise DecibanError(
            f"column {{column!r}} holds {{value!r}}, but the model learned it with values such as {known[0]!r}: "
            f"{'numbers' if isinstance(known[0], str) else 'strings'} would all be unseen categories. Convert the "
            f"column to the type it had",
            column=name,
            value=levels[0],
        )


def as_column(values: Array, family: Family, categories: tuple[Any, ...], kind: str) -> Column:
    """Values drawn from a distribution as a column of the kind that was learned."""
    if family.values == "categories":
        return Levels(values.astype(np.int32), categories)
    if kind == "boolean" and family.values == "truths":
        return Levels(values.astype(np.int32), (False, True))
    whole = family.values in ("counts", "truths")
    return Numbers(values, whole=whole, dates="days" if kind == "date" else None)
