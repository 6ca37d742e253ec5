"""A saved model to score with, without scikit-learn: in a service, on a command line, in a small container.

`deciban.load` returns the estimator, which can continue learning; this returns its model, which only predicts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from deciban import bayes, saved
from deciban._scipy import issparse
from deciban._typing import Array, Floats
from deciban.errors import DecibanError, FileError
from deciban.readers.base import Reader
from deciban.results.evidence import Evidence, grouping
from deciban.results.importance import Importance
from deciban.show import Table, plain
from deciban.storage import files

if TYPE_CHECKING:
    from deciban.corollaries.conformal import PredictionSets, Strangeness  # rarely needed
    from deciban.results.summary import Summary
    from deciban.text.mail.verdict import Verdict

__all__ = ["Scorer", "read"]

MAIL_ANSWERS = np.array(["ham", "unsure", "spam"])
MAX_DECIBANS = 9999.9  # of a verdict, where a class is certain


def read(path: str | os.PathLike[str] | BinaryIO, n_jobs: int | None = None) -> Scorer:
    """Read any model that `save` wrote, to score with, without scikit-learn.

    >>> import tempfile
    >>> from deciban import Classifier, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "animals.deciban")
    ...     Classifier().fit({"legs": [2, 4, 4, 2]}, ["hen", "cow", "cow", "hen"]).save(path)
    ...     read(path).predict({"legs": [4]}).tolist()
    ['cow']
    """
    document, tensors, about = files.read_parts(path)
    name = about.get("model")
    if not isinstance(name, str) or name not in files.MODELS:
        raise FileError(f"{files.name_of(path)!r} holds a model {name!r} which this version does not support")
    with files.damage(path):
        model = saved.unpack(about, document, tensors)
        reader = saved.reader_of(about, model)
        origin = files.checked_origin(about)
        calibration = None
        if "sets" in about:
            from deciban.corollaries.conformal import Strangeness

            calibration = Strangeness.from_dict(about["sets"], len(model.classes))
        costs = mail_costs(about["parameters"], model.classes) if name == "SpamFilter" else None
        names = tuple(about.get("names") or ()) or None
        features = None if "n_features" not in about else int(about["n_features"])
        details: dict[str, Any] = {
            "names": names,
            "features": features,
            "costs": costs,
            "medians": saved.medians_of(about),
        }
    return Scorer(model, reader, name, origin, n_jobs, calibration_=calibration, **details)


def mail_costs(parameters: dict[str, Any], classes: Array) -> tuple[float, float, float]:
    """The costs of a spam let through, of an unsure answer, and of a ham lost."""
    costs = (float(parameters["false_negative"]), float(parameters["unsure"]), float(parameters["false_positive"]))
    if not all(0.0 <= cost < np.inf for cost in costs) or classes.tolist() != ["ham", "spam"]:
        raise FileError("it is not a filter of ham and spam")
    return costs


def mail_answers(proba: Floats, costs: tuple[float, float, float], learned: Floats) -> Array:
    """The answer of least expected cost, the first of (ham, unsure, spam) if tied; unsure until both were learned.

    `costs` are those of a spam let through, of an unsure answer, and of a ham lost.
    """
    if not learned.all():
        return np.full(len(proba), "unsure")
    let_through, unsure, lost = costs
    expected_costs = np.stack([proba[:, 1] * let_through, np.full(len(proba), unsure), proba[:, 0] * lost])
    return np.asarray(MAIL_ANSWERS[np.argmin(expected_costs, axis=0)])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scorer:
    """Predictions of a saved model: the same numbers as the estimator's, bit for bit.

    >>> import io
    >>> from deciban import BernoulliNB, read
    >>> file = io.BytesIO()
    >>> BernoulliNB().fit([[1], [0]], ["a", "b"]).save(file)
    >>> read(io.BytesIO(file.getvalue()))
    Scorer of a BernoulliNB, 2 classes, 2 rows learned
    """

    model: Any  # a Learner
    reader: Reader
    name: str = "Classifier"  # the estimator that was saved
    origin_: dict[str, Any] | None = None  # where its rows came from
    n_jobs: int | None = None
    calibration_: Strangeness | None = field(default=None, kw_only=True)  # how strange learned rows are
    names: tuple[str, ...] | None = field(default=None, kw_only=True)  # of columns, if they had any
    features: int | None = field(default=None, kw_only=True)  # how many columns
    costs: tuple[float, float, float] | None = field(default=None, kw_only=True)  # of a filter's answers
    medians: Array | None = field(default=None, kw_only=True)  # of a NearestCentroid that took them

    @property
    def classes_(self) -> Array:
        return np.asarray(self.model.classes)

    @property
    def class_count_(self) -> Floats:
        """The weight learned of each class."""
        return np.array(self.model.weight)

    def __repr__(self) -> str:
        return f"Scorer of a {self.name}, {len(self.classes_)} classes, {self.model.weight.sum():g} rows learned"

    def _rows(self, X: Any) -> Any:
        """Rows as the model reads them."""
        if len(self.classes_) == 0:
            raise DecibanError("the model has no classes: nothing was learned yet, or everything was forgotten")
        return self.reader.score(as_read(X, self.reader.form, self.names, self.features), self.model)

    def _scores(self, X: Any, how: str) -> Array:
        rows = self.model.single(X)
        if rows is None and self.reader.form == "any":
            from deciban.reading.given import single_row  # not needed otherwise

            X = single_row(X, self.names, self.features)
        return np.asarray(self.model.scores(self._rows(X) if rows is None else rows, how, self.n_jobs))

    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y | x), (n, k)."""
        return self._scores(X, "log_posterior")

    def predict_proba(self, X: Any, *, as_frame: bool = False) -> Any:
        """P(y | x), (n, k), columns in the order of `classes_`; as a data frame on request, as the estimator's."""
        proba = self._scores(X, "posterior")
        if not as_frame:
            return proba
        from deciban.reading.native import by_class  # not needed otherwise

        return by_class(proba, self.classes_, X)

    def predict(self, X: Any) -> Array:
        """The most probable class of every row; of a filter the answer that costs least, of centroids the nearest."""
        if self.costs is not None:
            return self.answers(self.predict_proba(X))
        if self.name == "NearestCentroid":
            from deciban.corollaries.nearest import nearest

            return np.asarray(self.classes_[nearest(self.model, self._rows(X).data, self.medians, self.n_jobs)])
        return np.asarray(self.classes_[self._scores(X, "best")])

    def answers(self, proba: Floats) -> Array:
        """The predictions for these class probabilities."""
        if self.costs is None:
            return np.asarray(self.classes_[np.argmax(proba, axis=1)])
        return mail_answers(proba, self.costs, self.class_count_)

    def decide(self, X: Any, costs: Any = None, reject: float | None = None) -> list[Any]:
        """The answers with the least expected cost; None if not answering, at the cost `reject`, is cheaper (S20).

        costs[i][j] is the cost of answering class j when i is true, in the order of `classes_`.
        """
        k = len(self.classes_)
        table = None if costs is None else np.asarray(costs, dtype=np.float64)
        if table is not None and (table.shape != (k, k) or not np.isfinite(table).all()):
            raise DecibanError(f"costs must be {k} by {k} finite numbers, truth by answer, got shape {table.shape}")
        chosen = bayes.decide(self.predict_proba(X), table, reject)
        return [None if c < 0 else plain(self.classes_[c]) for c in chosen]

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, by_class: bool = False, allow_empty: bool = True
    ) -> PredictionSets:
        """For every row the classes that cannot be ruled out, by the scores that `calibrate` stored with the model."""
        if self.calibration_ is None:
            raise DecibanError("the model has no stored scores: call calibrate(X, y) before saving it")
        from deciban.corollaries.conformal import stored_sets

        log_proba = self.predict_log_proba(X)
        return stored_sets(self.calibration_, self.classes_, log_proba, coverage, by_class, allow_empty)

    def explain(
        self, X: Any, target: Any = None, against: Any = None, by: str | None = None
    ) -> Evidence | list[Evidence]:
        """Evidence in dB for `target` over `against`: by default the most probable class over the second, or spam.

        One row may be given alone; `by` is "column", "word", "item" or "expert", as for estimators.
        """
        from deciban.reading.given import explained_row, single_text  # not needed to predict

        by = grouping(by, hasattr(self.model, "experts"))
        if self.reader.form == "texts":
            X = single_text(X, (self.origin_ or {}).get("text"))
        else:
            X = explained_row(X, self.model, self.names, self.features)
        rows = self._rows(X)
        target_code, against_code = (None if label is None else self._place(label) for label in (target, against))
        target_code = (
            1 if self.costs is not None and target_code is None and against_code is None else target_code
        )  # always spam
        out: list[Evidence] = self.model.explain_each(rows, target_code, against_code, by=by)
        if not out:
            what = "text" if self.reader.form == "texts" else "row"
            raise DecibanError(f"there is no {what} to explain: X is empty")
        return out[0] if len(out) == 1 else out

    def verdict(self, X: Any, proba: Floats, name: str, version: int | None = None, most: int = 5) -> Verdict:
        """What a filter writes into one mail, X being a list of it and `proba` its class probabilities, (1, k)."""
        from deciban.text.mail.verdict import Verdict

        label = plain(self.answers(proba)[0])
        classes = self.classes_.tolist()
        target = classes.index("spam") if "spam" in classes else int(np.argmax(proba[0]))
        others = np.delete(np.arange(len(classes)), target)
        evidence: list[tuple[str, float]] = []
        if most and len(others):
            against = int(others[np.argmax(proba[0, others])])
            evidence = self.model.strongest_items(self._rows(X), target, against, most)
        p, rest = float(proba[0, target]), float(proba[0, others].sum())
        with np.errstate(divide="ignore"):
            decibans = float(np.clip((np.log(p) - np.log(rest)) * bayes.DECIBANS, -MAX_DECIBANS, MAX_DECIBANS))
        return Verdict(str(label), p, decibans, name, version, tuple(evidence))

    def top_evidence(self, n: int = 10) -> Table:
        """The strongest evidence for each class against the others, item by item, in decibans."""
        table: Table = self.model.strongest_table(n)
        return table

    def importance(self, X: Any = None, y: Any = None, *, learned: bool = False) -> Importance:
        """What decides: the evidence of every column or word on average over rows, by default as stored by `fit`.

        With rows and their labels, it is computed on (some of) these, taken out of the sums if the model has `learned`
        them.
        """
        from deciban.corollaries.importance import importance_of, stored_importance

        if X is None:
            return stored_importance(self.model)
        codes = np.array([-1 if label is None or label != label else self._place(label) for label in y], dtype=np.int32)
        if learned and self.model.why_inexact:
            raise DecibanError(f"{self.model.why_inexact}, and no row can be left out")
        return importance_of(self.model, self._rows(X), codes, None, learned)

    def summary(self) -> Summary:
        """What a `Classifier` chose and why."""
        if self.name != "Classifier":
            raise DecibanError(f"a {self.name} has no summary: it has no experts")
        from deciban.tables import views

        return views.summary(self.model)

    def _place(self, label: Any) -> int:
        names = [str(plain(known)) for known in self.classes_]
        if label in names and not np.any(self.classes_ == label):  # from a command line, every label is a string
            return names.index(label)
        return int(self.model.code_of(label))


def as_read(X: Any, form: str, names: tuple[str, ...] | None, features: int | None) -> Any:
    """Rows of any type in the form that a reader takes; columns by name if they have names."""
    if form in ("any", "texts") or features is None:
        return X
    from deciban.reading.frames import Frame, no_such_column, read_frame

    if form == "table" and names is not None:
        return read_frame(X)
    if not is_plain_matrix(X):
        frame = read_frame(X)
        if names is not None and set(names) <= set(frame.names):
            frame = frame.select(names)
    elif form in ("table", "tree"):
        frame = read_frame(X)
    else:
        rows = X if issparse(X) else np.asarray(X, dtype=object if form == "objects" and is_mixed(X) else None)
        if rows.ndim != 2 or rows.shape[1] != features:
            raise DecibanError(f"X has shape {rows.shape}, but the model is expecting rows of {features} features")
        return rows.astype(np.float64) if form == "matrix" and rows.dtype.kind not in "biuf" else rows
    if len(frame.columns) != features:
        absent = [] if names is None or is_plain_matrix(X) else [name for name in names if name not in frame.names]
        if absent:
            raise no_such_column(absent[0], frame.names)
        raise DecibanError(f"X has {len(frame.columns)} features, but the model is expecting {features}")
    column_names = names or tuple(f"x{j}" for j in range(features))
    frame = Frame(column_names, frame.columns, frame.size, frame.notes)
    if form in ("table", "tree"):
        return frame
    from deciban.reading.native import as_array

    rows = as_array(frame.columns)
    return rows.astype(np.float64) if form == "matrix" else rows


def is_plain_matrix(X: Any) -> bool:
    """Rows without names."""
    if issparse(X):
        return True
    if isinstance(X, np.ndarray):
        return X.dtype.names is None
    return isinstance(X, list | tuple) and not any(isinstance(row, dict) for row in X[:1])


def is_mixed(X: Any) -> bool:
    """Whether NumPy would turn numbers into strings."""
    return not isinstance(X, np.ndarray) and any(isinstance(value, str) for row in X for value in row)
