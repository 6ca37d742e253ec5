"""What Gaussian discriminants share: one family over all columns, means and covariances, scores, and what is said where
a covariance is singular."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.errors import SingularWarning, warn
from deciban.estimators.gaussians.real import RealClassifier
from deciban.families import Family
from deciban.families.gaussian import LOG_2PI
from deciban.families.multivariate_gaussian import MultivariateGaussian, MultivariateParams
from deciban.families.roots import Repairs
from deciban.joint import Model
from deciban.show import plain

# Where "loo" looks for how far covariances move towards the shared one, and towards a sphere.
TIES = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0)
SPHERES = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5)


def as_pair(shrinkage: Any) -> tuple[float, float | str]:
    """(tie, sphere) as a parameter says; zero where leave-one-out is to choose."""
    if shrinkage is None or (isinstance(shrinkage, str) and shrinkage == "loo"):
        return 0.0, 0.0
    if isinstance(shrinkage, str):
        return 0.0, shrinkage
    if isinstance(shrinkage, Real):
        return 0.0, float(shrinkage)
    pair = np.asarray(shrinkage, dtype=np.float64)
    if pair.shape != (2,) or not ((pair >= 0) & (pair <= 1)).all():
        raise ValueError(f"shrinkage must be a number or a pair (tie, sphere) in [0, 1], got {shrinkage!r}")
    return float(pair[0]), float(pair[1])


def chosen_from(asked: MultivariateGaussian, found: Family) -> bool:
    """Whether a law is one that leave-one-out can have chosen where this one was asked for."""
    if not isinstance(found, MultivariateGaussian):
        return False
    covariance = found.covariance if asked.dense else asked.covariance
    return found == replace(asked, covariance=covariance, tie=found.tie, sphere=found.sphere, scale=found.scale)


def between(one: Model, two: Model) -> Family:
    """The law of the sum of two models: where leave-one-out chose for each, between them by how much each has seen."""
    families = [model.joint.blocks[0].family for model in (one, two)]
    shares = [float(model.stats.weight.sum()) for model in (one, two)]
    family = max(zip(shares, map(repr, families), families, strict=True), key=lambda part: part[:2])[2]
    a, b = families
    if a == b or not (isinstance(a, MultivariateGaussian) and isinstance(b, MultivariateGaussian)):
        return family
    if a.covariance != b.covariance or not any(shares) or isinstance(a.sphere, str) or isinstance(b.sphere, str):
        return family
    assert isinstance(family, MultivariateGaussian)
    tie, sphere = np.average([[a.tie, a.sphere], [b.tie, b.sphere]], axis=0, weights=shares)
    return replace(family, tie=float(tie), sphere=float(sphere))  # the larger side's units are kept


class Discriminant(RealClassifier):
    """A classifier whose rows are Gaussian given the class, over all columns at once."""

    alpha: Any = 0.0

    def _check_alpha(self) -> float | Array:
        return float(self.alpha)

    def _class_prior(self) -> str | Floats:
        """As given, made to sum to one."""
        if self.priors is None or isinstance(self.priors, str):
            return str(self.priors or "empirical")
        prior = np.asarray(self.priors, dtype=np.float64)
        return np.asarray(prior / prior.sum())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.priors is None or isinstance(self.priors, str):
            return
        prior = np.asarray(self.priors, dtype=np.float64)
        if prior.ndim != 1 or not np.isfinite(prior).all():
            raise ValueError("priors must be finite numbers, one a class")
        if (prior < 0).any():
            raise ValueError("priors must be non-negative")
        if not prior.sum() > 0:
            raise ValueError("priors must not all be zero")
        if not np.isclose(prior.sum(), 1.0, atol=1e-5):
            warn("The priors do not sum to 1. Normalizing such that it sums to one.", UserWarning)

    def _check_fitted(self, model: Model) -> None:
        self._warn_about(model)

    def _warn_about(self, model: Model) -> None:
        if len(model.classes) and not model.cached("told", dict):
            model.cached("told", dict)["told"] = True
            said = repairs_in_words(model.params[0].repairs, model)
            if said:
                warn("; ".join(said) + ". Shrinkage, a prior or more rows would do without this.", SingularWarning)

    @property
    def _params(self) -> MultivariateParams:
        self._check_classes()
        found = self.model_.params[0]
        assert isinstance(found, MultivariateParams)
        return found

    def decision_function(self, X: Any) -> Floats:
        """log p(x, y) up to a constant, (n, k); with two classes the log-odds of the second, (n,)."""
        scores = self._apply(X, "log_joint")
        if len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return np.asarray(scores + 0.5 * self.n_features_in_ * LOG_2PI)

    @property
    def means_(self) -> Array:
        """Class means, (k, d)."""
        check_is_fitted(self)
        return self._cast(self._params.mean)

    @property
    def priors_(self) -> Array:
        """P(y)."""
        return self.class_prior_

    @property
    def covariances_(self) -> Array:
        """Covariances of the classes, (k, d, d), as used: shrunk, and repaired where they were singular."""
        params = self._params
        k, d = params.mean.shape
        if params.roots is None:
            return self._cast(params.covariance[:, :, None] * np.eye(d))
        return self._cast(np.broadcast_to(params.covariance, (k, d, d)) + 0.0)


def repairs_in_words(repairs: Repairs, model: Model) -> list[str]:
    """What was done about singular covariances, for a person."""
    if not repairs:
        return []
    said = []
    constant = [repr(model.columns().name(j)) for j in repairs.constant]
    if constant:
        never = "never varies and says nothing" if len(constant) == 1 else "never vary and say nothing"
        said.append(f"{shortened(constant)} {never}")
    spare = repairs.lost - len(constant)
    if spare > 0:
        said.append(f"{spare} direction(s) in which no class varies left out (columns that repeat others, or few rows)")
    if repairs.certain:
        said.append(
            f"in {repairs.certain} direction(s) no class varies but classes differ: told apart for certain there"
        )
    if repairs.helped:
        names = shortened([repr(plain(model.classes[c])) for c in repairs.helped])
        said.append(
            f"class {names} does not vary in every direction (too few rows, or columns that repeat others), so it took "
            "in one row's worth of the covariance common to all classes"
        )
    return said


def shortened(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
