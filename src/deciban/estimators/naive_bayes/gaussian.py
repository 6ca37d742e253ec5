"""Naive Bayes for real numbers."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array
from deciban.estimators import attributes, parameters
from deciban.estimators.base import Estimator
from deciban.estimators.gaussians.starts import kmeans_shares
from deciban.families import Gaussian
from deciban.joint import Joint
from deciban.readers.numbers import NumberReader


class GaussianNB(Estimator):
    """Naive Bayes for real numbers: x_j given y is Gaussian with its own mean and variance.

    The statistics are n, Σ(x−p) and Σ(x−p)² about a pivot p per class and column, so that means of a billion with
    deviations of one lose no digits, batches add exactly, and rows can be forgotten.

    Parameters
    ----------
    priors : array-like of shape (k,), default=None
        The class prior, if it is known; otherwise n_y/n.
    var_smoothing : float, default=1e-9
        This share of the largest variance of a column (over all rows) is added to every variance.
    alpha : float, "empirical" or "loo", default=0.0
        Prior strength: this many pseudo-rows per class pull means and variances towards `prior_mean` and
        `prior_var`. "empirical" maximises the marginal likelihood, "loo" minimises exact leave-one-out log loss.
    prior_mean, prior_var : float or array-like of shape (d,), default=None
        Mean and variance of the pseudo-rows; None is the column's mean and variance over all classes.
    predictive : bool, default=False
        Integrate means and variances out instead of plugging their estimates in: Student-t.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    classes_, class_count_, class_prior_, theta_, var_, epsilon_ : as in scikit-learn
    alpha_, model_ : as in MultinomialNB

    Examples
    --------
    >>> import numpy as np
    >>> from deciban import GaussianNB
    >>> X = [[1, 2], [1.5, 1], [2, 3], [2.5, np.nan], [6, 7], [7, 5.5], [8, 8], [7.5, 6.5]]
    >>> y = ["low"] * 4 + ["high"] * 4
    >>> model = GaussianNB().fit(X, y)
    >>> model.predict([[3, 3], [np.nan, 6]]).tolist(), model.leave_one_out(X, y).accuracy
    (['low', 'high'], 1.0)
    >>> model.forget(X[:1], y[:1]).class_count_.tolist()
    [4.0, 3.0]
    """

    _prior_parameter: ClassVar[str] = "priors"
    _keeps_dtype: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "priors": ["array-like", None],
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"empirical", "loo"})],
        "prior_mean": [Real, "array-like", None],
        "prior_var": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "predictive": ["boolean"],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        priors: Any = None,
        var_smoothing: float = 1e-9,
        alpha: Any = 0.0,
        prior_mean: Any = None,
        prior_var: Any = None,
        predictive: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.priors = priors
        self.var_smoothing = var_smoothing
        self.alpha = alpha
        self.prior_mean = prior_mean
        self.prior_var = prior_var
        self.predictive = predictive
        self.n_jobs = n_jobs

    _first_shares = kmeans_shares
    class_prior_ = attributes.class_prior

    def _reader(self) -> NumberReader:
        return NumberReader(self._names(), dense=False)

    def _joint(self) -> Joint:
        family = Gaussian(
            smoothing=float(self.var_smoothing),
            predictive=self.predictive,
            guess_mean=parameters.as_guess(self.prior_mean, "prior_mean", self.n_features_in_),
            guess_variance=parameters.as_guess(self.prior_var, "prior_var", self.n_features_in_),
        )
        return Joint(self._block(family), parameters.priors(self.priors))

    @property
    def theta_(self) -> Array:
        """Means, (k, d)."""
        check_is_fitted(self)
        return attributes.as_learned(self, self.model_.params[0].mean)

    @property
    def var_(self) -> Array:
        """Variances, (k, d), with `epsilon_` added."""
        check_is_fitted(self)
        return attributes.as_learned(self, self.model_.params[0].variance)

    @property
    def epsilon_(self) -> float:
        """What was added to every variance."""
        check_is_fitted(self)
        return float(self.model_.params[0].floor)
