"""Scores of texts: the pooled evidence of their items, in one pass over them.

`Graded.evidence` keeps every vector apart, since weights are fitted to them. To answer, the weights are known, and an
item's share of the score follows from its own sums (`_kernel/answer_loops.h`). It is derived for the items of a text
while that is scored; once that has taken as long as it takes for all of them, records of all are made and kept.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deciban._kernel import evidence as kernel
from deciban._kernel import posterior
from deciban._typing import Codes, Floats
from deciban.text.common import amounts
from deciban.text.items import Rows
from deciban.text.parallel import in_pieces
from deciban.text.store import ItemSums
from deciban.text.sums import damped
from deciban.text.tables import KNOTS, MAX_KNOWLEDGE, MIN_KNOWLEDGE, padded
from deciban.threads import threads

if TYPE_CHECKING:
    from deciban.text.graded import Graded

BUILDING = Lock()  # held while tables are made, so that threads do not make them twice
RECORDS_PER_ITEM = 8  # records that are made in the time in which one item of a single text is scored without
CACHED_SCORES = 1 << 15  # scores of so many rows and classes are computed at a time: they stay in cache over all blocks
NO_COLUMNS = np.zeros(0, dtype=np.int32)


class ItemRecords(NamedTuple):
    """What is derived of every item of a block. Items with the same sums, such as those of one document, share a
    record."""

    record_of: Codes  # (items,) where the record of an item is
    room: Floats

    @classmethod
    def of(cls, answers: BlockAnswers, cells: ItemSums, n_jobs: int | None) -> ItemRecords:
        scale, given = answers.scale, (cells.ptr, cells.cls, cells.val, answers.column, answers.slopes)
        record_of, which, place, room = scale.records(*given)
        workers = threads(n_jobs, 8 * len(cells.cls))
        in_pieces(len(which), workers, lambda first, last: scale.fill(*given, which, place, room, first, last))
        return cls(record_of, room)


class BlockAnswers(NamedTuple):
    """How the items of a block are scored."""

    block: str
    scale: kernel.ItemScale
    column: Codes  # of x, by item
    slopes: Floats | None  # (d, k) of x; None if no item of the block has a column


class TextAnswers:
    """What a model's answers are derived from: its weights and shares, and records of all items once they are worth it.

    The class shares, of which everything is derived, are others after every document that is learned.
    """

    def __init__(self, model: Graded) -> None:
        choice, shares, strengths = model.effective_choice, model.shares(), model.strengths()
        factor, group = choice.groups
        pseudo, entropy = shares.share * shares.factor, float(shares.entropy[-1])
        columns, slopes = {}, None
        self.constants: Floats | None = None  # (2, k) of rows without and with an item of a column
        self.base = choice.pool.offsets + model.log_prior
        joint = model.joint_slopes()
        if joint is not None and model.sums.common is not None:
            slopes, constants = joint
            self.constants = np.stack([np.zeros_like(constants), constants])
            columns = model.sums.store.columns(model.sums.common)
        self.blocks = []
        for block in model.sums.blocks:
            weights = padded(strengths[block]), KNOTS, choice.weights(block)
            scale = kernel.ItemScale(pseudo, group, factor, *weights, entropy, MIN_KNOWLEDGE, MAX_KNOWLEDGE)
            there = block in columns
            self.blocks.append(BlockAnswers(block, scale, columns.get(block, NO_COLUMNS), slopes if there else None))
        self.asked = 0  # items so far
        self.records: dict[str, ItemRecords] | None = None

    def records_for(self, model: Graded, rows: dict[str, Rows], n_jobs: int | None) -> dict[str, ItemRecords] | None:
        """The records, if there are any, or the items asked for so far took as long as to make them."""
        if self.records is None:
            self.asked += sum(len(indices) for _, indices in rows.values())
            if RECORDS_PER_ITEM * self.asked >= model.sums.n_items:
                self.keep_records(model, n_jobs)
        return self.records

    def keep_records(self, model: Graded, n_jobs: int | None) -> None:
        """Derive the records of all items now."""
        with BUILDING:
            if self.records is None:
                self.records = {
                    mine.block: ItemRecords.of(mine, model.cells_as_numbered(mine.block), n_jobs)
                    for mine in self.blocks
                }

    def scores(self, model: Graded, rows: dict[str, Rows], n_jobs: int | None = 1) -> Floats:
        """log π_k + b_k + Σ_g r_g F_gk, (n, k), up to a constant per row, of rows numbered by the model's store."""
        n, k = len(rows["words"][0]) - 1, len(self.base)
        out, there = np.empty((n, k)), np.zeros(n, dtype=np.uint8)
        records = self.records_for(model, rows, n_jobs)
        asked = []
        for block, scale, column, slopes in self.blocks:
            mine = rows[block]
            damp = damped(mine)
            asked.append((scale, (*mine, damp, damp if slopes is None else amounts(mine), column, slopes, out, there)))
        step = max(1, n if records is None else CACHED_SCORES // k)
        for first in range(0, n, step):
            last = min(first + step, n)
            out[first:last] = self.base
            for (scale, some), (block, *_) in zip(asked, self.blocks, strict=True):
                if records is not None:
                    scale.answer_by_records(*some, *records[block], first, last)
                else:
                    cells = model.cells_as_numbered(block, rows[block][1])
                    scale.answer(*some, cells.ptr, cells.cls, cells.val)
            if self.constants is not None:
                posterior.add_table(out[first:last], self.constants, there[first:last].astype(np.int32))
        return out
