"""The nearest centroid: Gaussians of unit variance from the same sums, or medians (S10)."""

from __future__ import annotations

import numpy as np

from deciban import score
from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Matrix
from deciban.errors import DecibanError
from deciban.families.multivariate_gaussian import MultivariateGaussian
from deciban.joint import Block, Joint, Model
from deciban.matrix import has_missing

EQUAL_PRIOR_NATS = 1e-12  # log priors that differ by no more are equal up to rounding


def by_distance(model: Model) -> Model:
    """The same centroids with unit variance: the model of the Euclidean distance, from the same sums."""
    family = model.joint.blocks[0].family
    assert isinstance(family, MultivariateGaussian)
    unit_variance = MultivariateGaussian(covariance="unit", unbiased=True, threshold=family.threshold)
    joint = Joint((Block(unit_variance, 0.0),), model.joint.class_prior)
    nearest_model = model.cached("round", lambda: Model(joint, model.stats))
    assert isinstance(nearest_model, Model)
    return nearest_model


def nearest(model: Model, data: Data, medians: Floats | None, n_jobs: int | None) -> Array:
    """The class of the nearest centroid, or with unequal priors the most probable; (n,) codes."""
    if medians is not None:
        rows = dense_rows(data[0])
        return np.array([int(np.abs(row - medians).sum(axis=1).argmin()) for row in rows], dtype=np.intp)
    equal = bool(np.ptp(model.log_prior) <= EQUAL_PRIOR_NATS)
    return score.apply(data, by_distance(model) if equal else model, "best", n_jobs)


def dense_rows(X: Matrix) -> Array:
    """Rows as a dense array; an error if an entry is missing."""
    if has_missing(X):
        raise DecibanError(
            "metric='manhattan' needs complete rows, and some have missing values: leave them out, or impute them"
        )
    return np.asarray(X.toarray() if issparse(X) else X)
