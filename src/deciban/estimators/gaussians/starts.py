"""EM for real numbers: its starts, from k-means on standardised columns, and its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from deciban._typing import Array, Floats


def kmeans_shares(
    self: Any, rows: Any, k: int, weight: Floats | None
) -> Callable[[np.random.RandomState], Floats] | None:
    """A function that draws clusters of rows, (n, k); None for sparse rows."""
    del self
    X = rows.data[0]
    if sp.issparse(X):
        return None
    X = filled_with_means(X - first_values(X))
    spread = X.std(axis=0, dtype=np.float64)
    scaled = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)

    def draw(rng: np.random.RandomState) -> Floats:
        labels = KMeans(n_clusters=k, n_init=1, random_state=rng).fit(scaled, sample_weight=weight).labels_
        return np.asarray(np.eye(k)[labels])

    return draw


def first_values(X: Array) -> Array:
    """Each column's first finite value, 0 if there is none. Differences from it are exact, and do not change if a
    constant is added to all values: so starts do not depend on where zero is."""
    is_finite = np.isfinite(X)
    first = X[np.argmax(is_finite, axis=0), np.arange(X.shape[1])]
    return np.asarray(np.where(is_finite.any(axis=0), first, X.dtype.type(0)))


def filled_with_means(X: Array) -> Array:
    """Missing entries replaced by their column's mean, or 0 in an empty column: good enough for a start of EM."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    return np.where(missing, np.nanmean(np.where(missing.all(axis=0), 0.0, X), axis=0), X)


def em_settings(self: Any) -> dict[str, Any]:
    """Settings of a mixture's EM: iterations and tolerance."""
    return {"max_iter": self.max_iter, "tolerance": self.tol}


def seeded(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as a file holds them: a random generator is left out."""
    seed = parameters["random_state"]
    return parameters | {"random_state": seed if isinstance(seed, int | np.integer | None) else None}
