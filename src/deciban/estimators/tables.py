"""Any table in, labels out."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from deciban import bayes
from deciban._typing import Array, Floats
from deciban.corollaries.decay import share_left
from deciban.corollaries.leave_one_out import NO_WAY, LeaveOneOut, alone_in_class, shares_of
from deciban.errors import DecibanError, ForgetError, SchemaError, warn
from deciban.estimators.answers import generator, one_column
from deciban.estimators.pooled import PooledClassifier
from deciban.estimators.tabular import read_table
from deciban.reading.columns import Levels
from deciban.reading.frames import Frame, split_target
from deciban.reading.given import Rows, take_values
from deciban.reading.kinds import kinds_table
from deciban.reading.labels import Labels, read_labels, read_weights, without_mark
from deciban.reading.native import to_native
from deciban.reading.table import Reader
from deciban.results.evidence import Evidence
from deciban.results.summary import Summary
from deciban.results.tally import Tally
from deciban.show import Table, plain, progress
from deciban.storage import files
from deciban.tables import density, views
from deciban.tables.choose import choose, choose_by_sample
from deciban.tables.files import parts, rebuild
from deciban.tables.model import TableModel

Self = TypeVar("Self", bound="Classifier")


class Classifier(PooledClassifier):
    """Any table in, labels out: numbers, categories, texts, dates and missing values, with laws it picks itself.

    Several generative experts look at a row, each in its own way: columns one by one (naive Bayes), Gaussians over all
    numbers, each class cut in pieces, columns given other columns, trees of splits. What they say is weighed by how
    reliable it proved on rows left out, and added up:

        log P(y | x) = log π_y + b_y + Σ_m r_m F_m(x, y) + Σ_j δ_j F_j(x, y) − log Z,   r, δ ≥ 0

    F_m is what expert m says and F_j what column j says by itself.

    All that is learned are sums, so the model learns more rows, forgets rows, merges, and is left one row out exactly,
    as long as what it chose (bins, trees, shapes, weights) is held; `fit` chooses anew.

    Parameters
    ----------
    schema : {column: kind}, optional
        What columns are, where the guess is wrong: "number", "count", "category", "boolean", "text", "date",
        "identifier", "constant" or "skip", the last three left out. `kinds_` says what was found, and why.
    class_prior : array-like, {class: p}, "uniform" or None, default=None
        The class prior; None counts it.
    n_jobs : int, optional
        Threads; None takes as many as there are processors, for tables that are worth it.

    Attributes
    ----------
    classes_ : the labels, sorted
    class_count_ : rows of each class
    kinds_ : what each column is, and why
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

    _sparse: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "schema": [Mapping, None],
        "class_prior": ["array-like", Mapping, StrOptions({"uniform"}), None],
        "n_jobs": [None, int, np.integer],
    }

    def __init__(self, *, schema: Any = None, class_prior: Any = None, n_jobs: int | None = None) -> None:
        self.schema = schema
        self.class_prior = class_prior
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------ learning

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        unlabelled: Any = None,
        unlabelled_weight: float = 0.0,
        engine: str | None = None,
    ) -> Self:
        """Look at a table, choose, and learn its rows; everything learned before is forgotten.

        Parameters
        ----------
        X : data frame (pandas, Polars, Arrow, …), mapping of columns, list of dicts, array or sparse matrix
            Rows. Entries may be missing anywhere. Or rows that are elsewhere: files (a path, a pattern),
            `deciban.stream`, tables of databases (`deciban.table`, DuckDB relations), Dask's and Spark's frames. Of
            those a sample makes the choices, and every row is learned where it is.
        y : array-like of shape (n,), or the name of a column of X
            Labels. Rows whose label is missing (None, NaN) show where values lie; see `unlabelled_weight`.
        sample_weight : array-like of shape (n,), optional
            A row of weight 2 counts as two rows in every sum. To give a row twice is not the same while choosing: its
            twin stays when it is left out, and what learns rows by heart looks reliable.
        unlabelled : label, optional
            Another mark of a missing label, such as "?".
        unlabelled_weight : float, default=0.0
            What a row without a label counts beside one that has one, its label guessed by the model of the others.
            Guesses help on some tables and harm on as many, so by default they count nothing.
        engine : {"stream", "duckdb", "dask", "spark"}, optional
            What reads files; by default "stream", or what X belongs to.
        """
        source = self._elsewhere(X, y, engine)
        if source is not None:
            from deciban.estimators import anywhere

            anywhere.fit(self, source, y, sample_weight, mark=unlabelled, unlabelled_weight=unlabelled_weight)
            return self
        with self._unchanged_on_error():
            self._validate_params()
            if not 0 <= unlabelled_weight < np.inf:
                raise ValueError(f"unlabelled_weight is {unlabelled_weight}: it must be a number ≥ 0")
            X, y, sample_weight = that_count(X, y, sample_weight, some=True)
            frame, labels, weight = self._read_labelled(X, y, sample_weight, reset=True, mark=unlabelled)
            if frame.size == 0:
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: the table has no rows")
            if len(labels.classes) == 0:
                raise ValueError("every label is missing: at least one row of each class needs one")
            self._start(frame, labels, labels.classes, False, weight, float(unlabelled_weight))
            self._keep(
                frame if isinstance(X, Iterator) else X, y, labels, weight, {"unlabelled_weight": unlabelled_weight}
            )
        return self

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows: new categories and classes join as they come.

        The first batch makes all choices, and they are kept; the sums are those of all rows under these choices.
        `fit` chooses anew. With `classes` on the first call the set of classes is closed.
        """
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            return anywhere.learn_more(self, source, y, sample_weight, classes=classes)  # type: ignore[no-any-return]
        with self._unchanged_on_error():
            self._validate_params()
            first = not self.__sklearn_is_fitted__()
            declared = self._declared(classes, first)
            X, y, sample_weight = that_count(X, y, sample_weight, some=first)
            frame, labels, weight = self._read_labelled(X, y, sample_weight, reset=first)
            if labels.any_missing:
                raise DecibanError(
                    f"row {int(np.argmax(labels.codes < 0))} of y has no label: partial_fit adds rows whose class "
                    "is known"
                )
            labels = self._placed(labels, declared, first)
            if first:
                if frame.size == 0:
                    raise ValueError("Found array with 0 sample(s): the first batch makes all choices, and has no rows")
                self._start(frame, labels, labels.classes, declared is not None, weight)
            else:
                rows = self.model_.read(frame)
                self.model_ = self.model_.learned(rows, labels.codes, labels.classes, weight, self.n_jobs)
                self._class_prior(self.classes_)
        return self

    def fit_batches(self: Self, X: Any, y: Any, batches: Iterable[tuple[Any, Any]]) -> Self:
        """Learn rows that come in batches, more of them than memory holds; everything learned before is forgotten.

        X and y are a sample of the rows, which makes all choices as `fit` does; `batches` are all of the rows with
        their labels, those of the sample too, and are gone through once. Classes and categories that the sample does
        not have join as they come.

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

        def collect(none: TableModel) -> TableModel:
            model = none
            for rows, own in batches:
                part, said, _ = self._read_labelled(rows, own, None, reset=False)
                if said.any_missing:
                    raise DecibanError(f"row {int(np.argmax(said.codes < 0))} of a batch has no label")
                if part.size:
                    model = model.learned(model.read(part), said.codes, said.classes, None, self.n_jobs)
            return model

        with self._unchanged_on_error():
            self._choose_on(X, y, collect)
        return self

    def _choose_on(self, X: Any, y: Any, collect: Callable[[TableModel], TableModel]) -> None:
        """Learn what `collect` does, under choices made on a sample."""
        self._validate_params()
        frame, labels, _ = self._read_labelled(X, y, None, reset=True)
        if labels.any_missing or frame.size == 0:
            raise DecibanError("the sample that makes the choices needs rows, and the label of every row")
        warn_of_labels(frame, labels)
        reader = Reader.of(frame, self.schema)
        prior, rows = self._class_prior(labels.classes), reader.read(frame)
        with progress("ways to look at the table") as watch:
            self.model_ = choose_by_sample(
                reader, rows, labels.codes, labels.classes, collect, prior, self.n_jobs, watch
            )
        self.n_guessed_ = 0

    # ------------------------------------------------------------------ rows that are elsewhere

    def _fit_engine(self, engine: Any, split: Any, unlabelled_weight: float = 0.0) -> None:
        from deciban.estimators import anywhere

        if split.weight is not None or unlabelled_weight:
            raise DecibanError("sample_weight and unlabelled_weight are for rows in memory: leave them out here")
        X, y, _ = anywhere.some_rows(engine, split)
        if not len(y):
            raise DecibanError(f"no row of a sample of {engine.rows_named} has a label: there is nothing to choose by")

        def collect(none: TableModel) -> TableModel:
            template = copy.copy(self)
            template.model_, template.n_guessed_ = none, 0
            found: TableModel = anywhere.total_of(engine, template, split).model_
            return found

        self._choose_on(X, y, collect)

    def forget(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Unlearn rows: afterwards the sums are those of a model that made the same choices and never saw them.

        Rows that were never learned are an error where the sums can tell, and the model stays as it was. Bins, trees
        and weights that the rows had a part in choosing stay until `fit`.
        """
        check_is_fitted(self)
        self._check_exact("rows cannot be subtracted: fit again without them")
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            anywhere.forget(self, source, y, sample_weight)
            return self
        with self._unchanged_on_error():
            frame, labels, weight = self._read_labelled(*that_count(X, y, sample_weight), reset=False)
            if labels.any_missing:
                raise DecibanError("rows to forget need their labels")
            rows = self.model_.read(frame)
            self.model_ = self.model_.forgotten(rows, labels.codes, labels.classes, weight, self.n_jobs)
        return self

    def decay(self: Self, half_life: float, rows: float = 1) -> Self:
        """Make what was learned so far count half as much for every `half_life` rows that came since.

        In a stream, each batch comes after a decay by as many rows as it has:

            model.decay(half_life=10_000, rows=len(batch)).partial_fit(batch, y)

        To `forget` a row afterwards, give its weight as it is now, sample_weight=[2 ** (-age / half_life)].
        """
        share = share_left(half_life, rows)
        if self.__sklearn_is_fitted__() and share < 1.0:
            self.model_ = self.model_.scaled(share)
        return self

    def empty(self: Self) -> Self:
        """A copy that made the same choices and has learned nothing: to learn other rows, and be merged with `+`."""
        check_is_fitted(self)
        other = copy.copy(self)
        other.model_, other.n_guessed_ = self.model_.none(), 0
        return other

    def __add__(self: Self, other: Self) -> Self:
        """The model that learned what both did, under the choices that both made.

        Models that chose by themselves have chosen differently, and their sums do not add up: let the second learn
        under the first's choices, first.empty().partial_fit(rows, labels).
        """
        if type(other) is not type(self):
            return NotImplemented
        check_is_fitted(self)
        check_is_fitted(other)
        if not np.array_equal(np.asarray(self.class_prior), np.asarray(other.class_prior)):
            raise SchemaError("cannot merge models whose class_prior differs")
        merged = copy.copy(self)
        merged.model_ = self.model_.merged(other.model_)
        merged.n_guessed_ = self.n_guessed_ + other.n_guessed_
        merged._class_prior(merged.classes_)
        return merged

    def _start(
        self,
        frame: Frame,
        labels: Labels,
        classes: Array,
        closed: bool,
        weight: Floats | None,
        hidden_weight: float = 0.0,
    ) -> None:
        warn_of_labels(frame, labels)
        reader = Reader.of(frame, self.schema)
        prior = self._class_prior(classes)
        how = (prior, closed, self.n_jobs, hidden_weight)
        with progress("ways to look at the table") as watch:
            self.model_ = choose(reader, reader.read(frame), labels.codes, classes, weight, *how, watch)
        self.n_guessed_ = int((labels.codes < 0).sum()) if hidden_weight else 0

    def _check_exact(self, so: str) -> None:
        if self.n_guessed_:
            raise ForgetError(f"{self.n_guessed_} labels were guessed, by what all the others said, and {so}")

    def _read_labelled(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, mark: Any = None
    ) -> tuple[Frame, Labels, Floats | None]:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: give labels, or the name of a column")
        if isinstance(y, str):
            X, y = split_target(X, y)
        frame = read_table(self, X, reset=reset, least=1 if reset else 0)
        labels = read_labels(one_column(y) if mark is None else without_mark(y, mark), frame.size)
        if labels.soft is not None:
            raise ValueError("y must have one label a row, not a matrix of weights")
        weight = None if sample_weight is None else read_weights(sample_weight, frame.size)
        if weight is not None and (weight < 0).any():
            row = int(np.argmax(weight < 0))
            raise ValueError(f"sample_weight is {weight[row]:g} in row {row}: weights must not be negative; see forget")
        return frame, labels, weight

    # ------------------------------------------------------------------ answering

    def _table(self, X: Any) -> Frame:
        self._check_classes()
        return self.model_.read(read_table(self, X, reset=False, least=0))

    def _apply(self, X: Any, how: str) -> Array:
        frame = self._table(X)
        scores = self.model_.log_joint(frame, self.n_jobs)
        return self._posterior(scores, how)

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log P(y | x) up to what all classes share, (n, k)."""
        return super().predict_joint_log_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows that are predicted right; y may be the name of the labels' column."""
        if isinstance(y, str) and self._elsewhere(X, y) is None:
            X, y = split_target(X, y)
        return float(super().score(X, y, sample_weight))

    def score_samples(self, X: Any) -> Floats:
        """log p(x) under the law that `sample` draws from: low for rows unlike anything learned.

        A number counts by its bin's share and width; one beyond all that was seen loses a nat for every standard
        deviation that it is off. Columns of texts say nothing here.
        """
        frame = self._table(X)
        return density.log_density(self.model_, frame)

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut | Tally:
        """Every row's posterior under the sums that never saw it, exactly and without refitting.

        What was chosen is chosen without the row: structures that look at labels (trees, parents) are those that never
        saw it, and weights those of the other folds, or of all rows with its pull taken out. So this is not quite what
        `forget` and `predict_proba` give. The rows must be among those the model has learned. Of rows that are
        elsewhere, the answer is a `Tally`: sums over them all.
        """
        source = self._elsewhere(X, y)
        if source is not None:
            from deciban.estimators import anywhere

            return anywhere.leave_one_out(self, source, y, sample_weight)
        self._check_classes()
        self._check_exact(NO_WAY)
        frame, labels, weight = self._read_labelled(X, y, sample_weight, reset=False)
        if labels.any_missing:
            raise DecibanError("leave-one-out needs every row's label: leave out rows that have none")
        unknown = np.setdiff1d(labels.classes, self.classes_)
        if len(unknown):
            raise ForgetError(f"the model has learned nothing of class {plain(unknown[0])!r}")
        codes = labels.among(self.classes_)
        asked = np.bincount(codes, weight, minlength=len(self.classes_))
        over = np.flatnonzero(asked > self.model_.weight * (1 + 1e-9))
        if len(over):
            c = int(over[0])
            raise ForgetError(
                f"leave-one-out takes rows that the model has learned: of class {plain(self.classes_[c])!r} it learned "
                f"{self.model_.weight[c]:g}, and {asked[c]:g} were given"
            )
        rows = self.model_.read(frame)
        self.model_.check_learned(rows, codes, weight)
        scores = self.model_.log_joint_without(rows, codes, weight, self.n_jobs)
        log_proba = bayes.posterior(scores, self.model_.log_prior, logs=True, quiet=True)
        alone = alone_in_class(self.model_.weight, codes, weight)
        learned = shares_of(self.model_.class_prior, self.model_.weight)
        return LeaveOneOut(self.classes_, log_proba, codes, weight, alone, self.model_.way, learned, True)

    def explain(self, X: Any, target: Any = None, against: Any = None, by: str = "column") -> Evidence | list[Evidence]:
        """Why: what each column says, with its value, in decibans for `target` over `against`.

        Without them, for each row's likeliest class over the next. What no single column says (how many rows a
        class has, that several columns only speak together) stands under "together". `by="expert"` says instead what
        each expert made of the row. One row gives an Evidence, more a list.
        """
        if by not in ("column", "expert"):
            raise ValueError(f"by is {by!r}: it must be 'column' or 'expert'")
        frame = self._table(X)
        one, two = (None if label is None else self._class_index(label) for label in (target, against))
        out = [views.explain(self.model_, frame.take([i]), one, two, by) for i in range(frame.size)]
        if not out:
            raise ValueError("there is no row to explain")
        return out[0] if len(out) == 1 else out

    def top_evidence(self, n: int = 10, names: Any = None) -> Table:
        """What speaks most for each class against the others, by itself, in decibans."""
        del names
        self._check_classes()
        rows = [(plain(self.classes_[c]), item, db) for c, item, db in views.strongest(self.model_, n)]
        return Table("strongest evidence for each class", ("class", "item", "dB"), rows)

    def sample(self, n: int = 1, given: Any = None, random_state: Any = None) -> tuple[Any, Array]:
        """Draw n rows and their classes: y from the class prior (or `given`), then x given the class (S18).

        Rows come as a table of the kind that was learned, with the columns that are used, categories as themselves and
        entries missing as often, and beside the same values, as in the table.
        """
        self._check_classes()
        if n < 0:
            raise ValueError(f"n is {n}: it must not be negative")
        rng = generator(random_state)
        frame, codes = density.sample(self.model_, n, rng, None if given is None else self._class_index(given))
        names = [kind.name for kind in self.model_.reader.used]
        return to_native(self.table_kind_, names, [frame[name] for name in names]), self.classes_[codes]

    # ------------------------------------------------------------------ looking inside

    def summary(self) -> Summary:
        """What was chosen and why: columns, laws, and every candidate's leave-one-out log loss."""
        check_is_fitted(self)
        return views.summary(self.model_)

    @property
    def kinds_(self) -> Table:
        """What each column is, and why."""
        check_is_fitted(self)
        return kinds_table(self.model_.reader.kinds)

    @property
    def params(self) -> Table:
        """How far each expert is believed."""
        check_is_fitted(self)
        weights = self.model_.pool.weights
        rows = [(e.name, e.settings, float(w)) for e, w in zip(self.model_.experts, weights, strict=False)]
        extra = zip(self.model_.encoding.names, weights[len(rows) :], strict=True)
        rows += [("column", name, float(w)) for name, w in extra if w > 0]
        return Table("weights of the evidence", ("expert", "setting", "weight"), rows)

    # ------------------------------------------------------------------ keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file; `deciban.load` reads it."""
        check_is_fitted(self)
        document, tensors = parts(self.model_)
        parameters = self.get_params(deep=False)
        if isinstance(parameters["class_prior"], np.ndarray):
            parameters["class_prior"] = parameters["class_prior"].tolist()
        about = {
            "model": type(self).__name__,
            "parameters": parameters,
            "n_features": int(self.n_features_in_),
            "names": list(self._names() or []),
            "table": self.table_kind_,
            "n_guessed": self.n_guessed_,
            **self._origin(),
        }
        files.write_parts(path, document, tensors, about)

    def _restore(self, document: dict[str, Any], tensors: dict[str, Array], about: dict[str, Any]) -> None:
        """What `save` kept, checked."""
        model = rebuild(document, tensors)
        self._validate_params()
        self.n_features_in_, names = int(about["n_features"]), about["names"]
        if self.n_features_in_ != len(model.reader.kinds) or (names and len(names) != self.n_features_in_):
            raise ValueError(f"it speaks of {self.n_features_in_} columns, but knows {len(model.reader.kinds)}")
        if names:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        if about["table"] not in ("pandas", "polars", "pyarrow", "numpy", "dict"):
            raise ValueError(f"a table of kind {about['table']!r} is not known")
        self.table_kind_, self.n_guessed_, self.model_ = str(about["table"]), int(about["n_guessed"]), model
        if self.n_guessed_ < 0:
            raise ValueError("fewer than no labels were guessed")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def warn_of_labels(frame: Frame, labels: Labels) -> None:
    """Say so where a column is the labels themselves: such a model knows the answer, and nothing else."""
    known = np.flatnonzero(labels.codes >= 0)
    truth = [str(plain(label)) for label in labels.classes]
    for name, column in zip(frame.names, frame.columns, strict=True):
        if isinstance(column, Levels) and len(truth) > 1 and set(map(str, column.levels)) >= set(truth):
            place = {label: i for i, label in enumerate(truth)}
            codes = np.array([*(place.get(str(level), -2) for level in column.levels), -2])[column.codes[known]]
            if np.array_equal(codes, labels.codes[known]):
                warn(f"column {name!r} is the same as the labels: leave it out, or give its name as y", UserWarning)


def that_count(X: Any, y: Any, sample_weight: Any, some: bool = False) -> tuple[Any, Any, Any]:
    """The rows of some weight: others must not change anything, not even where numbers are cut.

    Whether there must be `some` with a label.
    """
    weight = None if sample_weight is None else np.asarray(sample_weight)
    if weight is None or weight.ndim != 1 or weight.all() or y is None or isinstance(X, Iterator):
        return X, y, sample_weight
    X, y = split_target(X, y) if isinstance(y, str) else (X, y)
    given = Rows.of(X)
    if given.size != len(weight):
        return X, y, sample_weight  # whose length is complained of where weights are read
    rows, labels = np.flatnonzero(weight), read_labels(y, given.size)
    if some and labels.soft is None and len(labels.classes) and not (labels.codes[rows] >= 0).any():
        raise ValueError("sample_weight is zero in every row that has a label: at least one must count")
    return given.take(rows), take_values(y, rows), weight[rows]
