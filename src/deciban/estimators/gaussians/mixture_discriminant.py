"""Classes that are mixtures of Gaussians."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, check_random_state

from deciban import collect, em, expect, score
from deciban._typing import Array, Floats, Matrix
from deciban.algebra import Stats
from deciban.components import explain_components, grouped
from deciban.corollaries.explain import strongest
from deciban.corollaries.leave_one_out import ENOUGH, FEW, some_of
from deciban.corollaries.linear_form import LinearForm
from deciban.errors import DecibanError, InterruptedWarning, warn
from deciban.estimators.answers import generator
from deciban.estimators.base import HowHidden
from deciban.estimators.gaussians.discriminant import SPHERES, TIES, Discriminant, as_pair, between, chosen_from
from deciban.estimators.gaussians.mixture import FIXED, GaussianMixture
from deciban.families import Family, MultivariateGaussian
from deciban.families.covariance import ALIASES, SHAPES, parameters
from deciban.joint import Block, Joint, Model
from deciban.matrix import LARGEST, complain, value_range
from deciban.reading.labels import Labels
from deciban.results.evidence import Evidence
from deciban.schema import Columns, Schema, union_classes
from deciban.show import Table, plain, progress

Self = TypeVar("Self", bound="MixtureDiscriminant")

KEPT = ("dtype_", "owner_", "labels_", "closed_")
MARGIN = 3.0  # nats over all rows: what one more component must gain, or choosing often enough is fitting noise


class MixtureDiscriminant(Discriminant):
    """Mixture discriminant analysis: every class is a mixture of Gaussians, x | y ~ Σ_m π_m N(μ_m, Σ_m).

    Labels are constraints: a row of a class may belong to that class's components, a row without a label to any. The
    same EM as in a mixture learns them all (Hastie & Tibshirani 1996).

    Parameters
    ----------
    components : int, {class: int}, "bic" or "loo", default="bic"
        How many components a class has. "bic" chooses for each class by the Bayesian information criterion; "loo" by
        the log loss of leave-one-out with each row's component held, adding components while that falls.
    max_components : int, default=6
        As many as "bic" and "loo" try.
    covariance : str, default="full"
        The components' covariances, by the names that `GaussianDiscriminant` takes ("bic" and "loo" apart).
    shrinkage : "loo", number, pair of numbers or None, default="loo"
        How far the components' covariances move towards a shared one and towards a sphere, as in
        `GaussianDiscriminant`; "loo" chooses by leave-one-out with each row's component held. Shapes other than "full"
        and "tied" take a number or None.
    predictive : bool, default=True
        Integrate means and covariances out: Student-t, less sure of itself where a component has few rows. With "full",
        "tied" and "diag".
    reg_covar : float, default=1e-6
        Added to every variance, while EM runs and where `shrinkage` is not "loo".
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}, default="k-means++"
    n_init : int, default=3
        Starts of each class's components, the best of which is kept.
    max_iter : int, default=200
    tol : float, default=1e-4
        EM stops when a step gains less than this in log-likelihood a row.
    priors : array-like of shape (k,), default=None
        The class prior, if it is known; otherwise n_y/n.
    random_state : int, RandomState or None, default=0
    n_jobs : int, default=None
        Threads; None is all cores for data large enough to gain from them.

    Attributes
    ----------
    classes_, class_count_, priors_ : arrays
    n_components_ : dict
        How many components each class has.
    means_, covariances_, weights_ : arrays
        Of the components, whose classes are `component_classes_`.
    em_ : em.Learned
        The log-likelihood's way.

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

    owner_: Array  # the class code of every component
    labels_: Array  # the class labels
    closed_: bool  # whether these are all there can be

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

    def _family(self) -> Family:
        tie, sphere = as_pair(self.shrinkage)
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
        as_pair(self.shrinkage)

    def _law_is_ours(self, model: Model) -> bool:
        found, mine = model.joint.blocks[0].family, self._family()
        if not self._chooses():
            return found == mine
        assert isinstance(mine, MultivariateGaussian)
        return chosen_from(replace(mine, ridge=0.0), found)

    # ------------------------------------------------------------------ learning

    def _plain(self, X: Matrix) -> Matrix:
        return X.toarray() if hasattr(X, "toarray") else X

    def _start(
        self,
        X: Any,
        labels: Labels,
        classes: Array,
        closed: bool,
        weight: Floats | None,
        hidden: HowHidden | None = None,
    ) -> None:
        self.closed_ = closed  # classes that were declared and have no row yet have no component
        if labels.soft is not None:
            raise ValueError("a mixture needs one label a row, not a matrix of weights")
        hidden = hidden or HowHidden()
        if hidden.cluster:
            raise ValueError("to find clusters without labels, use GaussianMixture")
        if len(classes) == 0:
            raise ValueError("every label is missing: at least one row of each class needs one")
        self.dtype_ = "float32" if X.dtype == np.float32 else "float64"
        rows, codes = self._rows(X, Columns(X.shape[1])), labels.placed(classes).codes
        self._check_priors(len(classes))
        if rows.size and not max(np.abs(value_range(rows))) <= LARGEST:
            complain(rows, Columns(rows.shape[1], self._names()))
        for leftover in ("n_unlabelled_", "n_incomplete_", "em_"):
            self.__dict__.pop(leftover, None)
        (rows,), codes, weight = expect.that_weigh([rows], codes, weight)
        rng = check_random_state(self.random_state)
        with progress("mixtures") as watch:
            parts = self._choose_parts(rows, codes, classes, weight, rng)
            self.owner_, self.labels_ = owners(parts), classes
            each = np.where(codes < 0, hidden.weight, 1.0) * (1.0 if weight is None else weight)
            start = Model(self._plain_joint(), side_by_side(parts.values()))
            try:
                found = em.learn(
                    start,
                    lambda model: expect.expect([rows], model, codes, self._allowed(), each, self.n_jobs),
                    rows=float(each.sum()),
                    max_iter=self.max_iter,
                    tolerance=self.tol,
                    watch=watch,
                )
            except KeyboardInterrupt:  # before its first step: every class has its components already
                warn("interrupted: the components are those of each class by itself", InterruptedWarning)
                found = em.Learned(start, [], False, float(each.sum()), interrupted=True)
        self.em_ = found
        if not found.converged and not found.interrupted:
            warn("EM did not converge: raise max_iter or tol", ConvergenceWarning)
        unlabelled = int((codes < 0).sum())
        if unlabelled:
            self.n_unlabelled_ = unlabelled
        chosen = self._choose_shrinkage(found.model, rows, codes, weight) if self._chooses() else self._family()
        self.model_ = self._with_priors(found.model.stats, chosen)

    # ------------------------------------------------------------------ rows that are elsewhere

    def _fit_engine(self, engine: Any, split: Any, **how: Any) -> None:
        from deciban.estimators.anywhere import fit_mixture

        if how.get("clusters") is not None:
            raise ValueError("to find clusters without labels, use GaussianMixture")
        self._check_parameters()
        hidden_weight = float(how.get("unlabelled_weight", 1.0))
        X, y, weight = fit_mixture(self, engine, split, hidden_weight)
        X, labels, weight = self._read_rows(X, y, weight, reset=False)
        rows, codes = self._rows(X, self.model_.columns()), labels.among(self.labels_)
        (rows,), codes, weight = expect.that_weigh([rows], codes, weight)
        chosen = self._choose_shrinkage(self.model_, rows, codes, weight) if self._chooses() else self._family()
        self.model_ = self._with_priors(self.model_.stats, chosen)

    def _expected(self, X: Any, y: Any, weight: Any, hidden_weight: float) -> tuple[float, Stats]:
        X, labels, weight = self._read_rows(X, y, weight, reset=False, least=0)
        unknown = np.setdiff1d(labels.classes, self.labels_)
        if len(unknown):
            raise DecibanError(
                f"class {plain(unknown[0])!r} has no row in the sample that components are found on: it is too rare "
                "for a mixture of its own. Leave its rows out, or put the rows in random order"
            )
        rows, codes = self._rows(X, self.model_.columns()), labels.among(self.labels_)
        (rows,), codes, weight = expect.that_weigh([rows], codes, weight)
        each = np.where(codes < 0, hidden_weight, 1.0) * (1.0 if weight is None else weight)
        return expect.expect([rows], self.model_, codes, self._allowed(), each, self.n_jobs)

    def _em_settings(self) -> dict[str, Any]:
        return {"max_iter": self.max_iter, "tolerance": self.tol}

    def _start_of_em(self) -> Model:
        return Model(self._plain_joint(), self.model_.stats)

    def _choose_shrinkage(self, model: Model, X: Array, codes: Array, weight: Floats | None) -> Family:
        """The pair (tie, sphere) with the least log loss of leave-one-out, every row's component held."""
        family = self._family()
        assert isinstance(family, MultivariateGaussian)
        units = family.units(model.stats.sums[0], model.columns())
        ties = (0.0,) if self.covariance in ("tied", "EEE") else TIES
        tried = [replace(family, tie=tie, sphere=sphere, ridge=0.0, scale=units) for sphere in SPHERES for tie in ties]
        losses = self._held_losses(X, codes, weight, model, self.owner_, tried)
        return tried[int(np.argmin(losses))]

    def _allowed(self) -> Array:
        """Which components a row may belong to, by class code; the last row is for code −1."""
        k = len(self.labels_)
        return np.vstack([self.owner_ == np.arange(k)[:, None], np.ones((1, len(self.owner_)), dtype=bool)])

    def _plain_joint(self) -> Joint:
        """The law while EM runs: parameters plugged in, and nothing moved."""
        return Joint((Block(MultivariateGaussian(covariance=self.covariance, ridge=float(self.reg_covar)), 0.0),))

    def _with_priors(self, stats: Stats, family: Family) -> Model:
        """The model of these sums, its components' weights making up the class prior if one was given."""
        joint = Joint((Block(family, 0.0),))
        if self.priors is not None:
            prior = np.asarray(self._class_prior(), dtype=np.float64)
            total = np.bincount(self.owner_, weights=stats.weight, minlength=len(self.labels_))[self.owner_]
            share = np.where(total > 0, stats.weight / np.where(total > 0, total, 1.0), 0.0)
            joint = replace(joint, class_prior=prior[self.owner_] * share)
        return Model(joint, stats)

    def _choose_parts(
        self, X: Array, codes: Array, classes: Array, weight: Floats | None, rng: np.random.RandomState
    ) -> dict[int, Stats]:
        """Every class's components, as sums; a class without any weight has none."""
        parts: dict[int, Stats] = {}
        asked, hurry = self._asked(classes), False
        for c in range(len(classes)):
            mine = codes == c if weight is None else (codes == c) & (weight > 0)
            if not mine.any():
                continue
            most = 1 if hurry else self.max_components
            tries: Any = range(1, most + 1) if asked[c] is None else (asked[c],)
            best: tuple[float, Stats] | None = None
            for m in tries:
                if m > int(mine.sum()):
                    break
                found = self._try_class(X[mine], None if weight is None else weight[mine], m, rng, best is not None)
                if found is None:
                    hurry = True
                    break
                score = self._bic(found, m)
                if best is None or score < best[0]:
                    best = score, found.model.stats
                if found.interrupted:
                    hurry = True
                    break
            if best is None:
                raise ValueError(f"class {plain(classes[c])!r} has {int(mine.sum())} rows, fewer than its components")
            parts[c] = best[1]
        chooses = self.components == "loo" and not hurry
        return self._choose_by_loo(X, codes, weight, rng, parts) if chooses else parts

    def _asked(self, classes: Array) -> list[int | None]:
        """How many components of each class: as asked, or None to choose."""
        if isinstance(self.components, dict):
            known = {plain(label) for label in classes}
            extra = [label for label in self.components if label not in known]
            if extra:
                raise ValueError(f"components speaks of classes that are not there: {extra}")
            counts = [self.components.get(plain(label), 1) for label in classes]
            if not all(isinstance(m, int | np.integer) and m >= 1 for m in counts):
                raise ValueError(f"components must be whole numbers of at least 1, got {self.components!r}")
            return [int(m) for m in counts]
        if isinstance(self.components, str):
            return [1 if self.components == "loo" else None] * len(classes)
        return [int(self.components)] * len(classes)

    def _try_class(
        self, X: Array, weight: Floats | None, m: int, rng: np.random.RandomState, spare: bool
    ) -> em.Learned | None:
        """More components for a class; None if that was interrupted (Ctrl-C) and there are some to `spare`."""
        try:
            return self._fit_class(X, weight, m, rng)
        except KeyboardInterrupt:
            if not spare:
                raise
            warn("interrupted while more components were tried: those found before stay", InterruptedWarning)
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
            warnings.simplefilter("ignore", ConvergenceWarning)  # what counts is whether all classes together converge
            return mixture._fit_rows(X, weight).em_

    def _bic(self, found: em.Learned, m: int) -> float:
        d = found.model.columns().size
        if m > 1 and collapsed(found.model):
            return float("inf")  # a likelihood without bound should not win a comparison
        free = parameters(self.covariance, m, d) + m * d + m - 1
        return -2.0 * found.log_likelihood[-1] + float(np.log(max(found.rows, 1.0))) * free

    def _choose_by_loo(
        self, X: Array, codes: Array, weight: Floats | None, rng: np.random.RandomState, parts: dict[int, Stats]
    ) -> dict[int, Stats]:
        """Add components to one class after another while the leave-one-out log loss falls."""
        least = self._held_loss(X, codes, weight, parts)
        for c in parts:
            mine = codes == c if weight is None else (codes == c) & (weight > 0)
            for m in range(2, self.max_components + 1):
                if m > int(mine.sum()):
                    break
                found = self._try_class(X[mine], None if weight is None else weight[mine], m, rng, True)
                if found is None or found.interrupted:
                    return parts
                tried = {**parts, c: found.model.stats}
                loss = self._held_loss(X, codes, weight, tried)
                if not loss < least - MARGIN / max(1, (codes >= 0).sum()):
                    break
                least, parts = loss, tried
        return parts

    def _held_loss(self, X: Array, codes: Array, weight: Floats | None, parts: dict[int, Stats]) -> float:
        """The log loss of leave-one-out with every row's component held as it is."""
        model = Model(self._plain_joint(), side_by_side(parts.values()))
        return self._held_losses(X, codes, weight, model, owners(parts), [model.joint.blocks[0].family])[0]

    def _held_losses(
        self, X: Array, codes: Array, weight: Floats | None, model: Model, owner: Array, families: Sequence[Family]
    ) -> list[float]:
        """The same for several laws of the components."""
        rows = np.flatnonzero(np.isin(codes, owner) & ~np.isnan(X).any(axis=1))
        log_joint = score.apply([X[rows]], model, "log_joint", self.n_jobs)
        log_joint[owner[None, :] != codes[rows][:, None]] = -np.inf
        held = log_joint.argmax(axis=1).astype(np.int32)
        w = None if weight is None else weight[rows]
        stats = collect.collect([X[rows]], model.joint, model.schema, held, w, self.n_jobs)
        quick = all(family.downdates(0.0) for family in families)
        some = some_of(np.arange(len(rows)), ENOUGH if quick else FEW)
        rows, held, w = rows[some], held[some], None if w is None else w[some]
        losses = []
        for family in families:
            law = Model(Joint((Block(family, 0.0),)), stats)
            left = score.leave_one_out([X[rows]], law, held, w, self.n_jobs)
            said = grouped(left, owner, int(codes.max()) + 1)[np.arange(len(rows)), codes[rows]]
            said = np.maximum(np.nan_to_num(said, nan=-np.inf), np.log(np.finfo(float).tiny))
            losses.append(float(-np.average(said, weights=w)) if len(rows) else 0.0)
        return losses

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows: one step of EM that shares each out among its class's components, added to their sums.

        The first batch is a `fit`; a class that is new has one component. The result depends on the batches.
        """
        source = self._elsewhere(X, y)
        if not self.__sklearn_is_fitted__():
            return (
                self.fit(X, y, sample_weight)
                if source is not None
                else super().partial_fit(X, y, classes, sample_weight)
            )
        if not self._law_is_ours(self.model_):
            raise ValueError("a parameter that says what is counted has changed since the last batch: use fit")
        with self._unchanged_on_error():
            if source is not None:
                from deciban.estimators import anywhere

                stats = anywhere.learn_step(self, source, y, sample_weight)
                self.model_ = self._with_priors(stats, self.model_.joint.blocks[0].family)
                return self
            X, labels, weight = self._read_rows(X, y, sample_weight, reset=False, least=0)
            if labels.any_missing or labels.soft is not None:
                raise DecibanError("partial_fit adds rows whose class is known")
            if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.labels_):
                raise ValueError(f"`classes={classes!r}` is not the same as on last call, was: {self.labels_!r}")
            if self.closed_:
                self._check_known(labels, self.labels_)
            every = union_classes(self.labels_, labels.classes)
            rows, codes = self._rows(X, self.model_.columns()), labels.among(every)
            stats, owner = self.model_.stats, np.searchsorted(every, self.labels_)[self.owner_]
            there = np.ones(len(codes), dtype=bool) if weight is None else weight > 0
            codes = np.where(there, codes, -1)
            for c in np.setdiff1d(np.unique(codes[there]), owner):
                found = self._fit_class(
                    rows[codes == c],
                    None if weight is None else weight[codes == c],
                    1,
                    check_random_state(self.random_state),
                )
                stats, owner = side_by_side([stats, found.model.stats]), np.append(owner, c)
                codes = np.where(codes == c, -1, codes)
            self.owner_, self.labels_ = owner, every
            known = np.flatnonzero(codes >= 0)
            if len(known):
                model = Model(self._plain_joint(), stats)
                each = None if weight is None else weight[known]
                stats = stats + expect.expect([rows[known]], model, codes[known], self._allowed(), each, self.n_jobs)[1]
            self._check_priors(len(every))
            self.model_ = self._with_priors(stats, self.model_.joint.blocks[0].family)
        return self

    def __add__(self: Self, other: Self) -> Self:
        """The model of both: each class has the components that it has on either side."""
        if type(other) is not type(self):
            return NotImplemented
        self._check_mergeable(other, ("covariance", "reg_covar", "priors"))
        merged = copy.copy(self)
        if self._names() is None and other._names() is not None:
            merged.feature_names_in_ = other.feature_names_in_
        merged.closed_ = self.closed_ or other.closed_
        merged.labels_ = union_classes(self.labels_, other.labels_)
        merged.owner_ = np.concatenate(
            [np.searchsorted(merged.labels_, model.labels_)[model.owner_] for model in (self, other)]
        )
        merged._check_priors(len(merged.labels_))
        merged.model_ = merged._with_priors(
            side_by_side([self.model_.stats, other.model_.stats]), between(self.model_, other.model_)
        )
        merged.__dict__.pop("em_", None)
        return merged

    def _guessed(self) -> str:
        return FIXED

    def _check_priors(self, k: int) -> None:
        if self.priors is not None and len(np.asarray(self.priors)) != k:
            raise ValueError(
                f"Number of priors must match number of classes: {len(np.asarray(self.priors))} priors, {k} classes"
            )

    # ------------------------------------------------------------------ answering

    def _apply(self, X: Any, how: str) -> Array:
        check_is_fitted(self)
        k = len(self.labels_)
        scores = super()._apply(X, "log_joint" if how == "log_joint" else "log_posterior")
        scores = grouped(scores, self.owner_, k)
        if how == "best":
            return np.asarray(scores.argmax(axis=1))
        return np.asarray(np.exp(scores) if how == "posterior" else scores)

    def explain(self, X: Any, target: Any = None, against: Any = None, names: Any = None) -> Evidence | list[Evidence]:
        """Why: the evidence of every column, in decibans, averaged over each class's components by their share."""
        data = self._read(X)
        if len(self.labels_) < 2:
            raise ValueError("there is only one class, so nothing speaks for it against another")
        score.check_finite(data, self.model_)
        wanted = [None if label is None else self._class_index(label) for label in (target, against)]
        model = self._named(names)
        out = [
            explain_components(model, [X[i : i + 1] for X in data], self.owner_, self.labels_, *wanted)
            for i in range(data[0].shape[0])
        ]
        if not out:
            raise ValueError("there is no row to explain")
        return out[0] if len(out) == 1 else out

    def sample(
        self, n: int = 1, given: Any = None, random_state: Any = None, length: int | None = None
    ) -> tuple[Array, Array]:
        """Draw n rows and their classes: a component by its weight (of the class `given`), then x from its law."""
        del length
        self._check_classes()
        if n < 0:
            raise ValueError(f"n is {n}: it must not be negative")
        rng = generator(random_state)
        chance = np.exp(self.model_.log_prior)
        if given is not None:
            chance = np.where(self.owner_ == self._class_index(given), chance, 0.0)
        if not chance.sum() > 0:
            raise ValueError(f"class {given!r} has no rows, or no prior, to draw from")
        which = rng.choice(len(chance), size=n, p=chance / chance.sum())
        family, columns = self.model_.joint.blocks[0].family, self.model_.columns()
        rows = family.sample(self.model_.params[0], columns, which, rng, np.zeros(n, dtype=np.int64))
        return rows, self.labels_[self.owner_[which]]

    def top_evidence(self, n: int = 10, names: Any = None) -> Table:
        """What speaks most for each component against the others, in decibans."""
        self._check_classes()
        model = self._named(names)
        called = [f"{plain(self.labels_[c])} #{(self.owner_[:i] == c).sum() + 1}" for i, c in enumerate(self.owner_)]
        rows: list[tuple[Any, ...]] = []
        for i, label in enumerate(called):
            rows += [(label, name, db) for name, db in strongest(model, i, n)]
        return Table("strongest evidence for each component", ("component", "item", "dB"), rows)

    def linear_form(self) -> LinearForm:
        """Not one: a class of several components has no linear form. The error says so."""
        raise TypeError("a class of several components is not linear in x")

    def with_prior(self: Self, prior: Any) -> Self:
        """The same model under another class prior: probabilities (a sequence or {class: p}), or "uniform"."""
        self._check_classes()
        other = copy.copy(self)
        other.priors = self._read_prior(prior)
        other._check_parameters()
        other._check_priors(len(self.labels_))
        other.model_ = other._with_priors(self.model_.stats, self.model_.joint.blocks[0].family)
        return other

    # ------------------------------------------------------------------ looking inside, keeping

    @property
    def classes_(self) -> Array:
        check_is_fitted(self)
        return np.asarray(self.labels_)

    @property
    def class_count_(self) -> Array:
        check_is_fitted(self)
        count = np.bincount(self.owner_, weights=self.model_.stats.weight, minlength=len(self.labels_))
        return self._cast(count.astype(np.float64))

    @property
    def class_prior_(self) -> Array:
        """P(y)."""
        check_is_fitted(self)
        return self._cast(self._prior())

    def _prior(self) -> Floats:
        prior = np.bincount(self.owner_, weights=np.exp(self.model_.log_prior), minlength=len(self.labels_))
        return prior.astype(np.float64)

    @property
    def weights_(self) -> Array:
        """The share of every component in its class."""
        prior = np.exp(self.model_.log_prior)
        total = np.bincount(self.owner_, weights=prior, minlength=len(self.labels_))[self.owner_]
        return self._cast(prior / np.where(total > 0, total, 1.0))

    @property
    def n_iter_(self) -> int:
        """How many steps EM took."""
        return len(self.em_.log_likelihood)

    @property
    def shrinkage_(self) -> tuple[float, float | str]:
        """(tie, sphere): how far covariances were moved towards the shared one, and towards a sphere."""
        check_is_fitted(self)
        family = self.model_.joint.blocks[0].family
        assert isinstance(family, MultivariateGaussian)
        return family.tie, family.sphere

    @property
    def component_classes_(self) -> Array:
        """The class of every component."""
        return np.asarray(self.classes_[self.owner_])

    @property
    def n_components_(self) -> dict[Any, int]:
        """How many components each class has."""
        count = np.bincount(self.owner_, minlength=len(self.classes_))
        return {plain(label): int(m) for label, m in zip(self.classes_, count, strict=True)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file; `deciban.load` reads it."""
        check_is_fitted(self)
        if not self._law_is_ours(self.model_):
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")
        kept = dict(self.get_params(deep=False))
        if not isinstance(kept["random_state"], int | np.integer | None):
            kept["random_state"] = None
        self._write(path, kept, {name: getattr(self, name) for name in KEPT})

    def _restore(self, model: Model, about: dict[str, Any]) -> None:
        """What `save` kept, checked."""
        self._check_parameters()
        state = self._read_back(model, about, KEPT)
        owner, labels = state["owner_"], state["labels_"]
        if owner.shape != (len(model.classes),) or owner.dtype.kind != "i" or labels.ndim != 1:
            raise ValueError("its components do not fit its sums")
        if len(owner) == 0 or owner.min() < 0 or owner.max() >= len(labels):
            raise ValueError("its components do not fit its classes")
        if not all(a < b for a, b in pairwise(labels.tolist())) or not isinstance(state["closed_"], bool):
            raise ValueError("its classes are not distinct labels in order")
        self._check_priors(len(labels))
        if not self._law_is_ours(model):
            raise ValueError("its family is not the model's")
        self.__dict__.update(state)
        self.model_ = model


def collapsed(model: Model) -> bool:
    """Whether a component has too few rows for its columns, or hardly any spread in some direction of the class's."""
    params = model.params[0]
    if (params.weight < model.columns().size + 1).any():
        return True
    within = (
        params.covariance if params.roots is not None else params.covariance[:, :, None] * np.eye(params.mean.shape[1])
    )
    share = np.exp(model.log_prior)
    gap = params.mean - share @ params.mean
    whole = np.average(within, axis=0, weights=share if len(within) > 1 else None) + (share[:, None] * gap).T @ gap
    units = np.sqrt(np.outer(np.diagonal(whole), np.diagonal(whole)))
    units = np.where(units > 0, units, 1.0)
    return bool(np.linalg.eigvalsh(within / units).min() < 1e-4 * np.linalg.eigvalsh(whole / units).min())


def owners(parts: dict[int, Stats]) -> Array:
    """The class code of every component."""
    return np.repeat(np.array(list(parts), dtype=np.int64), [len(part.classes) for part in parts.values()])


def side_by_side(several: Iterable[Stats]) -> Stats:
    """The components of several sums, one after the other."""
    parts = list(several)
    blocks = [part.schema.blocks[0] for part in parts]
    pivot = np.concatenate([block.pivot for block in blocks if block.pivot is not None])
    sums = {}
    for name in set(parts[0].sums[0]) - {"lost"}:  # rows of a mixture are never taken away
        arrays = [part.sums[0][name] for part in parts]
        widest = max(array.shape[1:] for array in arrays)  # `one` is wide only where entries were missing
        sums[name] = np.concatenate([np.broadcast_to(array, (len(array), *widest)) for array in arrays])
    schema = Schema(np.arange(len(pivot)), (Columns(blocks[0].size, blocks[0].names, pivot=pivot),))
    return Stats(schema, np.concatenate([part.weight for part in parts]), (sums,))
