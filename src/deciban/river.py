"""Models in river (https://riverml.xyz): row by row, in its pipelines, metrics and drift detectors."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from deciban._typing import Floats
from deciban.errors import DecibanError, ForgetError
from deciban.estimators.naive_bayes.bernoulli import BernoulliNB
from deciban.estimators.naive_bayes.complement import ComplementNB
from deciban.estimators.naive_bayes.mixed import NaiveBayes
from deciban.estimators.naive_bayes.multinomial import MultinomialNB
from deciban.estimators.naive_bayes.poisson import PoissonNB
from deciban.estimators.naive_bayes.tree_augmented import TreeAugmentedNB
from deciban.estimators.tables import Classifier
from deciban.estimators.widen import widened
from deciban.readers.mixed import kind_of
from deciban.reading.frames import Column, Frame, Levels, Numbers, read_frame
from deciban.reading.native import objects
from deciban.show import optional, plain

BY_NAME = (NaiveBayes, TreeAugmentedNB, Classifier)  # these take tables, and match columns by name
COUNTS = (MultinomialNB, ComplementNB, PoissonNB, BernoulliNB)  # a feature that a row does not have is zero

base: Any = optional("river.base", "deciban.river")
MiniBatchClassifier: Any = base.MiniBatchClassifier


class RiverClassifier(MiniBatchClassifier):  # type: ignore[misc]  # river is an optional dependency
    """A classifier of river that learns, predicts and forgets row by row with a model of deciban.

    A row is a dict, or a text for models of texts. New classes and features may appear at any time: the model is the
    one that learned all rows at once, with a missing value for every feature that a row does not have (zero in models
    of counts, as in river's bags of words). New features need columns that are independent given the class, as in every
    naive Bayes model except `TreeAugmentedNB`.

    Parameters
    ----------
    estimator : an estimator of deciban, default=None
        None is `NaiveBayes()`, which takes numbers and categories. An estimator that was fitted continues from there:
        `Classifier()` and `TextClassifier()`, which choose from the first rows, should be fitted on some before.
    half_life : float, default=None
        The number of rows after which what was learned counts half as much, for streams that drift.

    Examples
    --------
    >>> from deciban.river import RiverClassifier
    >>> model = RiverClassifier()
    >>> model.learn_one({"size": 1.2, "colour": "red"}, "apple")
    >>> model.learn_one({"size": 3.1}, "melon")
    >>> model.predict_one({"size": 2.9, "colour": "green"})
    'melon'
    >>> model.forget_one({"size": 3.1}, "melon")
    >>> model.predict_proba_one({"size": 2.9})
    {'apple': 1.0}

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing().take(300), RiverClassifier(), metrics.Accuracy())
    Accuracy: 84.95%
    """

    def __init__(self, estimator: Any = None, half_life: float | None = None) -> None:
        self.estimator = estimator
        self.half_life = half_life
        self._model: Any = NaiveBayes() if estimator is None else copy.copy(estimator)
        self._features: list[str] = []
        if self._fitted() and not self._model._texts:
            self._features = list(self._model._features())
            if not isinstance(self._model, BY_NAME):  # it gets arrays
                self._model.__dict__.pop("feature_names_in_", None)

    @property
    def model(self) -> Any:
        """A copy of the estimator in its present state, which explains, merges, and can be saved."""
        model = copy.copy(self._model)
        if self._fitted() and not isinstance(model, BY_NAME) and not model._texts:
            model.feature_names_in_ = np.array(self._features, dtype=object)
        return model

    @property
    def _multiclass(self) -> bool:
        return True

    def _more_tags(self) -> set[str]:
        tags = {base.tags.TEXT_INPUT: self._model._texts, base.tags.POSITIVE_INPUT: self._model._positive}
        return {tag for tag, holds in tags.items() if holds}

    # ------------------------------------------------------------------ one row

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn a row of class y and weight w."""
        self.learn_many([x], [y], w)

    def forget_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Unlearn a row, exactly: the sums are then those of a stream that did not have it.

        With `half_life`, w is the weight that the row has now: 2^(−age/half_life).
        """
        rows = self._rows([x])
        if isinstance(rows, Frame) and (unknown := [name for name in rows.names if name not in self._features]):
            raise ForgetError("no row with the feature {column!r} was learned", column=unknown[0])
        self._model.forget(self._given(rows), [y], None if w == 1.0 else [w])

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        """The probability of every class seen so far; of none before the first row."""
        del kwargs
        if not self._fitted() or not len(self._model.classes_):
            return {}
        (proba,) = self._model._probabilities(self._given(self._rows([x]))).tolist()
        return dict(zip(map(plain, self._model.classes_), proba, strict=True))

    # ------------------------------------------------------------------ several rows

    def learn_many(self, X: Any, y: Any, w: float = 1.0) -> None:
        """Learn the rows of a data frame or list, each of weight w: the same as one after another."""
        rows, labels = self._rows(X), list(y)
        weight = np.full(len(labels), float(w))
        if self.half_life is not None:
            weight *= 2.0 ** (-np.arange(len(labels))[::-1] / self.half_life)
            self._model.decay(self.half_life, len(labels))
        if isinstance(rows, Frame):
            new = {n: c for n, c in zip(rows.names, rows.columns, strict=True) if n not in self._features}
            if new and self._fitted():
                places = {name: first_number(column) for name, column in new.items()}
                self._model = widened(self._model, places, [kind_of(column) for column in new.values()])
            self._features += new
            if not self._features:
                raise DecibanError("the first row has no features: learn a row that has some first")
        plain_weight = None if (weight == 1.0).all() else weight
        self._model.partial_fit(self._given(rows), labels, sample_weight=plain_weight)

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of every class, as a pandas data frame with the index of X."""
        frame = optional("pandas", "predict_proba_many").DataFrame
        if not self._fitted() or not len(self._model.classes_):
            return frame(index=X.index)
        proba = self._model._probabilities(self._given(self._rows(X)))
        return frame(proba, index=X.index, columns=list(map(plain, self._model.classes_)))

    # ------------------------------------------------------------------ reading

    def _fitted(self) -> bool:
        return bool(self._model.__sklearn_is_fitted__())

    def _rows(self, X: Any) -> Any:
        """A list of texts, or a table of the features that have a value."""
        if self._model._texts:
            return list(X)
        size = len(X)
        if isinstance(X, list):
            X = {name: [row.get(name) for row in X] for name in dict.fromkeys(name for row in X for name in row)}
        frame = read_frame({str(name): X[name] for name in X})
        present = [n for n, c in zip(frame.names, frame.columns, strict=True) if not c.missing.all()]
        return replace(frame.select(present), size=size)

    def _given(self, rows: Any) -> Any:
        """Rows as the estimator takes them: every feature, in the order in which they appeared."""
        if not isinstance(rows, Frame):
            return rows
        absent = Levels(np.full(rows.size, -1, dtype=np.int32), ())
        columns = [
            rows[name] if name in rows else absent  # noqa: SIM401 - no mapping
            for name in self._features
        ]
        if isinstance(self._model, BY_NAME):
            return Frame(tuple(self._features), tuple(columns), rows.size, rows.notes)
        if self._model._strings:
            return np.array([objects(column) for column in columns], dtype=object).T
        X = np.column_stack([self._numbers(*pair) for pair in zip(self._features, columns, strict=True)])
        return np.nan_to_num(X) if isinstance(self._model, COUNTS) else X

    def _numbers(self, name: str, column: Column) -> Floats:
        if isinstance(column, Numbers):
            return column.values
        text = next((level for level in column.levels if not isinstance(level, bool)), None)
        if text is not None:
            raise DecibanError(
                "the feature {column!r} is {value!r}, but {model} takes numbers: use NaiveBayes, which takes both",
                column=name,
                value=text,
                model=type(self._model).__name__,
            )
        return np.array([*map(float, column.levels), np.nan])[column.codes]  # −1 is the last one


def first_number(column: Column) -> float:
    """The first number of a column; 0 if it has categories."""
    return float(column.values[np.argmin(column.missing)]) if isinstance(column, Numbers) else 0.0
