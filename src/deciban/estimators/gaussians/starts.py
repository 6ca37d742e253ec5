"""EM among real numbers: where it starts, k-means on columns of one scale, and what it is told."""

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
    """A way to draw clusters of rows, (n, k) each; sparse rows have none."""
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


def em_settings(self: Any) -> dict[str, Any]:
    """What EM of a mixture is told: how long, and how exactly."""
    return {"max_iter": self.max_iter, "tolerance": self.tol}


def seeded(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as a file holds them: a generator is no number, and is left out."""
    seed = parameters["random_state"]
    return parameters | {"random_state": seed if isinstance(seed, int | np.integer | None) else None}
