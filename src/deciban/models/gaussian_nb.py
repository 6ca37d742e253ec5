"""Naive Bayes for real numbers."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats, Matrix
from deciban.families import Family, Gaussian
from deciban.models.base import GenerativeClassifier
from deciban.models.labels import Labels
from deciban.schema import Columns

LEADING = 64  # rows of a class whose mean is its pivot: near the centre is near enough


class GaussianNB(GenerativeClassifier):
    """Naive Bayes for real numbers: x_j given y is Gaussian with its own mean and variance.

    Kept are n, Σ(x−p) and Σ(x−p)² about a pivot p per class and column, so that means of a billion with deviations
    of one lose no digits, batches add exactly, and rows can be taken back.

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
        What the pseudo-rows look like; None is the column's mean and variance over all classes.
    predictive : bool, default=False
        Integrate means and variances out instead of plugging their estimates in: Student-t.
    n_jobs : int, default=None
        Threads; None is all cores for data large enough to gain from them.

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

    def _family(self) -> Family:
        return Gaussian(
            smoothing=float(self.var_smoothing),
            predictive=self.predictive,
            guess_mean=as_guess(self.prior_mean, "prior_mean", self.n_features_in_),
            guess_variance=as_guess(self.prior_var, "prior_var", self.n_features_in_),
        )

    def _check_alpha(self) -> float | Array:
        return float(self.alpha)

    def _class_prior(self) -> str | Floats:
        return "empirical" if self.priors is None else np.asarray(self.priors, dtype=np.float64)

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        if columns is None:
            self.dtype_ = "float32" if X.dtype == np.float32 else "float64"
        X = sparse_or_dense(X)
        return X, Columns(X.shape[1], self._names(), pivot=pivots(X, labels, weight))

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        del columns
        X = sparse_or_dense(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)

    def _cast(self, values: Floats) -> Array:
        """Attributes have the type of the data they were learned from, as in scikit-learn."""
        check_is_fitted(self)
        return values.astype(self.dtype_)

    @property
    def class_count_(self) -> Array:
        check_is_fitted(self)
        return self._cast(self.model_.stats.weight)

    @property
    def class_prior_(self) -> Array:
        """P(y)."""
        check_is_fitted(self)
        return self._cast(np.exp(self.model_.log_prior))

    @property
    def theta_(self) -> Array:
        """Means, (k, d)."""
        check_is_fitted(self)
        return self._cast(self.model_.params[0].mean)

    @property
    def var_(self) -> Array:
        """Variances, (k, d), with `epsilon_` added."""
        check_is_fitted(self)
        return self._cast(self.model_.params[0].variance)

    @property
    def epsilon_(self) -> float:
        """What was added to every variance."""
        check_is_fitted(self)
        return float(self.model_.params[0].floor)


def sparse_or_dense(X: Matrix) -> Matrix:
    """Sparse rows stay so only if most entries are zero: otherwise pivots keep more digits than sums about zero."""
    if not sp.issparse(X):
        return X
    return X.toarray() if X.nnz > 0.25 * X.shape[0] * X.shape[1] else X.tocsr()


def as_guess(value: Any, name: str, d: int) -> float | tuple[float, ...] | None:
    if value is None:
        return None
    array = np.asarray(value, dtype=np.float64)
    if array.ndim and array.shape != (d,):
        raise ValueError(f"{name} should have one value a feature, shape ({d},), got {array.shape}")
    if not np.isfinite(array).all() or (name == "prior_var" and (array <= 0).any()):
        raise ValueError(f"{name} must be finite" + (" and positive" if name == "prior_var" else ""))
    return tuple(array.tolist()) if array.ndim else float(array)


def pivots(X: Matrix, labels: Labels, weight: Floats | None) -> Floats:
    """A pivot per class and column: the mean of the class's leading values, or of all leading values."""
    k, d = len(labels.classes), X.shape[1]
    if sp.issparse(X) or X.shape[0] == 0:
        return np.zeros((k, d))
    overall = leading_mean(X, np.arange(min(LEADING, len(X))), np.zeros(d))
    pivot = np.tile(overall, (k, 1))
    for c in range(k):
        if labels.soft is not None:
            rows = np.argsort(-labels.soft[:, c] * (1.0 if weight is None else weight), kind="stable")
        else:
            head = slice(0, 64 * LEADING)  # most classes show up early: a look at the head spares one at all rows
            rows = np.flatnonzero(labels.codes[head] == c)
            if len(rows) < LEADING:
                rows = np.flatnonzero(labels.codes == c)
        if weight is not None:
            rows = rows[weight[rows] > 0]
        if len(rows):
            pivot[c] = leading_mean(X, rows, overall)
    return pivot


def leading_mean(X: Array, rows: Array, otherwise: Floats) -> Floats:
    """The mean of each column's first values among these rows, taken as differences so that far values keep digits."""
    values = X[rows[:LEADING]].astype(np.float64)
    good = np.isfinite(values)
    count = good.sum(axis=0)
    first = values[np.argmax(good, axis=0), np.arange(values.shape[1])]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = first + np.where(good, values - first, 0.0).sum(axis=0) / np.maximum(count, 1)
    mean = np.where((count > 0) & np.isfinite(mean), mean, otherwise)
    if len(rows) > LEADING:
        for j in np.flatnonzero(count == 0):  # a column that starts with missing values: its first that is there
            there = np.flatnonzero(np.isfinite(X[rows, j]))
            if len(there):
                mean[j] = X[rows[there[0]], j]
    return mean
