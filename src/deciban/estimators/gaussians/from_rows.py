"""scikit-learn's `covariance_estimator`: it sees rows once, and its word stands."""

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

LOOKED = "covariance_estimator looked at rows, not at sums"


def check(estimator: Any, no_estimator: str) -> None:
    """What goes with which solver."""
    if estimator.solver == "svd":
        if estimator.shrinkage is not None:
            raise NotImplementedError("shrinkage not supported with 'svd' solver. Take another solver.")
        if estimator.covariance_estimator is not None:
            raise ValueError(f"{no_estimator}. Try solver='eigen' instead.")
    if estimator.covariance_estimator is not None and estimator.shrinkage is not None:
        raise ValueError("covariance_estimator and shrinkage parameters are not None. Only one of the two can be set.")


def covariances(estimator: Any, X: Any, labels: Labels, weight: Floats | None) -> tuple[Floats, Floats]:
    """What it says of every class, (k, d, d), and how many rows each has."""
    if weight is not None or labels.any_missing or labels.soft is not None or has_missing(X):
        raise DecibanError(
            "covariance_estimator takes plain rows: no weights, missing labels or missing entries; use shrinkage "
            "instead"
        )
    k = len(labels.classes)
    each = np.array([ask(estimator, X[labels.codes == c]) for c in range(k)])
    return each, np.bincount(labels.codes, minlength=k).astype(float)


def ask(estimator: Any, rows: Array) -> Floats:
    """What it says of some rows."""
    try:
        judge = clone(estimator.covariance_estimator)
    except TypeError:  # anything with fit and covariance_ does
        judge = estimator.covariance_estimator
    judge.fit(rows)
    if not hasattr(judge, "covariance_"):
        raise ValueError(f"{type(judge).__name__} does not have a covariance_ attribute")
    found = np.asarray(judge.covariance_, dtype=np.float64)
    if found.shape != (rows.shape[1], rows.shape[1]):
        raise ValueError(f"covariance_ of {type(judge).__name__} has shape {found.shape}")
    return found


def nested(matrices: Floats) -> tuple[Any, ...]:
    """Covariances as a family's settings have them."""
    return tuple(tuple(map(tuple, m)) for m in matrices.tolist())


def joint(estimator: Any, covariance: str, unit: float = 0.0) -> Joint:
    """Gaussians over all columns, with covariances from the sums, or as the `covariance_estimator` has them."""
    family = MultivariateGaussian(
        covariance=covariance,
        sphere=0.0 if estimator.shrinkage is None else estimator.shrinkage,
        unit=unit,
        given=None if estimator.covariance_estimator is None else getattr(estimator, "given_", None),
    )
    return Joint(estimator._block(family), normalised_priors(estimator.priors))


def check_savable(self: Any) -> None:
    """As of any other; and what is code is in no file."""
    if self.covariance_estimator is not None:
        raise ValueError("a covariance_estimator is code, which files do not hold: use shrinkage instead")
    Estimator._check_savable(self)
