"""Naive Bayes for presence and absence."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Floats
from deciban.estimators import attributes
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import COUNT_CONSTRAINTS, joint_of_counts, pseudo_counts
from deciban.families import Bernoulli
from deciban.joint import Joint
from deciban.readers.counts import CountReader


class BernoulliNB(Estimator):
    """Naive Bayes for features that are present or absent: p(x_j = 1 | y) = φ_jy (S8).

    φ_jy = (n_jy + α)/(n_y + 2α). An absent feature is evidence too: its term is log (1 − φ_jy).

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts: α rows with the feature and α without it. "empirical" and "loo" as in MultinomialNB.
    force_alpha, fit_prior, class_prior, n_jobs : as in MultinomialNB
    binarize : float or None, default=0.0
        A feature is present if its value is above this; None means the values already are 0 and 1.

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

    _poor_score: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COUNT_CONSTRAINTS,
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

    class_log_prior_ = attributes.class_log_prior
    _check_alpha = pseudo_counts  # scikit-learn's name for it
    feature_count_ = attributes.feature_count

    def _reader(self) -> CountReader:
        family = self.model_.joint.blocks[0].family if self.__sklearn_is_fitted__() else Bernoulli(self.binarize)
        return CountReader(self._names(), type(self).__name__, positive=False, binary=family.threshold is None)

    def _joint(self) -> Joint:
        return joint_of_counts(self, Bernoulli(threshold=self.binarize))

    @property
    def feature_log_prob_(self) -> Floats:
        """log φ, (k, d)."""
        check_is_fitted(self)
        return np.array(self.model_.params[0].log_present)
