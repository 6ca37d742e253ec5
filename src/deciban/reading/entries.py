"""Rows as the blocks of a joint distribution read them: for each block a matrix, and the columns of these rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._typing import Array, Data
from deciban.schema import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Rows to learn from or to score; columns have the names, categories and pivots of these rows."""

    data: Data
    columns: tuple[Columns, ...]

    def __len__(self) -> int:
        return int(self.data[0].shape[0])

    def floats(self) -> Entries:
        """The same with integers as floats if moments are kept about a pivot, as EM needs them."""
        if not any(columns.pivot is not None and X.dtype.kind != "f" for X, columns in self._pairs()):
            return self
        data = [
            X if columns.pivot is None or X.dtype.kind == "f" else X.astype(np.float64) for X, columns in self._pairs()
        ]
        return Entries(data, self.columns)

    def _pairs(self) -> Iterable[tuple[Any, Columns]]:
        return zip(self.data, self.columns, strict=True)

    def take(self, rows: Array | slice) -> Entries:
        """Some of the rows."""
        return Entries([X[rows] for X in self.data], self.columns)
