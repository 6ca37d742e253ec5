"""Gaussian discriminant analysis of every shape."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from deciban.choices import ByCovariance, gaussian_of
from deciban.estimators import attributes, parameters
from deciban.estimators.base import Estimator
from deciban.estimators.gaussians.starts import kmeans_shares
from deciban.families import MultivariateGaussian
from deciban.families.covariance import ALIASES, SHAPES
from deciban.joint import Joint


class GaussianDiscriminant(Estimator):
    """Rows of a class are Gaussian: x | y ~ N(μ_y, Σ_y), with covariances of a chosen shape and strength.

    The statistics are n, Σ(x−p) and Σ(x−p)(x−p)ᵀ per class, whatever the shape. Linear and quadratic discriminant
    analysis, nearest centroids and regularised analysis are all estimates from these sums.

    Parameters
    ----------
    covariance : str, default="full"
        Volume, shape and orientation of the classes' covariances. "full": each its own (quadratic); "tied": all share
        one (linear); "diag" and "tied_diag": axis-aligned; "spherical" and "tied_spherical": σ²I; "unit": the identity.
        Or one of Celeux and Govaert's fourteen by mclust's letters (EII, VII, EEI, VEI, EVI, VVI, EEE, VEE, EVE, VVE,
        EEV, VEV, EVV, VVV), or "bic" or "loo": the best of them by the Bayesian information criterion, or by exact
        leave-one-out. `leave_one_out` scores every row under the choice of the other rows. Shapes other than "full" and
        "tied" need a new estimate from the sums for every row left out.
    shrinkage : "loo", "auto", "oas", number, pair of numbers or None, default="loo"
        A number in [0, 1] moves every covariance towards a sphere of the same size. A pair (tie, sphere) first moves
        each towards the shared one: regularised discriminant analysis. "loo" chooses the pair by exact leave-one-out;
        spheres are then round in units of the columns' standard deviations within classes (those of `fit`).
        "auto" is Ledoit and Wolf's number, "oas" Chen et al.'s. Shapes other than "full" and "tied" take a number
        or None, and "loo" leaves them as they are.
    priors : array-like of shape (k,), default=None
        The class prior, if it is known; otherwise n_y/n.
    alpha : float, "empirical" or "loo", default=0.0
        A normal–inverse-Wishart prior as this many pseudo-rows per class, of mean `prior_mean` and covariance
        `prior_cov`.
    prior_mean : float or array-like of shape (d,), default=None
        None is the mean of all rows.
    prior_cov : array-like of shape (d, d), default=None
        None is the covariance that the classes have in common.
    predictive : bool, default=True
        Integrate means and covariances out instead of plugging their estimates in: multivariate Student-t, whose
        probabilities are less extreme if rows are few. With "full", "tied" and "diag"; other shapes are
        plugged in.
    criterion : {"log_loss", "accuracy"}, default="log_loss"
        The criterion of "loo".
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    means_, covariances_, priors_, classes_, class_count_ : arrays
    covariance_shape_ : str
        The shape in use, in mclust's letters.
    shrinkage_ : tuple
        How far covariances were moved towards the shared one, and towards a sphere.

    Examples
    --------
    >>> import numpy as np
    >>> from deciban import GaussianDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) @ [[1, 0.8], [0, 0.6]] + np.repeat([[0, 0], [1, -1]], 100, axis=0)
    >>> y = np.repeat(["a", "b"], 100)
    >>> model = GaussianDiscriminant().fit(X, y)
    >>> round(model.leave_one_out(X, y).accuracy, 2)
    0.95
    >>> model = GaussianDiscriminant(covariance="tied", shrinkage=None, predictive=False).fit(X, y)
    >>> theta, offset = model.linear_form().pair("b", "a")
    >>> bool(np.allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-X @ theta - offset))))
    True

    References
    ----------
    G. Celeux and G. Govaert, "Gaussian parsimonious clustering models", Pattern Recognition 28 (1995).
    J. H. Friedman, "Regularized discriminant analysis", JASA 84 (1989).
    """

    _prior_parameter: ClassVar[str] = "priors"
    _keeps_dtype: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "covariance": [StrOptions({*ALIASES, *SHAPES, "bic", "loo"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto", "oas", "loo"}), "array-like", None],
        "priors": ["array-like", None],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"empirical", "loo"})],
        "prior_mean": [Real, "array-like", None],
        "prior_cov": ["array-like", None],
        "predictive": ["boolean"],
        "criterion": [StrOptions({"log_loss", "accuracy"})],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        covariance: str = "full",
        shrinkage: Any = "loo",
        priors: Any = None,
        alpha: Any = 0.0,
        prior_mean: Any = None,
        prior_cov: Any = None,
        predictive: bool = True,
        criterion: str = "log_loss",
        n_jobs: int | None = None,
    ) -> None:
        self.covariance = covariance
        self.shrinkage = shrinkage
        self.priors = priors
        self.alpha = alpha
        self.prior_mean = prior_mean
        self.prior_cov = prior_cov
        self.predictive = predictive
        self.criterion = criterion
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_dense_numbers
    _first_shares = kmeans_shares
    class_prior_ = priors_ = attributes.class_prior
    means_ = attributes.means
    covariances_ = attributes.covariances
    decision_function = attributes.decision_function
    _warn_about = attributes.warn_of_gaussian

    @property
    def _shape(self) -> str:
        return ALIASES.get(self.covariance, self.covariance)

    @property
    def _regular(self) -> bool:
        """Whether the covariance is one that can be tied and shrunk."""
        return self._shape in ("EEE", "VVV")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parameters.check_priors(self.priors)
        if not self._regular and not (
            self.shrinkage is None
            or isinstance(self.shrinkage, Real)
            or (isinstance(self.shrinkage, str) and self.shrinkage == "loo")
        ):
            raise ValueError(
                f"shrinkage={self.shrinkage!r} needs covariance='full' or 'tied', not {self.covariance!r}: give a "
                f"number, or None"
            )
        parameters.as_pair(self.shrinkage)

    def _joint(self) -> Joint:
        tie, sphere = parameters.as_pair(self.shrinkage)
        d = self.n_features_in_
        family = MultivariateGaussian(
            covariance="full" if self.covariance == "loo" else self.covariance,
            tie=tie,
            sphere=sphere,
            predictive=bool(self.predictive) and self._shape in ("EEE", "VVV", "VVI"),
            guess_mean=parameters.as_guess(self.prior_mean, "prior_mean", d),
            guess_covariance=parameters.as_covariance(self.prior_cov, d),
            dense=self.covariance == "loo",
        )
        return Joint(self._block(family), parameters.normalised_priors(self.priors))

    def _choice(self) -> ByCovariance:
        shrinks = isinstance(self.shrinkage, str) and self.shrinkage == "loo" and self._regular
        return ByCovariance(self._joint(), self.covariance, shrinks, self._wants_loo(), self.criterion)

    @property
    def covariance_shape_(self) -> str:
        """The shape in use, in mclust's letters (or "unit")."""
        return attributes.gaussian_params(self).shape

    @property
    def shrinkage_(self) -> tuple[float, float | str]:
        """(tie, sphere): how far covariances were moved towards the shared one, and towards a sphere."""
        self._check_classes()
        family = gaussian_of(self.model_)
        return (1.0 if family.shape == "EEE" else family.tie), family.sphere
