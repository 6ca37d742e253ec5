"""Mixtures of Gaussians: clusters of different means, covariances and sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, check_random_state

from deciban import collect, em, expect
from deciban._typing import Array, Floats
from deciban.algebra import Stats
from deciban.components import MixtureModel
from deciban.errors import warn
from deciban.estimators import attributes
from deciban.estimators.base import Estimator, checked_weights
from deciban.estimators.gaussians.starts import em_settings, filled_with_means, first_values, seeded
from deciban.estimators.validation import generator
from deciban.families import MultivariateGaussian
from deciban.families.covariance import ALIASES, SHAPES, parameters
from deciban.families.multivariate_gaussian import MultivariateParams
from deciban.families.roots import roots
from deciban.joint import Block, Joint, Model
from deciban.learner import AS_LABELLED, Hidden
from deciban.matrix import MAX_VALUE, raise_overflow, value_range
from deciban.readers.numbers import leading_mean
from deciban.reading.labels import Labels
from deciban.schema import Columns, Schema
from deciban.show import progress

SAVED_STATE = ("dtype_", "converged_", "n_iter_", "lower_bound_", "lower_bounds_")  # saved with the model


class GaussianMixture(Estimator):
    """A mixture of Gaussians, p(x) = Σ_m π_m N(x; μ_m, Σ_m), learned by EM (S16).

    Takes scikit-learn's parameters and has its attributes; unlike it, takes weights and missing values, learns in
    batches, merges, and has all fourteen covariance shapes. A component that collapses is regularised by `reg_covar`,
    or if that is 0 by one row's worth of the covariance common to all components.

    Parameters
    ----------
    n_components : int, default=1
    covariance_type : str, default="full"
        "full", "tied", "diag", "spherical", or another shape of `GaussianDiscriminant`.
    tol : float, default=1e-3
        EM stops when a step gains less than this in log-likelihood per row.
    reg_covar : float, default=1e-6
        Added to every variance.
    max_iter, n_init : int, default=100, 1
        Steps of EM, and starts, the best of which is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="kmeans"
    weights_init, means_init, precisions_init : array-like, default=None
        Where EM starts.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Continue from the last fit.
    verbose, verbose_interval : int, default=0, 10
        Print every `verbose_interval` steps. A terminal always shows progress.
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    weights_, means_, covariances_, precisions_, precisions_cholesky_, converged_, n_iter_, lower_bound_,
    lower_bounds_ : as in scikit-learn
    em_ : em.Learned
        The course of the log-likelihood.

    Examples
    --------
    >>> from deciban import GaussianMixture
    >>> X = [[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]]
    >>> model = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> sorted(model.means_.round().tolist())
    [[1.0, 2.0], [10.0, 2.0]]
    """

    _sparse: ClassVar[bool] = False
    _needs_labels: ClassVar[bool] = False
    _keeps_dtype: ClassVar[bool] = True
    _first_batch_on_engine: ClassVar[bool] = False
    _may_differ: ClassVar[tuple[str, ...]] = (
        *("n_jobs", "tol", "max_iter", "n_init", "init_params", "weights_init", "means_init", "precisions_init"),
        *("random_state", "warm_start", "verbose", "verbose_interval"),
    )
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({*ALIASES, *SHAPES})],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"kmeans", "random", "random_from_data", "k-means++"})],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_dense_numbers
    _em_settings = em_settings
    means_ = attributes.means

    # ------------------------------------------------------------------ learning

    def _read(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, **how: Any
    ) -> tuple[Array, Labels, Floats | None]:
        """Rows and weights; labels are ignored, and replaced by one class."""
        del y, how
        X = self._validated(X, reset=reset, least=2 if reset else 0)
        X = np.asarray(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64))
        labels = Labels(np.arange(1), np.zeros(len(X), dtype=np.int32))
        weight = None if sample_weight is None else checked_weights(sample_weight, len(X), reset)
        largest = max(np.abs(value_range(X)))
        if largest > MAX_VALUE:
            raise_overflow(X, Columns(X.shape[1], self._names()))
        if 0.0 < largest < 1.0 / MAX_VALUE:
            raise ValueError(f"the largest value is {largest:g}, which is too small to square: use another unit")
        if weight is not None:  # rows of weight zero do not count
            X, labels, weight = X[weight > 0], labels.take(weight > 0), weight[weight > 0]
        if reset and X.shape[0] < self.n_components:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {X.shape[0]}"
            )
        return X, labels, weight

    def _learned(
        self, X: Any, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> MixtureModel:
        """EM from `n_init` starts, the best of which is kept."""
        del labels, closed, hidden
        with progress("mixture") as watch:
            return self._best_of_starts(X, weight, watch)

    def _best_of_starts(self, X: Array, weight: Floats | None, watch: Any = lambda *_: None) -> MixtureModel:
        """EM from several starts, over rows that were already read."""
        warm = self.warm_start and self.__sklearn_is_fitted__() and self._fits_parameters(self.model_, X.shape[1])
        given = self._check_starts(X.shape[1])
        rng = check_random_state(self.random_state)

        def attempt(i: int) -> em.Learned:
            start = self.model_ if warm else self._start_model(X, weight, rng, given)
            return self._run_em(X, start, weight, i, watch)

        best = em.best_of(partial(attempt, i) for i in range(1 if warm else self.n_init))
        if not best.converged and not best.interrupted and self.max_iter > 0:
            warn(
                "Best performing initialization did not converge. Try different init parameters, or increase "
                "max_iter, tol, or check for degenerate data.",
                ConvergenceWarning,
            )
        return self._set_results(best)

    def _set_results(self, best: em.Learned) -> MixtureModel:
        self.converged_, self.n_iter_ = best.converged, len(best.log_likelihood)
        self.lower_bounds_ = [total / best.rows for total in best.log_likelihood]
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf
        return MixtureModel(best.model.joint, best.model.stats, filled_by=best)

    def _previous_bound(self, start: Model) -> float:
        """The mean log-likelihood when EM stopped, if it continues from there; −∞ otherwise."""
        continues = start is getattr(self, "model_", None)
        return float(getattr(self, "lower_bound_", -np.inf)) if continues else -np.inf

    def _with_more_rows(self, X: Any, labels: Labels, weight: Floats | None) -> MixtureModel:
        """One step of EM that assigns rows under the model so far, and adds them to its sums."""
        if not self._fits_parameters(self.model_, self.n_features_in_):
            raise ValueError("n_components or covariance_type has changed since the last fit: call fit again")
        more: MixtureModel = self.model_.learn(self._reader().learn(X, self.model_, labels, weight), labels, weight)
        return more

    def _learned_on_engine(self, engine: Any, split: Any, hidden: Hidden, clusters: int | None) -> MixtureModel:
        from deciban.estimators.on_engines import learn_mixture

        del hidden, clusters
        self._validate_params()
        return self._set_results(learn_mixture(self, engine, split)[0])

    def _expected(self, X: Any, y: Any, weight: Any, hidden_weight: float) -> tuple[float, Stats]:
        del hidden_weight
        X, _, weight = self._read(X, y, weight, reset=False)
        return expect.expect([X], self.model_, None, None, weight, self.n_jobs)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from rows, then predict the component of each."""
        return self.fit(X, y, sample_weight).predict(X)

    def _check_model(self, model: Any) -> None:
        """Nothing to check: components have no prior parameter."""

    def _fits_parameters(self, model: Any, d: int) -> bool:
        """Whether a model has the family and size of the parameters."""
        family = model.joint.blocks[0].family
        # If EM took no step, the model is the start, without `reg_covar` in its variances.
        same = any(family == replace(self._family(), ridge=ridge) for ridge in (float(self.reg_covar), 0.0))
        return same and len(model.classes) == self.n_components and model.columns().size == d

    def _family(self) -> MultivariateGaussian:
        return MultivariateGaussian(covariance=self.covariance_type, ridge=float(self.reg_covar))

    def _rows_to_keep(self, given: Any, X: Any) -> None:
        """None: there are no classes, and so no prediction sets."""

    def _run_em(self, X: Array, start: Model, weight: Floats | None, attempt: int, watch: Any) -> em.Learned:
        if self.verbose:
            print(f"Initialization {attempt}")  # noqa: T201 - asked for

        def report(step: int, total: float) -> None:
            watch(step, total)
            if self.verbose and step % self.verbose_interval == 0:
                print(f"  Iteration {step}\t log-likelihood {total / rows:.5f} a row")  # noqa: T201

        rows = float(len(X) if weight is None else weight.sum())
        return em.learn(
            start,
            lambda model: expect.expect([X], model, None, None, weight, self.n_jobs),
            rows=rows,
            joint=Joint((Block(self._family(), 0.0),)),
            **self._em_settings(),
            before=self._previous_bound(start) * rows,
            watch=report,
        )

    def _start_model(
        self, X: Array, weight: Floats | None, rng: np.random.RandomState, given_covariance: Floats | None
    ) -> Model:
        """The start of EM: the sums of an initial assignment of rows, or of the given parameters."""
        k, d = self.n_components, X.shape[1]
        joint = Joint((Block(self._family(), 0.0),))
        given = (self.weights_init, self.means_init, self.precisions_init)
        if all(value is not None for value in given):
            centre = leading_mean(X, np.arange(len(X)), np.zeros(d))
            schema = Schema(np.arange(k), (Columns(d, self._names(), pivot=np.tile(centre, (k, 1))),))
            origin = np.zeros((k, d))
            params = MultivariateParams(origin, origin, np.zeros(k), np.zeros(d))
        else:
            origin = first_values(X)
            centred = filled_with_means(X - origin)
            shares = self._shares(centred, weight, rng)
            centre = origin + (shares.T @ centred) / np.maximum(shares.sum(axis=0), np.finfo(float).tiny)[:, None]
            schema = Schema(np.arange(k), (Columns(d, self._names(), pivot=np.ascontiguousarray(centre, dtype=float)),))
            filled = np.where(np.isnan(X), centred + origin, X) if np.isnan(X).any() else X
            model = Model(joint, collect.collect([filled], joint, schema, shares, weight, self.n_jobs))
            if all(value is None for value in given):
                return model
            params = model.params[0]
        weights = self.weights_init if self.weights_init is not None else model.stats.weight / model.stats.weight.sum()
        means = params.mean if self.means_init is None else np.asarray(self.means_init, dtype=np.float64)
        exact = MultivariateGaussian(covariance=self.covariance_type)
        covariance = params.covariance if given_covariance is None else given_covariance
        start = self._as_params(exact, means, covariance)
        rows = float(len(X) if weight is None else weight.sum())
        share = rows * np.asarray(weights, dtype=np.float64)
        sums = {
            name: np.broadcast_to(array, (k, *array.shape[1:])) * share.reshape(-1, *(1,) * (array.ndim - 1))
            for name, array in exact.expect(start, schema.blocks[0]).items()
        }
        return Model(Joint((Block(exact, 0.0),)), Stats(schema, share, (sums,)))

    def _as_params(self, family: MultivariateGaussian, mean: Floats, covariance: Floats) -> MultivariateParams:
        if family.aligned:
            return MultivariateParams(mean, covariance, np.ones(len(mean)), covariance.mean(axis=0))
        common = covariance.mean(axis=0)
        return MultivariateParams(
            mean, covariance, np.ones(len(mean)), common, roots(covariance, np.ones(len(covariance)), common, mean)
        )

    def _shares(self, X: Array, weight: Floats | None, rng: np.random.RandomState) -> Floats:
        """An initial assignment of rows to components, (n, k)."""
        n, k = len(X), self.n_components
        if self.init_params == "random":
            shares = rng.uniform(size=(n, k))
            return np.asarray(shares / shares.sum(axis=1, keepdims=True))
        shares = np.zeros((n, k))
        if self.init_params == "kmeans":
            labels = KMeans(n_clusters=k, n_init=1, random_state=rng).fit(X, sample_weight=weight).labels_
            shares[np.arange(n), labels] = 1.0
        elif self.init_params == "k-means++":
            shares[kmeans_plusplus(X, k, sample_weight=weight, random_state=rng)[1], np.arange(k)] = 1.0
        else:
            weighted_rows = np.arange(n) if weight is None else np.flatnonzero(weight)
            shares[rng.choice(weighted_rows, size=k, replace=len(weighted_rows) < k), np.arange(k)] = 1.0
        return shares

    # ------------------------------------------------------------------ given starts

    def _check_starts(self, d: int) -> Floats | None:
        """Check the given starts; returns the covariances among them."""
        k = self.n_components
        if self.weights_init is not None:
            weights = check_array(self.weights_init, dtype=np.float64, ensure_2d=False)
            check_shape(weights, (k,), "weights")
            if (weights < 0).any() or (weights > 1).any():
                raise ValueError(
                    "The parameter 'weights' should be in the range [0, 1], but got max value "
                    f"{np.min(weights):.5f}, min value {np.max(weights):.5f}"
                )
            if not np.allclose(weights.sum(), 1.0, atol=1e-6):
                raise ValueError(
                    f"The parameter 'weights' should be normalized, but got sum(weights) = {np.sum(weights):.5f}"
                )
        if self.means_init is not None:
            check_shape(check_array(self.means_init, dtype=np.float64, ensure_2d=False), (k, d), "means")
        return None if self.precisions_init is None else self._from_precisions(d)

    def _from_precisions(self, d: int) -> Floats:
        """Covariances from `precisions_init`: (m, d, d), or (k, d) variances."""
        k, kind = self.n_components, self.covariance_type
        shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}.get(kind)
        if shape is None:
            raise ValueError(f"precisions_init needs 'full', 'tied', 'diag' or 'spherical', not {kind!r}")
        given = check_array(self.precisions_init, dtype=np.float64, ensure_2d=False, allow_nd=kind == "full")
        check_shape(given, shape, f"{kind} precision")
        if kind in ("full", "tied"):
            matrices = given.reshape(-1, d, d)
            if not np.allclose(matrices, matrices.transpose(0, 2, 1)) or (np.linalg.eigvalsh(matrices) <= 0).any():
                raise ValueError(f"'{kind} precision' should be symmetric, positive-definite")
            return np.linalg.inv(matrices)
        if (given <= 0).any():
            raise ValueError(f"'{kind} precision' should be positive")
        return np.asarray(1.0 / (given if kind == "diag" else np.tile(given[:, None], (1, d))))

    # ------------------------------------------------------------------ predicting

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The mean log-likelihood of rows."""
        del y
        return float(np.average(self.score_samples(X), weights=sample_weight))

    def _cast(self, values: Floats) -> Array:
        return attributes.as_learned(self, values)

    def sample(self, n_samples: int = 1) -> tuple[Array, Array]:
        """Draw rows and the components they come from, component by component."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample.")
        blocks, codes = self.model_.sample(n_samples, generator(self.random_state))
        order = np.argsort(codes, kind="stable")
        return blocks[0][order], codes[order]

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the model on rows: lower is better."""
        return -2.0 * self.score(X) * len(X) + self._n_parameters() * float(np.log(len(X)))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion of the model on rows: lower is better."""
        return -2.0 * self.score(X) * len(X) + 2.0 * self._n_parameters()

    def _n_parameters(self) -> int:
        k, d = self.n_components, self.n_features_in_
        return parameters(self.covariance_type, k, d) + k * d + k - 1

    # ------------------------------------------------------------------ inspection and saving

    @property
    def weights_(self) -> Array:
        """π: the share of every component."""
        check_is_fitted(self)
        return attributes.as_learned(self, np.exp(self.model_.log_prior))

    @property
    def covariances_(self) -> Array:
        """Covariances in scikit-learn's form: full (k, d, d), tied (d, d), diag (k, d), spherical (k,)."""
        covariance = attributes.gaussian_params(self).covariance
        if self.covariance_type == "tied":
            return attributes.as_learned(self, covariance[0])
        return attributes.as_learned(self, covariance[:, 0] if self.covariance_type == "spherical" else covariance)

    @property
    def precisions_(self) -> Array:
        """Inverse covariances, in the form of `covariances_`."""
        roots = attributes.gaussian_params(self).roots
        if roots is None:
            return attributes.as_learned(self, self._precision_factors() ** 2)
        inverse = roots.root.swapaxes(-1, -2) @ roots.root
        return attributes.as_learned(self, inverse[0] if self.covariance_type == "tied" else inverse)

    @property
    def precisions_cholesky_(self) -> Array:
        """Upper triangular P with P Pᵀ = Σ⁻¹, or 1/σ."""
        return attributes.as_learned(self, self._precision_factors())

    def _precision_factors(self) -> Floats:
        params = attributes.gaussian_params(self)
        if params.roots is None:
            deviation = 1.0 / np.sqrt(params.covariance)
            return deviation[:, 0] if self.covariance_type == "spherical" else deviation
        try:
            factor = np.linalg.inv(np.linalg.cholesky(params.covariance)).swapaxes(-1, -2)
        except np.linalg.LinAlgError:  # singular: there is a root, but no triangular one
            factor = params.roots.root.swapaxes(-1, -2)
        return np.asarray(factor[0] if self.covariance_type == "tied" else factor)

    def _check_savable(self) -> None:
        if not self._fits_parameters(self.model_, self.n_features_in_):
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")

    def _parameters_out(self) -> dict[str, Any]:
        stored = super()._parameters_out()
        for name in ("weights_init", "means_init", "precisions_init"):
            stored[name] = None if stored[name] is None else np.asarray(stored[name], dtype=np.float64)
        return seeded(stored)

    def _about(self) -> dict[str, Any]:
        state = {
            "dtype_": self.dtype_,
            "converged_": bool(getattr(self, "converged_", False)),
            "n_iter_": int(getattr(self, "n_iter_", 0)),
            "lower_bound_": float(getattr(self, "lower_bound_", -np.inf)),
            "lower_bounds_": [float(v) for v in getattr(self, "lower_bounds_", [])],
        }
        return super()._about() | {"state": state}

    def _restored(self, model: Any, about: dict[str, Any]) -> MixtureModel:
        self._validate_params()
        state = self._restored_state(model, about, SAVED_STATE)
        if set(state) != set(SAVED_STATE):
            raise ValueError(f"its state lacks {sorted(set(SAVED_STATE) - set(state))}")
        bounds = state["lower_bounds_"]
        numbers = [state["lower_bound_"], state["n_iter_"], *(bounds if isinstance(bounds, list) else [None])]
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError("its trace of likelihoods is not a list of numbers")
        if self.n_components != len(model.classes):
            raise ValueError("its sums do not fit its number of components")
        if not self._fits_parameters(model, self.n_features_in_):
            raise ValueError("its family does not match the model")
        self.__dict__.update(state)
        return MixtureModel(model.joint, model.stats)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "density_estimator", None
        tags.target_tags.required = False
        return tags


def check_shape(array: Array, shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise ValueError(f"The parameter '{name}' should have the shape of {shape}, but got {array.shape}")
