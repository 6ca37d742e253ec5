"""Quadratic discriminant analysis: Gaussians with their own covariances."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Array, Floats
from deciban.estimators import attributes, parameters
from deciban.estimators.base import Estimator
from deciban.estimators.gaussians import from_rows
from deciban.estimators.gaussians.starts import kmeans_shares
from deciban.joint import Joint
from deciban.reading.labels import Labels


class QuadraticDiscriminantAnalysis(Estimator):
    """Quadratic discriminant analysis: x | y ~ N(μ_y, Σ_y), a covariance for every class (S13).

    Takes scikit-learn's parameters and has its attributes; unlike it, learns in batches, forgets, merges, takes weights
    and missing values, and works if some Σ_y is singular (a warning explains what was done).

    Parameters
    ----------
    solver : {"svd", "eigen"}, default="svd"
        Both classify from the same sums. "svd" takes `reg_param`, "eigen" takes `shrinkage`.
    shrinkage : "auto", float or None, default=None
        Moves each Σ_y towards a sphere: by a number in [0, 1], or by Ledoit and Wolf's rule ("auto").
    priors : array-like of shape (k,), default=None
        The class prior, if it is known; otherwise n_y/n.
    reg_param : float, default=0.0
        Σ_y becomes (1 − reg_param)·Σ_y + reg_param·I.
    store_covariance : bool, default=False
        Whether `covariance_` is available.
    tol : float, default=1e-4
        Accepted for compatibility with scikit-learn: singular classes are detected and repaired without it.
    covariance_estimator : object with fit and covariance_, default=None
        Estimates each class's covariance from its rows. The estimate is kept: such a model cannot learn more.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    means_, priors_, covariance_, rotations_, scalings_, classes_ : as in scikit-learn

    Examples
    --------
    >>> from deciban import QuadraticDiscriminantAnalysis
    >>> X = [[-1, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]]
    >>> model = QuadraticDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1]]).tolist()
    [1]
    """

    _prior_parameter: ClassVar[str] = "priors"
    _keeps_dtype: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "solver": [StrOptions({"svd", "eigen"})],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both"), None],
        "priors": ["array-like", None],
        "reg_param": [Interval(Real, 0, 1, closed="both")],
        "store_covariance": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "covariance_estimator": [HasMethods("fit"), None],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        solver: str = "svd",
        shrinkage: Any = None,
        priors: Any = None,
        reg_param: float = 0.0,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.reg_param = reg_param
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_dense_numbers
    _first_shares = kmeans_shares
    class_prior_ = priors_ = attributes.class_prior
    means_ = attributes.means
    covariances_ = attributes.covariances
    decision_function = attributes.decision_function
    _warn_about = attributes.warn_of_gaussian
    _check_savable = from_rows.check_savable

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parameters.check_priors(self.priors)
        from_rows.check(self, "covariance_estimator is not supported with solver='svd'")

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> str:
        self.__dict__.pop("given_", None)
        if self.covariance_estimator is None:
            return ""
        X = self._reader().plain(X)
        self.given_ = from_rows.nested(from_rows.covariances(self, X, labels, weight)[0])
        return from_rows.FROZEN_REASON

    def _joint(self) -> Joint:
        return from_rows.joint(self, "full", unit=float(self.reg_param) if self.solver == "svd" else 0.0)

    @property
    def covariance_(self) -> list[Array]:
        """Covariances, one (d, d) for each class."""
        check_is_fitted(self)
        if not self.store_covariance:
            raise AttributeError("covariance_ needs store_covariance=True")
        return list(self.covariances_)

    @property
    def rotations_(self) -> list[Array]:
        """The principal axes of each class, the widest first, as columns."""
        return [attributes.as_learned(self, axes) for _, axes in self._axes()]

    @property
    def scalings_(self) -> list[Array]:
        """The variance along each axis."""
        return [attributes.as_learned(self, spread) for spread, _ in self._axes()]

    def _axes(self) -> list[tuple[Floats, Floats]]:
        eigen = (np.linalg.eigh(matrix) for matrix in attributes.gaussian_params(self).covariance)
        return [(np.maximum(spread[::-1], 0.0), axes[:, ::-1]) for spread, axes in eigen]
