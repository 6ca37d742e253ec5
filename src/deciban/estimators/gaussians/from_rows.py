"""scikit-learn's `covariance_estimator`, which sees the rows once; its estimates are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import normalised_priors
from deciban.families import MultivariateGaussian
from deciban.joint import Joint
from deciban.matrix import has_missing
from deciban.reading.labels import Labels

FROZEN_REASON = "covariance_estimator uses rows, not sums"


def check(estimator: Any, no_estimator: str) -> None:
    """Raise an error for parameters that do not fit the solver."""
    if estimator.solver == "svd":
        if estimator.shrinkage is not None:
            raise NotImplementedError("shrinkage not supported with 'svd' solver. Take another solver.")
        if estimator.covariance_estimator is not None:
            raise ValueError(f"{no_estimator}. Try solver='eigen' instead.")
    if estimator.covariance_estimator is not None and estimator.shrinkage is not None:
        raise ValueError("covariance_estimator and shrinkage parameters are not None. Only one of the two can be set.")


def covariances(estimator: Any, X: Any, labels: Labels, weight: Floats | None) -> tuple[Floats, Floats]:
    """Its covariance of every class, (k, d, d), and the number of rows of each."""
    if weight is not None or labels.any_missing or labels.soft is not None or has_missing(X):
        raise DecibanError(
            "covariance_estimator cannot be combined with weights, missing labels or missing values: use shrinkage "
            "instead"
        )
    k = len(labels.classes)
    by_class = np.array([estimated_covariance(estimator, X[labels.codes == c]) for c in range(k)])
    return by_class, np.bincount(labels.codes, minlength=k).astype(float)


def estimated_covariance(estimator: Any, rows: Array) -> Floats:
    """Its covariance of some rows."""
    try:
        fitted = clone(estimator.covariance_estimator)
    except TypeError:  # anything with fit and covariance_ is accepted
        fitted = estimator.covariance_estimator
    fitted.fit(rows)
    if not hasattr(fitted, "covariance_"):
        raise ValueError(f"{type(fitted).__name__} does not have a covariance_ attribute")
    covariance = np.asarray(fitted.covariance_, dtype=np.float64)
    if covariance.shape != (rows.shape[1], rows.shape[1]):
        raise ValueError(f"covariance_ of {type(fitted).__name__} has shape {covariance.shape}")
    return covariance


def nested(matrices: Floats) -> tuple[Any, ...]:
    """Covariances as nested tuples, for a family's settings."""
    return tuple(tuple(map(tuple, m)) for m in matrices.tolist())


def joint(estimator: Any, covariance: str, unit: float = 0.0) -> Joint:
    """Gaussians over all columns, with covariances from the sums, or from the `covariance_estimator`."""
    family = MultivariateGaussian(
        covariance=covariance,
        sphere=0.0 if estimator.shrinkage is None else estimator.shrinkage,
        unit=unit,
        given=None if estimator.covariance_estimator is None else getattr(estimator, "given_", None),
    )
    return Joint(estimator._block(family), normalised_priors(estimator.priors))


def check_savable(self: Any) -> None:
    """The usual checks; and a `covariance_estimator` cannot be saved, since it is code."""
    if self.covariance_estimator is not None:
        raise ValueError("a covariance_estimator is code, which model files do not contain: use shrinkage instead")
    Estimator._check_savable(self)
