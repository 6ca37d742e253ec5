"""How good a model is on more rows than fit in memory: the measures of `Judged` as sums that add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deciban._typing import Array, Floats
from deciban.results.evaluation import Judged
from deciban.results.ways import HELD
from deciban.schema import find, union_classes
from deciban.show import Result, Table, plain


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tally(Result):
    """Labelled rows, counted by a model's predictions.

    `confusion[i, j]` is the weight of rows of class i predicted as j; rows without any possible class are not counted.

    >>> import sqlite3, deciban
    >>> shop = sqlite3.connect(":memory:")
    >>> _ = shop.execute("CREATE TABLE orders (price REAL, returned TEXT)")
    >>> _ = shop.executemany("INSERT INTO orders VALUES (?, ?)", [(20, "no"), (95, "yes"), (15, "no"), (80, "yes")])
    >>> orders = deciban.table(shop, "orders")
    >>> tally = deciban.NaiveBayes().fit(orders, "returned").leave_one_out(orders, "returned")
    >>> tally.rows, tally.confusion.tolist()
    (4.0, [[2.0, 0.0], [0.0, 2.0]])
    """

    classes: Array
    rows: float  # a sum of weights, like all numbers here
    right: float
    loss: float  # Σ −log P(true class), over rows whose class has positive probability
    impossible: float  # rows whose class has probability 0
    brier_sum: float
    confusion: Floats  # (k, k)
    alone: float = 0.0  # rows that are the only one of their class, and were not evaluated
    how: str = ""  # the method by which they were evaluated

    @classmethod
    def of(cls, judged: Judged) -> Tally:
        """The tally of rows in memory."""
        k, weight = len(judged.classes), judged._weights
        losses, answered = judged.log_losses, judged._answered
        possible = np.isfinite(losses)
        confusion = np.zeros((k, k))
        np.add.at(confusion, (judged.truth[answered], judged._answers[answered]), weight[answered])
        errors = judged.proba.copy()
        errors[np.arange(len(errors)), judged.truth] -= 1.0
        return cls(
            judged.classes,
            float(weight.sum()),
            float(weight[judged.right].sum()),
            float(losses[possible] @ weight[possible]),
            float(weight[~possible].sum()),
            float((errors**2).sum(axis=1) @ weight),
            confusion,
            float((np.ones(len(weight)) if judged.weight is None else judged.weight).sum() - weight.sum()),
            judged.how,
        )

    def __add__(self, other: Tally) -> Tally:
        classes = union_classes(self.classes, other.classes)
        confusion = np.zeros((len(classes), len(classes)))
        for part in (self, other):
            at = find(part.classes, classes)
            confusion[np.ix_(at, at)] += part.confusion
        return Tally(
            classes,
            self.rows + other.rows,
            self.right + other.right,
            self.loss + other.loss,
            self.impossible + other.impossible,
            self.brier_sum + other.brier_sum,
            confusion,
            self.alone + other.alone,
            self.how if self.how == other.how or not other.rows else other.how if not self.rows else HELD,
        )

    @property
    def accuracy(self) -> float:
        """The share of rows that are predicted correctly."""
        return self.right / self.rows if self.rows else float("nan")

    @property
    def log_loss(self) -> float:
        """The mean of −log P(true class), in nats; infinite if some true class had probability 0."""
        if not self.rows:
            return float("nan")
        return float("inf") if self.impossible else self.loss / self.rows

    @property
    def brier(self) -> float:
        """The mean of Σ_y (P(y) − 1[y is true])²."""
        return self.brier_sum / self.rows if self.rows else float("nan")

    def to_table(self) -> Table:
        rows = [("accuracy", self.accuracy), ("log_loss", self.log_loss), ("brier", self.brier)]
        if self.impossible:
            rows.append(("impossible", self.impossible))
        if self.alone:
            rows.append(("only row of their class, not evaluated", self.alone))
        title = f"{self.how} over {self.rows:,.10g} rows" if self.how else f"{self.rows:,.10g} rows"
        return Table(title, ("measure", "value"), rows)

    def confusions(self) -> Table:
        """The confusion matrix: a row per true class, a column per prediction."""
        names = [str(plain(c)) for c in self.classes]
        rows = [(name, *row) for name, row in zip(names, self.confusion.tolist(), strict=True)]
        return Table("confusions", ("true", *names), rows)
