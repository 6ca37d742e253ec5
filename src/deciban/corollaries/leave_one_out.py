"""Exact leave-one-out: subtract T(x_i), predict x_i. No refit, at about the cost of predicting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deciban import collect, score
from deciban._typing import Array, Data, Floats, Labels
from deciban.corollaries.forget import subtract
from deciban.errors import ForgetError
from deciban.families import Family
from deciban.joint import Model
from deciban.matrix import marks
from deciban.measure import RESIDUE
from deciban.pool import Folds, distinct_marks
from deciban.priors import search
from deciban.results.evaluation import ONE_CLASS, Judged, average, likeliest
from deciban.results.ways import CROSS_FITTED, EXACT, HELD
from deciban.show import Table

MAX_COMPARED_ROWS = 2000  # a log loss averaged over this many rows is enough to compare candidates
MAX_ROWS_WITHOUT_DOWNDATES = 200  # if every row needs an estimate of its own


CANNOT_LEAVE_OUT = (
    "no row can be left out exactly: to evaluate the model, hold out labelled rows, or fit on labelled rows only"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaveOneOut(Judged):
    """Every row's posterior under the model that never saw it.

    `how` is the method: "leave-one-out" if the model consists of sums only; "cross-fitted leave-one-out" if something
    was chosen (strengths, shapes, weights), also without the row; "leave-one-out, choices held" if the row had a part
    in the choice.

    Without a row its class has a smaller share, so the class shares without it are evidence against the row's label:
    if little else is known, rows would be ranked upside down. So AUC and calibration use the class shares of all
    rows, as for a new row. So do predictions if evidence is pooled, and may have no weight, and classes are of equal
    size: otherwise each row would be assigned to another class. Probabilities and log loss are those without the row.

    Rows that are `alone` in their class are not evaluated: without them, the class is unknown. They do not count in any
    measure; their share is about that of new rows of unseen classes (Good and Turing). It prints a summary;
    `details()` shows all that an `Evaluation` does.

    >>> from sklearn.datasets import load_iris
    >>> from deciban import LinearDiscriminantAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> result = LinearDiscriminantAnalysis().fit(X, y).leave_one_out(X, y)
    >>> result.how, round(result.accuracy, 2), result.confusion.astype(int).tolist()
    ('leave-one-out', 0.98, [[50, 0, 0], [0, 48, 2], [0, 1, 49]])
    """

    alone: Array | None = None  # (n,) bool
    way: str = EXACT
    learned: Floats | None = None  # (k,) weight of each class, if the prior is its share
    pooled: bool = False

    @property
    def how(self) -> str:
        return self.way

    @property
    def _weights(self) -> Floats:
        return self._removed if self.alone is None else np.where(self.alone, 0.0, self._removed)

    @property
    def _answers(self) -> Array:
        literal = not self.pooled or self.learned is None or not of_one_size(self.learned, self.weight)
        return likeliest(self.log_proba if literal else self._comparable)

    @property
    def _comparable(self) -> Floats:
        """With the class shares of all rows."""
        if self.learned is None:
            return self.log_proba
        out, rows, remaining = self.log_proba.copy(), np.arange(len(self.truth)), self._remaining
        has_rest = remaining > 0
        out[rows[has_rest], self.truth[has_rest]] += np.log(self.learned[self.truth[has_rest]] / remaining[has_rest])
        possible = self._answered
        out[possible] -= np.logaddexp.reduce(out[possible], axis=1, keepdims=True)
        return np.asarray(
            np.round(out, 10)
        )  # the correction is only that accurate: without rounding, ties would be lost

    @property
    def _remaining(self) -> Floats:
        """The weight of each row's class without it, (n,); 0 if that is only rounding."""
        assert self.learned is not None
        own = self.learned[self.truth]
        remaining = own - self._removed
        return np.asarray(np.where(remaining > own * RESIDUE, remaining, 0.0))

    @property
    def _removed(self) -> Floats:
        """The weight that each row takes out, (n,)."""
        return np.ones(len(self.truth)) if self.weight is None else self.weight

    @property
    def baseline(self) -> float:
        """The log loss of predicting the class shares, for each row those without it."""
        if self.learned is None:
            return self._in_sample_baseline
        total = self.learned.sum() - self._removed
        counted, remaining = self.counted, self._remaining
        with np.errstate(divide="ignore", invalid="ignore"):  # rows alone in their class do not count
            losses = np.abs(np.log(remaining / total))
        return average(losses[counted], self._weights[counted])

    def to_table(self) -> Table:
        rows = [("accuracy", self.accuracy), ("log_loss", self.log_loss)] if self.evaluated_rows else []
        return Table(
            f"{self.how} over {self.evaluated_rows} row{'s' * (self.evaluated_rows != 1)}", ("measure", "value"), rows
        )

    @property
    def note(self) -> str:
        """What these rows cannot show, in a sentence; empty if nothing."""
        if len(self.classes) == 1 and len(self.truth):
            return ONE_CLASS
        some = self._removed > 0
        alone = 0 if self.alone is None else int((self.alone & some).sum())
        if not alone:
            return ""
        if not self.evaluated_rows:
            return "No class has two rows, so the model cannot be evaluated."
        return alone_in_their_class(alone, int(some.sum()))

    def to_dict(self) -> dict[str, Any]:
        n = self.evaluated_rows
        return {
            **Judged.to_dict(self),
            "evaluated_rows": n,
            "judged_rows": n,
            "note": self.note or None,
        }  # the old key too

    def _all_parts(self) -> list[Table | str]:
        if len(self.classes) == 1 or (self.note and not self.evaluated_rows):
            return self._parts()
        return [*Judged._all_parts(self), *self._note()]

    def _parts(self) -> list[Table | str]:
        has_figures = len(self.classes) != 1 and (self.evaluated_rows or not self.note)
        return [*([self.to_table()] if has_figures else []), *self._note()]

    def _note(self) -> list[Table | str]:
        return [self.note] if self.note else []


def leave_one_out(
    model: Model, data: Data, y: Labels, weight: Floats | None = None, n_jobs: int | None = None
) -> LeaveOneOut:
    """Posterior of every row without itself. The rows must be among those the model learned.

    For a row so extreme that rounding may hide the sums without it, its class's other rows are learned again; if not
    all of them are given, the row is forgotten; if that is not possible either, its posterior is NaN.
    """
    log_proba = score.leave_one_out(data, model, y, weight, n_jobs)
    for i in rows_in_doubt(log_proba):
        log_proba[i] = learned_anew(model, data, y, weight, i)
    total = float(model.stats.weight.sum())
    last = total - (1.0 if weight is None else weight) <= total * RESIDUE
    if np.any(last) and not model.schema.closed:  # without the only row there is no class at all
        log_proba[np.broadcast_to(last, len(log_proba))] = -np.inf
    alone = alone_in_class(model.stats.weight, y, weight)
    learned = shares_of(model.joint.class_prior, model.stats.weight)
    return LeaveOneOut(model.classes, log_proba, y, weight, alone, EXACT, learned)


def cross_fitted(
    model: Model,
    choose: Callable[[Data, Labels, Floats | None], Model],
    data: Data,
    y: Labels,
    weight: Floats | None = None,
    n_jobs: int | None = None,
) -> LeaveOneOut:
    """The same for a model with choices: every fold of the rows under the choices made on the other folds.

    The rows are all that the model has learned. `choose(rows)` returns a model with the distribution chosen on these
    rows alone, and with the sums of all rows under that distribution.
    """
    mark = distinct_marks(marks(data), y)
    there = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    fold = Folds.of(mark[there], y[there], len(model.classes)).which(mark, y)
    out = np.empty((len(y), len(model.classes)))
    for f in np.unique(fold):
        mine, rest = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        held = choose([X[rest] for X in data], y[rest], None if weight is None else weight[rest])
        some = [X[mine] for X in data], y[mine], None if weight is None else weight[mine]
        out[mine] = leave_one_out(held, *some, n_jobs).log_proba
        for i in rows_in_doubt(out[mine]):
            out[mine[i]] = learned_anew(held, data, y, weight, int(mine[i]))
    alone = alone_in_class(model.stats.weight, y, weight)
    learned = shares_of(model.joint.class_prior, model.stats.weight)
    return LeaveOneOut(model.classes, out, y, weight, alone, CROSS_FITTED, learned)


def shares_of(prior: str | Floats, weight: Floats) -> Floats | None:
    """The class weights, if the class prior is their shares; None if it does not depend on rows."""
    return weight if isinstance(prior, str) and prior == "empirical" else None


def merged(parts: Sequence[LeaveOneOut]) -> LeaveOneOut:
    """The results of several batches of rows as one."""
    ways = {part.way for part in parts}
    arrays: dict[str, Any] = {}
    for name in ("log_proba", "truth", "weight", "alone"):
        each = [getattr(part, name) for part in parts]
        arrays[name] = None if any(part is None for part in each) else np.concatenate(each)
    way = ways.pop() if len(ways) == 1 else HELD
    return LeaveOneOut(parts[0].classes, **arrays, way=way, learned=parts[0].learned, pooled=parts[0].pooled)


def of_one_size(learned: Floats, weight: Floats | None) -> bool:
    """Whether the class weights differ by no more than one row, so that a single row decides which is largest."""
    most = 1.0 if weight is None else float(weight.max(initial=0.0))
    return bool(len(learned)) and float(np.ptp(learned)) <= most * (1.0 + RESIDUE)


def alone_in_class(learned: Floats, y: Array, weight: Floats | None) -> Array:
    """Which rows are the only ones of their class, (n,)."""
    return np.asarray(learned[y] <= (1.0 if weight is None else weight) * (1.0 + RESIDUE))


def rows_in_doubt(log_proba: Floats) -> list[int]:
    """Rows that are NaN. A minimum is NaN if any value is, so that one pass is enough if there are none."""
    return np.flatnonzero(np.isnan(log_proba).any(axis=1)).tolist() if np.isnan(log_proba.min(initial=0.0)) else []


def learned_anew(model: Model, data: Data, y: Labels, weight: Floats | None, row: int) -> Floats:
    """A row's posterior with its class's other rows learned again, or with the row forgotten; NaN if neither works."""
    without = score.learned_without(data, model, y, weight, row) or forgotten(data, model, y, weight, row)
    if without is None:
        return np.full(len(model.classes), np.nan)
    return np.asarray(score.apply([X[row : row + 1] for X in data], without, "log_posterior", 1)[0])


def forgotten(data: Data, model: Model, y: Labels, weight: Floats | None, row: int) -> Model | None:
    """The model without one row; None if rounding hides what is left of its sums."""
    rows = slice(row, row + 1)
    each = None if weight is None else weight[rows]
    part = collect.collect([X[rows] for X in data], model.joint, model.schema, y[rows], each, 1)
    try:
        return Model(model.joint, subtract(model, part))
    except ForgetError:
        return None


def best_alpha(model: Model, data: Data, y: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> float:
    """The prior strength with the least exact leave-one-out log loss.

    Rows whose class has no other row are left out of the comparison, since no prior helps them, and so are rows without
    which the sums are lost in rounding.
    """
    if not model.joint.blocks[0].family.downdates(1.0):
        rows = random_subset(np.arange(len(y)), MAX_ROWS_WITHOUT_DOWNDATES)
        data, y, weight = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]

    def loss(alpha: float) -> float:
        result = leave_one_out(model.with_joint(model.joint.with_alpha(alpha)), data, y, weight, n_jobs)
        return average(result.log_losses, np.where(np.isnan(result.log_losses), 0.0, result._weights))

    return search(loss, tolerance=1e-3)


def random_subset(rows: Array, most: int) -> Array:
    """At most `most` of the rows, at random with a fixed seed."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def best_family(
    model: Model,
    candidates: list[Family],
    data: Data,
    y: Labels,
    weight: Floats | None = None,
    criterion: str = "log_loss",
    n_jobs: int | None = None,
) -> Family:
    """The family with the least exact leave-one-out log loss over at most MAX_COMPARED_ROWS rows; the first of equals.

    With `criterion` "accuracy", the most accurate one, and among equally accurate ones that with the least log loss.

    Every candidate uses the same sums. A candidate under which some class has a singular covariance is skipped unless
    all are singular: it would be repaired, not chosen. Rows whose class has no other row are left out, since no
    candidate helps them. So are rows without which the sums are lost in rounding.
    """
    rows = np.flatnonzero(model.stats.weight[y] > (1.0 if weight is None else weight) * (1.0 + RESIDUE))
    quick = all(family.downdates(model.alpha()) for family in candidates)
    rows = random_subset(rows, MAX_COMPARED_ROWS if quick else MAX_ROWS_WITHOUT_DOWNDATES)
    part, codes, w = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]
    if len(rows) == 0:
        return candidates[-1]
    models = [
        model.with_joint(replace(model.joint, blocks=(replace(model.joint.blocks[0], family=family),)))
        for family in candidates
    ]
    usable = [m for m in models if not getattr(m.params[0].repairs, "helped", ())] or models[-1:]
    results = [leave_one_out(m, part, codes, w, n_jobs) for m in usable]
    known = ~np.isnan([result.log_losses for result in results]).any(axis=0)
    results = [replace(result, log_proba=result.log_proba[known], truth=codes[known]) for result in results]
    if w is not None:
        results = [replace(result, weight=w[known]) for result in results]
    losses = [result.log_loss if np.isfinite(result.log_loss) else np.inf for result in results]
    errors = [0.0 if criterion == "log_loss" else 1.0 - result.accuracy for result in results]
    return min(zip(errors, losses, range(len(usable)), usable, strict=True))[3].joint.blocks[0].family


def alone_in_their_class(alone: int, rows: int) -> str:
    """What rows that are the only ones of their class mean for the others."""
    share = 100 * alone / max(1, rows)
    return (
        f"{'1 row is' if alone == 1 else f'{alone} rows are'} alone in {'its' if alone == 1 else 'their'} class and "
        f"cannot be evaluated; about {share:.{0 if share >= 1 else 1}f} % of new rows may be of classes never seen."
    )


def class_frequencies(count: Floats) -> tuple[float, float]:
    """The log loss and the accuracy of predicting the class frequencies alone, if each row is left out of them.

    Rows that are alone in their class cannot be evaluated. If weights are not whole numbers, frequencies are those of
    all rows.
    """
    count = np.asarray(count, dtype=np.float64)
    count, left_out = count[count > 0], float((count % 1 == 0).all())
    some = count[count > left_out]
    if not len(some):
        return math.nan, math.nan
    losses = np.log((count.sum() - left_out) / (some - left_out))
    return float(some @ losses / some.sum()), float(some.max() / some.sum())
