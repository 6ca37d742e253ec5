"""Tables derived from a block's sums, for every strength of pseudo-counts: see graded.py for the equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deciban._kernel import evidence as kernel
from deciban._typing import Codes, Floats
from deciban.text.items import Rows
from deciban.text.parallel import in_pieces
from deciban.text.store import ItemSums
from deciban.text.sums import damped
from deciban.threads import threads

STRENGTHS = (0.03, 1.0, 30.0)  # pseudo-counts, in units of the mean damped presence; the pool weights all three
KNOTS = np.log([0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5])
MIN_KNOWLEDGE, MAX_KNOWLEDGE = 1e-9, 3.0  # limits of κ: above 0, so that its logarithm is finite
VECTORS = len(KNOTS) + 2  # per strength
MAX_STRENGTHS = 4
PER_BLOCK = len(STRENGTHS) * VECTORS
MAX_CLASS_FACTORS = 32  # distinct factors of classes
MAX_CLASSES_IN_KERNEL = 8  # up to this many classes, the kernel expands an item's evidence without a dense table


class Shares(NamedTuple):
    """Class shares when some weight is taken from one class: `share` of the others, `without_taken` of that class."""

    share: Floats  # π
    without_taken: Floats
    entropy: Floats  # (k + 1,) H(π) with the weight taken from each class, and last from none
    factor: Floats  # s: the factor of each class's share of the pseudo-counts

    @classmethod
    def of(cls, weight: Floats, factor: Floats, taken: float = 0.0) -> Shares:
        total = float(weight.sum()) - taken
        if not total > 0:  # nothing learned, or nothing left: uniform
            share = without_taken = np.full(len(weight), 1.0 / max(1, len(weight)))
        else:
            share, without_taken = weight / total, np.maximum(weight - taken, 0.0) / total
        terms = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1.0)), 0.0)
        own = -np.where(without_taken > 0, without_taken * np.log(np.where(without_taken > 0, without_taken, 1.0)), 0.0)
        entropy = np.append(terms.sum() - terms + own, terms.sum())
        return cls(share, without_taken, np.maximum(entropy, 1e-300), factor)


def class_factors(weight: Floats) -> Floats:
    """The factor of each class's share of the pseudo-counts: about 1/√π, in powers of √2.

    Pseudo-counts in proportion to the classes' shares leave rare classes almost none, and a word in one of their few
    documents would be too strong evidence. Powers of √2 are close enough, and classes with the same factor share work.
    """
    total = float(weight.sum())
    if not total > 0:
        return np.ones(len(weight))
    root = np.sqrt(weight / total)
    power = np.round(-2.0 * np.log2(np.where(root > 0, root, root[root > 0].min()) * root.sum()))
    return np.asarray(2.0 ** (np.maximum(power, power.max() - MAX_CLASS_FACTORS + 1) / 2.0))


def padded(strength: Floats) -> Floats:
    """Strengths, padded to the width of a SIMD vector."""
    out = np.ones(MAX_STRENGTHS)
    out[: len(strength)] = strength
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Tables derived from one block's sums: see `kernel.tables`. Strengths are padded to the width of a SIMD vector."""

    cells: ItemSums
    strength: Floats  # (MAX_STRENGTHS,)
    shares: Shares
    lift: Floats  # (cells, MAX_STRENGTHS)
    known: Floats  # (items, MAX_STRENGTHS)
    total: Floats  # (items,)
    dense_row: Codes  # (items,)
    dense: Floats  # (rows, strengths, k)
    factor: Floats  # distinct factors of the classes
    factor_of: Codes  # (k,) which of them each class has

    @classmethod
    def of(cls, cells: ItemSums, strength: Floats, shares: Shares, n_jobs: int | None = None) -> Tables:
        pseudo = shares.share * shares.factor
        k, is_dense = len(pseudo), (np.diff(cells.ptr) * 2 >= len(pseudo)) & (len(pseudo) > MAX_CLASSES_IN_KERNEL)
        dense_row = np.where(is_dense, np.cumsum(is_dense) - 1, -1).astype(np.int32)
        lift, known, total = (
            np.empty((len(cells.cls), MAX_STRENGTHS)),
            np.empty((cells.size, MAX_STRENGTHS)),
            np.empty(cells.size),
        )
        factor, factor_of = np.unique(shares.factor, return_inverse=True)
        dense, strengths = np.zeros((int(is_dense.sum()), len(strength), k)), padded(strength)
        out = cls(cells, strengths, shares, lift, known, total, dense_row, dense, factor, factor_of.astype(np.int32))

        def work(first: int, last: int) -> None:
            summed = cells.ptr, cells.cls, cells.val
            kernel.tables(*summed, pseudo, strengths, lift, known, total, dense_row, dense, first, last)

        in_pieces(cells.size, threads(n_jobs, 8 * len(cells.cls)), work)
        return out

    def evidence(
        self,
        rows: Rows,
        own: Codes,
        taken: Floats,
        out: Floats,
        n_jobs: int | None = None,
        classes: Codes | None = None,
    ) -> None:
        """Write the vectors of each row into out (n, strengths · vectors, k), which must be zero; if `classes` are
        given, for these only."""
        damping, (share, without_taken, entropy, by_class) = damped(rows), self.shares
        pseudo, pseudo_left, column = share * by_class, without_taken * by_class, None
        if classes is not None:
            column = np.full(len(share), -1, dtype=np.int32)
            column[classes] = np.arange(len(classes))

        def work(first: int, last: int) -> None:
            kernel.evidence(
                *rows, damping, own, taken, self.cells.ptr, self.cells.cls, self.cells.val, self.lift, self.known,
                self.total, self.dense_row, self.dense, pseudo, pseudo_left, entropy, self.factor_of, self.factor,
                self.strength, KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE, out, first, last, classes, column,
            )  # fmt: skip

        in_pieces(len(own), threads(n_jobs, 8 * len(rows[1])), work)
