"""Linear discriminant analysis: Gaussians that share a covariance."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban import score
from deciban._typing import Array, Floats
from deciban.algebra import shift
from deciban.choices import gaussian_of
from deciban.estimators import attributes, parameters
from deciban.estimators.base import Estimator
from deciban.estimators.gaussians import from_rows
from deciban.estimators.gaussians.starts import kmeans_shares
from deciban.families import MultivariateGaussian
from deciban.families.linear import Affine
from deciban.joint import Joint
from deciban.measure import incomplete
from deciban.reading.labels import Labels


class LinearDiscriminantAnalysis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):  # type: ignore[misc]  # scikit-learn has no types
    """Linear discriminant analysis: x | y ~ N(μ_y, Σ), one covariance for all classes (S12), a linear boundary (S14).

    Takes scikit-learn's parameters and has its attributes; unlike it, learns in batches, forgets, merges, takes weights
    and missing values, and works if Σ is singular (a warning explains what was done).

    Parameters
    ----------
    solver : {"svd", "lsqr", "eigen"}, default="svd"
        Every solver classifies from the same sums. "svd" takes no shrinkage, "lsqr" does not transform.
    shrinkage : "auto", float or None, default=None
        Moves Σ towards a sphere: by a number in [0, 1], or by Ledoit and Wolf's rule for each class ("auto").
    priors : array-like of shape (k,), default=None
        The class prior, if it is known; otherwise n_y/n. It does not affect Σ.
    n_components : int, default=None
        The number of directions of `transform`: at most min(k − 1, d).
    store_covariance : bool, default=False
        Whether `covariance_` is available with solver="svd".
    tol : float, default=1e-4
        `transform` leaves out directions with singular values below it.
    covariance_estimator : object with fit and covariance_, default=None
        Estimates each class's covariance from its rows. The estimate is kept: such a model cannot learn more.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    coef_, intercept_, means_, priors_, covariance_, scalings_, xbar_, explained_variance_ratio_, classes_ : as in
        scikit-learn

    Examples
    --------
    >>> from deciban import LinearDiscriminantAnalysis
    >>> X = [[-1, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]]
    >>> model = LinearDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1]]).tolist(), model.transform(X).shape
    ([1], (6, 1))
    """

    _prior_parameter: ClassVar[str] = "priors"
    _keeps_dtype: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "solver": [StrOptions({"svd", "lsqr", "eigen"})],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both"), None],
        "priors": ["array-like", None],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "store_covariance": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "covariance_estimator": [HasMethods("fit"), None],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        solver: str = "svd",
        shrinkage: Any = None,
        priors: Any = None,
        n_components: int | None = None,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.n_components = n_components
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_dense_numbers
    _first_shares = kmeans_shares
    class_prior_ = priors_ = attributes.class_prior
    means_ = attributes.means
    covariances_ = attributes.covariances
    _warn_about = attributes.warn_of_gaussian
    _check_savable = from_rows.check_savable

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parameters.check_priors(self.priors)
        from_rows.check(self, "covariance estimator is not supported with svd solver")

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> str:
        """One covariance from the classes' own, by their share of the rows."""
        self.__dict__.pop("given_", None)
        if self.covariance_estimator is None:
            return ""
        X = self._reader().plain(X)
        by_class, count = from_rows.covariances(self, X, labels, weight)
        if self.solver == "eigen":
            self.total_ = from_rows.estimated_covariance(self, X)
        self.given_ = from_rows.nested((count[:, None, None] / count.sum() * by_class).sum(axis=0)[None])
        return from_rows.FROZEN_REASON

    def _joint(self) -> Joint:
        return from_rows.joint(self, "tied")

    def _check_fitted(self, model: Any) -> None:
        super()._check_fitted(model)
        limit = min(len(model.classes) - 1, model.columns().size)
        if self.n_components is not None and len(model.classes) and self.n_components > limit:
            raise ValueError(
                f"n_components cannot be larger than min(n_features, n_classes - 1). It is {self.n_components}, and "
                f"there are {model.columns().size} features and {len(model.classes)} classes."
            )

    def decision_function(self, X: Any) -> Floats:
        """x·coef_ + intercept_: log p(x, y) up to a constant per row; with two classes the log-odds, (n,)."""
        rows = self._rows(X)
        scores, complete = score.affine(rows.data[0], self.model_.cached("affine", self._find_affine), self.n_jobs)
        if not complete:  # a row with missing entries has no linear form: its log p(x, y) itself
            gaps = incomplete(rows.data[0])
            log_joint = self.model_.log_joints(rows.take(gaps), self.n_jobs)
            scores[gaps] = log_joint[:, 1:] - log_joint[:, :1] if len(self.classes_) == 2 else log_joint
        return scores.ravel() if len(self.classes_) == 2 else scores

    def transform(self, X: Any) -> Floats:
        """Rows along the directions that separate classes best, (n, n_components).

        Missing entries are replaced by their expected values given the others.
        """
        check_is_fitted(self)
        if self.solver == "lsqr":
            raise NotImplementedError("transform not implemented for 'lsqr' solver (use 'svd' or 'eigen').")
        rows = self._rows(X)
        limit = self._n_features_out
        projection = self.model_.cached(f"projection {limit}", self._find_projection)
        along, complete = score.affine(rows.data[0], projection, self.n_jobs)
        if not complete:
            params, shares = attributes.gaussian_params(self), self.model_.scores(rows, "posterior", self.n_jobs)
            filled = gaussian_of(self.model_).fill(params, rows.data[0], shares)
            along, _ = score.affine(filled, projection, self.n_jobs)
        single = rows.data[0].dtype == np.float32 and vars(self).get("dtype_") == "float32"
        return along.astype(np.float32) if single else along

    def _find_projection(self) -> Affine:
        directions = self.scalings_[:, : self._n_features_out].astype(np.float64)
        centre = self.xbar_.astype(np.float64) if self.solver == "svd" else np.zeros(self.n_features_in_)
        return Affine(directions.T, np.zeros(directions.shape[1]), centre)

    @property
    def _n_features_out(self) -> int:
        limit = min(len(self.classes_) - 1, self.n_features_in_, self._directions()[0].shape[1])
        return int(limit if self.n_components is None else min(self.n_components, limit))

    def _linear(self) -> tuple[Floats, Floats]:
        """Weights and offsets (S14), about the centre that scikit-learn's solvers use."""
        weights, offsets, centre = self._about_centre()
        return weights, offsets - weights @ centre

    def _find_affine(self) -> Affine:
        return Affine(*self._about_centre())

    def _about_centre(self) -> tuple[Floats, Floats, Floats]:
        """Weights, and offsets at a centre; and the centre."""
        self._check_classes()
        params = attributes.gaussian_params(self)
        assert params.roots is not None
        two_classes = len(self.classes_) == 2  # then the centre cancels, and one near the data loses no digits
        root = params.roots.root[0]
        centre = self._centre() if two_classes or self.solver == "svd" else np.zeros(self.n_features_in_)
        deviation = params.mean - centre
        weights = deviation @ root.T @ root
        offsets = -0.5 * (deviation * weights).sum(axis=1) + self.model_.log_prior
        if two_classes:
            return weights[1:] - weights[:1], offsets[1:] - offsets[:1], centre
        return weights, offsets, centre

    def _centre(self) -> Floats:
        return np.asarray(np.exp(self.model_.log_prior) @ attributes.gaussian_params(self).mean)

    @property
    def coef_(self) -> Array:
        """Weights, (k, d), or (1, d) with two classes."""
        return attributes.as_learned(self, self._linear()[0])

    @property
    def intercept_(self) -> Array:
        """Offsets, (k,), or (1,) with two classes."""
        return attributes.as_learned(self, self._linear()[1])

    @property
    def covariance_(self) -> Array:
        """The shared covariance, (d, d)."""
        check_is_fitted(self)
        if self.solver == "svd" and not self.store_covariance:
            raise AttributeError("covariance_ needs store_covariance=True, or another solver")
        return attributes.as_learned(self, attributes.gaussian_params(self).covariance[0])

    @property
    def xbar_(self) -> Array:
        """The mean of the class means, weighted by the class prior."""
        return attributes.as_learned(self, self._centre())

    @property
    def scalings_(self) -> Array:
        """Directions that separate classes, best first, in which Σ is the identity: (d, directions)."""
        return attributes.as_learned(self, self._directions()[0])

    @property
    def explained_variance_ratio_(self) -> Array:
        """The share of the variance between classes along each direction."""
        return attributes.as_learned(self, self._directions()[1][: self._n_features_out])

    def _directions(self) -> tuple[Floats, Floats]:
        self._check_classes()
        find = self._eigen_directions if self.solver == "eigen" else self._svd_directions
        directions: tuple[Floats, Floats] = self.model_.cached("directions", find)
        return directions

    def _svd_directions(self) -> tuple[Floats, Floats]:
        """Whiten the rows within classes, then rotate to the principal axes of the class means."""
        params, prior = attributes.gaussian_params(self), np.exp(self.model_.log_prior)
        within = params.pooled
        scale = np.sqrt(np.diagonal(within))
        scale = np.where(scale > 0, scale, 1.0)
        spread, direction = np.linalg.eigh(within / np.outer(scale, scale))
        keep = np.flatnonzero(spread > max(self.tol, 1e-7) ** 2)[::-1]
        white = direction[:, keep] / scale[:, None] / np.sqrt(spread[keep])
        means = np.sqrt(prior)[:, None] * (params.mean - prior @ params.mean) @ white
        _, size, turn = np.linalg.svd(means, full_matrices=False)
        rank = int((size > self.tol * size[0]).sum()) if len(size) and size[0] > 0 else 0
        share = size**2 / (size**2).sum() if rank else np.zeros_like(size)
        return white @ turn.T[:, :rank], share

    def _eigen_directions(self) -> tuple[Floats, Floats]:
        """The directions in which the scatter of all rows is greatest relative to that within classes."""
        params = attributes.gaussian_params(self)
        assert params.roots is not None
        root = params.roots.root[0]
        between = self._total_covariance() - params.covariance[0]
        size, turn = np.linalg.eigh(root @ between @ root.T)
        order = np.argsort(size)[::-1]
        share = size[order] / size.sum() if size.sum() > 0 else np.zeros_like(size)
        return root.T @ turn[:, order], share

    def _total_covariance(self) -> Floats:
        """The covariance of all rows as one class, shrunk as the classes' are."""
        stats, columns = self.model_.stats, self.model_.columns()
        assert columns.pivot is not None
        centre = np.average(
            attributes.gaussian_params(self).mean, axis=0, weights=stats.weight if stats.weight.any() else None
        )
        moved = shift(stats.sums[0], columns.pivot - centre)
        sums = {name: array.sum(axis=0, keepdims=True) for name, array in moved.items()}
        centred_columns = type(columns)(columns.size, pivot=centre[None])
        family = MultivariateGaussian(sphere=0.0 if self.shrinkage is None else self.shrinkage)
        if self.covariance_estimator is not None:
            return np.asarray(self.total_)
        moments = family.moments(sums, centred_columns)
        return np.asarray(family.covariances(moments, sums)[1][0])
