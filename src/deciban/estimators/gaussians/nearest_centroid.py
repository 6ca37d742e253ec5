"""Nearest centroids: Rocchio's rule, and shrunken centroids."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from deciban import score
from deciban._typing import Array, Floats, Matrix
from deciban.errors import DecibanError
from deciban.estimators.answers import anywhere
from deciban.estimators.gaussians.discriminant import Discriminant
from deciban.families import Family, MultivariateGaussian
from deciban.joint import Block, Joint, Model
from deciban.matrix import has_missing
from deciban.reading.labels import Labels


def is_euclidean(model: Any) -> bool:
    if model.metric != "euclidean":
        raise AttributeError("medians are not sums of the rows: with metric='manhattan' there is predict alone")
    return True


class NearestCentroid(Discriminant):
    """The class whose centroid is nearest (Rocchio): Gaussians with unit variance and equal priors (S10).

    `predict` takes the nearest centroid as it is; with priors that are not equal, and in all probabilities, columns
    are scaled by their standard deviation within classes, as in scikit-learn. `predict_proba` is the Gaussian posterior
    that belongs to these distances, exp(−½ distance² + log prior) normalised (scikit-learn leaves out the ½).

    Parameters
    ----------
    metric : {"euclidean", "manhattan"}, default="euclidean"
        "manhattan" takes medians instead of means, which are not sums: it fits and predicts, and no more.
    shrink_threshold : float, default=None
        Centroids move towards the mean of all rows by this many of their standard errors; columns whose centroids all
        arrive there drop out (Tibshirani et al. 2002).
    priors : {"uniform", "empirical"} or array-like of shape (k,), default="uniform"
        The class prior.
    n_jobs : int, default=None
        Threads; None is all cores for data large enough to gain from them.

    Attributes
    ----------
    centroids_, classes_, class_prior_, within_class_std_dev_, deviations_ : as in scikit-learn

    Examples
    --------
    >>> from deciban import NearestCentroid
    >>> X = [[-1, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]]
    >>> NearestCentroid().fit(X, [1, 1, 1, 2, 2, 2]).predict([[-0.8, -1]]).tolist()
    [1]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "metric": [StrOptions({"manhattan", "euclidean"})],
        "shrink_threshold": [Interval(Real, 0, None, closed="neither"), None],
        "priors": ["array-like", StrOptions({"empirical", "uniform"})],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        metric: str = "euclidean",
        *,
        shrink_threshold: float | None = None,
        priors: Any = "uniform",
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.shrink_threshold = shrink_threshold
        self.priors = priors
        self.n_jobs = n_jobs

    def _family(self) -> Family:
        return MultivariateGaussian(
            covariance="tied_diag", unbiased=True, threshold=float(self.shrink_threshold or 0.0)
        )

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> None:
        self.__dict__.pop("medians_", None)
        if self.metric == "manhattan":
            if weight is not None or labels.soft is not None or labels.any_missing:
                raise DecibanError("metric='manhattan' takes medians of plain rows: no weights and no missing labels")
            rows = whole(X)
            self.medians_ = np.array([np.median(rows[labels.codes == c], axis=0) for c in range(len(labels.classes))])

    def _check_fitted(self, model: Model) -> None:
        super()._check_fitted(model)
        found = model.joint.blocks[0].family
        assert isinstance(found, MultivariateGaussian)
        spread = found.moments(model.stats.sums[0], model.columns()).spread
        if len(spread) and not (spread > 0).any():
            raise ValueError(
                "All features have zero variance. Division by zero: there is no distance to go by "
                f"(n_samples = {model.stats.weight.sum():g})."
            )

    def _restore(self, model: Model, about: dict[str, Any]) -> None:
        medians = about["state"].pop("medians_", None)
        super()._restore(model, about)
        if self.metric == "manhattan":
            if medians is None or np.shape(medians) != (len(model.classes), model.columns().size):
                raise ValueError("its medians do not fit its classes and features")
            self.medians_ = np.asarray(medians, dtype=np.float64)

    def _guessed(self) -> str:
        return "medians are not sums of the rows" if self.metric == "manhattan" else super()._guessed()

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NearestCentroid:
        """Learn more rows. Any way of batching gives what `fit` on all of them gives."""
        if self.metric == "manhattan":
            raise DecibanError(f"{self._guessed()}: metric='manhattan' cannot learn in batches")
        super().partial_fit(X, y, classes, sample_weight)
        return self

    def decay(self, half_life: float, rows: float = 1) -> NearestCentroid:
        """Make what was learned so far count half as much for every `half_life` rows that came since."""
        if self.metric == "manhattan":
            raise DecibanError(f"{self._guessed()}: with metric='manhattan' they cannot decay")
        super().decay(half_life, rows)
        return self

    def __add__(self, other: Any) -> NearestCentroid:
        if self.metric == "manhattan":
            raise DecibanError(f"{self._guessed()}: with metric='manhattan' models cannot be merged")
        return super().__add__(other)

    @anywhere
    def predict(self, X: Any) -> Array:
        """The class of the nearest centroid, or with priors that are not equal the likeliest."""
        data = self._read(X)
        if self.metric == "manhattan":
            return np.asarray(self.classes_[cdist(whole(data[0]), self.medians_, "cityblock").argmin(axis=1)])
        if np.ptp(self.model_.log_prior) > 1e-12:  # more than what rounding makes of equal priors
            return self.classes_[score.apply(data, self.model_, "best", self.n_jobs)]
        return self.classes_[score.apply(data, self._round(), "best", self.n_jobs)]

    def _round(self) -> Model:
        """The same centroids with unit variance: the model of the plain distance, from the same sums."""
        family = MultivariateGaussian(covariance="unit", unbiased=True, threshold=float(self.shrink_threshold or 0.0))
        joint = Joint((Block(family, 0.0),), self.model_.joint.class_prior)
        found = self.model_.cached("round", lambda: Model(joint, self.model_.stats))
        assert isinstance(found, Model)
        return found

    @available_if(is_euclidean)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def decision_function(self, X: Any) -> Floats:
        """−distance² + 2 log prior of scaled columns, (n, k); with two classes the difference, (n,)."""
        scores = 2.0 * score.apply(self._read(X), self.model_, "log_joint", self.n_jobs)
        return np.asarray(scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores)

    @property
    def centroids_(self) -> Array:
        """Centroids, (k, d), shrunken if asked for; medians with metric="manhattan"."""
        check_is_fitted(self)
        return self.medians_ if self.metric == "manhattan" else np.array(self._params.mean)

    @property
    def within_class_std_dev_(self) -> Array:
        """Each column's standard deviation within classes."""
        return np.sqrt(self._params.pooled)

    @property
    def deviations_(self) -> Array:
        """How many of its standard errors each centroid is away from the mean of all rows, after shrinking."""
        family = self.model_.joint.blocks[0].family
        assert isinstance(family, MultivariateGaussian)
        found = family.moments(self.model_.stats.sums[0], self.model_.columns())
        n = np.broadcast_to(found.weight, found.mean.shape)
        deviation = np.sqrt(found.common)
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.sqrt(1.0 / n - 1.0 / n.sum(axis=0)) * (deviation + np.median(deviation))
            return np.asarray((self._params.mean - found.overall) / unit)


def whole(X: Matrix) -> Array:
    """Rows as they are, dense, none of them with a hole."""
    if has_missing(X):
        raise DecibanError("metric='manhattan' takes whole rows, and some have missing entries")
    return np.asarray(X.toarray() if sp.issparse(X) else X)


for _name in (
    "predict_proba",
    "predict_log_proba",
    "predict_joint_log_proba",
    "predict_set",
    "calibrate",
    "score_samples",
    "decide",
    "explain",
    "sample",
    "top_evidence",
    "linear_form",
    "with_prior",
    "adapt_prior",
):
    setattr(NearestCentroid, _name, available_if(is_euclidean)(getattr(Discriminant, _name)))
