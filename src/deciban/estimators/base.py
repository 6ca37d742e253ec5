"""The base of every estimator: scikit-learn's methods, and those of a model that is a sum, each written once.

An estimator defines its parameters in `__init__`, how it reads rows (`_reader`) and what it learns (`_joint`, or
`_learned` if that is not a joint distribution); the rest are attributes with scikit-learn's names. All state is
`model_`, a value that keeps the contract of `learner`: it is replaced as a whole after learning, and unchanged after an
error. Threads may share an estimator: see `changes`.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, update_wrapper, wraps
from types import MethodType
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, check_random_state

from deciban import bayes, em, expect
from deciban._typing import Array, Codes, Floats
from deciban.choices import ByAlpha
from deciban.corollaries.conformal import PredictionSets, Strangeness
from deciban.corollaries.decay import share_left
from deciban.corollaries.importance import importance_of, stored_importance
from deciban.corollaries.leave_one_out import CANNOT_LEAVE_OUT, LeaveOneOut
from deciban.corollaries.linear_form import LinearForm, linear_form
from deciban.engines.dispatch import engine_of
from deciban.errors import DecibanError, ForgetError, NotAvailableError, SchemaError, did_you_mean
from deciban.estimators import attributes, prediction_sets, validation
from deciban.estimators.changes import changing, of_one_state
from deciban.estimators.parameters import prior_by_class
from deciban.estimators.validation import generator
from deciban.joint import Block, Joint, Model
from deciban.joint_model import Choice, JointModel, check_prior, with_no_rows
from deciban.learner import AS_LABELLED, Hidden
from deciban.measure import Measure
from deciban.priors import Alpha
from deciban.readers.base import Reader
from deciban.reading.frames import read_frame, split_target
from deciban.reading.given import Rows, explained_row, single_text
from deciban.reading.labels import Labels, read_labels, read_weights, without_mark
from deciban.reading.native import FRAME_LIBRARIES, by_class, to_native
from deciban.results.evidence import Evidence, grouping
from deciban.results.importance import Importance
from deciban.results.ledger import Ledger
from deciban.results.tally import Tally
from deciban.schema import Schema
from deciban.show import Table, plain, progress
from deciban.storage import files

GUESSED_COUNTS = {
    "n_unlabelled_": "unlabelled",
    "n_incomplete_": "incomplete",
}  # numbers of rows with guesses: attribute, and field of the model
SAVED_STATE = (*GUESSED_COUNTS, "dtype_", "medians_", "kinds_", "table_kind_")  # saved with the model


class available_if:  # noqa: N801 - a decorator
    """A method that some estimators lack, as in scikit-learn, but the error is the one of `check`, with its reason."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> Any:
        self.method = method
        return update_wrapper(self, method)

    def __get__(self, estimator: Any, owner: type) -> Callable[..., Any]:
        if estimator is None:
            return self.method
        self.check(estimator)
        return MethodType(self.method, estimator)


def is_generative(missing: str) -> Callable[[Any], bool]:
    """For methods that only a generative model has."""

    def check(model: Any) -> bool:
        if not model._generative:
            raise NotAvailableError(
                f"{type(model).__name__} is not a generative model: it has no {missing}. MultinomialNB, which takes "
                "the same rows, has one"
            )
        return True

    return check


def also_on_engines(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method for rows in memory take rows of any engine too, one partition at a time."""

    @wraps(method)
    @of_one_state
    def answer(self: Any, X: Any, **how: Any) -> Any:
        engine = self._engine(X)
        if engine is None:
            return method(self, X, **how)
        if any(how.values()):
            raise DecibanError(f"{', '.join(how)} is for rows in memory, but these are on an engine")
        from deciban.estimators.on_engines import answer

        return answer(self, engine, method.__name__)

    return answer


class Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Everything that a model that is a sum can do, as scikit-learn's methods and its own."""

    model_: Any  # a Learner
    n_features_in_: int
    n_jobs: int | None
    alpha: Any = 0.0
    origin_: dict[str, Any] | None = None  # where the rows came from: a note that `save` writes and `load` reads back
    calibration_: Strangeness | None = None  # scores that `calibrate` stored

    _generative: ClassVar[bool] = True
    _texts: ClassVar[bool] = False  # whether rows are texts
    _sparse: ClassVar[bool] = True  # whether sparse rows are accepted
    _strings: ClassVar[bool] = False  # whether values may be strings
    _strings_are_categories: ClassVar[bool] = False  # and so numbers in files must be read as such beforehand
    _positive: ClassVar[bool] = False  # whether values must not be negative
    _keeps_dtype: ClassVar[bool] = False  # whether attributes have the type of the data
    _poor_score: ClassVar[bool] = False  # whether it scores poorly on scikit-learn's examples
    _needs_labels: ClassVar[bool] = True
    _skips_unlabelled: ClassVar[bool] = False  # whether rows of an engine without a label are skipped
    _unlabelled_weight: ClassVar[float] = 1.0  # the default for rows without a label
    _first_batch_on_engine: ClassVar[bool] = True  # whether the first batch may be rows of an engine
    _prior_parameter: ClassVar[str] = "class_prior"
    _may_differ: ClassVar[tuple[str, ...]] = ("n_jobs",)  # parameters that may differ between models to merge

    # ------------------------------------------------------------------ defined by estimators

    def _reader(self) -> Reader:
        """How rows are read."""
        raise TypeError("an estimator must define how it reads rows")

    def _joint(self) -> Joint:
        """The joint distribution that the parameters define."""
        raise TypeError("an estimator must define what it learns")

    def _choice(self) -> Choice:
        """What leave-one-out chooses."""
        return ByAlpha(self._joint()) if self._wants_loo() else Choice(self._joint())

    def _look_at_rows(self, X: Any, labels: Labels, weight: Floats | None) -> str:
        """Compute what a few models need from rows beyond sums; returns why rows cannot be forgotten then, or ""."""
        del X, labels, weight
        return ""

    def _first_shares(self, rows: Any, k: int, weight: Floats | None) -> Any:
        """A function that draws starts for clusters; None for the default, one random row for each."""
        del rows, k, weight

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:  # scikit-learn reads the signature again every time: a millisecond
        return list(super()._get_param_names())

    def _check_parameters(self) -> None:
        self._validate_params()

    def _check_model(self, model: Any) -> None:
        """Parameters that can only be checked once classes and columns are known."""
        if isinstance(model, JointModel):
            check_prior(model, self._prior_parameter)
        else:
            prior_by_class(getattr(self, self._prior_parameter), model.classes)

    def _check_fitted(self, model: Any) -> None:
        """Checks after a whole fit, but not after a first batch."""
        self._warn_about(model)

    def _warn_about(self, model: Any) -> None:
        """Warn, once per model, if the sums do not determine the parameters."""

    # ------------------------------------------------------------------ learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        unlabelled: Any = None,
        unlabelled_weight: float | None = None,
        clusters: int | None = None,
        random_state: Any = 0,
        text: str | None = None,
        engine: str | None = None,
    ) -> Self:
        """Learn from rows and labels, forgetting everything learned before.

        Parameters
        ----------
        X : array-like, sparse matrix, table or texts, as the model takes them; or data in files, databases and clusters
            Rows. Missing entries (NaN, None, masked) are ignored; if columns depend on each other, EM fills them in.
            Files (a path, a pattern), `deciban.stream`, tables of databases (`deciban.table`, DuckDB relations), and
            Dask's and Spark's frames are learned where they are.
        y : array-like of shape (n,), or the name of a column
            Labels. Missing ones (None, NaN) are guessed; see `unlabelled_weight`. For joint distributions a matrix of
            shape (n, k) gives a weight per class. Without labels, `clusters` is the number of classes to find.
        sample_weight : array-like of shape (n,), or the name of a column of data that is not in memory, optional
            A row of weight 2 counts as two rows; one of weight 0 adds nothing to any sum.
        unlabelled : label, optional
            Another value that means a missing label, such as −1 or "?".
        unlabelled_weight : float, optional
            The weight of a row without a label, relative to one with a label. The default depends on the model: 1 for
            joint distributions, whose labels EM estimates; 0.1 for texts, and 0 for `Classifier`, which guess from the
            labelled rows. With 0 such rows are left out, and `class_count_` is of the others. If assumptions are rough,
            many unlabelled rows outweigh few labels: lower the weight then.
        clusters : int, optional
            With y=None: the number of classes to find, by EM from several random starts.
        random_state : int, RandomState or None, default=0
            The random seed of those starts.
        text : str, optional
            The column of texts of data that is not in memory, if several columns are strings.
        engine : {"stream", "duckdb", "dask", "spark"}, optional
            The engine that reads files; by default "stream", or the engine of X.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [1.2], [3.0], [3.3]], ["a", "a", "b", "b"])
        >>> model.predict([[2.9]]).tolist()
        ['b']
        """
        hidden = self._hidden(unlabelled_weight, clusters, random_state)
        source = self._engine(X, y, engine, anew=True)
        if source is not None:
            from deciban.estimators import on_engines

            how = {"mark": unlabelled, "hidden": hidden, "clusters": clusters}
            on_engines.fit(self, source, y, sample_weight, text, **how)
            return self
        with changing(self) as new:
            new._check_parameters()
            if clusters is not None:
                y = new._no_labels(X, y, clusters)
            X, y, sample_weight = new._rows_with_weight(X, y, sample_weight, some=True)
            given, y = new._split(X, y)
            X, labels, weight = new._read(given, y, sample_weight, reset=True, mark=unlabelled)
            if clusters is not None:
                labels = labels.placed(np.arange(clusters))
            new.model_ = new._learned(X, labels, weight, hidden=hidden)
            new._check_fitted(new.model_)
            if clusters is None:
                rows = new._rows_to_keep(given, X)
                prediction_sets.keep(new, rows, labels, weight, {"unlabelled_weight": hidden.weight})
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows: new classes, categories and words are added as they occur.

        If nothing is chosen from the rows, any batching gives the same model as `fit` on all of them. Choices (bins,
        trees, reliabilities, alpha="loo") are made by `fit` or the first batch, and then kept: the sums are those of
        all rows under these choices. Rows with missing entries in columns that depend on each other are an exception:
        EM fills in each batch given what was learned before it.

        With `classes` on the first call the set of classes is closed, and another label is an error, as in
        scikit-learn; without it the set is open. X may be data in files, databases and clusters, as in `fit`.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB().partial_fit([[1, 0]], ["a"]).partial_fit([[0, 1]], ["b"])  # a class that is new
        >>> model.class_count_.tolist()
        [1.0, 1.0]
        """
        source = self._engine(X, y)
        if source is not None:
            from deciban.estimators import on_engines

            on_engines.learn_more(self, source, y, sample_weight, classes=classes)
            return self
        with changing(self) as new:
            new._check_parameters()
            first = not new.__sklearn_is_fitted__()
            new._check_adds("cannot learn in batches")
            declared = new._declared(classes, first)
            X, y, sample_weight = new._rows_with_weight(X, y, sample_weight, some=first)
            X, labels, weight = new._read(X, y, sample_weight, reset=first, classes=declared, least=0)
            if labels.any_missing:
                raise DecibanError(
                    "row {row} of y has no label: partial_fit takes only labelled rows; fit infers missing labels "
                    "from all rows at once",
                    row=int(np.argmax(labels.codes < 0)),
                )
            known = declared if first else new.classes_
            closed = declared is not None if first else bool(new.model_.closed)
            if known is not None and closed:
                check_known(labels, known)
                labels = labels.placed(known)
            new.model_ = (
                new._learned(X, labels, weight, closed=closed) if first else new._with_more_rows(X, labels, weight)
            )
        return self

    @of_one_state
    def private(
        self,
        X: Any,
        y: Any = None,
        *,
        epsilon: float,
        delta: float = 0.0,
        classes: Any,
        bounds: Any = None,
        categories: Any = None,
        missing: Sequence[Any] = (),
        max_words: float | None = None,
    ) -> Self:
        """A new model of these rows that is differentially private: it hides whether any one row was learned.

        It has the parameters of this one, and what this one has learned has no part in it. Values are cut to bounds,
        summed, and OpenDP (an optional dependency) adds noise to every sum; `privacy_` states how much. It needs rows,
        since sums of values that were not cut cannot be cut afterwards. For naive Bayes of counts, categories and
        numbers with fixed parameters; models that choose something from rows refuse.

        Everything that a row could change must be declared, from what you know about the data and not from the rows.
        Values outside are cut to the bounds; undeclared categories, and rows of undeclared classes, are ignored, with
        a warning, which is for those who may see the rows. Neighbouring data differ by one row.

        Parameters
        ----------
        X, y : rows in memory and their labels, as `fit` takes them; missing labels are not guessed
        epsilon : float
            The privacy loss: with or without a row, any result is at most e^ε times as probable. Less is more private.
        delta : float, default=0.0
            The probability with which that may fail, far below 1/n. With 0 noise is from a Laplace distribution,
            otherwise from a Gaussian, which is less if there are many columns.
        classes : array-like
            All labels.
        bounds : {column: (low, high)} or (low, high)
            The range of each column of numbers, by name or index; a pair of numbers or of arrays is for all columns.
        categories : {column: values} or a list for each column
            All values of each column of categories.
        missing : sequence of columns, optional
            Columns of numbers in which values may be missing: to count them costs a part of the budget. In others a
            missing number counts as the middle of its bounds, and a missing feature of a `BernoulliNB` as absent.
        max_words : float, optional
            The most words of a document that count, for bags of words: longer documents are scaled down.

        Examples
        --------
        >>> from deciban import GaussianNB
        >>> ages, ill = [[23.0], [31.0], [64.0], [71.0], [58.0], [35.0]], ["no", "no", "yes", "yes", "yes", "no"]
        >>> model = GaussianNB().private(ages, ill, epsilon=2.0, classes=["no", "yes"], bounds={0: (0, 100)})
        >>> model.privacy_.to_table()
        statistic  column  sensitivity       ε  noise scale
        rows                         1  0.6667          1.5
        Σx         x0               50  0.6667           75
        Σx²        x0             1250  0.6667         1875
        """
        from deciban.estimators.private import Declarations, private

        what = Declarations(classes, bounds, categories, tuple(missing), max_words)
        made: Self = private(self, X, y, epsilon, delta, what)
        return made

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Unlearn rows: afterwards the sums are those of a model that made the same choices and never saw them.

        Rows that were never learned are an error if the sums show it, and the model is unchanged. So are rows so
        extreme that what remains without them is less than the rounding of the sums: fit again without them. After
        `decay` rows weigh less, which `sample_weight` must state. What was chosen with the rows (bins, trees,
        reliabilities) stays until `fit`.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB().fit([[1, 0], [0, 1], [1, 1]], ["a", "b", "b"]).forget([[1, 1]], ["b"])
        >>> never = BernoulliNB().fit([[1, 0], [0, 1]], ["a", "b"])
        >>> bool((model.predict_proba([[1, 1]]) == never.predict_proba([[1, 1]])).all())
        True
        """
        source = self._engine(X, y)
        with changing(self) as new:
            check_is_fitted(new)
            new._check_exact("and rows cannot be subtracted: fit again without them")
            if source is not None:
                from deciban.estimators import on_engines

                if isinstance(new.model_, JointModel):
                    batch = on_engines.batch_of(new, source, y, sample_weight)
                    new.model_ = new._checked_remainder(new.model_ - batch)
                else:  # table by table, so that an error names a row that was never learned
                    on_engines.forget(new, source, y, sample_weight)
            else:
                new.model_ = new._without_rows(*new._rows_with_weight(X, y, sample_weight))
        return self

    def decay(self, half_life: float, rows: float = 1) -> Self:
        """Make what was learned so far count half as much for every `half_life` rows since then.

        If the data drifts, old rows mislead. In a stream, decay by the number of rows of each batch before it:

            model.decay(half_life=10_000, rows=len(X)).partial_fit(X, y)

        That is the model of all rows with weights 2^(−age/half_life), age being the rows of later batches. The
        class prior follows; a prior's pseudo-counts (`alpha`) do not decay, so that little data relies on it. Classes
        and categories stay known; words of weight less than 2^−30 are dropped, so that a stream does not fill memory.
        Choices stay; of texts, until `refit_reliability`, which weights them by age. Rows that were learned before
        weigh less now: to `forget` one, or to leave it out, give its current weight,
        sample_weight=[2 ** (-age / half_life)].

        Parameters
        ----------
        half_life : float
            Rows after which the weight is halved. Infinity changes nothing. Any other unit works too: with
            half_life=30, call it with rows=1 once a day.
        rows : float, default=1
            The number of rows since.

        >>> from deciban import BernoulliNB
        >>> BernoulliNB().fit([[1], [0]], ["a", "b"]).decay(half_life=10, rows=20).class_count_.tolist()
        [0.25, 0.25]
        """
        share = share_left(half_life, rows)  # checked even if nothing was learned yet, as before a stream's first batch
        with changing(self) as new:
            if new.__sklearn_is_fitted__():
                new._check_adds("cannot decay")
                if share < 1.0:
                    new.model_ = new.model_.scale(share)
        return self

    @of_one_state
    def empty(self) -> Self:
        """A copy with the same choices that has learned nothing: to learn other rows, and be merged with `+`.

        Parts of the data can be learned by such copies, anywhere. Those of texts choose nothing and keep no documents
        to choose by; in the end, `refit_reliability(X, y)` with some of the documents fits reliabilities to all that
        was learned.

        >>> from deciban import TextClassifier
        >>> first = TextClassifier().fit(["win cash", "cash prize", "lunch at noon", "at lunch"], [1, 1, 0, 0])
        >>> parts = [first.empty().partial_fit(["cash now"], [1]), first.empty().partial_fit(["noon?"], [0])]
        >>> (first + parts[0] + parts[1]).class_count_.tolist()
        [3.0, 3.0]
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.model_ = self.model_.zero()
        return other

    @of_one_state
    def __add__(self, other: Self) -> Self:
        """The model that learned what both did, under the choices that both made.

        What leave-one-out chose for each is averaged by how much each has learned, or is that of the one that learned
        more. Table models that were fitted independently have made different choices, and cannot be added: let the
        second learn under the first's choices, first.empty().partial_fit(rows, labels).
        """
        if type(other) is not type(self):
            return NotImplemented
        check_is_fitted(self)
        check_is_fitted(other)
        for model in (self, other):
            model._check_adds("cannot be merged")
        self._check_mergeable(other)
        merged = copy.copy(self)
        if self._names() is None and other._names() is not None:
            merged.feature_names_in_ = other.feature_names_in_
        merged.model_ = self._merged_with(other)
        merged._check_model(merged.model_)
        return merged

    def _merged_with(self, other: Any) -> Any:
        return self.model_ + other.model_

    @of_one_state
    def __sub__(self, other: Self) -> Self:
        """The model without what the other learned, which must be a part of what this one learned.

        The inverse of `+`: sums that were learned apart by `empty()` copies can be taken away again.

        >>> from deciban import MultinomialNB
        >>> model = MultinomialNB().fit([[2, 0], [0, 1]], ["spam", "ham"])
        >>> part = model.empty().partial_fit([[1, 1]], ["spam"])
        >>> (model + part - part).class_count_.tolist()
        [1.0, 1.0]
        """
        if type(other) is not type(self):
            return NotImplemented
        check_is_fitted(self)
        check_is_fitted(other)
        self._check_adds("cannot be reduced")
        self._check_exact("and nothing can be subtracted: fit again without it")
        self._check_mergeable(other)
        rest = copy.copy(self)
        rest.model_ = self._checked_remainder(self.model_ - other.model_)
        return rest

    def __radd__(self, other: Any) -> Self:
        """So that sum(models) works."""
        return copy.copy(self) if other == 0 else NotImplemented

    # ------------------------------------------------------------------ how a joint distribution is learned

    def _learned(
        self, X: Any, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> Any:
        """The model of these rows, after all choices, with missing labels and entries guessed."""
        model, rows = self._summed(X, labels, weight, closed)
        gaps = model.gaps(rows, weight, labels).any()
        if (labels.any_missing or gaps) and len(labels.classes) == 0:
            raise ValueError(
                "every label is missing: label at least one row of each class, or pass y=None and the number of "
                "classes as clusters="
            )
        if (
            model.choice is not None and model.choice.chooses() and not hidden.clusters
        ):  # there is no label to choose with
            if labels.soft is not None:
                raise ValueError("choosing by leave-one-out needs one label per row, not a matrix of weights")
            complete = self._filled(model, rows, labels, weight, hidden) if gaps else model
            model = model.with_joint(complete.choose(rows, labels.codes, weight, self.n_jobs).joint)
        return self._filled(model, rows, labels, weight, hidden) if labels.any_missing or gaps else model

    def _summed(self, X: Any, labels: Labels, weight: Floats | None, closed: bool) -> tuple[JointModel, Any]:
        """The model of rows with nothing missing, and all rows as they are read."""
        self.__dict__.pop("model_", None)
        frozen = self._look_at_rows(X, labels, weight)
        choice, reader = self._choice(), self._reader()
        rows = reader.learn(X, None, labels, weight)
        empty = with_no_rows(choice, labels.classes, rows.columns, closed)
        model = replace(empty, frozen=frozen, least=self._least()).batch(rows, labels, weight, self.n_jobs)
        self._check_model(model)
        return model, rows

    def _with_more_rows(self, X: Any, labels: Labels, weight: Floats | None) -> Any:
        """The model with more rows."""
        if not isinstance(self.model_, JointModel):  # it makes its own choices
            rows = self._reader().learn(X, self.model_, labels, weight)
            more = self.model_.learn(rows, labels, weight, self.n_jobs)
            self._check_model(more)
            return more
        before, choice = self.model_, self._choice()
        joint = choice.current(before)
        if measures_of(joint, before.schema) != measures_of(before.joint, before.schema):
            raise ValueError(
                "a parameter that determines the sums has changed since the last batch: call fit to start again"
            )
        rows = self._reader().learn(X, before, labels, weight)
        batch = before.batch(rows, labels, weight, self.n_jobs)
        model = (before + batch).with_joint(joint)
        model = replace(model, choice=choice)
        self._check_model(model)
        if batch.gaps(rows, weight, labels).any():
            model = self._filled(model, rows, labels.placed(model.classes), weight, AS_LABELLED)
        return model

    def _without_rows(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """The model without rows that it has learned."""
        X, labels, weight = self._read(X, y, sample_weight, reset=False, least=0)
        if labels.any_missing:
            raise DecibanError("rows to forget need their labels")
        if self.model_.closed and not len(np.setdiff1d(labels.classes, self.classes_)):
            labels = labels.placed(self.classes_)
        rows = self._reader().learn(X, self.model_, labels, weight)
        return self._checked_remainder(self.model_.forget(rows, labels, weight, self.n_jobs))

    def _filled(
        self, model: JointModel, rows: Any, labels: Labels, weight: Floats | None, hidden: Hidden
    ) -> JointModel:
        """EM over missing labels, and over missing entries if columns depend on each other."""
        if labels.soft is not None:
            raise ValueError("a matrix of label weights cannot be combined with missing values here: impute them first")
        with progress("EM") as watch:
            first = None
            if hidden.clusters:  # rows of weight zero do not count
                weighted_rows = rows.floats() if weight is None else rows.floats().take(np.flatnonzero(weight))
                weights = None if weight is None else weight[weight > 0]
                first = self._first_shares(weighted_rows, len(model.classes), weights)
            model = model.fill(rows, labels.codes, weight, hidden, self.n_jobs, watch, first)
        if model.filled_by is not None:
            validation.warn_of_em(model.filled_by)
        return model

    def _least(self) -> tuple[int, ...] | None:
        """The smallest number of integer categories of each column."""
        return None

    def _checked_remainder(self, model: Any) -> Any:
        """The model after forgetting, checked."""
        try:
            self._check_model(model)
        except ValueError as error:
            raise ForgetError(f"cannot forget all rows of a class that the parameters mention: {error}") from None
        return model

    def _rows_with_weight(self, X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
        """Rows, labels and weights without rows of weight zero, which must not influence anything."""
        del some
        return X, y, sample_weight

    # ------------------------------------------------------------------ learning on engines

    def _learned_on_engine(self, engine: Any, split: Any, hidden: Hidden, clusters: int | None) -> Any:
        """The model of all rows of an engine."""
        from deciban.estimators import on_engines

        return on_engines.learn_joint(self, engine, split, hidden, clusters)

    def _template(self, X: Any, y: Any, weight: Any, classes: Array | None = None) -> Self:
        """A copy that has made all choices on a sample, and has learned nothing."""
        part = copy.copy(self)
        part._check_parameters()
        X, labels, weight = part._read(X, y, weight, reset=True, classes=classes)
        if classes is not None:
            check_known(labels, classes)
            labels = labels.placed(classes)
        part.model_ = part._summed(X, labels, weight, classes is not None)[0]
        if part.model_.frozen:
            raise DecibanError(f"{part.model_.frozen}, so all rows must be in memory")
        return part.empty()

    def _batch(self, X: Any, y: Any, weight: Any) -> Any:
        """The model of rows with nothing missing; others are counted, for EM after all sums are known."""
        if not isinstance(self.model_, JointModel):
            return copy.copy(self).partial_fit(X, y, sample_weight=weight).model_
        X, labels, weight = self._read(X, y, weight, reset=False, least=0)
        if self.model_.closed:
            check_known(labels, self.classes_)
            labels = labels.placed(self.classes_)
        rows = self._reader().learn(X, self.model_, labels, weight)
        batch: Any = self.model_.batch(rows, labels, weight, self.n_jobs)
        gaps = batch.gaps(rows, weight, labels) & (labels.codes >= 0) if labels.soft is None else np.zeros(0)
        counts = {"unlabelled": int((labels.codes < 0).sum()), "incomplete": int(gaps.sum())}
        return replace(batch, **counts)

    def _chosen_by_sample(self, X: Any, y: Any, weight: Any) -> Any:
        """The model with what leave-one-out chooses on the rows of a sample, which were all learned."""
        if not self.model_.choice.chooses():
            return self.model_
        X, labels, weight = self._read(X, y, weight, reset=False, least=0)
        rows, codes = self._reader().score(X, self.model_), labels.among(self.classes_)
        complete = ~self.model_.gaps(rows)  # without rows that EM has yet to fill in
        weights = None if weight is None else weight[complete]
        return self.model_.choose(rows.take(complete), codes[complete], weights, self.n_jobs)

    def _expected(self, X: Any, y: Any, weight: Any, hidden_weight: float) -> tuple[float, Any]:
        """A step of EM over some rows: Σ log p, and the sums of those with something missing."""
        if y is None:
            rows = self._reader().score(self._validated(X, reset=False, least=0), self.model_)
            return expect.expect(rows.data, self.model_, None, None, weight, self.n_jobs)
        X, labels, weight = self._read(X, y, weight, reset=False, least=0)
        rows, codes = self._reader().score(X, self.model_), labels.among(self.classes_)
        hiding = expect.HiddenRows.of(rows.data, self.model_, codes, weight, hidden_weight)
        return hiding.expected(self.model_, self.n_jobs)

    def _em_settings(self) -> dict[str, Any]:
        """Settings of EM on engines, on which every step reads all rows: iterations and tolerance."""
        return {"max_iter": 200}

    # ------------------------------------------------------------------ missing labels

    def _hidden(self, weight: float | None, clusters: int | None, random_state: Any) -> Hidden:
        weight = self._unlabelled_weight if weight is None else weight
        if not 0 <= weight < np.inf:
            raise ValueError(f"unlabelled_weight is {weight}: it must be a number ≥ 0")
        return Hidden(float(weight), clusters is not None, check_random_state(random_state) if clusters else None)

    def _no_labels(self, X: Any, y: Any, clusters: Any) -> Array:
        if y is not None:
            raise ValueError("clusters= is for y=None: with labels, their number is known")
        if not isinstance(clusters, int | np.integer) or isinstance(clusters, bool) or clusters < 1:
            raise ValueError(f"clusters is {clusters!r}: it must be a whole number of at least 1")
        rows = self._size(X)
        if clusters > rows:
            raise ValueError(f"clusters is {clusters}, but there are only {rows} rows")
        if self._texts:
            raise ValueError(f"{type(self).__name__} needs labels and cannot find clusters")
        return np.full(rows, np.nan)

    def _size(self, X: Any) -> int:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)

    # ------------------------------------------------------------------ reading

    def _engine(self, X: Any, y: Any = None, engine: str | None = None, anew: bool = False) -> Any:
        """The engine for rows that are not in memory; None for those that are. `anew`: a fit, for which nothing is
        known yet."""
        if engine is None and isinstance(X, np.ndarray | dict):
            return None
        return engine_of(X, y, engine, self._texts, strings=() if anew else self._read_as_strings())

    def _read_as_strings(self) -> tuple[str, ...]:
        """The columns of files whose strings were learned as numbers or dates."""
        return tuple((self.origin_ or {}).get("formats", ()))

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        """Rows of any type as the reader takes them, after scikit-learn's checks of shape and names."""
        if self._texts:
            return self._reader().score(X, None)
        rows = validation.matrix(self, X, reset=reset, least=least, sparse=self._sparse)
        if reset and self._keeps_dtype:
            self.dtype_ = "float32" if rows.dtype == np.float32 else "float64"
        return rows

    def _split(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows and labels, where y may be the name of a column; texts in memory have no columns."""
        return split_target(X, y) if isinstance(y, str) and not self._texts else (X, y)

    def _read(
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
        """Validated rows, their labels and weights."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: pass the labels, or the "
                "name of their column in X. To find classes without labels, pass their number, as in "
                "NaiveBayes().fit(X, clusters=2)"
            )
        X, y = self._split(X, y)
        X = self._validated(X, reset=reset, least=least)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        known = self.classes_ if classes is None and not reset else classes
        labels = read_labels(validation.one_column(y) if mark is None else without_mark(y, mark), n, known)
        if self._texts and labels.soft is not None:
            raise ValueError(f"{type(self).__name__} takes one label per document, not a matrix of weights")
        return X, labels, None if sample_weight is None else checked_weights(sample_weight, n, bool(least))

    def _rows(self, X: Any) -> Any:
        """Rows for the model to score."""
        self._check_classes()
        self._warn_about(self.model_)
        return self._reader().score(self._validated(X, reset=False, least=0), self.model_)

    def _learned_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Floats | None]:
        """Rows that were learned, their class codes and weights."""
        self._check_classes()
        self._check_exact(f"and {CANNOT_LEAVE_OUT}")
        X, labels, weight = self._read(X, y, sample_weight, reset=False, least=0)
        if labels.soft is not None or labels.any_missing:
            raise DecibanError("leave-one-out needs every row's label: leave out rows that have none")
        unknown = np.setdiff1d(labels.classes, self.classes_) if len(labels.classes) else labels.classes
        if len(unknown):
            raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
        return self._reader().score(X, self.model_), labels.among(self.classes_), weight

    def _declared(self, classes: Any, first: bool) -> Array | None:
        """The classes given to partial_fit: the first time they close the set, later they must be the same."""
        declared = None if classes is None else np.unique(np.asarray(classes))
        if declared is not None and not first and not np.array_equal(np.sort(np.asarray(classes)), self.classes_):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}"
            )
        return declared

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def _features(self) -> tuple[str, ...]:
        """The names of the columns: as in the table that was learned, or x0, x1, …"""
        return self._names() or tuple(f"x{j}" for j in range(self.n_features_in_))

    # ------------------------------------------------------------------ predicting

    def _scores(self, X: Any, how: str) -> Array:
        """Scores of rows: "log_joint", "posterior", "log_posterior", or "best" class codes."""
        rows = self._rows(X)
        scores: Array = self.model_.scores(rows, how, self.n_jobs)
        return scores

    @of_one_state
    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log p(x, y) for every class, (n, k); if evidence is pooled, up to a constant per row.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB(alpha=0).fit([[1], [1], [0], [1]], ["a", "a", "b", "b"])
        >>> model.predict_joint_log_proba([[1]]).round(3).tolist()  # log ½·1 and log ½·½
        [[-0.693, -1.386]]
        """
        return self._scores(X, "log_joint")

    @also_on_engines
    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y | x), (n, k).

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB(alpha=0).fit([[1], [1], [0], [1]], ["a", "a", "b", "b"])
        >>> model.predict_log_proba([[1]]).round(3).tolist()  # log ⅔ and log ⅓
        [[-0.405, -1.099]]
        """
        return self._scores(X, "log_posterior")

    @also_on_engines
    def predict_proba(self, X: Any, *, as_frame: bool = False) -> Any:
        """P(y | x), (n, k), columns in the order of `classes_`.

        An array, or with `as_frame=True` a data frame with the classes as names of its columns: of the library of X,
        with its index, and of pandas if X is not a frame. `set_output` makes frames the default.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [2.0], [6.0], [8.0]], ["low", "low", "high", "high"])
        >>> model.predict_proba([[2.0], [3.0]], as_frame=True).round(3)
            high    low
        0  0.000  1.000
        1  0.015  0.985
        """
        proba, library = self._probabilities(X), getattr(self, "_sklearn_output_config", {}).get("predict_proba")
        return by_class(proba, self.classes_, X, library) if as_frame or library else proba

    def _probabilities(self, X: Any) -> Array:
        """P(y | x) as an array, whatever the user wants to see."""
        return self._cast(self._scores(X, "posterior"))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let `predict_proba` return data frames with the classes as names of their columns, as scikit-learn's
        transformers do.

        Parameters
        ----------
        transform : "pandas", "polars", "pyarrow" or "default", optional
            The library of the frames; "default" is an array again. None changes nothing.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [2.0], [6.0], [8.0]], ["low", "low", "high", "high"])
        >>> model.set_output(transform="pandas").predict_proba([[2.0]]).columns.tolist()
        ['high', 'low']
        """
        if transform not in (None, "default", *FRAME_LIBRARIES):
            known = ("default", *FRAME_LIBRARIES)
            hint = did_you_mean(str(transform), known, f"choose one of {', '.join(known)}")
            raise DecibanError("transform is {value!r}: {hint}", value=transform, hint=hint)
        if transform is not None:  # where scikit-learn's clones look for it
            self._sklearn_output_config = {"predict_proba": None if transform == "default" else transform}
        return self

    @also_on_engines
    def predict(self, X: Any) -> Array:
        """The most probable class of every row.

        >>> from deciban import BernoulliNB
        >>> BernoulliNB().fit([[1], [1], [0], [0]], ["a", "a", "b", "b"]).predict([[1], [0]]).tolist()
        ['a', 'b']
        """
        return self._predicted(X)

    def _predicted(self, X: Any) -> Array:
        return self.classes_.take(self._scores(X, "best"))

    def _possible_answers(self) -> Array:
        """The possible answers of `predict`."""
        return self.classes_

    def _cast(self, values: Floats) -> Array:
        """Numbers of the type of the data, for estimators that keep it."""
        return values

    def _has_density(self) -> bool:
        """Whether there is a p(x)."""
        return is_generative("p(x)")(self)

    @available_if(lambda self: self._has_density())
    @of_one_state
    def score_samples(self, X: Any) -> Floats:
        """log p(x) = log Σ_y p(x, y): low for rows unlike anything learned.

        For a `Classifier` it is under the distribution that `sample` draws from: a number has the density of its bin,
        one beyond all that was seen loses a nat for every standard deviation beyond, and columns of texts are ignored.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB(alpha=0).fit([[1], [1], [0], [1]], ["a", "a", "b", "b"])
        >>> model.score_samples([[1]]).round(3).tolist()  # log ¾
        [-0.288]
        """
        rows = self._rows(X)
        return self._cast(self.model_.log_density(rows, self.n_jobs))

    @of_one_state
    def decide(self, X: Any, costs: Any = None, reject: float | None = None) -> Array:
        """The answers with the least expected cost (S20).

        Parameters
        ----------
        X : rows, as `predict` takes them
        costs : (k, k) array or {truth: {answer: cost}}, optional
            costs[i, j] is the cost of answering class j when i is true; pairs missing from a mapping cost 1 if wrong,
            0 if right. By default every mistake costs 1.
        reject : float, optional
            The cost of not answering: rows for which every answer costs more get None.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB(alpha=0).fit([[1], [1], [0], [1]], ["ham", "ham", "spam", "spam"])
        >>> model.decide([[1]]).tolist(), model.decide([[1]], costs={"spam": {"ham": 3}}).tolist()  # P(ham) = ⅔
        (['ham'], ['spam'])
        >>> model.decide([[1]], reject=0.2).tolist()
        [None]
        """
        if reject is not None and not np.isfinite(reject):
            raise ValueError(f"reject is {reject}: the cost of not answering must be a finite number")
        chosen = bayes.decide(self._probabilities(X), self._costs(costs), reject)
        if reject is None:
            return np.asarray(self.classes_[chosen])
        out = np.empty(len(chosen), dtype=object)
        out[:] = [None if c < 0 else plain(self.classes_[c]) for c in chosen]
        return out

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        rows: Any = None,
        way: str = "auto",
        allow_empty: bool = True,
    ) -> PredictionSets:
        """For every row the classes that cannot be ruled out; the true one is among them with the promised frequency.

        Parameters
        ----------
        X : rows as `predict` takes them, in memory
        coverage : float, default=0.9
            The share of new rows whose class must be in the set.
        by_class : bool, default=False
            Whether the coverage must hold for every class separately, so that rare classes are not sacrificed to
            frequent ones.
        rows : (X, y) or (X, y, sample_weight), optional
            Rows that the model has learned: all of them or, if the sums decide (see `way`), a random sample.
            By default those that `fit` kept in memory, which it does for small data; later learning drops them. For
            many calls, the result of `compared_with(rows)`.
        way : {"auto", "full", "cross", "stored"}, default="auto"
            "full": each row is added and every other left out, by the sums; exact, for models that choose nothing from
            the rows. "cross": five refits, each without a fifth of the rows; for any model. "stored": the scores of
            `calibrate`. "auto" is the first of these that is possible in reasonable time.
        allow_empty : bool, default=True
            Whether a set may be empty, if a row is stranger in every class than 1 − coverage of the class's rows.
            Otherwise it contains the most probable class.

        Returns
        -------
        PredictionSets, with `sets`, `p_values` and the `guarantee` as text; `evaluate(y)` evaluates them.

        Examples
        --------
        >>> import numpy as np
        >>> from deciban import GaussianNB
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 200)
        >>> X = rng.normal(size=(200, 2)) + 2.0 * y[:, None]
        >>> model = GaussianNB().fit(X, y)
        >>> model.predict_set([[-1.0, 0.0], [1.0, 1.1], [3.0, 2.0]], coverage=0.95).sets
        [[0], [0, 1], [1]]
        """
        return prediction_sets.predict_set(self, X, coverage, by_class, rows, way, allow_empty)

    def calibrate(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Store how strange learned rows are, each left out, so that prediction sets need no rows.

        A few thousand numbers stay in the model, and in its file. Sets from them have about the requested coverage
        if one row more or less changes the model little, without a guarantee for few rows. Later learning drops
        them.

        Parameters
        ----------
        X, y, sample_weight : rows that the model has learned, and their labels, optional
            By default those that `fit` kept.

        >>> from sklearn.datasets import load_iris
        >>> from deciban import GaussianNB
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GaussianNB().fit(X, y).calibrate(X, y)
        >>> model.predict_set(X[:1], way="stored").sets
        [[0]]
        """
        with changing(self) as new:
            new.calibration_ = prediction_sets.calibrated(new, X, y, sample_weight)
        return self

    def compared_with(self, rows: Any = None, way: str = "auto") -> prediction_sets.Compared:
        """What `predict_set` compares new rows with, prepared once for many calls.

        >>> from sklearn.datasets import load_iris
        >>> from deciban import GaussianNB
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GaussianNB().fit(X, y)
        >>> prepared = model.compared_with((X, y))
        >>> model.predict_set(X[:1], rows=prepared).sets
        [[0]]
        """
        return prediction_sets.compared_with(self, rows, way)

    @of_one_state
    def explain(
        self, X: Any, target: Any = None, against: Any = None, names: Any = None, by: str | None = None
    ) -> Evidence | list[Evidence]:
        """Why: the evidence of every column or word, in decibans, for `target` over `against`.

        Parameters
        ----------
        X : one row or several
            One row may be a dict, a Series (`frame.iloc[5]`), an array or list of values, a text, or a table of one
            row, and gives an `Evidence`; several rows give a list.
        target, against : labels, optional
            By default each row's most probable class, and the second.
        names : optional
            Names of the columns if the model was not fitted on a frame: a sequence, a vectorizer, or its
            `vocabulary_`.
        by : "column", "word", "item" or "expert", optional
            What evidence is listed by. By default, columns of a table and words of a text, which "column" and "word"
            both mean. A word has the evidence of the characters in it and its share of pairs of words; "item" lists all
            of these separately. "expert" is for models that combine several experts: the evidence of each.

        Examples
        --------
        >>> from deciban import TextClassifier
        >>> model = TextClassifier(reliability=None).fit(["cash now", "cash prize", "lunch at noon"], list("ssh"))
        >>> model.explain("lunch now")
        s rather than h: +2.10 dB, P(s) = 0.6183
        evidence    value          dB
        prior odds              +3.01             |+++++++++
        lunch                   -3.47   ----------|
        now                     +2.55             |++++++++
        total       P = 0.6183  +2.10
        """
        self._check_classes()
        by = grouping(by, hasattr(self.model_, "experts"))
        if self._texts:
            X = single_text(X, getattr(self, "text_", None) or (self.origin_ or {}).get("text"))
        else:
            X = explained_row(X, self.model_, self._names(), getattr(self, "n_features_in_", None))
            if isinstance(X, Mapping) and self._reader().form in ("matrix", "objects"):
                frame = read_frame({name: X[name] for name in self._names() or X if name in X})
                X = to_native("pyarrow", frame.names, frame.columns)  # which scikit-learn takes, with its names
        rows = self._rows(X)
        codes = [None if label is None else self.model_.code_of(label) for label in (target, against)]
        out: list[Evidence] = self._model_with_names(names).explain_each(rows, *codes, by=by)
        if not out:
            raise DecibanError(f"there is no {'text' if self._texts else 'row'} to explain: X is empty")
        return out[0] if len(out) == 1 else out

    @of_one_state
    def top_evidence(self, n: int = 10, names: Any = None) -> Table:
        """The strongest evidence for each class against the others, per item, in decibans; `names` as in `explain`.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB().fit([[1, 0], [1, 1], [0, 1], [0, 0]], ["a", "a", "b", "b"])
        >>> model.top_evidence(1, names=["wings", "tail"])
        strongest evidence for each class
        class  item      dB
        a      wings  4.771
        b      tail       0
        """
        self._check_classes()
        table: Table = self._model_with_names(names).strongest_table(n)
        return table

    @of_one_state
    def importance(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, learned: bool = False, names: Any = None
    ) -> Importance:
        """What decides: the evidence of every column or word, on the scale of `explain`, on average over rows.

        For each row it is the evidence for the true class over the most probable other class, in decibans. Items are
        ranked by the mean of |dB|; the mean of dB is positive if an item is evidence for the truth. `curves` have the
        evidence of each column by value, and `pairs` the columns that act together.

        Parameters
        ----------
        X, y, sample_weight : rows and their labels, optional
            Of more than 400 rows some are used, evenly spread. By default, what was computed by `fit` is returned:
            `Classifier`, `TextClassifier` and `SpamFilter` store it, of 200 rows (400 texts) left out of the sums.
        learned : bool, default=False
            Whether the model has learned these rows, so that they are taken out of the sums.
        names : as in `explain`

        Examples
        --------
        >>> from deciban import GaussianNB
        >>> X = [[1.0, 5.0], [2.0, 4.0], [1.5, 6.0], [6.0, 5.0], [7.0, 4.5], [6.5, 5.5]]
        >>> model = GaussianNB().fit(X, ["a", "a", "a", "b", "b", "b"])
        >>> [item.name for item in model.importance(X, ["a", "a", "a", "b", "b", "b"], learned=True).items]
        ['x0', 'x1']
        """
        self._check_classes()
        if X is None:
            return stored_importance(self.model_)
        if learned:
            rows, codes, weight = self._learned_rows(X, y, sample_weight)
            self.model_.check_learned(codes, weight)
        else:
            X, labels, weight = self._read(X, y, sample_weight, reset=False, least=0)
            codes = known_codes(labels, self.classes_)
            rows = self._reader().score(X, self.model_)
        return importance_of(self._model_with_names(names), rows, codes, weight, learned)

    @available_if(is_generative("distribution of x to sample"))
    @of_one_state
    def sample(
        self, n: int = 1, given: Any = None, random_state: Any = None, length: int | None = None
    ) -> tuple[Any, Array]:
        """Draw n rows and their classes: y from the class prior (or `given`), then x from its distribution (S18).

        Rows have the form of those learned: a table of the same kind with its own categories, texts as strings.
        `length` is the number of words of each row if rows are bags of words or texts; by default it is drawn
        around the class's mean.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB(alpha=0).fit([[1, 0], [1, 0], [0, 1]], ["a", "a", "b"])
        >>> rows, labels = model.sample(2, given="a", random_state=0)
        >>> rows.tolist(), labels.tolist()
        ([[1.0, 0.0], [1.0, 0.0]], ['a', 'a'])
        """
        self._check_classes()
        for name, value in (("n", n), ("length", length)):
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value}: it must not be negative")
        class_code = None if given is None else self.model_.code_of(given)
        rows, codes = self.model_.sample(n, generator(random_state), class_code, length=length)
        return self._reader().native(rows, self.model_), self.classes_[codes]

    def _kept_rows(self) -> prediction_sets.LearnedRows | None:
        """Rows to compare new ones with: all rows, if the model keeps them to choose by, or those that `fit` kept."""
        if not self.__sklearn_is_fitted__() or (all_rows := self.model_.every_row()) is None:
            return self.__dict__.get("_learned_rows_")
        rows, labels, weight = all_rows
        return prediction_sets.LearnedRows(Rows(rows, len(rows), "texts"), labels, weight)

    def _rows_to_keep(self, given: Any, X: Any) -> Any:
        """The rows to keep for comparisons, of the rows as given (`given`) and as read (`X`); None: none."""
        del X
        return given

    # ------------------------------------------------------------------ evaluating

    @of_one_state
    def leave_one_out(self, X: Any, y: Any = None, sample_weight: Any = None) -> LeaveOneOut | Tally:
        """Every row's posterior under the sums that never saw it, exactly and without refitting.

        Choices (strengths, shapes, trees, reliabilities) are made without the row, or its fold, if possible: from
        the sums of the others, if all learned rows are given, or in closed form. The result's `how` names the method.

        The rows must be (some of) those the model has learned, with the same weights: others give meaningless numbers,
        and are not always detected. With many different weights, Bernoulli and Poisson models take a pass over all
        features for each of them. A row so extreme that rounding hides what remains without it is scored by its class's
        other rows, learned again, which must all be given. For data in files, databases and clusters, the result is a
        `Tally`: sums over all rows.

        >>> from sklearn.datasets import load_iris
        >>> from deciban import LinearDiscriminantAnalysis
        >>> X, y = load_iris(return_X_y=True)
        >>> LinearDiscriminantAnalysis().fit(X, y).leave_one_out(X, y)
        leave-one-out over 150 rows
        measure     value
        accuracy     0.98
        log_loss  0.05447
        """
        source = self._engine(X, y)
        if source is not None:
            from deciban.estimators import on_engines

            return on_engines.leave_one_out(self, source, y, sample_weight)
        rows, codes, weight = self._learned_rows(X, y, sample_weight)
        result: LeaveOneOut = self.model_.leave_one_out(rows, codes, weight, self.n_jobs)
        return result

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy; y may be the name of the column of labels.

        >>> from deciban import BernoulliNB
        >>> BernoulliNB().fit([[1], [1], [0], [0]], ["a", "a", "b", "b"]).score([[1], [0]], ["a", "a"])
        0.5
        """
        source = self._engine(X, y)
        if source is not None:
            from deciban.estimators import on_engines

            return on_engines.score(self, source, y, sample_weight)
        X, y = self._split(X, y)
        predicted = self.predict(X)
        if sample_weight is None and comparable(y, predicted):  # scikit-learn's checks take longer than predictions
            return float(np.mean(predicted == y))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    # ------------------------------------------------------------------ another class prior

    @of_one_state
    def with_prior(self, prior: Any) -> Self:
        """The same model under another class prior: probabilities (a sequence or {class: p}), or "uniform".

        The prior becomes the model's parameter (`class_prior`, or `priors` of a Gaussian): clones and later batches
        keep it.

        >>> from deciban import BernoulliNB
        >>> model = BernoulliNB(alpha=0).fit([[1], [1], [0], [1]], ["a", "a", "b", "b"])
        >>> model.with_prior({"a": 0.1, "b": 0.9}).predict([[1]]).tolist()
        ['b']
        """
        self._check_classes()
        prior = self._read_prior(prior)
        other = copy.copy(self)
        setattr(other, self._prior_parameter, prior)
        other._check_parameters()
        other.model_ = self.model_.with_prior(prior)
        other._check_model(other.model_)
        return other

    @available_if(is_generative("posterior that a new prior would change"))
    @of_one_state
    def adapt_prior(self, X: Any) -> Self:
        """The same model with the class prior under which the unlabelled rows X are most likely, by EM.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[0.0], [0.2], [5.0], [5.2]], ["a", "a", "b", "b"])
        >>> model.adapt_prior([[0.1], [5.1], [5.0], [5.2]]).class_prior_.round(2).tolist()
        [0.25, 0.75]
        """
        prior, _ = bayes.adapt_prior(self._probabilities(X), np.exp(self.model_.log_prior))
        return self.with_prior(prior)

    # ------------------------------------------------------------------ inspection

    @property
    def classes_(self) -> Array:
        self._check_is_fitted()
        return np.asarray(self.model_.classes)

    @property
    def class_count_(self) -> Floats:
        """The total weight of the rows of each class."""
        self._check_is_fitted()
        return attributes.as_learned(self, self.model_.weight)

    @property
    def n_unlabelled_(self) -> int:
        """The number of rows without a label, which were learned with a guessed one."""
        check_is_fitted(self)
        return int(self.model_.unlabelled)

    @property
    def n_incomplete_(self) -> int:
        """The number of rows with missing entries that were guessed from the others."""
        check_is_fitted(self)
        return int(getattr(self.model_, "incomplete", 0))

    @property
    def privacy_(self) -> Ledger:
        """The noise in the sums of a model that `private` made, statistic by statistic."""
        check_is_fitted(self)
        ledger = getattr(self.model_, "privacy", None)
        if ledger is None:
            raise AttributeError("the model is not private: its sums contain no noise")
        return ledger  # type: ignore[no-any-return]  # of a JointModel

    @property
    def em_(self) -> em.Learned:
        """The course of the log-likelihood, if EM ran."""
        check_is_fitted(self)
        learned = getattr(self.model_, "filled_by", None)
        if learned is None:
            raise AttributeError(
                "EM did not run: no label or value was missing, or the model was loaded from a file or merged"
            )
        return learned  # type: ignore[no-any-return]  # of a JointModel

    @property
    def alpha_(self) -> Any:
        """The prior strength in use: as given, or as chosen by "empirical" or "loo"."""
        check_is_fitted(self)
        return self.model_.alpha()

    @property
    @of_one_state
    def params(self) -> Table:
        """The parameters as a table: a row for each item, a column for each class.

        >>> from deciban import GaussianNB
        >>> GaussianNB().fit([[1.0], [3.0], [5.0], [9.0]], ["a", "a", "b", "b"]).params
        gaussian parameters
        item  mean[a]  mean[b]  variance[a]  variance[b]
        x0          2        7            1            4
        """
        self._check_classes()
        model = self.model_
        family, columns = model.joint.blocks[0].family, model.columns()
        names, _ = family.typical(model.params[0], columns)
        tables = family.table(model.params[0], columns)
        labels = [str(plain(c)) for c in model.classes]
        header = ("item", *(f"{parameter}[{label}]" for parameter in tables for label in labels))
        wide = np.vstack([tables[parameter] for parameter in tables]).T.tolist()
        rows = [(name, *values) for name, values in zip(names, wide, strict=True)]
        return Table(f"{family.name} parameters", header, rows)

    # ------------------------------------------------------------------ export

    @of_one_state
    def to_sql(
        self,
        table: str | Sequence[str] = "data",
        dialect: str = "duckdb",
        *,
        columns: Any = None,
        output: str = "proba",
        keep: Sequence[str] = (),
    ) -> str:
        """One SELECT that scores every row of a table inside a database, as `predict_proba` and `predict` would.

        A number that is NULL or NaN, and a category that is NULL, is missing. If columns depend on each other and a
        missing one cannot be ignored (full and tied covariances), the row's score is NULL; also if a Classifier has
        Gaussians among its experts and two values of the row were never learned.

        Parameters
        ----------
        table : str, or sequence of str
            The table's name; a sequence gives the names of its schema and itself.
        dialect : {"duckdb", "postgresql", "sqlite"}, default="duckdb"
        columns : sequence or {feature: column}, optional
            The features' names in the database, if they differ from those learned (or x0, x1, …).
        output : {"proba", "prediction", "all"}, default="proba"
            A column of probabilities for each class, "proba_…", the most probable class, "prediction", or both.
        keep : sequence of str, optional
            Columns of the table to keep in the result, such as its key.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [2.0], [8.0], [9.0]], ["low", "low", "high", "high"])
        >>> statement = model.to_sql("readings", columns=["temperature"], output="prediction", keep=["id"])
        >>> statement.splitlines()[-1], "exp(" in statement
        ('FROM step5', True)
        """
        from deciban.estimators.exported import columns_of, formula_of
        from deciban.export.sql import to_sql

        formula = formula_of(self)
        return to_sql(formula, table, dialect, columns=columns_of(self, columns), output=output, keep=keep)

    @of_one_state
    def to_onnx(self, *, columns: Any = None) -> Any:
        """The model as an ONNX graph (an optional dependency): inputs of rows, outputs `label` and `probabilities`.

        If all columns are numbers, the input is X, (n, d) doubles, NaN where missing; otherwise each column is an
        input of its own, (n, 1): doubles, or strings, "" where missing. A date is three: days since 1970, and its month
        and weekday as in "Jan" and "Mon". `columns` is as in `to_sql`. Everything is done in double precision.

        For a `TextClassifier` or `SpamFilter` the input is `text`, (n, 1) strings, and the graph splits them with
        onnxruntime's operator Tokenizer. That is exact for Latin letters and common punctuation, except capitals that
        are not ASCII; a text with other characters has probabilities NaN and, if labels are strings, the label "". So
        has a text that may have header fields, if the model reads these; the graph of a `SpamFilter` is for texts that
        are no mail.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [2.0], [8.0], [9.0]], ["low", "low", "high", "high"])
        >>> graph = model.to_onnx().graph
        >>> [one.name for one in graph.input], [one.name for one in graph.output]
        (['X'], ['label', 'probabilities'])
        """
        from deciban.estimators.exported import onnx_of

        return onnx_of(self, columns)

    @of_one_state
    def linear_form(self) -> LinearForm:
        """θ and θ_0: the model as a linear classifier, per class and per pair (S5).

        >>> from deciban import MultinomialNB
        >>> form = MultinomialNB(alpha=0).fit([[3, 1], [1, 3]], ["a", "b"]).linear_form()
        >>> form.pair("a", "b")[0].round(3).tolist()  # log 3 for the first word, −log 3 for the second
        [1.099, -1.099]
        """
        self._check_classes()
        if not isinstance(self.model_, Model):
            raise TypeError(f"a {type(self).__name__} is not linear in its columns: it has no weight per column")
        return linear_form(self.model_)

    def to_logistic_regression(self) -> Any:
        """A fitted LogisticRegression of scikit-learn with the same probabilities, if the model is linear.

        The linear models are multinomial, complement, Poisson, Bernoulli (of 0 and 1), and Gaussians with one
        covariance for all classes whose parameters are plugged in (S5, S11, S14). It accepts no missing values.

        >>> from deciban import LinearDiscriminantAnalysis
        >>> X, y = [[0.0, 1.0], [1.0, 1.0], [3.0, 2.0], [5.0, 2.0], [4.0, 4.0]], ["a", "a", "b", "b", "b"]
        >>> model = LinearDiscriminantAnalysis().fit(X, y)
        >>> bool(np.allclose(model.to_logistic_regression().predict_proba(X), model.predict_proba(X)))
        True
        """
        from deciban.estimators.exported import logistic_regression

        return logistic_regression(self, self.linear_form())

    # ------------------------------------------------------------------ saving

    @of_one_state
    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the model to one safe file; `deciban.load` reads it. It contains none of the rows kept in memory.

        A path is replaced as a whole, or not at all. An open file, such as io.BytesIO(), is written to directly.

        >>> import io
        >>> import deciban
        >>> file = io.BytesIO()  # or a path
        >>> deciban.BernoulliNB().fit([[1], [0]], ["a", "b"]).save(file)
        >>> deciban.load(io.BytesIO(file.getvalue())).predict([[1]]).tolist()
        ['a']
        """
        check_is_fitted(self)
        self._check_parameters()
        self._check_savable()
        about = {"model": type(self).__name__, "parameters": self._parameters_out(), **self._about()}
        if self.origin_ is not None:
            about["origin"] = self.origin_
        if self.calibration_ is not None:
            about["sets"] = self.calibration_.to_dict()
        document, tensors = self.model_.pack()
        files.write_parts(path, document, tensors, about)

    def _check_savable(self) -> None:
        """Parameters must match the model; a model that is not a joint distribution contains its own choices."""
        if not isinstance(self.model_, JointModel):
            return
        choice = self._choice()
        if not choice.made(self.model_):
            raise ValueError("a parameter has changed since the model was fitted: fit it again before saving")
        self._check_model(self.model_.with_joint(choice.current(self.model_)))

    def _parameters_out(self) -> dict[str, Any]:
        """The parameters in the form that a file holds."""
        return dict(self.get_params(deep=False))

    def _about(self) -> dict[str, Any]:
        """What a file contains about the estimator besides its parameters."""
        counts = {
            name: getattr(self.model_, field) for name, field in GUESSED_COUNTS.items() if getattr(self.model_, field)
        }
        state = counts | {name: value for name, value in vars(self).items() if name in SAVED_STATE}
        return {"n_features": int(self.n_features_in_), "names": list(self._names() or []), "state": state}

    def _restored(self, model: Any, about: dict[str, Any]) -> Any:
        """The model that `save` wrote, checked against the parameters as a fit would be; attributes are set."""
        state = self._restored_state(model, about, SAVED_STATE)
        counts = {field: state.pop(name, 0) for name, field in GUESSED_COUNTS.items()}
        self._check_parameters()
        self.__dict__.update(state)
        choice = self._choice()
        if not choice.made(model):
            raise ValueError("its family does not match the model")
        self._check_model(model)
        if not choice.chooses():
            self._check_model(model.with_joint(choice.asked))
        if not all(type(count) is int and count >= 0 for count in counts.values()):
            raise ValueError("its state is not valid: the number of inferred labels is not a number of rows")
        return replace(model, choice=choice, least=self._least(), **counts)

    def _restored_state(self, model: Any, about: dict[str, Any], allowed: tuple[str, ...]) -> dict[str, Any]:
        """The state that `save` wrote, checked; the number and names of features are set."""
        self.n_features_in_ = int(about["n_features"])
        names, state = about["names"], about["state"]
        n_columns = sum(columns.size for columns in model.schema.blocks)
        if not self._fits_columns(n_columns) or (names and len(names) != self.n_features_in_):
            raise ValueError(f"it declares {self.n_features_in_} features, but holds {n_columns}")
        if set(state) - set(allowed) or state.get("dtype_", "float64") not in ("float32", "float64"):
            raise ValueError(f"its state is not valid: {sorted(state)}")
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        return dict(state)

    def _fits_columns(self, columns: int) -> bool:
        """Whether a model of this many columns fits the number of features."""
        return columns == self.n_features_in_

    def __setattr__(self, name: str, value: Any) -> None:
        """A new model drops the rows and scores that belonged to the previous one."""
        if name == "model_":
            for dropped in (*prediction_sets.NOT_SAVED, "calibration_"):
                self.__dict__.pop(dropped, None)
        super().__setattr__(name, value)

    def __copy__(self) -> Self:
        """A copy in memory keeps what a pickle omits."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("_set_predictors", None)  # they belong to the original
        return other

    def __getstate__(self) -> dict[str, Any]:
        """A pickled model contains no rows."""
        return {
            name: value for name, value in dict(super().__getstate__()).items() if name not in prediction_sets.NOT_SAVED
        }

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._learned_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": bundle["text/html"] + self._learned_html()} if "text/html" in bundle else bundle

    def _learned_html(self) -> str:
        """What was learned, for notebooks."""
        from deciban.estimators.notebook import FittedView

        return FittedView(copy.copy(self))._repr_html_() if self.__sklearn_is_fitted__() else ""

    # ------------------------------------------------------------------ checks

    def _check_is_fitted(self) -> None:
        """scikit-learn's check, which takes longer than to score a row, only where it fails."""
        if "model_" not in self.__dict__:
            check_is_fitted(self)

    def _check_classes(self) -> None:
        if len(self.classes_) == 0:
            raise DecibanError("the model has no classes: nothing was learned yet, or everything was forgotten")

    def _check_exact(self, consequence: str) -> None:
        """Raise an error unless rows can be subtracted from the sums."""
        if self.model_.why_inexact:
            raise ForgetError(f"{self.model_.why_inexact}, {consequence}")

    def _check_adds(self, consequence: str) -> None:
        """Raise an error unless the model consists of sums only, which can be added to."""
        frozen = getattr(self.model_, "frozen", None) if self.__sklearn_is_fitted__() else None
        if frozen:
            raise DecibanError(f"{frozen}, and {consequence}: use shrinkage instead")

    def _check_mergeable(self, other: Any) -> None:
        """Two models can be added if they have the same columns and parameters."""
        mine, theirs = (getattr(model, "n_features_in_", None) for model in (self, other))
        if mine != theirs:
            raise SchemaError(f"cannot merge a model of {mine} features with one of {theirs}")
        for name in self.get_params(deep=False):
            mine, theirs = getattr(self, name), getattr(other, name)
            if name not in self._may_differ and not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise SchemaError(f"cannot merge models whose {name} differs: {mine!r} and {theirs!r}")

    def _wants_loo(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "loo"

    def _strength(self) -> Alpha:
        """The strength of the family's prior; for "loo", 1 until leave-one-out has chosen."""
        if isinstance(self.alpha, str):
            return 1.0 if self.alpha == "loo" else self.alpha
        return float(self.alpha)

    def _block(self, family: Any) -> tuple[Block, ...]:
        return (Block(family, self._strength()),)

    def _model_with_names(self, names: Any) -> Any:
        """The model with these names for its columns."""
        if names is None or not hasattr(self.model_, "named"):
            return self.model_
        if hasattr(names, "get_feature_names_out"):
            names = names.get_feature_names_out()
        if isinstance(names, dict):  # name → column, as a vectorizer's vocabulary_ is
            if sorted(names.values()) != list(range(len(names))):
                raise ValueError("names is a mapping, but must map names to the columns 0, 1, 2, …")
            names = sorted(names, key=names.__getitem__)
        if isinstance(names, str):
            raise ValueError("names must be a list with one name per column, not a string")
        column_names = tuple(str(name) for name in names)
        if len(column_names) != self.n_features_in_:
            raise ValueError(f"names has {len(column_names)} entries, but there are {self.n_features_in_} features")
        return self.model_.named(self._names_by_block(column_names))

    def _names_by_block(self, names: tuple[str, ...]) -> tuple[tuple[str, ...] | None, ...]:
        """The names of every block's columns, given one for each feature."""
        return (names,)

    def _read_prior(self, prior: Any) -> Floats:
        """Class probabilities from a sequence, {class: p} or "uniform"."""
        classes = self.classes_.tolist()
        if isinstance(prior, dict):
            missing, extra = [c for c in classes if c not in prior], [c for c in prior if c not in set(classes)]
            if missing or extra:
                raise ValueError(
                    f"the prior must name exactly the classes {classes}: missing {missing}, unknown {extra}"
                )
            prior = [prior[c] for c in classes]
        if isinstance(prior, str):
            if prior != "uniform":
                raise ValueError(f"prior is {prior!r}: give probabilities, or 'uniform'")
            prior = np.full(len(classes), 1.0 / len(classes))
        prior = np.asarray(prior, dtype=np.float64)
        if not np.isclose(prior.sum(), 1.0):
            raise ValueError(f"The sum of the priors should be 1, got {prior.sum():g}.")
        return np.asarray(prior)

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
                    table[self.model_.code_of(truth), self.model_.code_of(answer)] = cost
        else:
            table = np.asarray(costs, dtype=np.float64)
        if table.shape != (k, k):
            raise ValueError(f"costs must have shape ({k}, {k}), truth by answer, got {table.shape}")
        if not np.isfinite(table).all():
            raise ValueError("costs must be finite numbers")
        return table

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._sparse
        tags.input_tags.string = self._strings
        tags.input_tags.categorical = self._strings and not self._texts
        tags.input_tags.two_d_array, tags.no_validation = not self._texts, self._texts
        tags.input_tags.positive_only = self._positive
        tags.classifier_tags.poor_score = self._poor_score
        return tags


def comparable(y: Any, predicted: Array) -> bool:
    """Whether labels and answers are arrays of whole numbers or of strings, one for each row."""
    if not isinstance(y, np.ndarray) or y.shape != predicted.shape or y.ndim != 1 or not len(y):
        return False
    kinds = y.dtype.kind + predicted.dtype.kind
    return kinds == "UU" or all(kind in "iu" for kind in kinds)


def measures_of(joint: Joint, schema: Schema) -> list[tuple[Measure, ...]]:
    """T(x), block by block."""
    return [block.family.measures(columns) for block, columns in zip(joint.blocks, schema.blocks, strict=True)]


def checked_weights(sample_weight: Any, n: int, some: bool) -> Floats:
    """Weights of rows, none of them negative; with `some`, not all zero."""
    weight = read_weights(sample_weight, n)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise DecibanError(
            f"sample_weight[{{row}}] is {weight[row]:g}: to remove rows, use forget",
            row=row,
            value=float(weight[row]),
        )
    if n and some and not weight.any():
        raise ValueError("the total weight is zero: there is nothing to learn from")
    return weight


def known_codes(labels: Labels, classes: Array) -> Codes:
    """The class of every row, −1 if the label is missing; an unknown label is an error."""
    if labels.soft is not None:
        raise DecibanError("importance needs one label per row, not a matrix of weights")
    unknown = np.setdiff1d(labels.classes, classes) if len(labels.classes) else labels.classes
    if len(unknown):
        row = int(np.argmax(labels.codes == np.flatnonzero(labels.classes == unknown[0])[0]))
        raise DecibanError("row {row} is of class {value!r}, which was not learned", row=row, value=plain(unknown[0]))
    return labels.among(classes)


def check_known(labels: Labels, known: Array) -> None:
    """Raise an error for labels that are not among the known classes."""
    if np.array_equal(labels.classes, known):
        return
    unknown = np.setdiff1d(labels.classes, known) if len(labels.classes) else labels.classes
    if len(unknown):
        raise ValueError(f"The target label(s) {unknown} in y do not exist in the initial classes {known}")
