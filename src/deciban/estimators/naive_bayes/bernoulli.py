"""Naive Bayes for presence and absence."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Floats, Matrix
from deciban.estimators.naive_bayes.counts import CountClassifier
from deciban.estimators.naive_bayes.discrete import LINEAR_CONSTRAINTS
from deciban.families import Bernoulli, Family
from deciban.reading.labels import Labels
from deciban.schema import Columns


class BernoulliNB(CountClassifier):
    """Naive Bayes for features that are there or not: p(x_j = 1 | y) = φ_jy (S8).

    φ_jy = (n_jy + α)/(n_y + 2α). An absent feature is evidence too: it speaks with log (1 − φ_jy).

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts: α rows with the feature and α without it. "empirical" and "loo" as in MultinomialNB.
    force_alpha, fit_prior, class_prior, n_jobs : as in MultinomialNB
    binarize : float or None, default=0.0
        A feature is there if its value is above this; None means the values are 0 and 1 already.

    Attributes
    ----------
    classes_, class_count_, class_log_prior_, feature_count_, feature_log_prob_ : arrays as in scikit-learn
    alpha_, model_ : as in MultinomialNB

    Examples
    --------
    >>> from deciban import BernoulliNB
    >>> X, y = [[1, 0], [1, 1], [0, 1]], ["spam", "spam", "ham"]
    >>> model = BernoulliNB().fit(X, y)
    >>> model.predict_proba([[1, 0]]).round(3)
    array([[0.129, 0.871]])
    >>> model.forget([[1, 1]], ["spam"]).class_count_.tolist()
    [1.0, 1.0]

    References
    ----------
    McCallum & Nigam (1998), A comparison of event models for naive Bayes text classification.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LINEAR_CONSTRAINTS,
        "binarize": [None, Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.n_jobs = n_jobs

    def _family(self) -> Family:
        return Bernoulli(threshold=self.binarize)

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        if self.binarize is None:
            check_binary(X)
        return super()._learn_rows(X, columns, labels, weight)

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        if self._learned_family().threshold is None:
            check_binary(X)
        return super()._rows(X, columns)

    def _learned_family(self) -> Bernoulli:
        """The family of the rows learned so far, or to be learned."""
        family = self.model_.joint.blocks[0].family if "model_" in vars(self) else self._family()
        assert isinstance(family, Bernoulli)
        return family

    @property
    def feature_log_prob_(self) -> Floats:
        """log φ, (k, d)."""
        check_is_fitted(self)
        return self.model_.params[0].log_present.copy()  # type: ignore[no-any-return]  # params are the family's own


def check_binary(X: Matrix) -> None:
    """Without a threshold, values are 0 and 1 already."""
    values = X.data if sp.issparse(X) else X
    if not np.all((values == 0) | (values == 1) | (values != values)):
        odd = values[(values != 0) & (values != 1) & (values == values)].flat[0]
        raise ValueError(f"binarize=None takes X to be 0 and 1 already, and it holds {odd:g}: give a threshold")
