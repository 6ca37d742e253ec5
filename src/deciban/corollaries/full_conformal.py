"""Full conformal prediction: exact, and without held-out rows, because a model is a sum.

For a new row x and a class y, (x, y) is added to the sums. Then every row, the new one too, is left out once and scored
by the rest: its strangeness is a function of the row and of the set of all others, whatever their order. If y is the
class of x, all ranks are equally likely, and so the p-value is at most ε with a probability of at most ε: for any
distribution of the rows, and however badly the model fits.

It is enough to compare with some of the learned rows, if they are drawn at random: given the rest, they and the new row
are still exchangeable.
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
from deciban.corollaries.leave_one_out import random_subset
from deciban.joint import Joint, Model
from deciban.matrix import row_slice
from deciban.schema import Columns, Schema

MAX_ENTRIES_AT_ONCE = 1 << 20  # held for a block of new rows
MAX_COMPARED_ROWS = 1000  # with a new one, if there is no closed form
MAX_ENTRIES_PER_ROW = 1 << 21  # scored for a new row: with more it would be too slow


@dataclass(frozen=True, slots=True, eq=False)
class FullConformal:
    """A model, and rows that it has learned: all of them, or a random subset."""

    model: Model
    data: Data
    codes: Array  # their classes
    weight: Floats | None = None  # whole numbers: how often each was learned
    closed: ClosedForm | None = None  # a faster way to the same numbers

    @classmethod
    def of(cls, model: Model, data: Data, codes: Array, weight: Floats | None = None) -> FullConformal:
        codes = np.ascontiguousarray(codes, dtype=np.int32)
        return cls(model, data, codes, weight, closed_form(model, data, codes))

    @property
    def rows(self) -> Floats:
        """The weight of rows of each class to compare with, (k,)."""
        return np.bincount(self.codes, self.weight, minlength=len(self.model.classes)).astype(np.float64)

    @property
    def compared_rows(self) -> Array:
        """The rows that a new one is compared with, unless rows are compared class by class."""
        return random_subset(np.arange(len(self.codes)), MAX_COMPARED_ROWS if self.closed is None else len(self.codes))

    @property
    def affordable(self) -> bool:
        """Whether a new row takes no more than some milliseconds, by estimate."""
        if self.closed is not None or len(self.codes) == 0:
            return True
        for block, params in zip(self.model.joint.blocks, self.model.params, strict=True):
            repairs = getattr(params, "repairs", None)  # then every row left out needs a new estimate
            if repairs and (repairs.helped or repairs.certain or getattr(block.family, "sphere", 0.0)):
                return False
        entries = collect.size_of(self.data) / len(self.codes)
        return bool(len(self.compared_rows) * entries * len(self.model.classes) ** 2 <= MAX_ENTRIES_PER_ROW)

    def p_values(self, new: Data, by_class: bool = False) -> Floats:
        """The p-value of every class for every new row, (m, k): compared with rows of the class, or with all."""
        m, k = new[0].shape[0], len(self.model.classes)
        if k == 1:  # the only class cannot be ruled out
            return np.ones((m, 1))
        log_joint = score.apply(new, self.model, "log_joint", 1)
        has_unseen, gaps = unseen(new, self.model.schema).any(axis=1), expect.rows_with_gaps(new, self.model.joint)
        for i in np.flatnonzero(has_unseen):
            row = [row_slice(X, slice(i, i + 1)) for X in new]
            log_joint[i] = widened(self.model, row).log_joint(row)[0]
        log_joint[np.isneginf(log_joint.max(axis=1, initial=-np.inf))] = self.model.log_prior
        limit, counts = thresholds(log_joint), np.full((m, k), np.nan)
        if self.closed is not None:
            ready = np.flatnonzero(~gaps & ~has_unseen)
            step = max(1, MAX_ENTRIES_AT_ONCE // max(1, self.closed.size))
            for start in range(0, len(ready), step):
                rows = ready[start : start + step]
                part = [X[rows] for X in new]
                counts[rows] = self.closed.at_least(part, limit[rows], self.weight, by_class)
        for i in np.flatnonzero(np.isnan(counts).any(axis=1)):
            counts[i] = self._literal([row_slice(X, slice(i, i + 1)) for X in new], limit[i], by_class, bool(gaps[i]))
        compared = self.compared_rows
        total = (
            self.rows if by_class else np.array([len(compared) if self.weight is None else self.weight[compared].sum()])
        )
        return share(counts, total, by_class)

    def _literal(self, row: Data, limit: Floats, by_class: bool, gap: bool) -> Floats:
        """The weight of rows at least as strange as the new one, by class: it is added, and each row is left out.

        If columns depend on each other, a row with a missing value is not added to the sums, only scored. A prior
        strength that is estimated from the sums ("empirical") is that of all rows with the new one, for every row.
        """
        model = widened(self.model, row)
        out = np.empty(len(model.classes))
        for c in range(len(out)):
            at = np.flatnonzero(self.codes == c) if by_class else self.compared_rows
            codes = self.codes[at]
            grown = model if gap else Model(model.joint, with_row(model, row, c))
            total = grown.log_joint_without([X[at] for X in self.data], codes, None)[0]
            if any(isinstance(block.alpha, str) for block in model.joint.blocks):
                limit = thresholds(Model(with_fixed_alpha(grown), model.stats).log_joint(row))[0]
            reached = own_strangeness(total, codes) >= limit[c]
            out[c] = np.count_nonzero(reached) if self.weight is None else float(self.weight[at] @ reached)
        return out


def with_fixed_alpha(model: Model) -> Joint:
    """The joint distribution with every prior's strength as a number."""
    blocks = [replace(block, alpha=model.alpha(b)) for b, block in enumerate(model.joint.blocks)]
    return replace(model.joint, blocks=tuple(blocks))


def own_strangeness(log_joint: Floats, codes: Array) -> Floats:
    """The log-odds against each row's own class, (n,); `log_joint` is overwritten."""
    rows = np.arange(len(codes))
    own = log_joint[rows, codes]
    log_joint[rows, codes] = -np.inf
    impossible = np.isneginf(own)
    return np.where(impossible, np.inf, log_evidence(log_joint) - np.where(impossible, 0.0, own))


def with_row(model: Model, row: Data, c: int) -> Stats:
    """The sums with one more row, of class c."""
    stats = model.stats
    added = alone(model, row, c)
    weight = stats.weight.copy()
    weight[c] += 1.0
    return replace(stats, weight=weight, sums=tuple(map(lambda mine, more: plus(mine, more, c), stats.sums, added)))


def alone(model: Model, rows: Data, c: int) -> tuple[Sums, ...]:
    """T(x) of every row as one of class c: sums over as many classes as there are rows, one row in each."""
    n = rows[0].shape[0]
    blocks = tuple(of_class(columns, c, n) for columns in model.schema.blocks)
    return collect.collect(rows, model.joint, Schema(np.arange(n), blocks), np.arange(n, dtype=np.int32), None, 1).sums


def of_class(columns: Columns, c: int, times: int) -> Columns:
    """Columns with the pivot of class c, repeated for this many classes."""
    if columns.pivot is None:
        return columns
    return replace(columns, pivot=np.repeat(columns.pivot[c : c + 1], times, axis=0))


def plus(sums: Sums, row: Sums, c: int) -> Sums:
    """A block's sums with the row added to class c; `one` has a value per column if an entry of either was missing."""
    out = {}
    for name, array in sums.items():
        wide = np.broadcast_to(array, np.broadcast_shapes(array.shape, (len(array), *row[name].shape[1:])))
        out[name] = np.array(wide)
        out[name][c] += row[name][0]
    return out


def unseen(rows: Data, schema: Schema) -> Array:
    """Which rows have a category that was never learned, (n, blocks)."""
    parts = [np.zeros((rows[0].shape[0], 0), dtype=bool)]
    for X, columns in zip(rows, schema.blocks, strict=True):
        if columns.categories is not None:
            parts.append((X >= np.diff(columns.offsets)).any(axis=1)[:, None])
    return np.hstack(parts)


def widened(model: Model, row: Data) -> Model:
    """The model with the categories of a new row, which count as known together with it."""
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
