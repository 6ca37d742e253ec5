"""T(x) as data: what to add up. Engines interpret it (kernels here, SUM and COUNT in a database).

Each measure is defined by `of`, plain NumPy on a dense column block; compiled kernels are held to it.
A missing entry (NaN) adds nothing to any sum; where columns depend on each other (`whole`), a row with a missing entry
adds nothing at all, and its expectation is found by EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deciban._typing import Array, Floats
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


Measure = One | X | XX | XY | Above | Is
