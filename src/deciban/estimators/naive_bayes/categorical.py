"""Naive Bayes for categories of any kind."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from deciban._typing import Array, Categories, Floats, Matrix
from deciban.collect import CODES
from deciban.errors import SchemaError
from deciban.estimators.answers import plain_rows
from deciban.estimators.naive_bayes.discrete import LINEAR_CONSTRAINTS, DiscreteClassifier
from deciban.families import Categorical, Family
from deciban.matrix import value_range
from deciban.reading.categories import check_codes, code_sizes, find_labels, from_codes, learn_labels
from deciban.reading.labels import Labels
from deciban.reading.missing import unmask
from deciban.schema import Columns


class CategoricalNB(DiscreteClassifier):
    """Naive Bayes for categories: P(X_i = c | y) = (#(X_i = c, y) + α)/(n_y + α·|X_i|) (S7, S9).

    Numbers are category codes 0, 1, 2, … as in scikit-learn. Anything else (strings, mixed objects, data frames of
    either) is taken as it is, no encoder needed. A category never seen has the probability of one known but never
    counted; later batches may bring new ones. Missing entries (NaN, None) drop out.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts of every category, for all columns, per column, or per class and column. "empirical" and
        "loo" as in MultinomialNB.
    force_alpha, fit_prior, class_prior, n_jobs : as in MultinomialNB
    min_categories : int or array-like of shape (d,), default=None
        How many codes each column has at least.

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
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LINEAR_CONSTRAINTS,
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

    def _family(self) -> Family:
        return Categorical()

    def _validate(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        if isinstance(X, list | tuple):  # NumPy would make strings of the numbers beside them
            X = mixed_rows(X)
        rows = validate_data(
            self,
            unmask(X),
            reset=reset,
            accept_sparse=["csr", "csc"],
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=least,
        )
        if sp.issparse(rows):
            return plain_rows(rows).tocsr()
        if rows.dtype.kind == "c":
            raise ValueError(f"Complex data not supported\n{X}\n")
        if rows.dtype.kind == "O" and all_numbers(rows):
            return rows.astype(np.float64)
        return plain_rows(rows)

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        del labels, weight
        d = X.shape[1]
        known = columns.categories if columns is not None else None
        assert known is None or len(known) == d
        if is_codes(X) and (known is None or all(isinstance(values, range) for values in known)):
            codes = as_codes(X)
            sizes = code_sizes(codes, type(self).__name__, self._least(d))
            categories: tuple[Categories, ...] = tuple(range(int(size)) for size in sizes)
            return codes, Columns(d, self._names(), categories)
        if self.min_categories is not None:
            raise ValueError("min_categories counts integer codes; these columns have labels, so leave it out")
        X = X.toarray() if sp.issparse(X) else X
        matrix = np.empty((len(X), d), dtype=np.int32, order="F")
        found: list[Categories] = []
        for j in range(d):
            matrix[:, j], values = learn_labels(X[:, j], known[j] if known is not None else ())
            found.append(values)
        return matrix, Columns(d, self._names(), tuple(found))

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        assert columns.categories is not None
        if is_codes(X) and all(isinstance(values, range) for values in columns.categories):
            codes = as_codes(X)
            check_codes(codes, type(self).__name__)
            return codes
        X = X.toarray() if sp.issparse(X) else X
        matrix = np.empty((X.shape[0], columns.size), dtype=np.int32, order="F")
        for j, values in enumerate(columns.categories):
            matrix[:, j] = find_labels(X[:, j], values)
        return matrix

    def _question(self, split: Any) -> Any:
        question = super()._question(split)
        known = self.model_.columns().categories or ()
        kinds = ["code" if isinstance(values, range) else "category" for values in known]
        return replace(question, kinds=dict(zip(question.kinds, kinds, strict=True)))

    def _from_rows(self, rows: Array) -> Array:
        categories = self.model_.columns().categories
        assert categories is not None
        return from_codes(rows, categories)

    def _least(self, d: int) -> Array:
        """min_categories, one a column."""
        if self.min_categories is None:
            return np.zeros(d, dtype=np.int64)
        least = np.asarray(self.min_categories)
        if least.dtype.kind not in "iu":
            raise ValueError(f"'min_categories' should have integral type. Got {least.dtype} instead.")
        if least.ndim and least.shape != (d,):
            raise ValueError(
                f"'min_categories' should have shape ({d},) when an array-like is provided. Got {least.shape} instead."
            )
        return np.broadcast_to(least, (d,)).astype(np.int64)

    def _least_categories(self) -> tuple[int, ...] | None:
        return tuple(int(v) for v in self._least(self.n_features_in_))

    @property
    def n_categories_(self) -> Array:
        """How many categories each column has."""
        return np.array([len(values) for values in self.categories_], dtype=np.int64)

    @property
    def categories_(self) -> list[Categories]:
        """Each column's categories: a range of codes, or the values in the order of their codes."""
        check_is_fitted(self)
        categories = self.model_.columns().categories
        if categories is None:
            raise SchemaError("this model has no categories")
        return list(categories)

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def mixed_rows(X: Any) -> Any:
    """A list of rows as it is where it holds anything but numbers: each value keeps its kind."""
    array = np.asarray(X) if not any(sp.issparse(row) for row in X) else X
    if getattr(array, "dtype", None) is None or array.dtype.kind not in "US":
        return X
    return np.array(X, dtype=object)


def is_codes(X: Any) -> bool:
    return sp.issparse(X) or X.dtype.kind in "biuf"


def as_codes(X: Any) -> Array:
    """Numbers as a type the kernels count; sparse rows spelled out in the smallest."""
    if sp.issparse(X):
        low, high = value_range(X.data) if X.nnz else (0.0, 0.0)
        small = 0 <= low <= high < 256 and not np.isnan(X.data.sum())
        return np.asarray(X.astype(np.uint8 if small else np.float64).toarray())
    if X.dtype == bool:
        return np.asarray(X.view(np.uint8))
    return np.asarray(X if X.dtype.type in CODES else X.astype(np.float64 if X.dtype.kind == "f" else np.int64))


def all_numbers(X: Array) -> bool:
    """Whether an object array holds only numbers and missing values."""
    return all(v is None or (isinstance(v, int | float | np.number) and not isinstance(v, complex)) for v in X.ravel())
