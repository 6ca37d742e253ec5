"""Shared by several estimators: mostly attributes with scikit-learn's names, written once and assigned."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.errors import SingularWarning, warn
from deciban.families.gaussian import LOG_2PI
from deciban.families.multivariate_gaussian import MultivariateParams
from deciban.families.roots import Repairs
from deciban.joint import Model
from deciban.readers.counts import CountReader
from deciban.readers.numbers import NumberReader
from deciban.show import plain

MAX_NAMES = 5  # columns or classes named in a warning


def _class_log_prior(self: Any) -> Floats:
    """log P(y)."""
    check_is_fitted(self)
    return np.array(self.model_.log_prior)


def _class_prior(self: Any) -> Array:
    """P(y)."""
    check_is_fitted(self)
    return as_learned(self, np.exp(self.model_.log_prior))


def _feature_count(self: Any) -> Floats:
    """How often each feature was counted in each class, (k, d)."""
    check_is_fitted(self)
    return np.array(self.model_.stats.sums[0]["x"])


def _feature_log_prob(self: Any) -> Floats:
    """log θ, (k, d)."""
    check_is_fitted(self)
    return np.array(self.model_.params[0].log_theta)


def _means(self: Any) -> Array:
    """Class means, (k, d)."""
    return as_learned(self, gaussian_params(self).mean)


def _covariances(self: Any) -> Array:
    """Covariances of the classes, (k, d, d), as used: shrunk, and repaired if singular."""
    params = gaussian_params(self)
    k, d = params.mean.shape
    if params.roots is None:
        return as_learned(self, params.covariance[:, :, None] * np.eye(d))
    return as_learned(self, np.broadcast_to(params.covariance, (k, d, d)) + 0.0)


class_log_prior = property(_class_log_prior)
class_prior = property(_class_prior)
feature_count = property(_feature_count)
feature_log_prob = property(_feature_log_prob)
means = property(_means)
covariances = property(_covariances)


def reader_of_counts(self: Any) -> CountReader:
    """Rows of counts, none of them negative."""
    return CountReader(self._names(), type(self).__name__, positive=True)


def reader_of_dense_numbers(self: Any) -> NumberReader:
    """Rows of real numbers, whose columns depend on each other."""
    return NumberReader(self._names(), dense=True)


def gaussian_params(estimator: Any) -> MultivariateParams:
    """The parameters of a Gaussian over all columns."""
    estimator._check_classes()
    params = estimator.model_.params[0]
    assert isinstance(params, MultivariateParams)
    return params


def as_learned(estimator: Any, values: Floats) -> Array:
    """Attributes of models of real numbers have the type of the data they were learned from, as in scikit-learn."""
    check_is_fitted(estimator)
    kind = vars(estimator).get("dtype_")
    return np.array(values) if kind is None else np.asarray(values).astype(kind)


def decision_function(self: Any, X: Any) -> Floats:
    """log p(x, y) up to a constant, (n, k); with two classes the log-odds of the second, (n,)."""
    scores = self._scores(X, "log_joint")
    if len(self.classes_) == 2:
        return np.asarray(scores[:, 1] - scores[:, 0])
    return np.asarray(scores + 0.5 * self.n_features_in_ * LOG_2PI)


def warn_of_repairs(model: Model, blocks: list[tuple[Repairs, Model]], advice: str) -> None:
    """Warn, once per model, about what was done with singular covariances."""
    if len(model.classes) == 0 or model.cached("warned", dict):
        return
    model.cached("warned", dict)["warned"] = True
    notes = [note for repairs, part in blocks for note in repairs_in_words(repairs, part)]
    if notes:
        warn("; ".join(notes) + f". {advice}", SingularWarning)


def warn_of_gaussian(self: Any, model: Any) -> None:
    """The same for a Gaussian over all columns."""
    del self
    if len(model.classes):
        advice = "Shrinkage, a prior or more rows would avoid this."
        warn_of_repairs(model, [(model.params[0].repairs, model)], advice)


def repairs_in_words(repairs: Repairs, model: Model) -> list[str]:
    """What was done about singular covariances, as text."""
    if not repairs:
        return []
    notes = []
    constant = [repr(model.columns().name(j)) for j in repairs.constant]
    if constant:
        message = (
            "is constant and carries no information" if len(constant) == 1 else "are constant and carry no information"
        )
        notes.append(f"{shortened(constant)} {message}")
    redundant = repairs.lost - len(constant)
    if redundant > 0:
        notes.append(
            f"{redundant} direction(s) in which no class varies were left out (duplicate columns, or few rows)"
        )
    if repairs.certain:
        notes.append(
            f"in {repairs.certain} direction(s) no class varies but classes differ: they are separated with "
            f"certainty there"
        )
    if repairs.helped:
        names = shortened([repr(plain(model.classes[c])) for c in repairs.helped])
        notes.append(
            f"class {names} does not vary in every direction (too few rows, or duplicate columns), so it was given "
            f"one row's worth of the covariance common to all classes"
        )
    return notes


def shortened(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
