"""A saved model of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deciban._typing import Floats
from deciban.results.evidence import Evidence
from deciban.results.summary import Summary
from deciban.scorer.base import Scorer
from deciban.tables import views
from deciban.tables.model import TableModel


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableScorer(Scorer):
    """A saved `Classifier`."""

    model: TableModel

    def _log_joint(self, X: Any) -> Floats:
        return self.model.log_joint(self.model.read(X), self.n_jobs)

    def _explained(self, X: Any, target: int | None, against: int | None) -> list[Evidence]:
        return self._explained_by("column", X, target, against)

    def _explained_by(self, by: str, X: Any, target: int | None, against: int | None) -> list[Evidence]:
        frame = self.model.read(X)
        return [views.explain(self.model, frame.take([i]), target, against, by) for i in range(frame.size)]

    def explain_experts(self, X: Any, target: Any = None, against: Any = None) -> Evidence:
        """Why, by what each expert made of one row."""
        one, two = (None if label is None else self._place(label) for label in (target, against))
        return self._explained_by("expert", X, one, two)[0]

    def _strongest(self, n: int) -> list[tuple[int, str, float]]:
        return views.strongest(self.model, n)

    def summary(self) -> Summary:
        """What was chosen and why."""
        return views.summary(self.model)
