"""Exact leave-one-out: subtract T(x_i), predict x_i. No refit, about the cost of predicting."""

from __future__ import annotations

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
from deciban.pool import Folds
from deciban.priors import search
from deciban.results.evaluation import CROSS_FITTED, EXACT, HELD, Judged, average, likeliest
from deciban.show import Table

ENOUGH = 2000  # rows: a log loss averaged over so many tells candidates apart
FEW = 200  # where every row costs an estimate of its own


NO_WAY = (
    "no row can be taken out exactly; to see how good the model is, hold rows with labels out, or fit another on those "
    "with labels alone"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaveOneOut(Judged):
    """Every row's posterior under the model that never saw it.

    `how` is the way: "leave-one-out" where the model is nothing but sums; "cross-fitted leave-one-out" where something
    was chosen (strengths, shapes, weights), and the row had no part in that either; "leave-one-out, choices held" where
    it had.

    Without a row its class has a smaller share, so that what is left of the class shares tells the row's label,
    backwards: where little else is known, rows would be ranked upside down. So AUC and calibration are by the shares of
    all rows, which is what a new row meets. So are predictions where evidence is pooled, and may weigh nothing, and
    classes are of one size: there each row would be taken for another class, for want of itself. Probabilities and log
    loss are left as they are without the row.

    Rows that are `alone` in their class are not judged: without them, the class is unknown. They do not count in any
    measure; their share is about that of new rows of classes never seen (Good and Turing). It prints in short;
    `details()` shows all that an `Evaluation` does.
    """

    alone: Array | None = None  # (n,) bool
    way: str = EXACT
    learned: Floats | None = None  # (k,) weight of each class, where the prior is its share
    pooled: bool = False

    @property
    def how(self) -> str:
        return self.way

    @property
    def _weights(self) -> Floats:
        return self._taken if self.alone is None else np.where(self.alone, 0.0, self._taken)

    @property
    def _answers(self) -> Array:
        literal = not self.pooled or self.learned is None or not of_one_size(self.learned, self.weight)
        return likeliest(self.log_proba if literal else self._comparable)

    @property
    def _comparable(self) -> Floats:
        """With the class shares of all rows."""
        if self.learned is None:
            return self.log_proba
        out, rows, left = self.log_proba.copy(), np.arange(len(self.truth)), self._left
        there = left > 0
        out[rows[there], self.truth[there]] += np.log(self.learned[self.truth[there]] / left[there])
        possible = self._answered
        out[possible] -= np.logaddexp.reduce(out[possible], axis=1, keepdims=True)
        return np.asarray(np.round(out, 10))  # what was put back is only as good as that: without it, ties are none

    @property
    def _left(self) -> Floats:
        """What is left of each row's class without it, (n,); 0 where it is rounding."""
        assert self.learned is not None
        own = self.learned[self.truth]
        left = own - self._taken
        return np.asarray(np.where(left > own * RESIDUE, left, 0.0))

    @property
    def _taken(self) -> Floats:
        """The weight that is taken out with each row, (n,)."""
        return np.ones(len(self.truth)) if self.weight is None else self.weight

    @property
    def baseline(self) -> float:
        """The log loss of the class shares, for each row those without it."""
        if self.learned is None:
            return self._in_sample_baseline
        total = self.learned.sum() - self._taken
        counted, left = self.counted, self._left
        with np.errstate(divide="ignore", invalid="ignore"):  # rows alone in their class do not count
            losses = np.abs(np.log(left / total))
        return average(losses[counted], self._weights[counted])

    def to_table(self) -> Table:
        rows = [("accuracy", self.accuracy), ("log_loss", self.log_loss)] if self.judged else []
        return Table(f"{self.how} over {self.judged} row{'s' * (self.judged != 1)}", ("measure", "value"), rows)

    @property
    def note(self) -> str:
        """What cannot be known from these rows, in a sentence; empty if nothing."""
        if len(self.classes) == 1 and len(self.truth):
            return "There is only one class, so every row is predicted to be of it."
        some = self._taken > 0
        alone = 0 if self.alone is None else int((self.alone & some).sum())
        if not alone:
            return ""
        if not self.judged:
            return "No class has two rows, so how good the model is cannot be known."
        rows = "1 row is" if alone == 1 else f"{alone} rows are"
        share = alone / max(1, int(some.sum()))
        return (
            f"{rows} alone in {'its' if alone == 1 else 'their'} class and cannot be judged; about {share:.0%} of new "
            "rows may be of classes never seen."
        )

    def to_dict(self) -> dict[str, Any]:
        return {**Judged.to_dict(self), "judged_rows": self.judged, "note": self.note or None}

    def _all(self) -> list[Table | str]:
        return [*Judged._all(self), *self._note()] if self.judged or not self.note else self._parts()

    def _parts(self) -> list[Table | str]:
        return [*([self.to_table()] if self.judged or not self.note else []), *self._note()]

    def _note(self) -> list[Table | str]:
        return [self.note] if self.note else []


def leave_one_out(
    model: Model, data: Data, y: Labels, weight: Floats | None = None, n_jobs: int | None = None
) -> LeaveOneOut:
    """Posterior of every row without itself. The rows must be among those the model learned.

    A row so far out that rounding may hide what is left without it is judged by its class's other rows, learned anew;
    where they are not all among the rows, it is forgotten, and NaN where it cannot be.
    """
    log_proba = score.leave_one_out(data, model, y, weight, n_jobs)
    for i in rows_in_doubt(log_proba):
        log_proba[i] = learned_anew(model, data, y, weight, i)
    total = float(model.stats.weight.sum())
    last = total - (1.0 if weight is None else weight) <= total * RESIDUE
    if np.any(last) and not model.schema.closed:  # the row was all there was: without it there is no class at all
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
    """The same of a model that has chosen something: every fold of the rows under what the others choose without it.

    The rows are all that the model has learned. `choose(rows)` is a model with the law that such rows by themselves ask
    for, and with sums of all of them under that law.
    """
    mark, there = marks(data), np.ones(len(y), dtype=bool) if weight is None else weight > 0
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
    """What the class shares follow from, where they are the prior; None where that does not hang on rows."""
    return weight if isinstance(prior, str) and prior == "empirical" else None


def together(parts: Sequence[LeaveOneOut]) -> LeaveOneOut:
    """One result of several batches of rows."""
    ways = {part.way for part in parts}
    arrays: dict[str, Any] = {}
    for name in ("log_proba", "truth", "weight", "alone"):
        each = [getattr(part, name) for part in parts]
        arrays[name] = None if any(part is None for part in each) else np.concatenate(each)
    way = ways.pop() if len(ways) == 1 else HELD
    return LeaveOneOut(parts[0].classes, **arrays, way=way, learned=parts[0].learned, pooled=parts[0].pooled)


def of_one_size(learned: Floats, weight: Floats | None) -> bool:
    """Whether a row more or less decides which of the classes is the largest, and each of them may be."""
    most = 1.0 if weight is None else float(weight.max(initial=0.0))
    return bool(len(learned)) and float(np.ptp(learned)) <= most * (1.0 + RESIDUE)


def alone_in_class(learned: Floats, y: Array, weight: Floats | None) -> Array:
    """Which rows are all that was learned of their class, (n,)."""
    return np.asarray(learned[y] <= (1.0 if weight is None else weight) * (1.0 + RESIDUE))


def rows_in_doubt(log_proba: Floats) -> list[int]:
    """Rows that are NaN. Among NaN nothing is least, so that one look tells where there are none."""
    return np.flatnonzero(np.isnan(log_proba).any(axis=1)).tolist() if np.isnan(log_proba.min(initial=0.0)) else []


def learned_anew(model: Model, data: Data, y: Labels, weight: Floats | None, row: int) -> Floats:
    """A row's posterior under its class's other rows, learned anew; NaN where they are not all there."""
    left = score.learned_without(data, model, y, weight, row) or forgotten(data, model, y, weight, row)
    if left is None:
        return np.full(len(model.classes), np.nan)
    return np.asarray(score.apply([X[row : row + 1] for X in data], left, "log_posterior", 1)[0])


def forgotten(data: Data, model: Model, y: Labels, weight: Floats | None, row: int) -> Model | None:
    """The model without one row; None where rounding hides what is left of its sums."""
    rows = slice(row, row + 1)
    each = None if weight is None else weight[rows]
    part = collect.collect([X[rows] for X in data], model.joint, model.schema, y[rows], each, 1)
    try:
        return Model(model.joint, subtract(model, part))
    except ForgetError:
        return None


def best_alpha(model: Model, data: Data, y: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> float:
    """The prior strength with the least exact leave-one-out log loss.

    Rows whose class has no other row are left out of the comparison, for no prior helps them, and so are rows of which
    it is not known what is left without them.
    """
    if not model.joint.blocks[0].family.downdates(1.0):
        rows = some_of(np.arange(len(y)), FEW)
        data, y, weight = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]

    def loss(alpha: float) -> float:
        found = leave_one_out(model.with_joint(model.joint.with_alpha(alpha)), data, y, weight, n_jobs)
        return average(found.log_losses, np.where(np.isnan(found.log_losses), 0.0, found._weights))

    return search(loss, tolerance=1e-3)


def some_of(rows: Array, most: int) -> Array:
    """At most so many of the rows, the same ones every time."""
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
    """The family with the least exact leave-one-out log loss over (at most `ENOUGH`) rows; the first of equals.

    By `criterion` "accuracy", the most accurate, and among those that are equally so the least log loss.

    Every candidate reads the same sums. A candidate under which some class has no covariance of its own is passed
    over while another is left: what it does then is a repair, not a choice. Rows whose class has no other row are
    left out: no candidate helps them. So are those of which it is not known what is left without them.
    """
    rows = np.flatnonzero(model.stats.weight[y] > (1.0 if weight is None else weight) * (1.0 + RESIDUE))
    quick = all(family.downdates(model.alpha()) for family in candidates)
    rows = some_of(rows, ENOUGH if quick else FEW)
    part, codes, w = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]
    if len(rows) == 0:
        return candidates[-1]
    models = [
        model.with_joint(replace(model.joint, blocks=(replace(model.joint.blocks[0], family=family),)))
        for family in candidates
    ]
    sound = [m for m in models if not getattr(m.params[0].repairs, "helped", ())] or models[-1:]
    left = [leave_one_out(m, part, codes, w, n_jobs) for m in sound]
    known = ~np.isnan([found.log_losses for found in left]).any(axis=0)
    left = [replace(found, log_proba=found.log_proba[known], truth=codes[known]) for found in left]
    if w is not None:
        left = [replace(found, weight=w[known]) for found in left]
    losses = [found.log_loss if np.isfinite(found.log_loss) else np.inf for found in left]
    errors = [0.0 if criterion == "log_loss" else 1.0 - found.accuracy for found in left]
    return min(zip(errors, losses, range(len(sound)), sound, strict=True))[3].joint.blocks[0].family
