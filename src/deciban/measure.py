"""T(x) as data: what to sum, and how to use the sums. Engines interpret it (kernels here, SUM in a database).

A measure is defined by `of`, plain NumPy on a dense block of columns; compiled kernels are tested against it, and it is
used if there is no kernel. The class also defines everything else about its sums: how they move to a larger schema
and to another pivot, what must hold after a subtraction, and how a database computes them. So a new measure is a new
class, and nothing else.

A missing value (NaN) adds nothing to any sum; if columns depend on each other (`whole`), a row with a missing value
adds nothing at all, and its expectation is computed by EM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from deciban._typing import Array, Codes, Floats, Sums
from deciban.errors import ForgetError
from deciban.schema import Columns, category_positions

# The relative error of a sum of up to 2^22 weights, each accurate to 2^-52, is below this.
RESIDUE = 2.0**-30

MEASURES: dict[str, type[Measure]] = {}  # by the name of their sums


def incomplete(X: Array) -> Array:
    """Which rows have a missing value."""
    return np.asarray(np.isnan(X).any(axis=1)) if X.dtype.kind == "f" else np.zeros(len(X), dtype=bool)


@dataclass(frozen=True)
class InSql:
    """Writes the expressions of an SQL statement: a column's values about their pivots, and weighted sums."""

    x: Callable[[int], str]  # the expression of a column of the block
    number: Callable[[float], str]
    weighted: bool  # whether rows have weights, in column w

    def total(self, value: str) -> str:
        """The sum of an expression; NULL adds nothing."""
        return f"SUM(w * {value})" if self.weighted else f"SUM({value})"

    def where(self, condition: str) -> str:
        """The weight of the rows for which a condition holds."""
        each = "w" if self.weighted else self.number(1.0)
        return f"SUM(CASE WHEN {condition} THEN {each} ELSE {self.number(0.0)} END)"

    def there(self, value: str) -> str:
        """The weight of the rows in which an expression is not NULL."""
        if self.weighted:
            return f"SUM(CASE WHEN {value} IS NULL THEN {self.number(0.0)} ELSE w END)"
        return f"COUNT({value})"


class Measure(ABC):
    """A function of a row whose sums by class are statistics. `name` is the name of its sums.

    Class methods need only the sums: statistics know the names of their sums, but not the measures' settings.
    """

    name: ClassVar[str]
    degree: ClassVar[int] = 1  # in x: the size of a sum grows with this power of the values
    symmetric: ClassVar[bool] = False  # whether a class's sum is a symmetric matrix

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = getattr(cls, "name", None)
        if name is None:
            return
        known = MEASURES.setdefault(name, cls)
        if known.__qualname__ == cls.__qualname__:
            MEASURES[name] = cls
        elif not issubclass(cls, known):
            raise TypeError(f"sums called {name!r} are those of {known.__name__}: give {cls.__name__} another name")

    @abstractmethod
    def of(self, X: Array, pivot: Array) -> Floats:
        """T(x) of every row, (n, …)."""

    @abstractmethod
    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        """The possible shapes of one class's sum, the smallest first."""

    def zero(self, k: int, columns: Columns) -> Floats:
        """The sums of no rows."""
        return np.zeros((k, *self.shapes(columns)[0]))

    # ------------------------------------------------------------------ other schemas

    @classmethod
    def embedded(cls, array: Floats, old: Columns, new: Columns) -> Floats:
        """The sums in a schema with more categories, filled with zeros."""
        del old, new
        return array

    @classmethod
    def picked(cls, array: Floats, old: Columns, new: Columns) -> Floats:
        """The sums in a schema with fewer categories."""
        del old, new
        return array

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        """The sums about the pivot p, moved to the pivot p − by; sums without a pivot stay the same."""
        del by
        return sums[cls.name]

    # ------------------------------------------------------------------ validity

    def signed(self, columns: Columns) -> bool:
        """Whether a sum may be negative."""
        del columns
        return False

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        """The sums `after` a subtraction, with rounding residue set to zero; ForgetError if they are impossible.

        `before` are the sums before it; a negative sum means that the rows were never learned.
        """
        if self.signed(columns):
            return after[self.name]
        names = [columns.name(j) for j in range(columns.size)]
        return remainder(before[self.name], after[self.name], "counts of column {}", names)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        """Where the sums are more than rows of this weight by class can have, (k, d)."""
        del sums
        return np.zeros((len(weight), columns.size), dtype=bool)

    def flaw(self, sums: Sums, columns: Columns) -> str | None:
        """Why no rows can have these sums, if that is detected; otherwise None."""
        return None if self.signed(columns) or (sums[self.name] >= 0).all() else "holds a negative count"

    # ------------------------------------------------------------------ in a database

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        """Each number of a class's sum: its place, and the SQL expression of its value.

        A place (i, …) also names the columns involved. For a symmetric sum one half is enough.
        """
        del columns, sql
        raise NotImplementedError(f"a database cannot add up {type(self).__name__}")

    @property
    def pushes_down(self) -> bool:
        """Whether a database can compute the sums."""
        return type(self).in_sql is not Measure.in_sql

    def counted(self) -> tuple[tuple[int, ...], ...]:
        """The columns to group by, if sums are counts by category: a column, or a column and its parent."""
        return ()


@dataclass(frozen=True)
class One(Measure):
    """1 for every entry that is not missing, or for every complete row."""

    whole: bool = False
    name: ClassVar[str] = "one"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        return np.where(incomplete(X)[:, None] if self.whole else np.isnan(X), 0.0, 1.0)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        """If no entry is missing, one number for all columns is enough."""
        return ((1,),) if self.whole else ((1,), (columns.size,))

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        names = [columns.name(j) for j in range(columns.size)]
        return remainder(before["one"], after["one"], "values of column {}", names)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        return np.broadcast_to(sums["one"] > weight[:, None] * (1.0 + RESIDUE), (len(weight), columns.size))

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        if not self.whole:  # otherwise it is the number of rows
            yield from (((j,), sql.there(sql.x(j))) for j in range(columns.size))


class Values(Measure):
    """Sums of numbers, one per column."""

    name: ClassVar[str] = "x"

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size,),)

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        return np.asarray(sums["x"] + sums["one"] * by)

    def signed(self, columns: Columns) -> bool:
        return columns.pivot is not None

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        """About a pivot: without rows every sum must be zero, or they were never learned."""
        if columns.pivot is None:
            return super().checked_remainder(before, after, columns)
        empty = np.broadcast_to(after["one"], after["x"].shape) <= 0
        size = np.sqrt(gross(before) * before["one"]) + np.abs(columns.pivot) * before["one"]
        remains = empty & (np.abs(after["x"]) > RESIDUE * size)
        if remains.any():
            column = columns.name(int(np.argwhere(remains)[0][1]))
            raise ForgetError(
                f"cannot forget these values of column {column!r}: no row of the class is left, but a sum of values "
                f"is, so the model did not learn them in this form"
            )
        return after["x"]

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        if columns.pivot is not None:
            return super().excess(sums, weight, columns)
        return np.asarray((weight[:, None] <= 0) & (sums["x"] > 0))

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        yield from (((j,), sql.total(sql.x(j))) for j in range(columns.size))


@dataclass(frozen=True)
class X(Values):
    """x − pivot."""

    whole: bool = False

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(incomplete(X)[:, None] if self.whole else np.isnan(X), 0.0, X - pivot)


@dataclass(frozen=True)
class Above(Values):
    """1[x > threshold]; None leaves x as it is, for data that already is 0 and 1."""

    threshold: float | None = 0.0

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        value = X if self.threshold is None else self.threshold < X
        return np.where(np.isnan(X), 0.0, value)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        """No more rows can be above than there are."""
        return super().excess(sums, weight, columns) | (sums["x"] > sums["one"] * (1.0 + RESIDUE))

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        if self.threshold is None:
            yield from super().in_sql(columns, sql)
        else:
            above = sql.number(self.threshold)
            yield from (((j,), sql.where(f"{sql.x(j)} > {above}")) for j in range(columns.size))


class Squares(Measure):
    """Sums that second moments can be read from."""

    @classmethod
    @abstractmethod
    def second_moments(cls, array: Floats) -> Floats:
        """Σ(x − pivot)² by class and column."""

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        """A negative sum of squares about the mean means that the rows were never learned."""
        n, size = np.broadcast_to(after["one"], after["x"].shape), gross(before)
        empty = n <= 0
        squares = np.where(empty, 0.0, after["x"] ** 2 / np.where(empty, 1.0, n))
        second = np.where(empty, 0.0, self.second_moments(after[self.name]))
        # Rounding can make a scatter negative only by a small share of what was subtracted.
        negative = second - squares < -RESIDUE * (size + np.abs(second) + squares)
        if negative.any():
            column = columns.name(int(np.argwhere(negative)[0][1]))
            raise ForgetError(
                f"cannot forget these values of column {column!r}: the model never learned them (its sum of squares "
                "would be negative)"
            )
        return after[self.name]


@dataclass(frozen=True)
class XX(Squares):
    """(x − pivot)²."""

    name: ClassVar[str] = "xx"
    degree: ClassVar[int] = 2

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(np.isnan(X), 0.0, (X - pivot) ** 2)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size,),)

    @classmethod
    def second_moments(cls, array: Floats) -> Floats:
        return array

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        return np.asarray(sums["xx"] + 2.0 * by * sums["x"] + sums["one"] * by**2)

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        yield from (((j,), sql.total(f"{sql.x(j)} * {sql.x(j)}")) for j in range(columns.size))


class Products(Measure):
    """(x − pivot)^a (x − pivot)^bᵀ of whole rows, every pair of columns."""

    powers: ClassVar[tuple[int, int]]

    def of(self, X: Array, pivot: Array) -> Floats:
        t = np.where(incomplete(X)[:, None], 0.0, X - pivot)
        a, b = self.powers
        return np.asarray(t[:, :, None] ** a * t[:, None, :] ** b)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size, columns.size),)

    def signed(self, columns: Columns) -> bool:
        del columns
        return self.degree < 4  # even powers are not negative

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        """Not checked here: the squares are."""
        del before, columns
        return after[self.name]

    def flaw(self, sums: Sums, columns: Columns) -> str | None:
        if why := super().flaw(sums, columns):
            return why
        return "is not symmetric" if self.symmetric and not is_symmetric(sums[self.name]) else None

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        a, b = self.powers
        for i in range(columns.size):
            for j in range(i if self.symmetric else 0, columns.size):
                yield (i, j), sql.total(" * ".join([sql.x(i)] * a + [sql.x(j)] * b))


@dataclass(frozen=True)
class XY(Products, Squares):
    """(x − pivot)(x − pivot)ᵀ: the scatter."""

    name: ClassVar[str] = "xy"
    degree: ClassVar[int] = 2
    symmetric: ClassVar[bool] = True
    powers: ClassVar[tuple[int, int]] = (1, 1)

    @classmethod
    def second_moments(cls, array: Floats) -> Floats:
        return np.diagonal(array, axis1=1, axis2=2)

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        """Σ(t + b)(t + b)ᵀ from n, Σt and Σttᵀ, class by class."""
        cross = sums["x"][:, :, None] * by[:, None, :]
        squares = sums["one"][..., None] * by[:, :, None] * by[:, None, :]
        return np.asarray(sums["xy"] + cross + cross.transpose(0, 2, 1) + squares)

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        return Squares.checked_remainder(self, before, after, columns)

    def flaw(self, sums: Sums, columns: Columns) -> str | None:
        if not is_scatter(sums["one"], sums["x"], sums["xy"]):
            return "is not a scatter that rows can have"
        return super().flaw(sums, columns)


@dataclass(frozen=True)
class XXY(Products):
    """(x − pivot)²(x − pivot)ᵀ: needed to move fourth moments to another pivot."""

    name: ClassVar[str] = "xxy"
    degree: ClassVar[int] = 3
    powers: ClassVar[tuple[int, int]] = (2, 1)

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        """Σ(t + b)²(t + b)ᵀ: binomials, term by term."""
        one, x, xy = sums["one"][..., None], sums["x"], sums["xy"]
        squares = np.diagonal(xy, axis1=1, axis2=2)  # Σt²
        u, v = by[:, :, None], by[:, None, :]  # the shift of the row's column, and of the column's
        xu, xv = x[:, :, None], x[:, None, :]
        return np.asarray(sums["xxy"] + 2 * u * xy + u**2 * xv + v * (squares[:, :, None] + 2 * u * xu + one * u**2))


@dataclass(frozen=True)
class XXYY(Products):
    """(x − pivot)²((x − pivot)²)ᵀ: the fourth moments that Ledoit and Wolf's shrinkage needs."""

    name: ClassVar[str] = "xxyy"
    degree: ClassVar[int] = 4
    symmetric: ClassVar[bool] = True
    powers: ClassVar[tuple[int, int]] = (2, 2)

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        """Σ(t_j + u)²(t_l + v)² = Σ(t_j² + 2ut_j + u²)(t_l² + 2vt_l + v²)."""
        one, x, xy, xxy = sums["one"][..., None], sums["x"], sums["xy"], sums["xxy"]
        squares = np.diagonal(xy, axis1=1, axis2=2)
        u, v = by[:, :, None], by[:, None, :]
        xu, xv = x[:, :, None], x[:, None, :]
        other = xxy.transpose(0, 2, 1)  # Σ t_j t_l²
        return np.asarray(
            sums["xxyy"]
            + 2 * v * xxy
            + v**2 * squares[:, :, None]
            + 2 * u * (other + 2 * v * xy + v**2 * xu)
            + u**2 * (squares[:, None, :] + 2 * v * xv + one * v**2)
        )


class Lost(Measure):
    """The squares that were subtracted from second moments, or that a move of the pivot cancelled.

    It is not a sum over rows: it is recorded with second moments once they have lost something.
    """

    name: ClassVar[str] = "lost"
    degree: ClassVar[int] = 2


class Cells(Measure):
    """Counts by category: a database uses GROUP BY instead of SUM."""

    def in_sql(self, columns: Columns, sql: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        del columns, sql
        return iter(())

    @staticmethod
    @abstractmethod
    def starts(columns: Columns) -> Array:
        """Where each column's cells start in a flat row; the last entry is how many there are."""

    @classmethod
    @abstractmethod
    def positions(cls, small: Columns, large: Columns) -> Array:
        """The place of each cell in a schema that has more categories."""

    @classmethod
    def embedded(cls, array: Floats, old: Columns, new: Columns) -> Floats:
        out = np.zeros((len(array), int(cls.starts(new)[-1])))
        out[:, cls.positions(old, new)] = array
        return out

    @classmethod
    def picked(cls, array: Floats, old: Columns, new: Columns) -> Floats:
        return np.ascontiguousarray(array[:, cls.positions(new, old)])

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((int(self.starts(columns)[-1]),),)


@dataclass(frozen=True)
class Is(Cells):
    """1[x = c] for every category c of every column, laid out flat: one cell per (column, category)."""

    offsets: tuple[int, ...]
    name: ClassVar[str] = "is"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        cells = np.zeros((len(X), self.offsets[-1]))
        for j, start in enumerate(self.offsets[:-1]):
            known = (X[:, j] >= 0) & (X[:, j] < self.offsets[j + 1] - start)
            rows = np.flatnonzero(known)
            cells[rows, start + X[rows, j].astype(np.intp)] = 1.0
        return cells

    @staticmethod
    def starts(columns: Columns) -> Array:
        return columns.offsets

    @classmethod
    def positions(cls, small: Columns, large: Columns) -> Array:
        assert small.categories is not None
        assert large.categories is not None
        each = map(category_positions, small.categories, large.categories)
        places = [start + at for start, at in zip(large.offsets, each, strict=False)]
        return np.concatenate([np.zeros(0, dtype=np.intp), *places]).astype(np.intp)

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        owners = [columns.name(j) for j, size in enumerate(np.diff(columns.offsets)) for _ in range(size)]
        return remainder(before["is"], after["is"], "values of column {}", owners)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        return column_totals(sums["is"], columns) > weight[:, None] * (1.0 + RESIDUE)

    def counted(self) -> tuple[tuple[int, ...], ...]:
        return tuple((j,) for j in range(len(self.offsets) - 1))


@dataclass(frozen=True)
class Pairs(Cells):
    """1[x_parent = u, x = v] for every pair of categories of a column and its parent, laid out flat, u by u."""

    sizes: tuple[int, ...]  # how many categories each column has
    parents: tuple[int, ...]  # −1: none
    name: ClassVar[str] = "pair"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        parts = []
        for j, (size, parent) in enumerate(zip(self.sizes, self.parents, strict=True)):
            values = self.sizes[parent] if parent >= 0 else 0
            above = X[:, parent, None] == np.arange(values)
            both = above[:, :, None] & (X[:, j, None, None] == np.arange(size))
            parts.append(both.reshape(len(X), values * size))
        return np.hstack(parts).astype(np.float64) if parts else np.zeros((len(X), 0))

    @staticmethod
    def starts(columns: Columns) -> Array:
        return columns.pair_offsets

    @classmethod
    def positions(cls, small: Columns, large: Columns) -> Array:
        if small.parents is None or small.categories is None or large.categories is None:
            return np.zeros(0, dtype=np.intp)
        places = [category_positions(a, b) for a, b in zip(small.categories, large.categories, strict=True)]
        cells, starts = [np.zeros(0, dtype=np.intp)], large.pair_offsets
        for j, parent in enumerate(small.parents):
            if parent >= 0:
                pairs = places[parent][:, None] * len(large.categories[j]) + places[j]
                cells.append(starts[j] + pairs.ravel())
        return np.concatenate(cells).astype(np.intp)

    def checked_remainder(self, before: Sums, after: Sums, columns: Columns) -> Floats:
        owners = [columns.name(j) for j, size in enumerate(np.diff(columns.pair_offsets)) for _ in range(size)]
        what = "values of column {} and the one it depends on"
        return remainder(before["pair"], after["pair"], what, owners)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        """A column cannot have more values with its parent's than in total."""
        out, offsets = np.zeros((len(weight), columns.size), dtype=bool), columns.offsets
        for j, (start, stop) in enumerate(pairwise(columns.pair_offsets)):
            alone = sums["is"][:, offsets[j] : offsets[j + 1]]
            if stop > start:
                size = alone.shape[1]
                beside = sums["pair"][:, start:stop].reshape(len(alone), (stop - start) // size, size).sum(axis=1)
                out[:, j] = (beside > alone * (1.0 + RESIDUE)).any(axis=1)
        return out

    def counted(self) -> tuple[tuple[int, ...], ...]:
        return tuple((j, parent) for j, parent in enumerate(self.parents) if parent >= 0)

    @property
    def offsets(self) -> Array:
        """Where each column's places start: V + 1 for the column alone, and V + 1 for every category of its parent.

        The last of each V + 1 is for a category that was never seen.
        """
        above = [1 + self.sizes[parent] if parent >= 0 else 1 for parent in self.parents]
        places = np.array(above, dtype=np.intp) * (np.array(self.sizes, dtype=np.intp) + 1)
        return np.concatenate([[0], np.cumsum(places)]).astype(np.intp)

    def codes(self, X: Array) -> Codes:
        """Each entry's category, −1 if it is missing, and one past the last if it was never seen."""
        codes = np.empty(X.shape, dtype=np.int32, order="F")
        for j, size in enumerate(self.sizes):
            values = X[:, j]
            if X.dtype.kind == "f":
                codes[:, j] = np.where(values >= 0, np.minimum(values, np.intp(size)), -1)  # NaN is not ≥ 0
            else:
                np.clip(values, -1, size, out=codes[:, j], casting="unsafe")
        return codes

    def whole(self, codes: Codes) -> bool:
        """Whether no value is missing or unseen."""
        return codes.size == 0 or bool(codes.min() >= 0 and (codes.max(axis=0) < self.sizes).all())

    def places(self, X: Array) -> Codes:
        """The place in which each entry is counted, −1 if it is missing.

        If the parent's value is missing or was never seen, it is counted without its parent.
        """
        codes = self.codes(X)
        return self.beside(codes, self.whole(codes), codes)

    def beside(self, codes: Codes, whole: bool, otherwise: Codes) -> Codes:
        """The places of entries together with their parents' values, or `otherwise` if these are missing or unseen;
        `whole` if no entry is."""
        places = codes.copy(order="F")
        for j, parent in enumerate(self.parents):
            if parent >= 0:
                above = codes[:, parent]
                places[:, j] += (above + 1) * np.int32(self.sizes[j] + 1)
                if not whole:
                    known = (above >= 0) & (above < self.sizes[parent]) & (codes[:, j] >= 0)
                    places[:, j] = np.where(known, places[:, j], otherwise[:, j])
        return places

    def loose(self, codes: Codes) -> Array:
        """Rows with a value whose parent is missing or was never seen."""
        loose = np.zeros(len(codes), dtype=bool)
        for j, parent in enumerate(self.parents):
            if parent >= 0:
                loose |= (codes[:, j] >= 0) & ((codes[:, parent] < 0) | (codes[:, parent] == self.sizes[parent]))
        return np.flatnonzero(loose)

    def sums(self, table: Floats) -> dict[str, Floats]:
        """Counts by category and by pair, from counts by place, (k, places)."""
        alone, pairs, k = [table[:, :0]], [table[:, :0]], len(table)
        for (start, stop), size in zip(pairwise(self.offsets), self.sizes, strict=True):
            above = (stop - start) // (size + 1) - 1
            by_parent = table[:, start:stop].reshape(k, 1 + above, size + 1)[:, :, :size]
            alone.append(by_parent.sum(axis=1))
            pairs.append(by_parent[:, 1:].reshape(k, above * size))
        return {"is": np.hstack(alone), "pair": np.hstack(pairs)}


# ---------------------------------------------------------------------- functions for several measures


def has_squares(sums: Sums) -> bool:
    """Whether a block has second moments."""
    return XX.name in sums or XY.name in sums


def second_moments(sums: Sums) -> Floats:
    """Σ(x − pivot)² by class and column, of a block that has second moments."""
    measure: type[Squares] = XX if XX.name in sums else XY
    return measure.second_moments(sums[measure.name])


def gross(sums: Sums) -> Floats:
    """All squares that were ever in a block's second moments: the rounding error is relative to them."""
    return second_moments(sums) + sums.get(Lost.name, 0.0)


def column_totals(cells: Floats, columns: Columns) -> Floats:
    """Counts by category, summed over each column's categories: (k, d)."""
    offsets = columns.offsets
    filled = np.flatnonzero(np.diff(offsets) > 0)
    out = np.zeros((len(cells), columns.size))
    if len(filled):
        out[:, filled] = np.add.reduceat(cells, offsets[filled], axis=1)
    return out


def remainder(before: Floats, after: Floats, what: str, names: list[str]) -> Floats:
    """The sums `after` a subtraction, with rounding residue set to zero; ForgetError if one is negative."""
    scale = np.broadcast_to(before, after.shape)
    after = np.where(np.abs(after) <= np.abs(scale) * RESIDUE, 0.0, after)
    if (after < 0).any():
        at = np.argwhere(after < 0)[0]
        raise ForgetError(
            f"cannot forget more {what.format(repr(names[int(at[-1])]))} than the model has learned: it has "
            f"{scale[tuple(at)]:g}, and {scale[tuple(at)] - after[tuple(at)]:g} were to be forgotten"
        )
    return after


def is_scatter(one: Array, x: Array, xy: Array) -> bool:
    """Whether n, Σt and Σttᵀ can come from rows: up to rounding, no direction has a negative variance."""
    n = np.where(one > 0, one, 1.0)[:, 0]
    for rows, sums, scatter in zip(n, x, xy, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            central = scatter - np.outer(sums, sums / rows)
        own = np.diagonal(scatter)
        if not np.isfinite(central).all() or (own < 0).any():
            return False
        if not central.any():
            continue
        central[np.diag_indices(len(own))] += 1e-6 * own.sum()
        try:
            np.linalg.cholesky(central)  # exists if every direction has positive variance; much faster than eigenvalues
        except np.linalg.LinAlgError:
            return False
    return True


def is_symmetric(array: Array) -> bool:
    """Whether (k, d, d) sums are symmetric; compared column by column, since they may be large."""
    return all(np.allclose(array[:, j], array[:, :, j], rtol=1e-9, atol=0.0) for j in range(array.shape[1]))
