"""Rows of real numbers: how they are read, and the pivots their moments are kept about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Data, Floats, Matrix
from deciban.estimators.base import GenerativeClassifier
from deciban.reading.labels import Labels
from deciban.schema import Columns

LEADING = 64  # rows of a class whose mean is its pivot: near the centre is near enough


class RealClassifier(GenerativeClassifier):
    """What classifiers of real numbers share: `priors`, pivots, and attributes of the data's own type."""

    priors: Any
    dtype_: str

    _prior_parameter: ClassVar[str] = "priors"

    def _class_prior(self) -> str | Floats:
        return "empirical" if self.priors is None else np.asarray(self.priors, dtype=np.float64)

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        if columns is None:
            self.dtype_ = "float32" if X.dtype == np.float32 else "float64"
        X = self._plain(X)
        return X, Columns(X.shape[1], self._names(), pivot=pivots(X, labels, weight))

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        del columns
        X = self._plain(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)

    def _validate(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        X = super()._validate(X, reset=reset, least=least)
        return self._plain(X) if sp.issparse(X) else X

    def _first_shares(
        self, data: Data, k: int, weight: Floats | None
    ) -> Callable[[np.random.RandomState], Floats] | None:
        """Clusters of real numbers start from k-means."""
        X = data[0]
        if sp.issparse(X):
            return None
        X = filled_with_means(X - first_values(X))
        spread = X.std(axis=0, dtype=np.float64)
        scaled = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)

        def draw(rng: np.random.RandomState) -> Floats:
            labels = KMeans(n_clusters=k, n_init=1, random_state=rng).fit(scaled, sample_weight=weight).labels_
            return np.asarray(np.eye(k)[labels])

        return draw

    def _plain(self, X: Matrix) -> Matrix:
        """Sparse rows stay so only where columns are independent, which is what a family of single columns supposes."""
        if self._family().whole_rows and sp.issparse(X):
            return X.toarray()
        return sparse_or_dense(X)

    def _cast(self, values: Floats) -> Array:
        """Attributes have the type of the data they were learned from, as in scikit-learn."""
        check_is_fitted(self)
        return values.astype(self.dtype_)

    @property
    def class_count_(self) -> Array:
        check_is_fitted(self)
        return self._cast(self.model_.stats.weight)

    @property
    def class_prior_(self) -> Array:
        """P(y)."""
        check_is_fitted(self)
        return self._cast(np.exp(self.model_.log_prior))


def sparse_or_dense(X: Matrix) -> Matrix:
    """Sparse rows stay so only if most entries are zero: otherwise pivots keep more digits than sums about zero."""
    if not sp.issparse(X):
        return X
    return X.toarray() if X.nnz > 0.25 * X.shape[0] * X.shape[1] else X.tocsr()


def first_values(X: Array) -> Array:
    """Each column's first value that is there, 0 where there is none. Differences from it are exact, and the same
    wherever all values are moved by a constant: starts that are found on them do not hang on where zero is."""
    there = np.isfinite(X)
    first = X[np.argmax(there, axis=0), np.arange(X.shape[1])]
    return np.asarray(np.where(there.any(axis=0), first, X.dtype.type(0)))


def filled_with_means(X: Array) -> Array:
    """Missing entries as their column's mean, or 0 where a column has none: good enough for a start of EM."""
    gone = np.isnan(X)
    if not gone.any():
        return X
    return np.where(gone, np.nanmean(np.where(gone.all(axis=0), 0.0, X), axis=0), X)


def as_guess(value: Any, name: str, d: int) -> float | tuple[float, ...] | None:
    if value is None:
        return None
    array = np.asarray(value, dtype=np.float64)
    if array.ndim and array.shape != (d,):
        raise ValueError(f"{name} should have one value a feature, shape ({d},), got {array.shape}")
    if not np.isfinite(array).all() or (name == "prior_var" and (array <= 0).any()):
        raise ValueError(f"{name} must be finite" + (" and positive" if name == "prior_var" else ""))
    return tuple(array.tolist()) if array.ndim else float(array)


def pivots(X: Matrix, labels: Labels, weight: Floats | None) -> Floats:
    """A pivot per class and column: the mean of the class's leading values, or of all leading values."""
    k, d = len(labels.classes), X.shape[1]
    if sp.issparse(X) or X.shape[0] == 0:
        return np.zeros((k, d))
    some = np.arange(min(LEADING, len(X))) if weight is None else np.flatnonzero(weight)[:LEADING]
    overall = leading_mean(X, some, np.zeros(d))
    pivot = np.tile(overall, (k, 1))
    for c in range(k):
        if labels.soft is not None:
            rows = np.argsort(-labels.soft[:, c] * (1.0 if weight is None else weight), kind="stable")
        else:
            head = slice(0, 64 * LEADING)  # most classes show up early: a look at the head spares one at all rows
            rows = np.flatnonzero(labels.codes[head] == c)
            if len(rows) < LEADING:
                rows = np.flatnonzero(labels.codes == c)
        if weight is not None:
            rows = rows[weight[rows] > 0]
        if len(rows):
            pivot[c] = leading_mean(X, rows, overall)
    return pivot


def leading_mean(X: Array, rows: Array, otherwise: Floats) -> Floats:
    """The mean of each column's first values among these rows, taken as differences so that far values keep digits."""
    values = X[rows[:LEADING]].astype(np.float64)
    good = np.isfinite(values)
    count = good.sum(axis=0)
    first = values[np.argmax(good, axis=0), np.arange(values.shape[1])]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = first + np.where(good, values - first, 0.0).sum(axis=0) / np.maximum(count, 1)
    mean = np.where((count > 0) & np.isfinite(mean), mean, otherwise)
    if len(rows) > LEADING:
        for j in np.flatnonzero(count == 0):  # a column that starts with missing values: its first that is there
            there = np.flatnonzero(np.isfinite(X[rows, j]))
            if len(there):
                mean[j] = X[rows[there[0]], j]
    return mean
