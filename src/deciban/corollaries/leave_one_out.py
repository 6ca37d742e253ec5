"""Exact leave-one-out: subtract T(x_i), predict x_i. No refit, about the cost of predicting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deciban._typing import Array, Data, Floats, Labels
from deciban.algebra import RESIDUE
from deciban.engines import local
from deciban.families import Family
from deciban.joint import Model
from deciban.priors import search
from deciban.show import Result, Table, axes, plain

ENOUGH = 2000  # rows: a log loss averaged over so many tells candidates apart
FEW = 200  # where every row costs an estimate of its own
GROUPS = 10  # of rows in a picture


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaveOneOut(Result):
    """Every row's posterior under the model that never saw it.

    A row whose class has no other row counts as a mistake with infinite log loss: without it, its class is unknown.
    """

    classes: Array
    log_proba: Floats  # (n, k)
    truth: Array  # class codes
    weight: Floats | None = None

    @property
    def predictions(self) -> Array:
        return np.asarray(self.classes[np.argmax(self.log_proba, axis=1)])

    @property
    def accuracy(self) -> float:
        """The share of rows the model would have got right without them."""
        return _average(np.argmax(self.log_proba, axis=1) == self.truth, self.weight)

    @property
    def log_losses(self) -> Floats:
        """−log P(true class), a row."""
        return np.asarray(-self.log_proba[np.arange(len(self.truth)), self.truth])

    @property
    def log_loss(self) -> float:
        """The mean of −log P(true class)."""
        return _average(self.log_losses, self.weight)

    @property
    def proba(self) -> Floats:
        return np.asarray(np.exp(self.log_proba))

    def to_dict(self) -> dict[str, Any]:
        return {"rows": len(self.truth), "accuracy": self.accuracy, "log_loss": self.log_loss}

    def to_frame(self) -> Any:
        """A pandas data frame (an optional dependency), a row each: truth, prediction, log loss, probabilities."""
        columns = {"truth": self.classes[self.truth], "prediction": self.predictions, "log_loss": self.log_losses}
        columns |= {f"P({plain(label)})": self.proba[:, c] for c, label in enumerate(self.classes)}
        return Table("", tuple(columns), list(zip(*columns.values(), strict=True))).to_frame()

    def to_table(self) -> Table:
        return Table(f"leave-one-out over {len(self.truth)} rows", ("measure", "value"), [*self.to_dict().items()][1:])

    def plot(self, ax: Any = None) -> Any:
        """How often the model is right by how sure it is, with matplotlib (an optional dependency); returns the axes.

        Rows are put in order of the probability of their prediction and cut into at most ten groups of one size. On
        the line, probabilities are what they say; below it, they are too high.
        """
        ax, proba = axes(ax), self.proba
        sure, right = proba.max(axis=1), np.argmax(proba, axis=1) == self.truth
        weight = np.ones(len(sure)) if self.weight is None else self.weight
        rows = np.flatnonzero(weight > 0)
        groups = np.array_split(rows[np.argsort(sure[rows], kind="stable")], min(GROUPS, max(1, len(rows))))
        said, found = ([_average(values[g], weight[g]) for g in groups] for values in (sure, right))
        ax.plot([0.0, 1.0], [0.0, 1.0], color="grey", linestyle=":", linewidth=1)
        ax.plot(said, found, marker="o", markersize=4)
        ax.set_xlabel("probability of the prediction, without the row")
        ax.set_ylabel("share of rows that are right")
        ax.set_title(f"log loss {self.log_loss:.4g} nats, accuracy {self.accuracy:.4g}", fontsize="medium")
        return ax


def _average(values: Array, weight: Floats | None) -> float:
    """The weighted mean; NaN of no rows, which have none."""
    if len(values) == 0 or (weight is not None and not weight.any()):
        return float("nan")
    return float(np.average(values, weights=weight))


def leave_one_out(
    model: Model, data: Data, y: Labels, weight: Floats | None = None, n_jobs: int | None = None
) -> LeaveOneOut:
    """Posterior of every row without itself. The rows must be among those the model learned."""
    log_proba = local.leave_one_out(data, model, y, weight, n_jobs)
    total = float(model.stats.weight.sum())
    alone = total - (1.0 if weight is None else weight) <= total * RESIDUE
    if np.any(alone) and not model.schema.closed:  # the row was all there was: without it there is no class at all
        log_proba[np.broadcast_to(alone, len(log_proba))] = -np.inf
    return LeaveOneOut(model.classes, log_proba, y, weight)


def best_alpha(model: Model, data: Data, y: Labels, weight: Floats | None = None, n_jobs: int | None = None) -> float:
    """The prior strength with the least exact leave-one-out log loss.

    Rows whose class has no other row are left out of the comparison: no prior helps them.
    """
    if not model.joint.blocks[0].family.downdates(1.0):
        rows = some_of(np.arange(len(y)), FEW)
        data, y, weight = [X[rows] for X in data], y[rows], None if weight is None else weight[rows]
    alone = model.stats.weight[y] <= (1.0 if weight is None else weight) * (1.0 + RESIDUE)

    def loss(alpha: float) -> float:
        losses = leave_one_out(model.with_joint(model.joint.with_alpha(alpha)), data, y, weight, n_jobs).log_losses[
            ~alone
        ]
        return _average(losses, None if weight is None else weight[~alone])

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
    left out: no candidate helps them.
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
    losses = [found.log_loss if np.isfinite(found.log_loss) else np.inf for found in left]
    errors = [0.0 if criterion == "log_loss" else 1.0 - found.accuracy for found in left]
    return min(zip(errors, losses, range(len(sound)), sound, strict=True))[3].joint.blocks[0].family
