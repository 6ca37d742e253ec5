"""The estimator behind all others: scikit-learn's methods over a model that is a sum.

A subclass is a docstring, an `__init__` and `_family()`, and where its columns need it, how rows are read. All state
is `model_`, a value: it is replaced whole when something was learned, and left alone when something failed.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from deciban import bayes, files
from deciban._typing import Array, Data, Floats, Matrix
from deciban.algebra import Stats
from deciban.corollaries.explain import Evidence, explain, strongest
from deciban.corollaries.forget import check_classes, forget
from deciban.corollaries.leave_one_out import LeaveOneOut, best_alpha, leave_one_out
from deciban.corollaries.linear_form import LinearForm, linear_form
from deciban.corollaries.missing import unmask
from deciban.corollaries.sample import sample
from deciban.engines import local
from deciban.errors import DecibanError, ForgetError, SchemaError
from deciban.families import Family
from deciban.joint import Block, Joint, Model
from deciban.models.labels import Labels, read_labels
from deciban.priors import Alpha
from deciban.rows import complain, value_range
from deciban.schema import Columns, Schema
from deciban.show import Table, plain

Self = TypeVar("Self", bound="GenerativeClassifier")


def is_generative(what: str) -> Callable[[Any], bool]:
    """For methods that only a generative model has."""

    def check(model: Any) -> bool:
        if not model._generative:
            raise AttributeError(f"{type(model).__name__} is not a generative model: it has no {what}")
        return True

    return check


class GenerativeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Everything a model that is a sum can do, in scikit-learn's words and its own."""

    alpha: Any
    model_: Model
    n_features_in_: int
    n_jobs: int | None

    _prior_parameter: ClassVar[str] = "class_prior"
    _positive: ClassVar[bool] = False
    _generative: ClassVar[bool] = True

    # ------------------------------------------------------------------ what a model fills in

    def _family(self) -> Family:
        """The law of x given the class, from the parameters."""
        raise TypeError("a model says which family it has")

    def _check_alpha(self) -> float | Array:
        """alpha as a number, or an array that fits."""
        raise TypeError("a model says how strong its prior is")

    def _strength(self) -> Alpha:
        """How strong the family's prior is; leave-one-out chooses once the rows are there."""
        if isinstance(self.alpha, str):
            return 1.0 if self.alpha == "loo" else self.alpha
        return self._check_alpha()

    def _class_prior(self) -> str | Floats:
        """ "empirical", "uniform" or probabilities."""
        raise TypeError("a model says which class prior it has")

    def _joint(self) -> Joint:
        return Joint((Block(self._family(), self._strength()),), self._class_prior())

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        """Rows as the family reads them, and the block's columns as these rows know them."""
        del columns, labels, weight
        return X, Columns(X.shape[1], self._names())

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        """Rows to score, as the family reads them."""
        del columns
        return X

    # ------------------------------------------------------------------ learning

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, forgetting everything learned before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Rows. Missing entries (NaN, None, masked) drop out.
        y : array-like of shape (n,) or (n, k)
            Labels. Missing ones (None, NaN) are found by EM; a matrix gives a weight per class.
        sample_weight : array-like of shape (n,), optional
            A row of weight 2 counts as two rows; one of weight 0 adds nothing to any sum.
        """
        with self._unchanged_on_error():
            self._check_parameters()
            X, labels, weight = self._read_rows(X, y, sample_weight, reset=True)
            self._start(X, labels, labels.classes, False, weight)
        return self

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows. Any way of batching gives what `fit` on all of them gives.

        With `classes` on the first call the set of classes is closed, and another label is an error, as in
        scikit-learn; without it the set is open, and new classes join when they first appear. Only `alpha="loo"` is
        chosen by `fit` or the first batch, and then kept: for streams take a number or "empirical".
        """
        with self._unchanged_on_error():
            self._check_parameters()
            first = not self.__sklearn_is_fitted__()
            declared = None if classes is None else np.unique(np.asarray(classes))
            if declared is not None and not first and not same_labels(self.classes_, np.asarray(classes)):
                raise ValueError(
                    f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}"
                )
            X, labels, weight = self._read_rows(X, y, sample_weight, reset=first, classes=declared, least=0)
            if labels.any_missing:
                raise DecibanError(
                    f"row {int(np.argmax(labels.codes < 0))} of y has no label: partial_fit adds rows whose class is "
                    "known; fit finds missing labels by EM over all rows at once"
                )
            known = declared if first else self.model_.classes
            if known is not None and (first or self.model_.schema.closed):
                self._check_known(labels, known)
            if first:
                start = labels.classes if declared is None else declared
                self._start(X, labels, start, declared is not None, weight)
            else:
                before, joint = self.model_, self._current_joint()
                columns = before.columns()
                if joint.blocks[0].family.measures(columns) != before.joint.blocks[0].family.measures(columns):
                    raise ValueError("a parameter that says what is counted has changed since the last batch: use fit")
                model = Model(joint, before.stats + self._collect(X, labels, weight))
                self._check_model(model)
                self.model_ = model
        return self

    def forget(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Unlearn rows: afterwards the model is the one that never saw them.

        Rows that were never learned are an error where the sums can tell, and the model stays as it was.
        """
        check_is_fitted(self)
        if getattr(self, "n_unlabelled_", 0):
            raise ForgetError(
                "some labels were found by EM, so rows share responsibilities and cannot be subtracted: fit again "
                "without the rows"
            )
        with self._unchanged_on_error():
            X, labels, weight = self._read_rows(X, y, sample_weight, reset=False, least=0)
            if labels.any_missing:
                raise DecibanError("rows to forget need their labels")
            check_classes(self.model_, labels.classes)
            left = forget(self.model_, self._collect(X, labels, weight), self._least_categories())
            try:
                self._check_model(left)
            except ValueError as error:
                raise ForgetError(f"cannot forget a whole class that the parameters speak of: {error}") from None
            self.model_ = left
        return self

    def __add__(self: Self, other: Self) -> Self:
        """The model that learned what both did."""
        if type(other) is not type(self):
            return NotImplemented
        check_is_fitted(self)
        check_is_fitted(other)
        if self.n_features_in_ != other.n_features_in_:
            raise SchemaError(
                f"cannot merge a model of {self.n_features_in_} features with one of {other.n_features_in_}"
            )
        theirs = other.get_params(deep=False)
        for name, mine in self.get_params(deep=False).items():
            if name != "n_jobs" and not np.array_equal(np.asarray(mine), np.asarray(theirs[name])):
                raise SchemaError(f"cannot merge models whose {name} differs: {mine!r} and {theirs[name]!r}")
        merged = copy.copy(self)
        merged.__dict__.pop("em_", None)
        if self._names() is None and other._names() is not None:
            merged.feature_names_in_ = other.feature_names_in_
        joint = self.model_.joint
        if self._wants("loo"):  # each chose its own: between them, by how much each has seen
            shares = np.array([model.stats.weight.sum() for model in (self.model_, other.model_)])
            logs = np.log([float(model.alpha_) for model in (self, other)])
            joint = joint.with_alpha(float(np.exp(shares @ logs / shares.sum())) if shares.any() else self.alpha_)
        merged.model_ = Model(joint, self.model_.stats + other.model_.stats)
        merged._check_model(merged.model_)
        unlabelled = getattr(self, "n_unlabelled_", 0) + getattr(other, "n_unlabelled_", 0)
        if unlabelled:
            merged.n_unlabelled_ = unlabelled
        return merged

    def __radd__(self: Self, other: Any) -> Self:
        """So that sum(models) works."""
        return copy.copy(self) if other == 0 else NotImplemented

    def _start(self, X: Any, labels: Labels, classes: Array, closed: bool, weight: Floats | None) -> None:
        for leftover in ("n_unlabelled_", "em_"):
            self.__dict__.pop(leftover, None)
        joint, labels = self._joint(), labels.placed(classes)
        model = Model(joint, self._sums(X, labels, joint, None, closed, weight))
        self._check_model(model)
        columns, codes = model.columns(), labels.codes
        if self._wants("loo"):
            if labels.soft is not None:
                raise ValueError("alpha='loo' needs one label a row, not a matrix of weights")
            rows = np.flatnonzero(codes >= 0)
            scored = self._rows(X, columns)[rows]
            chosen = best_alpha(model, [scored], codes[rows], None if weight is None else weight[rows], self.n_jobs)
            model = model.with_joint(joint.with_alpha(chosen))
        if labels.any_missing:
            if len(classes) == 0:
                raise ValueError("every label is missing: at least one row of each class needs one")
            found = local.learn_unlabelled([self._rows(X, columns)], model, codes, weight, self.n_jobs)
            self.n_unlabelled_, self.em_, model = int((codes < 0).sum()), found, found.model
        self.model_ = model

    # ------------------------------------------------------------------ reading input

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, classes: Array | None = None, least: int = 1
    ) -> tuple[Any, Labels, Floats | None]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X = self._validate(X, reset=reset, least=least)
        n = X.shape[0]
        known = classes
        if known is None and not reset:
            known = self.classes_
        labels = read_labels(y, n, known)
        weight = None
        if sample_weight is not None:
            weight = (
                np.ascontiguousarray(_check_sample_weight(sample_weight, X, dtype=np.float64)) if n else np.zeros(0)
            )
            if (weight < 0).any():
                row = int(np.argmax(weight < 0))
                raise ValueError(f"sample_weight[{row}] is {weight[row]:g}: to take rows away, use forget")
            if n and least and not weight.any():
                raise ValueError("the total weight is zero: there is nothing to learn from")
        return X, labels, weight

    def _validate(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        """scikit-learn's checks of shape and names; infinities show up in the sums, NaN is missing."""
        rows = validate_data(
            self,
            unmask(X),
            reset=reset,
            accept_sparse=["csr", "csc"],
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=least,
        )
        return plain_rows(rows)

    def _check_finite_positive(self, X: Matrix) -> None:
        """Counts: neither negative nor infinite."""
        values = X.data if sp.issparse(X) else X
        if values.size == 0 or values.dtype.kind in "bu":
            return
        low, high = value_range(values)
        if np.isinf(low) or np.isinf(high):
            complain(X, Columns(X.shape[1], self._names()))
        if self._positive and low < 0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__} (input X): the least is {low:g}")

    def _read(self, X: Any) -> Data:
        """Rows to score."""
        self._check_classes()
        return [self._rows(self._validate(X, reset=False, least=0), self.model_.columns())]

    def _check_classes(self) -> None:
        check_is_fitted(self)
        if len(self.classes_) == 0:
            raise DecibanError("the model has no classes: nothing was learned yet, or everything was forgotten")

    def _read_with_labels(self, X: Any, y: Any, sample_weight: Any) -> tuple[Data, Array, Floats | None]:
        """Rows that were learned, their class codes and weights."""
        self._check_classes()
        if getattr(self, "n_unlabelled_", 0):
            raise ForgetError("some labels were found by EM, so no row can be taken out exactly: fit with labels only")
        X, labels, weight = self._read_rows(X, y, sample_weight, reset=False, least=0)
        if labels.soft is not None or labels.any_missing:
            raise DecibanError("leave-one-out needs every row's label")
        self._check_known(labels, self.classes_)
        return [self._rows(X, self.model_.columns())], labels.among(self.classes_), weight

    def _collect(self, X: Any, labels: Labels, weight: Floats | None) -> Stats:
        """A batch's statistics, in a schema of its own that the model's union takes in."""
        model = self.model_
        closed = model.schema.closed
        placed = labels.placed(model.classes) if closed else labels
        return self._sums(X, placed, model.joint, model.columns(), closed, weight)

    def _sums(
        self, X: Any, labels: Labels, joint: Joint, known: Columns | None, closed: bool, weight: Floats | None
    ) -> Stats:
        """Statistics of rows: read as the family reads them, beside the columns known so far, and added up."""
        matrix, columns = self._learn_rows(X, known, labels, weight)
        schema = Schema(labels.classes, (columns,), closed)
        return local.collect([matrix], joint, schema, labels.shares, weight, self.n_jobs)

    def _check_known(self, labels: Labels, known: Array) -> None:
        unknown = np.setdiff1d(labels.classes, known) if len(labels.classes) else labels.classes
        if len(unknown):
            raise ValueError(f"The target label(s) {unknown} in y do not exist in the initial classes {known}")

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def _least_categories(self) -> tuple[int, ...] | None:
        return None

    # ------------------------------------------------------------------ parameters

    def _check_parameters(self) -> None:
        self._validate_params()

    def _check_model(self, model: Model) -> None:
        """Parameters that can only be checked once classes and columns are known."""
        prior = model.joint.class_prior
        if not isinstance(prior, str):
            if prior.shape != (len(model.classes),):
                labels = model.classes.tolist()
                raise ValueError(
                    f"Number of priors must match number of classes. {self._prior_parameter} has {len(prior)} of them, "
                    f"but there are {len(labels)} classes, {labels}: give one each, or None to count them."
                )
            if not np.isclose(prior.sum(), 1.0):
                raise ValueError("The sum of the priors should be 1.")
            if (prior < 0).any():
                raise ValueError("Priors must be non-negative.")
        alpha = model.joint.blocks[0].alpha
        rows = np.shape(alpha)[0] if not isinstance(alpha, str) and np.ndim(alpha) == 2 else len(model.classes)
        if rows != len(model.classes):
            labels = model.classes.tolist()
            raise ValueError(f"alpha has a row for {rows} classes, but there are {len(labels)}: {labels}")

    def _wants(self, how: str) -> bool:
        return isinstance(self.alpha, str) and self.alpha == how

    def _current_joint(self) -> Joint:
        """The joint law as the parameters have it now; what leave-one-out chose stays until the next fit."""
        joint = self._joint()
        return joint.with_alpha(self.model_.joint.blocks[0].alpha) if self._wants("loo") else joint

    # ------------------------------------------------------------------ prediction

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log p(x, y) for every class, (n, k)."""
        return local.apply(self._read(X), self.model_, "log_joint", self.n_jobs)

    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y | x), (n, k)."""
        return local.apply(self._read(X), self.model_, "log_posterior", self.n_jobs)

    def predict_proba(self, X: Any) -> Floats:
        """P(y | x), (n, k), columns in the order of `classes_`."""
        return local.apply(self._read(X), self.model_, "posterior", self.n_jobs)

    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        return self.classes_[local.apply(self._read(X), self.model_, "best", self.n_jobs)]

    @available_if(is_generative("p(x)"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def score_samples(self, X: Any) -> Floats:
        """log p(x) = log Σ_y p(x, y): low for rows unlike anything learned."""
        return bayes.log_evidence(local.apply(self._read(X), self.model_, "log_joint", self.n_jobs))

    def decide(self, X: Any, costs: Any = None, reject: float | None = None) -> Array:
        """The answers with the least expected cost (S20).

        Parameters
        ----------
        X : array-like or sparse matrix
        costs : (k, k) array or {truth: {answer: cost}}, optional
            costs[i, j] is the cost of answering class j when i is true; what a mapping leaves out costs 1 if wrong,
            0 if right. Without it every mistake costs 1.
        reject : float, optional
            The cost of not answering: rows for which every answer costs more get None.
        """
        if reject is not None and not np.isfinite(reject):
            raise ValueError(f"reject is {reject}: the cost of not answering must be a finite number")
        chosen = bayes.decide(self.predict_proba(X), self._costs(costs), reject)
        if reject is None:
            return self.classes_[chosen]
        out = np.empty(len(chosen), dtype=object)
        out[:] = [None if c < 0 else plain(self.classes_[c]) for c in chosen]
        return out

    def explain(self, X: Any, target: Any = None, against: Any = None, names: Any = None) -> Evidence | list[Evidence]:
        """Why: the evidence of every column, in decibans, for `target` over `against`.

        Without them, for each row's likeliest class over its runner-up. One row gives an Evidence, more a list.
        `names` are what to call the columns where the model was not fitted on a frame: names in order, or whatever has
        them (a vectorizer, or its `vocabulary_`).
        """
        data = self._read(X)
        local.check_finite(data, self.model_)
        wanted = [None if label is None else self._class_index(label) for label in (target, against)]
        model = self._named(names)
        out = [explain(model, [X[i : i + 1] for X in data], *wanted) for i in range(data[0].shape[0])]
        if not out:
            raise ValueError("there is no row to explain")
        return out[0] if len(out) == 1 else out

    def top_evidence(self, n: int = 10, names: Any = None) -> Table:
        """What speaks most for each class against the others, in decibans; `names` as in `explain`."""
        self._check_classes()
        model = self._named(names)
        rows: list[tuple[Any, ...]] = []
        for c, label in enumerate(self.classes_):
            rows += [(plain(label), name, db) for name, db in strongest(model, c, n)]
        return Table("strongest evidence for each class", ("class", "item", "dB"), rows)

    def _named(self, names: Any) -> Model:
        """The model with its columns called by these names."""
        if names is None:
            return self.model_
        if hasattr(names, "get_feature_names_out"):
            names = names.get_feature_names_out()
        if isinstance(names, dict):  # name → column, as a vectorizer's vocabulary_ is
            if sorted(names.values()) != list(range(len(names))):
                raise ValueError("names is a mapping, but not of names to the columns 0, 1, 2, …")
            names = sorted(names, key=names.__getitem__)
        if isinstance(names, str):
            raise ValueError("names must be one name a column, not a string")
        called = tuple(str(name) for name in names)
        if len(called) != self.n_features_in_:
            raise ValueError(f"names has {len(called)} entries, but there are {self.n_features_in_} features")
        stats = self.model_.stats
        schema = replace(stats.schema, blocks=(replace(self.model_.columns(), names=called),))
        return Model(self.model_.joint, replace(stats, schema=schema))

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut:
        """Every row's posterior under the model that never saw it, exactly and without refitting.

        The rows must be (some of) those the model has learned, with the same weights: others give numbers that mean
        nothing, and cannot always be noticed. With many different weights, Bernoulli and Poisson models take a pass
        over all features for each of them.
        """
        data, codes, weight = self._read_with_labels(X, y, sample_weight)
        self._check_learned(codes, weight)
        return leave_one_out(self.model_, data, codes, weight, self.n_jobs)

    def _check_learned(self, codes: Array, weight: Floats | None) -> None:
        """Rows of a class cannot outweigh what was learned of it."""
        asked = np.bincount(codes, weights=weight, minlength=len(self.classes_))
        over = np.flatnonzero(asked > self.model_.stats.weight * (1 + 1e-9))
        if len(over):
            c = int(over[0])
            raise ForgetError(
                f"leave-one-out takes rows the model has learned: of class {plain(self.classes_[c])!r} it learned "
                f"{self.model_.stats.weight[c]:g}, and {asked[c]:g} were given"
            )

    @available_if(is_generative("law of x to draw from"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def sample(
        self, n: int = 1, given: Any = None, random_state: Any = None, length: int | None = None
    ) -> tuple[Array, Array]:
        """Draw n rows and their classes: y from the class prior (or `given`), then x from its law (S18).

        `length` is the number of words of each row where rows are bags of words; by default it is drawn about the
        class's mean.
        """
        self._check_classes()
        if n < 0:
            raise ValueError(f"n is {n}: it must not be negative")
        rng = random_state
        if not isinstance(rng, np.random.Generator):
            rng = np.random.default_rng(check_random_state(random_state).randint(0, 2**31 - 1, size=4))
        which = None if given is None else self._class_index(given)
        blocks, codes = sample(self.model_, n, rng, which, length)
        return self._from_rows(blocks[0]), self.classes_[codes]

    def _from_rows(self, rows: Array) -> Array:
        return rows

    def linear_form(self) -> LinearForm:
        """θ and θ_0: the model as a linear classifier, per class and per pair (S5)."""
        self._check_classes()
        return linear_form(self.model_)

    def with_prior(self: Self, prior: Any) -> Self:
        """The same model under another class prior: probabilities (a sequence or {class: p}), or "uniform".

        The prior becomes the model's parameter (`class_prior`, or `priors` of a Gaussian): clones and later batches
        keep it.
        """
        self._check_classes()
        if isinstance(prior, dict):
            missing = [c for c in self.classes_.tolist() if c not in prior]
            extra = [c for c in prior if c not in set(self.classes_.tolist())]
            if missing or extra:
                raise ValueError(
                    f"the prior must name exactly the classes {self.classes_.tolist()}: "
                    f"missing {missing}, unknown {extra}"
                )
            prior = [prior[c] for c in self.classes_.tolist()]
        if isinstance(prior, str):
            if prior != "uniform":
                raise ValueError(f"prior is {prior!r}: give probabilities, or 'uniform'")
            prior = np.full(len(self.classes_), 1.0 / len(self.classes_))
        prior = np.asarray(prior, dtype=np.float64)
        if not np.isclose(prior.sum(), 1.0):
            raise ValueError(f"The sum of the priors should be 1, got {prior.sum():g}.")
        other = copy.copy(self)
        setattr(other, self._prior_parameter, prior)
        other.model_ = self.model_.with_prior(prior)
        other._check_model(other.model_)
        return other

    @available_if(is_generative("posterior that a new prior would change"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def adapt_prior(self: Self, X: Any) -> Self:
        """The same model with the class prior under which the unlabelled rows X are most likely, by EM."""
        proba = self.predict_proba(X)
        prior, _ = bayes.adapt_prior(proba, np.exp(self.model_.log_prior))
        return self.with_prior(prior)

    # ------------------------------------------------------------------ looking inside, keeping

    @property
    def classes_(self) -> Array:
        check_is_fitted(self)
        return np.asarray(self.model_.classes)

    @property
    def class_count_(self) -> Floats:
        """How much was learned of each class: the sum of its rows' weights."""
        check_is_fitted(self)
        return np.array(self.model_.stats.weight)

    @property
    def alpha_(self) -> Any:
        """The prior strength in use: as given, or as chosen by "empirical" or "loo"."""
        check_is_fitted(self)
        return self.model_.alpha()

    @property
    def params(self) -> Table:
        """The parameters as a table: a row an item, a column a class."""
        self._check_classes()
        model = self.model_
        family, columns = model.joint.blocks[0].family, model.columns()
        names, _ = family.typical(model.params[0], columns)
        tables = family.table(model.params[0], columns)
        labels = [str(plain(c)) for c in model.classes]
        header = ("item", *(f"{what}[{label}]" for what in tables for label in labels))
        wide = np.vstack([tables[what] for what in tables]).T.tolist()
        rows = [(name, *values) for name, values in zip(names, wide, strict=True)]
        return Table(f"{family.name} parameters", header, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file; `deciban.load` reads it."""
        check_is_fitted(self)
        self._check_parameters()
        if self._family() != self.model_.joint.blocks[0].family:
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")
        self._check_model(self.model_.with_joint(self._current_joint()))
        state = {name: value for name, value in vars(self).items() if name in ("n_unlabelled_", "dtype_")}
        about = {
            "model": type(self).__name__,
            "parameters": dict(self.get_params(deep=False)),
            "n_features": int(self.n_features_in_),
            "names": list(self._names() or []),
            "state": state,
        }
        files.write(path, self.model_, about)

    def _restore(self, model: Model, about: dict[str, Any]) -> None:
        """What `save` kept, checked against the parameters as a fit would be."""
        self.n_features_in_ = int(about["n_features"])
        names, state = about["names"], about["state"]
        if self.n_features_in_ != model.columns().size or (names and len(names) != self.n_features_in_):
            raise ValueError(f"it speaks of {self.n_features_in_} features, but holds {model.columns().size}")
        if set(state) - {"n_unlabelled_", "dtype_"} or state.get("dtype_", "float64") not in ("float32", "float64"):
            raise ValueError(f"its state is not one of ours: {sorted(state)}")
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._check_parameters()
        if model.joint.blocks[0].family != self._family():
            raise ValueError("its family is not the model's")
        self._check_model(model)
        if not self._wants("loo"):
            self._check_model(model.with_joint(self._joint()))
        self.__dict__.update(state)
        self.model_ = model

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _class_index(self, label: Any) -> int:
        where = np.flatnonzero(self.classes_ == label)
        if len(where) == 0:
            raise ValueError(f"{label!r} is not one of the classes {self.classes_.tolist()}")
        return int(where[0])

    def _costs(self, costs: Any) -> Floats | None:
        if costs is None:
            return None
        k = len(self.classes_)
        if isinstance(costs, dict):
            table = 1.0 - np.eye(k)
            for truth, answers in costs.items():
                if not isinstance(answers, dict):
                    raise ValueError(f"costs[{truth!r}] must be a mapping answer → cost, got {answers!r}")
                for answer, cost in answers.items():
                    table[self._class_index(truth), self._class_index(answer)] = cost
        else:
            table = np.asarray(costs, dtype=np.float64)
        if table.shape != (k, k):
            raise ValueError(f"costs must have shape ({k}, {k}), truth by answer, got {table.shape}")
        if not np.isfinite(table).all():
            raise ValueError("costs must be finite numbers")
        return table

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Nothing is lost on error: the estimator is put back as it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


def plain_rows(X: Matrix) -> Matrix:
    """Rows in a form that means what it says: native numbers, and each sparse entry stored once, where it can be."""
    if sp.issparse(X):
        check_sparse(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    if X.dtype.kind == "f" and X.dtype not in (np.float32, np.float64):
        return X.astype(np.float64)
    return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))


def check_sparse(X: Matrix) -> None:
    """The kernels go where the indices point, so they must point inside."""
    ends, length = X.indptr, X.shape[1] if X.format == "csr" else X.shape[0]
    sound = ends[0] == 0 and ends[-1] <= min(len(X.indices), len(X.data)) and not (np.diff(ends) < 0).any()
    if not sound or (len(X.indices) and not 0 <= X.indices.min() <= X.indices.max() < length):
        raise DecibanError("X is a sparse matrix whose indices point outside it: build it anew")


def same_labels(classes: Array, given: Array) -> bool:
    """Whether `given` lists exactly these classes."""
    return len(given) == len(classes) and bool(np.array_equal(np.sort(given), classes))
