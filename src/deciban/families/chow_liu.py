"""Which columns hang on which: the tree of greatest information given the class (Chow and Liu 1968).

Among all trees, the one whose edges have the greatest sum of I(x_i; x_j | y) makes the rows most likely; its roots are
the columns that tell most of the class (Friedman, Geiger and Goldszmidt 1997). An edge that tells no more than chance
would is left out, so that there may be several trees.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from deciban._kernel import contexts, counts
from deciban._typing import Array, Codes, Floats

SMALL = 254  # categories that the kernel's codes tell apart
NEVER = 255  # its code of an entry that is left out
ROUNDING = 10  # decimals of a nat that adding up in another order leaves alone
MOST_CELLS = 1 << 22  # a column and its parent whose table by class would have more are not looked at


def chow_liu(codes: Codes, sizes: Array, y: Codes, weight: Floats | None, k: int) -> tuple[int, ...]:
    """Each column's parent, −1 for none, from category codes (n, d) and class codes (n,), negative where missing.

    An edge stays if 2N·I is more than twice its degrees of freedom (Akaike's criterion): by chance it is as many.
    """
    # Rows in another order, or a weight for rows that are alike, must not decide between columns that tell the same.
    with_class, between = (np.round(nats, ROUNDING) for nats in information(codes, sizes, y, weight, k))
    rows, freedom = chance(codes, sizes, y, weight, k)
    fits = k * np.multiply.outer(sizes, sizes) <= MOST_CELLS
    return spanning_forest(np.where(fits & (rows * between > freedom), between, 0.0), with_class)


def spanning_forest(between: Floats, first: Floats) -> tuple[int, ...]:
    """Parents in the forest with the greatest sum of `between`, zero being no edge; roots are greatest in `first`.

    >>> spanning_forest(np.array([[0, 3, 2, 0], [3, 0, 1, 0], [2, 1, 0, 0], [0, 0, 0, 0.0]]), np.array([0, 1, 0, 0.0]))
    (1, -1, 0, -1)
    """
    d = len(first)
    parents, nearest, strength = np.full(d, -1), np.full(d, -1), np.zeros(d)
    left = np.ones(d, dtype=bool)
    for _ in range(d):  # Prim's algorithm, which goes on at another root where no edge leads out
        if strength[left].max() > 0.0:
            at = int(np.argmax(np.where(left, strength, -1.0)))
            parents[at] = nearest[at]
        else:
            at = int(np.argmax(np.where(left, first, -np.inf)))
        left[at] = False
        closer = left & (between[at] > strength)
        nearest[closer], strength[closer] = at, between[at][closer]
    return tuple(parents.tolist())


def information(codes: Codes, sizes: Array, y: Codes, weight: Floats | None, k: int) -> tuple[Floats, Floats]:
    """I(x_j; y), (d,), and I(x_i; x_j | y), (d, d), in nats; zero where a pair is too wide for a table."""
    d = codes.shape[1]
    with_class, between = np.zeros(d), np.zeros((d, d))
    small, wide = np.flatnonzero(sizes <= SMALL), np.flatnonzero(sizes > SMALL)
    narrow = np.ascontiguousarray(np.where(codes[:, small] < 0, NEVER, codes[:, small]).astype(np.uint8))
    sums = np.zeros(len(small)), np.zeros((len(small), len(small)))
    contexts.pair_information(narrow, sizes[small].astype(np.int32), y, weight, k, *sums)
    with_class[small], between[np.ix_(small, small)] = sums
    for i in wide:
        with_class[i] = information_in(count(codes[:, [i]], sizes[[i]], y, weight, k)[None])
        for j in range(d):
            if j != i and (j < i or sizes[j] <= SMALL) and k * sizes[i] * sizes[j] <= MOST_CELLS:
                both = np.where((codes[:, [i]] < 0) | (codes[:, [j]] < 0), -1, codes[:, [i]] * sizes[j] + codes[:, [j]])
                pairs = count(both, sizes[[i]] * sizes[j], y, weight, k)
                between[i, j] = between[j, i] = information_in(pairs.reshape(k, sizes[i], sizes[j]))
    return with_class, between


def chance(codes: Codes, sizes: Array, y: Codes, weight: Floats | None, k: int) -> tuple[Floats, Floats]:
    """For every pair of columns, the weight of the rows that have both, and the degrees of freedom, (d, d) each.

    Under a class in which r values of one and s of the other occur, independence leaves (r − 1)(s − 1) free.
    """
    cells, offsets = count(codes, sizes, y, weight, k), np.concatenate([[0], np.cumsum(sizes)])
    values = np.array([(cells[:, a:b] > 0).sum(axis=1) for a, b in pairwise(offsets)], dtype=np.float64)
    free = np.maximum(values - 1.0, 0.0)
    w = np.where(y >= 0, 1.0 if weight is None else weight, 0.0)
    there = codes >= 0
    if there.all():
        return np.full((len(sizes), len(sizes)), w.sum()), free @ free.T
    both = np.asarray((there * w[:, None]).T @ there, dtype=np.float64)
    return both, free @ free.T


def information_in(pairs: Floats) -> float:
    """Σ n_cuv log(n_cuv n_c / (n_cu n_cv)) / N of a (c, u, v) table: what u tells of v given c, in nats."""
    some = pairs[np.nonzero(pairs)]
    alone = [pairs.sum(axis=axis) for axis in ((1, 2), 2, 1)]
    by_class, left, right = (float((t[t > 0] * np.log(t[t > 0])).sum()) for t in alone)
    total = float(pairs.sum())
    return max(0.0, float((some * np.log(some)).sum()) + by_class - left - right) / total if total > 0 else 0.0


def count(codes: Array, sizes: Array, y: Codes, weight: Floats | None, k: int) -> Floats:
    """How often each code of each column occurs by class, (k, cells)."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    out = np.zeros((k, int(offsets[-1])))
    counts.code_counts(codes, y, weight, offsets, out)
    return out
