"""Naive Bayes for counts with rates."""

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
from deciban.families import Poisson
from deciban.joint import Joint


class PoissonNB(Estimator):
    """Naive Bayes for counts: x_j given y is Poisson with rate λ_jy.

    λ_jy = (Σ x_j + α·guess)/(n_y + α): α pseudo-rows with `guess` events each, a Gamma prior. Unlike in a bag of
    words, the total number of events is evidence too.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        The number of pseudo-rows. "empirical" and "loo" as in MultinomialNB.
    guess : float, default=1.0
        Events in a pseudo-row: the expectation for a feature without data.
    force_alpha, fit_prior, class_prior, n_jobs : as in MultinomialNB
    predictive : bool, default=False
        Integrate the rates out instead of plugging their estimates in: the negative binomial.

    Attributes
    ----------
    classes_, class_count_, class_log_prior_, feature_count_ : as in the other models
    rate_ : array of shape (k, d)
    alpha_, model_ : as in MultinomialNB

    Examples
    --------
    >>> from deciban import PoissonNB
    >>> calls_per_hour = [[2, 0], [4, 1], [9, 0], [11, 1]]
    >>> model = PoissonNB(alpha=0).fit(calls_per_hour, ["night", "night", "day", "day"])
    >>> model.rate_.tolist()
    [[10.0, 0.5], [3.0, 0.5]]
    >>> model.predict([[5, 0]]).tolist()
    ['night']
    """

    _positive: ClassVar[bool] = True
    _poor_score: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COUNT_CONSTRAINTS,
        "guess": [Interval(Real, 0, None, closed="neither")],
        "predictive": ["boolean"],
    }

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        guess: float = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        predictive: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.guess = guess
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.predictive = predictive
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_counts
    class_log_prior_ = attributes.class_log_prior
    _check_alpha = pseudo_counts  # scikit-learn's name for it
    feature_count_ = attributes.feature_count

    def _joint(self) -> Joint:
        return joint_of_counts(self, Poisson(predictive=self.predictive, guess=float(self.guess)))

    @property
    def rate_(self) -> Floats:
        """Events per row, (k, d)."""
        check_is_fitted(self)
        return np.array(self.model_.params[0].rate)
