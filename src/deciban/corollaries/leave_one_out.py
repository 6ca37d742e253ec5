"""Exact leave-one-out: subtract T(x_i), predict x_i. No refit, about the cost of predicting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from deciban._typing import Array, Data, Floats, Labels
from deciban.algebra import RESIDUE
from deciban.corollaries.judged import Judged, average
from deciban.engines import local
from deciban.families import Family
from deciban.joint import Model
from deciban.priors import search
from deciban.show import Table

ENOUGH = 2000  # rows: a log loss averaged over so many tells candidates apart
FEW = 200  # where every row costs an estimate of its own


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaveOneOut(Judged):
    """Every row's posterior under the model that never saw it.

    A row whose class has no other row counts as a mistake with infinite log loss: without it, its class is unknown.
    It prints in short; `details()` shows all that an `Evaluation` does.
    """

    how: ClassVar[str] = "leave-one-out"

    def to_table(self) -> Table:
        rows = [("accuracy", self.accuracy), ("log_loss", self.log_loss)]
        return Table(f"leave-one-out over {len(self.truth)} rows", ("measure", "value"), rows)

    def _parts(self) -> list[Table | str]:
        return [self.to_table()]


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
        return average(losses, None if weight is None else weight[~alone])

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
