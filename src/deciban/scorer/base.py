"""What every scorer answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deciban import bayes
from deciban._typing import Array, Floats
from deciban.errors import DecibanError
from deciban.results.evidence import Evidence
from deciban.show import Table, plain

if TYPE_CHECKING:
    from deciban.corollaries.conformal import PredictionSets, Strangeness  # few ask for sets


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scorer(ABC):
    """What a saved model answers: the same numbers as the estimator's, bit for bit."""

    model: Any  # of a table or of texts: it has classes, their weight and a prior
    name: str = "Classifier"  # the estimator that was saved
    origin_: dict[str, Any] | None = None  # where its rows came from
    n_jobs: int | None = None
    calibration_: Strangeness | None = field(default=None, kw_only=True)  # how strange learned rows are

    @property
    def classes_(self) -> Array:
        return np.asarray(self.model.classes)

    @property
    def class_count_(self) -> Floats:
        """How much was learned of each class."""
        return np.array(self.model.weight)

    def __repr__(self) -> str:
        return f"Scorer of a {self.name}, {len(self.classes_)} classes, {self.model.weight.sum():g} rows learned"

    @abstractmethod
    def _log_joint(self, X: Any) -> Floats:
        """log p(x, y) of rows, (n, k), up to what all classes share."""

    def predict_log_proba(self, X: Any) -> Floats:
        """log P(y | x), (n, k)."""
        self._check_classes()
        return bayes.posterior(self._log_joint(X), self.model.log_prior, logs=True)

    def predict_proba(self, X: Any) -> Floats:
        """P(y | x), (n, k), columns in the order of `classes_`."""
        self._check_classes()
        return bayes.posterior(self._log_joint(X), self.model.log_prior)

    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        return self.answers(self.predict_proba(X))

    def answers(self, proba: Floats) -> Array:
        """What is predicted where the classes have these probabilities."""
        return np.asarray(self.classes_[np.argmax(proba, axis=1)])

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

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, by_class: bool = False, allow_empty: bool = True
    ) -> PredictionSets:
        """For every row the classes that cannot be ruled out, by the scores that `calibrate` stored with the model."""
        if self.calibration_ is None:
            raise DecibanError("the model has no scores to go by: store them with calibrate(X, y) before it is saved")
        from deciban.corollaries.conformal import stored_sets

        log_proba = self.predict_log_proba(X)
        return stored_sets(self.calibration_, self.classes_, log_proba, coverage, by_class, allow_empty)

    def explain(self, X: Any, target: Any = None, against: Any = None) -> Evidence | list[Evidence]:
        """Why, in decibans, for `target` over `against`, or the likeliest class over the next."""
        self._check_classes()
        out = self._explained(X, *(None if label is None else self._place(label) for label in (target, against)))
        if not out:
            raise DecibanError("there is no row to explain")
        return out[0] if len(out) == 1 else out

    @abstractmethod
    def _explained(self, X: Any, target: int | None, against: int | None) -> list[Evidence]:
        """What speaks for one class and against another, a row each."""

    def top_evidence(self, n: int = 10) -> Table:
        """What speaks most for each class against the others, by itself, in decibans."""
        self._check_classes()
        rows = [(plain(self.classes_[c]), item, db) for c, item, db in self._strongest(n)]
        return Table("strongest evidence for each class", ("class", "item", "dB"), rows)

    @abstractmethod
    def _strongest(self, n: int) -> list[tuple[int, str, float]]:
        """(class, item, dB) of what speaks most for each class."""

    def _check_classes(self) -> None:
        if len(self.classes_) == 0:
            raise DecibanError("the model has no classes: nothing was learned yet, or everything was forgotten")

    def _place(self, label: Any) -> int:
        where = np.flatnonzero(self.classes_ == label)
        if len(where) == 0:  # from a command line, every label comes as a string
            where = np.flatnonzero([str(plain(known)) == label for known in self.classes_])
        if len(where) == 0:
            raise DecibanError(f"{label!r} is not one of the classes {[plain(c) for c in self.classes_]}")
        return int(where[0])
