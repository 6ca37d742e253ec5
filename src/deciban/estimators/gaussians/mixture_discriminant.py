"""Classes that are mixtures of Gaussians."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, check_random_state

from deciban import collect, em, score
from deciban._typing import Array, Floats
from deciban.algebra import Stats
from deciban.choices import SPHERES, TIES, between, chosen_from, gaussian_of
from deciban.components import ComponentModel, grouped, side_by_side
from deciban.corollaries.explain import strongest
from deciban.corollaries.leave_one_out import MAX_COMPARED_ROWS, MAX_ROWS_WITHOUT_DOWNDATES, random_subset
from deciban.corollaries.linear_form import LinearForm
from deciban.errors import DecibanError, InterruptedWarning, warn
from deciban.estimators import attributes, parameters
from deciban.estimators.base import Estimator
from deciban.estimators.gaussians.mixture import GaussianMixture
from deciban.estimators.gaussians.starts import em_settings, seeded
from deciban.families import Family, MultivariateGaussian
from deciban.families.covariance import ALIASES, SHAPES
from deciban.families.covariance import parameters as count_parameters
from deciban.joint import Block, Joint, Model
from deciban.learner import AS_LABELLED, Hidden
from deciban.matrix import MAX_VALUE, raise_overflow, value_range
from deciban.reading.entries import Entries
from deciban.reading.labels import Labels
from deciban.schema import Columns, union_classes
from deciban.show import Table, plain, progress

MIN_GAIN_NATS = 3.0  # over all rows, for one more component: repeated choices would otherwise fit noise


class MixtureDiscriminant(Estimator):
    """Mixture discriminant analysis: every class is a mixture of Gaussians, x | y ~ Σ_m π_m N(μ_m, Σ_m).

    Labels are constraints: a row of a class may belong to that class's components, a row without a label to any. The
    same EM as in a mixture learns them all (Hastie & Tibshirani 1996).

    Parameters
    ----------
    components : int, {class: int}, "bic" or "loo", default="bic"
        The number of components of a class. "bic" chooses for each class by the Bayesian information criterion; "loo"
        by the log loss of leave-one-out with each row's component fixed, adding components while that falls.
    max_components : int, default=6
        The largest number that "bic" and "loo" try.
    covariance : str, default="full"
        The components' covariances, by the names that `GaussianDiscriminant` takes (except "bic" and "loo").
    shrinkage : "loo", number, pair of numbers or None, default="loo"
        How far the components' covariances move towards a shared one and towards a sphere, as in
        `GaussianDiscriminant`; "loo" chooses by leave-one-out with each row's component fixed. Shapes other than "full"
        and "tied" take a number or None.
    predictive : bool, default=True
        Integrate means and covariances out: Student-t, less extreme if a component has few rows. With "full",
        "tied" and "diag".
    reg_covar : float, default=1e-6
        Added to every variance, while EM runs and if `shrinkage` is not "loo".
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="k-means++"
    n_init : int, default=3
        Starts of each class's components, the best of which is kept.
    max_iter : int, default=200
    tol : float, default=1e-4
        EM stops when a step gains less than this in log-likelihood per row.
    priors : array-like of shape (k,), default=None
        The class prior, if it is known; otherwise n_y/n.
    random_state : int, RandomState or None, default=0
    n_jobs : int, default=None
        Number of threads; None uses all cores for data large enough to benefit.

    Attributes
    ----------
    classes_, class_count_, priors_ : arrays
    n_components_ : dict
        The number of components of each class.
    means_, covariances_, weights_ : arrays
        Of the components, whose classes are `component_classes_`.
    em_ : em.Learned
        The course of the log-likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from deciban import MixtureDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.5, (60, 2)) for m in (-3, 3, 0)])
    >>> y = np.repeat(["outside", "outside", "inside"], 60)
    >>> model = MixtureDiscriminant().fit(X, y)
    >>> model.n_components_, model.predict([[-3, -3], [0, 0], [3, 3]]).tolist()
    ({'inside': 1, 'outside': 2}, ['outside', 'inside', 'outside'])
    """

    _prior_parameter: ClassVar[str] = "priors"
    _keeps_dtype: ClassVar[bool] = True
    _first_batch_on_engine: ClassVar[bool] = False
    _may_differ: ClassVar[tuple[str, ...]] = (
        *("n_jobs", "components", "max_components", "shrinkage", "predictive", "init_params", "n_init", "max_iter"),
        *("tol", "random_state"),
    )
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "components": [Interval(Integral, 1, None, closed="left"), dict, StrOptions({"bic", "loo"})],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "covariance": [StrOptions({*ALIASES, *SHAPES})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"loo"}), "array-like", None],
        "predictive": ["boolean"],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "init_params": [StrOptions({"kmeans", "random", "random_from_data", "k-means++"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "priors": ["array-like", None],
        "random_state": ["random_state"],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        components: Any = "bic",
        max_components: int = 6,
        covariance: str = "full",
        shrinkage: Any = "loo",
        predictive: bool = True,
        reg_covar: float = 1e-6,
        init_params: str = "k-means++",
        n_init: int = 3,
        max_iter: int = 200,
        tol: float = 1e-4,
        priors: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.components = components
        self.max_components = max_components
        self.covariance = covariance
        self.shrinkage = shrinkage
        self.predictive = predictive
        self.reg_covar = reg_covar
        self.init_params = init_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.priors = priors
        self.random_state = random_state
        self.n_jobs = n_jobs

    _reader = attributes.reader_of_dense_numbers
    class_prior_ = priors_ = attributes.class_prior
    means_ = attributes.means
    covariances_ = attributes.covariances
    decision_function = attributes.decision_function
    _warn_about = attributes.warn_of_gaussian
    _em_settings = em_settings

    def _family(self) -> MultivariateGaussian:
        tie, sphere = parameters.as_pair(self.shrinkage)
        shape = ALIASES.get(self.covariance, self.covariance)
        return MultivariateGaussian(
            covariance=self.covariance,
            tie=tie,
            sphere=sphere,
            ridge=float(self.reg_covar),
            predictive=bool(self.predictive) and shape in ("EEE", "VVV", "VVI"),
        )

    def _chooses(self) -> bool:
        regular = ALIASES.get(self.covariance, self.covariance) in ("EEE", "VVV")
        return isinstance(self.shrinkage, str) and self.shrinkage == "loo" and regular

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parameters.check_priors(self.priors)
        parameters.as_pair(self.shrinkage)

    def _check_model(self, model: Any) -> None:
        self._check_priors(len(model.classes))

    def _check_priors(self, k: int) -> None:
        if self.priors is not None and len(np.asarray(self.priors)) != k:
            raise ValueError(
                f"Number of priors must match number of classes: {len(np.asarray(self.priors))} priors, {k} classes"
            )

    def _fits_parameters(self, model: Any) -> bool:
        """Whether a model's distribution is one of the parameters."""
        family, own = model.joint.blocks[0].family, self._family()
        return chosen_from(replace(own, ridge=0.0), family) if self._chooses() else bool(family == own)

    # ------------------------------------------------------------------ learning

    def _learned(
        self, X: Any, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> ComponentModel:
        """EM for every class separately, then over all components; then the shrinkage of their covariances."""
        if labels.soft is not None:
            raise ValueError("a mixture needs one label per row, not a matrix of weights")
        if hidden.clusters:
            raise ValueError("to find clusters without labels, use GaussianMixture")
        if len(labels.classes) == 0:
            raise ValueError("every label is missing: label at least one row of each class")
        self.__dict__.pop("model_", None)
        X = self._reader().floats(X)
        self._check_priors(len(labels.classes))
        if X.size and not max(np.abs(value_range(X))) <= MAX_VALUE:
            raise_overflow(X, Columns(X.shape[1], self._names()))
        codes = labels.codes
        if weight is not None and not weight.all():
            weighted_rows = np.flatnonzero(weight)
            X, codes, weight = X[weighted_rows], codes[weighted_rows], weight[weighted_rows]
        rng = check_random_state(self.random_state)
        with progress("mixtures") as watch:
            parts = self._choose_parts(X, codes, labels.classes, weight, rng)
            start = self._component_model(
                side_by_side(parts.values()), owners(parts), labels.classes, closed, self._family()
            )
            rows = Entries([X], start.schema.blocks)
            try:
                model = start.fill(rows, codes, weight, hidden, self.n_jobs, watch, **self._em_settings())
            except KeyboardInterrupt:  # before its first step: every class has components already
                warn("interrupted: the components are those fitted to each class separately", InterruptedWarning)
                total = float(len(codes) if weight is None else weight.sum())
                learned = em.Learned(start.parts, [], False, total, interrupted=True)
                model = replace(start, unlabelled=int((codes < 0).sum()), filled_by=learned)
        course = model.filled_by
        assert course is not None
        if not course.converged and not course.interrupted:
            warn("EM did not converge: raise max_iter or tol", ConvergenceWarning)
        return self._shrunk(model, X, codes, weight)

    def _component_model(
        self, stats: Stats, owner: Array, classes: Array, closed: bool, family: Family
    ) -> ComponentModel:
        """The model of components with these sums, under the parameters."""
        return ComponentModel.of(
            Joint((Block(family, 0.0),)),
            stats,
            owner,
            classes,
            closed=closed,
            class_prior="empirical" if self.priors is None else parameters.normalised_priors(self.priors),
            climbs=self._plain_joint(),
        )

    def _shrunk(self, model: ComponentModel, X: Array, codes: Array, weight: Floats | None) -> ComponentModel:
        """The model with the shrinkage (tie, sphere) of least leave-one-out log loss, each row's component fixed."""
        family = self._family()
        if self._chooses():
            units = family.units(model.stats.sums[0], model.columns())
            ties = (0.0,) if self.covariance in ("tied", "EEE") else TIES
            candidates = [
                replace(family, tie=tie, sphere=sphere, ridge=0.0, scale=units) for sphere in SPHERES for tie in ties
            ]
            em_model = Model(self._plain_joint(), model.stats)
            family = candidates[int(np.argmin(self._held_losses(X, codes, weight, em_model, model.owner, candidates)))]
        shrunk = self._component_model(model.stats, model.owner, model.classes, model.closed, family)
        return replace(shrunk, unlabelled=model.unlabelled, filled_by=model.filled_by)

    def _plain_joint(self) -> Joint:
        """The distribution while EM runs: parameters plugged in, without shrinkage."""
        return Joint((Block(MultivariateGaussian(covariance=self.covariance, ridge=float(self.reg_covar)), 0.0),))

    def _choose_parts(
        self, X: Array, codes: Array, classes: Array, weight: Floats | None, rng: np.random.RandomState
    ) -> dict[int, Stats]:
        """Every class's components, as sums; a class without any weight has none."""
        parts: dict[int, Stats] = {}
        counts, interrupted = self._components_per_class(classes), False
        for c in range(len(classes)):
            of_class = codes == c if weight is None else (codes == c) & (weight > 0)
            if not of_class.any():
                continue
            limit = 1 if interrupted else self.max_components
            candidates: Any = range(1, limit + 1) if counts[c] is None else (counts[c],)
            best: tuple[float, Stats] | None = None
            for m in candidates:
                if m > int(of_class.sum()):
                    break
                learned = self._try_class(
                    X[of_class], None if weight is None else weight[of_class], m, rng, best is not None
                )
                if learned is None:
                    interrupted = True
                    break
                score = self._bic(learned, m)
                if best is None or score < best[0]:
                    best = score, learned.model.stats
                if learned.interrupted:
                    interrupted = True
                    break
            if best is None:
                raise ValueError(
                    f"class {plain(classes[c])!r} has {int(of_class.sum())} rows, fewer than its components"
                )
            parts[c] = best[1]
        chooses = self.components == "loo" and not interrupted
        return self._choose_by_loo(X, codes, weight, rng, parts) if chooses else parts

    def _components_per_class(self, classes: Array) -> list[int | None]:
        """The number of components of each class: as given, or None to choose."""
        if isinstance(self.components, dict):
            known = {plain(label) for label in classes}
            extra = [label for label in self.components if label not in known]
            if extra:
                raise ValueError(f"components names classes that do not exist: {extra}")
            counts = [self.components.get(plain(label), 1) for label in classes]
            if not all(isinstance(m, int | np.integer) and m >= 1 for m in counts):
                raise ValueError(f"components must be whole numbers of at least 1, got {self.components!r}")
            return [int(m) for m in counts]
        if isinstance(self.components, str):
            return [1 if self.components == "loo" else None] * len(classes)
        return [int(self.components)] * len(classes)

    def _try_class(
        self, X: Array, weight: Floats | None, m: int, rng: np.random.RandomState, has_others: bool
    ) -> em.Learned | None:
        """m components for a class; None if interrupted (Ctrl-C) when the class already has others (`has_others`)."""
        try:
            return self._fit_class(X, weight, m, rng)
        except KeyboardInterrupt:
            if not has_others:
                raise
            warn("interrupted while trying more components: those found so far are kept", InterruptedWarning)
            return None

    def _fit_class(self, X: Array, weight: Floats | None, m: int, rng: np.random.RandomState) -> em.Learned:
        mixture = GaussianMixture(
            n_components=m,
            covariance_type=self.covariance,
            reg_covar=self.reg_covar,
            init_params=self.init_params if m > 1 else "random",
            n_init=self.n_init if m > 1 else 1,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=rng,
            n_jobs=self.n_jobs,
        )
        if self._names() is not None:
            mixture.feature_names_in_ = self.feature_names_in_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # only the final EM over all classes must converge
            learned = mixture._best_of_starts(X, weight).filled_by
            assert learned is not None
            return learned

    def _bic(self, learned: em.Learned, m: int) -> float:
        d = learned.model.columns().size
        if m > 1 and collapsed(learned.model):
            return float("inf")  # an unbounded likelihood must not win
        n_parameters = count_parameters(self.covariance, m, d) + m * d + m - 1
        return -2.0 * learned.log_likelihood[-1] + float(np.log(max(learned.rows, 1.0))) * n_parameters

    def _choose_by_loo(
        self, X: Array, codes: Array, weight: Floats | None, rng: np.random.RandomState, parts: dict[int, Stats]
    ) -> dict[int, Stats]:
        """Add components to one class after another while the leave-one-out log loss falls."""
        least = self._held_loss(X, codes, weight, parts)
        for c in parts:
            of_class = codes == c if weight is None else (codes == c) & (weight > 0)
            for m in range(2, self.max_components + 1):
                if m > int(of_class.sum()):
                    break
                learned = self._try_class(X[of_class], None if weight is None else weight[of_class], m, rng, True)
                if learned is None or learned.interrupted:
                    return parts
                candidate = {**parts, c: learned.model.stats}
                loss = self._held_loss(X, codes, weight, candidate)
                if not loss < least - MIN_GAIN_NATS / max(1, (codes >= 0).sum()):
                    break
                least, parts = loss, candidate
        return parts

    def _held_loss(self, X: Array, codes: Array, weight: Floats | None, parts: dict[int, Stats]) -> float:
        """The log loss of leave-one-out with every row's component fixed."""
        model = Model(self._plain_joint(), side_by_side(parts.values()))
        return self._held_losses(X, codes, weight, model, owners(parts), [model.joint.blocks[0].family])[0]

    def _held_losses(
        self, X: Array, codes: Array, weight: Floats | None, model: Model, owner: Array, families: Sequence[Family]
    ) -> list[float]:
        """The same for several distributions of the components."""
        rows = np.flatnonzero(np.isin(codes, owner) & ~np.isnan(X).any(axis=1))
        log_joint = score.apply([X[rows]], model, "log_joint", self.n_jobs)
        log_joint[owner[None, :] != codes[rows][:, None]] = -np.inf
        component = log_joint.argmax(axis=1).astype(np.int32)
        row_weight = None if weight is None else weight[rows]
        stats = collect.collect([X[rows]], model.joint, model.schema, component, row_weight, self.n_jobs)
        quick = all(family.downdates(0.0) for family in families)
        sampled = random_subset(np.arange(len(rows)), MAX_COMPARED_ROWS if quick else MAX_ROWS_WITHOUT_DOWNDATES)
        rows, component, row_weight = (
            rows[sampled],
            component[sampled],
            None if row_weight is None else row_weight[sampled],
        )
        losses = []
        for family in families:
            model = Model(Joint((Block(family, 0.0),)), stats)
            log_joint_left_out = score.leave_one_out([X[rows]], model, component, row_weight, self.n_jobs)
            own_log_joint = grouped(log_joint_left_out, owner, int(codes.max()) + 1)[np.arange(len(rows)), codes[rows]]
            own_log_joint = np.maximum(np.nan_to_num(own_log_joint, nan=-np.inf), np.log(np.finfo(float).tiny))
            losses.append(float(-np.average(own_log_joint, weights=row_weight)) if len(rows) else 0.0)
        return losses

    def _with_more_rows(self, X: Any, labels: Labels, weight: Floats | None) -> ComponentModel:
        """One step of EM that assigns each row to its class's components; a new class has one component."""
        model: ComponentModel = self.model_
        if not self._fits_parameters(model):
            raise ValueError(
                "a parameter that determines the sums has changed since the last batch: call fit to start again"
            )
        if labels.soft is not None:
            raise DecibanError("partial_fit takes only labelled rows")
        all_classes = union_classes(model.classes, labels.classes)
        rows, codes = self._reader().score(X, model), labels.among(all_classes)
        stats, owner = model.stats, np.searchsorted(all_classes, model.classes)[model.owner]
        has_weight = np.ones(len(codes), dtype=bool) if weight is None else weight > 0
        codes = np.where(has_weight, codes, -1)
        for c in np.setdiff1d(np.unique(codes[has_weight]), owner):
            of_class, rng = codes == c, check_random_state(self.random_state)
            learned = self._fit_class(rows.data[0][of_class], None if weight is None else weight[of_class], 1, rng)
            stats, owner = side_by_side([stats, learned.model.stats]), np.append(owner, c)
            codes = np.where(of_class, -1, codes)
        family = model.joint.blocks[0].family
        grown = self._component_model(stats, owner, all_classes, model.closed, family)
        known = np.flatnonzero(codes >= 0)
        if len(known):
            weights = None if weight is None else weight[known]
            grown = grown.with_stats(stats + grown.expected(rows.take(known), codes[known], weights, self.n_jobs)[1])
        self._check_model(grown)
        return replace(grown, unlabelled=model.unlabelled)

    def _merged_with(self, other: Any) -> ComponentModel:
        """The merged model, with a distribution between those chosen for each, by how much each has learned."""
        both: ComponentModel = self.model_ + other.model_
        family = between(self.model_.parts, other.model_.parts)
        return self._component_model(both.stats, both.owner, both.classes, both.closed, family)

    # ------------------------------------------------------------------ learning on engines

    def _learned_on_engine(self, engine: Any, split: Any, hidden: Hidden, clusters: int | None) -> ComponentModel:
        from deciban.estimators.on_engines import learn_mixture

        if clusters is not None:
            raise ValueError("to find clusters without labels, use GaussianMixture")
        self._check_parameters()
        learned, unlabelled, (X, y, weight) = learn_mixture(self, engine, split, hidden.weight)
        model = replace(self.model_.with_stats(learned.model.stats), unlabelled=unlabelled, filled_by=learned)
        X, labels, weight = self._read(X, y, weight, reset=False)
        rows, codes = self._reader().floats(X), labels.among(self.classes_)
        if weight is not None and not weight.all():
            weighted_rows = np.flatnonzero(weight)
            rows, codes, weight = rows[weighted_rows], codes[weighted_rows], weight[weighted_rows]
        return self._shrunk(model, rows, codes, weight)

    def _expected(self, X: Any, y: Any, weight: Any, hidden_weight: float) -> tuple[float, Stats]:
        X, labels, weight = self._read(X, y, weight, reset=False, least=0)
        unknown = np.setdiff1d(labels.classes, self.classes_)
        if len(unknown):
            raise DecibanError(
                f"class {plain(unknown[0])!r} has no row in the sample on which components are fitted. If it is too "
                f"rare for a mixture, leave its rows out; otherwise shuffle the rows"
            )
        rows, codes = self._reader().score(X, self.model_), labels.among(self.classes_)
        weights = np.where(codes < 0, hidden_weight, 1.0) * (1.0 if weight is None else weight)
        weighted_rows = np.flatnonzero(weights)
        expected: tuple[float, Stats] = self.model_.expected(
            rows.take(weighted_rows), codes[weighted_rows], weights[weighted_rows], self.n_jobs
        )
        return expected

    # ------------------------------------------------------------------ predicting

    def top_evidence(self, n: int = 10, names: Any = None) -> Table:
        """The strongest evidence for each component against the others, in decibans."""
        self._check_classes()
        model, rows = self._model_with_names(names), []
        for i, c in enumerate(model.owner):
            label = f"{plain(model.classes[c])} #{(model.owner[:i] == c).sum() + 1}"
            rows += [(label, name, db) for name, db in strongest(model.parts, i, n)]
        return Table("strongest evidence for each component", ("component", "item", "dB"), rows)

    def linear_form(self) -> LinearForm:
        """Raises an error: a class of several components has no linear form."""
        raise TypeError("a class with several components is not linear in x")

    # ------------------------------------------------------------------ inspection and saving

    @property
    def owner_(self) -> Array:
        """The class code of every component."""
        check_is_fitted(self)
        return np.array(self.model_.owner)

    @property
    def weights_(self) -> Array:
        """The share of every component in its class."""
        check_is_fitted(self)
        prior, owner = np.exp(self.model_.parts.log_prior), self.model_.owner
        total = np.bincount(owner, weights=prior, minlength=len(self.classes_))[owner]
        return attributes.as_learned(self, prior / np.where(total > 0, total, 1.0))

    @property
    def n_iter_(self) -> int:
        """The number of steps of EM."""
        return len(self.em_.log_likelihood)

    @property
    def shrinkage_(self) -> tuple[float, float | str]:
        """(tie, sphere): how far covariances were moved towards the shared one, and towards a sphere."""
        check_is_fitted(self)
        family = gaussian_of(self.model_.parts)
        return family.tie, family.sphere

    @property
    def component_classes_(self) -> Array:
        """The class of every component."""
        return np.asarray(self.classes_[self.owner_])

    @property
    def n_components_(self) -> dict[Any, int]:
        """The number of components of each class."""
        count = np.bincount(self.owner_, minlength=len(self.classes_))
        return {plain(label): int(m) for label, m in zip(self.classes_, count, strict=True)}

    def _check_savable(self) -> None:
        if not self._fits_parameters(self.model_):
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")

    def _parameters_out(self) -> dict[str, Any]:
        return seeded(super()._parameters_out())

    def _about(self) -> dict[str, Any]:
        state = {"dtype_": self.dtype_} | ({"n_unlabelled_": self.n_unlabelled_} if self.n_unlabelled_ else {})
        return super()._about() | {"state": state}

    def _restored(self, model: Any, about: dict[str, Any]) -> ComponentModel:
        self._check_parameters()
        state = self._restored_state(model, about, ("dtype_", "n_unlabelled_"))
        unlabelled = state.pop("n_unlabelled_", 0)
        self.__dict__.update(state)
        if not self._fits_parameters(model):
            raise ValueError("its family does not match the model")
        self._check_model(model)
        restored = self._component_model(
            model.stats, model.owner, model.classes, model.closed, model.joint.blocks[0].family
        )
        return replace(restored, unlabelled=int(unlabelled))


def collapsed(model: Model) -> bool:
    """Whether a component has too few rows, or hardly any variance in some direction, relative to the class."""
    params = model.params[0]
    if (params.weight < model.columns().size + 1).any():
        return True
    within = (
        params.covariance if params.roots is not None else params.covariance[:, :, None] * np.eye(params.mean.shape[1])
    )
    share = np.exp(model.log_prior)
    deviation = params.mean - share @ params.mean
    whole = (
        np.average(within, axis=0, weights=share if len(within) > 1 else None)
        + (share[:, None] * deviation).T @ deviation
    )
    units = np.sqrt(np.outer(np.diagonal(whole), np.diagonal(whole)))
    units = np.where(units > 0, units, 1.0)
    return bool(np.linalg.eigvalsh(within / units).min() < 1e-4 * np.linalg.eigvalsh(whole / units).min())


def owners(parts: dict[int, Stats]) -> Array:
    """The class code of every component."""
    return np.repeat(np.array(list(parts), dtype=np.int64), [len(part.classes) for part in parts.values()])
