"""T(x) as data: what to add up. Engines interpret it (kernels here, SUM and COUNT in a database).

Each measure is defined by `of`, plain NumPy on a dense column block; compiled kernels are held to it.
A missing entry (NaN) adds nothing to any sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deciban._typing import Array, Floats


@dataclass(frozen=True, slots=True)
class One:
    """1 for every entry that is there."""

    name: ClassVar[str] = "one"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        return np.where(np.isnan(X), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class X:
    """x − pivot."""

    name: ClassVar[str] = "x"

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(np.isnan(X), 0.0, X - pivot)


@dataclass(frozen=True, slots=True)
class XX:
    """(x − pivot)²."""

    name: ClassVar[str] = "xx"

    def of(self, X: Array, pivot: Array) -> Floats:
        return np.where(np.isnan(X), 0.0, (X - pivot) ** 2)


@dataclass(frozen=True, slots=True)
class Above:
    """1[x > threshold]; None leaves x as it is, for data that is 0 and 1 already."""

    threshold: float | None = 0.0
    name: ClassVar[str] = "x"

    def of(self, X: Array, pivot: Array) -> Floats:  # noqa: ARG002 - one signature for every measure
        value = X if self.threshold is None else self.threshold < X
        return np.where(np.isnan(X), 0.0, value)


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


Measure = One | X | XX | Above | Is
