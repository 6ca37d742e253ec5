"""Complement naive Bayes, for unbalanced text."""

from __future__ import annotations

from typing import Any, ClassVar

from deciban._typing import Floats
from deciban.estimators import attributes
from deciban.estimators.base import Estimator
from deciban.estimators.parameters import COUNT_CONSTRAINTS, joint_of_counts, pseudo_counts
from deciban.families import Complement
from deciban.joint import Joint


class ComplementNB(Estimator):
    """Naive Bayes by complements: a class is scored by how badly the other classes explain the words.

    w_yw = −log (Σ_{c≠y} n_cw + α_w)/Σ: the counts are total − class, so they add, subtract and merge like any others.
    The score is not a posterior of a generative model, so there is no p(x) and nothing to sample; a class prior does
    not enter it (`with_prior` changes only the parameter), and missing labels are filled in by repeated scoring,
    which increases no likelihood.

    Parameters
    ----------
    alpha : float, array of shape (d,) or (k, d), or "loo", default=1.0
        Pseudo-counts added to the complement's counts.
    force_alpha, fit_prior, class_prior, n_jobs : as in MultinomialNB
        The prior matters only if there is a single class, as in scikit-learn.
    norm : bool, default=False
        Divide each class's weights by their sum, as the paper's second variant does.

    Attributes
    ----------
    classes_, class_count_, class_log_prior_, feature_count_, feature_all_, feature_log_prob_ : as in scikit-learn

    Examples
    --------
    >>> from deciban import ComplementNB
    >>> model = ComplementNB().fit([[2, 1, 0], [1, 0, 0], [0, 0, 3]], ["a", "a", "b"])
    >>> model.predict([[1, 0, 0], [0, 0, 1]]).tolist()
    ['a', 'b']

    References
    ----------
    Rennie, Shih, Teevan & Karger (2003), Tackling the poor assumptions of naive Bayes text classifiers.
    """

    _positive: ClassVar[bool] = True
    _poor_score: ClassVar[bool] = True
    _generative: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {**COUNT_CONSTRAINTS, "norm": ["boolean"]}

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        norm: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.norm = norm
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_counts
    class_log_prior_ = attributes.class_log_prior
    _check_alpha = pseudo_counts  # scikit-learn's name for it
    feature_count_ = attributes.feature_count
    feature_log_prob_ = attributes.feature_log_prob

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.alpha, str) and self.alpha == "empirical":
            raise ValueError("ComplementNB has no marginal likelihood to maximise: use alpha='loo' or numbers")

    def _joint(self) -> Joint:
        return joint_of_counts(self, Complement(norm=self.norm))

    @property
    def feature_all_(self) -> Floats:
        """How often each feature was counted in all classes, (d,)."""
        return self.feature_count_.sum(axis=0)  # type: ignore[no-any-return]  # a sum of floats
