"""The tree of columns with the greatest mutual information given the class (Chow and Liu 1968).

Among all trees, the one whose edges have the greatest sum of I(x_i; x_j | y) makes the rows most likely; its roots are
the columns with the most information on the class (Friedman, Geiger and Goldszmidt 1997). An edge with no more
information than by chance is left out, so that there may be several trees.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from deciban._kernel import contexts, counts
from deciban._typing import Array, Codes, Floats

MAX_KERNEL_CATEGORIES = 254  # of a column, in the kernel's codes of a byte
MISSING_CODE = 255  # the kernel's code of a missing value
DECIMALS = 10  # of nats, which do not depend on the order of summation
MAX_CELLS = 1 << 22  # of the table of a column and its parent by class: larger pairs are not considered


def chow_liu(codes: Codes, sizes: Array, y: Codes, weight: Floats | None, k: int) -> tuple[int, ...]:
    """Each column's parent, −1 for none, from category codes (n, d) and class codes (n,), negative where missing.

    An edge stays if 2N·I is more than twice its degrees of freedom (Akaike's criterion), which is its mean by chance.
    """
    # The order of rows, or weights in place of repeated rows, must not decide between equally informative columns.
    with_class, between = (np.round(nats, DECIMALS) for nats in information(codes, sizes, y, weight, k))
    rows, freedom = pair_weights_and_freedom(codes, sizes, y, weight, k)
    fits = k * np.multiply.outer(sizes, sizes) <= MAX_CELLS
    return spanning_forest(np.where(fits & (rows * between > freedom), between, 0.0), with_class)


def spanning_forest(between: Floats, first: Floats) -> tuple[int, ...]:
    """Parents in the forest with the greatest sum of `between`, zero being no edge; roots are greatest in `first`.

    >>> spanning_forest(np.array([[0, 3, 2, 0], [3, 0, 1, 0], [2, 1, 0, 0], [0, 0, 0, 0.0]]), np.array([0, 1, 0, 0.0]))
    (1, -1, 0, -1)
    """
    d = len(first)
    parents, nearest, strength = np.full(d, -1), np.full(d, -1), np.zeros(d)
    remaining = np.ones(d, dtype=bool)
    for _ in range(d):  # Prim's algorithm, which continues at another root if no edge leads out
        if strength[remaining].max() > 0.0:
            at = int(np.argmax(np.where(remaining, strength, -1.0)))
            parents[at] = nearest[at]
        else:
            at = int(np.argmax(np.where(remaining, first, -np.inf)))
        remaining[at] = False
        closer = remaining & (between[at] > strength)
        nearest[closer], strength[closer] = at, between[at][closer]
    return tuple(parents.tolist())


def information(codes: Codes, sizes: Array, y: Codes, weight: Floats | None, k: int) -> tuple[Floats, Floats]:
    """I(x_j; y), (d,), and I(x_i; x_j | y), (d, d), in nats; zero if a pair is too wide for a table."""
    d = codes.shape[1]
    with_class, between = np.zeros(d), np.zeros((d, d))
    small, wide = np.flatnonzero(sizes <= MAX_KERNEL_CATEGORIES), np.flatnonzero(sizes > MAX_KERNEL_CATEGORIES)
    narrow = np.ascontiguousarray(np.where(codes[:, small] < 0, MISSING_CODE, codes[:, small]).astype(np.uint8))
    sums = np.zeros(len(small)), np.zeros((len(small), len(small)))
    contexts.pair_information(narrow, sizes[small].astype(np.int32), y, weight, k, *sums)
    with_class[small], between[np.ix_(small, small)] = sums
    for i in wide:
        with_class[i] = information_in(count(codes[:, [i]], sizes[[i]], y, weight, k)[None])
        for j in range(d):
            if j != i and (j < i or sizes[j] <= MAX_KERNEL_CATEGORIES) and k * sizes[i] * sizes[j] <= MAX_CELLS:
                both = np.where((codes[:, [i]] < 0) | (codes[:, [j]] < 0), -1, codes[:, [i]] * sizes[j] + codes[:, [j]])
                pairs = count(both, sizes[[i]] * sizes[j], y, weight, k)
                between[i, j] = between[j, i] = information_in(pairs.reshape(k, sizes[i], sizes[j]))
    return with_class, between


def pair_weights_and_freedom(
    codes: Codes, sizes: Array, y: Codes, weight: Floats | None, k: int
) -> tuple[Floats, Floats]:
    """For every pair of columns, the weight of the rows that have both, and the degrees of freedom, (d, d) each.

    A class with r values of one column and s of the other has (r − 1)(s − 1) degrees of freedom.
    """
    cells, offsets = count(codes, sizes, y, weight, k), np.concatenate([[0], np.cumsum(sizes)])
    values = np.array([(cells[:, a:b] > 0).sum(axis=1) for a, b in pairwise(offsets)], dtype=np.float64)
    free = np.maximum(values - 1.0, 0.0)
    w = np.where(y >= 0, 1.0 if weight is None else weight, 0.0)
    present = codes >= 0
    if present.all():
        return np.full((len(sizes), len(sizes)), w.sum()), free @ free.T
    both = np.asarray((present * w[:, None]).T @ present, dtype=np.float64)
    return both, free @ free.T


def information_in(pairs: Floats) -> float:
    """Σ n_cuv log(n_cuv n_c / (n_cu n_cv)) / N of a (c, u, v) table: I(u; v | c) in nats."""
    some = pairs[np.nonzero(pairs)]
    alone = [pairs.sum(axis=axis) for axis in ((1, 2), 2, 1)]
    by_class, left, right = (float((t[t > 0] * np.log(t[t > 0])).sum()) for t in alone)
    total = float(pairs.sum())
    return max(0.0, float((some * np.log(some)).sum()) + by_class - left - right) / total if total > 0 else 0.0


def count(codes: Array, sizes: Array, y: Codes, weight: Floats | None, k: int) -> Floats:
    """Counts of each code of each column by class, (k, cells)."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    out = np.zeros((k, int(offsets[-1])))
    counts.code_counts(codes, y, weight, offsets, out)
    return out
