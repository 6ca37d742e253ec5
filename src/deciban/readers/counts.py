"""Rows of counts: a feature is a number of times something happened, or whether it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Matrix
from deciban.errors import DecibanError
from deciban.matrix import all_counts, raise_overflow, value_range
from deciban.readers.base import Reader
from deciban.reading.entries import Entries
from deciban.reading.labels import Labels
from deciban.schema import Columns


@dataclass(frozen=True, slots=True)
class CountReader(Reader):
    """Counts, dense or sparse. `positive`: a negative value is an error, which names the model `model_name`."""

    names: tuple[str, ...] | None
    model_name: str
    positive: bool
    binary: bool = False  # values are 0 and 1 already

    def learn(self, X: Any, known: Any, labels: Labels, weight: Floats | None) -> Entries:
        del known, labels, weight
        X = by_rows(X)
        self.check(X)
        return Entries([X], (Columns(X.shape[1], self.names),))

    def score(self, X: Any, model: Any) -> Entries:
        X = by_rows(X)
        self.check(X)
        return Entries([X], model.schema.blocks)

    def native(self, rows: Data, model: Any) -> Array:
        del model
        return np.asarray(rows[0])

    def check(self, X: Matrix) -> None:
        """Counts are neither negative nor infinite."""
        values = X.data if issparse(X) else X
        if self.binary:
            check_binary(values)
        if values.size == 0 or values.dtype.kind in "bu" or all_counts(values):
            return
        low, high = value_range(values)
        if np.isinf(low) or np.isinf(high):
            raise_overflow(X, Columns(X.shape[1], self.names))
        if self.positive and low < 0:
            raise DecibanError(f"Negative values in data passed to {self.model_name} (input X): the least is {low:g}")


def by_rows(X: Matrix) -> Matrix:
    """Sparse rows in row order (CSR); dense ones without gaps, since they are read twice."""
    if issparse(X):
        return X if X.format == "csr" else X.tocsr()
    return X if X.flags.forc else np.ascontiguousarray(X)


def check_binary(values: Array) -> None:
    """Without a threshold, values are 0 and 1 already."""
    if not np.all((values == 0) | (values == 1) | (values != values)):
        other = values[(values != 0) & (values != 1) & (values == values)].flat[0]
        raise DecibanError(f"binarize=None needs X to hold only 0 and 1, but it holds {other:g}: give a threshold")
