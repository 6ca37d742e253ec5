"""Discriminants whose covariances someone else may estimate, from rows instead of sums."""

from __future__ import annotations

import os
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import clone

from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.estimators.gaussians.discriminant import Discriminant
from deciban.families.multivariate_gaussian import Nested
from deciban.matrix import has_missing
from deciban.reading.labels import Labels

Self = TypeVar("Self", bound="EstimatedFromRows")


class EstimatedFromRows(Discriminant):
    """A discriminant with scikit-learn's `covariance_estimator`: it sees rows once, and its word stands."""

    _no_estimator: ClassVar[str] = "covariance_estimator is not supported with solver='svd'"

    solver: str
    shrinkage: Any
    covariance_estimator: Any
    total_: Floats

    def _combine(self, each: Floats, weight: Floats) -> Floats:
        """Covariances of the model from those of the classes."""
        del weight
        return each

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.solver == "svd":
            if self.shrinkage is not None:
                raise NotImplementedError("shrinkage not supported with 'svd' solver. Take another solver.")
            if self.covariance_estimator is not None:
                raise ValueError(f"{self._no_estimator}. Try solver='eigen' instead.")
        if self.covariance_estimator is not None and self.shrinkage is not None:
            raise ValueError(
                "covariance_estimator and shrinkage parameters are not None. Only one of the two can be set."
            )

    def _given(self) -> Nested | None:
        found = getattr(self, "given_", None)
        return found if self.covariance_estimator is not None else None

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> None:
        self.__dict__.pop("given_", None)
        if self.covariance_estimator is None:
            return
        if weight is not None or labels.any_missing or labels.soft is not None or has_missing(X):
            raise DecibanError(
                "covariance_estimator takes plain rows: no weights, missing labels or missing entries; use shrinkage "
                "instead"
            )
        each = np.array([self._ask(X[labels.codes == c]) for c in range(len(labels.classes))])
        counts = np.bincount(labels.codes, minlength=len(labels.classes)).astype(float)
        if self.solver == "eigen":
            self.total_ = self._ask(X)
        self.given_ = tuple(tuple(map(tuple, m)) for m in self._combine(each, counts).tolist())

    def _ask(self, rows: Array) -> Floats:
        """What the estimator says of some rows."""
        try:
            estimator = clone(self.covariance_estimator)
        except TypeError:  # anything with fit and covariance_ does
            estimator = self.covariance_estimator
        estimator.fit(rows)
        if not hasattr(estimator, "covariance_"):
            raise ValueError(f"{type(estimator).__name__} does not have a covariance_ attribute")
        found = np.asarray(estimator.covariance_, dtype=np.float64)
        if found.shape != (rows.shape[1], rows.shape[1]):
            raise ValueError(f"covariance_ of {type(estimator).__name__} has shape {found.shape}")
        return found

    def _guessed(self) -> str:
        if self.covariance_estimator is not None:
            return "covariance_estimator looked at rows, not at sums"
        return super()._guessed()

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows. Any way of batching gives what `fit` on all of them gives."""
        if self.covariance_estimator is not None:
            raise DecibanError(f"{self._guessed()}, and cannot learn in batches: use shrinkage instead")
        super().partial_fit(X, y, classes, sample_weight)
        return self

    def decay(self: Self, half_life: float, rows: float = 1) -> Self:
        """Make what was learned so far count half as much for every `half_life` rows that came since."""
        if self.covariance_estimator is not None:
            raise DecibanError(f"{self._guessed()}, and cannot decay: use shrinkage instead")
        return super().decay(half_life, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file; `deciban.load` reads it."""
        if self.covariance_estimator is not None:
            raise ValueError("a covariance_estimator is code, which files do not hold: use shrinkage instead")
        super().save(path)

    def __add__(self: Self, other: Self) -> Self:
        if self.covariance_estimator is not None:
            raise DecibanError(f"{self._guessed()}, and cannot be merged: use shrinkage instead")
        return super().__add__(other)
