"""A saved model to score with, where scikit-learn is not wanted: a service, a command line, a small container.

`deciban.load` gives back the estimator, which goes on learning; this gives its model, which only answers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from deciban import bayes, files
from deciban._typing import Array, Floats
from deciban.corollaries.explain import Evidence
from deciban.corollaries.summary import Summary
from deciban.errors import DecibanError, FileError
from deciban.show import plain
from deciban.tables import files as table_files
from deciban.tables import speak
from deciban.tables.model import TableModel
from deciban.text import files as text_files
from deciban.text.documents import as_texts, batches
from deciban.text.graded import Graded
from deciban.text.plain import Plain


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scorer:
    """What a saved `Classifier` or `TextClassifier` answers: the same numbers, bit for bit."""

    model: TableModel | Graded | Plain
    lowercase: bool = True  # how texts were read
    n_jobs: int | None = None

    @property
    def classes_(self) -> Array:
        return self.model.classes

    def __repr__(self) -> str:
        what = "table" if isinstance(self.model, TableModel) else "text"
        return f"Scorer of a {what}, {len(self.classes_)} classes, {self.model.weight.sum():g} rows learned"

    def _log_joint(self, X: Any) -> Floats:
        if isinstance(self.model, TableModel):
            return self.model.log_joint(self.model.read(X), self.n_jobs)
        return self.model.log_joint(batches(X, self.lowercase), self.n_jobs)

    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y | x), (n, k)."""
        return bayes.posterior(self._log_joint(X), self.model.log_prior, logs=True)

    def predict_proba(self, X: Any) -> Floats:
        """P(y | x), (n, k), columns in the order of `classes_`."""
        return bayes.posterior(self._log_joint(X), self.model.log_prior)

    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        return np.asarray(self.classes_[np.argmax(self._log_joint(X), axis=1)])

    def decide(self, X: Any, costs: Any = None, reject: float | None = None) -> list[Any]:
        """The answers with the least expected cost; None where not answering, at the cost `reject`, is cheaper (S20).

        costs[i][j] is the cost of answering class j when i is true, in the order of `classes_`.
        """
        k = len(self.classes_)
        table = None if costs is None else np.asarray(costs, dtype=np.float64)
        if table is not None and (table.shape != (k, k) or not np.isfinite(table).all()):
            raise DecibanError(f"costs must be {k} by {k} finite numbers, truth by answer, got shape {table.shape}")
        chosen = bayes.decide(self.predict_proba(X), table, reject)
        return [None if c < 0 else plain(self.classes_[c]) for c in chosen]

    def explain(self, X: Any, target: Any = None, against: Any = None) -> Evidence | list[Evidence]:
        """Why, in decibans, for `target` over `against`, or the likeliest class over the next."""
        one, two = (None if label is None else self._place(label) for label in (target, against))
        if isinstance(self.model, TableModel):
            frame = self.model.read(X)
            out = [speak.explain(self.model, frame.take([i]), one, two) for i in range(frame.size)]
        else:
            texts = [X] if isinstance(X, str) else list(as_texts(X))
            out = [self.model.explain(str(text), one, two, self.lowercase) for text in texts]
        if not out:
            raise DecibanError("there is no row to explain")
        return out[0] if len(out) == 1 else out

    def summary(self) -> Summary:
        """What a table's model chose and why."""
        if not isinstance(self.model, TableModel):
            raise DecibanError("a text model has no summary: its reliabilities are in deciban.load(path).reliability_")
        return speak.summary(self.model)

    def _place(self, label: Any) -> int:
        where = np.flatnonzero(self.classes_ == label)
        if len(where) == 0:
            raise DecibanError(f"{label!r} is not one of the classes {[plain(c) for c in self.classes_]}")
        return int(where[0])


def read(path: str | os.PathLike[str], n_jobs: int | None = None) -> Scorer:
    """Read a `Classifier` or `TextClassifier` that `save` wrote, to score with; scikit-learn is not imported.

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
    with files.damage(path):
        if name == "Classifier":
            return Scorer(table_files.rebuild(document, tensors), n_jobs=n_jobs)
        if name == "TextClassifier":
            lowercase = bool(about["parameters"]["lowercase"])
            return Scorer(text_files.rebuild(document, tensors), lowercase, n_jobs)
    raise FileError(f"{os.fspath(path)!r} holds a model {name!r}: read it with deciban.load, as an estimator")
