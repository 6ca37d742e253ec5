"""What the items of a text model add to its scores, as tables: see `text/graded.py` for the equations.

The kernel derives the same while it answers. Here everything is derived once, so that others can look it up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deciban._typing import Array, Floats
from deciban.text.graded import Graded
from deciban.text.store import ItemSums
from deciban.text.tables import KNOTS, MAX_KNOWLEDGE, MIN_KNOWLEDGE
from deciban.text.views import hats


class BlockRecords(NamedTuple):
    """What the items of a block add to scores, for each strength that has any weight.

    Items with the same sums share a record, except those that are modelled jointly: these have the first records. The
    last record is that of unknown items, and adds nothing.
    """

    of_item: Array  # (items,) the number of each one's record
    know: Floats  # (records, strengths) κ
    belief: Floats  # (records, strengths) the weight at κ of the vectors by information
    evidence: Floats  # (records, strengths, k) λ
    alike: Floats  # (strengths,) weight of all items equally
    by_know: Floats  # (strengths,) weight of all items by information
    slopes: Floats  # (d + 1, k) of x, of the first records; the last row is that of all others

    @property
    def unknown(self) -> int:
        return len(self.know) - 1

    @property
    def size(self) -> int:
        """How many numbers these are."""
        return self.know.size + self.belief.size + self.evidence.size + self.slopes.size


def block_records(model: Graded) -> dict[str, BlockRecords]:
    """By block, without those whose evidence has no weight."""
    joint, common = model.joint_slopes(), model.sums.common
    columns = {} if joint is None or common is None else model.sums.store.flat().columns(common)
    out = {}
    for block in model.sums.blocks:
        cells = model.cells(block)
        column = columns.get(block, np.full(cells.size, -1))
        slopes = np.zeros((0, len(model.classes))) if joint is None else joint[0]
        records = records_of(model, block, cells, column, slopes)
        if records.know.size or len(records.slopes) > 1:
            out[block] = records
    return out


def records_of(model: Graded, block: str, cells: ItemSums, column: Array, slopes: Floats) -> BlockRecords:
    weights = model.effective_choice.weights(block)
    used = weights.any(axis=1)
    jointly = np.flatnonzero(column >= 0)
    of_item, first = shared_records(cells, jointly)
    sums = np.zeros((len(first), len(model.classes)))
    taken = cells.take(first)
    sums[np.repeat(np.arange(taken.size), np.diff(taken.ptr)), taken.cls] = taken.val
    know, evidence = weighed(model, sums, model.strengths()[block][used])
    know[~taken.known] = evidence[~taken.known] = 0.0
    belief = np.einsum("rsg,sg->rs", hats(np.maximum(know, MIN_KNOWLEDGE)), weights[used, : len(KNOTS)])
    alike, by_know = weights[used, len(KNOTS) :].T
    know, belief, evidence, slopes = map(with_zeros, (know, belief, evidence, slopes[column[jointly]]))
    return BlockRecords(of_item, know, belief, evidence, alike, by_know, slopes)


def shared_records(cells: ItemSums, alone: Array) -> tuple[Array, Array]:
    """The record of each item, and the first item of each record; those that are `alone` share theirs with no other."""
    numbers: dict[bytes, int] = {}
    of_item, first = np.full(cells.size, -1), alone.tolist()
    of_item[alone] = np.arange(len(alone))
    ptr = cells.ptr.tolist()
    for item in np.flatnonzero(cells.known & (of_item < 0)).tolist():
        mine = slice(ptr[item], ptr[item + 1])
        number = numbers.setdefault(cells.cls[mine].tobytes() + cells.val[mine].tobytes(), len(first))
        if number == len(first):
            first.append(item)
        of_item[item] = number
    return np.where(of_item < 0, len(first), of_item), np.array(first, dtype=np.intp)


def weighed(model: Graded, sums: Floats, strengths: Floats) -> tuple[Floats, Floats]:
    """κ, (n, strengths), and λ, (n, strengths, k), of items with these sums, (n, k)."""
    shares = model.shares()
    factor, m = shares.factor, strengths[:, None]
    pseudo = m * (shares.share * factor)  # (strengths, k)
    lift = np.log1p(np.divide(sums[:, None], pseudo, out=np.zeros((len(sums), *pseudo.shape)), where=pseudo > 0))
    total = sums.sum(axis=1)[:, None, None]
    evidence = lift + np.log(m * factor) - np.log(total + m * factor)
    p = sums[:, None] + pseudo
    know = (p * evidence).sum(axis=-1) / p.sum(axis=-1) / shares.entropy[-1]
    return np.clip(know, MIN_KNOWLEDGE, MAX_KNOWLEDGE), evidence


def with_zeros(table: Floats) -> Floats:
    """The table with a row of zeros after the last."""
    return np.concatenate([table, np.zeros((1, *table.shape[1:]))])
