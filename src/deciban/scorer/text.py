"""A saved model of texts, or of mail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deciban._typing import Array, Floats
from deciban.errors import FileError
from deciban.results.evidence import Evidence
from deciban.scorer.base import Scorer
from deciban.text.documents import as_texts, batches

if TYPE_CHECKING:
    from deciban.text.graded import Graded
    from deciban.text.plain import Plain  # few models are plain, and much comes with it


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextScorer(Scorer):
    """A saved `TextClassifier`."""

    model: Graded | Plain
    lowercase: bool = True  # how texts were read

    def _log_joint(self, X: Any) -> Floats:
        return self.model.log_joint(batches(X, self.lowercase), self.n_jobs)

    def _explained(self, X: Any, target: int | None, against: int | None) -> list[Evidence]:
        texts = [X] if isinstance(X, str) else list(as_texts(X))
        return [self.model.explain(str(text), target, against, self.lowercase) for text in texts]

    def _strongest(self, n: int) -> list[tuple[int, str, float]]:
        return [(c, word, db) for c in range(len(self.classes_)) for word, db in self.model.top_words(c, n)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MailScorer(TextScorer):
    """A saved `SpamFilter`: mails are raw messages, and the answers ham, unsure or spam, whichever costs least."""

    costs: tuple[float, float, float] = (1.0, 0.2, 20.0)  # of a spam let through, of not knowing, of a ham lost
    headers: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, model: Graded | Plain, origin: dict[str, Any] | None, n_jobs: int | None, said: Mapping[str, Any]
    ) -> MailScorer:
        costs = (float(said["false_negative"]), float(said["unsure"]), float(said["false_positive"]))
        if not all(0.0 <= cost < np.inf for cost in costs) or model.classes.tolist() != ["ham", "spam"]:
            raise FileError("it is not a filter of ham and spam")
        headers = None if said["headers"] is None else tuple(map(str, said["headers"]))
        return cls(model, "SpamFilter", origin, n_jobs, True, costs, headers)

    def _log_joint(self, X: Any) -> Floats:
        return self.model.log_joint(batches(self._texts(X), self.lowercase), self.n_jobs)

    def _explained(self, X: Any, target: int | None, against: int | None) -> list[Evidence]:
        target = 1 if target is None and against is None else target  # spam, whatever comes of it
        return [self.model.explain(text, target, against, self.lowercase) for text in self._texts(X)]

    def _texts(self, X: Any) -> list[str]:
        from deciban.text import mail

        mails = [X] if isinstance(X, str | bytes) else list(as_texts(X))
        return [mail.read(raw, self.headers).text for raw in mails]

    def answers(self, proba: Floats) -> Array:
        if not self.class_count_.all():
            return np.full(len(proba), "unsure")
        let_through, unsure, lost = self.costs
        costs = np.stack([proba[:, 1] * let_through, np.full(len(proba), unsure), proba[:, 0] * lost])
        return np.asarray(np.array(["ham", "unsure", "spam"])[np.argmin(costs, axis=0)])
