"""T(x) as data: what to add up. Engines interpret it (kernels here, SUM and COUNT in a database).

Each measure is defined by `of`, plain NumPy on a dense column block; compiled kernels are held to it.
A missing entry (NaN) adds nothing to any sum; where columns depend on each other (`whole`), a row with a missing entry
adds nothing at all, and its expectation is found by EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.schema import Columns


def incomplete(X: Array) -> Array:
    """Which rows have a missing entry."""
    return np.asarray(np.isnan(X).any(axis=1)) if X.dtype.kind == "f" else np.zeros(len(X), dtype=bool)


@dataclass(frozen=True, slots=True)
class One:
    """1 for every entry that is there, or for every row that is whole."""

    whole: bool = False
    name: ClassVar[str] = "one"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        return np.where(incomplete(X)[:, None] if self.whole else np.isnan(X), 0.0, 1.0)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        """What one class's sum may look like; where no entry is missing, one number does for all columns."""
        return ((1,),) if self.whole else ((1,), (columns.size,))


@dataclass(frozen=True, slots=True)
class X:
    """x − pivot."""

    whole: bool = False
    name: ClassVar[str] = "x"

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(incomplete(X)[:, None] if self.whole else np.isnan(X), 0.0, X - pivot)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size,),)


@dataclass(frozen=True, slots=True)
class XX:
    """(x − pivot)²."""

    name: ClassVar[str] = "xx"

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(np.isnan(X), 0.0, (X - pivot) ** 2)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size,),)


@dataclass(frozen=True, slots=True)
class XY:
    """(x − pivot)^a (x − pivot)^bᵀ, every pair of columns: the scatter, and the higher moments that shrinkage needs."""

    powers: tuple[int, int] = (1, 1)

    @property
    def name(self) -> str:
        return {(1, 1): "xy", (2, 1): "xxy", (2, 2): "xxyy"}[self.powers]

    def of(self, X: Array, pivot: Array) -> Floats:
        t = np.where(incomplete(X)[:, None], 0.0, X - pivot)
        a, b = self.powers
        return np.asarray(t[:, :, None] ** a * t[:, None, :] ** b)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size, columns.size),)


@dataclass(frozen=True, slots=True)
class Above:
    """1[x > threshold]; None leaves x as it is, for data that is 0 and 1 already."""

    threshold: float | None = 0.0
    name: ClassVar[str] = "x"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        value = X if self.threshold is None else self.threshold < X
        return np.where(np.isnan(X), 0.0, value)

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((columns.size,),)


@dataclass(frozen=True, slots=True)
class Is:
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

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:  # noqa: ARG002 - one signature for every measure
        return ((self.offsets[-1],),)


@dataclass(frozen=True, slots=True)
class Pairs:
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

    def shapes(self, columns: Columns) -> tuple[tuple[int, ...], ...]:
        return ((int(columns.pair_offsets[-1]),),)

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
        found = np.zeros(len(codes), dtype=bool)
        for j, parent in enumerate(self.parents):
            if parent >= 0:
                found |= (codes[:, j] >= 0) & ((codes[:, parent] < 0) | (codes[:, parent] == self.sizes[parent]))
        return np.flatnonzero(found)

    def sums(self, table: Floats) -> dict[str, Floats]:
        """Counts by category and by pair, from counts by place, (k, places)."""
        alone, pairs, k = [table[:, :0]], [table[:, :0]], len(table)
        for (start, stop), size in zip(pairwise(self.offsets), self.sizes, strict=True):
            above = (stop - start) // (size + 1) - 1
            laws = table[:, start:stop].reshape(k, 1 + above, size + 1)[:, :, :size]
            alone.append(laws.sum(axis=1))
            pairs.append(laws[:, 1:].reshape(k, above * size))
        return {"is": np.hstack(alone), "pair": np.hstack(pairs)}


Measure = One | X | XX | XY | Above | Is | Pairs
