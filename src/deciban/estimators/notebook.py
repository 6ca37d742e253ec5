"""What a fitted estimator has learned, which notebooks show below scikit-learn's diagram of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deciban.results.summary import Summary
from deciban.show import Result, Table, plain

MAX_CLASSES = 10  # of the table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedView(Result):
    """Rows, classes and columns; how good it is on left-out rows, and what decides, if that is stored."""

    estimator: Any

    def to_table(self) -> Table:
        """The classes and their rows, the largest first."""
        counts, labels = self.estimator.class_count_, self.estimator.classes_
        total = float(counts.sum())
        rows = [
            (plain(label), f"{n:g}", f"{100 * n / total:.1f} %") for label, n in zip(labels, counts, strict=True) if n
        ]
        rows.sort(key=lambda row: -float(row[1]))
        return Table("", ("class", "rows", "share"), rows, MAX_CLASSES, right=("rows", "share"))

    def _parts(self) -> Sequence[Table | str]:
        model, learner = self.estimator, self.estimator.model_
        summarise = getattr(model, "summary", None)
        summary = summarise() if callable(summarise) else None
        stored = getattr(learner, "stored_importance", None)
        table = self.to_table()
        importance = [] if stored is None else stored.brief()
        if isinstance(summary, Summary):
            return [summary._heading(), table, *importance]
        n, k = float(model.class_count_.sum()), len(table.rows)
        size = f" of {model.n_features_in_:,} columns" if hasattr(model, "n_features_in_") else ""
        heading = f"{type(model).__name__}: {n:,.10g} row{'s' * (n != 1)}{size}, {k} class{'es' * (k != 1)}."
        return [heading, table, *importance]
