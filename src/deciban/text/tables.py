"""What is derived from a block's sums, for every strength of pseudo-counts: see graded.py for the equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deciban._kernel import evidence as kernel
from deciban._typing import Codes, Floats
from deciban.engines.threads import threads
from deciban.text.items import Rows
from deciban.text.sharing import in_threads
from deciban.text.sums import Cells, damped

STRENGTHS = (0.03, 1.0, 30.0)  # pseudo-counts, in documents' mean damped presence: the pool weighs all three
KNOTS = np.log([0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5])
LEAST, MOST = 1e-9, 3.0  # what an item can know at least, so that its logarithm is a number, and at most
VECTORS = len(KNOTS) + 2  # a strength
LANES = 4  # strengths at most
PER_BLOCK = len(STRENGTHS) * VECTORS


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What is derived from one block's sums: see `kernel.tables`. Strengths are padded to the lanes of a vector."""

    cells: Cells
    strength: Floats  # (LANES,)
    share: Floats
    lift: Floats  # (cells, LANES)
    known: Floats  # (items, LANES)
    total: Floats  # (items,)
    dense_row: Codes  # (items,)
    dense: Floats  # (rows, strengths, k)

    @classmethod
    def of(cls, cells: Cells, strength: Floats, share: Floats, n_jobs: int | None = None) -> Tables:
        k, many = len(share), np.diff(cells.ptr) * 2 >= len(share)
        dense_row = np.where(many, np.cumsum(many) - 1, -1).astype(np.int32)
        padded = np.ones(LANES)
        padded[: len(strength)] = strength
        lift, known, total = np.empty((len(cells.cls), LANES)), np.empty((cells.size, LANES)), np.empty(cells.size)
        out = cls(cells, padded, share, lift, known, total, dense_row, np.zeros((int(many.sum()), len(strength), k)))

        def work(first: int, last: int) -> None:
            kernel.tables(
                cells.ptr, cells.cls, cells.val, share, padded, lift, known, total, dense_row, out.dense, first, last
            )

        in_pieces(cells.size, threads(n_jobs, 8 * len(cells.cls)), work)
        return out

    def evidence(
        self,
        rows: Rows,
        own: Codes,
        taken: Floats,
        share_left: Floats,
        entropy: Floats,
        out: Floats,
        n_jobs: int | None = None,
    ) -> None:
        """The vectors of each row, written into out (n, strengths · vectors, k), which is zero."""
        damp = damped(rows)

        def work(first: int, last: int) -> None:
            kernel.evidence(
                *rows, damp, own, taken, self.cells.ptr, self.cells.cls, self.cells.val, self.lift, self.known,
                self.total, self.dense_row, self.dense, self.share, share_left, entropy, self.strength, KNOTS, LEAST,
                MOST, out, first, last,
            )  # fmt: skip

        in_pieces(len(own), threads(n_jobs, 8 * len(rows[1])), work)


def in_pieces(n: int, workers: int, work: Callable[[int, int], None]) -> None:
    """work(first, last) over n things, in threads."""
    edges = np.linspace(0, n, (4 * workers if workers > 1 else 1) + 1).astype(int).tolist()
    list(in_threads(lambda at: work(edges[at], edges[at + 1]), len(edges) - 1, workers))


def shares(weight: Floats, taken: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """π of all classes when `taken` is gone from some other class; π of a class that it is gone from; and H(π) then,
    one a class, and last of all rows."""
    total = float(weight.sum()) - taken
    if not total > 0:  # nothing was learned, or nothing is left: every class is as likely
        share = left = np.full(len(weight), 1.0 / max(1, len(weight)))
    else:
        share, left = weight / total, np.maximum(weight - taken, 0.0) / total
    terms = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1.0)), 0.0)
    own = -np.where(left > 0, left * np.log(np.where(left > 0, left, 1.0)), 0.0)
    entropy = np.append(terms.sum() - terms + own, terms.sum())
    return share, left, np.maximum(entropy, 1e-300)
