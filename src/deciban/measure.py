"""T(x) as data: what to add up, and what its sums can do. Engines interpret it (kernels here, SUM in a database).

A measure is defined by `of`, plain NumPy on a dense column block; compiled kernels are held to it, and where there is
none it is what is computed. All else that anybody must know of its sums it says itself: how they move to a larger
schema and to another pivot, what must hold when some are taken away, and how a database adds them up. So a new measure
is a new class, and nothing else.

A missing entry (NaN) adds nothing to any sum; where columns depend on each other (`whole`), a row with a missing entry
adds nothing at all, and its expectation is found by EM.
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

# Sums of up to 2^22 weights, each within 2^-52 of itself, are off by less than this share of themselves.
RESIDUE = 2.0**-30

MEASURES: dict[str, type[Measure]] = {}  # by the name of their sums


def incomplete(X: Array) -> Array:
    """Which rows have a missing entry."""
    return np.asarray(np.isnan(X).any(axis=1)) if X.dtype.kind == "f" else np.zeros(len(X), dtype=bool)


@dataclass(frozen=True)
class InSql:
    """The words of a statement that adds up: a column's numbers about their pivots, and sums by the rows' weights."""

    x: Callable[[int], str]  # what a column of the block is called
    number: Callable[[float], str]
    weighted: bool  # whether rows have weights, in column w

    def total(self, value: str) -> str:
        """Σ of an expression; what is missing adds nothing."""
        return f"SUM(w * {value})" if self.weighted else f"SUM({value})"

    def where(self, condition: str) -> str:
        """What the rows weigh for which a condition holds."""
        each = "w" if self.weighted else self.number(1.0)
        return f"SUM(CASE WHEN {condition} THEN {each} ELSE {self.number(0.0)} END)"

    def there(self, value: str) -> str:
        """What the rows weigh in which it is not missing."""
        if self.weighted:
            return f"SUM(CASE WHEN {value} IS NULL THEN {self.number(0.0)} ELSE w END)"
        return f"COUNT({value})"


class Measure(ABC):
    """A function of a row whose sums by class are statistics. `name` is what its sums are called.

    Class methods speak of sums alone: statistics know the names of their sums, and no more of what they are of.
    """

    name: ClassVar[str]
    degree: ClassVar[int] = 1  # in x: so many times over a sum can be as large as what was summed
    symmetric: ClassVar[bool] = False  # whether a class's sum is a matrix that is the same in both orders of columns

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
        """What one class's sum may look like, the smallest first."""

    def zero(self, k: int, columns: Columns) -> Floats:
        """The sums of no rows."""
        return np.zeros((k, *self.shapes(columns)[0]))

    # ------------------------------------------------------------------ other schemas

    @classmethod
    def embedded(cls, array: Floats, old: Columns, new: Columns) -> Floats:
        """The sums in a schema of more categories, which are zero."""
        del old, new
        return array

    @classmethod
    def picked(cls, array: Floats, old: Columns, new: Columns) -> Floats:
        """The sums in a schema of fewer categories."""
        del old, new
        return array

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        """The sums about the pivot p, moved to the pivot p − by; what is not about a pivot stays."""
        del by
        return sums[cls.name]

    # ------------------------------------------------------------------ what can be

    def signed(self, columns: Columns) -> bool:
        """Whether a sum may be negative."""
        del columns
        return False

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        """What is left of the sums after a subtraction; ForgetError where that cannot be, `was` being what was there.

        Otherwise what is left by rounding alone is nothing, and less than nothing was never learned.
        """
        if self.signed(columns):
            return left[self.name]
        names = [columns.name(j) for j in range(columns.size)]
        return remainder(was[self.name], left[self.name], "counts of column {}", names)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        """Where there is more than rows that weigh so much by class can hold, (k, d)."""
        del sums
        return np.zeros((len(weight), columns.size), dtype=bool)

    def flaw(self, sums: Sums, columns: Columns) -> str | None:
        """Why no rows can have these sums, as far as it is seen; None where they may."""
        return None if self.signed(columns) or (sums[self.name] >= 0).all() else "holds a negative count"

    # ------------------------------------------------------------------ in a database

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        """Each number to be added up: where it stands in a class's sum, and the expression that is its sum.

        A place (i, …) is also which columns it is of. Of a sum that is symmetric one half will do.
        """
        del columns, say
        raise NotImplementedError(f"a database does not know how to add up {type(self).__name__}")

    @property
    def pushes_down(self) -> bool:
        """Whether a database can add it up."""
        return type(self).in_sql is not Measure.in_sql

    def counted(self) -> tuple[tuple[int, ...], ...]:
        """The columns that rows are counted by, where sums are counts by category: a column, or it and its parent."""
        return ()


@dataclass(frozen=True)
class One(Measure):
    """1 for every entry that is there, or for every row that is whole."""

    whole: bool = False
    name: ClassVar[str] = "one"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        return np.where(incomplete(X)[:, None] if self.whole else np.isnan(X), 0.0, 1.0)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        """Where no entry is missing, one number does for all columns."""
        return ((1,),) if self.whole else ((1,), (columns.size,))

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        names = [columns.name(j) for j in range(columns.size)]
        return remainder(was["one"], left["one"], "values of column {}", names)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        return np.broadcast_to(sums["one"] > weight[:, None] * (1.0 + RESIDUE), (len(weight), columns.size))

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        if not self.whole:  # otherwise there are as many as there are rows
            yield from (((j,), say.there(say.x(j))) for j in range(columns.size))


class Values(Measure):
    """Sums of numbers, of a column each."""

    name: ClassVar[str] = "x"

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size,),)

    @classmethod
    def shifted(cls, sums: Sums, by: Floats) -> Floats:
        return np.asarray(sums["x"] + sums["one"] * by)

    def signed(self, columns: Columns) -> bool:
        return columns.pivot is not None

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        """About a pivot: of no rows no sum is left, or they were never learned."""
        if columns.pivot is None:
            return super().left(was, left, columns)
        none = np.broadcast_to(left["one"], left["x"].shape) <= 0
        size = np.sqrt(gross(was) * was["one"]) + np.abs(columns.pivot) * was["one"]
        remains = none & (np.abs(left["x"]) > RESIDUE * size)
        if remains.any():
            column = columns.name(int(np.argwhere(remains)[0][1]))
            raise ForgetError(
                f"cannot forget these values of column {column!r}: no row is left of the class, but a sum of values "
                "is, so the model never learned them as they are"
            )
        return left["x"]

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        if columns.pivot is not None:
            return super().excess(sums, weight, columns)
        return np.asarray((weight[:, None] <= 0) & (sums["x"] > 0))

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        yield from (((j,), say.total(say.x(j))) for j in range(columns.size))


@dataclass(frozen=True)
class X(Values):
    """x − pivot."""

    whole: bool = False

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(incomplete(X)[:, None] if self.whole else np.isnan(X), 0.0, X - pivot)


@dataclass(frozen=True)
class Above(Values):
    """1[x > threshold]; None leaves x as it is, for data that is 0 and 1 already."""

    threshold: float | None = 0.0

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        value = X if self.threshold is None else self.threshold < X
        return np.where(np.isnan(X), 0.0, value)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        """No more are above than there are."""
        return super().excess(sums, weight, columns) | (sums["x"] > sums["one"] * (1.0 + RESIDUE))

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        if self.threshold is None:
            yield from super().in_sql(columns, say)
        else:
            above = say.number(self.threshold)
            yield from (((j,), say.where(f"{say.x(j)} > {above}")) for j in range(columns.size))


class Squares(Measure):
    """Sums that second moments can be read from."""

    @classmethod
    @abstractmethod
    def second_moments(cls, array: Floats) -> Floats:
        """Σ(x − pivot)² by class and column."""

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        """No sum of squares about the mean is below zero: otherwise they were never learned."""
        n, size = np.broadcast_to(left["one"], left["x"].shape), gross(was)
        none = n <= 0
        squares = np.where(none, 0.0, left["x"] ** 2 / np.where(none, 1.0, n))
        second = np.where(none, 0.0, self.second_moments(left[self.name]))
        # Rounding can take a scatter below zero by a share of what was subtracted, not by more.
        negative = second - squares < -RESIDUE * (size + np.abs(second) + squares)
        if negative.any():
            column = columns.name(int(np.argwhere(negative)[0][1]))
            raise ForgetError(
                f"cannot forget these values of column {column!r}: the model never learned them (its sum of squares "
                "would be negative)"
            )
        return left[self.name]


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

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        yield from (((j,), say.total(f"{say.x(j)} * {say.x(j)}")) for j in range(columns.size))


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
        return self.degree < 4  # of even powers nothing is

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        """Squares tell what was never learned."""
        del was, columns
        return left[self.name]

    def flaw(self, sums: Sums, columns: Columns) -> str | None:
        if why := super().flaw(sums, columns):
            return why
        return "is not symmetric" if self.symmetric and not is_symmetric(sums[self.name]) else None

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        a, b = self.powers
        for i in range(columns.size):
            for j in range(i if self.symmetric else 0, columns.size):
                yield (i, j), say.total(" * ".join([say.x(i)] * a + [say.x(j)] * b))


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

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        return Squares.left(self, was, left, columns)

    def flaw(self, sums: Sums, columns: Columns) -> str | None:
        if not is_scatter(sums["one"], sums["x"], sums["xy"]):
            return "is not a scatter that rows can have"
        return super().flaw(sums, columns)


@dataclass(frozen=True)
class XXY(Products):
    """(x − pivot)²(x − pivot)ᵀ: what fourth moments need to follow a pivot."""

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
    """The squares that second moments were larger by, before something was taken away or the pivot moved.

    Not of rows, but of what became of their sums: it stands beside second moments once they have lost something.
    """

    name: ClassVar[str] = "lost"
    degree: ClassVar[int] = 2


class Cells(Measure):
    """Counts by category: a database groups by them, and does not sum."""

    def in_sql(self, columns: Columns, say: InSql) -> Iterator[tuple[tuple[int, ...], str]]:
        del columns, say
        return iter(())

    @staticmethod
    @abstractmethod
    def starts(columns: Columns) -> Array:
        """Where each column's cells begin in a flat row of them; the last entry is how many there are."""

    @classmethod
    @abstractmethod
    def positions(cls, small: Columns, large: Columns) -> Array:
        """Where each cell stands in a schema that has more categories."""

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

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        owners = [columns.name(j) for j, size in enumerate(np.diff(columns.offsets)) for _ in range(size)]
        return remainder(was["is"], left["is"], "values of column {}", owners)

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

    def left(self, was: Sums, left: Sums, columns: Columns) -> Floats:
        owners = [columns.name(j) for j, size in enumerate(np.diff(columns.pair_offsets)) for _ in range(size)]
        what = "values of column {} beside the one it hangs on"
        return remainder(was["pair"], left["pair"], what, owners)

    def excess(self, sums: Sums, weight: Floats, columns: Columns) -> Array:
        """No more values of a column stand beside its parent's than there are."""
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
        """Where each column's places begin: V + 1 for the column alone, and V + 1 for every category of its parent.

        The last of each V + 1 is for a category that was never seen.
        """
        above = [1 + self.sizes[parent] if parent >= 0 else 1 for parent in self.parents]
        places = np.array(above, dtype=np.intp) * (np.array(self.sizes, dtype=np.intp) + 1)
        return np.concatenate([[0], np.cumsum(places)]).astype(np.intp)

    def codes(self, X: Array) -> Codes:
        """Each entry's category, −1 where it is missing, and one past the last where it was never seen."""
        codes = np.empty(X.shape, dtype=np.int32, order="F")
        for j, size in enumerate(self.sizes):
            values = X[:, j]
            if X.dtype.kind == "f":
                codes[:, j] = np.where(values >= 0, np.minimum(values, np.intp(size)), -1)  # NaN is not ≥ 0
            else:
                np.clip(values, -1, size, out=codes[:, j], casting="unsafe")
        return codes

    def whole(self, codes: Codes) -> bool:
        """Whether every value is there, and known."""
        return codes.size == 0 or bool(codes.min() >= 0 and (codes.max(axis=0) < self.sizes).all())

    def places(self, X: Array) -> Codes:
        """Where each entry is counted among its column's places, −1 where it is missing.

        Where the parent's value is missing or was never seen, it is counted without its parent.
        """
        codes = self.codes(X)
        return self.beside(codes, self.whole(codes), codes)

    def beside(self, codes: Codes, whole: bool, otherwise: Codes) -> Codes:
        """Where entries fall beside their parent's, and where not `otherwise`; `whole` if all are there and known."""
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
        """Rows in which a column is there whose parent is missing or was never seen."""
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
            laws = table[:, start:stop].reshape(k, 1 + above, size + 1)[:, :, :size]
            alone.append(laws.sum(axis=1))
            pairs.append(laws[:, 1:].reshape(k, above * size))
        return {"is": np.hstack(alone), "pair": np.hstack(pairs)}


# ---------------------------------------------------------------------- what several of them need


def has_squares(sums: Sums) -> bool:
    """Whether a block has second moments."""
    return XX.name in sums or XY.name in sums


def second_moments(sums: Sums) -> Floats:
    """Σ(x − pivot)² by class and column, of a block that has second moments."""
    measure: type[Squares] = XX if XX.name in sums else XY
    return measure.second_moments(sums[measure.name])


def gross(sums: Sums) -> Floats:
    """The squares that were ever in a block's second moments: rounding is a share of them."""
    return second_moments(sums) + sums.get(Lost.name, 0.0)


def column_totals(cells: Floats, columns: Columns) -> Floats:
    """Counts by category, summed over each column's categories: (k, d)."""
    offsets = columns.offsets
    filled = np.flatnonzero(np.diff(offsets) > 0)
    out = np.zeros((len(cells), columns.size))
    if len(filled):
        out[:, filled] = np.add.reduceat(cells, offsets[filled], axis=1)
    return out


def remainder(was: Floats, left: Floats, what: str, names: list[str]) -> Floats:
    """What is left, rounding residue being nothing; less than nothing was never learned."""
    scale = np.broadcast_to(was, left.shape)
    left = np.where(np.abs(left) <= np.abs(scale) * RESIDUE, 0.0, left)
    if (left < 0).any():
        at = np.argwhere(left < 0)[0]
        raise ForgetError(
            f"cannot forget more {what.format(repr(names[int(at[-1])]))} than the model has learned: "
            f"it has {scale[tuple(at)]:g}, and {scale[tuple(at)] - left[tuple(at)]:g} were to go"
        )
    return left


def is_scatter(one: Array, x: Array, xy: Array) -> bool:
    """Whether n, Σt and Σttᵀ can come from rows: no direction has a negative spread, but for rounding."""
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
            np.linalg.cholesky(central)  # there is one where every direction has some spread; much quicker than those
        except np.linalg.LinAlgError:
            return False
    return True


def is_symmetric(array: Array) -> bool:
    """Whether (k, d, d) sums are the same in both orders of columns; column by column, for they may be large."""
    return all(np.allclose(array[:, j], array[:, :, j], rtol=1e-9, atol=0.0) for j in range(array.shape[1]))
