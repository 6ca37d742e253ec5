"""Any table in, labels out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban._scipy import issparse
from deciban._typing import Array, Floats
from deciban.errors import DataWarning, DecibanError, SchemaError, warn
from deciban.estimators import validation
from deciban.estimators.base import Estimator
from deciban.estimators.changes import changing
from deciban.estimators.parameters import prior_by_class
from deciban.learner import AS_LABELLED, Hidden
from deciban.readers.tables import TableReader
from deciban.reading.columns import Levels
from deciban.reading.frames import Frame, split_target
from deciban.reading.given import Rows, single_row, take_values
from deciban.reading.kinds import Conventions, kinds_table
from deciban.reading.labels import Labels, read_labels
from deciban.reading.table import TableColumns
from deciban.results.summary import Summary
from deciban.show import Table, plain, progress
from deciban.tables import views
from deciban.tables.choose import choose, choose_by_sample
from deciban.tables.model import TableModel
from deciban.tables.names_or_texts import with_kinds_decided

DECIDES = {  # what decides how doubtful values are read, in Python and on the command line
    "date": ("day_first=", "--day-first or --month-first"),
    "number": ("decimal=", "--decimal"),
}
TABLES = ("pandas", "polars", "pyarrow", "numpy", "dict")  # forms in which rows can be returned


class Classifier(Estimator):
    """Any table in, labels out: numbers, categories, texts, dates and missing values; distributions are chosen for you.

    Several small generative models, the experts, score a row: columns one by one (naive Bayes), Gaussians over all
    numbers, several clusters per class, columns given other columns, decision trees. Their evidence is weighted by how
    reliable it is on left-out rows, and added up:

        log P(y | x) = log π_y + b_y + Σ_m r_m F_m(x, y) + Σ_j δ_j F_j(x, y) − log Z,   r, δ ≥ 0

    F_m is the evidence of expert m and F_j that of column j alone.

    All that is learned are sums, so learning more rows, forgetting rows, merging and leave-one-out are exact, as long
    as the choices (bins, trees, shapes, weights) are kept; `fit` chooses again.

    Parameters
    ----------
    schema : {column: kind}, optional
        Kinds of columns, to correct the detected ones: "number", "count", "category", "boolean", "text", "date",
        "identifier", "constant" or "skip"; the last three are left out. `kinds_` has the detected kinds and reasons.
    decimal, thousands : str, optional
        The decimal ("." or ",") and thousands separators (",", ".", " ", "'" or "") in strings that are numbers, such
        as "$1,234.50" or "1.234,50 €". Detected by default; give them if values are ambiguous, as "1,234" is.
    day_first : bool, optional
        Whether in dates such as "5/12/2019" the day comes first. Detected for each column by default.
    class_prior : array-like, {class: p}, "uniform" or None, default=None
        The class prior; None is the empirical one.
    n_jobs : int, optional
        Number of threads; None uses all processors for tables large enough to benefit.

    Attributes
    ----------
    classes_ : the labels, sorted
    class_count_ : rows of each class; rows without a label are left out, here and in `summary().rows`, unless `fit`
        is given an `unlabelled_weight`
    kinds_ : the kind of each column, and the reason
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from deciban import Classifier
    >>> sounds = ["cluck", "moo", "moo", "cluck", None, "quack", None, "moo"]
    >>> table = {"legs": [2, 4, 4, 2, 4, 2, 2, 4], "sound": sounds}
    >>> animals = ["hen", "cow", "cow", "hen", "cow", "duck", "hen", "cow"]
    >>> model = Classifier().fit(table, animals)
    >>> model.predict({"legs": [4, 2], "sound": [None, "cluck"]}).tolist()
    ['cow', 'hen']
    >>> model.kinds_
    columns
    column  kind      distinct  missing  why
    legs    count            2        0  whole numbers from 2 to 4
    sound   category         3        2  3 distinct values in 8 rows
    """

    model_: TableModel

    _strings: ClassVar[bool] = True
    _skips_unlabelled: ClassVar[bool] = True
    _first_batch_on_engine: ClassVar[bool] = False
    _unlabelled_weight: ClassVar[float] = 0.0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "schema": [Mapping, None],
        "decimal": [StrOptions({".", ","}), None],
        "thousands": [StrOptions({"", ",", ".", " ", "'"}), None],
        "day_first": ["boolean", None],
        "class_prior": ["array-like", Mapping, StrOptions({"uniform"}), None],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(
        self,
        *,
        schema: Any = None,
        decimal: str | None = None,
        thousands: str | None = None,
        day_first: bool | None = None,
        class_prior: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.schema = schema
        self.decimal = decimal
        self.thousands = thousands
        self.day_first = day_first
        self.class_prior = class_prior
        self.n_jobs = n_jobs

    def _reader(self) -> TableReader:
        return TableReader(getattr(self, "table_kind_", "dict"))

    def _validated(self, X: Any, *, reset: bool, least: int = 1) -> Frame:
        return validation.table(self, X, reset=reset, least=least)

    def _scores(self, X: Any, how: str) -> Array:
        """Scores of rows. A single row may be a mapping of names to values, a tuple of values or a Series."""
        named = "feature_names_in_" in vars(self)
        rows = self.model_.single(X) if "model_" in vars(self) and (named or isinstance(X, tuple)) else None
        if rows is None:
            return super()._scores(self._as_table(X), how)
        self._check_classes()
        return self.model_.scores(rows, how, self.n_jobs)

    def _as_table(self, X: Any) -> Any:
        """A single row as a table of one row; anything else unchanged."""
        is_series = getattr(X, "ndim", 0) == 1 and hasattr(X, "infer_objects")
        if is_series or (isinstance(X, Mapping | tuple) and not issparse(X)):  # a DOK matrix is a mapping
            return single_row(X, self._names(), getattr(self, "n_features_in_", None))
        return X

    # ------------------------------------------------------------------ learning

    def _read(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Labels, Floats | None]:
        X, labels, weight = super()._read(X, y, sample_weight, **how)
        if labels.soft is not None:
            raise ValueError("y must have one label per row, not a matrix of weights")
        return X, labels, weight

    def _rows_with_weight(self, X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
        return rows_with_weight(X, y, sample_weight, some)

    def _learned(
        self, X: Any, labels: Labels, weight: Floats | None, *, closed: bool = False, hidden: Hidden = AS_LABELLED
    ) -> TableModel:
        if X.size == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: the table has no rows")
        if len(labels.classes) == 0:
            raise ValueError("every label is missing: label at least one row of each class")
        if hidden.clusters:
            raise ValueError("Classifier needs labels: to find clusters, use NaiveBayes or GaussianMixture")
        warn_of_labels(X, labels)
        reader = with_kinds_decided(self._columns_of(X), X, labels.codes, len(labels.classes), weight)
        prior = prior_by_class(self.class_prior, labels.classes)
        how = (prior, closed, self.n_jobs, hidden.weight)
        with progress("trying experts") as watch:
            return choose(reader, reader.read(X), labels.codes, labels.classes, weight, *how, watch)

    def _read_as_strings(self) -> tuple[str, ...]:
        return self.model_.reader.written if self.__sklearn_is_fitted__() else ()

    def _columns_of(self, frame: Frame) -> TableColumns:
        """The columns' kinds. A warning names values that could be read in another way."""
        reader = TableColumns.of(frame, self.schema, Conventions(self.decimal, self.thousands, self.day_first))
        for kind in reader.used:
            if kind.doubt:
                parameter, option = DECIDES["date" if kind.kind == "date" else "number"]
                warn(
                    DataWarning(
                        f"column {{column!r}}: {{doubt}}; set it with {parameter}",
                        command_line=f"column {{column!r}}: {{doubt}}; set it with {option}",
                        column=kind.name,
                        doubt=kind.doubt,
                    )
                )
        return reader

    def _check_mergeable(self, other: Any) -> None:
        if not np.array_equal(np.asarray(self.class_prior), np.asarray(other.class_prior)):
            raise SchemaError("cannot merge models whose class_prior differs")

    def fit_batches(self, X: Any, y: Any, batches: Iterable[tuple[Any, Any]]) -> Self:
        """Learn rows in batches, more of them than memory holds; everything learned before is forgotten.

        X and y are a sample of the rows, on which all choices are made as in `fit`; `batches` are all of the rows with
        their labels, including the sample, and are read once. Classes and categories that the sample does not have are
        added as they occur.

        >>> import numpy as np
        >>> from deciban import Classifier
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 30_000)
        >>> X = {"size": y + rng.normal(size=len(y)), "colour": np.where(rng.random(len(y)) < 0.3 + 0.4 * y, "a", "b")}
        >>> rows = lambda some: {name: values[some] for name, values in X.items()}
        >>> parts = ((rows(slice(i, i + 5000)), y[i : i + 5000]) for i in range(0, 30_000, 5000))
        >>> model = Classifier().fit_batches(rows(slice(None, None, 10)), y[::10], parts)
        >>> int(model.class_count_.sum()), bool(np.mean(model.predict(X) == y) > 0.7)
        (30000, True)
        """
        with changing(self) as new:

            def collect(empty_model: TableModel) -> TableModel:
                model = empty_model
                for rows, batch_labels in batches:
                    frame, labels, _ = new._read(rows, batch_labels, None, reset=False, classes=model.classes, least=0)
                    if labels.any_missing:
                        raise DecibanError("row {row} of a batch has no label", row=int(np.argmax(labels.codes < 0)))
                    if frame.size:
                        model = model.learn(model.read(frame), labels, None, new.n_jobs)
                return model

            new.model_ = new._chosen_on(X, y, collect)
        return self

    def _chosen_on(self, X: Any, y: Any, collect: Callable[[TableModel], TableModel]) -> TableModel:
        """The model of `collect`, under choices made on a sample."""
        self._validate_params()
        frame, labels, _ = self._read(X, y, None, reset=True)
        if labels.any_missing or frame.size == 0:
            raise DecibanError("the sample on which choices are made needs rows, and a label for every row")
        warn_of_labels(frame, labels)
        reader = with_kinds_decided(self._columns_of(frame), frame, labels.codes, len(labels.classes))
        prior, rows = prior_by_class(self.class_prior, labels.classes), reader.read(frame)
        with progress("trying experts") as watch:
            return choose_by_sample(reader, rows, labels.codes, labels.classes, collect, prior, self.n_jobs, watch)

    def _learned_on_engine(self, engine: Any, split: Any, hidden: Hidden, clusters: int | None) -> TableModel:
        from deciban.engines import learn
        from deciban.estimators import on_engines

        if clusters is not None:
            raise ValueError("Classifier needs labels: to find clusters, use NaiveBayes or GaussianMixture")
        if split.weight is not None or hidden.weight:
            raise DecibanError("sample_weight and unlabelled_weight are for rows in memory: leave them out")
        X, y, _ = learn.sample_rows(engine, split)
        if not len(y):
            raise DecibanError(
                f"no row of a sample of {engine.rows_named} has a label: shuffle the rows, or add labels"
            )

        def collect(empty_model: TableModel) -> TableModel:
            total: TableModel = on_engines.total_of(engine, on_engines.with_model(self, empty_model), split)
            return total

        return self._chosen_on(X, y, collect)

    # ------------------------------------------------------------------ inspection

    def summary(self) -> Summary:
        """What was chosen and why: columns, distributions, and every candidate's leave-one-out log loss."""
        check_is_fitted(self)
        return views.summary(self.model_)

    @property
    def kinds_(self) -> Table:
        """The kind of each column, and the reason."""
        check_is_fitted(self)
        return kinds_table(self.model_.reader.kinds)

    @property
    def params(self) -> Table:
        """The weight of each expert."""
        check_is_fitted(self)
        weights = self.model_.pool.weights
        rows = [(e.name, e.settings, float(w)) for e, w in zip(self.model_.experts, weights, strict=False)]
        extra = zip(self.model_.encoding.names, weights[len(rows) :], strict=True)
        rows += [("column", name, float(w)) for name, w in extra if w > 0]
        return Table("weights of the evidence", ("expert", "setting", "weight"), rows)

    # ------------------------------------------------------------------ saving

    def _parameters_out(self) -> dict[str, Any]:
        parameters = super()._parameters_out()
        if isinstance(parameters["class_prior"], np.ndarray):
            parameters["class_prior"] = parameters["class_prior"].tolist()
        return parameters

    def _about(self) -> dict[str, Any]:
        return {
            "n_features": int(self.n_features_in_),
            "names": list(self._names() or []),
            "table": self.table_kind_,
            "n_guessed": self.model_.unlabelled,
        }

    def _restored(self, model: Any, about: dict[str, Any]) -> TableModel:
        self._validate_params()
        self.n_features_in_, names = int(about["n_features"]), about["names"]
        if self.n_features_in_ != len(model.reader.kinds) or (names and len(names) != self.n_features_in_):
            raise ValueError(f"it declares {self.n_features_in_} columns, but has {len(model.reader.kinds)}")
        if names:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        if about["table"] not in TABLES:
            raise ValueError(f"a table of kind {about['table']!r} is unknown")
        self.table_kind_, guessed = str(about["table"]), int(about["n_guessed"])
        if guessed < 0:
            raise ValueError("the number of guessed labels is negative")
        restored: TableModel = replace(model, unlabelled=guessed)
        return restored


def warn_of_labels(frame: Frame, labels: Labels) -> None:
    """Warn if a column equals the labels: such a model learns nothing else."""
    known = np.flatnonzero(labels.codes >= 0)
    label_names = [str(plain(label)) for label in labels.classes]
    for name, column in zip(frame.names, frame.columns, strict=True):
        if isinstance(column, Levels) and len(label_names) > 1 and set(map(str, column.levels)) >= set(label_names):
            code_of = {label: i for i, label in enumerate(label_names)}
            codes = np.array([*(code_of.get(str(level), -2) for level in column.levels), -2])[column.codes[known]]
            if np.array_equal(codes, labels.codes[known]):
                warn(
                    DataWarning(
                        "column {column!r} is the same as the labels: leave it out, or give its name as y",
                        command_line="column {column!r} is the same as the classes: leave it out, as with --schema "
                        "{column}=skip",
                        column=name,
                    )
                )


def rows_with_weight(X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
    """The rows of positive weight: others must not change anything, not even the cuts of bins.

    With `some`, at least one of them must have a label.
    """
    weight = None if sample_weight is None else np.asarray(sample_weight)
    if weight is None or weight.ndim != 1 or weight.all() or y is None or isinstance(X, Iterator):
        return X, y, sample_weight
    X, y = split_target(X, y) if isinstance(y, str) else (X, y)
    given = Rows.of(X)
    if given.size != len(weight):
        return X, y, sample_weight  # reading the weights raises an error for their length
    rows, labels = np.flatnonzero(weight), read_labels(y, given.size)
    if some and labels.soft is None and len(labels.classes) and not (labels.codes[rows] >= 0).any():
        raise ValueError("sample_weight is zero in every labelled row: give at least one a weight above 0")
    return given.take(rows), take_values(y, rows), weight[rows]
