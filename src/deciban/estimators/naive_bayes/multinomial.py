"""Naive Bayes for counts: bags of words."""

from __future__ import annotations

from typing import Any, ClassVar

from deciban.estimators import attributes
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import COUNT_CONSTRAINTS, joint_of_counts, pseudo_counts
from deciban.families import Multinomial
from deciban.joint import Joint


class MultinomialNB(Estimator):
    """Naive Bayes for bags of words: P(D | y) = Π_w θ_yw^n(w) (S3–S6).

    θ_yw = (n_yw + α_w) / Σ_w' (n_yw' + α_w'): counts of each word in each class with pseudo-counts added.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), "empirical" or "loo", default=1.0
        Pseudo-counts added to the counts, for all words, per word, or per class and word. "empirical" takes the
        number that makes the counts most likely (marginal likelihood), "loo" the one with the least exact
        leave-one-out log loss.
    force_alpha : bool, default=True
        If False, an alpha below 1e-10 is set to 1e-10.
    fit_prior : bool, default=True
        Whether the class prior is n_y/n; if not, it is uniform.
    class_prior : array-like of shape (k,), default=None
        The class prior, if it is known.
    predictive : bool, default=False
        Integrate θ out instead of plugging its estimate in: the Dirichlet-multinomial distribution of a document.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    classes_, class_count_, class_log_prior_, feature_count_, feature_log_prob_ : arrays as in scikit-learn
    alpha_ : the pseudo-counts in use
    model_ : the model as a value: its joint distribution and its sums

    Examples
    --------
    The notes' dog, cat, tulip and rose, a document each of animals and of flowers:

    >>> from deciban import MultinomialNB
    >>> X = [[50, 40, 5, 5], [10, 10, 50, 30]]
    >>> model = MultinomialNB(alpha=0).fit(X, ["animals", "flowers"])
    >>> why = model.explain([[3, 2, 1, 0]])  # dog dog cat dog cat tulip
    >>> why.target, round(why.total, 2)
    ('animals', 23.01)

    References
    ----------
    McCallum & Nigam (1998), A comparison of event models for naive Bayes text classification.
    """

    _positive: ClassVar[bool] = True
    _poor_score: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {**COUNT_CONSTRAINTS, "predictive": ["boolean"]}

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        predictive: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.predictive = predictive
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_counts
    class_log_prior_ = attributes.class_log_prior
    _check_alpha = pseudo_counts  # scikit-learn's name for it
    feature_count_ = attributes.feature_count
    feature_log_prob_ = attributes.feature_log_prob

    def _joint(self) -> Joint:
        return joint_of_counts(self, Multinomial(predictive=self.predictive))
