"""The estimator behind all others: scikit-learn's methods over a model that is a sum.

A subclass is a docstring, an `__init__` and `_family()`, and where its columns need it, how rows are read. All state
is `model_`, a value: it is replaced whole when something was learned, and left alone when something failed.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_random_state

from deciban import bayes, collect, expect, score
from deciban._typing import Array, Data, Floats, Matrix
from deciban.algebra import Stats
from deciban.corollaries.decay import decay, share_left
from deciban.corollaries.forget import check_classes, forget
from deciban.corollaries.leave_one_out import (
    NO_WAY,
    LeaveOneOut,
    alone_in_class,
    best_alpha,
    cross_fitted,
    leave_one_out,
    rows_in_doubt,
)
from deciban.errors import DecibanError, ForgetError, warn
from deciban.estimators.answers import is_generative, one_column
from deciban.estimators.prediction_sets import PredictsSets
from deciban.families import Family
from deciban.joint import Block, Joint, Model
from deciban.matrix import complain, has_missing, value_range
from deciban.measure import Measure, incomplete
from deciban.priors import Alpha
from deciban.reading.labels import Labels, read_labels, read_weights, without_mark
from deciban.results.evaluation import HELD
from deciban.results.tally import Tally
from deciban.schema import Columns, Schema
from deciban.show import plain, progress

Self = TypeVar("Self", bound="GenerativeClassifier")

GUESSES = ("n_unlabelled_", "n_incomplete_")  # rows of which EM guessed something
STATE = (*GUESSES, "dtype_", "medians_")  # what a file keeps beside the model


@dataclass(frozen=True, slots=True)
class HowHidden:
    """What `fit` was told about rows without labels: their weight, and whether to look for clusters."""

    weight: float = 1.0
    cluster: bool = False
    random_state: Any = 0


class GenerativeClassifier(ClassifierMixin, PredictsSets):  # type: ignore[misc]  # scikit-learn has no types
    """Everything a model that is a sum can do, in scikit-learn's words and its own."""

    alpha: Any

    _prior_parameter: ClassVar[str] = "class_prior"
    _positive: ClassVar[bool] = False
    _kept: ClassVar[tuple[str, ...]] = STATE  # attributes that a file keeps

    # ------------------------------------------------------------------ what a model fills in

    def _family(self) -> Family:
        """The law of x given the class, from the parameters."""
        raise TypeError("a model says which family it has")

    def _check_alpha(self) -> float | Array:
        """alpha as a number, or an array that fits."""
        raise TypeError("a model says how strong its prior is")

    def _families(self) -> tuple[Family, ...]:
        """The laws of all blocks of columns, from the parameters."""
        return (self._family(),)

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

    def _learn_data(
        self, X: Any, known: Schema | None, labels: Labels, weight: Floats | None
    ) -> tuple[Data, tuple[Columns, ...]]:
        """The same for all blocks: a matrix and columns each."""
        matrix, columns = self._learn_rows(X, None if known is None else known.blocks[0], labels, weight)
        return [matrix], (columns,)

    # ------------------------------------------------------------------ learning

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        unlabelled: Any = None,
        unlabelled_weight: float = 1.0,
        clusters: int | None = None,
        random_state: Any = 0,
        engine: str | None = None,
    ) -> Self:
        """Learn from rows and labels, forgetting everything learned before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or rows that are elsewhere
            Rows. Missing entries (NaN, None, masked) drop out, or where columns depend on each other EM expects them.
            Elsewhere are files (a path, a pattern), `deciban.stream`, tables of databases (`deciban.table`, DuckDB
            relations), and Dask's and Spark's frames: they are learned where they are.
        y : array-like of shape (n,) or (n, k), or the name of a column of rows that are elsewhere
            Labels. Missing ones (None, NaN) are found by EM; a matrix gives a weight per class. Without any, `clusters`
            says how many classes to look for.
        sample_weight : array-like of shape (n,), or the name of a column of rows that are elsewhere, optional
            A row of weight 2 counts as two rows; one of weight 0 adds nothing to any sum.
        unlabelled : label, optional
            Another mark of a missing label, such as −1 or "?".
        unlabelled_weight : float, default=1.0
            What a row without a label counts beside one that has one. Where the model's assumptions are rough, many
            unlabelled rows drown few labels: less than 1 keeps them in check.
        clusters : int, optional
            With y=None: how many classes to look for, by EM from several random starts.
        random_state : int, RandomState or None, default=0
            Where those starts come from.
        engine : {"stream", "duckdb", "dask", "spark"}, optional
            What reads files; by default "stream", or what X belongs to.
        """
        if not 0 <= unlabelled_weight < np.inf:
            raise ValueError(f"unlabelled_weight is {unlabelled_weight}: it must be a number ≥ 0")
        source = self._elsewhere(X, y, engine)
        if source is not None:
            from deciban.estimators import anywhere

            how = {"unlabelled_weight": unlabelled_weight, "clusters": clusters, "random_state": random_state}
            anywhere.fit(self, source, y, sample_weight, mark=unlabelled, **how)
            return self
        with self._unchanged_on_error():
            self._check_parameters()
            if y is None and clusters is not None:
                y = self._no_labels(X, clusters)
            elif clusters is not None:
                raise ValueError("clusters= is for y=None: with labels, their number is known")
            given = X, y
            X, labels, weight = self._read_rows(X, y, sample_weight, reset=True, mark=unlabelled)
            classes = np.arange(clusters) if clusters is not None else labels.classes
            hidden = HowHidden(float(unlabelled_weight), clusters is not None, random_state)
            self._start(X, labels, classes, False, weight, hidden)
            self._check_fitted(self.model_)
            if clusters is None:
                self._keep(*given, labels, weight, {"unlabelled_weight": unlabelled_weight})
        return self

    def _no_labels(self, X: Any, clusters: Any) -> Array:
        if not isinstance(clusters, int | np.integer) or isinstance(clusters, bool) or clusters < 1:
            raise ValueError(f"clusters is {clusters!r}: it must be a whole number of at least 1")
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if clusters > rows:
            raise ValueError(f"clusters is {clusters}, but there are only {rows} rows")
        return np.full(rows, np.nan)

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows. Any way of batching gives what `fit` on all of them gives.

        Rows with missing entries in columns that depend on each other are the exception: EM fills each batch's given
        what was learned before it.

        With `classes` on the first call the set of classes is closed, and another label is an error, as in
        scikit-learn; without it the set is open, and new classes join when they first appear. Only `alpha="loo"` is
        chosen by `fit` or the first batch, and then kept: for streams take a number or "empirical". X may be rows that
        are elsewhere, as in `fit`.
        """
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            anywhere.learn_more(self, source, y, sample_weight, classes=classes)
            return self
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
                if what_is_counted(joint, before.schema) != what_is_counted(before.joint, before.schema):
                    raise ValueError("a parameter that says what is counted has changed since the last batch: use fit")
                batch = self._collect(X, labels, weight)
                model = Model(joint, before.stats + batch)
                self._check_model(model)
                gaps = self._gaps(X, labels, weight, batch)
                if gaps.any():
                    model = self._fill(X, labels.placed(model.classes), model, weight, gaps)
                self.model_ = model
        return self

    def forget(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Unlearn rows: afterwards the model is the one that never saw them.

        Rows that were never learned are an error where the sums can tell, and the model stays as it was. So are rows so
        far out that what is left without them is less than the rounding of the sums: fit again without them. After
        `decay` rows weigh what is left of them, which `sample_weight` must say.
        """
        check_is_fitted(self)
        if self._guessed():
            raise ForgetError(f"{self._guessed()}, and rows cannot be subtracted: fit again without them")
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            with self._unchanged_on_error():
                self._forget_sums(anywhere.batch_of(self, source, y, sample_weight).model_.stats)
            return self
        with self._unchanged_on_error():
            X, labels, weight = self._read_rows(X, y, sample_weight, reset=False, least=0)
            if labels.any_missing:
                raise DecibanError("rows to forget need their labels")
            check_classes(self.model_, labels.classes)
            batch = self._collect(X, labels, weight)
            gaps = self._gaps(X, labels, weight, batch)
            if gaps.any():
                raise ForgetError(
                    f"row {int(np.argmax(gaps))} has a missing entry, and this model has learned none that had"
                )
            self._forget_sums(batch)
        return self

    def _forget_sums(self, batch: Stats) -> None:
        left = forget(self.model_, batch, self._least_categories())
        try:
            self._check_model(left)
        except ValueError as error:
            raise ForgetError(f"cannot forget a whole class that the parameters speak of: {error}") from None
        self.model_ = left

    def decay(self: Self, half_life: float, rows: float = 1) -> Self:
        """Make what was learned so far count half as much for every `half_life` rows that came since.

        Where the world drifts, old rows mislead. In a stream, each batch comes after a decay by as many rows as it has:

            model.decay(half_life=10_000, rows=len(X)).partial_fit(X, y)

        That is the model of all rows with weights 2^(−age/half_life), age being the rows of later batches. The
        class prior follows; a prior's pseudo-counts (`alpha`) do not fade, so that little data leans on it. Classes and
        categories stay known. Rows that were learned before weigh less now: to `forget` one, or to leave it
        out, give its weight as it is, sample_weight=[2 ** (-age / half_life)].

        Parameters
        ----------
        half_life : float
            Rows after which something counts half. Infinity changes nothing. Any other unit will do: with half_life=30,
            call it with rows=1 once a day.
        rows : float, default=1
            How many rows came since.
        """
        share_left(half_life, rows)  # checked even if nothing was learned yet, as before the first batch of a stream
        if self.__sklearn_is_fitted__():
            self.model_ = decay(self.model_, half_life, rows)
        return self

    def empty(self: Self) -> Self:
        """A copy that made the same choices and has learned nothing: to learn other rows, and be merged with `+`."""
        check_is_fitted(self)
        other = copy.copy(self)
        for leftover in (*GUESSES, "em_"):
            other.__dict__.pop(leftover, None)
        other.model_ = Model(self.model_.joint, self.model_.stats.scale(0.0))
        return other

    def __add__(self: Self, other: Self) -> Self:
        """The model that learned what both did."""
        if type(other) is not type(self):
            return NotImplemented
        self._check_mergeable(other, [name for name in self.get_params(deep=False) if name != "n_jobs"])
        merged = copy.copy(self)
        merged.__dict__.pop("em_", None)
        if self._names() is None and other._names() is not None:
            merged.feature_names_in_ = other.feature_names_in_
        merged.model_ = Model(self._merged_joint(other), self.model_.stats + other.model_.stats)
        merged._check_model(merged.model_)
        for count in GUESSES:
            total = getattr(self, count, 0) + getattr(other, count, 0)
            if total:
                setattr(merged, count, total)
        return merged

    def _merged_joint(self: Self, other: Self) -> Joint:
        """The joint of the sum; where leave-one-out chose, each its own, between the two by how much each has seen."""
        joint = self.model_.joint
        if self._wants("loo"):
            shares = np.array([model.stats.weight.sum() for model in (self.model_, other.model_)])
            logs = np.log([float(model.alpha_) for model in (self, other)])
            joint = joint.with_alpha(float(np.exp(shares @ logs / shares.sum())) if shares.any() else self.alpha_)
        return joint

    def _start(
        self,
        X: Any,
        labels: Labels,
        classes: Array,
        closed: bool,
        weight: Floats | None,
        hidden: HowHidden | None = None,
    ) -> None:
        for leftover in (*GUESSES, "em_"):
            self.__dict__.pop(leftover, None)
        self._look_at_rows(X, labels, weight)
        joint, labels, hidden = self._joint(), labels.placed(classes), hidden or HowHidden()
        model = Model(joint, self._sums(X, labels, joint, None, closed, weight))
        self._check_model(model)
        gaps = self._gaps(X, labels, weight, model.stats)
        hides = labels.any_missing or bool(gaps.any())
        if hides and len(classes) == 0:
            raise ValueError(
                "every label is missing: at least one row of each class needs one, or say how many classes to look "
                "for with y=None and clusters="
            )
        if self._chooses():
            model = model.with_joint(self._chosen(X, labels, model, weight, gaps, hidden))
        if hides:
            for count in GUESSES:  # rows that were looked at while choosing are not others
                self.__dict__.pop(count, None)
            model = self._fill(X, labels, model, weight, gaps, hidden)
        self.model_ = model

    def _chosen(
        self, X: Any, labels: Labels, model: Model, weight: Floats | None, gaps: Array, hidden: HowHidden
    ) -> Joint:
        """The joint law with what leave-one-out over the rows with labels chooses."""
        if labels.soft is not None:
            raise ValueError("choosing by leave-one-out needs one label a row, not a matrix of weights")
        codes = labels.codes
        known = np.flatnonzero(codes >= 0 if weight is None else (codes >= 0) & (weight > 0))
        if len(known) == 0:
            if len(codes):
                warn("no row has a label: there is nothing to choose by leave-one-out", UserWarning)
            return model.joint
        data = self._data(X, model)
        data = data if len(known) == len(codes) else [rows[known] for rows in data]
        if gaps.any():  # judged with missing entries as they are expected before anything is chosen
            model = self._fill(X, labels, model, weight, gaps, hidden)
            shares = collect.one_hot(codes[known], len(model.classes), None)
            data = [
                block.family.fill(params, rows, shares) if block.family.whole_rows else rows
                for block, params, rows in zip(model.joint.blocks, model.params, data, strict=True)
            ]
        return self._choose(model, data, codes[known], None if weight is None else weight[known]).joint

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> None:
        """What a model wants of rows beyond their sums, which few do."""

    def _check_fitted(self, model: Model) -> None:
        """What only a whole fit can be asked, not a first batch."""

    def _fill(
        self,
        X: Any,
        labels: Labels,
        model: Model,
        weight: Floats | None,
        gaps: Array,
        hidden: HowHidden | None = None,
    ) -> Model:
        """EM over missing labels, and over missing entries where columns depend on each other."""
        if labels.soft is not None:
            raise ValueError("a matrix of label weights and missing entries cannot go together here: impute them first")
        hidden, joint = hidden or HowHidden(), model.joint
        counts = np.ones(len(labels.codes), dtype=bool) if weight is None else weight > 0
        guessed = (int(((labels.codes < 0) & counts).sum()), int((gaps & counts).sum()))
        if not any(guessed):  # what is hidden weighs nothing
            return model
        model = model.with_joint(plugged_in(joint))  # EM climbs the likelihood of parameters, not of their average
        data, codes, weight = expect.that_weigh(self._data(X, model), labels.codes, weight)
        with progress("EM") as watch:
            if hidden.cluster:
                rng = check_random_state(hidden.random_state)
                first = self._first_shares(data, len(model.classes), weight)
                found = expect.learn_clusters(data, model, weight, rng, first=first, n_jobs=self.n_jobs, watch=watch)
            else:
                found = expect.learn_hidden(
                    data, model, codes, weight, hidden_weight=hidden.weight, n_jobs=self.n_jobs, watch=watch
                )
        self.em_ = found
        if not found.converged and not found.interrupted:
            warn(f"EM did not converge in {len(found.log_likelihood)} steps", ConvergenceWarning)
        for name, count in zip(GUESSES, guessed, strict=True):
            if count:
                setattr(self, name, getattr(self, name, 0) + count)
        return found.model.with_joint(joint)

    def _gaps(self, X: Any, labels: Labels, weight: Floats | None, stats: Stats) -> Array:
        """Which rows have missing entries that must be guessed from the others: they are not in the sums yet."""
        none = np.zeros(X.shape[0], dtype=bool)
        if not any(family.whole_rows for family in self._families()):
            return none
        if not labels.any_missing:  # the sums tell, without another look at every entry
            rows = float(X.shape[0]) if weight is None else float(weight.sum())
            if abs(float(stats.weight.sum()) - rows) <= 1e-9 * rows:
                return none
        return self._where_gaps(X)

    def _where_gaps(self, X: Any) -> Array:
        """Which rows have a missing entry among columns that depend on each other, where all of them do."""
        return incomplete(X) if has_missing(X) else np.zeros(X.shape[0], dtype=bool)

    def _first_shares(
        self, data: Data, k: int, weight: Floats | None
    ) -> Callable[[np.random.RandomState], Floats] | None:
        """A way to draw starts for clusters, where there is a better one than a row for each."""
        del data, k, weight
        return None

    def _guessed(self) -> str:
        """Why no row can be taken out of the sums exactly, if so."""
        if getattr(self, "n_unlabelled_", 0):
            return "some labels were found by EM, so rows share responsibilities"
        if getattr(self, "n_incomplete_", 0):
            return "missing entries were expected by EM, so rows depend on each other"
        return ""

    def _chooses(self) -> bool:
        """Whether leave-one-out chooses a parameter once the rows are there."""
        return self._wants("loo")

    def _looks_at_labels(self) -> bool:
        """Whether something beside the sums was found by looking at labels."""
        return self._chooses()

    def _chosen_by_rows(self) -> str:
        """What was chosen by looking at rows, so that one row more might change it; nothing in most models."""
        if self._chooses():
            return "leave-one-out chose a part of it"
        if any(getattr(block.family, "shape", "") == "bic" for block in self.model_.joint.blocks):
            return "the shape of its covariances was chosen by BIC"
        return self._guessed()

    def _sums_decide(self) -> bool:
        quick = all(block.family.downdates(block.alpha) for block in self.model_.joint.blocks)
        return quick and not self._chosen_by_rows()

    def _choose(self, model: Model, data: Data, codes: Array, weight: Floats | None) -> Model:
        return model.with_joint(model.joint.with_alpha(best_alpha(model, data, codes, weight, self.n_jobs)))

    # ------------------------------------------------------------------ rows that are elsewhere

    def _fit_engine(self, engine: Any, split: Any, **how: Any) -> None:
        from deciban.estimators.anywhere import fit_joint

        fit_joint(self, engine, split, **how)

    def _begun(self: Self, X: Any, y: Any, weight: Any, classes: Array | None = None) -> Self:
        """A copy that knows from a sample what the columns are like, and has learned nothing."""
        part = copy.copy(self)
        for leftover in (*GUESSES, "em_", "model_"):
            part.__dict__.pop(leftover, None)
        part._check_parameters()
        X, labels, weight = part._read_rows(X, y, weight, reset=True, classes=classes)
        part._look_at_rows(X, labels, weight)
        if part._guessed():
            raise DecibanError(f"{part._guessed()}, and so must have them all in memory")
        joint = part._joint()
        if classes is not None:
            part._check_known(labels, classes)
            labels = labels.placed(classes)
        part.model_ = Model(joint, part._sums(X, labels, joint, None, classes is not None, weight))
        return part.empty()

    def _add(self, X: Any, y: Any, weight: Any) -> None:
        """Learn rows that hide nothing, and count the others: EM goes over those once all sums are there."""
        X, labels, weight = self._read_rows(X, y, weight, reset=False, least=0)
        if self.model_.schema.closed:
            self._check_known(labels, self.model_.classes)
        batch = self._collect(X, labels, weight)
        gaps = self._gaps(X, labels, weight, batch) & (labels.codes >= 0)
        self._count_hidden(int((labels.codes < 0).sum()), int(gaps.sum()))
        self.model_ = Model(self.model_.joint, self.model_.stats + batch)

    def _choose_last(self, X: Any, y: Any, weight: Any) -> None:
        """What leave-one-out chooses, by the rows of a sample: all of them were learned."""
        if not self._chooses():
            return
        X, labels, weight = self._read_rows(X, y, weight, reset=False, least=0)
        data, codes = self._data(X, self.model_), labels.among(self.model_.classes)
        counted = (codes >= 0) & ~expect.rows_with_gaps(data, self.model_.joint)
        rows = np.flatnonzero(counted if weight is None else counted & (weight > 0))
        if len(rows):
            some = [part[rows] for part in data], codes[rows], None if weight is None else weight[rows]
            self.model_ = self._choose(self.model_, *some)

    def _count_hidden(self, unlabelled: int, incomplete: int) -> None:
        for name, count in zip(GUESSES, (unlabelled, incomplete), strict=True):
            if count:
                setattr(self, name, getattr(self, name, 0) + count)

    def _expected(self, X: Any, y: Any, weight: Any, hidden_weight: float) -> tuple[float, Stats]:
        """A step of EM over some rows: Σ log p, and the sums of those that hide something."""
        if y is None:
            data = self._data(self._validate(X, reset=False, least=0), self.model_)
            return expect.expect(data, self.model_, None, None, weight, self.n_jobs)
        X, labels, weight = self._read_rows(X, y, weight, reset=False, least=0)
        codes = labels.among(self.model_.classes)
        rows = expect.HiddenRows.of(self._data(X, self.model_), self.model_, codes, weight, hidden_weight)
        return rows.expected(self.model_, self.n_jobs)

    def _em_settings(self) -> dict[str, Any]:
        """What EM is told where every step goes over all rows wherever they are: how long, and how exactly."""
        return {"max_iter": 200}

    def _question(self, split: Any) -> Any:
        """What a database is asked for, where it can add up by itself what this model learns; None where it cannot."""
        from deciban.engines.base import Question

        kinds = dict.fromkeys(self._names() or (), "number")
        return Question(self.model_.joint, self.model_.schema, kinds, split.target, split.weight, self._positive)

    def _adopt(self, pushed: Any) -> None:
        """What the database answered, as what was learned."""
        self._count_hidden(pushed.unlabelled, pushed.incomplete)
        self.model_ = Model(self.model_.joint, pushed.stats)

    # ------------------------------------------------------------------ reading input

    def _read_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        reset: bool,
        classes: Array | None = None,
        least: int = 1,
        mark: Any = None,
    ) -> tuple[Any, Labels, Floats | None]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. To find classes without "
                "labels, say how many: clusters="
            )
        X = self._validate(X, reset=reset, least=least)
        n = X.shape[0]
        known = classes
        if known is None and not reset:
            known = self.classes_
        labels = read_labels(one_column(y) if mark is None else without_mark(y, mark), n, known)
        weight = None
        if sample_weight is not None:
            weight = read_weights(sample_weight, n)
            if (weight < 0).any():
                row = int(np.argmax(weight < 0))
                raise ValueError(f"sample_weight[{row}] is {weight[row]:g}: to take rows away, use forget")
            if n and least and not weight.any():
                raise ValueError("the total weight is zero: there is nothing to learn from")
        return X, labels, weight

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

    def _read_with_labels(self, X: Any, y: Any, sample_weight: Any) -> tuple[Data, Array, Floats | None]:
        """Rows that were learned, their class codes and weights."""
        self._check_classes()
        if self._guessed():
            raise ForgetError(f"{self._guessed()}, and {NO_WAY}")
        X, labels, weight = self._read_rows(X, y, sample_weight, reset=False, least=0)
        if labels.soft is not None or labels.any_missing:
            raise DecibanError("leave-one-out needs every row's label: leave out rows that have none")
        self._check_known(labels, self.classes_)
        return self._data(X, self.model_), labels.among(self.classes_), weight

    def _collect(self, X: Any, labels: Labels, weight: Floats | None) -> Stats:
        """A batch's statistics, in a schema of its own that the model's union takes in."""
        model = self.model_
        closed = model.schema.closed
        placed = labels.placed(model.classes) if closed else labels
        return self._sums(X, placed, model.joint, model.schema, closed, weight)

    def _sums(
        self, X: Any, labels: Labels, joint: Joint, known: Schema | None, closed: bool, weight: Floats | None
    ) -> Stats:
        """Statistics of rows: read as the families read them, beside the columns known so far, and added up."""
        data, columns = self._learn_data(X, known, labels, weight)
        schema, shares = Schema(labels.classes, columns, closed), labels.shares
        if len(data) > 1:  # a row that EM has yet to fill in one block must not be in another's sums already
            gaps = expect.rows_with_gaps(data, joint)
            if gaps.any():
                shares = (
                    np.where(gaps, np.int32(-1), shares) if shares.ndim == 1 else np.where(gaps[:, None], 0.0, shares)
                )
        return collect.collect(data, joint, schema, shares, weight, self.n_jobs)

    def _check_known(self, labels: Labels, known: Array) -> None:
        unknown = np.setdiff1d(labels.classes, known) if len(labels.classes) else labels.classes
        if len(unknown):
            raise ValueError(f"The target label(s) {unknown} in y do not exist in the initial classes {known}")

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
        for alpha in (block.alpha for block in model.joint.blocks):
            rows = np.shape(alpha)[0] if not isinstance(alpha, str) and np.ndim(alpha) == 2 else len(model.classes)
            if rows != len(model.classes):
                labels = model.classes.tolist()
                raise ValueError(f"alpha has a row for {rows} classes, but there are {len(labels)}: {labels}")

    def _law_is_ours(self, model: Model) -> bool:
        """Whether a model's families are those that the parameters speak of."""
        return tuple(block.family for block in model.joint.blocks) == self._families()

    def _wants(self, how: str) -> bool:
        return isinstance(self.alpha, str) and self.alpha == how

    def _current_joint(self) -> Joint:
        """The joint law as the parameters have it now; what leave-one-out chose stays until the next fit."""
        joint = self._joint()
        return replace(joint, blocks=self.model_.joint.blocks) if self._chooses() else joint

    # ------------------------------------------------------------------ what only sums with labels can answer

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut | Tally:
        """Every row's posterior under the model that never saw it, exactly and without refitting.

        Where leave-one-out has chosen something (alpha, shrinkage, a shape), each fifth of the rows is judged under
        what the others choose without it, if all that was learned is given; of some of the rows, under what was chosen.
        `how` says which.

        The rows must be (some of) those the model has learned, with the same weights: others give numbers that mean
        nothing, and cannot always be noticed. With many different weights, Bernoulli and Poisson models take a pass
        over all features for each of them. A row so far out that rounding hides what is left without it is judged by
        its class's other rows, learned anew, which must all be given. Of rows that are elsewhere, the answer is a
        `Tally`: sums over them all.
        """
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            return anywhere.leave_one_out(self, source, y, sample_weight)
        data, codes, weight = self._read_with_labels(X, y, sample_weight)
        learned = self._check_learned(codes, weight)
        families = self._families()
        if any(law.whole_rows or not law.downdates(self.model_.alpha(b)) for b, law in enumerate(families)):
            score.check_finite(data, self.model_)
            gaps = expect.rows_with_gaps(data, self.model_.joint)
            if gaps.any():
                row = int(np.argmax(gaps))
                raise ForgetError(f"row {row} has a missing entry, and this model has learned none that had")
        if learned and self._looks_at_labels() and len(codes):
            chosen = partial(self._as_chosen_by, data, codes, weight)
            found = cross_fitted(self.model_, chosen, data, codes, weight, self.n_jobs)
        else:
            found = leave_one_out(self.model_, data, codes, weight, self.n_jobs)
            found = replace(found, way=HELD) if self._looks_at_labels() and len(codes) else found
        for row in rows_in_doubt(found.log_proba):
            raise ForgetError(
                f"row {row} lies so far out that what is left of class {plain(self.classes_[codes[row]])!r} without it "
                "is less than the rounding of its sums: give all rows of the class at once, in memory"
            )
        return found

    def _as_chosen_by(
        self, data: Data, codes: Array, weight: Floats | None, rows: Data, y: Array, rows_weight: Floats | None
    ) -> Model:
        """The model of all rows, `data`, under what some of them, `rows`, choose."""
        del data, codes, weight
        joint, model = self._joint(), self.model_
        if not self._chooses():
            return model
        part = Model(joint, collect.collect(rows, joint, model.schema, y, rows_weight, self.n_jobs))
        able = ~alone_in_class(part.stats.weight, y, rows_weight)
        if len(np.unique(y[able])) < 2:  # nothing to choose by
            return model.with_joint(replace(joint, class_prior=model.joint.class_prior))
        return model.with_joint(self._choose(part, rows, y, rows_weight).joint)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows that are predicted right."""
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            return anywhere.score(self, source, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def _check_learned(self, codes: Array, weight: Floats | None) -> bool:
        """Rows of a class cannot outweigh what was learned of it. Whether they are all that was learned."""
        asked = np.bincount(codes, weights=weight, minlength=len(self.classes_))
        over = np.flatnonzero(asked > self.model_.stats.weight * (1 + 1e-9))
        if len(over):
            c = int(over[0])
            raise ForgetError(
                f"leave-one-out takes rows the model has learned: of class {plain(self.classes_[c])!r} it learned "
                f"{self.model_.stats.weight[c]:g}, and {asked[c]:g} were given"
            )
        return bool(np.allclose(asked, self.model_.stats.weight, rtol=1e-9, atol=0.0))

    def with_prior(self: Self, prior: Any) -> Self:
        """The same model under another class prior: probabilities (a sequence or {class: p}), or "uniform".

        The prior becomes the model's parameter (`class_prior`, or `priors` of a Gaussian): clones and later batches
        keep it.
        """
        self._check_classes()
        prior = self._read_prior(prior)
        other = copy.copy(self)
        setattr(other, self._prior_parameter, prior)
        other.model_ = self.model_.with_prior(prior)
        other._check_model(other.model_)
        return other

    def _prior(self) -> Floats:
        """P(y)."""
        return np.exp(self.model_.log_prior)

    @available_if(is_generative("posterior that a new prior would change"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def adapt_prior(self: Self, X: Any) -> Self:
        """The same model with the class prior under which the unlabelled rows X are most likely, by EM."""
        proba = self.predict_proba(X)
        prior, _ = bayes.adapt_prior(proba, np.asarray(self._prior(), dtype=np.float64))
        return self.with_prior(prior)

    # ------------------------------------------------------------------ keeping

    @property
    def alpha_(self) -> Any:
        """The prior strength in use: as given, or as chosen by "empirical" or "loo"."""
        check_is_fitted(self)
        return self.model_.alpha()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file; `deciban.load` reads it."""
        check_is_fitted(self)
        self._check_parameters()
        if not self._law_is_ours(self.model_):
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")
        self._check_model(self.model_.with_joint(self._current_joint()))
        state = {name: value for name, value in vars(self).items() if name in self._kept}
        self._write(path, self._parameters_out(), state)

    def _parameters_out(self) -> dict[str, Any]:
        """The parameters as a file can hold them."""
        return dict(self.get_params(deep=False))

    def _restore(self, model: Model, about: dict[str, Any]) -> None:
        """What `save` kept, checked against the parameters as a fit would be."""
        state = self._read_back(model, about, self._kept)
        self._check_parameters()
        if not self._law_is_ours(model):
            raise ValueError("its family is not the model's")
        self._check_model(model)
        if not self._chooses():
            self._check_model(model.with_joint(self._joint()))
        self.__dict__.update(state)
        self.model_ = model


def what_is_counted(joint: Joint, schema: Schema) -> list[tuple[Measure, ...]]:
    """T(x), block by block."""
    return [block.family.measures(columns) for block, columns in zip(joint.blocks, schema.blocks, strict=True)]


def plugged_in(joint: Joint) -> Joint:
    """The same law with parameters plugged in where they would be integrated out."""
    blocks = [
        replace(block, family=replace(block.family, predictive=False))  # type: ignore[call-arg]
        if hasattr(block.family, "predictive")
        else block
        for block in joint.blocks
    ]
    return replace(joint, blocks=tuple(blocks))


def same_labels(classes: Array, given: Array) -> bool:
    """Whether `given` lists exactly these classes."""
    return len(given) == len(classes) and bool(np.array_equal(np.sort(given), classes))
