"""What a fitted model answers: posteriors, decisions, explanations, samples. Its state is `model_`, a value."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_random_state, column_or_1d, validate_data

from deciban import bayes, score
from deciban._typing import Array, Data, Floats, Matrix
from deciban.corollaries.explain import explain, strongest
from deciban.corollaries.linear_form import LinearForm, linear_form
from deciban.corollaries.sample import sample
from deciban.engines.dispatch import engine_of
from deciban.errors import DecibanError, NotAvailableError, SchemaError
from deciban.joint import Model
from deciban.reading.missing import unmask
from deciban.results.evidence import Evidence
from deciban.schema import Columns
from deciban.show import Table, plain
from deciban.storage import files

Self = TypeVar("Self", bound="Answers")


def is_generative(what: str) -> Callable[[Any], bool]:
    """For methods that only a generative model has."""

    def check(model: Any) -> bool:
        if not model._generative:
            raise NotAvailableError(
                "{model} is not a generative model: it has no {what}", model=type(model).__name__, what=what
            )
        return True

    return check


def anywhere(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method that answers rows in memory, and so those of any engine: a partition at a time, where they are."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        engine = self._elsewhere(X)
        if engine is None:
            return method(self, X)
        from deciban.estimators.anywhere import answer

        return answer(self, engine, method.__name__)

    return answer


class Answers(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator around a model: how rows to score are read, and everything that is asked of them."""

    model_: Model
    n_features_in_: int
    n_jobs: int | None
    origin_: dict[str, Any] | None = None  # where the rows came from: a note that `save` keeps and `load` gives back

    _generative: ClassVar[bool] = True
    _sparse: ClassVar[bool] = True  # whether sparse rows are taken
    _texts: ClassVar[bool] = False  # whether rows are texts
    _needs_labels: ClassVar[bool] = True
    _guesses: ClassVar[bool] = True  # whether rows without a label are learned too, where rows are elsewhere

    # ------------------------------------------------------------------ reading rows

    def _elsewhere(self, X: Any, y: Any = None, engine: str | None = None) -> Any:
        """The engine for rows that are not in memory; None for those that are."""
        return engine_of(X, y, engine, self._texts)

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        """Rows to score, as the family reads them."""
        del columns
        return X

    def _data(self, X: Any, model: Model) -> Data:
        """Rows to score, a matrix for each of the model's blocks."""
        return [self._rows(X, model.columns())]

    def _validate(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        """scikit-learn's checks of shape and names; infinities show up in the sums, NaN is missing."""
        rows = validate_data(
            self,
            unmask(X),
            reset=reset,
            accept_sparse=["csr", "csc"] if self._sparse else False,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=least,
        )
        return plain_rows(rows)

    def _read(self, X: Any) -> Data:
        """Rows to score."""
        self._check_classes()
        self._warn_about(self.model_)
        return self._data(self._validate(X, reset=False, least=0), self.model_)

    def _check_classes(self) -> None:
        check_is_fitted(self)
        if len(self.classes_) == 0:
            raise DecibanError("the model has no classes: nothing was learned yet, or everything was forgotten")

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def _warn_about(self, model: Model) -> None:
        """Say, once a model, what was done about sums that do not determine the parameters."""

    # ------------------------------------------------------------------ answering

    def _apply(self, X: Any, how: str) -> Array:
        """Scores of rows: "log_joint", "posterior", "log_posterior", or "best" class codes."""
        return score.apply(self._read(X), self.model_, how, self.n_jobs)

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log p(x, y) for every class, (n, k)."""
        return self._apply(X, "log_joint")

    @anywhere
    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y | x), (n, k)."""
        return self._apply(X, "log_posterior")

    @anywhere
    def predict_proba(self, X: Any) -> Floats:
        """P(y | x), (n, k), columns in the order of `classes_`."""
        return self._apply(X, "posterior")

    @anywhere
    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        return self.classes_[self._apply(X, "best")]

    def _answers(self) -> Array:
        """What `predict` may say."""
        return self.classes_

    @available_if(is_generative("p(x)"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def score_samples(self, X: Any) -> Floats:
        """log p(x) = log Σ_y p(x, y): low for rows unlike anything learned."""
        said = bayes.log_evidence(self._apply(X, "log_joint"))
        if not np.isfinite(said).all():
            score.check_finite(self._read(X), self.model_)
        return said

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
        score.check_finite(data, self.model_)
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
        schema = replace(stats.schema, blocks=self._called(called))
        return Model(self.model_.joint, replace(stats, schema=schema))

    def _called(self, names: tuple[str, ...]) -> tuple[Columns, ...]:
        """The model's blocks of columns under other names, one a feature."""
        return (replace(self.model_.columns(), names=names),)

    @available_if(is_generative("law of x to draw from"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def sample(
        self, n: int = 1, given: Any = None, random_state: Any = None, length: int | None = None
    ) -> tuple[Any, Array]:
        """Draw n rows and their classes: y from the class prior (or `given`), then x from its law (S18).

        `length` is the number of words of each row where rows are bags of words; by default it is drawn about the
        class's mean.
        """
        self._check_classes()
        if n < 0:
            raise ValueError(f"n is {n}: it must not be negative")
        rng = generator(random_state)
        which = None if given is None else self._class_index(given)
        blocks, codes = sample(self.model_, n, rng, which, length)
        return self._from_data(blocks), self.classes_[codes]

    def _from_data(self, data: Data) -> Any:
        """Rows as a person has them, from a matrix for each block."""
        return self._from_rows(data[0])

    def _from_rows(self, rows: Array) -> Array:
        return rows

    # ------------------------------------------------------------------ looking inside

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

    # ------------------------------------------------------------------ going elsewhere

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

        A number that is NULL or NaN, and a category that is NULL, is missing. Where columns depend on each other and
        a missing one cannot be left out (full and tied covariances), the row's answer is NULL; so it is where a
        Classifier has Gaussians among its experts, and two values of the row were never seen while learning.

        Parameters
        ----------
        table : str, or sequence of str
            What the table is called; several names are those of its schema and itself.
        dialect : {"duckdb", "postgresql", "sqlite"}, default="duckdb"
        columns : sequence or {feature: column}, optional
            What the features are called there, where not as in the table that was learned (or x0, x1, …).
        output : {"proba", "label", "all"}, default="proba"
            A column of probabilities for each class, "proba_…", the likeliest class, "label", or both.
        keep : sequence of str, optional
            Columns of the table that the answer is to have too, such as its key.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [2.0], [8.0], [9.0]], ["low", "low", "high", "high"])
        >>> statement = model.to_sql("readings", columns=["temperature"], output="label", keep=["id"])
        >>> statement.splitlines()[-1], "exp(" in statement
        ('FROM step5', True)
        """
        from deciban.estimators.elsewhere import columns_of, formula_of
        from deciban.export.sql import to_sql

        formula = formula_of(self)
        return to_sql(formula, table, dialect, columns=columns_of(self, columns), output=output, keep=keep)

    def to_onnx(self, *, columns: Any = None) -> Any:
        """The model as an ONNX graph (an optional dependency): inputs of rows, outputs `label` and `probabilities`.

        Where all columns are numbers, the input is X, (n, d) doubles, NaN where missing; otherwise each column is an
        input of its own, (n, 1): doubles, or strings, "" where missing. A date is three: days since 1970, and its month
        and weekday as in "Jan" and "Mon". `columns` is as in `to_sql`. Everything is done in double precision.

        >>> from deciban import GaussianNB
        >>> model = GaussianNB().fit([[1.0], [2.0], [8.0], [9.0]], ["low", "low", "high", "high"])
        >>> graph = model.to_onnx().graph
        >>> [one.name for one in graph.input], [one.name for one in graph.output]
        (['X'], ['label', 'probabilities'])
        """
        from deciban.estimators.elsewhere import columns_of, formula_of
        from deciban.export.onnx import to_onnx

        formula = formula_of(self)
        return to_onnx(formula, columns_of(self, columns), named=self._names() is not None)

    def linear_form(self) -> LinearForm:
        """θ and θ_0: the model as a linear classifier, per class and per pair (S5)."""
        self._check_classes()
        if not isinstance(self.model_, Model):
            raise TypeError(f"a {type(self).__name__} is not linear in what it reads: it has no weight a column")
        return linear_form(self.model_)

    def to_logistic_regression(self) -> Any:
        """A fitted LogisticRegression of scikit-learn's that gives the same probabilities, where the model is linear.

        So are multinomial, complement, Poisson and Bernoulli models (of 0 and 1), and Gaussians with one covariance
        for all classes whose parameters are plugged in (S5, S11, S14). It takes no missing values.

        >>> from deciban import LinearDiscriminantAnalysis
        >>> X, y = [[0.0, 1.0], [1.0, 1.0], [3.0, 2.0], [5.0, 2.0], [4.0, 4.0]], ["a", "a", "b", "b", "b"]
        >>> model = LinearDiscriminantAnalysis().fit(X, y)
        >>> bool(np.allclose(model.to_logistic_regression().predict_proba(X), model.predict_proba(X)))
        True
        """
        from deciban.estimators.elsewhere import logistic_regression

        return logistic_regression(self, self.linear_form())

    # ------------------------------------------------------------------ keeping

    def _write(self, path: str | os.PathLike[str], parameters: dict[str, Any], state: dict[str, Any]) -> None:
        """One safe file: the model, the parameters it was made with, and what else it knows."""
        about = {
            "model": type(self).__name__,
            "parameters": parameters,
            "n_features": int(self.n_features_in_),
            "names": list(self._names() or []),
            "state": state,
        }
        files.write(path, self.model_, about | self._origin())

    def _origin(self) -> dict[str, Any]:
        """What is said about where the rows came from, if anything is."""
        return {} if self.origin_ is None else {"origin": self.origin_}

    def _read_back(self, model: Model, about: dict[str, Any], kept: tuple[str, ...]) -> dict[str, Any]:
        """The state that `_write` kept, checked; the numbers and names of features are set."""
        self.n_features_in_ = int(about["n_features"])
        names, state = about["names"], about["state"]
        held = sum(columns.size for columns in model.schema.blocks)
        if not self._holds(held) or (names and len(names) != self.n_features_in_):
            raise ValueError(f"it speaks of {self.n_features_in_} features, but holds {held}")
        if set(state) - set(kept) or state.get("dtype_", "float64") not in ("float32", "float64"):
            raise ValueError(f"its state is not one of ours: {sorted(state)}")
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        return dict(state)

    def _holds(self, columns: int) -> bool:
        """Whether a model of so many columns can be one of this many features."""
        return columns == self.n_features_in_

    def __radd__(self: Self, other: Any) -> Self:
        """So that sum(models) works."""
        return copy.copy(self) if other == 0 else NotImplemented

    def _check_mergeable(self, other: Answers, parameters: Iterable[str]) -> None:
        """Two models add up if they have learned, speak of the same columns, and were told the same."""
        check_is_fitted(self)
        check_is_fitted(other)
        if self.n_features_in_ != other.n_features_in_:
            raise SchemaError(
                f"cannot merge a model of {self.n_features_in_} features with one of {other.n_features_in_}"
            )
        for name in parameters:
            mine, theirs = getattr(self, name), getattr(other, name)
            if not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise SchemaError(f"cannot merge models whose {name} differs: {mine!r} and {theirs!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        tags.input_tags.allow_nan = True
        return tags

    def _class_index(self, label: Any) -> int:
        where = np.flatnonzero(self.classes_ == label)
        if len(where) == 0:
            raise ValueError(f"{label!r} is not one of the classes {self.classes_.tolist()}")
        return int(where[0])

    def _read_prior(self, prior: Any) -> Floats:
        """Class probabilities from a sequence, {class: p} or "uniform"."""
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


def generator(random_state: Any) -> np.random.Generator:
    """Where draws come from: NumPy's new generators as they are, whatever else scikit-learn takes as a seed."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(0, 2**31 - 1, size=4))


def one_column(y: Any) -> Any:
    """Labels as they are; of a matrix of one column that column, with scikit-learn's warning."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return column_or_1d(y, warn=True) if len(shape) == 2 and shape[1] == 1 else y


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
