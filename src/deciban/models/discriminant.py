"""What Gaussian discriminants share: one family over all columns, means and covariances, scores, and what is said where
a covariance is singular."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.errors import SingularWarning, warn
from deciban.families.gaussian import LOG_2PI
from deciban.families.multivariate_gaussian import MultivariateParams
from deciban.joint import Model
from deciban.models.real import RealClassifier
from deciban.show import plain


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

    def _warn_about(self, model: Model) -> None:
        if len(model.classes) == 0:
            return
        repairs, columns = model.params[0].repairs, model.columns()
        said = []
        constant = [repr(columns.name(j)) for j in repairs.constant]
        if constant:
            shown = ", ".join(constant[:5]) + (f" and {len(constant) - 5} more" if len(constant) > 5 else "")
            said.append(
                f"column{'s' if len(constant) > 1 else ''} {shown} never var{'y' if len(constant) > 1 else 'ies'} "
                "and say nothing"
                if len(constant) > 1
                else f"column {shown} never varies and says nothing"
            )
        spare = repairs.lost - len(constant)
        if spare > 0:
            said.append(
                f"{spare} direction{'s' if spare > 1 else ''} in which no class varies (columns that repeat "
                "others, or too few rows) left out"
            )
        if repairs.certain:
            said.append(
                f"{repairs.certain} direction{'s' if repairs.certain > 1 else ''} in which no class varies but "
                "classes differ: there they are told apart for certain"
            )
        if repairs.helped:
            names = ", ".join(repr(plain(model.classes[c])) for c in repairs.helped[:5])
            more = f" and {len(repairs.helped) - 5} more" if len(repairs.helped) > 5 else ""
            said.append(
                f"class {names}{more} does not vary in every direction (too few rows, or columns that repeat "
                "others), so it took in one row's worth of the covariance common to all classes"
            )
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
