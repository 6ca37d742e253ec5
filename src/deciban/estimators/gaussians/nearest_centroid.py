"""Nearest centroids: Rocchio's rule, and shrunken centroids."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.choices import gaussian_of
from deciban.corollaries.nearest import dense_rows, nearest
from deciban.errors import DecibanError, NotAvailableError
from deciban.estimators import attributes, parameters
from deciban.estimators.base import Estimator, available_if
from deciban.estimators.gaussians.starts import kmeans_shares
from deciban.families import MultivariateGaussian
from deciban.families.gaussian import LOG_2PI
from deciban.joint import Joint
from deciban.matrix import missing_mask
from deciban.readers.numbers import NumberReader
from deciban.reading.labels import Labels

FROZEN_REASON = "medians are not sums of the rows"


def is_euclidean(model: Any) -> bool:
    if model.metric != "euclidean":
        raise NotAvailableError(f"{FROZEN_REASON}: with metric='manhattan' only predict is available")
    return True


class NearestCentroid(Estimator):
    """The class whose centroid is nearest (Rocchio): Gaussians with unit variance and equal priors (S10).

    `predict` uses the distance as it is; with unequal priors, and in all probabilities, columns
    are scaled by their standard deviation within classes, as in scikit-learn. `predict_proba` is the Gaussian posterior
    that belongs to these distances, exp(−½ distance² + log prior) normalised (scikit-learn leaves out the ½).

    Parameters
    ----------
    metric : {"euclidean", "manhattan"}, default="euclidean"
        "manhattan" takes medians instead of means, which are not sums: the model can only fit and predict.
    shrink_threshold : float, default=None
        Centroids move towards the mean of all rows by this many of their standard errors; columns whose centroids all
        reach it are ignored (Tibshirani et al. 2002).
    priors : {"uniform", "empirical"} or array-like of shape (k,), default="uniform"
        The class prior.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

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

    _prior_parameter: ClassVar[str] = "priors"
    _keeps_dtype: ClassVar[bool] = True
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

    _first_shares = kmeans_shares
    class_prior_ = priors_ = attributes.class_prior
    means_ = attributes.means
    covariances_ = attributes.covariances
    _warn_about = attributes.warn_of_gaussian

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parameters.check_priors(self.priors)

    def _reader(self) -> NumberReader:
        """Columns do not depend on each other, so sparse rows stay sparse."""
        return NumberReader(self._names(), dense=self.metric == "manhattan")

    def _joint(self) -> Joint:
        family = MultivariateGaussian(
            covariance="tied_diag", unbiased=True, threshold=float(self.shrink_threshold or 0.0)
        )
        return Joint(self._block(family), parameters.normalised_priors(self.priors))

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> str:
        self.__dict__.pop("medians_", None)
        if self.metric != "manhattan":
            return ""
        if weight is not None or labels.soft is not None or labels.any_missing:
            raise DecibanError("metric='manhattan' uses medians, which allow no weights and no missing labels")
        rows = dense_rows(X)
        self.medians_ = np.array([np.median(rows[labels.codes == c], axis=0) for c in range(len(labels.classes))])
        return FROZEN_REASON

    def _check_fitted(self, model: Any) -> None:
        super()._check_fitted(model)
        spread = gaussian_of(model).moments(model.stats.sums[0], model.columns()).spread
        if len(spread) and not (spread > 0).any():
            raise ValueError(
                f"All features have zero variance. Division by zero: there are no distances (n_samples = "
                f"{model.stats.weight.sum():g})."
            )

    def _check_adds(self, consequence: str) -> None:
        if self.metric == "manhattan":
            raise DecibanError(f"{FROZEN_REASON}: with metric='manhattan' the model {consequence}")

    def _restored(self, model: Any, about: dict[str, Any]) -> Any:
        medians = about["state"].pop("medians_", None)
        model = super()._restored(model, about)
        if self.metric != "manhattan":
            return model
        if medians is None or np.shape(medians) != (len(model.classes), model.columns().size):
            raise ValueError("its medians do not fit its classes and features")
        self.medians_ = np.asarray(medians, dtype=np.float64)
        return replace(model, frozen=FROZEN_REASON)

    def _predicted(self, X: Any) -> Array:
        """The class of the nearest centroid, or with unequal priors the most probable."""
        medians = self.medians_ if self.metric == "manhattan" else None
        return np.asarray(self.classes_[nearest(self.model_, self._rows(X).data, medians, self.n_jobs)])

    @available_if(is_euclidean)
    def decision_function(self, X: Any) -> Floats:
        """−distance² + 2 log prior of scaled columns, (n, k); with two classes the difference, (n,)."""
        rows = self._rows(X)
        scores = self.model_.log_joints(rows, self.n_jobs)
        scores *= 2.0
        if len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        at_centre = LOG_2PI + np.log(attributes.gaussian_params(self).covariance[0])
        missing = missing_mask(rows.data[0]) if np.isnan(rows.data[0].sum()) else None
        scores += at_centre.sum()
        return scores if missing is None else np.asarray(scores - (missing @ at_centre)[:, None])

    @property
    def centroids_(self) -> Array:
        """Centroids, (k, d), shrunken with `shrink_threshold`; medians with metric="manhattan"."""
        check_is_fitted(self)
        return self.medians_ if self.metric == "manhattan" else np.array(attributes.gaussian_params(self).mean)

    @property
    def within_class_std_dev_(self) -> Array:
        """Each column's standard deviation within classes."""
        return np.sqrt(attributes.gaussian_params(self).pooled)

    @property
    def deviations_(self) -> Array:
        """The distance of each centroid from the mean of all rows, in its standard errors, after shrinking."""
        moments = gaussian_of(self.model_).moments(self.model_.stats.sums[0], self.model_.columns())
        n = np.broadcast_to(moments.weight, moments.mean.shape)
        deviation = np.sqrt(moments.common)
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.sqrt(1.0 / n - 1.0 / n.sum(axis=0)) * (deviation + np.median(deviation))
            return np.asarray((attributes.gaussian_params(self).mean - moments.overall) / unit)


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
    "importance",
    "linear_form",
    "with_prior",
    "adapt_prior",
):
    setattr(NearestCentroid, _name, available_if(is_euclidean)(getattr(Estimator, _name)))
