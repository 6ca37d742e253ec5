"""Naive Bayes for categories of any kind."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Categories, Floats
from deciban.estimators import attributes, validation
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import COUNT_CONSTRAINTS, joint_of_counts, pseudo_counts
from deciban.families import Categorical
from deciban.joint import Joint
from deciban.readers.categories import CategoryReader


class CategoricalNB(Estimator):
    """Naive Bayes for categories: P(X_i = c | y) = (#(X_i = c, y) + α)/(n_y + α·|X_i|) (S7, S9).

    Numbers are category codes 0, 1, 2, … as in scikit-learn. Anything else (strings, mixed objects, data frames of
    either) is used directly, without an encoder. A category never seen has the probability of a known one without
    counts; later batches may add new ones. Missing entries (NaN, None) are ignored.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts of every category, for all columns, per column, or per class and column. "empirical" and
        "loo" as in MultinomialNB.
    force_alpha, fit_prior, class_prior, n_jobs : as in MultinomialNB
    min_categories : int or array-like of shape (d,), default=None
        The smallest number of codes of each column.

    Attributes
    ----------
    classes_, class_count_, class_log_prior_, n_categories_, category_count_, feature_log_prob_ : as in scikit-learn
    categories_ : list of each column's categories
    alpha_, model_ : as in MultinomialNB

    Examples
    --------
    >>> from deciban import CategoricalNB
    >>> X = [["red", "round"], ["red", "long"], ["green", "long"], ["green", None]]
    >>> model = CategoricalNB().fit(X, ["apple", "apple", "cucumber", "cucumber"])
    >>> model.predict([["green", "round"], ["purple", "long"]]).tolist()
    ['cucumber', 'cucumber']
    >>> model.partial_fit([["yellow", "long"]], ["banana"]).classes_.tolist()
    ['apple', 'banana', 'cucumber']
    """

    _positive: ClassVar[bool] = True
    _poor_score: ClassVar[bool] = True
    _strings: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COUNT_CONSTRAINTS,
        "min_categories": [None, "array-like", Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        min_categories: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.min_categories = min_categories
        self.n_jobs = n_jobs

    class_log_prior_ = attributes.class_log_prior
    _check_alpha = pseudo_counts  # scikit-learn's name for it

    def _reader(self) -> CategoryReader:
        return CategoryReader(self._names(), type(self).__name__, self._least())

    def _joint(self) -> Joint:
        return joint_of_counts(self, Categorical())

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        rows = validation.objects(self, X, reset=reset, least=least)
        if sp.issparse(rows):
            return validation.plain_rows(rows).tocsr()
        if rows.dtype.kind == "O" and validation.all_numbers(rows):
            return rows.astype(np.float64)
        return validation.plain_rows(rows)

    def _least(self) -> tuple[int, ...] | None:
        """min_categories, one for each column."""
        if self.min_categories is None:
            return None
        least, d = np.asarray(self.min_categories), self.n_features_in_
        if least.dtype.kind not in "iu":
            raise ValueError(f"'min_categories' should have integral type. Got {least.dtype} instead.")
        if least.ndim and least.shape != (d,):
            raise ValueError(
                f"'min_categories' should have shape ({d},) when an array-like is provided. Got {least.shape} instead."
            )
        return tuple(np.broadcast_to(least, (d,)).tolist())

    @property
    def n_categories_(self) -> Array:
        """The number of categories of each column."""
        return np.array([len(values) for values in self.categories_], dtype=np.int64)

    @property
    def categories_(self) -> list[Categories]:
        """Each column's categories: a range of codes, or the values in the order of their codes."""
        check_is_fitted(self)
        return list(self.model_.columns().categories)

    @property
    def category_count_(self) -> list[Floats]:
        """How often each category was counted, a (k, categories) array per column."""
        check_is_fitted(self)
        return self._by_column(self.model_.stats.sums[0]["is"])

    @property
    def feature_log_prob_(self) -> list[Floats]:
        """log P(X_i = c | y), a (k, categories) array per column."""
        check_is_fitted(self)
        return self._by_column(self.model_.params[0].log_theta)

    def _by_column(self, cells: Floats) -> list[Floats]:
        offsets = self.model_.columns().offsets
        return [cells[:, start:stop].copy() for start, stop in pairwise(offsets)]
