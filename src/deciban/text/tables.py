"""What is derived from a block's sums, for every strength of pseudo-counts: see graded.py for the equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deciban._kernel import evidence as kernel
from deciban._typing import Codes, Floats
from deciban.text.items import Rows
from deciban.text.parallel import in_pieces
from deciban.text.sums import ItemSums, damped
from deciban.threads import threads

STRENGTHS = (0.03, 1.0, 30.0)  # pseudo-counts, in documents' mean damped presence: the pool weighs all three
KNOTS = np.log([0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5])
MIN_KNOWLEDGE, MAX_KNOWLEDGE = (
    1e-9,
    3.0,
)  # what an item can know at least, so that its logarithm is a number, and at most
VECTORS = len(KNOTS) + 2  # a strength
MAX_STRENGTHS = 4  # strengths at most
PER_BLOCK = len(STRENGTHS) * VECTORS
MAX_CLASS_FACTORS = 32  # different factors that classes can have
MAX_CLASSES_IN_KERNEL = 8  # classes: the kernel lays out of itself what an item says of so many


class Shares(NamedTuple):
    """Classes, once so much weight is gone from one of them: what is said of it comes second, of the others first."""

    share: Floats  # π
    left: Floats
    entropy: Floats  # (k + 1,) H(π), gone from each class, and last from none
    factor: Floats  # s: how many times its share of the pseudo-counts a class gets

    @classmethod
    def of(cls, weight: Floats, factor: Floats, taken: float = 0.0) -> Shares:
        total = float(weight.sum()) - taken
        if not total > 0:  # nothing was learned, or nothing is left: every class is as likely
            share = left = np.full(len(weight), 1.0 / max(1, len(weight)))
        else:
            share, left = weight / total, np.maximum(weight - taken, 0.0) / total
        terms = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1.0)), 0.0)
        own = -np.where(left > 0, left * np.log(np.where(left > 0, left, 1.0)), 0.0)
        entropy = np.append(terms.sum() - terms + own, terms.sum())
        return cls(share, left, np.maximum(entropy, 1e-300), factor)


def class_factors(weight: Floats) -> Floats:
    """How many times its share of the pseudo-counts each class is to get: about 1/√π, in powers of √2.

    Pseudo-counts by the classes' shares leave rare classes next to none, and a word that was seen in one of their few
    documents says too much. Powers are near enough, and classes that have one in common cost no more than one class.
    """
    total = float(weight.sum())
    if not total > 0:
        return np.ones(len(weight))
    root = np.sqrt(weight / total)
    power = np.round(-2.0 * np.log2(np.where(root > 0, root, root[root > 0].min()) * root.sum()))
    return np.asarray(2.0 ** (np.maximum(power, power.max() - MAX_CLASS_FACTORS + 1) / 2.0))


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What is derived from one block's sums: see `kernel.tables`. Strengths are padded to the lanes of a vector."""

    cells: ItemSums
    strength: Floats  # (MAX_STRENGTHS,)
    shares: Shares
    lift: Floats  # (cells, MAX_STRENGTHS)
    known: Floats  # (items, MAX_STRENGTHS)
    total: Floats  # (items,)
    dense_row: Codes  # (items,)
    dense: Floats  # (rows, strengths, k)

    @classmethod
    def of(cls, cells: ItemSums, strength: Floats, shares: Shares, n_jobs: int | None = None) -> Tables:
        pseudo = shares.share * shares.factor
        k, many = len(pseudo), (np.diff(cells.ptr) * 2 >= len(pseudo)) & (len(pseudo) > MAX_CLASSES_IN_KERNEL)
        dense_row = np.where(many, np.cumsum(many) - 1, -1).astype(np.int32)
        padded = np.ones(MAX_STRENGTHS)
        padded[: len(strength)] = strength
        lift, known, total = (
            np.empty((len(cells.cls), MAX_STRENGTHS)),
            np.empty((cells.size, MAX_STRENGTHS)),
            np.empty(cells.size),
        )
        out = cls(cells, padded, shares, lift, known, total, dense_row, np.zeros((int(many.sum()), len(strength), k)))

        def work(first: int, last: int) -> None:
            kernel.tables(
                cells.ptr, cells.cls, cells.val, pseudo, padded, lift, known, total, dense_row, out.dense, first, last
            )

        in_pieces(cells.size, threads(n_jobs, 8 * len(cells.cls)), work)
        return out

    def evidence(self, rows: Rows, own: Codes, taken: Floats, out: Floats, n_jobs: int | None = None) -> None:
        """The vectors of each row, written into out (n, strengths · vectors, k), which is zero."""
        damp, (share, left, entropy, by_class) = damped(rows), self.shares
        factor, group = np.unique(by_class, return_inverse=True)
        pseudo, pseudo_left = share * by_class, left * by_class
        of_class: Codes = group.astype(np.int32)

        def work(first: int, last: int) -> None:
            kernel.evidence(
                *rows, damp, own, taken, self.cells.ptr, self.cells.cls, self.cells.val, self.lift, self.known,
                self.total, self.dense_row, self.dense, pseudo, pseudo_left, entropy, of_class, factor, self.strength,
                KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE, out, first, last,
            )  # fmt: skip

        in_pieces(len(own), threads(n_jobs, 8 * len(rows[1])), work)
