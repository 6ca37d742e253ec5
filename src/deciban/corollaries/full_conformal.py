"""Full conformal prediction: exact, and without rows set aside, because a model is a sum.

For a new row x and a class y, (x, y) is added to the sums. Then every row is left out once, the new one too, and judged
by what is left: its strangeness is a function of itself and of the bag of all the others, whatever their order. If x
is one of y, it is as likely to have any rank as any other row, and so the p-value is at most ε with a probability of at
most ε: for any law of the rows, and any misfit of the model.

Of rows in the sums, only some need to be compared with, if they are drawn at random: given the rest, they and the new
row are exchangeable still.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from deciban import collect, expect, score
from deciban._typing import Array, Data, Floats, Sums
from deciban.algebra import Stats
from deciban.bayes import log_evidence
from deciban.corollaries.closed_form import ClosedForm, closed_form
from deciban.corollaries.conformal import share, thresholds
from deciban.corollaries.leave_one_out import some_of
from deciban.joint import Joint, Model
from deciban.matrix import row_slice
from deciban.schema import Columns, Schema

ENTRIES = 1 << 20  # numbers held at once for a block of new rows
FEW = 1000  # rows that a new one is compared with where there is no closed form
DEAR = 1 << 21  # numbers that are scored for a new row, beyond which that takes longer than anybody waits


@dataclass(frozen=True, slots=True, eq=False)
class FullConformal:
    """A model, and rows that it has learned: all of them, or some drawn at random."""

    model: Model
    data: Data
    codes: Array  # their classes
    weight: Floats | None = None  # whole numbers: how often each was learned
    closed: ClosedForm | None = None  # a shorter way to the same numbers

    @classmethod
    def of(cls, model: Model, data: Data, codes: Array, weight: Floats | None = None) -> FullConformal:
        codes = np.ascontiguousarray(codes, dtype=np.int32)
        return cls(model, data, codes, weight, closed_form(model, data, codes))

    @property
    def rows(self) -> Floats:
        """How many rows of each class there are to compare with, (k,)."""
        return np.bincount(self.codes, self.weight, minlength=len(self.model.classes)).astype(np.float64)

    @property
    def few(self) -> Array:
        """Which rows a new one is compared with where all classes are: class by class, each row is scored once."""
        return some_of(np.arange(len(self.codes)), FEW if self.closed is None else len(self.codes))

    @property
    def affordable(self) -> bool:
        """Whether a new row takes no more than some milliseconds, as far as that can be told."""
        if self.closed is not None or len(self.codes) == 0:
            return True
        for block, params in zip(self.model.joint.blocks, self.model.params, strict=True):
            repairs = getattr(params, "repairs", None)  # then leaving a row out takes an estimate of its own
            if repairs and (repairs.helped or repairs.certain or getattr(block.family, "sphere", 0.0)):
                return False
        entries = collect.size_of(self.data) / len(self.codes)
        return bool(len(self.few) * entries * len(self.model.classes) ** 2 <= DEAR)

    def p_values(self, new: Data, by_class: bool = False) -> Floats:
        """The p-value of every class for every new row, (m, k): compared with rows of the class, or with all."""
        m, k = new[0].shape[0], len(self.model.classes)
        if k == 1:  # nothing speaks against the only class there is
            return np.ones((m, 1))
        log_joint = score.apply(new, self.model, "log_joint", 1)
        strangers, gaps = unseen(new, self.model.schema).any(axis=1), expect.rows_with_gaps(new, self.model.joint)
        for i in np.flatnonzero(strangers):
            row = [row_slice(X, slice(i, i + 1)) for X in new]
            log_joint[i] = widened(self.model, row).log_joint(row)[0]
        log_joint[np.isneginf(log_joint.max(axis=1, initial=-np.inf))] = self.model.log_prior
        limit, counts = thresholds(log_joint), np.full((m, k), np.nan)
        if self.closed is not None:
            ready = np.flatnonzero(~gaps & ~strangers)
            step = max(1, ENTRIES // max(1, self.closed.size))
            for start in range(0, len(ready), step):
                rows = ready[start : start + step]
                part = [X[rows] for X in new]
                counts[rows] = self.closed.at_least(part, limit[rows], self.weight, by_class)
        for i in np.flatnonzero(np.isnan(counts).any(axis=1)):
            counts[i] = self._literal([row_slice(X, slice(i, i + 1)) for X in new], limit[i], by_class, bool(gaps[i]))
        few = self.few
        total = self.rows if by_class else np.array([len(few) if self.weight is None else self.weight[few].sum()])
        return share(counts, total, by_class)

    def _literal(self, row: Data, limit: Floats, by_class: bool, gap: bool) -> Floats:
        """How many rows are at least as strange as the new one, class by class: added, and each row left out.

        A row with a gap where columns depend on each other is in no sum: it is judged, and adds nothing. A strength of
        priors that the sums say ("empirical") is that of all rows, the new one among them, and judges all alike.
        """
        model = widened(self.model, row)
        out = np.empty(len(model.classes))
        for c in range(len(out)):
            at = np.flatnonzero(self.codes == c) if by_class else self.few
            codes = self.codes[at]
            grown = model if gap else Model(model.joint, with_row(model, row, c))
            total = grown.log_joint_without([X[at] for X in self.data], codes, None)[0]
            if any(isinstance(block.alpha, str) for block in model.joint.blocks):
                limit = thresholds(Model(settled(grown), model.stats).log_joint(row))[0]
            reached = own_strangeness(total, codes) >= limit[c]
            out[c] = np.count_nonzero(reached) if self.weight is None else float(self.weight[at] @ reached)
        return out


def settled(model: Model) -> Joint:
    """The joint law with every prior's strength as a number."""
    blocks = [replace(block, alpha=model.alpha(b)) for b, block in enumerate(model.joint.blocks)]
    return replace(model.joint, blocks=tuple(blocks))


def own_strangeness(log_joint: Floats, codes: Array) -> Floats:
    """The log-odds against each row's own class, (n,); `log_joint` is used up."""
    rows = np.arange(len(codes))
    own = log_joint[rows, codes]
    log_joint[rows, codes] = -np.inf
    gone = np.isneginf(own)
    return np.where(gone, np.inf, log_evidence(log_joint) - np.where(gone, 0.0, own))


def with_row(model: Model, row: Data, c: int) -> Stats:
    """The sums with one row more, of class c."""
    stats = model.stats
    added = alone(model, row, c)
    weight = stats.weight.copy()
    weight[c] += 1.0
    return replace(stats, weight=weight, sums=tuple(map(lambda mine, more: plus(mine, more, c), stats.sums, added)))


def alone(model: Model, rows: Data, c: int) -> tuple[Sums, ...]:
    """T(x) of every row as one of class c: sums of as many classes as there are rows, each of a single one."""
    n = rows[0].shape[0]
    blocks = tuple(of_class(columns, c, n) for columns in model.schema.blocks)
    return collect.collect(rows, model.joint, Schema(np.arange(n), blocks), np.arange(n, dtype=np.int32), None, 1).sums


def of_class(columns: Columns, c: int, times: int) -> Columns:
    """Columns as class c has them, for so many classes."""
    if columns.pivot is None:
        return columns
    return replace(columns, pivot=np.repeat(columns.pivot[c : c + 1], times, axis=0))


def plus(sums: Sums, row: Sums, c: int) -> Sums:
    """A block's sums with the row in class c; `one` is wide where an entry of either was missing."""
    out = {}
    for name, array in sums.items():
        wide = np.broadcast_to(array, np.broadcast_shapes(array.shape, (len(array), *row[name].shape[1:])))
        out[name] = np.array(wide)
        out[name][c] += row[name][0]
    return out


def unseen(rows: Data, schema: Schema) -> Array:
    """Which rows have a category that was never learned, (n, blocks)."""
    found = [np.zeros((rows[0].shape[0], 0), dtype=bool)]
    for X, columns in zip(rows, schema.blocks, strict=True):
        if columns.categories is not None:
            found.append((X >= np.diff(columns.offsets)).any(axis=1)[:, None])
    return np.hstack(found)


def widened(model: Model, row: Data) -> Model:
    """The model with the categories of a new row: they count as known in the bag that it is one of."""
    if not unseen(row, model.schema).any():
        return model
    blocks = []
    for X, columns in zip(row, model.schema.blocks, strict=True):
        if columns.categories is not None:
            known = list(columns.categories)
            for j in np.flatnonzero(X[0] >= np.diff(columns.offsets)):
                more = int(X[0, j]) + 1
                known[j] = range(more) if isinstance(known[j], range) else (*known[j], object())
            columns = replace(columns, categories=tuple(known))
        blocks.append(columns)
    return Model(model.joint, model.stats.embed(replace(model.schema, blocks=tuple(blocks))))
