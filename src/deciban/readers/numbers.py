"""Rows of real numbers, and the pivots their moments are kept about."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Matrix
from deciban.readers.base import Reader
from deciban.reading.entries import Entries
from deciban.reading.labels import Labels
from deciban.schema import Columns

MIN_LEADING_ROWS = 16  # rows that are enough for that
LEADING_ROWS = 64  # rows of a class whose mean is its pivot, which need only be close to the centre
MAX_SPARSE_SHARE = 0.25  # share of stored entries up to which sparse rows stay sparse


@dataclass(frozen=True, slots=True)
class NumberReader(Reader):
    """Real numbers. `dense`: columns depend on each other, so sparse rows become dense."""

    names: tuple[str, ...] | None
    dense: bool

    def learn(self, X: Any, known: Any, labels: Labels, weight: Floats | None) -> Entries:
        del known
        X = self.plain(X)
        return Entries([X], (Columns(X.shape[1], self.names, pivot=pivots(X, labels, weight)),))

    def score(self, X: Any, model: Any) -> Entries:
        return Entries([self.floats(X)], model.schema.blocks)

    def native(self, rows: Data, model: Any) -> Array:
        del model
        return np.asarray(rows[0])

    def floats(self, X: Matrix) -> Matrix:
        """Rows as floats."""
        X = self.plain(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)

    def plain(self, X: Matrix) -> Matrix:
        """Sparse rows stay sparse if most entries are zero; otherwise dense rows about a pivot keep more digits."""
        if not issparse(X):
            return X
        make_dense = self.dense or X.nnz > MAX_SPARSE_SHARE * X.shape[0] * X.shape[1]
        return X.toarray() if make_dense else X.tocsr()


def pivots(X: Matrix, labels: Labels, weight: Floats | None) -> Floats:
    """A pivot per class and column: the mean of the class's leading values, or of all leading values."""
    k, d = len(labels.classes), X.shape[1]
    if issparse(X) or X.shape[0] == 0:
        return np.zeros((k, d))
    leading = np.arange(min(LEADING_ROWS, len(X))) if weight is None else np.flatnonzero(weight)[:LEADING_ROWS]
    overall = leading_mean(X, leading, np.zeros(d))
    pivot = np.tile(overall, (k, 1))
    # Most classes occur early, so all rows need not be searched.
    early = [] if labels.soft is not None else first_rows(labels.codes[: max(64, 2 * k) * LEADING_ROWS], k)
    for c in range(k):
        if labels.soft is not None:
            rows = np.argsort(-labels.soft[:, c] * (1.0 if weight is None else weight), kind="stable")
        else:
            rows = early[c] if len(early[c]) >= MIN_LEADING_ROWS else np.flatnonzero(labels.codes == c)
        if weight is not None:
            rows = rows[weight[rows] > 0]
        if len(rows):
            pivot[c] = leading_mean(X, rows, overall)
    return pivot


def first_rows(codes: Array, k: int) -> list[Array]:
    """The first rows of each class, those of all classes found at once."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(k + 1))
    return [order[start:stop] for start, stop in pairwise(ends)]


def leading_mean(X: Array, rows: Array, otherwise: Floats) -> Floats:
    """The mean of each column's first values among these rows, from differences, so that large values keep digits."""
    values = X[rows[:LEADING_ROWS]].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        if len(values) and np.isfinite(mean := values[0] + (values - values[0]).mean(axis=0)).all():
            return np.asarray(mean)
    is_finite = np.isfinite(values)
    count = is_finite.sum(axis=0)
    first = values[np.argmax(is_finite, axis=0), np.arange(values.shape[1])]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = first + np.where(is_finite, values - first, 0.0).sum(axis=0) / np.maximum(count, 1)
    mean = np.where((count > 0) & np.isfinite(mean), mean, otherwise)
    if len(rows) > LEADING_ROWS:
        for j in np.flatnonzero(count == 0):  # a column that starts with missing values: its first other one
            present = np.flatnonzero(np.isfinite(X[rows, j]))
            if len(present):
                mean[j] = X[rows[present[0]], j]
    return mean
